// Declarations that the files that bind the simulator share.
#pragma once

#include <pybind11/numpy.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "analysis/caches/cache_replay.hpp"
#include "analysis/check/check.hpp"
#include "analysis/trace/step.hpp"
#include "analysis/trace/trace.hpp"
#include "bindings/bindings.hpp"
#include "fork.hpp"
#include "model/time.hpp"
#include "sim/memory/address_space.hpp"
#include "sim/memory/device_arrays.hpp"
#include "sim/memory/texture.hpp"
#include "sim/program/launch.hpp"
#include "sim/run/device_print.hpp"

namespace coalesce::bindings {

// The host memory to which an argument of a launch points.
struct BufferArgument {
    pybind11::array array;
    std::string name;
    bool writable;
    // Which bytes are undefined: None, or one bool per byte. See sim::Buffer.
    pybind11::object undefined = pybind11::none();
    // The distance in bytes from the start of the array to the pointer that the kernel gets.
    uint64_t offset = 0;
    // If the caller passed a view of the array, the size of the view in bytes. It starts at
    // `offset`.
    std::optional<uint64_t> view_bytes = std::nullopt;
    // Set if the kernel gets a texture or surface object instead of the array. The address of the
    // array in this object is still 0.
    std::optional<sim::TextureObject> texture = std::nullopt;
};

// The memory of a launch. It contains the live device arrays at their own addresses, and the host
// arrays among the arguments. Arrays that overlap share one buffer. So if a kernel writes to one of
// them, it also sees the change in the others.
class Arguments {
  public:
    explicit Arguments(const pybind11::list& values);

    void map_into(sim::AddressSpace& memory);

    // Returns the address of the start of the n-th array.
    [[nodiscard]] uint64_t address(size_t n) const { return pieces_.at(n).address; }
    // Returns the handle of the n-th array's texture object, or 0 if it has none.
    [[nodiscard]] uint64_t handle(size_t n) const { return pieces_.at(n).handle; }
    [[nodiscard]] uint64_t total_bytes() const { return total_bytes_; }

  private:
    struct Piece {
        sim::Buffer buffer;
        uint64_t address = 0;
        std::optional<sim::TextureObject> texture;
        std::unique_ptr<sim::TextureObjectBytes> object;
        uint64_t handle = 0;
    };

    static Piece piece_of(const BufferArgument& b);
    [[nodiscard]] std::vector<size_t> map_device_arrays(sim::AddressSpace& memory);

    std::vector<std::shared_ptr<sim::DeviceArray>> device_arrays_;
    std::vector<Piece> pieces_;
    uint64_t total_bytes_ = 0;
};

// The work of the launching thread while a grid runs. It prints the kernel's output, checks for
// Ctrl-C, and reports progress a few times per second. The GIL must be held during construction and
// finish().
class LaunchMonitor {
  public:
    LaunchMonitor(sim::GridRun& launch, pybind11::object progress);
    LaunchMonitor(const LaunchMonitor&) = delete;
    LaunchMonitor& operator=(const LaunchMonitor&) = delete;

    void flush();
    void finish();
    // Adds a note to KeyboardInterrupt that says where the kernel was stopped, if this is known.
    void add_place(pybind11::error_already_set& error) const;

  private:
    void poll(uint64_t finished);
    void report_progress(uint64_t finished);

    pybind11::object progress_;
    uint64_t blocks_;
    std::chrono::steady_clock::time_point last_report_ = std::chrono::steady_clock::now();
    std::mutex mutex_;
    sim::Printed printed_;
    std::string stopped_at_;
};

// Returns the name of a state space as tables show it: "global", or "" for registers and
// parameters.
[[nodiscard]] const char* name_of(ptx::Space space);

// Returns a dict of columns, one for each property of the events.
[[nodiscard]] pybind11::dict columns_of(const analysis::TraceEvents& events, Dim3 grid);

// The declarations of the shared variables in the source: {name: (shape, bytes per item, type)}.
using SharedShapes = std::map<std::string, analysis::ArrayShape>;
[[nodiscard]] SharedShapes shared_shapes(const pybind11::dict& declared);
// Returns the findings of a checked run: (list of dicts, number of findings in omitted groups).
[[nodiscard]] pybind11::tuple as_tuple(const analysis::Checked& checked,
                                       const sim::Program& program);

// These functions convert modelled values to dicts (model.cpp).
[[nodiscard]] pybind11::dict as_dict(const model::Time& time);
[[nodiscard]] pybind11::dict as_dict(const model::Work& work);
[[nodiscard]] pybind11::dict as_dict(const analysis::CacheResult& caches);
[[nodiscard]] pybind11::dict as_dict(const model::Occupancy& occupancy);

// A launch in which one block is executed step by step. It owns all objects that the block uses.
struct StepSession {
    StepSession(const sim::Program& program, const sim::RegisterMap& registers,
                const sim::ModuleMemory& variables, const pybind11::list& arguments);
    // Starts block `number` of a launch. The launch's `parameters` must be packed.
    void start(sim::GridRun launch, uint64_t number, size_t most_events);

    const sim::Program& program;
    const sim::RegisterMap& registers;
    // The block works on a copy of the variables. So launches between two steps do not change them.
    sim::ModuleMemory variables;
    pybind11::list passed;  // the arguments, which keep the arrays alive
    Arguments arrays;
    sim::AddressSpace memory;
    Dim3 grid;
    pybind11::list layout;
    std::optional<analysis::Stepper> stepper;
    ForkSafe<std::mutex> running;
};

void add_sim_step(pybind11::module_& m);
void add_sim_counts(pybind11::module_& m);
void add_sim_trace(pybind11::module_& m);

}  // namespace coalesce::bindings
