// Checks an access to a single granule, and keeps it in the cell of this granule.
#include <algorithm>

#include "analysis/check/kept_accesses.hpp"

namespace coalesce::analysis {

using sim::Access;
using sim::MemoryEvent;
using sim::Shape;

Row& CheckObserver::row(const Place& at, uint64_t number) {
    return at.shared ? at.memory->row(number, at.block.order.floor(), at.me.time)
                     : global_.row(at.buffer, number);
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
    const sim::Buffer* const buffer = at.shared ? nullptr : &global_.memory().buffers()[at.buffer];
    const CopiedBytes& copied = at.instruction.copied;
    const uint64_t address = at.event.address(int(at.lane));
    uint64_t first = address - (buffer ? buffer->address : 0), end = first + at.event.bytes;
    for (uint64_t byte = std::max(first, at.offset); byte < std::min(end, at.end); ++byte) {
        if (!(copied.bytes >> (byte - first) & 1)) return false;
    }
    first -= std::min<uint64_t>(first, copied.before);
    end = std::min(end + copied.after, buffer ? buffer->bytes : at.warp.block->shared_bytes);
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
        if (!harmless) conflict_with(at, l.write, l.released, false);
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
        conflict_with(at, l.write, l.released, true);
        conflict_with(at, l.read, false, false);
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

void CheckObserver::conflict_with(const Place& at, const Recent& recent, bool by_last,
                                  bool both_write) {
    for (const Stamp* s : {&recent.last, &recent.other}) {
        if (s->time == 0) continue;
        const bool ordered = at.ordered(*s, s->lane);
        if (!ordered) conflict(at, *s, s->lane, both_write);
        if (ordered && by_last) return;
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
        if (t.adds_floats) note_rounding(at, l);
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
    bool released = false;
    if (at.instruction.traits.releases || l.published.to_block || at.block.order.has_published())
        released =
            at.block.order.publish(l.published, at.me.warp, at.lane, at.instruction.traits.scope,
                                   at.instruction.traits.releases);
    l.released = released && atomic && (l.released || l.write.last.time == 0);
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
    const CheckedInstruction &was = instructions_[then.pc], &is = at.instruction;
    // Old code uses `volatile` to exchange values between the lanes of a warp, without
    // __syncwarp().
    const bool is_volatile = was.traits.is_volatile || is.traits.is_volatile;
    const bool lockstep = is_volatile && !atomic && !is.traits.atomic &&
                          of_same_warp(then, at.me) &&
                          at.block.order.lockstep(then, then.lane, at.me.warp, at.lane);
    const bool weak = strict_ && is_volatile && !was.waits && !is.waits;
    if (scopes_differ || lockstep || weak) conflict(at, then, then.lane, false);
}

}  // namespace coalesce::analysis
