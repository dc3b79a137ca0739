// A shared library opened at run time.
//
// This package does not link to CUDA. It opens NVRTC and the driver at their first use. So the
// package can be imported on a machine without them, and one build works on every machine.
#pragma once

#include <string>

namespace coalesce::cuda {

class Library {
  public:
    // Opens `path` (a path, or a name for the system's loader). Check ok() before use.
    explicit Library(const std::string& path);
    ~Library();
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    [[nodiscard]] bool ok() const { return handle_ != nullptr; }
    [[nodiscard]] const std::string& error() const { return error_; }  // the loader's message

    // Sets `function` to the address of the symbol. If the library does not have the symbol, the
    // function returns false and sets `function` to null.
    template <class Function>
    bool find(const char* symbol, Function*& function) const {
        function = reinterpret_cast<Function*>(address_of(symbol));
        return function != nullptr;
    }

  private:
    [[nodiscard]] void* address_of(const char* symbol) const;

    void* handle_ = nullptr;
    std::string error_;
};

}  // namespace coalesce::cuda
