// The sectors that a block requests from L2.
//
// METHOD
// An unlimited L2 (unlimited_cache.hpp) must know which sectors each block reads and writes, but
// not how often. Blocks that do the same work in different places have the same list of sectors,
// except for an offset. So the list is made once, and then has a few words for a block with
// thousands of requests.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/caches/caches.hpp"
#include "model/caches/line_words.hpp"

namespace coalesce::model {

// The sectors of 16 neighbouring lines. Each line has four bits.
struct BlockSectors {
    uint64_t first = 0;  // the first line, a multiple of `lines_of_word`
    uint64_t read = 0;   // those that the block reads before it writes them
    uint64_t written = 0;
};

class BlockSectorList {
  public:
    // Adds a request for sectors of a line. Returns true if it is the first one for this line.
    bool add(Traffic::Kind kind, uint64_t line, uint8_t sectors) {
        Word& word = words_[line / lines_of_word];
        const uint32_t place = place_in_word(line);
        const uint64_t before = word.read | word.written;
        const uint64_t requested = uint64_t{sectors} << place;
        if (kind == Traffic::Kind::write)
            word.written |= requested;
        else
            word.read |= requested & ~before;
        return (before >> place & 15) == 0;
    }
    [[nodiscard]] std::shared_ptr<const std::vector<BlockSectors>> get() const {
        auto list = std::make_shared<std::vector<BlockSectors>>();
        words_.for_each([&](uint64_t number, Word word) {
            if (word.read | word.written)
                list->push_back({number * lines_of_word, word.read, word.written});
        });
        return list;
    }

  private:
    struct Word {
        uint64_t read = 0, written = 0;
    };
    LineWords<Word> words_;
};

}  // namespace coalesce::model
