// Binds the stepper, which executes one block of a launch step by step.
#include "analysis/trace/step.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstring>
#include <utility>

#include "bindings/gil.hpp"
#include "bindings/sim/sim.hpp"
#include "errors.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

using analysis::Position;
using analysis::Stepper;

StepSession::StepSession(const sim::Program& program, const sim::RegisterMap& registers,
                         const sim::ModuleMemory& variables, const py::list& arguments)
    : program(program),
      registers(registers),
      variables(variables),
      passed(arguments),
      arrays(arguments) {
    this->variables.map_into(memory);
    arrays.map_into(memory);
}

void StepSession::start(sim::GridRun launch, uint64_t number, size_t most_events) {
    grid = launch.grid;
    stepper.emplace(program, registers, std::move(launch), memory, number, most_events);
}

namespace {

// The number of instructions between two checks for Ctrl-C.
constexpr uint64_t instructions_at_once = 1 << 14;

// Protects a stepper, because only one thread at a time may use it.
class StepperLock {
  public:
    explicit StepperLock(StepSession& s) : lock_(s.running, std::try_to_lock) {
        if (!lock_)
            throw LaunchError(
                "another thread of the Python program is using this stepper; use a stepper from "
                "one thread at a time");
    }

  private:
    std::unique_lock<ForkSafe<std::mutex>> lock_;
};

const char* name_of(Position::State state) {
    switch (state) {
        case Position::State::ready:
            return "ready";
        case Position::State::at_barrier:
            return "barrier";
        case Position::State::at_lanes:
            return "lanes";
        case Position::State::ended:
            return "ended";
    }
    return "";
}

py::tuple position(StepSession& s, uint32_t warp) {
    const StepperLock lock(s);
    const Position p = s.stepper->position(warp);
    return py::make_tuple(name_of(p.state), p.pc, p.mask);
}

// Executes an instruction. Returns its (warp, instruction, mask), or None.
py::object step(StepSession& s, std::optional<uint32_t> warp) {
    const StepperLock lock(s);
    (void)s.stepper->take_events();  // discards the events of the previous command
    const auto done = s.stepper->step(warp);
    if (!done) return py::none();
    return py::make_tuple(done->warp, done->pc, done->mask);
}

// Returns true if the run stopped at the condition, and false if the block ended first.
bool run(StepSession& s, const std::vector<uint32_t>& instructions, std::optional<uint32_t> warp,
         bool barrier, std::optional<uint32_t> off_lines) {
    const StepperLock lock(s);
    (void)s.stepper->take_events();
    analysis::Until until;
    if (!instructions.empty() || off_lines)
        until.instructions.resize(s.program.instructions.size());
    for (const uint32_t pc : instructions) until.instructions.at(pc) = true;
    until.warp = warp;
    until.barrier = barrier;
    until.off_lines = off_lines;
    for (;;) {
        Stepper::Outcome outcome{};
        {
            const ReleasedGil no_gil;
            outcome = s.stepper->run(until, instructions_at_once);
        }
        if (outcome != Stepper::Outcome::paused) return outcome == Stepper::Outcome::reached;
        if (const std::string output = s.stepper->take_output(); !output.empty())
            py::print(output, py::arg("end") = "", py::arg("flush") = true);
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
}

// Returns (name, type, mask of lanes that hold a value, bytes of 32 lanes, whether the value is
// still needed) for each register.
py::list registers(StepSession& s, uint32_t warp) {
    const StepperLock lock(s);
    py::list list;
    for (const Stepper::Register& r : s.stepper->registers(warp)) {
        const bool predicate = r.place->type == ptx::Type::pred;
        const size_t bytes = predicate ? sizeof(sim::LaneMask)
                                       : size_t(ptx::size_of(r.place->type)) * sim::warp_size;
        list.append(py::make_tuple(r.place->name, std::string(ptx::name_of(r.place->type)), r.known,
                                   py::bytes(reinterpret_cast<const char*>(r.bytes), bytes),
                                   r.needed));
    }
    return list;
}

// Returns a .local variable of the function that the warp is in, and a mask of its written bytes.
// Both have a row for each lane. Without such a variable, the rows are empty.
py::tuple local(StepSession& s, uint32_t warp, size_t index) {
    const StepperLock lock(s);
    const Stepper::Locals of = s.stepper->local(warp, index);
    const auto lanes = py::ssize_t(sim::warp_size);
    const std::vector<py::ssize_t> shape{lanes, py::ssize_t(of.bytes.size()) / lanes};
    py::array_t<uint8_t> bytes(shape);
    py::array_t<bool> written(shape);
    for (size_t i = 0; i < of.bytes.size(); ++i) {
        bytes.mutable_data()[i] = uint8_t(of.bytes[i]);
        written.mutable_data()[i] = of.written[i];
    }
    return py::make_tuple(bytes, written);
}

// Returns the shared memory of the block, and a mask of its written bytes.
py::tuple shared(StepSession& s) {
    const StepperLock lock(s);
    const std::vector<bool>& written = s.stepper->shared_written();
    py::array_t<uint8_t> bytes{py::ssize_t(written.size())};
    py::array_t<bool> mask{py::ssize_t(written.size())};
    if (!written.empty()) std::memcpy(bytes.mutable_data(), s.stepper->shared(), written.size());
    for (size_t i = 0; i < written.size(); ++i) mask.mutable_data()[i] = written[i];
    return py::make_tuple(bytes, mask);
}

py::tuple take_events(StepSession& s) {
    const StepperLock lock(s);
    const analysis::Trace trace = s.stepper->take_events();
    return py::make_tuple(columns_of(trace.events, s.grid), trace.omitted);
}

// Returns a tuple for each instruction.
py::list listing(const StepSession& s) {
    py::list list;
    for (size_t pc = 0; pc < s.program.instructions.size(); ++pc) {
        const sim::InstructionInfo& i = s.program.instructions[pc];
        const sim::FunctionRegisters& registers = s.registers[i.function];
        const sim::DataFlow& flow = s.program.data_flow[pc];
        py::list writes;
        for (const uint32_t r : flow.writes)
            writes.append(py::make_tuple(registers[r].name, ptx::size_of(registers[r].type)));
        const bool memory = i.space != ptx::Space::reg;
        const bool loads = memory && i.access == sim::Access::load;
        const bool stores = memory && i.access == sim::Access::store;
        list.append(py::make_tuple(
            i.text, i.opcode, i.ptx_line, i.source.file, i.source.line, i.function,
            i.origin.parameter, loads ? i.bytes / i.traits.elements : 0, std::move(writes),
            stores && !flow.address.empty() ? registers[flow.address[0]].name : "", flow.offset,
            stores ? i.bytes : 0, flow.guarded, flow.successors));
    }
    return list;
}

}  // namespace

void add_sim_step(py::module_& m) {
    Class<StepSession>(m, "Stepping", "One block of a launch, executed step by step.")
        .property<[](StepSession& s) { return s.stepper->warps(); }>("warps")
        .property<[](StepSession& s) { return s.stepper->ended(); }>("ended")
        .property<[](StepSession& s) { return s.stepper->warp(); }>("warp")
        .property<[](StepSession& s) { return s.stepper->barriers(); }>("barriers")
        .property<[](StepSession& s) { return s.stepper->steps(); }>("steps")
        .property<&StepSession::layout>(
            "memory", "(space, name, address, bytes, argument or -1) of each array and variable.")
        .property<[](StepSession& s) { return s.program.files; }>("files")
        .property<[](StepSession& s) { return s.program.source_file; }>("source_file")
        .def(
            "listing", &listing,
            "(text, opcode, PTX line, file, line, function, parameter or -1, bytes of a loaded "
            "element or 0, registers written with their bytes (0 for a predicate), register with "
            "the address of a store or \"\", offset from it, stored bytes, whether it has a guard, "
            "instructions that may be next) of each instruction.")
        .def("position", &position, py::arg("warp"),
             "(state, instruction, mask) of what the warp is about to do.")
        .def("step", &step, py::arg("warp") = py::none(),
             "Executes an instruction: (warp, instruction, mask), or None.")
        .def("run", &run, py::arg("instructions"), py::arg("warp") = py::none(),
             py::arg("barrier") = false, py::arg("off_lines") = py::none(),
             "Executes until one of the instructions is reached; false if the block ends first.")
        .def("registers", &registers, py::arg("warp"),
             "(name, type, mask, bytes of 32 lanes, still needed) of each register with a value.")
        .def("local", &local, py::arg("warp"), py::arg("index"),
             "The bytes of a .local variable in each lane, and which of them were written.")
        .def("shared", &shared, "The bytes of shared memory, and which of them were written.")
        .def("take_events", &take_events,
             "The memory events since the last call: (columns, how many more there were).")
        .def("take_output", [](StepSession& s) { return s.stepper->take_output(); });
}

}  // namespace coalesce::bindings
