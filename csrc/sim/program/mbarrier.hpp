// The state of an mbarrier: a 64-bit word in shared memory.
//
// METHOD
// An mbarrier is a barrier in shared memory that can be used again and again. Each use is a phase.
// A phase is complete when the expected number of threads has arrived and all announced bytes of
// asynchronous copies have arrived (PTX ISA, "mbarrier"). Then the next phase begins, with the same
// expected number of threads. PTX does not define the bits of the word. In our own layout, they
// have these meanings:
//
//    0-19   arrivals that this phase still waits for
//    20-39  arrivals that each phase waits for
//    40-62  bytes that this phase still waits for, signed
//    63     the parity of this phase: 0, 1, 0, ...
//
// The instruction mbarrier.arrive returns the word before the arrival. mbarrier.test_wait uses only
// the parity of such a word.
#pragma once

#include <cstdint>

namespace coalesce::sim {

// What an instruction does to an mbarrier.
enum class MbarrierUpdate : uint8_t {
    init,
    // Machine code initialises an mbarrier by storing a word in the layout of the hardware.
    init_word,
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

// The word of an mbarrier; see METHOD for its bits.
class Mbarrier {
  public:
    static constexpr uint32_t max_arrivals = (1u << 20) - 1;
    static constexpr int32_t max_bytes = (1 << 20) - 1;
    // The value of uninitialized shared memory on the simulator, and of an mbarrier after inval.
    static constexpr uint64_t invalid = ~uint64_t{0};

    explicit Mbarrier(uint64_t word) : word_(word) {}
    static Mbarrier with(uint32_t arrivals) {
        return Mbarrier(uint64_t{arrivals} | uint64_t{arrivals} << 20);
    }

    // In machine code, the code itself computes the initial word of an mbarrier, in the layout of
    // the hardware. The word contains the number 2^20 - arrivals twice: from bit 1 on, and from bit
    // 43 on. (The code that the assembler makes of mbarrier.init shows this.) If `low` and `high`
    // are the halves of such a word, sets `arrivals` and returns true. Otherwise returns false.
    [[nodiscard]] static bool from_machine_code(uint32_t low, uint32_t high, uint32_t& arrivals) {
        const uint32_t rest = uint32_t(int32_t(low) >> 1);  // 2^20 less the number of arrivals
        arrivals = max_arrivals + 1 - rest;
        return (low & 1) == 0 && high == rest << 11;
    }

    [[nodiscard]] uint64_t word() const { return word_; }
    [[nodiscard]] bool is_valid() const { return word_ != invalid; }
    [[nodiscard]] uint32_t pending() const { return uint32_t(word_) & max_arrivals; }
    [[nodiscard]] uint32_t expected() const { return uint32_t(word_ >> 20) & max_arrivals; }
    [[nodiscard]] int32_t bytes() const { return int32_t(int64_t(word_ << 1) >> 41); }
    [[nodiscard]] uint32_t parity() const { return uint32_t(word_ >> 63); }

    // The following functions return an error message, or an empty string if there is no error. In
    // case of an error, they change nothing.
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
        if (pending() == max_arrivals) return "the mbarrier expects too many arrivals";
        set(pending() + 1, expected(), bytes());
        return "";
    }
    // Adds `more` to the number of bytes that were announced and have not arrived. The number is
    // negative if more bytes have arrived than were announced so far.
    [[nodiscard]] const char* expect_bytes(int64_t more) {
        const int64_t sum = bytes() + more;
        if (sum > max_bytes || sum < -max_bytes)
            return "the mbarrier waits for more bytes than it can count (1,048,575)";
        set(pending(), expected(), int32_t(sum));
        return "";
    }
    // Begins the next phase if this phase is complete.
    void advance_if_complete() {
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
