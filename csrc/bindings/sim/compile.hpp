// Compiles kernels with a compiler in Python, while the interpreter runs them.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/jit/compiled.hpp"
#include "sim/jit/translate.hpp"

namespace coalesce::bindings {

// The compiled code of a kernel for blocks of one shape, and what is needed to make it. All
// functions are called with the GIL.
class KernelCode : public std::enable_shared_from_this<KernelCode> {
  public:
    KernelCode(const sim::Program& program, sim::ThreadShape shape)
        : program_(program), shape_(shape) {}

    // Sets the compiler. start(code) compiles what code.next() returns, at once or in a
    // thread. It is called when a kernel has run for so many seconds without compiled code, and is
    // expected to run for as many again. None: kernels are not compiled.
    static void set_compiler(pybind11::object start, double seconds);
    static bool has_compiler();

    // Starts the compiler if this is worthwhile. `elapsed` is the time of the running launch in
    // seconds, in which it has executed the part `done` of its blocks.
    void consider(const pybind11::object& module, double elapsed, double done);
    // A launch has taken this time.
    void spend(double seconds) {
        if (!kernel_.whole) spent_ += seconds;
    }

    // Returns the name and the LLVM code of a function that must be compiled, or nothing.
    std::optional<std::pair<std::string, std::string>> next();
    // Sets the address of the function that next() has returned. `owner` owns its machine code.
    void set(uint64_t address, pybind11::object owner);
    // The compiler has failed. The interpreter continues to execute the kernel.
    void fail(std::string reason);

    [[nodiscard]] const sim::CompiledKernel& kernel() const { return kernel_; }
    // Returns which functions are compiled, how many operations have a translation, and how many
    // have none, or why the kernel is not compiled.
    [[nodiscard]] std::string description() const;

  private:
    [[nodiscard]] bool needs_part() const;
    void end();

    const sim::Program& program_;
    sim::ThreadShape shape_;
    bool busy_ = false, translated_ = false;
    pybind11::object module_;  // while the compiler works: the owner of the program
    std::string failure_;
    double spent_ = 0;
    sim::Translation code_;
    sim::CompiledKernel kernel_;
    std::vector<pybind11::object> owners_;
};

}  // namespace coalesce::bindings
