// The requests that pass between the boxes of the cache model:
//
//    requests of a warp  ->  L1 (l1_cache.hpp)  ->  L2 (l2_cache.hpp)  ->  DRAM
//
// EXAMPLE
// A warp loads 32 neighbouring floats from address 208 on, that is, the bytes 208 to 335. They lie
// in line 1 (the bytes 128 to 255) and line 2. The request touches the sectors 2 and 3 of line 1,
// and the sectors 0, 1 and 2 of line 2. So it consists of two LineAccesses, with the masks 0b1100
// and 0b0111. If L1 has only line 1, it sends Traffic for three sectors of line 2 to L2.
#pragma once

#include <cstdint>

namespace coalesce::model {

// The part of a request that lies in one line. The members have no initial values, because it would
// take time to set them in an array for the lines of each request.
struct LineAccess {
    uint64_t line;
    uint8_t sectors;  // touched sectors
    uint8_t whole;    // sectors of which every byte is touched
};

// Returns the number of sectors in a mask of four bits. The constant is a table that has an entry
// of four bits for each mask. A table is used because std::popcount would be a function call if the
// host's baseline instruction set has no instruction for it.
inline uint64_t sectors_in(uint32_t sectors) {
    return uint64_t{0x4332322132212110} >> 4 * (sectors & 15) & 15;
}

// Returns the mask with all sectors of the half lines that contain these sectors. DRAM is read in
// half lines.
inline uint8_t half_lines(uint8_t sectors) {
    return uint8_t((sectors & 3 ? 3 : 0) | (sectors & 12 ? 12 : 0));
}

// Requests of one instruction from L1 to L2, one for each of `count` lines. Each line is `step`
// lines after the previous one. All requests are for the same sectors of their line.
struct Traffic {
    enum class Kind : uint8_t { read, write, atomic };
    uint64_t line = 0;  // the first line
    uint32_t time = 0;  // in cycles of L1, since the start of the block
    uint32_t pc = 0;    // the instruction
    int32_t step = 0;
    Kind kind = Kind::read;
    uint8_t sectors = 0;
    uint8_t whole = 0;
    uint8_t count = 1;

    [[nodiscard]] uint64_t line_at(uint32_t n) const {
        return line + uint64_t(int64_t{step} * int64_t{n});
    }
    // Tries to add the request `next` to these requests. This is possible if `next` differs from
    // them only in its line, and all the lines are then equally far apart. Returns true if `next`
    // was added. Otherwise returns false and changes nothing.
    bool extend(const Traffic& next) {
        const auto distance = int64_t(next.line - line_at(count - 1u));
        // With `||` instead of `|`, GCC would load several members of `next` as one number. The
        // host would have to wait for this load, because the members were stored one by one just
        // before.
        const bool other = (next.time != time) | (next.pc != pc) | (next.kind != kind) |
                           (next.sectors ^ sectors) | (next.whole ^ whole);
        if (other || count == most) return false;
        if (count == 1 && distance == int32_t(distance)) step = int32_t(distance);
        if (distance != step) return false;
        ++count;
        return true;
    }

  private:
    static constexpr uint8_t most = 255;
};

// A request to L2 for one line.
struct L2Request {
    uint64_t line;
    double time;   // cycles since the launch
    uint32_t pc;   // the instruction
    uint8_t from;  // the GPC that requests the line
    Traffic::Kind kind;
    uint8_t sectors, whole;  // as in LineAccess

    [[nodiscard]] LineAccess access() const { return {line, sectors, whole}; }
};

}  // namespace coalesce::model
