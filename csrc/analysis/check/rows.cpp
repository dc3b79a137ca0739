// Checks whole rows of shadow memory.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "analysis/check/kept_accesses.hpp"

namespace coalesce::analysis {

using sim::Access;
using sim::MemoryEvent;
using sim::Shape;

// Describes a read that changes nothing, if nothing is known about reads of other places.
inline CheckObserver::KnownRead CheckObserver::as_known(const Place& at) {
    return {.changes = changes_of(at.buffer),
            .place = at.event.first,
            .stride = sim::lane_stride(at.event),
            .lanes = at.event.mask,
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
    if (e.address(std::countr_zero(e.mask)) - buffer.address >= buffer.bytes) return false;
    const KnownRead& known = known_read(e, at.buffer);
    return known.contains(e.first) && known.is_like(as_known(at)) && !e.of &&
           !at.block.order.has_flags();
}

// Returns true if it is known that no read of the row by this lane changes anything.
inline bool CheckObserver::is_known_row(Place& at, uint32_t lane, uint64_t number) {
    Row& row = global_.row(at.buffer, number);
    if (row.is_settled(at.me.block)) return true;
    at.me.lane = at.other = lane;
    at.me.shift = Stamp::one_lane;
    for (uint32_t n = 0; n < row.cells(); ++n) {
        const Cell& cell = std::as_const(row).cell(n);
        if (is_known(at, cell, row.granules(n)) != Answer::yes) return false;
        if (cell.write.time && has_alias(at.me.pc)) return false;
    }
    row.settle();
    return true;
}

// A loop along the rows of a matrix reads the same rows again and again. Tests the rows that the
// lanes read, and the row after each of them, or before it if `down`. Returns true if no read of
// these rows changes anything, and stores in `known` how far the lanes may move in them.
bool CheckObserver::are_known_rows(Place& at, const uint64_t* places, bool down, KnownRead& known) {
    const uint32_t bytes = at.event.bytes, row_bytes = Row::size << global_bits_;
    const uint64_t size = global_.memory().buffers()[at.buffer].bytes;
    uint32_t least = row_bytes, most = 0;
    for (LaneMask left = at.event.mask; left; left &= left - 1) {
        const auto lane = uint32_t(std::countr_zero(left));
        const uint64_t row = places[lane] / Row::size, next = down ? row - 1 : row + 1;
        if (!is_known_row(at, lane, row)) return false;
        if (next < (size + row_bytes - 1) / row_bytes && !is_known_row(at, lane, next))
            return false;
        const uint32_t offset = uint32_t(places[lane] % Row::size) << global_bits_;
        least = std::min(least, offset);
        most = std::max(most, offset);
    }
    known.below = least + (down ? row_bytes : 0);
    known.above = row_bytes - most - bytes + (down ? 0 : row_bytes);
    return true;
}

// Marks granules of shared memory as settled if they are; see SharedShadow::is_settled().
inline void CheckObserver::settle(const Place& at, const Cell& cell, uint64_t row,
                                  LaneMask granules) {
    const BlockOrder& order = at.block.order;
    const auto is_kept = [&](const Stamp& r) {
        return r.block == at.me.block && r.time > order.floor();
    };
    const Stamp &a = cell.read[0], &b = cell.read[1], &w = cell.write;
    if (!is_kept(a) || !is_kept(b) || a.warp == b.warp || w.extra != Cell::initialised ||
        (w.time && !order.before_barrier(w)))
        return;
    sim::for_each_lane(
        granules, [&](int i) { at.memory->settle(row * Row::size + uint64_t(i), a.warp, b.warp); });
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
    KnownRead now = keeps ? as_known(at) : KnownRead{};
    const auto keep = [&] {
        if (keeps && changes_of(at.buffer) == now.changes) known_read(e, at.buffer) = now;
    };

    const uint32_t width = uint32_t(std::countr_zero(granules));
    const bool consecutive = e.shape == Shape::consecutive && lanes == sim::all_lanes;
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
        if (keeps && e.shape == Shape::strided && !at.undefined && !at.block.order.has_flags()) {
            const KnownRead& before = known_read(e, at.buffer);
            const bool again = before.is_like(now), down = again && e.first < before.place;
            // If a test has failed, the next one is for other rows.
            const bool tested = again && before.above == 0 &&
                                before.was_tested_near(e.first, Row::size << global_bits_);
            now.tested = tested ? before.tested : e.first;
            if (!tested && are_known_rows(at, places, down, now)) {
                keep();
                return true;
            }
        }
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
    // Lanes that access rows of their own.
    if constexpr (!shared) {
        if (e.shape == Shape::strided && reads && shift == Stamp::one_lane) {
            lanes = check_words<false, true>(at.block, at.warp, e);
            if (!lanes) {
                keep();
                return true;
            }
        }
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
    LaneMask left = piece.granules, unclear = 0;
    while (left) {
        const uint32_t n = row.number_at(uint32_t(std::countr_zero(left)));
        const LaneMask part = row.granules(n) & left;
        const Cell& cell = std::as_const(row).cell(n);
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
        if (answer == Answer::yes) continue;
        if (!shared) ++changes_of(at.buffer);
        const bool is_shared = part != row.granules(n);
        Cell changed;
        if (is_shared) changed = cell;
        if (answer == Answer::differs || !is_correct_read(at, cell, part) ||
            !keep_read(at, is_shared ? changed : row.cell(n), part))
            unclear |= part;
        else {
            if (shared) settle(at, is_shared ? changed : cell, piece.row, part);
            if (is_shared) row.assign(part, changed);
        }
    }
    if (!shared && (!reads || unclear)) ++changes_of(at.buffer);
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
        if (shared) at.memory->unsettle(at.granule);
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

template bool CheckObserver::check_rows<true>(Place&, LaneMask, bool);
template bool CheckObserver::check_rows<false>(Place&, LaneMask, bool);

}  // namespace coalesce::analysis
