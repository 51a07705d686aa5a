// The C++ program's main: each part prints what it does.
#include "shared.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iomanip>
#include <iostream>
#include <locale>
#include <map>
#include <sstream>

__attribute__((init_priority(300))) Ordered main_early("main 300");
Ordered main_late("main");

Addresses addresses_in_main() {
    return {&inline_counter(), &twice<int>, &twice<std::string>, &Registry<int>::names,
            &inline_variable, &typeid(Registry<int>)};
}

static bool same(const Addresses &a, const Addresses &b) {
    return a.counter == b.counter && a.twice_int == b.twice_int &&
           a.twice_string == b.twice_string && a.names == b.names && a.variable == b.variable &&
           a.type == b.type;
}

static void streams() {
    std::cout << "streams: " << 42 << ' ' << 3.25 << ' ' << true << ' ' << std::boolalpha << true
              << ' ' << std::hex << std::showbase << 255 << std::dec << '\n';
    std::cout << std::setw(8) << std::setfill('*') << std::fixed << std::setprecision(3)
              << 2.0 / 3.0 << std::setfill(' ') << std::defaultfloat << std::endl;
    std::istringstream in("17 words 2.5e3");
    int number;
    std::string word;
    double real;
    in >> number >> word >> real;
    std::cout << number << '/' << word << '/' << real << '\n';
    std::string line;
    int lines = 0;
    size_t longest = 0;
    while (std::getline(std::cin, line)) {
        ++lines;
        longest = std::max(longest, line.size());
    }
    std::cout << "stdin: " << lines << " lines, longest " << longest << '\n';
    std::cerr << "to standard error" << std::endl;
}

static void containers() {
    std::map<std::string, std::vector<int>> map;
    for (int i = 0; i < 20; ++i)
        map[std::string(1 + i % 3, char('a' + i % 4))].push_back(i);
    for (const auto &[key, values] : map) {
        std::cout << key << ':';
        for (int value : values)
            std::cout << ' ' << value;
        std::cout << '\n';
    }
    std::vector<std::function<int(int)>> functions;
    for (int i = 1; i <= 3; ++i)
        functions.emplace_back([i](int x) { return x * i; });
    int total = 0;
    for (auto &function : functions)
        total += function(10);
    std::cout << "functions: " << total << '\n';
}

static void shapes() {
    for (const auto &shape : make_shapes()) {
        std::cout << shape->name << " area " << shape->area();
        if (auto *colored = dynamic_cast<Colored *>(shape.get()))
            std::cout << " shade " << colored->shade();
        const Area &area = *shape;
        std::cout << (typeid(area) == type_of_square() ? " is" : " is not") << " a square";
        Named *named = shape.get();
        std::cout << (dynamic_cast<Square *>(named) ? ", cast" : ", no cast") << '\n';
        try {
            std::cout << "radius " << dynamic_cast<Circle &>(*named).radius << '\n';
        } catch (const std::bad_cast &error) {
            std::cout << "caught " << error.what() << '\n';
        }
    }
}

static void exceptions() {
    try {
        Trace trace("in main");
        fail_deep(5, 17);
    } catch (const Failure &failure) {
        std::cout << "caught " << failure.what() << ' ' << failure.code << '\n';
    }
    try {
        catch_and_rethrow(23);
    } catch (const DerivedFailure &failure) {
        std::cout << "rethrown " << failure.code << " path";
        for (int step : failure.path)
            std::cout << ' ' << step;
        std::cout << '\n';
    }
    try {
        throw_nested();
    } catch (const std::exception &error) {
        std::cout << describe_nested(error);
    }
    try {
        std::vector<int>().at(3);
    } catch (const std::out_of_range &) {
        std::cout << "out of range\n";
    }
    try {
        throw 5;
    } catch (int number) {
        std::cout << "int " << number << '\n';
    }
    int values[] = {3, 1, 2};
    try {
        // Through frames of the C library.
        std::qsort(values, 3, sizeof(int), [](const void *, const void *) -> int {
            throw std::string("from qsort");
        });
    } catch (const std::string &text) {
        std::cout << text << '\n';
    }
    std::exception_ptr kept;
    try {
        throw_failure(31);
    } catch (...) {
        kept = std::current_exception();
    }
    try {
        std::rethrow_exception(kept);
    } catch (const Failure &failure) {
        std::cout << "kept " << failure.code << '\n';
    }
}

int main(int argc, char **argv) {
    std::cout << "order:";
    for (const auto &name : order())
        std::cout << ' ' << '[' << name << ']';
    std::cout << '\n';
    for (int i = 1; i < argc; ++i)
        std::cout << "argument " << argv[i] << '\n';
    streams();
    containers();
    Registry<int> one, two;
    Registry<int>::names.push_back("main");
    std::cout << "same addresses: " << same(addresses_in_main(), addresses_in_shapes())
              << same(addresses_in_main(), addresses_in_errors()) << '\n';
    inline_counter() += 1;
    std::cout << "shared counter " << inline_counter() << ", instances "
              << Registry<int>::instances << ", names " << Registry<int>::names.size() << '\n';
    shapes();
    exceptions();
    run_threads();
    std::cout << "thread_local destructors " << thread_destructors() << std::endl;
    std::atexit([] { std::puts("atexit: first registered"); });
    static Trace in_function("function-local static");
    std::atexit([] { std::puts("atexit: last registered"); });
    std::cout << "end of main" << std::endl;
    return 42;
}
