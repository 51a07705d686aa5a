// clinch run examples/hello.cpp -- apple cherry banana
#include <algorithm>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

static const std::string &first(const std::vector<std::string> &words) {
    if (words.empty())
        throw std::invalid_argument("no words");
    return words.front();
}

int main(int argc, char **argv) {
    std::vector<std::string> words(argv + 1, argv + argc);
    std::sort(words.begin(), words.end());
    for (const auto &word : words)
        std::cout << word << '\n';
    try {
        std::cout << "first: " << first(words) << std::endl;
    } catch (const std::exception &error) {
        std::cerr << "error: " << error.what() << std::endl;
        return 1;
    }
}
