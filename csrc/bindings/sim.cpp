// The simulator as Python sees it: a Program made of PTX text, launched on NumPy arrays.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <sstream>

#include "analysis/engines.hpp"
#include "bindings/sim.hpp"
#include "errors.hpp"
#include "model/time.hpp"
#include "sass/lift.hpp"
#include "sim/heap.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

namespace {

using analysis::Counts;

struct LaunchResult {
    std::optional<Counts> counts;
    std::optional<model::Time> time;
    model::Work work;
    model::Occupancy occupancy;
    std::optional<analysis::CacheResult> caches;
    double host_ms = 0;
    std::vector<Counts> groups;
    py::object events = py::none();
    uint64_t omitted = 0;
    py::list memory;
    py::object findings = py::none();
};

// What a program is decoded for.
// Counting is of the machine code where there is some that can be executed, a trace is of the PTX.
enum class Purpose : uint8_t { run, count, trace, check };

class Program {
  public:
    Program(std::string ptx, const std::string& source, py::object listing)
        : module_(ptx::parse(std::move(ptx))), make_listing_(std::move(listing)) {
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
            const auto lock = turn();
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
        const auto lock = turn();
        std::memcpy(bytes.data(), value.data(), value.size());
    }

    LaunchResult launch(const std::string& entry, std::array<uint64_t, 3> grid,
                        std::array<uint64_t, 3> block, uint32_t shared_bytes,
                        const py::list& arguments, bool counts, uint64_t instruction_limit,
                        uint32_t workers, std::optional<std::vector<uint64_t>> blocks,
                        const std::optional<std::vector<uint32_t>>& groups, uint32_t exemplars,
                        std::optional<analysis::Recording> record, py::object progress,
                        const std::optional<py::dict>& check, const std::string& gpu_name,
                        uint32_t registers, bool caches, uint32_t first_rounds) {
        const model::Gpu& gpu = named_gpu(gpu_name);
        const bool traces = record.has_value();
        counts = counts || groups || exemplars || record;
        const sim::Program& program = decoded(entry, check    ? Purpose::check
                                                     : traces ? Purpose::trace
                                                     : counts ? Purpose::count
                                                              : Purpose::run);
        sim::Launch launch = checked(program, gpu, grid, block, shared_bytes, instruction_limit);
        launch.workers = workers;
        launch.blocks = std::move(blocks);

        sim::AddressSpace memory;
        program.memory->map_into(memory);
        Arguments arrays(arguments);
        arrays.map_into(memory);
        launch.parameters = pack(program, arguments, arrays);

        LaunchResult result;
        std::optional<analysis::Recorder> recorder;
        if (exemplars) record = analysis::Recording::of_exemplars(exemplars, launch);
        if (record) recorder.emplace(*record, program);
        const std::unique_ptr<analysis::GroupedCounts> grouped = group(launch, groups);
        const model::Occupancy occupancy =
            model::occupancy(gpu, uint32_t(launch.block.count()), registers,
                             program.shared_bytes + launch.shared_bytes);
        std::optional<analysis::CacheReplay> replay;
        if (first_rounds) {
            std::vector<uint64_t> first(
                std::min(launch.grid.count(),
                         uint64_t(first_rounds) * gpu.multiprocessors * occupancy.blocks));
            std::iota(first.begin(), first.end(), uint64_t(0));
            launch.blocks = std::move(first);
        }
        if (caches && (!launch.blocks || first_rounds) && launch.block_count() > 0)
            replay.emplace(program, launch, gpu, occupancy);
        analysis::Checked checked;
        const SharedShapes shapes = check ? shared_shapes(*check) : SharedShapes{};
        Attendant attendant(launch, std::move(progress));
        const auto start = std::chrono::steady_clock::now();
        try {
            const py::gil_scoped_release no_gil;
            const auto lock = turn();
            if (check) {
                checked = analysis::run_checked(program, launch, memory, shapes);
            } else if (counts) {
                result.counts = analysis::run_counted(program, launch, memory, grouped.get(),
                                                      recorder ? &*recorder : nullptr,
                                                      replay ? &*replay : nullptr);
                if (replay) result.caches = replay->finish();
            } else {
                analysis::run(program, launch, memory);
            }
        } catch (...) {
            attendant.flush();
            throw;
        }
        result.host_ms =
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                .count();
        attendant.finish();
        result.memory = layout(program, arguments, arrays, shared_bytes);
        if (check) result.findings = tell(checked, program);
        if (!result.counts) return result;
        result.counts->listing = listing_of(program);
        if (grouped) {
            for (Counts& group : grouped->groups) {
                group.instructions.resize(program.instructions.size());
                group.listing = result.counts->listing;
                result.counts->add(group);
            }
            result.groups = std::move(grouped->groups);
        }
        if (recorder) {
            const analysis::Trace trace = recorder->finish();
            result.events = columns_of(trace.events, launch.grid);
            result.omitted = trace.omitted;
        }
        result.work =
            result.counts->work(launch.block_count(), occupancy.warps, arrays.total_bytes(),
                                result.caches ? &*result.caches : nullptr);
        if (first_rounds)
            result.work =
                scaled(result.work, double(launch.grid.count()) /
                                        double(std::max<uint64_t>(1, launch.block_count())));
        result.time = model::modelled_time(gpu, occupancy, result.work);
        result.occupancy = occupancy;
        return result;
    }

    // One block of a launch, to be walked through, on the arrays as they lie and on variables of
    // its own.
    [[nodiscard]] std::unique_ptr<StepSession> step(
        const std::string& entry, std::array<uint64_t, 3> grid, std::array<uint64_t, 3> block,
        uint32_t shared_bytes, const py::list& arguments, uint64_t number,
        uint64_t instruction_limit, size_t most_events, const std::string& gpu_name) {
        auto known = stepped_.find(entry);
        if (known == stepped_.end()) {
            auto added = std::make_unique<Stepped>();
            added->program = sim::decode(module_, find(entry), memory_, analysis::stepping_engine(),
                                         added->registers);
            added->program.source = source_;
            known = stepped_.emplace(entry, std::move(added)).first;
        }
        const sim::Program& program = known->second->program;
        sim::Launch launch =
            checked(program, named_gpu(gpu_name), grid, block, shared_bytes, instruction_limit);
        std::unique_ptr<StepSession> session;
        {
            std::unique_lock<std::timed_mutex> lock;
            {
                const py::gil_scoped_release no_gil;
                lock = turn();
            }
            session = std::make_unique<StepSession>(program, known->second->registers, *memory_,
                                                    arguments);
        }
        launch.parameters = pack(program, arguments, session->arrays);
        session->layout = layout(program, arguments, session->arrays, shared_bytes);
        session->start(std::move(launch), number, most_events);
        return session;
    }

    // The counts of no block: zeros, and the instructions, those of the PTX where asked.
    [[nodiscard]] Counts no_counts(const std::string& entry, bool of_ptx) {
        const sim::Program& program = decoded(entry, of_ptx ? Purpose::trace : Purpose::count);
        Counts counts;
        counts.instructions.resize(program.instructions.size());
        const py::gil_scoped_release no_gil;
        const auto lock = turn();
        counts.listing = listing_of(program);
        return counts;
    }

    // Why counting executes the PTX of a kernel and not its machine code; "" where it does not.
    [[nodiscard]] std::string why_ptx(const std::string& entry) {
        decoded(entry, Purpose::count);
        const auto reason = why_ptx_.find(entry);
        return reason == why_ptx_.end() ? "" : reason->second;
    }

  private:
    // Module variables belong to the program: one launch at a time. Called without the GIL; waiting
    // ends with Ctrl-C, as another thread's launch may never end.
    [[nodiscard]] std::unique_lock<std::timed_mutex> turn() {
        std::unique_lock lock(*running_, std::defer_lock);
        while (!lock.try_lock_for(std::chrono::milliseconds(50))) {
            const py::gil_scoped_acquire gil;
            if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        }
        return lock;
    }

    [[nodiscard]] std::span<std::byte> variable(const std::string& name) {
        for (sim::ModuleMemory::Item& item : memory_->items)
            if (item.name == name) return item.bytes;
        throw LaunchError("there is no variable `" + name + "`");
    }

    // The groups that the blocks to run belong to.
    static std::unique_ptr<analysis::GroupedCounts> group(
        const sim::Launch& launch, const std::optional<std::vector<uint32_t>>& groups) {
        if (!groups) return nullptr;
        if (!launch.blocks || groups->size() != launch.blocks->size())
            throw LaunchError("groups must name a group for each of blocks");
        auto grouped = std::make_unique<analysis::GroupedCounts>();
        uint32_t count = 0;
        for (size_t n = 0; n < groups->size(); ++n) {
            grouped->group_of[(*launch.blocks)[n]] = (*groups)[n];
            count = std::max(count, (*groups)[n] + 1);
        }
        grouped->groups.resize(count);
        return grouped;
    }

    // (space, name, address, bytes, argument or -1) of the arrays among the arguments, the module's
    // variables, and the shared variables, whose addresses count from the start of shared memory.
    static py::list layout(const sim::Program& program, const py::list& arguments,
                           const Arguments& arrays, uint32_t dynamic_bytes) {
        py::list list;
        size_t array = 0;
        for (size_t i = 0; i < arguments.size(); ++i) {
            if (!py::isinstance<BufferArgument>(arguments[i])) continue;
            const auto& b = arguments[i].cast<const BufferArgument&>();
            list.append(py::make_tuple("global", b.name, arrays.address(array++), b.array.nbytes(),
                                       py::ssize_t(i)));
        }
        for (const sim::ModuleMemory::Item& v : program.memory->items)
            list.append(py::make_tuple(v.writable ? "global" : "constant", plain_name(v.name),
                                       v.address, v.bytes.size(), -1));
        for (const auto& [name, place] : program.shared_variables)
            list.append(py::make_tuple("shared", plain_name(name), place.first, place.second, -1));
        if (dynamic_bytes)
            list.append(py::make_tuple("shared", "dynamic shared memory", program.shared_bytes,
                                       dynamic_bytes, -1));
        return list;
    }

    static const model::Gpu& named_gpu(const std::string& name) {
        const model::Gpu* const gpu = model::find_gpu(name);
        if (!gpu) throw LaunchError("there is no simulated GPU `" + name + "`");
        return *gpu;
    }

    // A launch of this geometry, which is within the limits.
    static sim::Launch checked(const sim::Program& program, const model::Gpu& gpu,
                               const std::array<uint64_t, 3>& grid,
                               const std::array<uint64_t, 3>& block, uint32_t shared_bytes,
                               uint64_t instruction_limit) {
        sim::Launch launch;
        launch.grid = dim3(grid);
        launch.block = dim3(block);
        launch.shared_bytes = shared_bytes;
        launch.instruction_limit = instruction_limit;
        sim::Limits limits;
        limits.shared_bytes = gpu.max_block_shared_bytes();
        sim::check(launch, limits, program.shared_bytes, program.kernel);
        if (program.max_block_threads && launch.block.count() > program.max_block_threads) {
            throw LaunchError(program.kernel + ": a block of " +
                              std::to_string(launch.block.count()) +
                              " threads is larger than the kernel's __launch_bounds__ of " +
                              std::to_string(program.max_block_threads));
        }
        return launch;
    }

    // Of a whole grid, from some of its blocks; the caches' part is of the whole grid already.
    static model::Work scaled(model::Work work, double by) {
        for (uint64_t* part :
             {&work.blocks, &work.instructions, &work.fp32, &work.fp64, &work.requests,
              &work.tag_lookups, &work.shared_wavefronts, &work.constant_lookups})
            *part = uint64_t(double(*part) * by + 0.5);
        return work;
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

    const sim::Program& decoded(const std::string& entry, Purpose purpose) {
        const std::pair key{entry, purpose};
        const auto known = programs_.find(key);
        if (known != programs_.end()) return known->second;
        const sim::Engine& engine = purpose == Purpose::check ? analysis::checking_engine()
                                    : purpose == Purpose::run ? analysis::silent_engine()
                                                              : analysis::counting_engine();
        std::optional<sim::Program> lifted;
        if (purpose == Purpose::count) lifted = lift(entry, engine);
        sim::Program program =
            lifted ? std::move(*lifted) : sim::decode(module_, find(entry), memory_, engine);
        program.source = source_;
        return programs_.emplace(key, std::move(program)).first->second;
    }

    // The program of an entry's machine code; none, and the reason kept, where it cannot be
    // executed.
    std::optional<sim::Program> lift(const std::string& entry, const sim::Engine& engine) {
        const ptx::Function& function = find(entry);
        try {
            if (!machine_ && !make_listing_.is_none()) {
                const py::object made = std::exchange(make_listing_, py::none())();
                machine_ = sass::read(made.cast<std::string>());
            }
            if (!machine_) throw UnsupportedInstruction(no_machine_);
            return sass::lift(*machine_, module_, function, memory_, engine);
        } catch (const UnsupportedInstruction& e) {
            why_ptx_[entry] = e.what();
        } catch (py::error_already_set& e) {
            if (!e.matches(PyExc_LookupError)) throw;
            no_machine_ = py::str(e.value()).cast<std::string>();
            why_ptx_[entry] = no_machine_;
        }
        return std::nullopt;
    }

    // Kept, as all counts of a kernel share it.
    const std::shared_ptr<const analysis::Listing>& listing_of(const sim::Program& program) {
        auto& listing = listings_[&program];
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
    std::map<std::pair<std::string, Purpose>, sim::Program> programs_;
    struct Stepped {
        sim::Program program;
        sim::RegisterMap registers;
    };
    std::map<std::string, std::unique_ptr<Stepped>> stepped_;
    py::object make_listing_;               // gives the machine code's text when it is first wanted
    std::optional<sass::Listing> machine_;  // of a cubin for the same architecture
    std::string no_machine_ = "there is no machine code";
    std::map<std::string, std::string> why_ptx_;  // by entry
    std::map<const sim::Program*, std::shared_ptr<const analysis::Listing>> listings_;
    std::unique_ptr<std::timed_mutex> running_ = std::make_unique<std::timed_mutex>();
};

}  // namespace

void add_sim(py::module_ m) {
    py::class_<BufferArgument>(
        m, "Buffer",
        "An array argument of a launch: C-contiguous host memory with a name for messages.")
        .def(py::init([](py::array array, std::string name, bool writable, py::object undefined) {
                 if (!(array.flags() & py::array::c_style))
                     throw py::value_error("array of `" + name + "` must be C-contiguous");
                 if (!undefined.is_none() &&
                     py::array_t<bool>::ensure(undefined).nbytes() != array.nbytes())
                     throw py::value_error("undefined of `" + name + "` must have a bool a byte");
                 return BufferArgument{std::move(array), std::move(name), writable,
                                       std::move(undefined)};
             }),
             py::arg("array"), py::arg("name"), py::arg("writable"),
             py::arg("undefined") = py::none());

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
    add_sim_trace(m);
    add_sim_step(m);

    py::class_<LaunchResult>(m, "LaunchResult")
        .def_readonly("counts", &LaunchResult::counts,
                      "Counts, or None if they were not asked for.")
        .def_property_readonly(
            "modelled_ms",
            [](const LaunchResult& r) { return r.time ? std::optional(r.time->ms) : std::nullopt; },
            "Modelled time on the simulated GPU in ms, or None.")
        .def_property_readonly(
            "model",
            [](const LaunchResult& r) -> py::object {
                if (!r.time) return py::none();
                py::dict d;
                d["time"] = as_dict(*r.time);
                d["work"] = as_dict(r.work);
                d["occupancy"] = as_dict(r.occupancy);
                d["caches"] = r.caches ? py::object(as_dict(*r.caches)) : py::none();
                return d;
            },
            "What was modelled: dicts of the time, what it is made of (work), the occupancy and "
            "the\n"
            "caches, None where they were not asked for; or None.")
        .def_readonly("host_ms", &LaunchResult::host_ms,
                      "Time the simulation took on this machine in ms.")
        .def_readonly("groups", &LaunchResult::groups, "The counts of each group of blocks.")
        .def_readonly("events", &LaunchResult::events,
                      "The events that were recorded, a dict of columns, or None.")
        .def_readonly("omitted", &LaunchResult::omitted,
                      "How many events were not recorded for want of space.")
        .def_readonly("memory", &LaunchResult::memory,
                      "(space, name, address, bytes, argument or -1) of each array and variable.")
        .def_readonly("findings", &LaunchResult::findings,
                      "(findings, how many more in groups left out) of a checked run, or None.");

    py::class_<Program>(m, "Program", "A module of PTX text, ready to be simulated.")
        .def(py::init<std::string, const std::string&, py::object>(), py::arg("ptx"),
             py::arg("source") = "", py::arg("listing") = py::none())
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
             py::arg("instruction_limit") = 0, py::arg("workers") = 0,
             py::arg("blocks") = py::none(), py::arg("groups") = py::none(),
             py::arg("exemplars") = 0, py::arg("record") = py::none(),
             py::arg("progress") = py::none(), py::arg("check") = py::none(),
             py::arg("gpu") = "h200", py::arg("registers") = 0, py::arg("caches") = false,
             py::arg("first_rounds") = 0)
        .def("step", &Program::step, py::keep_alive<0, 1>(), py::arg("entry"), py::arg("grid"),
             py::arg("block"), py::arg("shared_bytes"), py::arg("arguments"), py::arg("number"),
             py::arg("instruction_limit") = 0, py::arg("most_events") = 100'000,
             py::arg("gpu") = "h200",
             "One block of a launch, by its linear number, to be walked through.")
        .def("why_ptx", &Program::why_ptx, py::arg("entry"),
             "Why counting executes the PTX of a kernel and not its machine code; \"\" if it does "
             "not.")
        .def("no_counts", &Program::no_counts, py::arg("entry"), py::arg("of_ptx") = false,
             "The counts of a launch of no block: zeros, with the table's instructions.");

    m.def(
        "instruction_set", [] { return sim::name_of(sim::best_isa()); },
        "The host instruction set the simulator uses.");
}

}  // namespace coalesce::bindings
