// Launches of a program: arguments packed, the right observers attached, the result told.
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

#include "bindings/gil.hpp"
#include "bindings/sim_program.hpp"
#include "errors.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

using analysis::Counts;

namespace {

// The groups that the blocks to run belong to.
std::unique_ptr<analysis::GroupedCounts> group(const sim::Launch& launch,
                                               const std::optional<std::vector<uint32_t>>& groups) {
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
py::list layout(const sim::Program& program, const py::list& arguments, const Arguments& arrays,
                uint32_t dynamic_bytes) {
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

const model::Gpu& named_gpu(const std::string& name) {
    const model::Gpu* const gpu = model::find_gpu(name);
    if (!gpu) throw LaunchError("there is no simulated GPU `" + name + "`");
    return *gpu;
}

sim::Dim3 dim3(const std::array<uint64_t, 3>& n) {
    const auto narrow = [](uint64_t v) { return uint32_t(std::min<uint64_t>(v, UINT32_MAX)); };
    return {narrow(n[0]), narrow(n[1]), narrow(n[2])};
}

// A launch of this geometry, which is within the limits.
sim::Launch checked(const sim::Program& program, const model::Gpu& gpu,
                    const std::array<uint64_t, 3>& grid, const std::array<uint64_t, 3>& block,
                    uint32_t shared_bytes, uint64_t instruction_limit) {
    sim::Launch launch;
    launch.grid = dim3(grid);
    launch.block = dim3(block);
    launch.shared_bytes = shared_bytes;
    launch.instruction_limit = instruction_limit;
    sim::Limits limits;
    limits.shared_bytes = gpu.max_block_shared_bytes();
    sim::check(launch, limits, program.shared_bytes, program.kernel);
    if (program.max_block_threads && launch.block.count() > program.max_block_threads) {
        throw LaunchError(program.kernel + ": a block of " + std::to_string(launch.block.count()) +
                          " threads is larger than the kernel's __launch_bounds__ of " +
                          std::to_string(program.max_block_threads));
    }
    return launch;
}

// Of a whole grid, from some of its blocks; the caches' part is of the whole grid already.
model::Work scaled(model::Work work, double by) {
    for (uint64_t* part : {&work.blocks, &work.instructions, &work.fp32, &work.fp64, &work.requests,
                           &work.tag_lookups, &work.shared_wavefronts, &work.constant_lookups})
        *part = uint64_t(double(*part) * by + 0.5);
    return work;
}

std::vector<std::byte> pack(const sim::Program& program, const py::list& arguments,
                            const Arguments& arrays) {
    if (arguments.size() != program.parameters.size()) {
        throw LaunchError(program.kernel + " takes " + std::to_string(program.parameters.size()) +
                          " arguments, got " + std::to_string(arguments.size()));
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
            throw LaunchError("argument " + std::to_string(i) + " of " + program.kernel + " has " +
                              std::to_string(value.size()) + " bytes, needs " +
                              std::to_string(p.bytes));
        }
        std::memcpy(&bytes[p.offset], value.data(), value.size());
    }
    return bytes;
}

}  // namespace

LaunchResult Program::launch(const std::string& entry, std::array<uint64_t, 3> grid,
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
    const model::Occupancy occupancy = model::occupancy(
        gpu, uint32_t(launch.block.count()), registers, program.shared_bytes + launch.shared_bytes);
    std::optional<analysis::CacheReplay> replay;
    if (first_rounds) {
        std::vector<uint64_t> first(std::min(
            launch.grid.count(), uint64_t(first_rounds) * gpu.multiprocessors * occupancy.blocks));
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
        const ReleasedGil no_gil;
        const auto lock = turn();
        if (check) {
            checked = analysis::run_checked(program, launch, memory, shapes);
        } else if (counts) {
            result.counts =
                analysis::run_counted(program, launch, memory, grouped.get(),
                                      recorder ? &*recorder : nullptr, replay ? &*replay : nullptr);
            if (replay) result.caches = replay->finish();
        } else {
            analysis::run(program, launch, memory);
        }
    } catch (...) {
        attendant.flush();
        throw;
    }
    result.host_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
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
                            program.machine.get(), result.caches ? &*result.caches : nullptr);
    if (first_rounds)
        result.work = scaled(result.work, double(launch.grid.count()) /
                                              double(std::max<uint64_t>(1, launch.block_count())));
    result.time = model::modelled_time(gpu, occupancy, result.work);
    result.occupancy = occupancy;
    return result;
}

std::unique_ptr<StepSession> Program::step(const std::string& entry, std::array<uint64_t, 3> grid,
                                           std::array<uint64_t, 3> block, uint32_t shared_bytes,
                                           const py::list& arguments, uint64_t number,
                                           uint64_t instruction_limit, size_t most_events,
                                           const std::string& gpu_name) {
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
        std::unique_lock<Turn> lock;
        {
            const ReleasedGil no_gil;
            lock = turn();
        }
        session =
            std::make_unique<StepSession>(program, known->second->registers, *memory_, arguments);
    }
    launch.parameters = pack(program, arguments, session->arrays);
    session->layout = layout(program, arguments, session->arrays, shared_bytes);
    session->start(std::move(launch), number, most_events);
    return session;
}

}  // namespace coalesce::bindings
