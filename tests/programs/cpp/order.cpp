// The order of static initializers over all objects; each destructor prints.
#include "shared.hpp"

#include <cstdio>

std::vector<std::string> &order() {
    static std::vector<std::string> names;
    return names;
}

Ordered::Ordered(const char *name) : name(name) { order().push_back(name); }
Ordered::~Ordered() { std::printf("destroy %s\n", name); }

__attribute__((init_priority(101))) Ordered order_first("order 101");
__attribute__((init_priority(300))) Ordered order_same("order 300");
Ordered order_late("order");

__attribute__((constructor(150))) static void constructor() { order().push_back("function 150"); }
__attribute__((destructor(150))) static void destructor() { std::puts("destructor function 150"); }
__attribute__((destructor)) static void last() { std::puts("destructor function"); }
