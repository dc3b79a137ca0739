#include "model/banks.hpp"

namespace coalesce::model {

namespace {

// Calls handle(word) for each word that the lanes of `mask` access.
template <class Handle>
inline void for_each_word(const sim::MemoryEvent& e, sim::LaneMask mask, Handle&& handle) {
    const auto words = uint32_t(groups_of(e.bytes));
    const auto of_lane = [&](uint64_t address) {
        const auto first = uint32_t(address / word_bytes);
        for (uint32_t n = 0; n < words; ++n) handle(first + n);
    };
    if (e.shape == sim::Shape::scattered)
        sim::for_each_lane(mask, [&](int lane) { of_lane(e.addresses[lane]); });
    else
        sim::for_each_lane(mask, [&](int lane) { of_lane(e.address(lane)); });
}

// The number of words or lanes of each bank.
struct Loads {
    uint8_t of[banks] = {};
    [[nodiscard]] uint32_t most() const {
        uint8_t most = 0;
        for (const uint8_t load : of) most = std::max(most, load);
        return most;
    }
};

}  // namespace

uint32_t most_words(const sim::MemoryEvent& e, sim::LaneMask mask) {
    uint32_t least = UINT32_MAX, greatest = 0;
    for_each_word(e, mask, [&](uint32_t word) {
        least = std::min(least, word);
        greatest = std::max(greatest, word);
    });
    Loads loads;
    constexpr uint32_t rows = 64;
    const uint32_t base = least / banks;
    if (mask && greatest / banks - base < rows) {
        // Usually the words are near each other: each bank has a bit for each of 64 rows of words.
        uint64_t served[banks] = {};
        for_each_word(e, mask, [&](uint32_t word) {
            const uint32_t bank = word % banks, row = word / banks - base;
            loads.of[bank] = uint8_t(loads.of[bank] + (~served[bank] >> row & 1));
            served[bank] |= uint64_t{1} << row;
        });
        return loads.most();
    }
    // The distinct words of each bank. Bank b has loads.of[b] words, in the first entries of its
    // column.
    uint32_t served[sim::warp_size * 4][banks];
    for_each_word(e, mask, [&](uint32_t word) {
        const uint32_t bank = word % banks;
        uint8_t n = 0;
        while (n < loads.of[bank] && served[n][bank] != word) ++n;
        if (n < loads.of[bank]) return;
        served[n][bank] = word;
        ++loads.of[bank];
    });
    return loads.most();
}

uint32_t most_lanes(const sim::MemoryEvent& e, sim::LaneMask mask) {
    Loads loads;
    for_each_word(e, mask, [&](uint32_t word) { ++loads.of[word % banks]; });
    return loads.most();
}

}  // namespace coalesce::model
