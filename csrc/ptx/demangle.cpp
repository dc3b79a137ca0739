#include "ptx/demangle.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace coalesce::ptx {

namespace {

// The compiler splits small arrays into variables, such as `tile_$_0`. Returns the array's name.
std::string_view of_array(std::string_view name) {
    const size_t digits = name.find_last_not_of("0123456789") + 1;
    const bool is_part = digits < name.size() && name.substr(0, digits).ends_with("_$_");
    return is_part ? name.substr(0, digits - 3) : name;
}

}  // namespace

std::string demangled(const std::string& symbol) {
    const std::string name{of_array(symbol)};
    // Other names are not passed to the demangler, because it would read "f" as the type float.
    if (!name.starts_with("_Z")) return name;
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> text(
        abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
    if (status != 0) return name;
    // Messages and tables are easier to read without this.
    constexpr std::string_view unnamed = "(anonymous namespace)::";
    std::string readable = text.get();
    for (size_t at = 0; (at = readable.find(unnamed, at)) != std::string::npos;)
        readable.erase(at, unnamed.size());
    return readable;
}

std::string plain_name(const std::string& name) {
    const std::string plain = demangled(name);
    const size_t colons = plain.rfind("::");
    return colons == std::string::npos ? plain : plain.substr(colons + 2);
}

}  // namespace coalesce::ptx
