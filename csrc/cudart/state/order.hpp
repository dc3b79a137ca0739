// Which operations of streams and of the host are ordered, and findings about those that are not.
//
// METHOD
// The simulator executes all work in the order of the calls. On a GPU, work of different streams
// may run in any order, unless an event, a wait or a rule of CUDA orders it. Operation A happens
// before operation B if B follows A in one stream, if B's stream waited for an event that was
// recorded after A, or if the host waited for A before it issued B.
//
// How host threads wait for each other is not seen. So what a thread learns in a call counts for
// all threads, but only when this call returns: no thread can know it earlier. With --check, such a
// call returns a little later if there are several host threads (api.cpp). If another thread issues
// an operation meanwhile, this operation is certainly not ordered by the call.
//
// Each stream numbers its operations. A clock (a vector clock, as for threads) has for some streams
// the number of the last operation that has certainly ended. There is a clock of what the host
// knows, one for the end of each stream and one for each event. For example, stream 1 copies
// (operation 1:1), and then stream 2 launches a kernel. If stream 2 did not wait for an event, the
// kernel starts with the clock {}, so 1:1 is not ordered before it. If it did, the clock is {1: 1}.
//
// With --check, an operation also has the ranges of bytes that it reads and writes. For a kernel,
// they are the bytes that its threads accessed. If a new operation conflicts with an earlier one
// that is not ordered before it, this is a finding. Operations are forgotten when the host knows
// that they have ended. Pages of the host that an operation may still use are protected while the
// program runs, so that accesses of the host are seen, too (signals.cpp).
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analysis/check/shadow.hpp"
#include "cudart/abi/abi.hpp"

namespace coalesce::cudart {

// For each stream, the number of the last operation that has ended. Streams of which no operation
// has ended are missing.
class Clock {
  public:
    [[nodiscard]] bool covers(uint64_t stream, uint64_t number) const {
        const auto known = last_.find(stream);
        return known != last_.end() && known->second >= number;
    }
    void set(uint64_t stream, uint64_t number) { last_[stream] = number; }
    void join(const Clock& other) {
        for (const auto& [stream, number] : other.last_)
            last_[stream] = std::max(last_[stream], number);
    }
    [[nodiscard]] const std::map<uint64_t, uint64_t>& all() const { return last_; }
    [[nodiscard]] bool empty() const { return last_.empty(); }
    void forget(uint64_t stream) { last_.erase(stream); }

  private:
    std::map<uint64_t, uint64_t> last_;
};

// An operation of a stream.
struct Operation {
    std::string what;  // "the kernel `scale`"
    analysis::Touched touched = {};
    // issue() sets the following members.
    std::string stream_name = {};
    void* caller = nullptr;
    pthread_t thread = {};  // the host thread that issued it
    uint64_t stream = 0, number = 0;
    Clock before = {};          // what has ended when this operation starts
    bool seen_by_host = false;  // a finding says that the host did not wait for it
};

class Order {
  public:
    // Adds an operation to a stream. With --check, compares it with earlier operations.
    void issue(StreamRecord& stream, Operation operation);

    void record(StreamRecord& stream, EventRecord& event);
    // Later work of the stream starts after the operations in `ended`.
    void wait(StreamRecord& stream, const Clock& ended);

    // The host waits for a stream, for an event, or for all earlier work.
    void host_waits(const StreamRecord& stream);
    void host_waits(const EventRecord& event);
    void host_waits_for_all() { host_learns(all_); }
    // A function of the host runs as the work of a stream. The host may notice that it has run in
    // ways that are not seen, for example by reading a variable.
    void host_follows(const StreamRecord& stream) { host_learns(start_of(stream)); }
    // Later work starts after all earlier work. The documentation of older CUDA versions promises
    // this for allocations, but an H200 does not wait. With --strict, it is not assumed.
    void separate() { separated_ = all_; }
    // What the host has learned in the current call, if it is not known to all host threads yet.
    // Moves it to the caller, who passes it to publish() when the call returns.
    [[nodiscard]] Clock take_learned() { return std::exchange(learned_, {}); }
    void publish(const Clock& learned);
    [[nodiscard]] bool host_knows(const StreamRecord& stream) const;
    [[nodiscard]] bool host_knows(const EventRecord& event) const;

    // Sets what has ended at the end of a stream.
    void set_end(StreamRecord& stream, Clock end);
    // Nodes of a graph that do not depend on each other run as if in streams of their own.
    [[nodiscard]] uint64_t new_branch() { return ++branches_; }

    // Protects the pages of the host that operations may still use, or gives the host access.
    void guard(bool guarded);
    // Called when the host accesses a protected page. Reports a missing wait, if there is one, and
    // opens the page. Returns false if the page is not protected.
    bool host_accesses(uint64_t address, bool writes, void* code);
    // Returns false if no page with this address was ever protected. It needs no lock and no
    // runtime, so a signal handler can call it.
    [[nodiscard]] static bool may_guard(uint64_t address);
    void close_pages();  // protects the opened pages again

  private:
    // Returns the clock with which the next operation of the stream starts.
    [[nodiscard]] Clock start_of(const StreamRecord& stream) const;
    // Returns what has ended when the host has waited for the stream.
    [[nodiscard]] Clock end_of(const StreamRecord& stream) const;
    void host_learns(const Clock& clock);
    [[nodiscard]] bool host_knows(const Clock& clock) const;

    Clock host_, learned_, all_, separated_;
    Clock default_, blocking_;  // the ends of the default stream, and of all
                                // streams that wait for it
    uint64_t branches_ = first_branch;
    static constexpr uint64_t first_branch = uint64_t{1} << 32;  // above the numbers of streams
    std::vector<Operation> pending_;  // with --check: operations that the host
                                      // does not know to have ended
    uint64_t events_ = 0;             // the number of recordings

    // The pages of the host that pending operations may write, and those that they may read.
    void add_pages(const Operation& operation);
    void update_pages();
    void protect() const;
    void unprotect();
    analysis::Touched::Ranges written_pages_, read_pages_;
    std::vector<uint64_t> open_;  // pages to which the host has access for one instruction
    bool guarded_ = false;
    // Pages of registered memory were protected.
    static inline std::atomic<bool> guards_registered_ = false;
};

}  // namespace coalesce::cudart
