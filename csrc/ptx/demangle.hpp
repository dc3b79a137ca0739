// Demangles C++ names.
#pragma once

#include <string>

namespace coalesce::ptx {

// Returns "k(float const*)" for "_Z1kPKf". Unnamed namespaces are left out. Names that are not
// mangled are returned unchanged.
std::string demangled(const std::string& name);

// Returns the name of a variable without its scopes: "tile" for "_ZZ1kPiE4tile".
std::string plain_name(const std::string& name);

}  // namespace coalesce::ptx
