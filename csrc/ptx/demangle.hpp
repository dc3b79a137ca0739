// The C++ that a mangled name stands for.
#pragma once

#include <string>

namespace coalesce::ptx {

// "k(float const*)" of "_Z1kPKf"; any other name as it is.
std::string demangled(const std::string& name);

}  // namespace coalesce::ptx
