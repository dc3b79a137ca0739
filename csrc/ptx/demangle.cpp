#include "ptx/demangle.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace coalesce::ptx {

std::string demangled(const std::string& name) {
    // Other names are not passed to the demangler, because it would read "f" as the type float.
    if (!name.starts_with("_Z")) return name;
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> text(
        abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
    return status == 0 ? text.get() : name;
}

}  // namespace coalesce::ptx
