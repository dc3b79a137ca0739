// An L2 that is so large that it never evicts a line. Computes which bytes it reads from DRAM.
//
// If only a sample of the requests to L2 is replayed, the bytes from DRAM are estimated in two
// parts. The first part consists of the bytes that each cache must read, because nobody has read or
// written them before. This class counts them for all requests. It needs only four bits per line,
// so it is fast. The second part consists of the bytes that L2 reads again after it has evicted
// them. They are estimated from the sample.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "model/caches.hpp"

namespace coalesce::model {

class UnlimitedCache {
  public:
    struct Answer {
        // The sectors that must be read from DRAM. (GCC would put a small number and a bool into
        // one register, by way of memory, and the host would have to wait for that.)
        uint64_t fetched;
        bool is_new;  // no earlier request had this line
    };
    // Handles requests of one kind for these sectors of a line.
    Answer handle(Traffic::Kind kind, uint64_t line, uint8_t sectors) {
        uint16_t& four = part_of(line)[line % (lines_of_part / 4)];
        const uint32_t shift = line / (lines_of_part / 4) % 4 * 4;
        const uint32_t there = uint32_t{four} >> shift & 15;
        if (kind == Traffic::Kind::write) {
            four |= uint16_t(sectors << shift);
            return {0, there == 0};
        }
        uint32_t fetched = sectors & ~there;
        if (sectors != 15) fetched |= half_lines(uint8_t(fetched)) & ~there;
        four |= uint16_t((sectors | fetched) << shift);
        return {fetched, there == 0};
    }

  private:
    static constexpr uint64_t lines_of_part = 1024;
    // For each line, four bits: the sectors that were read or written. Four lines share a number.
    // They are no neighbours: the next request often has the neighbouring line, and would have to
    // wait until the number has been written. (If the numbers were bytes, the compiler would have
    // to assume that they are part of another object, and read the members of all objects again.)
    using Part = std::array<uint16_t, lines_of_part / 4>;

    Part& part_of(uint64_t line) {
        const uint64_t number = line / lines_of_part;
        Latest& latest = latest_[number % latest_.size()];
        if (latest.number != number) {
            auto& part = parts_[number];
            if (!part) part = std::make_unique<Part>();
            latest = {number, part.get()};
        }
        return *latest.part;
    }

    struct Latest {
        uint64_t number = ~uint64_t(0);
        Part* part = nullptr;
    };
    std::array<Latest, 1024> latest_;  // the part that was used last, by number modulo 1024
    std::unordered_map<uint64_t, std::unique_ptr<Part>> parts_;
};

}  // namespace coalesce::model
