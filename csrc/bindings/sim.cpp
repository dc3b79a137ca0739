// The simulator as Python sees it: a Program made of PTX text, launched on NumPy arrays.
#include <cxxabi.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>
#include <thread>

#include "analysis/engines.hpp"
#include "bindings/sim.hpp"
#include "errors.hpp"
#include "model/time.hpp"
#include "sim/heap.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

namespace {

using analysis::Counts;

struct LaunchResult {
    std::optional<Counts> counts;
    std::optional<double> modelled_ms;
    double host_ms = 0;
};

struct Interrupted {};

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
}

[[noreturn]] void wait_for_the_end() {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

class Program {
  public:
    Program(std::string ptx, const std::string& source) : module_(ptx::parse(std::move(ptx))) {
        std::istringstream lines(source);
        for (std::string line; std::getline(lines, line);) source_.push_back(line);
        memory_ = sim::lay_out_memory(module_);
    }

    [[nodiscard]] std::vector<std::string> entries() const {
        std::vector<std::string> names;
        for (const ptx::Function& f : module_.functions) {
            if (f.entry) names.push_back(f.name);
        }
        return names;
    }

    [[nodiscard]] py::list parameters(const std::string& entry) const {
        uint32_t total = 0;
        py::list list;
        for (const sim::ParameterInfo& p : sim::lay_out_parameters(find(entry), total)) {
            list.append(
                py::make_tuple(std::string(ptx::name_of(p.type)), p.bytes, p.alignment, p.pointer));
        }
        return list;
    }

    // (name, space, type, bytes, alignment) of the module's own variables.
    [[nodiscard]] py::list variables() const {
        py::list list;
        for (const ptx::Variable& v : module_.variables) {
            if (v.external || !memory_->address_of.contains(v.name)) continue;
            const char* space = v.space == ptx::Space::constant ? "constant" : "global";
            list.append(py::make_tuple(v.name, space, std::string(ptx::name_of(v.type)), v.bytes(),
                                       v.alignment));
        }
        return list;
    }

    [[nodiscard]] py::bytes read_variable(const std::string& name) {
        const std::span<std::byte> bytes = variable(name);
        std::string copy;
        {
            const py::gil_scoped_release no_gil;
            const std::lock_guard lock(*running_);
            copy.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        }
        return copy;
    }

    void write_variable(const std::string& name, const std::string& value) {
        const std::span<std::byte> bytes = variable(name);
        if (value.size() != bytes.size())
            throw LaunchError("variable `" + name + "` has " + std::to_string(bytes.size()) +
                              " bytes; got " + std::to_string(value.size()));
        const py::gil_scoped_release no_gil;
        const std::lock_guard lock(*running_);
        std::memcpy(bytes.data(), value.data(), value.size());
    }

    LaunchResult launch(const std::string& entry, std::array<uint64_t, 3> grid,
                        std::array<uint64_t, 3> block, uint32_t shared_bytes,
                        const py::list& arguments, bool counts, uint64_t instruction_limit,
                        uint32_t workers) {
        const sim::Program& program = decoded(entry, counts);
        sim::Launch launch;
        launch.grid = dim3(grid);
        launch.block = dim3(block);
        launch.shared_bytes = shared_bytes;
        launch.instruction_limit = instruction_limit;
        launch.workers = workers;
        sim::check(launch, sim::Limits{}, program.shared_bytes, program.kernel);
        if (program.max_block_threads && launch.block.count() > program.max_block_threads) {
            throw LaunchError(program.kernel + ": a block of " +
                              std::to_string(launch.block.count()) +
                              " threads is larger than the kernel's __launch_bounds__ of " +
                              std::to_string(program.max_block_threads));
        }

        sim::AddressSpace memory;
        program.memory->map_into(memory);
        Arguments arrays(arguments);
        arrays.map_into(memory);
        launch.parameters = pack(program, arguments, arrays);

        LaunchResult result;
        std::string printed;
        std::mutex mutex;
        launch.print = [&](const std::string& text) {
            const std::lock_guard lock(mutex);
            printed += text;
        };
        const auto flush = [&] {
            std::string text;
            {
                const std::lock_guard lock(mutex);
                text.swap(printed);
            }
            if (!text.empty()) py::print(text, py::arg("end") = "", py::arg("flush") = true);
        };
        launch.poll = [&] {
            // A thread that outlives the interpreter (a daemon thread) may not touch it any more:
            // it waits here for the end of the process.
            if (is_finalizing()) wait_for_the_end();
            try {
                const py::gil_scoped_acquire gil;
                flush();
                if (PyErr_CheckSignals() != 0) throw Interrupted{};
            } catch (const abi::__forced_unwind&) {
                wait_for_the_end();
            }
        };
        const auto start = std::chrono::steady_clock::now();
        try {
            const py::gil_scoped_release no_gil;
            // Module variables belong to the program: one launch at a time.
            const std::lock_guard lock(*running_);
            if (counts) {
                result.counts = analysis::run_counted(program, launch, memory);
                result.counts->listing = listing_of(entry, program);
            } else {
                analysis::run(program, launch, memory);
            }
        } catch (const Interrupted&) {
            throw py::error_already_set();
        } catch (...) {
            flush();
            throw;
        }
        result.host_ms =
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                .count();
        flush();
        if (result.counts)
            result.modelled_ms = model::modelled_ms(
                model::h200, result.counts->work(launch.grid.count(), arrays.total_bytes()));
        return result;
    }

  private:
    [[nodiscard]] std::span<std::byte> variable(const std::string& name) {
        for (sim::ModuleMemory::Item& item : memory_->items)
            if (item.name == name) return item.bytes;
        throw LaunchError("there is no variable `" + name + "`");
    }

    static sim::Dim3 dim3(const std::array<uint64_t, 3>& n) {
        const auto narrow = [](uint64_t v) { return uint32_t(std::min<uint64_t>(v, UINT32_MAX)); };
        return {narrow(n[0]), narrow(n[1]), narrow(n[2])};
    }

    [[nodiscard]] const ptx::Function& find(const std::string& entry) const {
        const ptx::Function* f = module_.find_function(entry);
        if (f && f->entry) return *f;
        std::string message = "there is no kernel `" + entry + "`; the module has";
        const char* separator = " ";
        for (const std::string& name : entries()) {
            message += separator + name;
            separator = ", ";
        }
        throw LaunchError(message);
    }

    const sim::Program& decoded(const std::string& entry, bool counts) {
        const std::pair key{entry, counts};
        const auto known = programs_.find(key);
        if (known != programs_.end()) return known->second;
        sim::Program program =
            sim::decode(module_, find(entry), memory_,
                        counts ? analysis::counting_engine() : analysis::silent_engine());
        program.source = source_;
        return programs_.emplace(key, std::move(program)).first->second;
    }

    // Kept, as all counts of a kernel share it.
    const std::shared_ptr<const analysis::Listing>& listing_of(const std::string& entry,
                                                               const sim::Program& program) {
        auto& listing = listings_[entry];
        if (!listing) listing = analysis::listing_of(program);
        return listing;
    }

    static std::vector<std::byte> pack(const sim::Program& program, const py::list& arguments,
                                       const Arguments& arrays) {
        if (arguments.size() != program.parameters.size()) {
            throw LaunchError(program.kernel + " takes " +
                              std::to_string(program.parameters.size()) + " arguments, got " +
                              std::to_string(arguments.size()));
        }
        std::vector<std::byte> bytes(program.parameter_bytes);
        size_t array = 0;
        for (size_t i = 0; i < program.parameters.size(); ++i) {
            const sim::ParameterInfo& p = program.parameters[i];
            if (py::isinstance<BufferArgument>(arguments[i])) {
                const uint64_t address = arrays.address(array++);
                if (p.bytes != 8)
                    throw LaunchError("argument " + std::to_string(i) + " of " + program.kernel +
                                      " is an array, but the parameter is a scalar");
                std::memcpy(&bytes[p.offset], &address, sizeof address);
                continue;
            }
            const std::string value = py::cast<py::bytes>(arguments[i]);
            if (value.size() != p.bytes) {
                throw LaunchError("argument " + std::to_string(i) + " of " + program.kernel +
                                  " has " + std::to_string(value.size()) + " bytes, needs " +
                                  std::to_string(p.bytes));
            }
            std::memcpy(&bytes[p.offset], value.data(), value.size());
        }
        return bytes;
    }

    ptx::Module module_;
    std::vector<std::string> source_;
    std::shared_ptr<sim::ModuleMemory> memory_;
    std::map<std::pair<std::string, bool>, sim::Program> programs_;
    std::map<std::string, std::shared_ptr<const analysis::Listing>> listings_;
    std::unique_ptr<std::mutex> running_ = std::make_unique<std::mutex>();
};

}  // namespace

void add_sim(py::module_ m) {
    py::class_<BufferArgument>(
        m, "Buffer",
        "An array argument of a launch: C-contiguous host memory with a name for messages.")
        .def(py::init([](py::array array, std::string name, bool writable) {
                 if (!(array.flags() & py::array::c_style))
                     throw py::value_error("array of `" + name + "` must be C-contiguous");
                 return BufferArgument{std::move(array), std::move(name), writable};
             }),
             py::arg("array"), py::arg("name"), py::arg("writable"));

    py::class_<sim::HeapArray, std::shared_ptr<sim::HeapArray>>(
        m, "Memory", "An array in simulated device memory: host memory with a device address.")
        .def(py::init(&sim::allocate_array), py::arg("shape"), py::arg("item_bytes"),
             py::arg("type"))
        .def_property_readonly("address",
                               [](const sim::HeapArray& a) { return a.buffer().address; })
        .def(
            "bytes",
            [](const std::shared_ptr<sim::HeapArray>& a) {
                return py::array_t<uint8_t>(py::ssize_t(a->buffer().bytes),
                                            reinterpret_cast<uint8_t*>(a->buffer().host),
                                            py::cast(a));
            },
            "The memory as a NumPy array that keeps it alive.");

    add_sim_counts(m);

    py::class_<LaunchResult>(m, "LaunchResult")
        .def_readonly("counts", &LaunchResult::counts,
                      "Counts, or None if they were not asked for.")
        .def_readonly("modelled_ms", &LaunchResult::modelled_ms,
                      "Modelled time on the simulated GPU in ms, or None.")
        .def_readonly("host_ms", &LaunchResult::host_ms,
                      "Time the simulation took on this machine in ms.");

    py::class_<Program>(m, "Program", "A module of PTX text, ready to be simulated.")
        .def(py::init<std::string, const std::string&>(), py::arg("ptx"), py::arg("source") = "")
        .def_property_readonly("entries", &Program::entries, "Names of the kernels.")
        .def("parameters", &Program::parameters, py::arg("entry"),
             "(type, bytes, alignment, is_pointer) of each parameter.")
        .def("variables", &Program::variables,
             "(name, \"global\" or \"constant\", type, bytes, alignment) of each variable.")
        .def("read_variable", &Program::read_variable, py::arg("name"), "A variable's bytes.")
        .def("write_variable", &Program::write_variable, py::arg("name"), py::arg("value"),
             "Sets a variable's bytes, for the launches that follow.")
        .def("launch", &Program::launch, py::arg("entry"), py::arg("grid"), py::arg("block"),
             py::arg("shared_bytes"), py::arg("arguments"), py::arg("counts") = false,
             py::arg("instruction_limit") = 0, py::arg("workers") = 0);

    m.def(
        "instruction_set", [] { return sim::name_of(sim::best_isa()); },
        "The host instruction set the simulator uses.");
}

}  // namespace coalesce::bindings
