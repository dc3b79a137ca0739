#include "model/caches/tag_sets.hpp"

namespace coalesce::model {

L1Cycles L1Lines::cycles() const {
    // Bit n of both numbers together is the set of line n.
    uint32_t low = 0, high = 0;
    for (uint32_t n = 0; n < count_; ++n) {
        const uint32_t set = tag_set(lines_[n]);
        low |= (set & 1) << n;
        high |= (set >> 1) << n;
    }
    const auto all = uint32_t((uint64_t{1} << count_) - 1);
    std::array<uint32_t, tag_sets> left{all & ~high & ~low, all & ~high & low, all & high & ~low,
                                        all & high & low};
    L1Cycles total;
    // Usually no bank is needed by two of the lines. Then the sum of the masks has no carries.
    uint64_t sum = 0;
    uint32_t needed = 0;
    for (uint32_t n = 0; n < count_; ++n) {
        sum += banks_[n];
        needed |= banks_[n];
    }
    if (sum == needed) {
        for (const uint32_t lines : left)
            total.lookups = std::max(total.lookups, uint32_t(std::popcount(lines)));
        total.data = total.lookups;
        return total;
    }
    for (; left[0] | left[1] | left[2] | left[3]; ++total.lookups) {
        std::array<uint32_t, tag_sets> banks;  // needed by the next line of each set
        for (uint32_t set = 0; set < tag_sets; ++set) {
            banks[set] = left[set] ? banks_[size_t(std::countr_zero(left[set]))] : 0;
            left[set] &= left[set] - 1;
        }
        const auto [a, b, c, d] = banks;
        const uint32_t one_of_first = a | b, both_first = a & b;
        const uint32_t one_of_last = c | d, both_last = c & d;
        // The banks that at least one, two, three or four of the lines need.
        const std::array<uint32_t, tag_sets> by_at_least{
            one_of_first | one_of_last, both_first | both_last | (one_of_first & one_of_last),
            (both_first & one_of_last) | (both_last & one_of_first), both_first & both_last};
        for (const uint32_t by_some : by_at_least) total.data += by_some != 0;
    }
    return total;
}

L1Cycles l1_cycles_of_range(uint64_t begin, uint64_t end) {
    L1Lines lines;
    for (uint64_t line = begin / line_bytes; line * line_bytes < end; ++line) {
        const uint64_t start = line * line_bytes, first = begin > start ? begin - start : 0;
        const uint64_t last = std::min<uint64_t>(end - start, line_bytes) - 1;
        const auto up_to = uint32_t((uint64_t{2} << last / word_bytes) - 1);
        lines.add_new(line, up_to & ~uint32_t((uint64_t{1} << first / word_bytes) - 1));
    }
    return lines.cycles();
}

}  // namespace coalesce::model
