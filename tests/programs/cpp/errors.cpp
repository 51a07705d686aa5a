// Exceptions: thrown, passed through and caught here, for the other objects.
#include "shared.hpp"

#include <exception>
#include <iostream>

__attribute__((init_priority(250))) Ordered errors_early("errors 250");

Failure::~Failure() = default;
Trace::Trace(std::string name) : name(std::move(name)) {
    std::cout << "enter " << this->name << std::endl;
}
Trace::~Trace() { std::cout << "leave " << name << std::endl; }

void throw_failure(int code) { throw Failure("thrown in errors.cpp", code); }

int fail_deep(int depth, int code) {
    Trace trace("depth " + std::to_string(depth));
    if (depth == 3)
        throw_failure(code);
    return fail_deep(depth - 1, code) + 1;
}

int catch_and_rethrow(int code) {
    try {
        try {
            throw DerivedFailure(code);
        } catch (DerivedFailure &failure) {
            failure.path.push_back(1);
            throw;
        }
    } catch (Failure &failure) {
        dynamic_cast<DerivedFailure &>(failure).path.push_back(2);
        throw;
    }
}

void throw_nested() {
    try {
        try {
            throw_failure(1);
        } catch (...) {
            std::throw_with_nested(std::logic_error("middle"));
        }
    } catch (...) {
        std::throw_with_nested(std::runtime_error("outer"));
    }
}

std::string describe_nested(const std::exception &error, int level) {
    std::string text = std::string(level, ' ') + error.what() + '\n';
    try {
        std::rethrow_if_nested(error);
    } catch (const std::exception &inner) {
        text += describe_nested(inner, level + 1);
    }
    return text;
}

Addresses addresses_in_errors() {
    inline_counter() += 20;
    Registry<int>::names.push_back("errors");
    return {&inline_counter(), &twice<int>, &twice<std::string>, &Registry<int>::names,
            &inline_variable, &typeid(Registry<int>)};
}
