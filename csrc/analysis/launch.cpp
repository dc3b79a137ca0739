#include "analysis/launch.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "analysis/compiled_launch.hpp"
#include "analysis/observers.hpp"
#include "analysis/trace/accel_sim.hpp"
#include "errors.hpp"
#include "sim/run/device_heap.hpp"
#include "sim/run/worker.hpp"

namespace coalesce::analysis {

namespace {

// Makes one observer for each host thread, runs the grid, and then passes the observers to `take`,
// one by one.
template <sim::Observer O, class Make, class Take>
void observe(const sim::Program& program, const sim::GridRun& launch, sim::AddressSpace& memory,
             Make&& make, Take&& take) {
    std::vector<decltype(make())> owned;
    std::vector<O*> observers;
    for (uint32_t n = 0; n < sim::worker_count(launch); ++n) {
        owned.push_back(make());
        observers.push_back(&owned.back()->all);
    }
    sim::run_grid<O>(program, launch, memory, observers);
    for (const auto& o : owned) take(*o);
}

// The observers that every counted launch has.
struct Tally {
    explicit Tally(const sim::Program& program) : counts(program), contention(program) {}
    CountObserver counts;
    ContentionObserver contention;
    void add_to(Counts& total) const {
        counts.add_to(total);
        contention.add_to(total);
    }
};

Counts run_counted(const sim::Program& program, const sim::GridRun& launch,
                   sim::AddressSpace& memory, Recorder* recorder, bool exemplars,
                   CacheReplay* replay) {
    Counts total;
    const auto add = [&](const auto& o) { o.add_to(total); };
    const auto add_with_firsts = [&](const auto& o) {
        o.add_to(total);
        recorder->add_firsts(o.firsts.events());
    };
    struct Count : Tally {
        Counting all{counts, contention};
        using Tally::Tally;
    };
    struct ReplayToo : Tally {
        ReplayToo(const sim::Program& p, CacheReplay& r) : Tally(p), caches(p, r, counts) {}
        CacheObserver caches;
        Replaying all{counts, contention, caches};
    };
    struct TraceToo : Tally {
        TraceToo(const sim::Program& p, Recorder& r) : Tally(p), trace(r), firsts(p) {}
        TraceObserver trace;
        FirstEventObserver firsts;
        Tracing all{counts, contention, trace, firsts};
    };
    struct Profile : Tally {
        Profile(const sim::Program& p, CacheReplay& c, Recorder& r)
            : Tally(p), caches(p, c, counts), trace(r), firsts(p) {}
        CacheObserver caches;
        TraceObserver trace;
        FirstEventObserver firsts;
        Profiling all{counts, contention, caches, trace, firsts};
    };
    // Each combination of observers takes a second to compile. Therefore a traced launch has the
    // same observers whether exemplars were requested or not. If they were not, the events that
    // FirstEventObserver has kept are ignored.
    const auto add_trace = [&](const auto& o) { exemplars ? add_with_firsts(o) : add(o); };
    if (recorder && replay) {
        observe<Profiling>(
            program, launch, memory,
            [&] { return std::make_unique<Profile>(program, *replay, *recorder); }, add_trace);
    } else if (recorder) {
        observe<Tracing>(
            program, launch, memory, [&] { return std::make_unique<TraceToo>(program, *recorder); },
            add_trace);
    } else if (replay) {
        observe<Replaying>(
            program, launch, memory, [&] { return std::make_unique<ReplayToo>(program, *replay); },
            add);
    } else {
        observe<Counting>(
            program, launch, memory, [&] { return std::make_unique<Count>(program); }, add);
    }
    return total;
}

template <class Nobody>
void run_plainly(const sim::Program& program, const sim::GridRun& launch, sim::AddressSpace& memory,
                 Nobody nobody) {
    const std::vector<Nobody*> observers(sim::worker_count(launch), &nobody);
    sim::run_grid<Nobody>(program, launch, memory, observers);
}

void write_trace(const sim::Program& program, const LaunchRequest& request,
                 sim::AddressSpace& memory) {
    const uint32_t architecture = request.gpu->major * 10 + request.gpu->minor;
    AccelSimTrace trace(program, request.launch, request.registers, architecture,
                        request.accel_sim);
    const std::vector<AccelSimTrace*> observers{&trace};
    sim::run_grid<AccelSimTrace>(program, request.launch, memory, observers);
    trace.close();
}

model::Occupancy occupancy_of(const sim::Program& program, const LaunchRequest& request) {
    return model::occupancy(*request.gpu, uint32_t(request.launch.block.count()), request.registers,
                            program.shared_bytes + request.launch.shared_bytes);
}

// Sets the cluster size of a launch. If the kernel declares a cluster size, this size is used, and
// not the size of the launch. If the request lists the blocks to run, all other blocks of their
// clusters are added to the list.
void choose_clusters(const sim::Program& program, LaunchRequest& request) {
    sim::GridRun& launch = request.launch;
    const auto text = [](const Dim3& d) {
        return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) +
               ")";
    };
    const auto refuse = [&](const std::string& why) {
        throw InvalidCluster(program.kernel + ": " + why);
    };
    const bool asked = launch.cluster.count() != 1;
    if (program.cluster[0]) {
        const Dim3 declared{program.cluster[0], program.cluster[1], program.cluster[2]};
        if (asked && text(declared) != text(launch.cluster))
            refuse("the launch asks for clusters of " + text(launch.cluster) +
                   " blocks, but the kernel's __cluster_dims__ are " + text(declared));
        launch.cluster = declared;
    }
    launch.explicit_cluster = asked || program.cluster[0];
    launch.has_clusters = program.has_clusters || asked;
    const uint64_t size = launch.cluster.count();
    if (size == 1) return;
    if (size == 0) refuse("the clusters of " + text(launch.cluster) + " have no blocks");
    if (request.gpu->major < 9)
        refuse("clusters of blocks need a GPU of compute capability 9.0 or later");
    if (size > request.most_cluster_blocks)
        refuse("a cluster has " + std::to_string(size) + " blocks; at most " +
               std::to_string(request.most_cluster_blocks) +
               (request.most_cluster_blocks == 8 ? " are portable" : " are possible"));
    if (launch.grid.x % launch.cluster.x || launch.grid.y % launch.cluster.y ||
        launch.grid.z % launch.cluster.z)
        refuse("the grid of " + text(launch.grid) +
               " blocks is not a multiple of the clusters of " + text(launch.cluster));
    if (!launch.blocks) return;
    if (request.record && !request.record->blocks) request.record->blocks = launch.blocks;
    const std::set<uint64_t> wanted(launch.blocks->begin(), launch.blocks->end());
    std::vector<uint64_t> whole;
    for (uint64_t c = 0; c < launch.grid.count() / size; ++c) {
        const auto block = [&](uint64_t rank) { return launch.block_of_cluster(c, rank); };
        bool any = false;
        for (uint64_t rank = 0; rank < size; ++rank) any = any || wanted.contains(block(rank));
        for (uint64_t rank = 0; any && rank < size; ++rank) whole.push_back(block(rank));
    }
    launch.blocks = std::move(whole);
}

// Throws if a multiprocessor does not have enough registers for a block.
void check_registers(const sim::Program& program, const LaunchRequest& request) {
    const auto threads = uint32_t(request.launch.block.count());
    const uint32_t most = model::most_threads(request.registers);
    if (threads <= most) return;
    throw OutOfRegisters(
        program.kernel + " uses " + std::to_string(request.registers) +
        " registers per thread, and a multiprocessor has " + std::to_string(model::registers) +
        ": a block can have at most " + std::to_string(most) + " threads, but the launch has " +
        std::to_string(threads) + ". Launch smaller blocks, or add __launch_bounds__(" +
        std::to_string(threads) + ") to the kernel, so that the compiler uses fewer registers");
}

// Throws if a cooperative launch has too many blocks. It needs all of them on the GPU at once.
void check_cooperative(const sim::Program& program, const LaunchRequest& request) {
    const sim::GridRun& launch = request.launch;
    const model::Occupancy fits = occupancy_of(program, request);
    const uint64_t held = uint64_t{fits.blocks} * request.gpu->multiprocessors;
    if (launch.blocks && launch.blocks->size() != launch.grid.count())
        throw LaunchError(program.kernel +
                          ": only some of the blocks would be simulated, but the blocks of a "
                          "cooperative launch wait for each other; leave out `blocks`");
    if (launch.grid.count() <= held) return;
    throw LaunchError(
        program.kernel +
        ": in a cooperative launch, all blocks must be on the GPU at the same time. The grid has " +
        std::to_string(launch.grid.count()) + " blocks, but the " +
        std::string(request.gpu->title) + " can hold only " + std::to_string(held) + ": " +
        std::to_string(request.gpu->multiprocessors) + " multiprocessors with " +
        std::to_string(fits.blocks) + " blocks each, limited by " + fits.limit +
        ". Launch fewer blocks, and let each block do more work in a loop");
}

}  // namespace

sim::Watch watch_for(Purpose purpose) {
    switch (purpose) {
        case Purpose::run:
            return sim::watch_of<sim::NoObserver>;
        case Purpose::check:
            return sim::watch_of<CheckObserver>;
        default:
            return sim::Watch::accesses;
    }
}
static_assert(sim::watch_of<Counting> == sim::Watch::accesses &&
              sim::watch_of<Profiling> == sim::Watch::accesses);

Purpose purpose_of(const LaunchRequest& request) {
    if (request.check) return Purpose::check;
    if (request.record) return Purpose::trace;
    return request.counting() || !request.accel_sim.empty() ? Purpose::count : Purpose::run;
}

namespace {

void prepare(const sim::Program& program, const model::Gpu& gpu, sim::GridRun& launch) {
    sim::Limits limits;
    limits.shared_bytes = gpu.max_block_shared_bytes();
    sim::check(launch, limits, program.shared_bytes, program.kernel);
    if (program.max_block_threads && launch.block.count() > program.max_block_threads) {
        throw LaunchError(program.kernel + ": a block of " + std::to_string(launch.block.count()) +
                          " threads is larger than the kernel's __launch_bounds__ of " +
                          std::to_string(program.max_block_threads));
    }
    // malloc() changes the address space, and other host threads must not search it at that time.
    if (program.allocates) launch.workers = 1;
    launch.gpu = {gpu.multiprocessors, gpu.warps * uint32_t(sim::warp_size)};
}

}  // namespace

void prepare(const sim::Program& program, LaunchRequest& request) {
    sim::GridRun& launch = request.launch;
    prepare(program, *request.gpu, launch);
    choose_clusters(program, request);
    check_registers(program, request);
    if (launch.cooperative) check_cooperative(program, request);
    if (!request.accel_sim.empty()) launch.workers = 1;
    if (request.exemplars) request.record = Recording::of_exemplars(request.exemplars, launch);
    if (request.first_rounds) {
        const uint64_t held =
            uint64_t{request.gpu->multiprocessors} * occupancy_of(program, request).blocks;
        const uint64_t size = launch.cluster.count();
        const uint64_t wanted = (request.first_rounds * held + size - 1) / size * size;
        std::vector<uint64_t> first(std::min(launch.grid.count(), wanted));
        for (uint64_t n = 0; n < first.size(); ++n) first[n] = launch.block_at(n);
        launch.blocks = std::move(first);
    }
}

void prepare_memory(const sim::GridRun& launch, sim::AddressSpace& memory) {
    sim::DeviceHeap::get().map_into(memory);
    if (launch.cooperative) memory.prepare_grid_workspace();
}

Result launch_compiled(const sim::Program& program, const LaunchRequest& request,
                       sim::AddressSpace& memory, const sim::CompiledKernel& kernel) {
    Result result;
    prepare_memory(request.launch, memory);
    result.occupancy = occupancy_of(program, request);
    run_plainly(program, request.launch, memory, sim::CompiledRun{{}, &kernel});
    return result;
}

Result launch(const sim::Program& program, const LaunchRequest& request, sim::AddressSpace& memory,
              std::shared_ptr<const CountedCode> code) {
    const model::Gpu& gpu = *request.gpu;
    const sim::GridRun& launch = request.launch;
    Result result;
    prepare_memory(launch, memory);
    result.occupancy = occupancy_of(program, request);
    if (request.check) {
        result.checked = run_checked(program, launch, memory, *request.check);
        return result;
    }
    if (!request.accel_sim.empty()) {
        write_trace(program, request, memory);
        return result;
    }
    if (!request.counting()) {
        run_plainly(program, launch, memory, sim::NoObserver{});
        return result;
    }
    std::optional<Recorder> recorder;
    if (request.record) recorder.emplace(*request.record, program);
    std::optional<CacheReplay> replay;
    const bool from_the_start = !launch.blocks || request.first_rounds;
    if (request.caches && from_the_start && launch.block_count() > 0)
        replay.emplace(program, launch, gpu, result.occupancy);
    const bool exemplars = request.record && request.record->exemplars > 0;
    result.counts = run_counted(program, launch, memory, recorder ? &*recorder : nullptr, exemplars,
                                replay ? &*replay : nullptr);
    if (replay) result.caches = replay->finish();
    result.counts->code = std::move(code);
    if (recorder) result.trace = recorder->finish();
    result.work =
        result.counts->work(launch.block_count(), result.occupancy.warps, request.buffer_bytes,
                            program.machine.get(), result.caches ? &*result.caches : nullptr);
    if (request.first_rounds)
        result.work = scaled(result.work, double(launch.grid.count()) /
                                              double(std::max<uint64_t>(1, launch.block_count())));
    if (result.counts->not_modelled().empty())
        result.time = model::modelled_time(gpu, result.occupancy, result.work);
    return result;
}

}  // namespace coalesce::analysis
