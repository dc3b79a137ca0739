// Creates the findings about memory, with their messages.
#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>
#include <set>

#include "analysis/check/state.hpp"
#include "ptx/demangle.hpp"

namespace coalesce::analysis {

using ptx::Space;
using sim::Access;
using sim::Buffer;
using sim::Warp;

namespace {

std::string with_article(const std::string& noun) { return (noun[0] == 'a' ? "an " : "a ") + noun; }

}  // namespace

void CheckObserver::find_shared_variables(const std::map<std::string, ArrayShape>& shapes) {
    std::map<uint64_t, std::string> mangled_at;  // mangled names, by offset
    const auto add = [&](const std::string& mangled, uint64_t offset, uint64_t bytes) {
        if (bytes == 0) return;
        Buffer v;
        v.name = ptx::plain_name(mangled);
        mangled_at[offset] = mangled;
        v.address = offset;
        v.bytes = bytes;
        v.variable = true;
        const auto known = shapes.find(v.name);
        if (known != shapes.end()) {
            v.item_bytes = known->second.item_bytes;
            v.type = known->second.type;
            v.shape = sim::extents_in_memory(known->second.shape, v.item_bytes, bytes);
        }
        shared_variables_.push_back(std::move(v));
    };
    for (const auto& [name, place] : program_.shared_variables)
        add(name, place.first, place.second);
    if (!program_.dynamic_shared.empty())
        add(program_.dynamic_shared, program_.shared_bytes, launch_.shared_bytes);
    std::sort(shared_variables_.begin(), shared_variables_.end(),
              [](const Buffer& a, const Buffer& b) { return a.address < b.address; });

    std::map<std::string, int> number;
    for (const auto& [offset, mangled] : mangled_at) number.emplace(mangled, int(number.size()));
    for (const sim::InstructionInfo& in : program_.instructions) {
        const auto known = number.find(in.origin.variable);
        // An asynchronous copy to shared memory gets no variable here. Messages about a copy
        // describe its source, and not the variable in shared memory.
        const bool is_there = known != number.end() && in.access != Access::async_copy;
        variable_of_.push_back(is_there ? known->second : -1);
    }
}

void CheckObserver::outside_variable(const Warp& w, uint32_t pc, uint32_t bytes, int lane,
                                     uint64_t address) {
    const Buffer& variable = shared_variables_[size_t(variable_of_[pc])];
    bool fresh = false;
    Finding* const f = findings_.group(FindingKind::out_of_bounds, pc, pc,
                                       (1u << 20) + uint32_t(variable_of_[pc]), fresh);
    if (!f || !fresh) return;
    // Addresses of shared memory have 32 bits: an address before its start is a very large number.
    const int64_t offset = int32_t(uint32_t(address - variable.address));
    const std::string verb = sim::verb(instructions_[pc].access);
    f->title = verb + " of " + std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes") +
               (offset < 0 ? " before the start of `" : " past the end of `") + variable.name + "`";
    std::string detail = sim::describe(variable) + ", in shared memory; the address is that of " +
                         sim::element(variable, offset);
    for (const Buffer& v : shared_variables_) {
        if (address - v.address < v.bytes)
            detail += ", where " + sim::element(v, int64_t(address - v.address)) + " is";
    }
    f->details.push_back(std::move(detail));
    f->bytes = bytes;
    f->space = "shared";
    f->array = variable.name;
    f->offset = offset;
    f->first = actor(verb, w, pc, lane);
}

void CheckObserver::check_parameter(const Warp& w, const sim::MemoryEvent& e) {
    const int32_t number = program_.instructions[e.pc].in_parameter;
    if (number < 0 || follows_from_member(e.pc)) return;
    const sim::ParameterInfo& p = program_.parameters[size_t(number)];
    sim::for_each_lane(e.mask, [&](int lane) {
        const int64_t offset = int64_t(e.address(lane) - p.offset);
        if (offset >= 0 && offset + e.bytes <= int64_t(p.bytes)) return;
        bool fresh = false;
        Finding* const f = findings_.group(FindingKind::out_of_bounds, e.pc, e.pc,
                                           (1u << 22) + uint32_t(number), fresh);
        if (!f || !fresh) return;
        const std::string verb = sim::verb(instructions_[e.pc].access);
        f->title = verb + " of " + std::to_string(e.bytes) + (e.bytes == 1 ? " byte" : " bytes") +
                   (offset < 0 ? " before the start of " : " past the end of ") + "parameter " +
                   std::to_string(number + 1) + " of the kernel";
        f->details.push_back("the parameter has " + std::to_string(p.bytes) +
                             " bytes, and the address is byte " + std::to_string(offset) +
                             " of it");
        f->bytes = e.bytes;
        f->offset = offset;
        f->first = actor(verb, w, e.pc, lane);
    });
}

const Buffer* CheckObserver::array_of(const Place& at) const {
    if (at.event.space == Space::local) return nullptr;
    if (!at.shared) return &global_.memory().buffers()[at.buffer];
    for (const Buffer& v : shared_variables_) {
        if (at.offset - v.address < v.bytes) return &v;
    }
    return nullptr;
}

uint32_t CheckObserver::array_number(const Place& at) const {
    const Buffer* const array = array_of(at);
    if (!array) return UINT32_MAX;
    return at.shared ? (1u << 20) + uint32_t(array - shared_variables_.data()) : at.buffer;
}

void CheckObserver::describe_place(Finding& f, const Place& at) const {
    f.bytes = at.event.bytes;
    f.offset = int64_t(at.offset);
    f.space = at.event.space == Space::local ? "local" : at.shared ? "shared" : "global";
    const Buffer* const array = array_of(at);
    if (!array) return;
    if (at.shared) f.offset -= int64_t(array->address);
    f.array = array->name_at(f.offset);
    f.details.push_back(sim::describe(*array, f.offset) + (at.shared ? ", in shared memory" : ""));
    if (array->item_bytes == 0 || array->shape.empty()) return;
    int64_t index = f.offset / array->item_bytes;
    f.index.resize(array->shape.size());
    for (size_t d = array->shape.size(); d-- > 1;) {
        const int64_t n = std::max<int64_t>(1, array->shape[d]);
        f.index[d] = index % n;
        index /= n;
    }
    f.index[0] = index;
}

std::string CheckObserver::name_of_place(const Place& at) const {
    const Buffer* const array = array_of(at);
    if (array) return sim::element(*array, int64_t(at.offset - (at.shared ? array->address : 0)));
    const bool local = at.event.space == Space::local;
    return "byte " + std::to_string(at.offset) + " of " +
           (local ? "the thread's local memory" : "shared memory");
}

Actor CheckObserver::actor(const std::string& what, const Stamp& stamp, uint32_t lane) const {
    Actor a;
    a.what = what;
    a.pc = stamp.pc;
    const Dim3 block = launch_.block, grid = launch_.grid;
    const uint32_t thread = stamp.warp * sim::warp_size + lane;
    a.thread[0] = thread % block.x;
    a.thread[1] = thread / block.x % block.y;
    a.thread[2] = thread / block.x / block.y;
    const uint64_t linear = stamp.block - 1;
    a.block[0] = linear % grid.x;
    a.block[1] = linear / grid.x % grid.y;
    a.block[2] = linear / grid.x / grid.y;
    return a;
}

Actor CheckObserver::actor(const std::string& what, const Warp& w, uint32_t pc, int lane) const {
    Stamp stamp;
    stamp.block = uint32_t(w.block->linear) + 1;
    stamp.pc = pc;
    stamp.warp = w.index;
    return actor(what, stamp, uint32_t(lane));
}

bool CheckObserver::same_instruction(const Place& at, const Stamp& then, uint32_t lane_then) const {
    if (then.block != at.me.block || then.warp != at.me.warp || then.pc != at.me.pc ||
        then.time != at.me.time || lane_then >= at.lane ||
        !sim::has_lane(at.event.mask, int(lane_then)))
        return false;
    const uint64_t this_address = at.event.address(int(at.lane)),
                   other_address = at.event.address(int(lane_then));
    return (this_address < other_address ? other_address - this_address
                                         : this_address - other_address) < at.event.bytes;
}

bool CheckObserver::same_value(const Place& at, uint32_t lane_then, bool same_instruction) const {
    // To find the values that the lanes store, the store is executed again, with `stored` as its
    // destination.
    alignas(16) std::byte stored[sim::warp_size][16];
    sim::Resolved elsewhere;
    elsewhere.mask = 1u << at.lane | (same_instruction ? 1u << lane_then : 0u);
    for (int i = 0; i < sim::warp_size; ++i) elsewhere.lane[i] = stored[i];
    at.event.op->mover(const_cast<Warp&>(at.warp), *at.event.op, elsewhere);

    const uint64_t base = at.shared ? 0 : global_.memory().buffers()[at.buffer].address;
    const auto by_lane = [&](uint32_t lane) {
        return stored[lane] + (base + at.offset - at.event.address(int(lane)));
    };
    const std::byte* const there = same_instruction ? by_lane(lane_then)
                                   : at.shared
                                       ? at.warp.block->shared + at.offset
                                       : global_.memory().buffers()[at.buffer].host + at.offset;
    const size_t granule = size_t(1) << (at.shared ? shared_bits_ : global_bits_);
    return std::memcmp(by_lane(at.lane), there, granule) == 0;
}

void CheckObserver::conflict(const Place& at, const Stamp& then, uint32_t lane_then,
                             bool both_write) {
    // Only NVIDIA's cooperative_groups.h accesses the system's part of shared memory. It relies on
    // lanes that run in lockstep.
    if (at.shared && at.offset >= at.warp.block->shared_bytes - program_.system_shared_bytes)
        return;
    const BlockOrder& order = at.block.order;
    const CheckedInstruction& was = instructions_[then.pc];
    const bool copying = was.access == Access::async_copy;
    const bool here = then.block == at.me.block, same_warp = here && then.warp == at.me.warp;
    const bool stores = both_write && at.event.access == Access::store && at.event.op->mover &&
                        was.access == Access::store;
    const bool at_once = stores && same_instruction(at, then, lane_then);
    const bool equal = stores && same_value(at, lane_then, at_once);
    const bool lockstep =
        !at_once && !copying && order.lockstep(then, lane_then, at.me.warp, at.lane);
    // cuda::pipeline ends its mbarriers in its destructor. There, too, NVIDIA's code relies on
    // lanes that run in lockstep.
    if (lockstep && at.instruction.traits.code == sim::OpCode::mbarrier_inval) return;
    const bool lock = order.needs_fence(then, lane_then, at.me.warp, at.lane);
    const FindingKind kind = lock       ? FindingKind::fence
                             : lockstep ? FindingKind::lockstep
                             : equal    ? FindingKind::same_value
                                        : FindingKind::race;
    bool fresh = false;
    Finding* const f = findings_.group(kind, then.pc, at.me.pc, array_number(at), fresh);
    if (!f || !fresh) return;

    if (kind != FindingKind::race && !strict_) f->severity = Severity::warning;
    describe_place(*f, at);
    const std::string place = name_of_place(at);
    const std::string pair = with_article(sim::verb(was.access)) + " and " +
                             with_article(sim::verb(at.instruction.access));
    const std::string values = equal ? "the same value" : "different values";
    if (lock) {
        f->title = pair + " of " + place + " are ordered only if a fence follows the atomicCAS()";
    } else if (at_once) {
        f->title = "lanes of one warp write " + values + " to " + place + " in one instruction";
    } else if (lockstep) {
        f->title = pair + " of " + place + " are ordered only if the warp runs in lockstep";
    } else if (stores) {
        f->title = std::string(here ? "two threads" : "two blocks") + " write " + values + " to " +
                   place + ", and the writes are not ordered";
    } else {
        f->title = "data race on " + place + ": " + pair + " are not ordered";
    }
    f->first = actor(sim::verb(was.access), then, lane_then);
    f->second = actor(sim::verb(at.instruction.access), at.me, at.lane);

    auto& details = f->details;
    if (lock) {
        details.push_back("taking a lock with atomicCAS() alone orders nothing: put " +
                          std::string(here ? "__threadfence_block()" : "__threadfence()") +
                          " between the atomicCAS() and the " +
                          (then.unfenced ? "first" : "second") + " of the two accesses");
    } else if (was.update && was.update == at.instruction.update) {
        details.push_back(
            "each thread reads the element, changes it and writes it back, and another thread can "
            "write in between");
        details.push_back("if every update must count, use an atomic, such as atomicAdd()");
    } else if (at_once) {
        if (!equal) details.push_back("any of the values may remain");
    } else if (lockstep) {
        details.push_back(
            same_warp
                ? "since compute capability 7.0, the lanes of a warp need not execute together: "
                  "put __syncwarp() between the two accesses"
                : "only one lane waited for the other warp, so the accesses of the other lanes are "
                  "not ordered: put __syncwarp() before or after the wait");
    } else if (was.traits.strong && at.instruction.traits.strong &&
               (was.traits.is_volatile || at.instruction.traits.is_volatile)) {
        details.push_back(
            "`volatile` only keeps the compiler from removing accesses: order them, or make both "
            "accesses atomic");
    } else if (copying && was.traits.bulk) {
        details.push_back(
            "the copy may not be complete: wait for its mbarrier first (mbarrier.try_wait)");
    } else if (copying && then.extra & Cell::copying) {
        details.push_back(
            "the copy may not be complete: wait for it first (__pipeline_wait_prior, "
            "cp.async.wait_group), then call __syncthreads()");
    } else if (copying) {
        details.push_back(
            "the thread has waited for its copy, but no __syncthreads() is between the two "
            "accesses: if the copy comes first, put it after the wait; if the copy overwrites an "
            "element that was still to be accessed, put it before the copy");
    } else if (!here) {
        const bool scopes = was.traits.strong && at.instruction.traits.strong;
        const bool mixed = was.traits.atomic != at.instruction.traits.atomic;
        details.push_back(
            scopes  ? "atomics of block scope (atomicAdd_block) are atomic only within one block"
            : mixed ? "blocks run at the same time and in any order, and an atomic protects only "
                      "against other atomics: make both accesses atomic, or order them"
                    : "blocks run at the same time and in any order: only atomics, or a flag with "
                      "__threadfence(), order them");
    } else {
        details.push_back(same_warp ? "the lanes took different branches, and no __syncwarp() "
                                      "is between the two accesses"
                                    : "no __syncthreads() is between the two accesses");
    }
    if (may_lock_ && kind == FindingKind::race && !was.traits.strong &&
        !at.instruction.traits.strong) {
        const std::string fence = here ? "__threadfence_block()" : "__threadfence()";
        details.push_back("if a lock protects the element: put " + fence +
                          " after taking the lock, and another one before releasing it");
    }
}

void CheckObserver::uninitialized(const Place& at) {
    bool fresh = false;
    Finding* const f = findings_.group(FindingKind::uninitialized, at.event.pc, at.event.pc,
                                       array_number(at), fresh);
    if (!f || !fresh) return;
    describe_place(*f, at);
    const std::string name = at.event.space == Space::local ? updated_at(at.event.pc) : "";
    f->title = "read of " + (name.empty() ? name_of_place(at) : "the local array `" + name + "`") +
               " before anything was written to it";
    f->first = actor(sim::verb(at.instruction.access), at.warp, at.event.pc, int(at.lane));
}

namespace {

// Returns the names of the variables that a line updates, as in `sum[i] += x` or `s.count++`.
// Those to which the line also assigns a value are left out, as in `for (int i = 0; i < n; i++)`.
std::set<std::string> updated_variables(const std::string& line) {
    const auto is_name = [](char c) { return std::isalnum(uint8_t(c)) || c == '_' || c == '.'; };
    std::set<std::string> names;
    for (size_t at = 1; at < line.size(); ++at) {
        const bool steps = line[at] == line[at - 1] && std::strchr("+-", line[at]);
        if (!steps && (line[at] != '=' || !std::strchr("+-*/|&^", line[at - 1]))) continue;
        size_t end = at - 1;
        for (int depth = 0; end > 0; --end) {
            const char c = line[end - 1];
            depth += (c == ']') - (c == '[');
            if (depth == 0 && c != ' ' && c != '[') break;
        }
        size_t start = end;
        while (start > 0 && is_name(line[start - 1])) --start;
        if (steps && start == end) {  // ++i
            start = end = at + 1;
            while (end < line.size() && is_name(line[end])) ++end;
        }
        const std::string name = line.substr(start, end - start);
        size_t assigned = line.find(name + " = ");
        if (assigned > 0 && assigned != std::string::npos && is_name(line[assigned - 1]))
            assigned = std::string::npos;
        if (!name.empty() && assigned == std::string::npos) names.insert(name);
    }
    return names;
}

}  // namespace

std::string CheckObserver::updated_at(uint32_t pc) const {
    const ptx::SourceLine& at = program_.instructions[pc].source;
    const bool known =
        at.file == program_.source_file && at.line > 0 && at.line <= program_.source.size();
    std::set<std::string> names;
    if (known) names = updated_variables(program_.source[at.line - 1]);
    for (const Buffer& b : global_.memory().buffers()) names.erase(b.name);
    return names.size() == 1 ? *names.begin() : "";
}

void CheckObserver::uninitialized(const Warp& w, const UnwrittenRegisters::Use& use) {
    bool fresh = false;
    Finding* const f = findings_.group(FindingKind::uninitialized, use.first_use, use.first_use,
                                       UINT32_MAX, fresh);
    if (!f) return;
    f->count += uint64_t(std::popcount(use.lanes)) - 1;
    if (!fresh) return;
    const std::string name = updated_at(use.first_use);
    f->title = (name.empty() ? "a local variable" : "the local variable `" + name + "`") +
               " is used before it has a value";
    f->details.push_back(
        "its register holds what an earlier computation left there: give the variable a value "
        "where it is declared");
    f->first = actor("read", w, use.first_use, std::countr_zero(use.lanes));
}

// METHOD
// Two additions to 0 have the same result in either order. So there must be three, by threads that
// are not ordered. Sums of integers are exact, and so are sums of small multiples of 1/2, 1/4 and
// so on: the last bits of their mantissas are 0. Then the order does not matter.
void CheckObserver::note_rounding(const Place& at, const Location& sum) {
    for (const Stamp* s : {&sum.write.last, &sum.write.other}) {
        if (s->time == 0 || !instructions_[s->pc].traits.adds_floats || at.ordered(*s, s->lane))
            return;
    }
    const uint64_t base = at.shared ? 0 : global_.memory().buffers()[at.buffer].address;
    const std::byte* const memory =
        at.shared ? at.warp.block->shared : global_.memory().buffers()[at.buffer].host;
    const uint32_t bytes = at.event.bytes / at.instruction.traits.elements;
    uint64_t value = 0;
    std::memcpy(&value, memory + (at.event.address(int(at.lane)) - base),
                std::min<size_t>(bytes, sizeof value));
    const uint64_t last_bits = bytes == 8 ? 0xffff : bytes == 4 ? 0xff : 3;
    if ((value & last_bits) == 0) return;
    bool fresh = false;
    Finding* const f =
        notes_.group(FindingKind::rounding, at.me.pc, at.me.pc, array_number(at), fresh);
    if (!f || !fresh) return;
    f->severity = Severity::note;
    describe_place(*f, at);
    f->title = "the last digits of " + name_of_place(at) + " depend on the order of the additions";
    f->details.push_back(
        "each addition of floating-point numbers rounds, and threads execute atomics in any order: "
        "the result may differ from run to run");
    f->details.push_back(
        "for equal results, add in a fixed order: for example, add up the values of each block, "
        "and let one thread add up these sums");
    f->first = actor(sim::verb(at.instruction.access), at.me, at.lane);
}

void CheckObserver::outside_view(const Place& at, uint64_t first) {
    bool fresh = false;
    Finding* const f =
        notes_.group(FindingKind::outside_view, at.me.pc, at.me.pc, array_number(at), fresh);
    if (!f || !fresh) return;
    f->severity = Severity::note;
    Place there = at;
    there.offset = first;
    describe_place(*f, there);
    const sim::Buffer& array = *array_of(at);
    const sim::Buffer::Part& view = *array.part_at(int64_t(first));
    f->title = std::string(sim::verb(at.instruction.access)) + " of " + name_of_place(there) +
               ", which is outside the view `" + view.name + "`";
    f->details.push_back("this is valid: the kernel may access the whole array of a view");
    f->details.push_back("to make it an error, pass coalesce.pointer(view, 0)");
    f->first = actor(sim::verb(at.instruction.access), at.me, at.lane);
}

void CheckObserver::stale(const Place& at, const Stamp& then) {
    bool fresh = false;
    Finding* const f =
        findings_.group(FindingKind::stale_read, then.pc, at.me.pc, array_number(at), fresh);
    if (!f || !fresh) return;
    describe_place(*f, at);
    f->title = "read of " + name_of_place(at) +
               " through the read-only cache after the kernel has written it";
    f->details.push_back(
        "the compiler treats the array as read-only (const __restrict__ or "
        "__ldg), so the cache may return an old value");
    f->first = actor(sim::verb(instructions_[then.pc].access), then, at.lane_of(then));
    f->second = actor(sim::verb(at.instruction.access), at.me, at.lane);
}

void CheckObserver::find_aliases(const std::map<uint32_t, std::string>& restricted) {
    std::map<std::string, uint32_t> dynamic;
    std::map<uint32_t, std::vector<uint32_t>> in_buffer;  // the parameters that point to a buffer
    for (const sim::InstructionInfo& in : program_.instructions) {
        const std::string& name = in.origin.variable;
        if (in.space == Space::shared && !name.empty() && !program_.shared_variables.contains(name))
            dynamic.emplace(name, uint32_t(dynamic.size()) + 1);
    }
    for (const auto& [number, name] : restricted) {
        if (number >= program_.parameters.size() || program_.parameters[number].bytes != 8)
            continue;
        uint64_t address = 0;
        std::memcpy(&address, &launch_.parameters[program_.parameters[number].offset], 8);
        const sim::Buffer* const b = global_.memory().nearest(address);
        if (b && address - b->address < b->bytes)
            in_buffer[uint32_t(b - global_.memory().buffers().data())].push_back(number);
    }
    const bool overlap =
        std::ranges::any_of(in_buffer, [](const auto& b) { return b.second.size() > 1; });
    if (dynamic.size() < 2 && !overlap) return;
    alias_of_.resize(program_.instructions.size());
    if (dynamic.size() > 1) {
        aliases_.resize(dynamic.size());
        for (const auto& [name, number] : dynamic) aliases_[number - 1] = ptx::plain_name(name);
        for (size_t i = 0; i < alias_of_.size(); ++i) {
            const auto found = dynamic.find(program_.instructions[i].origin.variable);
            if (found != dynamic.end()) alias_of_[i] = found->second;
        }
    }
    for (const auto& [buffer, parameters] : in_buffer) {
        for (size_t n = 0; n < parameters.size() && parameters.size() > 1; ++n) {
            aliases_.push_back(restricted.at(parameters[n]));
            for (size_t i = 0; i < alias_of_.size(); ++i) {
                if (program_.instructions[i].origin.parameter == int32_t(parameters[n]))
                    alias_of_[i] = uint32_t(aliases_.size());
            }
        }
    }
}

void CheckObserver::alias(const Place& at, const Stamp& then, uint32_t lane_then) {
    bool fresh = false;
    Finding* const f =
        findings_.group(FindingKind::alias, then.pc, at.me.pc, array_number(at), fresh);
    if (!f || !fresh) return;
    const std::string names = "`" + aliases_[alias_of_[then.pc] - 1] + "` and `" +
                              aliases_[alias_of_[at.me.pc] - 1] + "`";
    if (at.shared) {
        f->title = names + " are both extern __shared__, so they begin at the same byte";
        f->details.push_back(
            "declare one extern __shared__ array, and let a pointer to the second array begin "
            "behind the elements of the first");
    } else {
        describe_place(*f, at);
        f->title = names + " are __restrict__, but they point to the same memory";
        f->details.push_back(
            "the compiler assumes that an element written through one of them is never accessed "
            "through the other, so it may use old values: pass different arrays, or remove "
            "__restrict__");
    }
    f->space = at.shared ? "shared" : "global";
    f->first = actor(sim::verb(instructions_[then.pc].access), then, lane_then);
    f->second = actor(sim::verb(at.instruction.access), at.me, at.lane);
}

void CheckObserver::unfenced(const Place& at, const Stamp& then) {
    bool fresh = false;
    Finding* const f =
        findings_.group(FindingKind::race, then.pc, at.me.pc, array_number(at), fresh);
    if (!f || !fresh) return;
    describe_place(*f, at);
    f->title = "data race on " + name_of_place(at) + ": a write and an asynchronous " +
               (instructions_[at.me.pc].traits.bulk ? "copy" : "product") + " are not ordered";
    f->details.push_back(
        "the asynchronous proxy may read an old value: put fence.proxy.async after the write, "
        "before the barrier");
    f->first = actor(sim::verb(instructions_[then.pc].access), then, at.lane_of(then));
    f->second = actor(sim::verb(at.instruction.access), at.me, at.lane);
}

}  // namespace coalesce::analysis
