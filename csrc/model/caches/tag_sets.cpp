#include "model/caches/tag_sets.hpp"

namespace coalesce::model {

L1Cycles L1Lines::cycles() const {
    L1Cycles total;
    total.lookups = *std::max_element(count_.begin(), count_.end());
    for (uint32_t k = 0; k < total.lookups; ++k) {
        // Usually no bank is needed by two of the lines.
        uint32_t needed = 0, by_two = 0;
        for (uint32_t set = 0; set < tag_sets; ++set) {
            const uint32_t banks = k < count_[set] ? lines_[set][k].banks : 0;
            by_two |= needed & banks;
            needed |= banks;
        }
        if (!by_two) {
            ++total.data;
            continue;
        }
        // by_at_least[n] has one bit for each bank. The bit is set if at least n + 1 of the lines
        // of this cycle (up to four) need the bank.
        std::array<uint32_t, tag_sets> by_at_least{};
        for (uint32_t set = 0; set < tag_sets; ++set) {
            uint32_t more = k < count_[set] ? lines_[set][k].banks : 0;
            for (uint32_t& banks : by_at_least) {
                const uint32_t both = banks & more;
                banks |= more;
                more = both;
            }
        }
        for (const uint32_t banks : by_at_least) total.data += banks != 0;
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
