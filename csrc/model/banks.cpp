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
    if (e.shape == sim::Shape::scattered && mask == sim::all_lanes)
        for (int lane = 0; lane < sim::warp_size; ++lane) of_lane(e.addresses[lane]);
    else if (e.shape == sim::Shape::scattered)
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
    if (!mask) return 0;
    // Usually the words are near each other: each bank has a bit for each of 64 rows of words.
    constexpr uint32_t rows = 64;
    const auto first = uint32_t(e.address(std::countr_zero(mask)) / word_bytes);
    const uint32_t base = first / banks - rows / 2;
    uint64_t served[banks] = {};
    uint32_t outside = 0;
    for_each_word(e, mask, [&](uint32_t word) {
        const uint32_t row = word / banks - base;
        outside |= row / rows;
        served[word % banks] |= uint64_t{1} << row % rows;
    });
    if (!outside) {
        uint32_t most = 0;
        for (uint64_t any = 1; any; ++most) {
            any = 0;
            for (uint64_t& left : served) any |= left &= left - 1;
        }
        return most;
    }
    // The distinct words of each bank. Bank b has loads.of[b] words, in the first entries of its
    // column.
    Loads loads;
    uint32_t words[sim::warp_size * 4][banks];
    for_each_word(e, mask, [&](uint32_t word) {
        const uint32_t bank = word % banks;
        uint8_t n = 0;
        while (n < loads.of[bank] && words[n][bank] != word) ++n;
        if (n < loads.of[bank]) return;
        words[n][bank] = word;
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
