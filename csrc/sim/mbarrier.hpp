// The state of an mbarrier: a 64-bit word in shared memory.
//
// METHOD
// A phase of an mbarrier is complete when the expected number of threads has arrived and all
// announced bytes have arrived (PTX ISA, "mbarrier"). Then the next phase begins, with the same
// expected number. PTX does not define the layout of the word. This layout is our own:
//
//    0-19   arrivals that this phase still waits for
//    20-39  arrivals that each phase waits for
//    40-62  bytes that this phase still waits for, signed
//    63     the parity of this phase: 0, 1, 0, ...
//
// arrive returns the word before the arrival. test_wait uses only the parity in it.
#pragma once

#include <cstdint>

namespace coalesce::sim {

// What an instruction does to an mbarrier.
enum class MbarrierUpdate : uint8_t {
    init,
    inval,
    arrive,
    arrive_drop,
    arrive_expect,       // arrive.expect_tx
    arrive_drop_expect,  // arrive_drop.expect_tx
    expect,
    complete,  // complete_tx
    // cp.async.mbarrier.arrive: increases the number of expected arrivals by one, and arrives.
    arrive_more,
};

class Mbarrier {
  public:
    static constexpr uint32_t most_arrivals = (1u << 20) - 1;
    static constexpr int32_t most_bytes = (1 << 20) - 1;
    // The value of uninitialized shared memory on the simulator, and of an mbarrier after inval.
    static constexpr uint64_t invalid = ~uint64_t{0};

    explicit Mbarrier(uint64_t word) : word_(word) {}
    static Mbarrier with(uint32_t arrivals) {
        return Mbarrier(uint64_t{arrivals} | uint64_t{arrivals} << 20);
    }

    [[nodiscard]] uint64_t word() const { return word_; }
    [[nodiscard]] bool is_valid() const { return word_ != invalid; }
    [[nodiscard]] uint32_t pending() const { return uint32_t(word_) & most_arrivals; }
    [[nodiscard]] uint32_t expected() const { return uint32_t(word_ >> 20) & most_arrivals; }
    [[nodiscard]] int32_t bytes() const { return int32_t(int64_t(word_ << 1) >> 41); }
    [[nodiscard]] uint32_t parity() const { return uint32_t(word_ >> 63); }

    // These functions return an error message, or an empty text. After an error, nothing has
    // changed.
    [[nodiscard]] const char* arrive(uint32_t count) {
        if (count > pending()) return "more threads arrive than the mbarrier expects in this phase";
        set(pending() - count, expected(), bytes());
        return "";
    }
    [[nodiscard]] const char* drop() {
        set(pending(), expected() - 1, bytes());
        return "";
    }
    [[nodiscard]] const char* expect_one_more() {
        if (pending() == most_arrivals) return "the mbarrier expects too many arrivals";
        set(pending() + 1, expected(), bytes());
        return "";
    }
    // Adds to the bytes that have not arrived. Their number is positive if bytes were announced
    // before they arrived, and negative if they arrived first.
    [[nodiscard]] const char* expect_bytes(int64_t more) {
        const int64_t sum = bytes() + more;
        if (sum > most_bytes || sum < -most_bytes)
            return "the mbarrier waits for more bytes than it can count (1,048,575)";
        set(pending(), expected(), int32_t(sum));
        return "";
    }
    // Begins the next phase if this phase is complete.
    void turn() {
        if (pending() != 0 || bytes() != 0) return;
        set(expected(), expected(), 0);
        word_ ^= uint64_t{1} << 63;
    }

  private:
    void set(uint32_t pending, uint32_t expected, int32_t bytes) {
        word_ = (word_ & (uint64_t{1} << 63)) | uint64_t{pending} | uint64_t{expected} << 20 |
                (uint64_t(uint32_t(bytes)) & 0x7fffff) << 40;
    }

    uint64_t word_;
};

}  // namespace coalesce::sim
