// A table with a word for every 16 neighbouring lines.
//
// METHOD
// A word with four bits for each line can have a bit for each sector of 16 lines. Words are stored
// in parts, which exist only where words are used. The table remembers where the parts are that
// were used last, because a block often uses the same parts again.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace coalesce::model {

inline constexpr uint64_t lines_of_word = 16;

// Returns the place of a line's four bits in its word.
inline uint32_t place_in_word(uint64_t line) { return uint32_t(line % lines_of_word * 4); }

template <class Word>
class LineWords {
  public:
    // Returns the word for the lines from `lines_of_word` * `number` on.
    Word& operator[](uint64_t number) {
        const uint64_t part = number / words_of_part;
        Latest& latest = latest_[part % latest_.size()];
        if (latest.number != part) {
            auto& words = parts_[part];
            if (!words) words = std::make_unique<Part>();
            latest = {part, words.get()};
        }
        return (*latest.part)[number % words_of_part];
    }
    // Calls handle(number, word) for all words of the parts that exist.
    template <class Handle>
    void for_each(Handle&& handle) const {
        for (const auto& [part, words] : parts_)
            for (uint64_t n = 0; n < words_of_part; ++n)
                handle(part * words_of_part + n, (*words)[n]);
    }

  private:
    static constexpr uint64_t words_of_part = 64;
    using Part = std::array<Word, words_of_part>;

    struct Latest {
        uint64_t number = ~uint64_t(0);
        Part* part = nullptr;
    };
    std::array<Latest, 1024> latest_;  // the part that was used last, by number modulo 1024
    std::unordered_map<uint64_t, std::unique_ptr<Part>> parts_;
};

}  // namespace coalesce::model
