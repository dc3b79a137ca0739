// A module of PTX text, ready to be simulated: what Python launches, counts, checks and steps.
//
// Its files: sim_program.cpp reads and decodes the module and holds its variables, sim_launch.cpp
// launches it, sim.cpp shows it to Python.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/engines.hpp"
#include "bindings/sim.hpp"
#include "fork.hpp"
#include "model/time.hpp"
#include "sass/lift.hpp"

namespace coalesce::bindings {

struct LaunchResult {
    std::optional<analysis::Counts> counts;
    std::optional<model::Time> time;
    model::Work work;
    model::Occupancy occupancy;
    std::optional<analysis::CacheResult> caches;
    double host_ms = 0;
    std::vector<analysis::Counts> groups;
    pybind11::object events = pybind11::none();
    uint64_t omitted = 0;
    pybind11::list memory;
    pybind11::object findings = pybind11::none();
};

// What a program is decoded for.
// Counting is of the machine code where there is some that can be executed, a trace is of the PTX.
enum class Purpose : uint8_t { run, count, trace, check };

class Program {
  public:
    // `listing` gives the text of the machine code when it is first wanted, or is None. `functions`
    // are the addresses of its functions, by name.
    Program(std::string ptx, const std::string& source, pybind11::object listing,
            std::map<std::string, uint64_t, std::less<>> functions);

    [[nodiscard]] std::vector<std::string> entries() const;
    // (type, bytes, alignment, is a pointer) of each.
    [[nodiscard]] pybind11::list parameters(const std::string& entry) const;
    // (name, space, type, bytes, alignment) of the module's own variables.
    [[nodiscard]] pybind11::list variables() const;
    [[nodiscard]] pybind11::bytes read_variable(const std::string& name);
    void write_variable(const std::string& name, const std::string& value);

    LaunchResult launch(const std::string& entry, std::array<uint64_t, 3> grid,
                        std::array<uint64_t, 3> block, uint32_t shared_bytes,
                        const pybind11::list& arguments, bool counts, uint64_t instruction_limit,
                        uint32_t workers, std::optional<std::vector<uint64_t>> blocks,
                        const std::optional<std::vector<uint32_t>>& groups, uint32_t exemplars,
                        std::optional<analysis::Recording> record, pybind11::object progress,
                        const std::optional<pybind11::dict>& check, const std::string& gpu_name,
                        uint32_t registers, bool caches, uint32_t first_rounds);
    // One block of a launch, to be walked through, on the arrays as they lie and on variables of
    // its own.
    [[nodiscard]] std::unique_ptr<StepSession> step(
        const std::string& entry, std::array<uint64_t, 3> grid, std::array<uint64_t, 3> block,
        uint32_t shared_bytes, const pybind11::list& arguments, uint64_t number,
        uint64_t instruction_limit, size_t most_events, const std::string& gpu_name);
    // The counts of no block: zeros, and the instructions, those of the PTX where asked.
    [[nodiscard]] analysis::Counts no_counts(const std::string& entry, bool of_ptx);
    // Why counting executes the PTX of a kernel and not its machine code; "" where it does not.
    [[nodiscard]] std::string why_ptx(const std::string& entry);

  private:
    // Module variables belong to the program: one launch at a time. Called without the GIL; waiting
    // ends with Ctrl-C, as another thread's launch may never end.
    using Turn = ForkSafe<std::timed_mutex>;
    [[nodiscard]] std::unique_lock<Turn> turn();
    [[nodiscard]] std::span<std::byte> variable(const std::string& name);
    [[nodiscard]] const ptx::Function& find(const std::string& entry) const;
    const sim::Program& decoded(const std::string& entry, Purpose purpose);
    // The program of an entry's machine code; none, and the reason kept, where it cannot be
    // executed.
    std::optional<sim::Program> lift(const std::string& entry, const sim::Engine& engine);
    // Kept, as all counts of a kernel share it.
    const std::shared_ptr<const analysis::Listing>& listing_of(const sim::Program& program);

    ptx::Module module_;
    std::vector<std::string> source_;
    std::shared_ptr<sim::ModuleMemory> memory_;
    std::map<std::pair<std::string, Purpose>, sim::Program> programs_;
    struct Stepped {
        sim::Program program;
        sim::RegisterMap registers;
    };
    std::map<std::string, std::unique_ptr<Stepped>> stepped_;
    pybind11::object make_listing_;         // gives the machine code's text when it is first wanted
    std::optional<sass::Listing> machine_;  // of a cubin for the same architecture
    std::string no_machine_ = "there is no machine code";
    std::map<std::string, std::string> why_ptx_;  // by entry
    std::map<const sim::Program*, std::shared_ptr<const analysis::Listing>> listings_;
    std::unique_ptr<Turn> running_ = std::make_unique<Turn>();
};

}  // namespace coalesce::bindings
