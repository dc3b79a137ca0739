// Large lists of steps: copies and launches that overlap. transfers.hpp describes the method. The
// work has four parts (fill, enqueue, fetch, drain), which the calling thread advances in turn.
// Worker threads copy pieces between the caller's arrays and the slots of pinned memory.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>

#include "cuda/memory/pauses.hpp"
#include "cuda/memory/transfers.hpp"

namespace coalesce::cuda {

namespace {

using Kind = Step::Kind;

constexpr size_t none = ~size_t{0};

// Returns a size that is a multiple of `row`, if rows are copied: `size`, or less if possible.
size_t whole_rows(size_t size, size_t row) {
    return row == 0 ? size : std::max(row, size / row * row);
}

bool done(const std::atomic<unsigned>& left) { return left.load(std::memory_order_acquire) == 0; }

}  // namespace

// Pieces of copies from host memory to host memory. All threads take pieces from here.
class Pieces {
  public:
    // Divides a copy into pieces. `left` counts the pieces that are not finished. For `row` and
    // `pitch`, see Step.
    void add(char* to, const char* from, size_t bytes, std::atomic<unsigned>& left, size_t row = 0,
             size_t pitch = 0) {
        constexpr size_t least = size_t{64} << 10, parts = 8;
        const size_t size = whole_rows(std::max(least, (bytes / parts + 64) / 64 * 64), row);
        left.store(static_cast<unsigned>((bytes + size - 1) / size), std::memory_order_relaxed);
        const std::lock_guard lock(mutex_);
        for (size_t at = 0; at < bytes; at += size)
            waiting_.push_back({to + at, from + (row == 0 ? at : at / row * pitch),
                                std::min(size, bytes - at), row, pitch, &left});
        count_.store(waiting_.size(), std::memory_order_release);
    }
    // Copies a piece. Returns false if there is none.
    bool copy_one() {
        if (count_.load(std::memory_order_acquire) == 0) return false;
        Piece piece;
        {
            const std::lock_guard lock(mutex_);
            if (waiting_.empty()) return false;
            piece = waiting_.front();
            waiting_.pop_front();
            count_.store(waiting_.size(), std::memory_order_release);
        }
        copy_rows(piece.to, piece.from, piece.bytes, piece.row, piece.pitch);
        piece.left->fetch_sub(1, std::memory_order_release);
        return true;
    }
    // Runs on a worker, until close().
    void work() {
        Pause pause;
        while (!closed_.load(std::memory_order_acquire)) {
            if (copy_one())
                pause.reset();
            else
                pause();
        }
    }
    // Drops the pieces that no thread has begun, and ends work().
    void close() {
        const std::lock_guard lock(mutex_);
        waiting_.clear();
        count_.store(0, std::memory_order_release);
        closed_.store(true, std::memory_order_release);
    }

  private:
    struct Piece {
        char* to;
        const char* from;
        size_t bytes, row, pitch;
        std::atomic<unsigned>* left;
    };
    std::mutex mutex_;
    std::deque<Piece> waiting_;
    std::atomic<size_t> count_{0};
    std::atomic<bool> closed_{false};
};

// Executes a list of steps, so that copies overlap with launches. Each function advances one part
// of the work as far as it can without waiting.
class Transfers::Overlapped {
  public:
    Overlapped(Transfers& own, std::span<const Step> steps, const Streams& streams)
        : own_(own), driver_(own.driver_), streams_(streams) {
        const auto [up, down] = bytes_of(steps);
        size_t groups = 0;
        for (const Step& step : steps) {
            if (step.kind == Kind::launch) {
                actions_.push_back({Kind::launch, &step, 0});
            } else if (step.kind == Kind::to_device) {
                for (const Chunk& chunk : divided(step, up, up_ring_)) {
                    actions_.push_back({Kind::to_device, nullptr, ups_.size()});
                    ups_.push_back(chunk);
                }
            } else if (step.bytes != 0) {
                actions_.push_back({Kind::to_host, nullptr, groups});
                for (Chunk chunk : divided(step, down, down_ring_)) {
                    chunk.group = groups;
                    downs_.push_back(chunk);
                }
                ++groups;
            }
        }
        groups_ = groups;
    }

    Result prepare() {
        if (up_ring_ != 0)
            if (const Result result = own_.make(own_.up_)) return result;
        if (down_ring_ != 0)
            if (const Result result = own_.make(own_.down_)) return result;
        if (const Result result = own_.event(own_.arrived_)) return result;
        own_.computed_.resize(std::max(own_.computed_.size(), groups_ + 1));
        for (EventHandle& made : own_.computed_)
            if (const Result result = own_.event(made)) return result;
        return success;
    }

    // Returns true if an array is not pinned: then the workers copy parts of it.
    [[nodiscard]] bool needs_workers() const { return up_ring_ != 0 || down_ring_ != 0; }

    Result lead(const Waiting& waiting) {
        Pause pause;
        PeriodicCall call_waiting(waiting);
        for (;;) {
            moved_ = false;
            for (const auto advance :
                 {&Overlapped::fill, &Overlapped::enqueue, &Overlapped::fetch, &Overlapped::drain})
                if (const Result result = (this->*advance)()) return result;
            if (next_ == actions_.size() && drained_ == downs_.size()) {
                const Result result = direct_copies();
                if (result != not_ready) return result;
            }
            if (pieces.copy_one() || moved_) {
                pause.reset();
                continue;
            }
            pause();
            call_waiting();
        }
    }

    // Call this after an exception. Waits for the copies from and to the caller's pinned arrays,
    // which end soon.
    void wait_for_copies() const {
        if (direct_up_ && streams_.up != streams_.compute) driver_.stream_synchronize(streams_.up);
        if (direct_down_) driver_.event_synchronize(own_.computed_[groups_]);
    }

    Pieces pieces;

  private:
    struct Chunk {
        char* host;
        Address device;
        size_t bytes, row, pitch;
        size_t ring;       // the number of the chunk among those that need a slot; `none` if pinned
        size_t group = 0;  // for a copy to the host: the number of the event that it waits for
    };
    struct Action {
        Kind kind;
        const Step* launch;
        size_t index;  // the number of a chunk to the GPU, or of a group of copies to the host
    };

    std::vector<Chunk> divided(const Step& step, size_t total, size_t& ring) const {
        if (step.bytes == 0) return {};
        if (step.row == 0 && own_.is_pinned(step.host))
            return {{step.host, step.device, step.bytes, 0, 0, none}};
        // Divide even a small copy into about 8 chunks, so that the parts of the work overlap.
        constexpr size_t least = size_t{256} << 10, page = 4096;
        const size_t size = whole_rows(
            std::clamp((total / 8 + page - 1) / page * page, least, slot_bytes), step.row);
        std::vector<Chunk> chunks;
        for (size_t at = 0; at < step.bytes; at += size)
            chunks.push_back({step.host + (step.row == 0 ? at : at / step.row * step.pitch),
                              step.device + at, std::min(size, step.bytes - at), step.row,
                              step.pitch, ring++});
        return chunks;
    }

    static Slot& slot_of(Ring& ring, const Chunk& chunk) { return ring[chunk.ring % slot_count]; }

    // Returns whether copies from and to the caller's pinned arrays have ended.
    Result direct_copies() {
        if (direct_up_) {
            if (sent_) {
                if (const Result result = driver_.event_record(own_.arrived_, streams_.up))
                    return result;
                sent_ = false;
            }
            if (const Result result = driver_.event_query(own_.arrived_)) return result;
        }
        return direct_down_ ? driver_.event_query(own_.computed_[groups_]) : success;
    }

    // Lets the workers copy the next chunks for the GPU to slots, as long as there are free slots.
    Result fill() {
        for (; filled_ < ups_.size(); ++filled_) {
            const Chunk& chunk = ups_[filled_];
            if (chunk.ring == none) continue;
            if (chunk.ring >= up_enqueued_ + slot_count) break;
            Slot& slot = slot_of(own_.up_, chunk);
            if (slot.pending) {
                const Result result = driver_.event_query(slot.event);
                if (result == not_ready) break;
                if (result != success) return result;
                slot.pending = false;
            }
            pieces.add(slot.memory, chunk.host, chunk.bytes, slot.left, chunk.row, chunk.pitch);
            moved_ = true;
        }
        return success;
    }

    // Enqueues the next steps.
    Result enqueue() {
        for (; next_ < actions_.size(); ++next_, moved_ = true) {
            const Action& action = actions_[next_];
            if (action.kind == Kind::to_device) {
                const Chunk& chunk = ups_[action.index];
                Slot* slot = nullptr;
                if (chunk.ring != none) {
                    slot = &slot_of(own_.up_, chunk);
                    if (action.index >= filled_ || !done(slot->left)) break;
                }
                if (const Result result = driver_.copy_to_device(
                        chunk.device, slot != nullptr ? slot->memory : chunk.host, chunk.bytes,
                        streams_.up))
                    return result;
                if (slot != nullptr) {
                    if (const Result result = driver_.event_record(slot->event, streams_.up))
                        return result;
                    slot->pending = true;
                    ++up_enqueued_;
                } else {
                    direct_up_ = true;
                }
                sent_ = true;
            } else if (action.kind == Kind::launch) {
                if (sent_ && streams_.up != streams_.compute) {
                    if (const Result result = driver_.event_record(own_.arrived_, streams_.up))
                        return result;
                    if (const Result result =
                            driver_.stream_wait_event(streams_.compute, own_.arrived_, 0))
                        return result;
                }
                sent_ = false;
                action.launch->launch(streams_.compute, 0);
            } else {
                if (const Result result =
                        driver_.event_record(own_.computed_[action.index], streams_.compute))
                    return result;
                ++open_groups_;
            }
        }
        return success;
    }

    // Starts the copies to the host that waited for a launch, if this launch has ended.
    Result fetch() {
        for (; fetched_ < downs_.size(); ++fetched_, moved_ = true) {
            const Chunk& chunk = downs_[fetched_];
            if (chunk.group >= open_groups_) break;
            if (chunk.group >= computed_groups_) {
                const Result result = driver_.event_query(own_.computed_[chunk.group]);
                if (result == not_ready) break;
                if (result != success) return result;
                computed_groups_ = chunk.group + 1;
            }
            if (chunk.ring == none) {
                if (const Result result =
                        driver_.copy_to_host(chunk.host, chunk.device, chunk.bytes, streams_.down))
                    return result;
                if (const Result result =
                        driver_.event_record(own_.computed_[groups_], streams_.down))
                    return result;
                direct_down_ = true;
                continue;
            }
            if (chunk.ring >= down_drained_ + slot_count) break;
            Slot& slot = slot_of(own_.down_, chunk);
            if (slot.pending) {  // left from a call that was interrupted
                const Result result = driver_.event_query(slot.event);
                if (result == not_ready) break;
                if (result != success) return result;
            }
            if (const Result result =
                    driver_.copy_to_host(slot.memory, chunk.device, chunk.bytes, streams_.down))
                return result;
            if (const Result result = driver_.event_record(slot.event, streams_.down))
                return result;
            slot.pending = true;
        }
        return success;
    }

    // Lets the workers copy each chunk that has arrived from the GPU into the caller's array.
    // Counts the chunks that the workers have copied.
    Result drain() {
        for (; arrived_ < fetched_; ++arrived_, moved_ = true) {
            const Chunk& chunk = downs_[arrived_];
            if (chunk.ring == none) continue;
            Slot& slot = slot_of(own_.down_, chunk);
            const Result result = driver_.event_query(slot.event);
            if (result == not_ready) break;
            if (result != success) return result;
            slot.pending = false;
            pieces.add(chunk.host, slot.memory, chunk.bytes, slot.left);
        }
        for (; drained_ < arrived_; ++drained_, moved_ = true) {
            const Chunk& chunk = downs_[drained_];
            if (chunk.ring == none) continue;
            if (!done(slot_of(own_.down_, chunk).left)) break;
            ++down_drained_;
        }
        return success;
    }

    Transfers& own_;
    const Driver& driver_;
    const Streams streams_;
    std::vector<Action> actions_;
    std::vector<Chunk> ups_, downs_;
    size_t up_ring_ = 0, down_ring_ = 0;  // how many chunks need slots
    size_t groups_ = 0;                   // how many groups of copies to the host there are
    // The progress of each part of the work: the number of chunks, actions or groups that are done.
    size_t filled_ = 0, up_enqueued_ = 0, next_ = 0, open_groups_ = 0, computed_groups_ = 0;
    size_t fetched_ = 0, arrived_ = 0, drained_ = 0, down_drained_ = 0;
    bool sent_ = false;  // whether a copy to the GPU was enqueued after the last launch
    bool direct_up_ = false, direct_down_ = false;  // whether the caller's array is in use
    bool moved_ = false;
};

Result Transfers::run_overlapped(std::span<const Step> steps, const Streams& streams,
                                 const Waiting& waiting) {
    Overlapped overlapped(*this, steps, streams);
    if (const Result result = overlapped.prepare()) return result;
    Result result = success;
    const auto lead = [&] {
        try {
            result = overlapped.lead(waiting);
        } catch (...) {
            overlapped.pieces.close();
            overlapped.wait_for_copies();
            throw;
        }
        overlapped.pieces.close();
    };
    if (overlapped.needs_workers()) {
        start_workers();
        workers_->run([&] { overlapped.pieces.work(); }, lead);
    } else {
        lead();
    }
    return result;
}

}  // namespace coalesce::cuda
