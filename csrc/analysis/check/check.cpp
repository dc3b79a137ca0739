// The part of the checker that tests accesses to memory and updates shadow memory.
#include "analysis/check/check.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

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
    const std::vector<uint16_t> copied = copied_bytes(program);
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
        const CheckedInstruction& in = instructions_[i];
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
    if (e.space == Space::shared) return check<true>(w, e);
    if (e.space == Space::global) return check<false>(w, e);
    if (e.space == Space::local) return check_local(w, e);
    if (e.space == Space::param) return check_parameter(w, e);
}

namespace {

bool of_same_warp(const Stamp& a, const Stamp& b) { return a.block == b.block && a.warp == b.warp; }

bool is_one(LaneMask granules) { return (granules & (granules - 1)) == 0; }

// Makes one read of two reads by a warp: `later` gets two of their lanes, and the earlier time.
// Returns false if the result differs between the granules.
bool merge(Stamp earlier, Stamp& later, LaneMask granules) {
    if (earlier.shift != later.shift) {
        if (!is_one(granules)) return false;
        const uint32_t granule = uint32_t(std::countr_zero(granules));
        const uint32_t lane = earlier.lane_at(granule), extra = earlier.extra_at(granule);
        earlier.lane = lane - (granule >> later.shift);
        earlier.extra = extra - (granule >> later.shift);
    }
    if (later.extra == later.lane)
        later.extra = earlier.lane != later.lane ? earlier.lane : earlier.extra;
    later.time = earlier.time;
    return true;
}

}  // namespace

// Returns true if an earlier access, by `lane_then`, is ordered before this access, by `lane`.
[[gnu::always_inline]] inline CheckObserver::Answer CheckObserver::ordered(
    const Place& at, const Stamp& then, uint32_t lane_then, uint32_t lane, LaneMask granules) {
    const BlockOrder& order = at.block.order;
    if (order.before_barrier(then) || order.before_sync_of_warp(then, at.me.warp))
        return Answer::yes;
    const bool same_warp = of_same_warp(then, at.me);
    if (!same_warp && !order.has_flags()) return Answer::no;
    const uint32_t first = uint32_t(std::countr_zero(granules));
    lane_then = (lane_then + (first >> then.shift)) % sim::warp_size;
    lane = (lane + (first >> at.me.shift)) % sim::warp_size;
    const bool same_lane = same_warp && lane_then == lane;
    if (is_one(granules)) {
        const bool is = same_lane || order.ordered(then, lane_then, at.me.warp, lane);
        return is ? Answer::yes : Answer::no;
    }
    if (then.shift != at.me.shift) return Answer::differs;
    if (same_lane) return Answer::yes;
    return order.has_flags() || order.has_pairs(at.me.warp) ? Answer::differs : Answer::no;
}

// Returns true if the read is certainly correct, and the cell need not be changed. The other checks
// of the read can then be skipped. This test is fast, and it succeeds for nearly every read.
[[gnu::always_inline]] inline CheckObserver::Answer CheckObserver::is_known(const Place& at,
                                                                            const Cell& cell,
                                                                            LaneMask granules) {
    using enum Answer;
    const BlockOrder& order = at.block.order;
    const Stamp& w = cell.write;
    const uint32_t wanted = at.shared ? Cell::initialised : 0;
    if (w.extra != wanted || at.undefined || order.has_flags()) return no;
    if (w.time && (!order.before_barrier(w) || at.instruction.traits.read_only)) return no;
    const Stamp &a = cell.read[0], &b = cell.read[1];
    const auto same = [&](const Stamp& r) {
        if (r.time != at.me.time || r.block != at.me.block || r.warp != at.me.warp) return no;
        if (r.shift == at.me.shift) return r.lane == at.me.lane && r.extra == at.other ? yes : no;
        if (!is_one(granules)) return differs;
        const uint32_t granule = uint32_t(std::countr_zero(granules)), by = granule >> at.me.shift;
        return r.lane_at(granule) == (at.me.lane + by) % sim::warp_size &&
                       r.extra_at(granule) == (at.other + by) % sim::warp_size
                   ? yes
                   : no;
    };
    const Answer same_a = same(a), same_b = same(b);
    if (same_a == yes || same_b == yes) return yes;
    if (same_a == differs || same_b == differs) return differs;
    // A cell keeps two reads by different warps, if there are such reads. If neither of the kept
    // reads is by this warp, this read need not be kept. A later write that races with this read
    // then also races with one of the kept reads. There is one exception: if both kept reads are by
    // the same other block, read() replaces one of them by this read.
    const auto elsewhere = [&](const Stamp& r) {
        return r.time &&
               (r.block != at.me.block || (r.warp != at.me.warp && !order.before_barrier(r)));
    };
    const bool is = elsewhere(a) && elsewhere(b) && !of_same_warp(a, b) &&
                    (a.block != b.block || a.block == at.me.block);
    return is ? yes : no;
}

template <bool shared>
void CheckObserver::check(const Warp& w, const MemoryEvent& e) {
    BlockState& b = state(w);
    const CheckedInstruction& in = instructions_[e.pc];
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
    LaneMask lanes = e.mask;
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
            if (!shared) ++changes_of(at.buffer);
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

Row& CheckObserver::row(const Place& at, uint64_t number) {
    return at.shared ? at.memory->row(number, at.block.order.floor(), at.me.time)
                     : global_.row(at.buffer, number);
}

// Describes a read that changes nothing, if nothing is known about other words of the same rows.
inline CheckObserver::KnownRead CheckObserver::as_known(const Place& at) {
    return {.changes = changes_of(at.buffer),
            .place = at.event.first,
            .stride = sim::lane_stride(at.event),
            .block = at.me.block,
            .warp = at.me.warp,
            .time = at.me.time,
            .alias = alias_of(at.me.pc),
            .bytes = at.event.bytes,
            .read_only = at.instruction.traits.read_only};
}

// Returns true if it is known that the read changes nothing.
bool CheckObserver::repeats(const Place& at) {
    const MemoryEvent& e = at.event;
    if (e.shape == Shape::scattered) return false;
    const sim::Buffer& buffer = global_.memory().buffers()[at.buffer];
    if (e.first - buffer.address >= buffer.bytes) return false;
    const KnownRead& known = known_read(e, at.buffer);
    return known.place == e.first >> known.bits && known.is_like(as_known(at)) && !e.of &&
           !at.block.order.has_flags();
}

// METHOD
// The accesses of the lanes are divided into pieces: the granules of one row that neighbouring
// lanes access. If each lane accesses the word after that of the lane before it, a piece is a whole
// row. Otherwise a piece may be the granules of one lane only.
//
// Returns false, and does nothing, if the access must be checked lane by lane.
template <bool shared>
bool CheckObserver::check_rows(Place& at, LaneMask lanes, bool reads) {
    const MemoryEvent& e = at.event;
    const uint32_t bits = shared ? shared_bits_ : global_bits_;
    const uint32_t granules = e.bytes >> bits;  // of one lane
    if (!std::has_single_bit(uint32_t{e.bytes}) || granules == 0 || granules > 16) return false;

    // The memory that the lanes may access: the buffer, or the shared variable.
    const uint64_t start = e.address(std::countr_zero(lanes));
    const sim::Buffer* memory = nullptr;
    if constexpr (shared) {
        const int named = variable_of_[e.pc];
        if (named >= 0) memory = &shared_variables_[size_t(named)];
    } else {
        memory = &global_.memory().buffers()[at.buffer];
        if (start - memory->address >= memory->bytes) {
            at.buffer = buffer_hints_[e.pc] = global_.buffer_of(start);
            memory = &global_.memory().buffers()[at.buffer];
        }
        at.undefined = memory->undefined;
    }
    const uint64_t base = shared ? 0 : memory->address;
    if (memory && memory->bytes < e.bytes) return false;
    const auto fits = [&](uint64_t address) {
        return ((address - base) & (e.bytes - 1)) == 0 &&
               (!memory || address - memory->address <= memory->bytes - e.bytes);
    };

    const bool keeps =
        !shared && reads && e.shape != Shape::scattered && !e.of && !(memory && memory->has_gaps);
    const KnownRead now = keeps ? as_known(at) : KnownRead{};
    // The rows are tested as a whole if the warp reads from the same rows again.
    const uint32_t row_bits = bits + uint32_t(std::countr_zero(Row::size));
    const uint64_t row_bytes = uint64_t{1} << row_bits;
    const KnownRead& before = known_read(e, at.buffer);
    const bool again = keeps && before.is_like(now) &&
                       before.place << before.bits >> row_bits == e.first >> row_bits;
    at.whole_rows =
        again && !before.tested && base % row_bytes == 0 && now.stride % int64_t(row_bytes) == 0;
    const auto keep = [&] {
        if (!keeps || changes_of(at.buffer) != now.changes) return;
        KnownRead& known = known_read(e, at.buffer);
        known = now;
        known.tested = again;
        if (at.whole_rows) known.bits = uint8_t(row_bits);
        known.place = e.first >> known.bits;
    };

    const uint32_t width = uint32_t(std::countr_zero(granules));
    const bool consecutive = e.shape == Shape::consecutive && e.mask == sim::all_lanes;
    uint64_t places[sim::warp_size];  // the first granule of each lane
    if (consecutive) {
        if (!fits(start) || !fits(start + uint64_t{sim::warp_size - 1} * e.bytes)) return false;
    } else {
        bool all_fit = true;
        sim::for_each_lane(lanes, [&](int lane) {
            const uint64_t address = e.address(lane);
            all_fit = all_fit && fits(address);
            places[lane] = (address - base) >> bits;
        });
        if (!all_fit) return false;
    }
    if (!shared && memory->has_gaps) {
        at.me.shift = Stamp::one_lane;
        sim::for_each_lane(lanes, [&](int lane) {
            const uint64_t offset = e.address(lane) - base;
            at.lane = at.me.lane = uint32_t(lane);
            if (memory->in_gap(offset)) outside_view(at, offset);
        });
    }

    if (consecutive) {
        const uint64_t first = (start - base) >> bits, end = first + (sim::warp_size << width);
        for (uint64_t row = first / Row::size; row * Row::size < end; ++row) {
            const uint64_t begin = row * Row::size;
            Piece piece{row, sim::all_lanes, uint32_t((begin - first) >> width) % sim::warp_size,
                        width};
            if (begin < first) piece.granules <<= first - begin;
            if (begin + Row::size > end) piece.granules &= (1u << (end - begin)) - 1;
            check_piece<shared>(at, piece, reads);
        }
        keep();
        return true;
    }
    // The granules of neighbouring lanes are usually at the same distance, a power of two.
    uint32_t shift = Stamp::one_lane;
    if (!is_one(lanes)) {
        const int one = std::countr_zero(lanes), two = std::countr_zero(lanes & (lanes - 1));
        const uint64_t rise = places[two] - places[one], by = uint64_t(two - one);
        if (rise < Row::size * by && rise % by == 0 && std::has_single_bit(rise / by) &&
            rise / by >= granules)
            shift = uint32_t(std::countr_zero(rise / by));
    }
    Piece piece;
    bool one_lane = true;
    uint32_t last = 0;
    const auto check = [&] {
        if (one_lane) piece.shift = Stamp::one_lane, piece.lane = last;
        check_piece<shared>(at, piece, reads);
    };
    sim::for_each_lane(lanes, [&](int lane) {
        const uint32_t first = places[lane] % Row::size;
        const LaneMask mask = ((1u << granules) - 1) << first;
        const uint32_t from = (uint32_t(lane) - (first >> shift)) % sim::warp_size;
        const uint64_t row = places[lane] / Row::size;
        if (piece.granules && piece.row == row && piece.lane == from && piece.granules < mask) {
            piece.granules |= mask;
            one_lane = false;
        } else {
            if (piece.granules) check();
            piece = {row, mask, from, shift};
            one_lane = true;
        }
        last = uint32_t(lane);
    });
    check();
    keep();
    return true;
}

template <bool shared>
void CheckObserver::check_piece(Place& at, const Piece& piece, bool reads) {
    Row& row = shared ? at.memory->row(piece.row, at.block.order.floor(), at.me.time)
                      : global_.row(at.buffer, piece.row);
    bool* const undefined = at.undefined;
    const bool one_for_all = reads && at.event.shape == Shape::uniform;
    at.me.lane = piece.lane;
    at.me.shift = piece.shift;
    at.other = one_for_all ? sim::warp_size - 1 : piece.lane;
    at.granule = piece.row * Row::size;
    const bool aliased = has_alias(at.me.pc);
    const auto may_be_alias = [&](const Cell& cell) {
        return reads ? is_alias(at, cell.write)
                     : is_alias(at, cell.read[0]) || is_alias(at, cell.read[1]);
    };
    LaneMask left = piece.granules, unclear = 0, known = 0;
    while (left) {
        const uint32_t n = row.number_at(uint32_t(std::countr_zero(left)));
        const LaneMask part = row.granules(n) & left;
        Cell& cell = row.cell(n);
        left &= ~part;
        if (aliased && may_be_alias(cell)) {
            unclear |= part;
            continue;
        }
        if (!reads) {
            if (!is_correct_write(at, cell, part)) unclear |= part;
            continue;
        }
        const Answer answer = is_known(at, cell, part);
        if (answer == Answer::yes) {
            known |= part;
            continue;
        }
        if (!shared) ++changes_of(at.buffer);
        const bool is_shared = part != row.granules(n);
        Cell changed;
        if (is_shared) changed = cell;
        if (answer == Answer::differs || !is_correct_read(at, cell, part) ||
            !keep_read(at, is_shared ? changed : cell, part))
            unclear |= part;
        else if (is_shared)
            row.assign(part, changed);
    }
    if (!shared && (!reads || unclear)) ++changes_of(at.buffer);
    // Reads along rows: would the read of any other granule of the row change nothing, too?
    if (known == piece.granules && at.whole_rows) {
        at.whole_rows = piece.shift == Stamp::one_lane;
        for (uint32_t n = 0; at.whole_rows && n < row.cells(); ++n)
            at.whole_rows = is_known(at, row.cell(n), row.granules(n)) == Answer::yes;
    }
    if (!reads && unclear != piece.granules) {
        Cell cell{at.me, {}};
        if (shared) cell.mark(Cell::initialised);
        const LaneMask correct = piece.granules & ~unclear;
        row.assign(correct, cell);
        if (undefined) {
            sim::for_each_lane(correct, [&](int i) {
                std::fill_n(undefined + ((at.granule + uint64_t(i)) << global_bits_),
                            size_t{1} << global_bits_, false);
            });
        }
    }
    if (!unclear) return;
    const uint32_t bits = shared ? shared_bits_ : global_bits_;
    at.me.shift = Stamp::one_lane;
    sim::for_each_lane(unclear, [&](int i) {
        at.granule = piece.row * Row::size + uint64_t(i);
        at.offset = at.granule << bits;
        at.end = at.offset + (uint64_t{1} << bits);
        at.undefined = undefined ? undefined + at.offset : nullptr;
        at.lane = at.me.lane = (piece.lane + (uint32_t(i) >> piece.shift)) % sim::warp_size;
        at.other = one_for_all ? uint32_t(sim::warp_size) - 1 : at.lane;
        Cell& cell = row.own(uint32_t(i));
        if (aliased) check_alias(at, cell);
        check_cell(at, cell, reads);
    });
    at.undefined = undefined;
    if (reads || piece.granules != sim::all_lanes) return;
    Cell cell{at.me, {}};  // all granules have been written
    cell.write.lane = piece.lane;
    cell.write.shift = piece.shift;
    if (shared) cell.mark(Cell::initialised);
    row.assign(sim::all_lanes, cell);
}

[[gnu::always_inline]] inline bool CheckObserver::is_correct_read(const Place& at, const Cell& cell,
                                                                  LaneMask granules) const {
    const Stamp& w = cell.write;
    if (cell.is(Cell::has_strong) || cell.is(Cell::copying)) return false;
    if (!at.instruction.for_bit_field) {
        if (at.shared && !cell.is(Cell::initialised)) return false;
        if (at.undefined) {
            const uint64_t first = at.granule + uint64_t(std::countr_zero(granules)),
                           end = at.granule + uint64_t(std::bit_width(granules));
            if (std::memchr(at.undefined + (first << global_bits_), 1,
                            (end - first) << global_bits_))
                return false;
        }
    }
    if (w.time == 0) return true;
    return !at.instruction.traits.read_only &&
           ordered(at, w, w.lane, at.me.lane, granules) == Answer::yes &&
           (at.other == at.me.lane || ordered(at, w, w.lane, at.other, granules) == Answer::yes);
}

[[gnu::always_inline]] inline bool CheckObserver::is_correct_write(const Place& at,
                                                                   const Cell& cell,
                                                                   LaneMask granules) {
    const Stamp& w = cell.write;
    const auto is_ordered = [&](const Stamp& then, uint32_t lane_then) {
        return ordered(at, then, lane_then, at.me.lane, granules) == Answer::yes;
    };
    if (cell.is(Cell::has_strong) || cell.is(Cell::copying)) return false;
    if (w.time && !is_ordered(w, w.lane)) return false;
    return std::ranges::all_of(cell.read, [&](const Stamp& r) {
        return r.time == 0 ||
               (is_ordered(r, r.lane) && (r.extra == r.lane || is_ordered(r, r.extra)));
    });
}

void CheckObserver::check_cell(Place& at, Cell& cell, bool reads) {
    if (!reads)
        write(at, cell);
    else if (is_known(at, cell, 1u << at.granule % Row::size) != Answer::yes)
        read(at, cell);
}

void CheckObserver::check_initialised(const Place& at, const Cell& cell) {
    if (at.instruction.for_bit_field) return;
    const uint64_t bytes = at.end - at.offset;
    const bool holds_nothing =
        at.shared ? !cell.is(Cell::initialised)
                  : at.undefined &&
                        std::find(at.undefined, at.undefined + bytes, true) != at.undefined + bytes;
    if (holds_nothing && !is_padding(at)) uninitialized(at);
}

bool CheckObserver::is_padding(const Place& at) const {
    const uint64_t base = at.shared ? 0 : global_.memory().buffers()[at.buffer].address;
    const uint64_t first = at.event.address(int(at.lane)) - base, end = first + at.event.bytes;
    for (uint64_t byte = std::max(first, at.offset); byte < std::min(end, at.end); ++byte) {
        if (!(at.instruction.copied >> (byte - first) & 1)) return false;
    }
    if (!at.shared) {
        const bool* const undefined = at.undefined - at.offset;
        return std::find(undefined + first, undefined + end, false) != undefined + end;
    }
    for (uint64_t g = first >> shared_bits_; g <= (end - 1) >> shared_bits_; ++g) {
        if (at.memory->cell(g).is(Cell::initialised)) return true;
    }
    return false;
}

void CheckObserver::initialise(const Place& at, Cell& cell) {
    if (at.shared)
        cell.mark(Cell::initialised);
    else if (at.undefined)
        std::fill(at.undefined, at.undefined + (at.end - at.offset), false);
}

void CheckObserver::read(const Place& at, Cell& cell) {
    check_initialised(at, cell);
    const Stamp& w = cell.write;
    if (w.time) {
        const uint32_t lane = at.lane_of(w);
        if (!at.ordered(w, lane) || cell.is(Cell::copying)) {
            conflict(at, w, lane, false);
        } else if (at.other != at.lane && !at.block.order.ordered(w, lane, at.me.warp, at.other)) {
            Place elsewhere = at;
            elsewhere.lane = elsewhere.me.lane = at.other;
            conflict(elsewhere, w, lane, false);
        } else if (at.instruction.traits.read_only) {
            stale(at, w);
        }
    }
    if (cell.is(Cell::has_strong)) {
        const Location& l = location(at);
        const bool harmless = l.atomic_write && at.instruction.before_compare_and_swap;
        if (!harmless) conflict_with(at, l.write, false);
    }
    (void)keep_read(at, cell, 1u << at.granule % Row::size);
}

// Reports an asynchronous access to data that threads have written, without a fence in between.
// Such data are visible to asynchronous copies and matrix products only after a fence (PTX ISA,
// "Async proxy"). The checker accepts a fence by any thread of the block, so that it never reports
// a correct kernel.
void CheckObserver::check_proxy(const Place& at, const Cell& cell) {
    const Stamp& w = cell.write;
    if (w.time == 0 || w.block != at.me.block || w.time <= at.block.proxy_fence) return;
    if (!instructions_[w.pc].traits.asynchronous && at.ordered(w, at.lane_of(w))) unfenced(at, w);
}

[[gnu::always_inline]] inline bool CheckObserver::keep_read(const Place& at, Cell& cell,
                                                            LaneMask granules) {
    Stamp me = at.me;
    me.extra = at.other;
    auto& [first, second] = cell.read;
    for (Stamp* const r : {&first, &second}) {
        Answer replaces = Answer::yes;
        if (r->time) {
            replaces = ordered(at, *r, r->lane, at.me.lane, granules);
            if (replaces == Answer::yes && r->extra != r->lane)
                replaces = ordered(at, *r, r->extra, at.me.lane, granules);
        }
        if (replaces == Answer::differs) return false;
        if (replaces == Answer::yes) {
            *r = me;
            return true;
        }
        if (!of_same_warp(*r, me)) continue;
        // The same warp has read this cell before. If another instruction has read it, both reads
        // are kept until another warp reads the cell, so that findings name the right line.
        const bool keeps_both = r == &first && second.time == 0 && first.pc != me.pc;
        if (!keeps_both && !merge(*r, me, granules)) return false;
        *(keeps_both ? &second : r) = me;
        return true;
    }
    if (of_same_warp(first, second)) {
        if (!merge(first, second, granules)) return false;
        first = second;
        second = me;
        return true;
    }
    // A cell keeps two reads. At this place, both kept reads are by other warps, and the new read
    // replaces one of them. If possible, the two kept reads are by different blocks, because two
    // reads by the same block would detect fewer races.
    (me.block == first.block && second.block != first.block ? first : second) = me;
    return true;
}

void CheckObserver::write(const Place& at, Cell& cell) {
    const Stamp w = cell.write;
    // True if the memory certainly still holds the value of the write `w`. False if atomics or
    // volatile writes may have changed the value.
    const bool untouched = !cell.is(Cell::has_strong);
    if (w.time && (!at.ordered(w, at.lane_of(w)) || cell.is(Cell::copying)))
        conflict(at, w, at.lane_of(w), untouched);
    for (const Stamp& r : cell.read) {
        if (r.time == 0) continue;
        if (!at.ordered(r, at.lane_of(r)))
            conflict(at, r, at.lane_of(r), false);
        else if (r.extra != r.lane && !at.ordered(r, at.extra_of(r)))
            conflict(at, r, at.extra_of(r), false);
    }
    if (cell.is(Cell::has_strong)) {
        Location& l = location(at);
        conflict_with(at, l.write, true);
        conflict_with(at, l.read, false);
        l = {};
    }
    cell = {at.me, {}};
    initialise(at, cell);
}

bool CheckObserver::is_alias(const Place& at, const Stamp& then) const {
    return then.time && has_alias(then.pc) && alias_of_[then.pc] != alias_of(at.me.pc);
}

void CheckObserver::check_alias(const Place& at, const Cell& cell) {
    if (at.event.access != Access::store) {
        if (is_alias(at, cell.write)) alias(at, cell.write, at.lane_of(cell.write));
        return;
    }
    // A dynamic array may use the memory of another one after it. A thread may also read an element
    // and then write it, as in `y[i] = x[i] + 1`: this works even if `x` and `y` are __restrict__.
    if (at.shared) return;
    for (const Stamp& r : cell.read) {
        const uint32_t lane = at.lane_of(r), extra = at.extra_of(r);
        const bool own = of_same_warp(r, at.me) && lane == at.lane && extra == at.lane;
        if (!own && is_alias(at, r)) alias(at, r, lane != at.lane ? lane : extra);
    }
}

void CheckObserver::conflict_with(const Place& at, const Recent& recent, bool both_write) {
    for (const Stamp* s : {&recent.last, &recent.other}) {
        if (s->time && !at.ordered(*s, s->lane)) conflict(at, *s, s->lane, both_write);
    }
}

Location& CheckObserver::location(const Place& at) {
    return at.shared ? at.memory->location(at.granule) : global_.location(at.buffer, at.granule);
}

void CheckObserver::read_strong(const Place& at, Cell& cell) {
    Location& l = location(at);
    cell.mark(Cell::has_strong);
    at.block.order.acquire(l.published, at.me.warp, at.lane, at.instruction.traits.scope, false);
    check_initialised(at, cell);
    const Stamp& w = cell.write;
    if (w.time && (!at.ordered(w, at.lane_of(w)) || cell.is(Cell::copying)))
        conflict(at, w, at.lane_of(w), false);
    check_strong(at, l.write.last, l.block_scope, l.atomic_write);
    l.read.keep(at.me, [&](const Stamp& s) { return at.ordered(s, s.lane); });
}

void CheckObserver::write_strong(const Place& at, Cell& cell) {
    Location& l = location(at);
    cell.mark(Cell::has_strong);
    const bool atomic = at.instruction.traits.atomic;
    if (atomic) {
        const sim::Traits& t = at.instruction.traits;
        const bool takes_lock = t.form == sim::AtomicForm::compare_and_swap && !t.acquires;
        if (takes_lock || l.published.to_block || l.published.to_device)
            at.block.order.acquire(l.published, at.me.warp, at.lane, t.scope, takes_lock);
        if (!at.instruction.replaces) check_initialised(at, cell);
    }
    const Stamp& w = cell.write;
    if (w.time && (!at.ordered(w, at.lane_of(w)) || cell.is(Cell::copying)))
        conflict(at, w, at.lane_of(w), false);
    for (const Stamp& r : cell.read) {
        if (r.time == 0 || (atomic && instructions_[r.pc].before_compare_and_swap)) continue;
        if (!at.ordered(r, at.lane_of(r)))
            conflict(at, r, at.lane_of(r), false);
        else if (r.extra != r.lane && !at.ordered(r, at.extra_of(r)))
            conflict(at, r, at.extra_of(r), false);
    }
    check_strong(at, l.write.last, l.block_scope, l.atomic_write);
    check_strong(at, l.read.last, false, false);
    // A strong write that is not an atomic replaces the value. Later readers of the new value do
    // not synchronize with the writers of earlier values. So what these writers published is
    // forgotten.
    if (!atomic) l.published = {};
    if (at.instruction.traits.releases || l.published.to_block || at.block.order.has_published())
        at.block.order.publish(l.published, at.me.warp, at.lane, at.instruction.traits.scope,
                               at.instruction.traits.releases);
    l.write.keep(at.me, [&](const Stamp& s) { return at.ordered(s, s.lane); });
    l.atomic_write = atomic;
    l.block_scope = at.instruction.traits.scope == ThreadScope::block;
    initialise(at, cell);
}

void CheckObserver::check_strong(const Place& at, const Stamp& then, bool block_scope,
                                 bool atomic) {
    if (then.time == 0 || at.ordered(then, then.lane)) return;
    const bool scopes_differ = then.block != at.me.block &&
                               (block_scope || at.instruction.traits.scope == ThreadScope::block);
    const bool lockstep = !atomic && !at.instruction.traits.atomic && then.block == at.me.block &&
                          then.warp == at.me.warp &&
                          at.block.order.lockstep(then, then.lane, at.me.warp, at.lane);
    const CheckedInstruction &was = instructions_[then.pc], &is = at.instruction;
    const bool weak =
        strict_ && (was.traits.is_volatile || is.traits.is_volatile) && !was.waits && !is.waits;
    if (scopes_differ || lockstep || weak) conflict(at, then, then.lane, false);
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
        const auto written = std::count(bytes, bytes + e.bytes, uint8_t(0));
        if (written == e.bytes) return;
        bool is_padding = written > 0;
        for (uint32_t i = 0; i < e.bytes; ++i)
            is_padding = is_padding && (!bytes[i] || (instructions_[e.pc].copied >> i & 1));
        if (is_padding || follows_from_member(e.pc)) return;
        Place at{.warp = w, .event = e, .instruction = instructions_[e.pc], .block = b};
        at.lane = uint32_t(lane);
        at.offset = address;
        uninitialized(at);
    });
}

}  // namespace coalesce::analysis
