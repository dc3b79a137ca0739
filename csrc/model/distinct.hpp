// Finds equal numbers among those of the lanes of a warp.
#pragma once

#include <cstdint>
#include <iterator>

#include "sim/memory/lanes.hpp"

namespace coalesce::model {

class Distinct {
  public:
    // Returns the index of a number. A new number gets the next index. There may be as many numbers
    // as lanes. The function is inlined, because loops over lanes call it.
    [[gnu::always_inline]] uint32_t index_of(uint64_t number) {
        uint64_t entry = number * 0x9e3779b97f4a7c15 >> 58;
        for (; table_[entry]; entry = (entry + 1) % std::size(table_))
            if (numbers_[table_[entry] - 1] == number) return table_[entry] - 1u;
        numbers_[count_] = number;
        table_[entry] = uint8_t(count_ + 1);
        return count_++;
    }
    [[nodiscard]] uint32_t count() const { return count_; }

  private:
    uint32_t count_ = 0;
    uint64_t numbers_[sim::warp_size];
    // Twice as many entries as there are numbers. An entry is an index plus 1, and 0 if it is free.
    uint8_t table_[2 * sim::warp_size] = {};
};

}  // namespace coalesce::model
