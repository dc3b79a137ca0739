// A program is a module of PTX text. Python can launch, count, check and step its kernels.
//
// program.cpp reads and decodes the module and holds its variables. launch.cpp launches it.
// sim.cpp binds it to Python.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "analysis/launch.hpp"
#include "bindings/sim/compile.hpp"
#include "bindings/sim/sim.hpp"
#include "fork.hpp"
#include "sass/lift.hpp"

namespace coalesce::bindings {

// The result of a launch, as Python keeps it.
struct LaunchResult {
    analysis::Result result;
    double host_ms = 0;
    pybind11::object events = pybind11::none();
    pybind11::list memory;
    pybind11::object findings = pybind11::none();
};

class SimulatedModule {
  public:
    // `listing` is None, or a function that returns the text of the machine code. It is called when
    // the text is first needed. `functions` maps the names of the machine code's functions to their
    // addresses. `filename` is the name that the PTX uses for the file of `source`. It may be "" if
    // all kernels are in this file. `member_accesses` are only needed for a check
    // (sim/run/outside_member.hpp).
    SimulatedModule(std::string ptx, const std::string& source, pybind11::object listing,
                    std::map<std::string, uint64_t, std::less<>> functions, std::string filename,
                    const std::vector<std::pair<std::string, std::string>>& member_accesses);

    [[nodiscard]] std::vector<std::string> entries() const;
    // Returns (type, bytes, alignment, is a pointer) for each parameter.
    [[nodiscard]] pybind11::list parameters(const std::string& entry) const;
    // Returns (name, space, type, bytes, alignment) for each variable of the module.
    [[nodiscard]] pybind11::list variables() const;
    [[nodiscard]] pybind11::bytes read_variable(const std::string& name);
    void write_variable(const std::string& name, const std::string& value);

    // Launches a kernel. The function makes the parameters of `request` from the arguments.
    LaunchResult launch(const std::string& entry, analysis::LaunchRequest request,
                        const pybind11::list& arguments, pybind11::object progress);
    // Prepares one block of a launch for stepping. The block uses the arrays themselves, but its
    // own copies of the module's variables.
    [[nodiscard]] std::unique_ptr<StepSession> step(const std::string& entry,
                                                    analysis::LaunchRequest request,
                                                    const pybind11::list& arguments,
                                                    uint64_t number, size_t most_events);
    // Returns a Counts object whose counts are all zero. If `of_ptx` is true, they are for the
    // instructions of the PTX. Otherwise they are for the instructions of the machine code. The
    // object is made once and shared.
    [[nodiscard]] pybind11::object no_counts(const std::string& entry, bool of_ptx);
    // Returns the instructions of the PTX by which blocks may communicate, as their indices.
    [[nodiscard]] std::vector<uint32_t> exchanges(const std::string& entry);
    // Returns the spaces in which addresses depend on the results of atomics.
    [[nodiscard]] std::set<ptx::Space> spaces_ordered_by_atomics(const std::string& entry);
    // Returns which of a kernel's code is compiled for the host, for each shape of blocks.
    [[nodiscard]] std::vector<std::string> compiled(const std::string& entry) const;
    // Returns why counting executes the PTX of a kernel, or "" if it executes the machine code.
    [[nodiscard]] std::string why_ptx(const std::string& entry);

  private:
    // A mutex that knows which thread holds it.
    class OwnedMutex {
      public:
        bool try_lock_for(std::chrono::milliseconds duration) {
            if (!mutex_.try_lock_for(duration)) return false;
            owner_ = std::this_thread::get_id();
            return true;
        }
        void unlock() {
            owner_ = std::thread::id();
            mutex_.unlock();
        }
        [[nodiscard]] bool is_mine() const { return owner_ == std::this_thread::get_id(); }

      private:
        std::timed_mutex mutex_;
        std::atomic<std::thread::id> owner_;
    };
    using LaunchLock = ForkSafe<OwnedMutex>;
    // Waits until no other launch of this program runs. Launches must not run at the same time,
    // because they share the variables of the module. Call this without the GIL. The launch of
    // another thread may never end; therefore Ctrl-C ends the wait. During a launch, this thread
    // may execute a signal handler or the function `progress`. If these launch a kernel of the same
    // module, the wait would never end. Therefore this is an error.
    [[nodiscard]] std::unique_lock<LaunchLock> lock_launches();
    [[nodiscard]] std::span<std::byte> variable(const std::string& name);
    [[nodiscard]] const ptx::Function& find(const std::string& entry) const;
    const sim::Program& decoded(const std::string& entry, analysis::Purpose purpose);
    // Returns the compiled code for a launch, or null if compiled code must not execute it.
    std::shared_ptr<KernelCode> code_for(const std::string& entry,
                                         const analysis::LaunchRequest& request);
    // Gives a program the lines of the source, for messages.
    void add_source_lines(sim::Program& program) const;
    // Makes a program that executes the machine code of a kernel. If the simulator cannot execute
    // this code, the function returns nothing and stores the reason.
    std::optional<sim::Program> lift(const std::string& entry, const sim::Engine& engine);
    // Returns a description that is stored, because all counts of a kernel share it.
    const std::shared_ptr<const analysis::CountedCode>& counted_code(const sim::Program& program);

    ptx::Module module_;
    std::string filename_;
    std::vector<std::string> source_;
    std::vector<sim::MemberAccess> member_accesses_;
    std::shared_ptr<sim::ModuleMemory> memory_;
    std::map<std::pair<std::string, analysis::Purpose>, sim::Program> programs_;
    struct Stepped {
        sim::Program program;
        sim::RegisterMap registers;
    };
    std::map<std::string, std::unique_ptr<Stepped>> stepped_;
    pybind11::object make_listing_;  // returns the text of the machine code
    // The listing of a cubin for the same architecture.
    std::optional<sass::Listing> machine_;
    std::string no_machine_ = "there is no machine code";
    std::map<std::string, std::string> why_ptx_;  // for each entry, the reason for counting its PTX
    // The key is a kernel and the number of a ThreadShape.
    std::map<std::pair<std::string, int>, std::shared_ptr<KernelCode>> compiled_;
    std::map<const sim::Program*, std::shared_ptr<const analysis::CountedCode>> counted_codes_;
    // The results of no_counts(), by its arguments.
    std::map<std::pair<std::string, bool>, pybind11::object> no_counts_;
    std::unique_ptr<LaunchLock> running_ = std::make_unique<LaunchLock>();
};

}  // namespace coalesce::bindings
