// Finds the lines of global memory that the lanes of a request access, and which bytes of each
// line.
//
// METHOD
// The lines are stored in the order of the first lanes that access them. A line has a bit for each
// of its 128 bytes, in two words. A small hash table finds a line that an earlier lane has
// accessed. Its entries have the number of the request. So entries of earlier requests are
// recognized, and the table need not be cleared for each request. There are no branches that depend
// on whether a line is new, because the host often could not predict them.
//
// EXAMPLE
// Three lanes load the floats at 1000, 200 and 1004. The first line is 7 (the bytes 896 to 1023),
// with the bytes 104 to 111: two elements in one sector. The second line is 1, with the bytes 72
// to 75.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "model/caches/traffic.hpp"
#include "model/coalescing.hpp"
#include "model/units.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::model {

class RequestLines {
  public:
    // Removes the lines of the last request.
    void start() {
        count_ = 0;
        low_ = high_ = {};
        if (++request_ == most_requests) [[unlikely]] {
            table_.fill(0);
            request_ = 1;
        }
    }
    // Adds the access of one lane, `bytes` bytes at `address`. All bytes are in the same sector.
    // There is room for 32 lines. If it is full (is_full), the caller must not add other lines.
    [[gnu::always_inline]] void add(uint64_t address, uint32_t bytes) {
        const uint64_t number = address / line_bytes;
        uint32_t& entry = table_[(number * 0x9e3779b97f4a7c15) >> (64 - table_bits)];
        const bool known = entry / sim::warp_size == request_;
        uint32_t n = known ? entry % sim::warp_size : count_;
        if (known && numbers_[n] != number) [[unlikely]]
            n = search(number);
        else
            entry = request_ * sim::warp_size + n;
        count_ = std::max(count_, n + 1);
        numbers_[n] = number;
        const uint64_t bits = ((uint64_t{1} << bytes) - 1) << address % 64;
        (address % line_bytes < 64 ? low_ : high_)[n] |= bits;
    }
    [[nodiscard]] bool is_full() const { return count_ == sim::warp_size; }
    // Sets the lines to those of an access to global memory.
    void collect(const sim::MemoryEvent& e) {
        start();
        if (e.shape != sim::Shape::scattered)
            sim::for_each_lane(e.mask, [&](int lane) { add(e.address(lane), e.bytes); });
        else
            sim::for_each_lane(e.mask, [&](int lane) { add(e.addresses[lane], e.bytes); });
    }

    [[nodiscard]] uint32_t count() const { return count_; }
    [[nodiscard]] uint64_t number(uint32_t n) const { return numbers_[n]; }
    // Returns the accessed sectors of a line, or those of which every byte is accessed.
    [[nodiscard]] uint8_t sectors(uint32_t n) const {
        return sectors_if(n, [](uint32_t bytes) { return bytes != 0; });
    }
    [[nodiscard]] uint8_t whole(uint32_t n) const {
        return sectors_if(n, [](uint32_t bytes) { return bytes == UINT32_MAX; });
    }
    // Returns the banks that have an accessed word of the line, one bit for each.
    [[nodiscard]] uint32_t banks(uint32_t n) const {
        return uint32_t(words_of(low_[n]) | words_of(high_[n]) << 16);
    }
    // Returns the footprint of a load or store of `bytes` bytes per lane.
    [[nodiscard]] Footprint footprint(uint32_t bytes) const {
        Footprint f{.lines = count_};
        for (uint32_t n = 0; n < count_; ++n) {
            f.elements += uint32_t(std::popcount(low_[n]) + std::popcount(high_[n]));
            f.sectors += uint32_t(sectors_in(sectors(n)));
        }
        f.elements /= bytes;
        return f;
    }

  private:
    static constexpr uint32_t table_bits = 10;
    static constexpr uint32_t most_requests = UINT32_MAX / sim::warp_size;

    [[gnu::noinline]] uint32_t search(uint64_t number) const {
        return uint32_t(std::find(numbers_.begin(), numbers_.begin() + count_, number) -
                        numbers_.begin());
    }
    template <class Test>
    [[nodiscard]] uint8_t sectors_if(uint32_t n, Test&& test) const {
        const uint64_t low = low_[n], high = high_[n];
        return uint8_t(test(uint32_t(low)) | test(uint32_t(low >> 32)) << 1 |
                       test(uint32_t(high)) << 2 | test(uint32_t(high >> 32)) << 3);
    }
    // Returns a bit for each of the 16 words that have an accessed byte.
    static uint64_t words_of(uint64_t bytes) {
        uint64_t bits = (bytes | bytes >> 1 | bytes >> 2 | bytes >> 3) & 0x1111111111111111;
        bits = (bits | bits >> 3) & 0x0303030303030303;
        bits = (bits | bits >> 6) & 0x000f000f000f000f;
        bits = (bits | bits >> 12) & 0x000000ff000000ff;
        return (bits | bits >> 24) & 0xffff;
    }

    uint32_t count_ = 0;
    uint32_t request_ = 0;  // the number of the request
    std::array<uint64_t, sim::warp_size> numbers_;
    std::array<uint64_t, sim::warp_size> low_, high_;  // the bytes 0 to 63, and 64 to 127
    // The number of a request, and the index of one of its lines (the lowest bits).
    std::array<uint32_t, 1 << table_bits> table_{};
};

}  // namespace coalesce::model
