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

#include "model/units.hpp"

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

// Requests of one instruction from L1 to L2. There are `count` of them, one for each line, and they
// have a constant distance in bytes. They are either for the same sectors of lines, or each of them
// is for the one sector that contains its address.
struct Traffic {
    enum class Kind : uint8_t { read, write, atomic };
    // The address of the first request: the start of a line, or an address in the only sector.
    uint64_t address = 0;
    uint32_t time = 0;  // in cycles of L1, since the start of the block
    uint32_t pc = 0;    // the instruction
    int32_t step = 0;   // the distance in bytes from each request to the next
    Kind kind = Kind::read;
    // As in LineAccess, but bit 0 is the sector that contains the address.
    uint8_t sectors = 0;
    uint8_t whole = 0;
    uint8_t count = 1;

    // Returns the part of a line that is requested at an address of these requests.
    [[nodiscard]] LineAccess access_at(uint64_t at) const {
        const auto sector = uint32_t(at / sector_bytes % 4);
        return {at / line_bytes, uint8_t(sectors << sector), uint8_t(whole << sector)};
    }
    [[nodiscard]] uint64_t address_of(uint32_t n) const {
        return address + uint64_t(int64_t{step} * int64_t{n});
    }
    // Tries to add the request `next` to these requests. This is possible if `next` differs from
    // them only in its address, and all the addresses are then equally far apart. Returns true if
    // `next` was added. Otherwise returns false and changes nothing.
    bool extend(const Traffic& next) {
        const auto distance = int64_t(next.address - address_of(count - 1u));
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

    static constexpr uint8_t most = 255;  // the largest `count`
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
