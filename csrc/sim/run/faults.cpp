// The messages for errors of a running kernel: faults and deadlocks.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>

#include "errors.hpp"
#include "sim/handlers/memory/texture.hpp"
#include "sim/memory/device_arrays.hpp"
#include "sim/run/device_heap.hpp"
#include "sim/run/scheduler.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::sim {

namespace {

std::string triple(uint32_t x, uint32_t y, uint32_t z) {
    return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
}

std::string plural(uint64_t n, const std::string& what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

}  // namespace

std::string element(const Buffer& b, int64_t offset) {
    if (b.item_bytes == 0 || b.shape.empty())
        return b.name_at(offset) + " + " + std::to_string(offset) + " bytes";
    int64_t index = offset >= 0 ? offset / int64_t(b.item_bytes)
                                : -((-offset + int64_t(b.item_bytes) - 1) / int64_t(b.item_bytes));
    std::vector<int64_t> at(b.shape.size());
    for (size_t d = b.shape.size(); d-- > 1;) {
        const int64_t n = std::max<int64_t>(1, b.shape[d]);
        at[d] = ((index % n) + n) % n;
        index = (index - at[d]) / n;
    }
    at[0] = index;
    std::string text = b.name_at(offset) + "[";
    const char* const comma = b.variable ? "][" : ", ";
    for (size_t d = 0; d < at.size(); ++d) text += (d ? comma : "") + std::to_string(at[d]);
    return text + "]";
}

std::vector<int64_t> extents_in_memory(std::vector<int64_t> declared, uint32_t item_bytes,
                                       uint64_t bytes) {
    uint64_t known = item_bytes;
    int64_t* unknown = nullptr;
    for (int64_t& n : declared) {
        if (n >= 0)
            known *= uint64_t(n);
        else
            unknown = &n;
    }
    if (known == 0) return {};
    if (unknown) *unknown = int64_t(bytes / known);
    const bool fits = unknown ? bytes >= known : bytes == known;
    return fits ? declared : std::vector<int64_t>{};
}

std::string describe(const Buffer& b, int64_t offset) {
    const Buffer::Part* const part = b.part_at(offset);
    const bool view = part && part->bytes < b.bytes;
    const std::string name = "`" + b.name_at(offset) + (view ? "` is a view of an array" : "`");
    if (b.shape.empty()) return name + (view ? " of " : " has ") + plural(b.bytes, "byte");
    std::string text = name + (view ? " of shape (" : " has shape (");
    for (size_t d = 0; d < b.shape.size(); ++d)
        text += (d ? ", " : "") + std::to_string(b.shape[d]);
    return text + (b.shape.size() == 1 ? ",)" : ")") + ", " + b.type;
}

const char* verb(Access access) {
    switch (access) {
        case Access::load:
            return "read";
        case Access::store:
            return "write";
        case Access::async_copy:
            return "asynchronous copy";
        default:
            return "atomic update";
    }
}

namespace {

// Returns the distance between the lanes of a mask if it is always the same, else 0.
int distance_of_lanes(LaneMask mask) {
    const int first = std::countr_zero(mask), step = std::countr_zero(mask & (mask - 1)) - first;
    LaneMask expected = 0;
    for (int i = first; i < warp_size && std::popcount(expected) < std::popcount(mask); i += step)
        expected |= LaneMask(1) << i;
    return expected == mask ? step : 0;
}

}  // namespace

std::string lane_list(LaneMask mask) {
    std::string text = std::popcount(mask) == 1 ? "lane " : "lanes ";
    if (const int step = std::popcount(mask) > 4 ? distance_of_lanes(mask) : 0; step > 1) {
        const int start = std::countr_zero(mask), last = warp_size - 1 - std::countl_zero(mask);
        return text + std::to_string(start) + ", " + std::to_string(start + step) + ", ..., " +
               std::to_string(last);
    }
    bool first = true;
    for (int i = 0; i < warp_size; ++i) {
        if (!has_lane(mask, i)) continue;
        int last = i;
        while (last + 1 < warp_size && has_lane(mask, last + 1)) ++last;
        text +=
            (first ? "" : ", ") + std::to_string(i) + (last > i ? "-" + std::to_string(last) : "");
        first = false;
        i = last;
    }
    return text;
}

std::string thread_name(const Warp& w, int lane) {
    const Block& b = *w.block;
    const size_t t = size_t(w.index) * warp_size + size_t(lane);
    return "thread " + triple(b.thread_index[0][t], b.thread_index[1][t], b.thread_index[2][t]) +
           " in block " + triple(b.index.x, b.index.y, b.index.z);
}

std::string where(const Program& program, const Op& op) {
    const InstructionInfo& in = program.instructions.at(op.pc);
    std::string text = "kernel " + program.kernel;
    if (in.source.line == 0) return text + ", at " + in.text;
    text += ", line " + std::to_string(in.source.line);
    if (in.source.file != program.source_file) {
        const auto file = program.files.find(in.source.file);
        return text + (file == program.files.end() ? "" : " of " + file->second);
    }
    if (in.source.line <= program.source.size()) {
        const std::string& line = program.source[in.source.line - 1];
        const size_t start = line.find_first_not_of(" \t");
        if (start != std::string::npos) text += ":   " + line.substr(start);
    }
    return text;
}

std::optional<Buffer> freed_memory(const AddressSpace& memory, uint64_t address) {
    if (const Buffer* const freed = memory.freed(address)) return *freed;
    if (memory.freed_before) {
        if (std::optional<Buffer> freed = memory.freed_before(address)) return freed;
    }
    return freed_at(address);
}

bool is_near_array(const AddressSpace& memory, uint64_t address) {
    constexpr uint64_t near = guard_gap << 4;
    const Buffer* const b = memory.nearest(address);
    return b && address + near > b->address && address < b->end() + near;
}

namespace {

std::string attempt(const Op& op, Access access) {
    return std::string(verb(access)) + " of " + plural(op.memory().bytes, "byte");
}

// Returns the array to which the parameter points from which the address is computed, or null.
// Returns null, too, if the array is so far away that no index of 32 bits leads to the address.
const Buffer* array_of_address(const Warp& w, const Op& op, uint64_t address) {
    const Program& program = *w.block->program;
    const int32_t number = program.instructions[op.pc].origin.parameter;
    if (number < 0 || program.parameters[size_t(number)].bytes != 8) return nullptr;
    uint64_t base = 0;
    std::memcpy(&base, &w.block->launch->parameters[program.parameters[size_t(number)].offset], 8);
    const Buffer* const b = w.block->memory->nearest(base);
    if (!b || base - b->address >= b->bytes) return nullptr;
    const int64_t item = std::max<uint32_t>(1, b->item_bytes);
    const int64_t index = int64_t(address - base) / item;
    return index >= -(int64_t{1} << 31) && index < int64_t{1} << 32 ? b : nullptr;
}

// Describes a fault in global or constant memory.
FaultText describe_array_fault(const Warp& w, const Op& op, Access access, Fault fault,
                               uint64_t address) {
    const std::string what = attempt(op, access);
    FaultText text;
    auto& [message, detail, array, offset] = text;
    const AddressSpace& memory = *w.block->memory;
    const Buffer* b = memory.nearest(address);
    const bool near = is_near_array(memory, address);
    if (fault == Fault::misaligned) {
        message =
            what + " at an address that is not a multiple of " + std::to_string(op.memory().bytes);
        if (near) {
            offset = int64_t(address - b->address);
            array = b->name_at(offset);
            detail = "the address is " + std::to_string(offset) + " bytes into `" + array + "`";
        }
    } else if (fault == Fault::read_only) {
        offset = b ? int64_t(address - b->address) : 0;
        array = b ? b->name_at(offset) : "?";
        message = std::string(verb(access)) + " to `" + array + "`, which is read-only";
        if (b) detail = describe(*b, offset) + "; the address is " + element(*b, offset);
    } else if (const std::optional<Buffer> freed = freed_memory(memory, address)) {
        message = what + (freed->address < device_heap_base ? " in a freed array"
                                                            : " in memory that free() freed");
        offset = int64_t(address - freed->address);
        array = freed->name_at(offset);
        detail = describe(*freed, offset) + " and was freed; the address is that of " +
                 element(*freed, offset);
    } else if (const Buffer* const meant = near ? nullptr : array_of_address(w, op, address)) {
        offset = int64_t(address - meant->address);
        array = meant->name_at(offset);
        message = what + " far " + (offset < 0 ? "before the start of `" : "past the end of `") +
                  array + "`";
        detail = describe(*meant, offset) + "; the address is " + element(*meant, offset);
        const int64_t item = std::max<uint32_t>(1, meant->item_bytes), index = offset / item;
        constexpr int64_t wrap = int64_t{1} << 32;
        if (index < 0 && index >= -wrap / 2 && uint64_t(index + wrap) < meant->bytes / item)
            detail += ". A 32-bit index has overflowed: " + std::to_string(index) + " is " +
                      std::to_string(index + wrap) +
                      " - 2^32. Compute the index with 64 bits (size_t or long long)";
        else if (index < wrap && index >= wrap / 2)
            detail += ". A 32-bit unsigned index is less than 0: " + std::to_string(index) +
                      " is 2^32 - " + std::to_string(wrap - index);
    } else if (!near) {
        const bool null = address < (1u << 16);
        message = what + (null ? " through a null pointer" : " outside every array");
        char hex[32];
        std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(address));
        detail = std::string("the address is ") + hex;
        if (const DeviceHeap& heap = DeviceHeap::get(); null && heap.was_full(memory))
            detail += ". malloc() has returned null pointers in this launch, because the heap of " +
                      std::to_string(heap.limit()) +
                      " bytes was full: free memory that is no longer needed, or enlarge the heap "
                      "before the first launch with cudaDeviceSetLimit(cudaLimitMallocHeapSize, "
                      "bytes)";
    } else {
        offset = int64_t(address - b->address);
        const bool before = offset < 0;
        array = b->name_at(offset);
        message = what + (before ? " before the start of `" : " past the end of `") + array + "`";
        detail = describe(*b, offset) + "; the address is " + element(*b, offset) + ", ";
        if (before)
            detail += plural(uint64_t(-offset), "byte") + " before its start";
        else if (uint64_t(offset) == b->bytes)
            detail += "directly past its end";
        else if (uint64_t(offset) > b->bytes)
            detail += plural(uint64_t(offset) - b->bytes, "byte") + " past its end";
        else
            detail += "and its last bytes are past the end";
        if (-offset <= int64_t(b->whole_before) &&
            offset + int64_t(op.memory().bytes) <= int64_t(b->bytes + b->whole_after))
            detail +=
                ". `" + array +
                "` is a view of an array that contains the address; if the kernel may "
                "access all of the array, pass the view itself, not coalesce.pointer(view, 0)";
    }
    return text;
}

// Returns true if a parameter is a structure. PTX declares it as an array of bytes.
bool is_structure(const ParameterInfo& p) { return p.bytes > ptx::size_of(p.type); }

// Describes a fault in shared or local memory, or in the kernel's parameters.
FaultText describe_other_fault(const Warp& w, const Op& op, Access access, ptx::Space space,
                               Fault fault, uint64_t address) {
    const std::string what = attempt(op, access);
    std::string message, detail;
    const bool shared = space == ptx::Space::shared, local = space == ptx::Space::local;
    const uint64_t size = shared  ? w.block->shared_bytes
                          : local ? w.block->program->local_end
                                  : w.block->launch->parameters.size();
    const bool other_parameter = op.has_memory() && op.memory().other_parameter;
    const std::string name = shared            ? "shared memory"
                             : local           ? "local memory"
                             : other_parameter ? "the parameter that the instruction names"
                                               : "the kernel's parameters";
    if (fault == Fault::misaligned)
        message = what + " of " + name + " at an address that is not a multiple of " +
                  std::to_string(op.memory().bytes);
    else if (fault == Fault::read_only)
        message = std::string("write to ") + name + ", which is read-only";
    else
        message = what + " outside " + name;
    // Machine code has a stack that grows downwards, to address 0.
    const bool overflow = local && w.block->program->recursive && w.block->program->machine &&
                          int32_t(uint32_t(address)) < 0;
    if (overflow)
        return {"stack overflow: too many calls are nested",
                "the stack of a thread has " + plural(size, "byte") + larger_stack};
    const std::string has = shared  ? "the block has "
                            : local ? "the thread has "
                                    : "the parameters have ";
    // An address in shared memory has 32 bits. An address before its start is shown as negative.
    const int64_t byte = shared ? int64_t(int32_t(uint32_t(address))) : int64_t(address);
    detail = "the address is byte " + std::to_string(byte) + ", and " + has + plural(size, "byte") +
             (shared || local ? " of " + name : "");
    const Program& program = *w.block->program;
    if (local && fault == Fault::outside && std::ranges::any_of(program.parameters, is_structure))
        detail += "; it has the thread's arrays, and copies of parameters that are structures";
    if (shared && fault == Fault::outside &&
        (!program.dynamic_shared.empty() || program.shared_bytes == 0))
        detail += "; for " + std::string(w.block->launch->shared_bytes ? "more " : "") +
                  "dynamic shared memory, launch kernel[grid, block, shared_bytes]";
    if (shared) {
        for (const auto& [variable, place] : w.block->program->shared_variables) {
            if (address >= place.first && address < place.first + place.second)
                detail += ", in " + variable;
        }
    }
    return {message, detail};
}

}  // namespace

FaultText describe_fault(const Warp& w, const Op& op, int lane, Access access, ptx::Space space,
                         Fault fault, uint64_t address) {
    if (op.is<TextureOperand>()) return describe_surface_fault(w, op, lane, access, fault);
    // An address before the start of the parameters is in no space.
    if (space == ptx::Space::global && address >> 24 == param_window >> 24)
        return describe_other_fault(w, op, access, ptx::Space::param, fault,
                                    address - param_window);
    return space == ptx::Space::global || space == ptx::Space::constant
               ? describe_array_fault(w, op, access, fault, address)
               : describe_other_fault(w, op, access, space, fault, address);
}

namespace {

// Returns the lines of a message that say which line of the source and which threads are at fault.
std::string place_of(const Warp& w, const Op& op, LaneMask faulty) {
    std::string text = "\n  " + where(*w.block->program, op);
    text += "\n  " + thread_name(w, std::countr_zero(faulty));
    const uint64_t others = uint64_t(std::popcount(faulty) - 1);
    if (others > 0) text += " and " + plural(others, "other thread");
    return text + ", " + lane_list(faulty) + " of " + (others > 0 ? "their" : "its") + " warp";
}

// Describes an access of the parameters. `byte` is the distance from their start.
std::string outside_parameters(int64_t byte, uint64_t size) {
    return " outside the kernel's parameters\n  the address is byte " + std::to_string(byte) +
           ", and the parameters have " + plural(size, "byte");
}

MemoryFault memory_fault(const Warp& w, const Op& op, Access access, ptx::Space space, Fault fault,
                         LaneMask faulty, const uint64_t* addresses) {
    const int lane = std::countr_zero(faulty);
    const uint64_t address = addresses[lane];
    FaultText text = describe_fault(w, op, lane, access, space, fault, address);
    if (!text.detail.empty()) text.message += "\n  " + text.detail;
    const bool global = space == ptx::Space::global || space == ptx::Space::constant;
    return {fault, text.message + place_of(w, op, faulty), text.array,
            global ? std::optional(address) : std::nullopt};
}

}  // namespace

void throw_memory_fault(const Warp& w, const Op& op, Access access, ptx::Space space, Fault fault,
                        LaneMask faulty, const uint64_t* addresses) {
    throw memory_fault(w, op, access, space, fault, faulty, addresses);
}

void require_parameters(const Warp& w, const Op& op, LaneMask lanes, uint32_t bytes,
                        const uint64_t* addresses) {
    const uint64_t size = w.block->launch->parameters.size();
    LaneMask outside = 0;
    for_each_lane(lanes, [&](int i) {
        const uint64_t at = addresses[i];
        const bool reads_parameters = at + bytes > first_parameter && at < first_parameter + size;
        outside |= LaneMask(!reads_parameters) << i;
    });
    if (!outside) return;
    const int lane = std::countr_zero(outside);
    const int64_t byte = int64_t(int32_t(uint32_t(addresses[lane]) - first_parameter));
    throw MemoryFault(Fault::outside, "read of " + plural(bytes, "byte") +
                                          outside_parameters(byte, size) +
                                          place_of(w, op, outside));
}

bool is_unnoticed_read(const AddressSpace& memory, uint64_t address) {
    const Buffer* const b = memory.nearest(address);
    return b && address + OutsideReads::page > b->address &&
           address < b->end() + OutsideReads::page && !freed_memory(memory, address);
}

bool read_outside(const Warp& w, const Op& op, Access access, LaneMask outside,
                  const uint64_t* addresses, std::byte** data) {
    constexpr uint32_t most = 64;  // the largest number of bytes that a lane accesses
    thread_local std::array<std::byte, warp_size * most> scratch;
    OutsideReads* const reads = w.block->launch->outside_reads;
    const uint32_t bytes = op.memory().bytes;
    if (!reads || bytes > most) return false;
    for (int i = 0; i < warp_size; ++i) {
        if (!has_lane(outside, i)) continue;
        const uint64_t address = addresses[i];
        if (!is_unnoticed_read(*w.block->memory, address)) return false;
        const Buffer* const b = w.block->memory->nearest(address);
        std::byte* const to = data[i] = scratch.data() + size_t(i) * most;
        for (uint32_t k = 0; k < bytes; ++k)
            to[k] = address + k - b->address < b->bytes ? b->host[address + k - b->address]
                                                        : std::byte{};
    }
    const std::lock_guard guard(reads->mutex);
    if (reads->count++ == 0)
        reads->first =
            memory_fault(w, op, access, ptx::Space::global, Fault::outside, outside, addresses);
    return true;
}

void throw_no_function(const Warp& w, const Op& op, bool null) {
    const int lane = std::countr_zero(w.current.mask);
    KernelFault fault(
        Fault::no_function,
        std::string("the kernel calls a function through a ") +
            (null ? "null pointer" : "pointer that is not the address of a function") + "\n  " +
            where(*w.block->program, op) + "\n  " + thread_name(w, lane) +
            (null
                 ? ""
                 : "\n  if this is a virtual function: a kernel must construct the object, because "
                   "one that the host has constructed points to functions of the host"));
    // The address. In machine code, it is in a pair of registers with 32 bits.
    Warp& registers = const_cast<Warp&>(w);
    const uint32_t* const low = registers.lanes<const uint32_t>(op.operand[1]);
    if (w.block->program->conventions.explicit_reconvergence)
        fault.handle = low[lane] | uint64_t{low[warp_size + lane]} << 32;
    else
        fault.handle = registers.lanes<const uint64_t>(op.operand[1])[lane];
    if (null) fault.handle = 0;
    throw fault;
}

void throw_trap(Warp& w, const Op& op) {
    const bool not_cooperative =
        w.block->program->uses_grid_workspace && !w.block->launch->cooperative;
    throw KernelFault(
        Fault::trap,
        (not_cooperative ? std::string("grid.sync() needs a cooperative launch: "
                                       "kernel.launch(grid, block, ..., cooperative=True), or "
                                       "cudaLaunchCooperativeKernel in a program")
                         : std::string("the kernel executed a trap instruction (__trap())")) +
            "\n  " + where(*w.block->program, op) + "\n  " +
            thread_name(w, std::countr_zero(w.mask)));
}

void throw_misuse(const Warp& w, const Op& op, int lane, std::string_view why,
                  std::initializer_list<uint64_t> numbers, Fault fault) {
    std::string text;
    const uint64_t* number = numbers.begin();
    for (const char c : why) {
        if (c == '#' && number != numbers.end())
            text += std::to_string(*number++);
        else
            text += c;
    }
    throw KernelFault(fault,
                      text + "\n  " + where(*w.block->program, op) + "\n  " + thread_name(w, lane));
}

void throw_misaligned_box(const Warp& w, const Op& op, int lane, int64_t first, int64_t bytes) {
    throw_misuse(w, op, lane,
                 "a box must begin at a multiple of 16 bytes in a row of the array; its first "
                 "coordinate is " +
                     std::to_string(first) + ", and an element has " + std::to_string(bytes) +
                     " bytes (a GPU stops with an illegal instruction)",
                 {}, Fault::illegal_instruction);
}

void throw_negative_store(const Warp& w, const Op& op, int lane, uint32_t dimension,
                          int32_t coordinate) {
    throw_misuse(w, op, lane,
                 "a box that is copied to global memory cannot begin before the array; its "
                 "coordinate in dimension " +
                     std::to_string(dimension) + " is " + std::to_string(coordinate) +
                     " (an H100 stops with an illegal instruction)",
                 {}, Fault::illegal_instruction);
}

void throw_part_of_warp(const Warp& w, const Op& op) {
    const std::string why = "an instruction on matrices needs all 32 threads of a warp; here " +
                            lane_list(w.mask) +
                            (std::popcount(w.mask) == 1 ? " executes it" : " execute it");
    throw_misuse(w, op, std::countr_zero(w.mask), why);
}

void throw_deadlock(const Block& block) {
    // A group: the threads that wait at the same place for the same reason. Lanes that wait to
    // reconverge after a branch form groups, too: other threads may wait at a barrier which these
    // lanes have not reached.
    struct Group {
        uint64_t threads = 0;
        const Warp* warp = nullptr;
        LaneMask lanes = 0;
        void add(const Warp& w, LaneMask mask) {
            threads += uint32_t(std::popcount(mask));
            if (!warp) warp = &w, lanes = mask;
        }
    };
    enum Reason { at_barrier, at_cluster, at_lanes, behind_branch };
    std::map<std::pair<uint32_t, Reason>, Group> groups;
    uint64_t gone = 0;
    bool lanes = false, cluster = false;
    for (const Warp& w : block.warps) {
        const uint32_t threads = std::min<uint32_t>(warp_size, block.threads - w.index * warp_size);
        gone += threads - uint32_t(std::popcount(w.live));
        LaneMask left = w.live;
        for (const Path& p : w.paths) {
            if (p.wait == Wait::none) continue;
            lanes = lanes || p.wait == Wait::lanes;
            cluster = cluster || p.wait == Wait::cluster;
            groups[{p.pc, p.wait == Wait::barrier   ? at_barrier
                          : p.wait == Wait::cluster ? at_cluster
                                                    : at_lanes}]
                .add(w, p.mask);
            left &= ~p.mask;
        }
        for (size_t j = 0; j < w.joins.size() && left; ++j) {
            const bool free = std::find(w.free_joins.begin(), w.free_joins.end(), int32_t(j)) !=
                              w.free_joins.end();
            if (free || !(w.joins[j].arrived & left)) continue;
            groups[{w.joins[j].pc, behind_branch}].add(w, w.joins[j].arrived & left);
            left &= ~w.joins[j].arrived;
        }
    }
    std::string message = lanes ? "lanes wait for other lanes of their warp that never arrive"
                          : cluster
                              ? "the barrier of a cluster is reached by only some of its threads"
                              : "a barrier is reached by only some threads of the block";
    message +=
        ": block " + triple(block.index.x, block.index.y, block.index.z) + " cannot continue";
    const Program& program = *block.program;
    for (const auto& [key, group] : groups) {
        const Op& op = program.ops[key.first];
        const bool one = group.threads == 1;
        message += "\n  " + plural(group.threads, "thread");
        if (key.second == behind_branch && op.control == Control::exit) {
            message +=
                one ? " has reached the end of the kernel" : " have reached the end of the kernel";
        } else {
            message += one ? " waits" : " wait";
            message += key.second == at_barrier   ? " at the barrier in "
                       : key.second == at_cluster ? " at the barrier of the cluster in "
                       : key.second == at_lanes   ? " at the warp synchronisation in "
                                                  : " to reconverge after a branch, in ";
            message += where(program, op);
        }
        message += "\n    (the first is " +
                   thread_name(*group.warp, std::countr_zero(group.lanes)) + ", " +
                   lane_list(group.lanes) + " of warp " + std::to_string(group.warp->index) + ")";
    }
    if (gone) {
        message +=
            "\n  " + plural(gone, "thread") + (gone == 1 ? " has" : " have") + " left the kernel";
    }
    if (lanes)
        message +=
            "\n  CUDA requires that all lanes of the mask execute the instruction, with the same "
            "mask. It does not define what happens otherwise.\n  Some GPUs do not wait: an H100 "
            "continues without "
            "these lanes, and a shuffle reads 0 from them.";
    throw Deadlock(message, lanes);
}

namespace {

// Returns the source line and the thread of a path, and how to find an endless loop.
std::string place_of(const Warp& w, const Path& path) {
    const Program& program = *w.block->program;
    return where(program, program.ops[path.pc]) + "\n  " +
           thread_name(w, std::countr_zero(path.mask)) +
           " was here. If the kernel never ends, look at the loop around this line";
}

std::string number_of_blocks(const GridRun& launch) {
    return "the grid has " + std::to_string(launch.grid.count()) + " blocks, and at most " +
           std::to_string(blocks_at_once(launch)) + " can run at once";
}

}  // namespace

void record_place(const Block& block, GridState& grid) {
    const std::lock_guard lock(grid.mutex);
    if (!grid.stopped_at.empty()) return;
    for (const Warp& w : block.warps) {
        if (w.done() || (!w.running && w.paths.empty())) continue;
        grid.stopped_at = place_of(w, w.running ? w.current : w.paths.front());
        return;
    }
}

void throw_stuck(const GridRun& launch, const std::string& place) {
    throw KernelFault(Fault::deadlock,
                      "the running blocks wait for blocks that cannot start\n  " +
                          number_of_blocks(launch) +
                          ". A barrier for the whole grid needs a grid that fits; a cooperative "
                          "launch makes sure of this (cudaLaunchCooperativeKernel)\n  " +
                          place);
}

void throw_limit(const Warp& w) {
    const Block& block = *w.block;
    const Program& program = *block.program;
    std::string message =
        program.kernel + ": stopped after the limit of " +
        std::to_string(block.launch->instruction_limit) + " warp instructions; block " +
        triple(block.index.x, block.index.y, block.index.z) +
        " was still running. To allow more, raise the limit: `instruction_limit` of "
        "coalesce.Kernel, or --instruction-limit";
    const GridRun& launch = *block.launch;
    if (launch.grid.count() > blocks_at_once(launch))
        message += "\n  " + number_of_blocks(launch) +
                   ": if a block waits for a block that has not started, as in a barrier for the "
                   "whole grid, it waits for ever";
    if (w.running) message += "\n  " + place_of(w, w.current);
    throw InstructionLimit(message);
}

}  // namespace coalesce::sim
