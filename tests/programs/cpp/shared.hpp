// What the objects of the C++ program share: inline functions, templates and variables that are
// in every object and must be one in the program.
#pragma once

#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

// ---- inline functions, templates, their static variables
inline int &inline_counter() {
    static int counter = 100;
    return counter;
}

template <typename T> struct Registry {
    static std::vector<std::string> names;
    static int instances;
    T value{};
    Registry() { ++instances; }
};
template <typename T> std::vector<std::string> Registry<T>::names;
template <typename T> int Registry<T>::instances = 0;

template <typename T> inline T twice(T value) { return value + value; }

inline std::string inline_variable = "inline variable";

struct Addresses {
    int *counter;
    int (*twice_int)(int);
    std::string (*twice_string)(std::string);
    std::vector<std::string> *names;
    std::string *variable;
    const std::type_info *type;
};
Addresses addresses_in_shapes();
Addresses addresses_in_errors();
Addresses addresses_in_main();

// ---- shapes: virtual inheritance, dynamic_cast and typeid over objects
struct Named {
    std::string name;
    explicit Named(std::string name) : name(std::move(name)) {}
    virtual ~Named();
};
struct Area : virtual Named {
    Area() : Named("area") {}
    virtual double area() const = 0;
};
struct Colored : virtual Named {
    int color = 7;
    Colored() : Named("colored") {}
    virtual int shade() const { return color * 2; }
};
struct Square final : Area, Colored {
    double side;
    explicit Square(double side) : Named("square"), side(side) {}
    double area() const override;
    int shade() const override;
};
struct Circle : Area {
    double radius;
    explicit Circle(double radius) : Named("circle"), radius(radius) {}
    double area() const override;
};
std::vector<std::unique_ptr<Area>> make_shapes();
const std::type_info &type_of_square();

// ---- exceptions: thrown in one object, caught in another
struct Failure : std::runtime_error {
    int code;
    Failure(const std::string &what, int code) : std::runtime_error(what), code(code) {}
    ~Failure() override;
};
struct DerivedFailure : Failure {
    std::vector<int> path;
    explicit DerivedFailure(int code) : Failure("derived", code) {}
};
struct Trace {
    std::string name;
    explicit Trace(std::string name);
    ~Trace();
};
[[noreturn]] void throw_failure(int code);
int fail_deep(int depth, int code);
int catch_and_rethrow(int code);
void throw_nested();
std::string describe_nested(const std::exception &error, int level = 0);

// ---- threads
void run_threads();
int thread_destructors();

// ---- static initializers with priorities
struct Ordered {
    const char *name;
    explicit Ordered(const char *name);
    ~Ordered();
};
std::vector<std::string> &order();
