// Starts the checker, and receives the accesses to memory.
#include "analysis/check/check.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "analysis/check/state.hpp"
#include "errors.hpp"

namespace coalesce::analysis {

using ptx::Space;
using sim::Access;
using sim::LaneMask;
using sim::MemoryEvent;
using sim::Shape;
using sim::Warp;

namespace {

// Returns log2 of the size of a granule. The checker divides memory into granules (shadow.hpp),
// which are as large as the shortest access of the program to the memory space.
uint32_t granule_bits(const sim::Program& program, Space space) {
    uint32_t shortest = 16;
    for (const sim::Op& op : program.ops) {
        if (!op.has_memory() || op.memory().bytes == 0) continue;
        const sim::InstructionInfo& in = program.instructions[op.pc];
        const bool either = in.space == Space::generic || in.access == Access::async_copy;
        if (either || in.space == space) shortest = std::min<uint32_t>(shortest, op.memory().bytes);
    }
    return uint32_t(std::countr_zero(std::bit_floor(shortest)));
}

Access access_of(const sim::InstructionInfo& in) {
    if (in.access == Access::async_copy) return in.access;
    if (in.traits.atomic) return Access::atomic;
    return in.access == Access::store ? Access::store : Access::load;
}

// The addresses of a part of a warp count as scattered. If they are at a constant distance from
// lane to lane, as at the edge of a matrix, returns the event with this stride. Otherwise nothing.
std::optional<MemoryEvent> with_stride(const MemoryEvent& e) {
    const LaneMask rest = e.mask & (e.mask - 1);
    if (e.shape != Shape::scattered || e.mask == sim::all_lanes || !rest) return std::nullopt;
    const int one = std::countr_zero(e.mask), two = std::countr_zero(rest);
    const auto rise = int64_t(e.addresses[two] - e.addresses[one]);
    if (rise == 0 || rise % (two - one) != 0) return std::nullopt;
    MemoryEvent strided = e;
    strided.stride = rise / (two - one);
    strided.first = e.addresses[one] - uint64_t(strided.stride) * uint64_t(one);
    strided.shape = sim::shape_of_stride(strided.stride, e.bytes);
    for (LaneMask left = rest; left; left &= left - 1) {
        const int lane = std::countr_zero(left);
        if (e.addresses[lane] != strided.address(lane)) return std::nullopt;
    }
    return strided;
}

}  // namespace

CheckObserver::CheckObserver(const sim::Program& program, const sim::GridRun& launch,
                             const sim::AddressSpace& memory, const CheckSettings& settings)
    : program_(program),
      launch_(launch),
      strict_(settings.strict),
      buffer_hints_(program.instructions.size()),
      registers_(program),
      shared_bits_(granule_bits(program, Space::shared)),
      global_bits_(granule_bits(program, Space::global)),
      global_(memory, global_bits_),
      findings_(program),
      notes_(program) {
    if (program.instructions.size() >= max_instructions || launch.grid.count() > max_blocks) {
        throw LaunchError(
            program.kernel + " is too large to check: it has " +
            std::to_string(program.instructions.size()) + " PTX instructions, and the grid has " +
            std::to_string(launch.grid.count()) + " blocks; a check supports at most " +
            std::to_string(max_instructions - 1) + " instructions and " +
            std::to_string(max_blocks) + " blocks");
    }
    const std::vector<CopiedBytes> copied = copied_bytes(program);
    origins_ = origins(program, copied);
    const std::vector<bool> before_compare_and_swap = loads_before_compare_and_swap(program);
    const std::vector<uint32_t> update = updates(program);
    const std::vector<bool> for_bit_field = loads_for_bit_fields(program);
    const std::vector<bool> waits = waiting_loads(program);
    const std::vector<bool> replaces = exchanges_without_result(program);
    for (size_t i = 0; i < program.instructions.size(); ++i) {
        const sim::Traits& traits = program.instructions[i].traits;
        instructions_.push_back({traits, access_of(program.instructions[i]), copied[i],
                                 before_compare_and_swap[i], update[i], waits[i], replaces[i],
                                 for_bit_field[i]});
    }
    may_lock_ = std::ranges::any_of(instructions_, [](const CheckedInstruction& in) {
        return in.traits.form == sim::AtomicForm::compare_and_swap ||
               (in.traits.form == sim::AtomicForm::exchange && !in.replaces);
    });
    has_barriers_ = std::any_of(program.ops.begin(), program.ops.end(), [](const sim::Op& op) {
        return op.control == sim::Control::barrier;
    });
    for (size_t i = 0; i < update.size(); ++i)
        updates_shared_ |= update[i] > 0 && program.instructions[i].space == Space::shared;
    changes_.fill(1);
    find_shared_variables(settings.shared);
    find_aliases(settings.restricted);
    needs_writes_ = updates_shared_;
    for (size_t i = 0; i < instructions_.size(); ++i) {
        CheckedInstruction& in = instructions_[i];
        const bool is_global = program.instructions[i].space == Space::global;
        const bool is_named = in.traits.read_only || has_alias(uint32_t(i));
        in.by_words = !in.traits.strong && !in.traits.asynchronous &&
                      (in.access == Access::load    ? is_global || !is_named
                       : in.access == Access::store ? !is_global && !is_named
                                                    : false);
        needs_writes_ |= in.access == Access::async_copy || in.traits.asynchronous ||
                         (has_alias(uint32_t(i)) && program.instructions[i].space != Space::global);
    }
}

CheckObserver::~CheckObserver() = default;

void CheckObserver::start(sim::Block& block) {
    if (free_states_.empty())
        free_states_.push_back(states_.emplace_back(std::make_unique<BlockState>()).get());
    BlockState& b = *free_states_.back();
    free_states_.pop_back();
    block.observed = &b;
    const uint32_t number = uint32_t(block.linear) + 1;
    b.order.start(number, block.threads);
    b.shared.start(number, block.shared_bytes, shared_bits_, block.cluster != nullptr,
                   needs_writes_);
    // The system initialises its part of shared memory.
    for (uint32_t n = program_.system_shared_bytes; n > 0; --n) {
        const uint64_t granule = (block.shared_bytes - n) >> shared_bits_;
        b.shared.row(granule / Row::size, 0, 0).own(granule % Row::size).mark(Cell::initialised);
    }
    b.barriers = {};
    b.copies.clear();
    b.proxy_fence = 0;
    b.last_op.assign(block.warp_count, {});
    b.unwritten.resize(size_t(block.warp_count) * sim::warp_size * program_.local_bytes);
    b.registers.assign(size_t(block.warp_count) * registers_.size(), {});
    for (const Warp& w : block.warps) start_frame(w, {}, sim::all_lanes);
}

void CheckObserver::finish(const sim::Block& block) {
    if (updates_shared_) note_lost_sums(block);
    free_states_.push_back(static_cast<BlockState*>(block.observed));
}

void CheckObserver::segment(const Warp& w, uint32_t first, LaneMask mask) {
    BlockState& b = state(w);
    b.order.converge(w.index, mask);
    if (b.order.now() >= max_time) [[unlikely]]
        throw LaunchError(program_.kernel + " synchronizes too often to check");
    if (registers_.size() > 0) [[unlikely]] {
        auto* const states = &b.registers[w.index * registers_.size()];
        for (const auto& use : registers_.execute(states, first, program_.segment_end[first], mask))
            uninitialized(w, use);
    }
    if (!has_barriers_ || w.current.frame.depth > 0) return;
    uint32_t last = program_.segment_end[first] - 1;
    const sim::Control end = program_.ops[last].control;
    if (end == sim::Control::exit || end == sim::Control::join) {
        if (last == first) return;
        --last;
    }
    BlockState::LastOp& of_warp = b.last_op[w.index];
    if (of_warp.lanes != mask) of_warp.store();
    of_warp.lanes = mask;
    of_warp.op = last;
}

void CheckObserver::start_frame(const Warp& w, const sim::Frame& frame, LaneMask lanes) {
    if (registers_.size() > 0)
        registers_.enter(&state(w).registers[w.index * registers_.size()], frame.function, lanes);
    const sim::FunctionInfo& f = program_.functions[frame.function];
    if (program_.local_bytes == 0 || f.local_bytes == 0) return;
    sim::for_each_lane(lanes, [&](int lane) {
        uint8_t* const bytes =
            &state(w).unwritten[(size_t(w.index) * sim::warp_size + size_t(lane)) *
                                    program_.local_bytes +
                                frame.local];
        std::fill_n(bytes, f.local_bytes, uint8_t(0));
        for (const sim::VariablePlace& v : f.locals)
            std::fill_n(bytes + v.offset, v.bytes, uint8_t(1));
    });
}

void CheckObserver::call(const Warp& w) {
    if (!w.running || w.current.pc != program_.functions[w.current.frame.function].entry) return;
    start_frame(w, w.current.frame, w.current.mask);
}

void CheckObserver::access(const Warp& w, const MemoryEvent& e) {
    if (!state(w).copies.empty()) [[unlikely]]
        return follow_copies(w, e);
    check_access(w, e);
}

void CheckObserver::check_access(const Warp& w, const MemoryEvent& e) {
    if (e.space == Space::shared) return check<true>(w, e);
    if (e.space == Space::global) return check<false>(w, e);
    if (e.space == Space::local) return check_local(w, e);
    if (e.space == Space::param) return check_parameter(w, e);
}

template <bool shared>
void CheckObserver::check(const Warp& w, const MemoryEvent& e) {
    BlockState& b = state(w);
    const CheckedInstruction& in = instructions_[e.pc];
    LaneMask lanes = e.mask;
    if (in.by_words) {
        const bool loads = e.access == Access::load;
        if constexpr (shared) {
            if (loads && is_settled(b, w, e)) return;
            lanes = loads ? check_words<true, true>(b, w, e) : check_words<true, false>(b, w, e);
        } else if (loads && (e.shape == Shape::uniform || e.shape == Shape::scattered)) {
            if (const auto strided = with_stride(e)) return check<false>(w, *strided);
            lanes = check_words<false, true>(b, w, e);
        }
        if (!lanes) return;
    }
    const uint32_t bits = shared ? shared_bits_ : global_bits_;
    Place at{.warp = w, .event = e, .instruction = in, .block = b};
    at.shared = shared;
    if (e.of) at.memory = &static_cast<BlockState*>(e.of->observed)->shared;
    at.me.block = b.order.block();
    at.me.time = b.order.now();
    at.me.pc = e.pc;
    at.me.warp = w.index;

    at.buffer = buffer_hints_[e.pc];
    const bool copies = shared && e.access == Access::async_copy;
    const bool reads = e.access == Access::load || (e.access == Access::async_copy && !copies);
    // If all lanes read the same address, one check suffices for all of them. The first lane is
    // checked. The last lane is stored in the cell as a second reader (Stamp::extra).
    const bool took_lock = b.order.took_lock(w.index);
    const bool one_for_all = reads && !in.traits.strong && e.shape == Shape::uniform;
    if (one_for_all) lanes &= -lanes;
    const bool plain = !in.traits.strong || e.access == Access::async_copy;
    const bool special = took_lock || copies || (shared && in.traits.asynchronous);
    if (plain && !special &&
        ((!shared && reads && repeats(at)) || check_rows<shared>(at, lanes, reads)))
        return;

    const sim::Buffer* buffer = shared ? nullptr : &global_.memory().buffers()[at.buffer];
    const int named = shared ? variable_of_[e.pc] : -1;
    const sim::Buffer* const variable = named < 0 ? nullptr : &shared_variables_[size_t(named)];
    at.me.shift = Stamp::one_lane;
    sim::for_each_lane(lanes, [&](int lane) {
        at.lane = at.me.lane = uint32_t(lane);
        if (took_lock) [[unlikely]]
            at.me.unfenced = b.order.unfenced(w.index, at.lane);
        at.other = one_for_all ? uint32_t(sim::warp_size) - 1 : at.lane;
        uint64_t first = e.address(lane), end = first + e.bytes;
        bool* undefined = nullptr;
        if constexpr (!shared) {
            if (first - buffer->address >= buffer->bytes) {
                at.buffer = global_.buffer_of(first);
                buffer_hints_[e.pc] = at.buffer;
                buffer = &global_.memory().buffers()[at.buffer];
            }
            undefined = buffer->undefined;
            first -= buffer->address;
            end = std::min(end - buffer->address, buffer->bytes);
            if (buffer->has_gaps && buffer->in_gap(first)) outside_view(at, first);
        } else if (variable && (first - variable->address >= variable->bytes ||
                                end - variable->address > variable->bytes)) {
            outside_variable(w, e.pc, e.bytes, lane, first);
            return;
        }
        for (uint64_t g = first >> bits; g <= (end - 1) >> bits; ++g) {
            at.granule = g;
            at.offset = g << bits;
            at.end = std::min(end, (g + 1) << bits);
            at.undefined = undefined ? undefined + at.offset : nullptr;
            Cell& cell = row(at, g / Row::size).own(g % Row::size);
            if (shared)
                at.memory->unsettle(g);
            else
                ++changes_of(at.buffer);
            if (has_alias(e.pc)) [[unlikely]]
                check_alias(at, cell);
            if (!plain) {
                e.access == Access::load ? read_strong(at, cell) : write_strong(at, cell);
                continue;
            }
            if (reads && shared && in.traits.asynchronous) check_proxy(at, cell);
            check_cell(at, cell, reads);
            if (copies) cell.mark(Cell::copying);
        }
    });
}

void CheckObserver::async_complete(const Warp& w, const sim::AsyncCopy& copy, LaneMask lanes) {
    BlockState& b = state(w);
    sim::for_each_lane(lanes, [&](int lane) {
        const uint64_t first = uint64_t(copy.destination[lane] - w.block->shared);
        const uint64_t last = first + copy.bytes - 1;
        for (uint64_t g = first >> shared_bits_; g <= last >> shared_bits_; ++g) {
            const Cell old = b.shared.cell(g);
            const Stamp& s = old.write;
            if (!old.is(Cell::copying) || s.pc != copy.pc || s.warp != w.index ||
                s.lane_at(g % Row::size) != uint32_t(lane))
                continue;
            Cell& cell =
                b.shared.row(g / Row::size, b.order.floor(), b.order.now()).own(g % Row::size);
            b.shared.unsettle(g);
            cell.write.extra &= ~uint32_t(Cell::copying);
            cell.write.time = b.order.now();
        }
    });
}

void CheckObserver::check_local(const Warp& w, const MemoryEvent& e) {
    BlockState& b = state(w);
    const bool reads = e.access == Access::load;
    if (reads && instructions_[e.pc].for_bit_field) return;
    sim::for_each_lane(e.mask, [&](int lane) {
        const uint64_t address = e.address(lane);
        const auto bytes =
            b.unwritten.begin() +
            ptrdiff_t((size_t(w.index) * sim::warp_size + size_t(lane)) * program_.local_bytes +
                      address);
        if (!reads) {
            std::fill_n(bytes, e.bytes, uint8_t(0));
            return;
        }
        uint32_t undefined = 0;
        for (uint32_t i = 0; i < e.bytes; ++i) undefined |= uint32_t(bytes[i]) << i;
        if (undefined == 0) return;
        const CopiedBytes& copied = instructions_[e.pc].copied;
        const bool copies = (undefined & ~uint32_t(copied.bytes)) == 0;
        const auto before = ptrdiff_t(std::min<uint64_t>(copied.before, address));
        const auto after =
            ptrdiff_t(std::min<uint64_t>(copied.after, program_.local_bytes - address - e.bytes));
        const auto end = bytes + e.bytes + after;
        const bool is_padding = copies && std::find(bytes - before, end, uint8_t(0)) != end;
        if (copies && copied.traced) {
            BlockState::Copies& c = b.copies[{w.index, e.pc}];
            c.bytes[size_t(lane)] = uint16_t(undefined);
            c.address[size_t(lane)] = address;
            c.padding = (c.padding & ~(LaneMask{1} << lane)) | LaneMask{is_padding} << lane;
            return;
        }
        if (is_padding || follows_from_member(e.pc)) return;
        Place at{.warp = w, .event = e, .instruction = instructions_[e.pc], .block = b};
        at.lane = uint32_t(lane);
        at.offset = address;
        uninitialized(at);
    });
}

void CheckObserver::follow_copies(const Warp& w, const MemoryEvent& e) {
    BlockState& b = state(w);
    if (e.access == Access::load) {
        if (const auto known = b.copies.find({w.index, e.pc}); known != b.copies.end())
            sim::for_each_lane(e.mask, [&](int lane) { known->second.bytes[size_t(lane)] = 0; });
        return check_access(w, e);
    }
    check_access(w, e);
    for (const Origin& origin : origins_[e.pc]) {
        const auto known = b.copies.find({w.index, origin.load});
        if (known == b.copies.end()) continue;
        const BlockState::Copies& c = known->second;
        sim::for_each_lane(e.mask, [&](int lane) {
            const uint32_t undefined = c.bytes[size_t(lane)] >> origin.from;
            if ((undefined & ((1u << origin.bytes) - 1)) == 0) return;
            if (e.space == Space::local) {
                const size_t first =
                    (size_t(w.index) * sim::warp_size + size_t(lane)) * program_.local_bytes +
                    e.address(lane) + origin.to;
                for (uint32_t i = 0; i < origin.bytes; ++i)
                    b.unwritten[first + i] = undefined >> i & 1;
            } else if ((e.space == Space::shared || e.space == Space::global) &&
                       !sim::has_lane(c.padding, lane) && !follows_from_member(origin.load)) {
                MemoryEvent load;
                load.pc = origin.load;
                load.space = Space::local;
                load.bytes = uint8_t(program_.instructions[origin.load].bytes);
                load.mask = e.mask;
                load.addresses = c.address.data();
                Place at{.warp = w,
                         .event = load,
                         .instruction = instructions_[origin.load],
                         .block = b};
                at.lane = uint32_t(lane);
                at.offset = c.address[size_t(lane)];
                uninitialized(at);
            }
        });
    }
}

}  // namespace coalesce::analysis
