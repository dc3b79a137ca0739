#include "model/block_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/time.hpp"

namespace coalesce::model {

namespace {

constexpr double slice_cycles = 64;  // the length of a slice in L1 cycles
constexpr double drift = 1.7;

// Returns a pseudo-random number from 0 to 1 that depends only on the block's number.
double at_random(uint64_t block) {
    uint64_t x = block + 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return double((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

}  // namespace

BlockSchedule::BlockSchedule(const Gpu& gpu, uint32_t resident, L2Sample& sample)
    : gpu_(gpu),
      resident_(resident),
      first_round_(uint64_t(gpu.multiprocessors) * resident),
      sectors_per_cycle_(l2_sectors_per_cycle * gpu.multiprocessors),
      sample_(sample),
      running_(gpu.multiprocessors) {
    for (uint32_t started = 0; started <= resident; ++started) {
        double weights = 0;
        for (uint32_t age = 1; age <= started; ++age) weights += 1.0 / age;
        std::vector<double>& steps = steps_.emplace_back();
        for (uint32_t age = 1; age <= started; ++age) steps.push_back(slice_cycles / age / weights);
    }
    for (uint32_t n = 0; n < resident; ++n)
        for (uint32_t sm = 0; sm < gpu.multiprocessors; ++sm) places_.push_back(sm);
}

void BlockSchedule::start(uint64_t block, std::shared_ptr<const ReplayedBlock> filtered,
                          std::vector<uint64_t> origins) {
    const double round = double(filtered->cycles) * resident_;
    double late = drift * resident_ * std::sqrt(round) * at_random(block);
    if (block < first_round_) late *= std::sqrt(1 + left_out_);
    Multiprocessor& on = running_[places_.front()];
    on.blocks.push_back({std::move(filtered), std::move(origins)});
    on.times.push_back(-late);
    on.events.push_back(on.blocks.back().next_event());
    on.all_started = false;
    places_.pop_front();
    ++held_;
}

const BlockSchedule::Slice& BlockSchedule::run_slice() {
    slice_.requests.clear();
    slice_.ended.clear();
    ended_.clear();
    sectors_ = 0;
    for (uint32_t sm = 0; sm < running_.size(); ++sm)
        if (!running_[sm].blocks.empty()) run(sm);
    // So far, the time of a request is a fraction of the slice. The duration of the slice is known
    // only now, so the times are converted to cycles since the launch.
    const double duration = std::max(slice_cycles, double(sectors_) / sectors_per_cycle_);
    slice_.start = now_;
    for (L2Request& r : slice_.requests) r.time = now_ + r.time * duration;
    now_ += duration;
    std::stable_sort(ended_.begin(), ended_.end(),
                     [](const Ended& a, const Ended& b) { return a.ago > b.ago; });
    for (const Ended& e : ended_) places_.push_back(e.multiprocessor);
    return slice_;
}

// Advances all blocks by their steps. If an event of any block is then due, changes nothing and
// returns false.
bool BlockSchedule::Multiprocessor::pass(const std::vector<double>& steps) {
    const size_t count = blocks.size();
    uint64_t due = 0;
    for (size_t i = 0; i < count; ++i) due |= uint64_t{events[i] <= times[i] + steps[i]};
    if (due) return false;
    for (size_t i = 0; i < count; ++i) times[i] += steps[i];
    return true;
}

void BlockSchedule::run(uint32_t multiprocessor) {
    Multiprocessor& here = running_[multiprocessor];
    if (here.all_started && here.pass(steps_[here.blocks.size()])) return;
    const auto started =
        size_t(std::ranges::count_if(here.times, [](double time) { return time >= 0; }));
    here.all_started = started == here.blocks.size();
    const double* step_of_age = steps_[started].data();
    bool any_ended = false;
    const auto has_ended = [&](size_t i) {
        return !here.blocks[i].has_request() && here.times[i] >= here.events[i];
    };
    for (size_t i = 0; i < here.blocks.size(); ++i) {
        const double step = here.times[i] < 0 ? slice_cycles : *step_of_age++;
        const double start = std::exchange(here.times[i], here.times[i] + step);
        if (here.events[i] > here.times[i]) continue;
        Running& r = here.blocks[i];
        if (r.has_request() && here.events[i] < here.times[i]) {
            send_requests(r, multiprocessor, start, step, here.times[i]);
            here.events[i] = r.next_event();
        }
        any_ended |= has_ended(i);
    }
    for (size_t i = any_ended ? here.blocks.size() : 0; i-- > 0;) {
        if (!has_ended(i)) continue;
        const auto at = ptrdiff_t(i);
        ended_.push_back({here.times[i] - here.events[i], multiprocessor});
        slice_.ended.push_back(std::move(here.blocks[i].filtered));
        here.blocks.erase(here.blocks.begin() + at);
        here.times.erase(here.times.begin() + at);
        here.events.erase(here.events.begin() + at);
        --held_;
    }
}

template <class Handle>
void BlockSchedule::Running::take(uint64_t before, Handle&& handle) {
    const std::span<const Traffic> left = std::span(filtered->traffic).subspan(next);
    size_t count = 0;
    for (; count < left.size() && left[count].time < before; ++count) handle(left[count]);
    next += count;
    // The requests of different blocks are stored far apart in the host's memory. So the requests
    // for the next slice are prefetched. The next slice probably needs as many of them as this one.
    constexpr size_t together = 64 / sizeof(Traffic);  // requests in a line of the host's cache
    const size_t expected = std::min(left.size(), 2 * count + together);
    for (size_t n = count; n < expected; n += together) __builtin_prefetch(&left[n]);
}

// Adds the requests of a block during the current slice. In this slice, the time of the block
// advances by `step`, from `start` to `end`.
void BlockSchedule::send_requests(Running& r, uint32_t multiprocessor, double start, double step,
                                  double end) {
    const auto gpc = uint8_t(gpu_.gpc_of(multiprocessor));
    L2Sample::Batch batch(sample_, [&](const Traffic& t, const LineAccess& a) {
        // As in L1Replay::send(), push_back() would make the host wait.
        slice_.requests.emplace_back() = {
            a.line, (double(t.time) - start) / step, t.pc, gpc, t.kind, a.sectors, a.whole};
    });
    const uint64_t* const origins = r.origins.data();
    r.take(uint64_t(std::ceil(end)), [&](const Traffic& t) {  // `end` > 0
        batch.add(t, origins[t.address >> region_bits]);
    });
    sectors_ += batch.end();
}

}  // namespace coalesce::model
