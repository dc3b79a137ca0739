// A kernel with its memory, for tests of analyses. A test can launch the kernel with one block, or
// with many blocks that all do the same.
#pragma once

#include <string>
#include <vector>

#include "analysis/launch.hpp"
#include "sim/decode/registers.hpp"
#include "sim/fixture.hpp"

namespace coalesce::analysis {

class Kernel {
  public:
    explicit Kernel(const std::string& body, uint32_t threads = 32, const std::string& before = "")
        : module_(ptx::parse(sim::kernel_text(body, before))),
          variables_(sim::lay_out_memory(module_)),
          in_(threads),
          out_(threads) {
        sim::Buffer in, out;
        in.name = "in";
        in.bytes = in_.size() * sizeof in_[0];
        in.host = reinterpret_cast<std::byte*>(in_.data());
        out.name = "out";
        out.bytes = out_.size() * sizeof out_[0];
        out.host = reinterpret_cast<std::byte*>(out_.data());
        const uint64_t values[] = {memory_.add(in), memory_.add(out), threads};
        parameters_.resize(20);
        std::memcpy(parameters_.data(), values, parameters_.size());
    }

    [[nodiscard]] LaunchRequest request(uint32_t blocks, const char* gpu = "h200") const {
        LaunchRequest r;
        r.launch.grid = {blocks, 1, 1};
        r.launch.block = {uint32_t(in_.size()), 1, 1};
        r.launch.parameters = parameters_;
        r.gpu = model::find_gpu(gpu);
        return r;
    }

    [[nodiscard]] sim::Program program(const LaunchRequest& r) const {
        return sim::decode(module_, *module_.find_function("k"), variables_,
                           sim::engine(watch_for(purpose_of(r))));
    }
    // Returns the program in the form that a Stepper needs.
    [[nodiscard]] sim::Program program(sim::RegisterMap& registers) const {
        return sim::decode(module_, *module_.find_function("k"), variables_,
                           sim::engine(watch_for(Purpose::step)), registers);
    }

    Result launch(LaunchRequest r) {
        const sim::Program p = program(r);
        prepare(p, r);
        return analysis::launch(p, r, memory_, counted_code(p));
    }

    [[nodiscard]] uint64_t out(size_t n) const { return out_[n]; }
    [[nodiscard]] sim::AddressSpace& memory() { return memory_; }

  private:
    ptx::Module module_;
    std::shared_ptr<sim::ModuleMemory> variables_;
    std::vector<sim::Words> in_;
    std::vector<uint64_t> out_;
    sim::AddressSpace memory_;
    std::vector<std::byte> parameters_;
};

}  // namespace coalesce::analysis
