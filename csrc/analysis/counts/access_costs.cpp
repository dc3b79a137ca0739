#include "analysis/counts/access_costs.hpp"

#include <algorithm>

#include "model/bulk_copies.hpp"
#include "model/copies.hpp"
#include "sim/program/launch.hpp"
#include "sim/warp/warp.hpp"

namespace coalesce::analysis {

namespace {

bool is_atomic(const sim::MemoryEvent& e) {
    return e.access == sim::Access::atomic || e.access == sim::Access::reduction;
}

void add_request(InstructionCounts& c, const sim::MemoryEvent& e) {
    const uint32_t lanes = count_lanes(e.mask);
    c.access = e.access;
    ++c.requests;
    c.accesses += lanes;
    c.bytes += uint64_t(lanes) * e.bytes;
}

void add_wavefronts(InstructionCounts& c, const model::Wavefronts& w) {
    c.wavefronts += w.taken;
    c.theoretical_wavefronts += w.theoretical;
    c.ideal_wavefronts += w.ideal;
}

// Adds the cost of an access to local memory. Local memory is interleaved. The first words of the
// 32 lanes are neighbours in memory. The second words of the 32 lanes follow, and so on.
void add_local(InstructionCounts& c, const sim::MemoryEvent& e) {
    uint64_t addresses[sim::warp_size];
    sim::MemoryEvent interleaved = e;
    interleaved.shape = sim::Shape::scattered;
    interleaved.addresses = addresses;
    sim::for_each_lane(e.mask, [&](int i) {
        addresses[i] = e.address(i) / 4 * model::line_bytes + uint64_t(i) * 4;
    });
    const model::Footprint f = model::footprint(interleaved);
    const uint32_t words = std::max(1, e.bytes / 4);
    c.sectors += f.sectors * words;
    c.theoretical_sectors += f.sectors * words;
    c.lines += f.lines * words;
    c.ideal += std::min(f.sectors * words, model::packed_sectors(e));
    // Nsight Compute treats equal offsets of two threads as the same address.
    c.distinct_bytes += uint64_t(model::footprint(e).elements) * e.bytes;
}

}  // namespace

AccessCosts::AccessCosts(const sim::Program& program)
    : program_(program),
      regular_(program.instructions.size()),
      repeated_(program.instructions.size()),
      sites_(program.instructions.size()),
      repetitions_(program.instructions.size()) {}

namespace {

// Returns true if the addresses of the lanes are `others`, shifted by a multiple of 128 bytes.
inline bool are_shifted(sim::LaneMask mask, const uint64_t* addresses, const uint64_t* others) {
    const int lane = std::countr_zero(mask);
    const uint64_t distance = addresses[lane] - others[lane];
    if (distance % model::line_bytes != 0) return false;
    uint64_t different = 0;
    const auto compare = [&](int i) { different |= (addresses[i] - others[i]) ^ distance; };
    if (mask == sim::all_lanes)
        for (int i = 0; i < sim::warp_size; ++i) compare(i);
    else
        sim::for_each_lane(mask, compare);
    return different == 0;
}

}  // namespace

inline bool AccessCosts::Patterns::has(size_t n, const sim::MemoryEvent& e) const {
    return repeated[n].is_like(e) &&
           (e.shape != sim::Shape::scattered ||
            are_shifted(e.mask, e.addresses, details[n]->addresses)) &&
           (!e.sources || are_shifted(sim::all_lanes, e.sources, details[n]->sources));
}

size_t AccessCosts::hash_of_lanes(const sim::MemoryEvent& e) {
    const int first = std::countr_zero(e.mask), last = 31 - std::countl_zero(e.mask);
    const int second = std::countr_zero((e.mask & (e.mask - 1)) | sim::LaneMask{1} << last);
    const uint64_t start = e.addresses[first];
    return hash_of(start % model::line_bytes,
                   (e.addresses[last] - start) ^ (e.addresses[second] - start) << 16);
}

// Returns the number of the entry that remembers an access like `e`, and sets `is_known` to true.
// If there is none, returns the number of the entry in which `e` should be remembered, and sets
// `is_known` to false.
inline size_t AccessCosts::entry_of(const Patterns& patterns, const sim::MemoryEvent& e,
                                    bool& is_known) {
    constexpr size_t tried = 4;
    const size_t start = hash_of(e);
    for (size_t i = 0; i < tried; ++i) {
        const size_t n = (start + i) % Patterns::count;
        is_known = patterns.has(n, e);
        if (is_known || patterns.repeated[n].mask == 0) return n;
    }
    return start;
}

void AccessCosts::Patterns::add_to(InstructionCounts& total, size_t n) const {
    if (repeated[n].times == 0) return;
    InstructionCounts all = details[n]->cost;
    for (const Counter& c : counters) all.*c.value *= repeated[n].times;
    total.add(all);
}

uint32_t AccessCosts::add_irregular(const sim::MemoryEvent& e) {
    if (!is_copy(e)) {
        const bool shared = e.space == ptx::Space::shared;
        if (e.shape == sim::Shape::scattered && (shared || e.space == ptx::Space::global))
            run_ = model::run_of(e);
        return run_ ? add_run(e) : add_compared(e, e);
    }
    // In an asynchronous copy, some lanes only fill their destination with zeros, and read nothing.
    // If all lanes do so, there is no event for the source. Then `readers_` still belongs to an
    // earlier copy.
    if (e.space == ptx::Space::global)
        readers_ = e.mask;
    else if (copy_ != e.pc)
        readers_ = 0;
    copy_ = e.pc;
    InstructionCounts& c = sites_[e.pc];
    const uint64_t before = c.wavefronts;
    uint32_t wavefronts = 0;
    if (left_out_ == 0 && readers_ == e.mask) {
        wavefronts = add_compared(e, e);
    } else {
        add_copy(c, e);
        wavefronts = uint32_t(c.wavefronts - before);
    }
    if (e.space != ptx::Space::global) readers_ = 0;
    return wavefronts;
}

// Adds the cost of a scattered access that is a run of lanes. It is remembered like an access of a
// full warp with the same stride.
uint32_t AccessCosts::add_run(const sim::MemoryEvent& e) {
    sim::MemoryEvent like = e;
    like.shape = sim::shape_of_stride(run_.stride, e.bytes);
    like.first = run_.address_of_lane_0();
    like.stride = run_.stride;
    if (repeated_[e.pc]) {
        Repeated& known = repeated_[e.pc]->repeated[hash_of(like)];
        if (known.is_like(like)) {
            ++known.times;
            describe(like, known);
            return known.wavefronts;
        }
    }
    return add_compared(e, like);
}

// Adds the cost of an access. If it repeats a remembered access, the cost is known. `like` is the
// access as it is remembered: `e` itself, or `e` with another shape (add_run).
uint32_t AccessCosts::add_compared(const sim::MemoryEvent& e, const sim::MemoryEvent& like) {
    InstructionCounts& c = sites_[e.pc];
    const bool copy = is_copy(e);
    // Accesses are compared with remembered ones only where this saves time. It saves time for
    // shared memory, because bank conflicts take long to compute and most accesses repeat. It also
    // saves time for copies, and for strided accesses to global memory. For other accesses, the
    // comparison would take as long as the computation. Scattered atomics rarely repeat.
    const bool scattered = like.shape == sim::Shape::scattered;
    const bool compared = e.space == ptx::Space::shared
                              ? !(scattered && is_atomic(e))
                              : e.space == ptx::Space::global && !scattered;
    if (!copy && !compared) {
        const uint64_t before = c.wavefronts;
        add(c, e);
        if (scattered) repetitions_[e.pc] = {};
        return uint32_t(c.wavefronts - before);
    }
    if (!repeated_[e.pc]) repeated_[e.pc] = std::make_unique<Patterns>();
    Patterns& patterns = *repeated_[e.pc];
    bool is_known = false;
    const size_t n = entry_of(patterns, like, is_known);
    Repeated& repeated = patterns.repeated[n];
    if (!is_known) {
        if (!patterns.details[n]) patterns.details[n] = std::make_unique<Details>();
        Details& details = *patterns.details[n];
        patterns.add_to(c, n);
        details.cost = {};
        if (copy)
            add_copy(details.cost, e);
        else
            add(details.cost, e);
        if (scattered) std::copy_n(e.addresses, sim::warp_size, details.addresses);
        if (e.sources) std::copy_n(e.sources, sim::warp_size, details.sources);
        repeated = {.stride = like.shape == sim::Shape::strided ? like.stride : 0,
                    .mask = e.mask,
                    .wavefronts = uint32_t(details.cost.wavefronts),
                    .place = uint8_t(scattered ? 0 : place_of(like)),
                    .space = e.space,
                    .shape = like.shape};
    }
    ++repeated.times;
    if (!copy) describe(like, repeated);
    return repeated.wavefronts;
}

void AccessCosts::add(InstructionCounts& c, const sim::MemoryEvent& e) const {
    c.space = std::max(c.space, e.space);
    add_request(c, e);
    if (e.space == ptx::Space::shared) {
        add_shared(c, e);
    } else if (e.space == ptx::Space::local) {
        add_local(c, e);
    } else {
        add_global(c, e);
    }
}

void AccessCosts::add_global(InstructionCounts& c, const sim::MemoryEvent& e) const {
    has_lines_ = e.shape == sim::Shape::scattered && !is_atomic(e) && !run_;
    if (has_lines_) lines_.collect(e);
    const model::Footprint f = has_lines_ ? lines_.footprint(e.bytes) : model::footprint(e);
    c.sectors += is_atomic(e) ? f.repeated : f.sectors;
    c.divided += is_atomic(e) && model::may_be_divided(f, std::popcount(e.mask));
    c.theoretical_sectors += f.sectors;
    c.lines += f.lines;
    c.ideal += std::min(f.sectors, model::packed_sectors(e));
    c.distinct_bytes += uint64_t(f.elements) * e.bytes;
}

void AccessCosts::add_shared(InstructionCounts& c, const sim::MemoryEvent& e) const {
    const model::Wavefronts w = is_atomic(e)       ? model::atomic_wavefronts(e, traits(e).form)
                                : traits(e).matrix ? model::matrix_wavefronts(e)
                                                   : model::wavefronts(e);
    add_wavefronts(c, w);
    c.ideal += w.ideal;
    ++c.shared_requests;
    add_generic_bytes(c, e);
}

// Adds the bytes of an access with generic addresses. Nsight Compute counts them as bytes of global
// memory, whichever memory the access uses.
void AccessCosts::add_generic_bytes(InstructionCounts& c, const sim::MemoryEvent& e) const {
    if (program_.instructions[e.pc].space == ptx::Space::generic)
        c.distinct_bytes += uint64_t(model::footprint(e).elements) * e.bytes;
}

void AccessCosts::add_bulk(const sim::Warp& w, const sim::CopyEvent& e) {
    InstructionCounts& c = sites_[e.pc];
    const model::CopyFootprint f = model::footprint(e);
    c.space = ptx::Space::global;
    c.access = e.stores ? sim::Access::store : sim::Access::async_copy;
    ++c.requests;
    ++c.accesses;
    c.bytes += f.bytes * e.blocks;
    c.distinct_bytes += f.bytes;
    c.sectors += f.sectors * e.blocks;
    c.lines += f.lines;
    // Nobody can avoid the sectors of zeros.
    c.ideal += ((f.bytes + model::sector_bytes - 1) / model::sector_bytes + f.zeros) * e.blocks;
    c.divided += !model::recorded(e, w.block->launch->cluster.count());
}

InstructionCounts AccessCosts::of(size_t i) const {
    InstructionCounts total = sites_[i];
    if (repeated_[i])
        for (size_t n = 0; n < Patterns::count; ++n) repeated_[i]->add_to(total, n);
    sim::MemoryEvent e;
    e.pc = uint32_t(i);
    e.access = program_.instructions[i].access;
    e.bytes = program_.instructions[i].bytes;
    e.mask = sim::all_lanes;
    for (const bool global : {false, true}) {
        for (const Pattern pattern : {uniform, consecutive, apart}) {
            const uint64_t times = regular_[i].times[global][pattern];
            if (times == 0) continue;
            e.space = global ? ptx::Space::global : ptx::Space::shared;
            e.shape = pattern == uniform       ? sim::Shape::uniform
                      : pattern == consecutive ? sim::Shape::consecutive
                                               : sim::Shape::strided;
            e.stride = model::line_bytes;
            InstructionCounts one;
            add(one, e);
            for (const Counter& c : counters) one.*c.value *= times;
            total.add(one);
        }
    }
    return total;
}

void AccessCosts::add_copy(InstructionCounts& c, const sim::MemoryEvent& e) const {
    const bool bypasses = traits(e).bypasses_l1;
    if (e.space == ptx::Space::global) {
        c.space = ptx::Space::global;
        add_request(c, e);
        if (bypasses) {
            const model::Footprint f = model::footprint(e);
            c.lines += f.lines;
            c.distinct_bytes += uint64_t(f.elements) * e.bytes;
        } else {
            add_global(c, e);
        }
        return;
    }
    c.sourceless += readers_ == 0;
    sim::MemoryEvent source = e;
    source.shape = sim::Shape::scattered;
    source.addresses = e.sources;
    source.mask = readers_;
    if (bypasses)
        add_bypassing(c, source, e);
    else
        add_wavefronts(c, model::copy_wavefronts(source, e));
}

// Adds the cost of a copy that bypasses L1. `source` has the lanes that read.
void AccessCosts::add_bypassing(InstructionCounts& c, const sim::MemoryEvent& source,
                                const sim::MemoryEvent& target) const {
    const auto costs_of = [&](sim::LaneMask lanes) {
        sim::MemoryEvent to = target;
        to.mask = lanes;
        return model::bypassing_copy(source, to);
    };
    // Nsight Compute also counts the lanes that the guard (the predicate of the instruction)
    // excludes.
    const sim::LaneMask read = source.mask | left_out_, written = target.mask | left_out_;
    const model::BypassingCopy reads = costs_of(read);
    c.sectors += left_out_ ? costs_of(source.mask).sectors : reads.sectors;
    c.theoretical_sectors += reads.theoretical;
    c.ideal += std::min(reads.theoretical, model::packed_sectors(reads.lanes, target.bytes));
    const bool may_fill = target.op->operand[2] != sim::no_operand;
    model::Wavefronts w = model::direct_wavefronts(target);
    if (traits(target).fills_parts || !may_fill) {
        const model::BypassingCopy all = written == read ? reads : costs_of(written);
        w.theoretical = all.wavefronts;
        w.ideal = std::min(w.theoretical, model::packed_wavefronts(all.lanes, target.bytes));
    }
    if (traits(target).fills_parts) {
        // Nsight Compute adds the wavefronts of a copy through L1 by the lanes that write.
        sim::MemoryEvent from = source;
        from.mask = target.mask;
        const model::Wavefronts filling = model::copy_wavefronts(from, target);
        w.theoretical += filling.theoretical;
        w.ideal += filling.ideal;
    }
    add_wavefronts(c, w);
    c.divided += model::same_addresses(target);
    c.guarded += left_out_ != 0;
}

}  // namespace coalesce::analysis
