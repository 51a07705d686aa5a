// Shapes: key functions, so that vtables and type information are here only.
#include "shared.hpp"

__attribute__((init_priority(200))) Ordered shapes_early("shapes 200");
__attribute__((init_priority(400))) Ordered shapes_later("shapes 400");
Ordered shapes_late("shapes");

Named::~Named() = default;
double Square::area() const { return side * side; }
int Square::shade() const { return color + int(side); }
double Circle::area() const { return 3 * radius * radius; }

std::vector<std::unique_ptr<Area>> make_shapes() {
    std::vector<std::unique_ptr<Area>> shapes;
    shapes.push_back(std::make_unique<Square>(3));
    shapes.push_back(std::make_unique<Circle>(2));
    return shapes;
}

const std::type_info &type_of_square() { return typeid(Square); }

Addresses addresses_in_shapes() {
    inline_counter() += 10;
    Registry<int> one;
    Registry<int>::names.push_back("shapes");
    return {&inline_counter(), &twice<int>, &twice<std::string>, &Registry<int>::names,
            &inline_variable, &typeid(Registry<int>)};
}
