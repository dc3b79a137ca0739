#include "cuda/library.hpp"

#include <dlfcn.h>

namespace coalesce::cuda {

Library::Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
        const char* words = dlerror();
        error_ = words != nullptr ? words : "unknown error";
    }
}

// Never closed: the driver and NVRTC keep threads and thread-local data that outlive their users.
Library::~Library() = default;

void* Library::address_of(const char* symbol) const {
    return handle_ != nullptr ? dlsym(handle_, symbol) : nullptr;
}

}  // namespace coalesce::cuda
