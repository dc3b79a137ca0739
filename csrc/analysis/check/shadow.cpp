#include "analysis/check/shadow.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace coalesce::analysis {

using sim::LaneMask;

void Row::reserve(uint32_t cells) {
    if (reserved_ >= cells) return;
    auto more = std::make_unique_for_overwrite<Cell[]>(cells);
    if (count_ > 1) std::copy_n(others_.get(), count_ - 1, more.get());
    others_ = std::move(more);
    reserved_ = uint8_t(cells);
}

void Row::split() {
    Cell cells[size];
    for (uint32_t i = 0; i < size; ++i) cells[i] = at(i);
    reserve(size);
    std::copy_n(cells, size, others_.get());
    count_ = size;
}

Cell& Row::own(uint32_t granule) {
    const uint32_t n = number_at(granule);
    const LaneMask bit = 1u << granule;
    if (granules(n) == bit) return cell(n);
    if (count_ == most) {
        split();
        return cell(granule);
    }
    reserve(most - 1);
    granules_[n] &= ~bit;
    granules_[count_] = bit;
    cell(count_) = cell(n);
    return cell(count_++);
}

void Row::settle() {
    const auto& cells = std::as_const(*this);
    const uint32_t a = cells.cell(0).read[0].block, b = cells.cell(0).read[1].block;
    if (settled_[0] || a == b) return;
    for (uint32_t n = 0; n < count_; ++n) {
        const Cell& c = cells.cell(n);
        if (c.write.time || c.write.extra || c.read[0].time == 0 || c.read[1].time == 0 ||
            c.read[0].block != a || c.read[1].block != b)
            return;
    }
    settled_[0] = a;
    settled_[1] = b;
}

void Row::assign(LaneMask granules, const Cell& c) {
    settled_[0] = 0;
    if (granules == sim::all_lanes) {
        count_ = 1;
        first_ = c;
        granules_[0] = granules;
        return;
    }
    if (count_ <= most) {
        // Removes the granules from their cells, and finds a cell that is equal to the new one.
        uint32_t left = 0, same = most;
        for (uint32_t n = 0; n < count_; ++n) {
            const LaneMask rest = granules_[n] & ~granules;
            const bool is_equal = same == most && equal(cell(n), c);
            if (!rest && !is_equal) continue;
            if (is_equal) same = left;
            if (left != n) cell(left) = cell(n);
            granules_[left++] = rest;
        }
        if (same == most && left < most) {
            same = left++;
            if (same > 0) reserve(most - 1);
            granules_[same] = 0;
            cell(same) = c;
        }
        if (same < most) {
            count_ = uint8_t(left);
            granules_[same] |= granules;
            return;
        }
        // No cell was removed, so the row can still be split.
        granules_[0] |= granules;
        split();
    }
    sim::for_each_lane(granules, [&](int i) { others_[size_t(i)] = c; });
}

void SharedShadow::start(uint32_t block, uint64_t bytes, uint32_t granule_bits, bool is_shared,
                         bool needs_writes) {
    block_ = block;
    is_shared_ = is_shared;
    needs_writes_ = needs_writes;
    if (is_shared) rows_.clear();
    const uint64_t row_bytes = uint64_t{Row::size} << granule_bits;
    const uint64_t rows = (bytes + row_bytes - 1) / row_bytes;
    rows_.resize(rows);
    for (const uint64_t granule : with_location_) location_at_[granule] = 0;
    with_location_.clear();
    location_at_.resize(rows * Row::size);
    settled_.resize(rows * Row::size);
    granule_bits_ = granule_bits;
    floor_ = 0;
    if (++epoch_ > max_epoch) {
        std::ranges::fill(settled_, 0);
        epoch_ = 1;
    }
}

bool SharedShadow::is_settled(const sim::MemoryEvent& e, uint32_t warp, uint32_t floor) {
    start_epoch(floor);
    const uint64_t* const settled = settled_.data();
    const uint64_t now = tag(), wrong = ~uint64_t{UINT32_MAX} | 1u << warp;
    const uint32_t bits = granule_bits_, width = e.bytes >> bits;
    const auto test = [&](uint64_t address) {
        const uint64_t* const of_lane = settled + (address >> bits);
        uint64_t found = 0;
        for (uint32_t i = 0; i < width; ++i) found |= of_lane[i] ^ now;
        return found & wrong;
    };
    if (test(e.address(std::countr_zero(e.mask)))) return false;
    if (e.shape == sim::Shape::uniform) return true;
    uint64_t found = 0;
    if (e.shape == sim::Shape::consecutive) {
        const uint64_t* const first = settled + (e.first >> bits);
        for (uint32_t i = 0; i < sim::warp_size * width; ++i) found |= first[i] ^ now;
        return (found & wrong) == 0;
    }
    if (e.shape == sim::Shape::strided) {
        const bool in_steps = width == 1 && (uint64_t(e.stride) & ((1u << bits) - 1)) == 0;
        const uint64_t* const first = settled + (e.first >> bits);
        const int64_t step = e.stride >> bits;
        for (int64_t lane = 1; in_steps && lane < sim::warp_size; ++lane)
            found |= first[lane * step] ^ now;
        for (uint32_t lane = 1; !in_steps && lane < sim::warp_size; ++lane)
            found |= test(e.first + lane * uint64_t(e.stride));
        return (found & wrong) == 0;
    }
    sim::for_each_lane(e.mask, [&](int lane) { found |= test(e.addresses[lane]); });
    return found == 0;
}

void SharedShadow::forget_order(BlockRow& r) const {
    const auto same = [&](const Cell& a, const Cell& b) {
        const auto both = [](const Stamp& s, const Stamp& t) {
            return (s.time > 0) == (t.time > 0);
        };
        const bool same_write = needs_writes_
                                    ? std::memcmp(&a.write, &b.write, sizeof a.write) == 0
                                    : both(a.write, b.write) && a.write.extra == b.write.extra;
        return same_write && both(a.read[0], b.read[0]) && both(a.read[1], b.read[1]);
    };
    r.row.change_all(same, [&](const Cell& c) {
        const auto forgotten = [&](const Stamp& s) {
            Stamp some;
            if (s.time > 0) some.block = block_, some.time = 1;
            return some;
        };
        Cell result{needs_writes_ ? c.write : forgotten(c.write),
                    {forgotten(c.read[0]), forgotten(c.read[1])}};
        result.write.extra = c.write.extra;
        return result;
    });
}

GlobalShadow::GlobalShadow(const sim::AddressSpace& memory, uint32_t granule_bits)
    : memory_(memory), granule_bits_(granule_bits) {
    add_buffers();
}

void GlobalShadow::add_buffers() {
    for (size_t n = pages_.size(); n < memory_.buffers().size(); ++n) {
        const uint64_t page_bytes = page_rows * Row::size << granule_bits_;
        pages_.emplace_back((memory_.buffers()[n].bytes + page_bytes - 1) / page_bytes);
    }
}

uint32_t GlobalShadow::buffer_of(uint64_t address) const {
    const auto& buffers = memory_.buffers();
    const auto after =
        std::upper_bound(buffers.begin(), buffers.end(), address,
                         [](uint64_t a, const sim::Buffer& b) { return a < b.address; });
    return uint32_t(after - buffers.begin()) - 1;
}

Touched GlobalShadow::touched(const std::function<bool(uint32_t)>& updates) const {
    Touched all;
    const uint64_t bytes = uint64_t{1} << granule_bits_;
    const auto add = [&](Touched::Ranges& ranges, uint64_t address, uint64_t granules = 1) {
        if (!ranges.empty() && ranges.back().second == address)
            ranges.back().second += granules * bytes;
        else
            ranges.emplace_back(address, address + granules * bytes);
    };
    const auto add_all = [&](Touched::Ranges& ranges, uint64_t start, LaneMask granules) {
        while (granules) {
            const int first = std::countr_zero(granules);
            const int count = std::countr_one(granules >> first);
            add(ranges, start + uint64_t(first) * bytes, uint64_t(count));
            granules &= count == sim::warp_size ? 0 : ~(((1u << count) - 1) << first);
        }
    };
    for (size_t n = 0; n < pages_.size(); ++n) {
        for (size_t p = 0; p < pages_[n].size(); ++p) {
            const Row* const rows = pages_[n][p].get();
            for (uint64_t i = 0; rows && i < page_rows; ++i) {
                const uint64_t start = memory_.buffers()[n].address +
                                       ((p * page_rows + i) * Row::size << granule_bits_);
                const LaneMask written =
                    rows[i].where([](const Cell& c) { return c.write.time > 0; });
                // A plain read beside atomics may belong to a loop with compare-and-swap. So it is
                // left out.
                const LaneMask read = rows[i].where(
                    [](const Cell& c) { return c.read[0].time > 0 && !c.is(Cell::has_strong); });
                add_all(all.written, start, written);
                add_all(all.updated, start, rows[i].where([&](const Cell& c) {
                    return c.write.time > 0 && updates(c.write.pc);
                }));
                add_all(all.read, start, read & ~written);
            }
        }
    }
    std::vector<uint64_t> strong;
    for (const auto& [address, location] : locations_) strong.push_back(address);
    std::sort(strong.begin(), strong.end());
    for (const uint64_t address : strong) {
        const Location& l = locations_.at(address);
        add(!l.write.last.time ? all.strongly_read
            : l.atomic_write   ? all.atomics
                               : all.flags,
            address);
    }
    return all;
}

}  // namespace coalesce::analysis
