// NVRTC, the library that compiles CUDA C++ text to PTX and a cubin.
//
// The library comes from the PyPI wheel, a toolkit or conda; the caller provides its path. With a
// real architecture ("-arch=sm_90"), one compilation yields both the cubin for a GPU and the PTX
// for the simulator. So the GPU and the simulator execute the same compiled code. NVRTC needs
// neither a GPU nor a driver.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace coalesce::cuda {

// The result of a compilation.
struct Compilation {
    std::string ptx;
    std::string cubin;                 // empty for a virtual architecture ("-arch=compute_90")
    std::string log;                   // warnings
    std::vector<std::string> lowered;  // the mangled name of each name expression, in order
};

struct NvrtcFunctions;

class Nvrtc {
  public:
    // Throws CompileError if the library cannot be opened or is not NVRTC.
    explicit Nvrtc(const std::string& path);
    ~Nvrtc();

    // Returns the CUDA version of the library, such as {13, 0}.
    [[nodiscard]] std::pair<int, int> version() const { return version_; }

    // Returns the architectures XX that "-arch=sm_XX" accepts, in ascending order: {75, 80, ...}.
    [[nodiscard]] std::vector<int> architectures() const;

    // Compiles `source`. Messages and line information call it `name`. `headers` are (name, text)
    // pairs; #include searches them before any folder. `expressions` are template instantiations to
    // keep, such as "scale<float, 32>". Throws CompileError with the compiler's log as its message.
    [[nodiscard]] Compilation compile(
        const std::string& source, const std::string& name, const std::vector<std::string>& options,
        const std::vector<std::pair<std::string, std::string>>& headers = {},
        const std::vector<std::string>& expressions = {}) const;

  private:
    std::unique_ptr<NvrtcFunctions> functions_;
    std::pair<int, int> version_{0, 0};
};

}  // namespace coalesce::cuda
