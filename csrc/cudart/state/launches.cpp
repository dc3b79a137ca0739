// Launches a kernel. A launch is plain (it only computes), counted or checked.
//
// METHOD
// A plain launch executes the PTX. A counted launch executes the machine code and replays the
// caches. It takes longer than a plain launch, but it also yields the modelled time. With --check,
// all launches are checked. Otherwise the launches of each kernel with the same geometry are
// numbered from 1. Those with the numbers 1, 2, 4, 8, ... are counted, and all others are plain. A
// plain launch gets the modelled time of the last counted launch.
//
// In a counted launch with a large grid, only the first blocks are counted. Their number is the
// number of blocks that the GPU holds at once. When all of them have ended, the remaining blocks
// run as in a plain launch. So a first block must not wait for a remaining block. On a GPU, such a
// wait may never end either: a remaining block starts only after one of the first blocks has ended.
// Cooperative launches and launches with clusters are counted as a whole.
//
// A run without --check executes the warps of a block one after another, each up to the next
// barrier. If a kernel has a race, the result may therefore be wrong, although it is right on most
// GPUs, where the warps take turns. So that nobody has to guess, some blocks of a kernel's first
// launch also run with the checker, on a copy of the memory. The report names their first race.
#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "cudart/report/snapshots.hpp"
#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"
#include "cudart/state/work.hpp"
#include "errors.hpp"
#include "sim/run/device_print.hpp"

namespace coalesce::cudart {

namespace {

using analysis::LaunchRequest;
using analysis::Purpose;

// A pointer below this address is null, or an offset from null.
constexpr uint64_t null_pages = 65536;
// Members of an object are at most this far from its start, for messages.
constexpr uint64_t largest_object = 4096;

bool is_object(uint64_t address) {
    return address >= sim::objects_base && address < sim::objects_end;
}

LaunchRequest request_of(const KernelWork& w) {
    Runtime& rt = runtime();
    LaunchRequest r;
    r.gpu = &rt.gpu;
    static_cast<Launch&>(r.launch) = w;
    const auto& registers = w.function->module->known.registers;
    const auto known = registers.find(w.function->entry);
    if (known != registers.end()) r.registers = known->second;
    r.buffer_bytes = rt.memory.used();
    r.most_cluster_blocks = w.function->most_cluster_blocks();
    r.launch.instruction_limit = rt.settings.instruction_limit;
    return r;
}

void add_counts(KernelTotal& total, const analysis::Counts& counts, uint64_t blocks) {
    const auto metrics = counts.metrics();
    const auto metric = [&](const char* what, const char* kind) {
        const auto entry = metrics.find(std::string("l1tex__t_") + what +
                                        "_pipe_lsu_mem_global_op_" + kind + ".sum");
        return entry == metrics.end() ? 0.0 : entry->second;
    };
    total.load_requests += metric("requests", "ld");
    total.load_sectors += metric("sectors", "ld");
    total.store_requests += metric("requests", "st");
    total.store_sectors += metric("sectors", "st");
    total.instructions += double(counts.executed());
    total.blocks_counted += blocks;
    ++total.counted;
}

// Collects what the kernel prints.
struct PrintCollector {
    explicit PrintCollector(sim::GridRun& launch) {
        launch.print = [this](const std::string& text) {
            const std::lock_guard guard(mutex);
            printed.add(text);
        };
    }
    ~PrintCollector() { runtime().printed += printed.take(); }
    std::mutex mutex;
    sim::Printed printed;
};

// Calls f(parameter, address) for each argument that may be a pointer.
template <class F>
void each_pointer(const KernelWork& w, F&& f) {
    const ModuleRecord& module = *w.function->module;
    const auto declared = module.known.parameters.find(w.function->entry);
    uint32_t total = 0;
    const auto parameters = sim::lay_out_parameters(module.entry(w.function->entry), total);
    for (size_t i = 0; i < parameters.size(); ++i) {
        if (parameters[i].bytes != 8) continue;
        uint64_t address = 0;
        std::memcpy(&address, &w.parameters[parameters[i].offset], 8);
        const bool known = declared != module.known.parameters.end() && i < declared->second.size();
        const DeclaredParameter unknown{"argument " + std::to_string(i), 0, ""};
        f(known ? declared->second[i] : unknown, address);
    }
}

// Returns the names that the kernel's source uses for allocations.
Memory::Names names_of(const KernelWork& w) {
    Memory::Names names;
    each_pointer(w, [&](const DeclaredParameter& p, uint64_t address) {
        Allocation* const a = runtime().memory.find(address);
        if (a && a->kind != Kind::variable)
            names.try_emplace(a->address, Memory::Named{p.name, p.type, p.item_bytes});
    });
    return names;
}

// Returns true if the address is in memory of this process that the simulated GPU cannot use.
bool is_host_memory(uint64_t address) {
    if (address <= null_pages || in_arena(address) || address >> 47) return false;
    unsigned char resident = 0;
    const uint64_t page = address & ~uint64_t{4095};
    return mincore(reinterpret_cast<void*>(page), 1, &resident) == 0;
}

// Describes the memory that a fault concerns, one line for each argument that explains it.
// `address` is the address of an access, or the handle of a texture or surface object. `array` is
// the array that the message names.
std::vector<std::string> explanation(const KernelWork& w, const std::string& array,
                                     uint64_t address) {
    const Memory& memory = runtime().memory;
    const std::string freed = address ? memory.freed_at(address) : "";
    std::vector<std::string> lines;
    each_pointer(w, [&](const DeclaredParameter& p, uint64_t pointer) {
        const Allocation* const a = runtime().memory.find(pointer);
        const std::string name = "`" + p.name + "`";
        if (a && p.name == array) {
            lines.push_back(name + " is in " + a->described());
        } else if (!freed.empty() && memory.freed_at(pointer) == freed) {
            lines.push_back(name +
                            (is_object(address) ? " was destroyed: it was "
                                                : " points into memory that was freed: ") +
                            freed);
        } else if (address > null_pages && freed.empty() && array.empty() && !a &&
                   !in_arena(pointer) && pointer > null_pages && p.item_bytes) {
            lines.push_back(name + " points to memory of the host, which kernels cannot use");
        }
    });
    if (lines.empty() && !freed.empty()) lines.push_back("the address is in " + freed);
    if (lines.empty() && array.empty() && is_host_memory(address)) {
        bool passed = false;  // an argument contains a pointer to an object at the address
        for (size_t at = 0; at + 8 <= w.parameters.size(); at += 8) {
            uint64_t pointer = 0;
            std::memcpy(&pointer, &w.parameters[at], 8);
            passed = passed || address - pointer < largest_object;
        }
        Dl_info object{};  // a program or a library that contains the address
        const bool in_program = dladdr(reinterpret_cast<void*>(address), &object) != 0;
        lines.push_back(
            std::string("the address is in memory of the host, which kernels cannot use: ") +
            (passed ? "an argument of the kernel contains a pointer to the host. Copy what a "
                      "structure points to, too. A lambda that uses members of its object contains "
                      "`this`: copy these members to local variables before the lambda"
             : in_program
                 ? "a pointer that the kernel read from memory of the GPU points to a constant or "
                   "a variable of the host program. If the kernel calls a virtual function, a "
                   "kernel must construct the object, because one that the host has constructed "
                   "points to functions of the host"
                 : "a pointer that the kernel read from memory of the GPU points to the host. "
                   "Copy what it points to, too, and store the address of the copy"));
    }
    return lines;
}

std::string explained(const std::string& message, const KernelWork& w, const std::string& array,
                      uint64_t address) {
    std::string text = message;
    for (const std::string& line : explanation(w, array, address)) text += "\n  " + line;
    return text;
}

std::string explained(const MemoryFault& fault, const KernelWork& w) {
    return explained(fault.what(), w, fault.array, fault.address.value_or(0));
}

// Lets the kernel continue after reads near an array, and reports them.
struct OutsideReadReport {
    OutsideReadReport(sim::GridRun& launch, const KernelWork& w) : work(w) {
        launch.outside_reads = &reads;
    }
    ~OutsideReadReport() {
        if (reads.first)
            runtime().report.add_outside_reads(*work.function, explained(*reads.first, work),
                                               reads.count);
    }
    const KernelWork& work;
    sim::OutsideReads reads;
};

// Returns the error of an H200 after a call of an address at which there is no function. The limits
// were guessed from the addresses 3, 2^44 and 2^64 - 16. After a call of 0 or 16, the kernel never
// ends.
Error error_of_call(uint64_t address) {
    if (address % 8 != 0) return cudaErrorInvalidPc;
    if (address <= null_pages) return cudaErrorLaunchFailure;
    return address >> 48 ? cudaErrorIllegalInstruction : cudaErrorIllegalAddress;
}

// Returns the error that a GPU returns after a kernel has stopped for this reason. An H200 does for
// all except `misuse`, whose effect on a GPU is not defined, and the last two: there, the kernel
// never ends.
Error error_of(Fault fault, uint64_t called = 0) {
    switch (fault) {
        case Fault::outside:
        case Fault::read_only:
        case Fault::stack_overflow:
            return cudaErrorIllegalAddress;
        case Fault::misaligned:
            return cudaErrorMisalignedAddress;
        case Fault::assertion:
            return cudaErrorAssert;
        case Fault::illegal_instruction:
            return cudaErrorIllegalInstruction;
        case Fault::no_function:
            return error_of_call(called);
        case Fault::no_object:
        case Fault::trap:
        case Fault::misuse:
        case Fault::instruction_limit:
        case Fault::deadlock:
            break;
    }
    return cudaErrorLaunchFailure;
}

// Runs the launch. If it throws, the exception becomes the permanent error.
void run(const KernelWork& w, const std::function<void()>& body) {
    Runtime& rt = runtime();
    const auto fail = [&](Error error, const std::string& message) {
        rt.fault = error;
        rt.fault_returned = false;
        rt.report.failure = message;
        std::fflush(stdout);
        std::fprintf(stderr, "coalesce: %s\n", rt.report.failure.c_str());
    };
    try {
        body();
    } catch (const MemoryFault& e) {
        fail(error_of(e.fault), explained(e, w));
    } catch (const KernelFault& e) {
        const bool object = e.fault == Fault::no_object;
        fail(error_of(e.fault, e.handle), explained(e.what(), w, "", object ? e.handle : 0));
    } catch (const UnsupportedInstruction& e) {
        fail(cudaErrorNotSupported, e.what());
    } catch (const LaunchError& e) {
        fail(cudaErrorLaunchFailure, e.what());
    }
}

double run_counted(const KernelWork& w, ModuleRecord& module, KernelTotal& total) {
    Runtime& rt = runtime();
    const sim::Program& program = module.program(w.function->entry, Purpose::count);
    LaunchRequest request = request_of(w);
    request.counts = request.caches = true;
    const bool together = w.cooperative || program.has_clusters || w.cluster.count() != 1;
    if (!together) request.first_rounds = 1;
    analysis::prepare(program, request);
    const uint64_t blocks = request.launch.block_count(), all = request.launch.grid.count();
    PrintCollector prints(request.launch);
    OutsideReadReport outside(request.launch, w);
    double ms = 0;
    run(w, [&] {
        const auto result = analysis::launch(program, request, rt.memory.address_space(names_of(w)),
                                             module.counted_code(program));
        add_counts(total, *result.counts, blocks);
        ms = result.time ? result.time->ms : 0;
        if (!result.time) total.no_time = result.counts->not_modelled();
        if (blocks == all) return;
        const sim::Program& plain = module.program(w.function->entry, Purpose::run);
        LaunchRequest rest = request_of(w);
        rest.launch.print = request.launch.print;
        rest.launch.outside_reads = request.launch.outside_reads;
        analysis::prepare(plain, rest);
        rest.launch.first_block = blocks;
        (void)analysis::launch(plain, rest, rt.memory.address_space(names_of(w)), nullptr);
    });
    total.machine_code = module.why_ptx.find(w.function->entry) == module.why_ptx.end();
    if (!total.machine_code) total.why_ptx = module.why_ptx[w.function->entry];
    return ms;
}

void run_plainly(const KernelWork& w, ModuleRecord& module) {
    const sim::Program& program = module.program(w.function->entry, Purpose::run);
    LaunchRequest request = request_of(w);
    analysis::prepare(program, request);
    PrintCollector prints(request.launch);
    OutsideReadReport outside(request.launch, w);
    run(w, [&] {
        (void)analysis::launch(program, request, runtime().memory.address_space(names_of(w)),
                               nullptr);
    });
}

// An argument whose elements were set byte by byte to a small number, as in
// cudaMemset(x, 1, n * sizeof(float)). Each element is then 0x01010101.
struct FilledArgument {
    uint64_t address;
    void* caller;  // the return address of cudaMemset()
    std::string mistake;
};

std::vector<FilledArgument> filled_arguments(const KernelWork& w) {
    constexpr std::byte largest{9};  // larger bytes may be meant: 0x7f makes large numbers
    std::vector<FilledArgument> found;
    each_pointer(w, [&](const DeclaredParameter& p, uint64_t address) {
        const Allocation* const a = runtime().memory.find(address);
        const std::byte value = a ? a->filled.value : std::byte{};
        if (value == std::byte{} || value > largest || p.item_bytes < 2) return;
        if (p.item_bytes > sizeof(uint64_t) || a->end() - address < p.item_bytes) return;
        const std::byte* const element = a->host + (address - a->address);
        if (std::any_of(element, element + p.item_bytes, [&](std::byte b) { return b != value; }))
            return;
        std::string bytes;
        for (uint32_t i = 0; i < p.item_bytes; ++i) bytes += "0" + std::to_string(int(value));
        found.push_back(
            {address, a->filled.caller,
             "cudaMemset() sets bytes, not elements: each " + p.type + " of `" + p.name +
                 "` became 0x" + bytes + ", not " + std::to_string(int(value)) +
                 ", and the kernel `" + w.function->name +
                 "` reads it. Set the elements in a kernel, or copy them from the host"});
    });
    return found;
}

// Returns which bytes the kernel accessed.
analysis::Touched run_checked(const KernelWork& w, ModuleRecord& module) {
    analysis::Touched touched;
    Runtime& rt = runtime();
    const sim::Program& program = module.program(w.function->entry, Purpose::check);
    LaunchRequest request = request_of(w);
    request.check.emplace().strict = rt.settings.strict;
    request.check->wants_touched = true;
    request.check->shared = module.known.shared;
    const auto declared = module.known.parameters.find(w.function->entry);
    for (size_t i = 0; declared != module.known.parameters.end() && i < declared->second.size();
         ++i) {
        const DeclaredParameter& p = declared->second[i];
        if (p.restricted) request.check->restricted.emplace(uint32_t(i), p.name);
    }
    analysis::prepare(program, request);
    const std::vector<FilledArgument> filled = filled_arguments(w);
    PrintCollector prints(request.launch);
    run(w, [&] {
        auto result =
            analysis::launch(program, request, rt.memory.address_space(names_of(w)), nullptr);
        for (analysis::Finding& f : result.checked->findings) {
            for (std::string& line : explanation(w, f.array, f.address))
                f.details.push_back(std::move(line));
        }
        rt.report.add(*w.function, *result.checked, program);
        if (result.checked->fault)
            rt.fault = error_of(*result.checked->fault, result.checked->called);
        touched = std::move(result.checked->touched);
        for (const FilledArgument& a : filled) {
            const auto reads = [&](const auto& range) {
                return range.first <= a.address && a.address < range.second;
            };
            if (std::ranges::any_of(touched.read, reads) ||
                std::ranges::any_of(touched.updated, reads) ||
                std::ranges::any_of(touched.atomics, reads))
                rt.report.add_mistake("wrong fill", a.mistake, a.caller);
        }
    });
    return touched;
}

// The limits of look_for_races(): bytes of memory, and instructions of warps. With them, a kernel
// takes some ten milliseconds.
constexpr uint64_t most_copied = 64u << 20, most_checked_instructions = 100'000;

// Adds the first race of the first two blocks and the last one to the report.
void look_for_races(const KernelWork& w, ModuleRecord& module) {
    Runtime& rt = runtime();
    // A copy of a surface object would still write to the original array.
    const bool has_objects = std::ranges::any_of(
        rt.memory.all(), [](const auto& item) { return is_object(item.first); });
    if (has_objects || rt.heap_used || rt.memory.used() > most_copied) return;
    const sim::Program& program = module.program(w.function->entry, Purpose::check);
    const bool waits_for_blocks = w.cooperative || program.has_clusters || w.cluster.count() != 1;
    if (waits_for_blocks) return;
    LaunchRequest request = request_of(w);
    const uint64_t last = w.grid.count() - 1;
    request.launch.blocks = {0};
    if (last > 0) request.launch.blocks->push_back(1);
    if (last > 1) request.launch.blocks->push_back(last);
    request.launch.instruction_limit = most_checked_instructions;
    request.check.emplace().shared = module.known.shared;
    analysis::prepare(program, request);
    sim::AddressSpace copy;
    std::vector<std::unique_ptr<std::byte[]>> bytes;
    for (sim::Buffer b : rt.memory.address_space(names_of(w)).buffers()) {
        if (b.writable && b.host) {
            bytes.push_back(std::make_unique_for_overwrite<std::byte[]>(b.bytes));
            b.host = std::copy_n(b.host, b.bytes, bytes.back().get()) - b.bytes;
        }
        copy.add_at(std::move(b));
    }
    const auto result = analysis::launch(program, request, copy, nullptr);
    const auto& findings = result.checked->findings;
    const auto race = std::ranges::find_if(findings, [](const analysis::Finding& f) {
        return f.kind == analysis::FindingKind::race && f.severity == analysis::Severity::error;
    });
    if (race != findings.end()) rt.report.add_race(*w.function, *race, program);
}

}  // namespace

void validate(const KernelWork& w) {
    Runtime& rt = runtime();
    ModuleRecord& module = *w.function->module;
    require(w.grid.count() > 0 && w.block.count() > 0, cudaErrorInvalidValue,
            "the launch has no blocks, or its blocks have no threads");
    try {
        const auto purpose = rt.settings.check ? Purpose::check : Purpose::run;
        const sim::Program& program = module.program(w.function->entry, purpose);
        require(w.shared_bytes <= w.function->most_dynamic_shared(program.shared_bytes),
                cudaErrorInvalidValue,
                "a launch with more than 48 KiB of shared memory needs cudaFuncSetAttribute("
                "kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) before");
        LaunchRequest request = request_of(w);
        request.launch.cooperative = false;
        analysis::prepare(program, request);
        rt.heap_used = rt.heap_used || program.allocates;
        if (!w.cooperative) return;
        request.launch.cooperative = true;
        try {
            analysis::prepare(program, request);
        } catch (const LaunchError& e) {
            print_once(std::string("coalesce: ") + e.what());
            throw Failure{cudaErrorCooperativeLaunchTooLarge};
        }
    } catch (const UnsupportedInstruction& e) {
        print_once("coalesce: kernel " + w.function->name + " cannot be simulated: " + e.what());
        rt.report.failure = e.what();
        throw Failure{cudaErrorNotSupported};
    } catch (const OutOfRegisters& e) {
        throw Failure{cudaErrorLaunchOutOfResources, std::string("a launch failed: ") + e.what()};
    } catch (const InvalidCluster& e) {
        throw Failure{cudaErrorInvalidClusterSize, std::string("a launch failed: ") + e.what()};
    } catch (const LaunchError& e) {
        // Before CUDA 13, the code was cudaErrorInvalidConfiguration.
        throw Failure{cudaErrorInvalidValue, std::string("a launch failed: ") + e.what()};
    }
}

double launch(const KernelWork& w, StreamRecord& stream) {
    Runtime& rt = runtime();
    if (rt.fault) return 0;  // nothing runs after a fault
    ModuleRecord& module = *w.function->module;
    KernelTotal& total = rt.report.kernel(*w.function);
    ++total.launches;
    total.blocks += w.grid.count();
    keep_snapshot(w, total.launches);
    Counted& known = w.function->counted[{w.grid, w.block, w.shared_bytes}];
    Operation operation;
    if (total.launches == 1 && !rt.settings.check && !rt.settings.report.empty()) {
        try {
            look_for_races(w, module);
        } catch (const coalesce::Error&) {
            // The launch itself gives this error, too, if a program without the checker does.
        }
    }
    if (rt.settings.check) {
        operation = {"the kernel `" + w.function->name + "`", run_checked(w, module)};
    } else if (std::has_single_bit(++known.launches)) {
        known.ms = run_counted(w, module, total);
    } else {
        run_plainly(w, module);
    }
    rt.order.issue(stream, std::move(operation));
    total.ms += known.ms;
    return known.ms;
}

}  // namespace coalesce::cudart
