#include "cuda/library.hpp"

#include <dlfcn.h>

namespace coalesce::cuda {

Library::Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
        const char* words = dlerror();
        error_ = words != nullptr ? words : "unknown error";
    }
}

// Libraries are never closed: the driver and NVRTC keep threads and thread-local data.
Library::~Library() = default;

void* Library::address_of(const char* symbol) const {
    return handle_ != nullptr ? dlsym(handle_, symbol) : nullptr;
}

}  // namespace coalesce::cuda
