// A module of PTX text, ready to be simulated: what Python launches, counts, checks and steps.
//
// Its files: sim_program.cpp reads and decodes the module and holds its variables, sim_launch.cpp
// launches it, sim.cpp shows it to Python.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/launch.hpp"
#include "bindings/sim.hpp"
#include "fork.hpp"
#include "sass/lift.hpp"

namespace coalesce::bindings {

// A launch's result as Python keeps it.
struct LaunchResult {
    analysis::Result result;
    double host_ms = 0;
    pybind11::object events = pybind11::none();
    pybind11::list memory;
    pybind11::object findings = pybind11::none();
};

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

    // `request` lacks the parameters, which are made of the arguments.
    LaunchResult launch(const std::string& entry, analysis::Request request,
                        const pybind11::list& arguments, pybind11::object progress);
    // One block of a launch, to be walked through, on the arrays as they lie and on variables of
    // its own.
    [[nodiscard]] std::unique_ptr<StepSession> step(const std::string& entry,
                                                    analysis::Request request,
                                                    const pybind11::list& arguments,
                                                    uint64_t number, size_t most_events);
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
    const sim::Program& decoded(const std::string& entry, analysis::Purpose purpose);
    // The program of an entry's machine code; none, and the reason kept, where it cannot be
    // executed.
    std::optional<sim::Program> lift(const std::string& entry, const sim::Engine& engine);
    // Kept, as all counts of a kernel share it.
    const std::shared_ptr<const analysis::Listing>& listing_of(const sim::Program& program);

    ptx::Module module_;
    std::vector<std::string> source_;
    std::shared_ptr<sim::ModuleMemory> memory_;
    std::map<std::pair<std::string, analysis::Purpose>, sim::Program> programs_;
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
