#include "analysis/block_requests.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "analysis/l1_replay.hpp"
#include "model/coalescing.hpp"

namespace coalesce::analysis {

BlockRequests::BlockRequests(uint32_t warps, uint32_t l1_bytes)
    : warps_(warps), memory_(std::make_unique<ReplayMemory>(l1_bytes)) {}

BlockRequests::~BlockRequests() = default;

void BlockRequests::clear() {
    for (OfWarp& own : warps_) {
        own.requests.clear();
        own.wavefronts = own.operations = 0;
    }
    addresses_.clear();
}

uint64_t BlockRequests::operations() const {
    return std::transform_reduce(warps_.begin(), warps_.end(), uint64_t{0}, std::plus(),
                                 std::mem_fn(&OfWarp::operations));
}

uint64_t BlockRequests::most_operations() const {
    return std::ranges::max_element(warps_, {}, &OfWarp::operations)->operations;
}

BlockRequests::Form BlockRequests::form_of(uint64_t first, int32_t stride, uint32_t bytes) {
    constexpr auto line_bytes = int32_t{model::line_bytes};
    if (stride == 0) return Form::one_address;
    if (stride % line_bytes == 0) return Form::line_per_lane;
    const bool whole = stride == int32_t(bytes) && first % model::line_bytes == 0 &&
                       bytes * sim::warp_size >= model::line_bytes;
    return whole ? Form::whole_lines : Form::other;
}

void BlockRequests::add(OfWarp& own, const sim::MemoryEvent& e) {
    if (own.wavefronts) own.requests.push_back({own.wavefronts, 0, pause, 0, 0});
    own.wavefronts = 0;
    MemoryRequest r{};
    r.pc = e.pc;
    if (e.shape == sim::Shape::uniform || e.shape == sim::Shape::consecutive) {
        r.first = e.first;
        r.stride = e.shape == sim::Shape::uniform ? 0 : int32_t(e.bytes);
        r.form = uint32_t(form_of(r.first, r.stride, e.bytes));
    } else if (const int64_t stride = sim::stride_of(e);
               stride != 0 && stride == int64_t(int32_t(stride))) {
        r.first = e.address(0);
        r.stride = int32_t(stride);
        r.form = uint32_t(form_of(r.first, r.stride, e.bytes));
    } else {
        r.first = addresses_.size();
        r.stride = int32_t(e.mask);
        r.scattered = 1;
        sim::for_each_lane(e.mask, [&](int lane) { addresses_.push_back(e.address(lane)); });
    }
    own.requests.push_back(r);
}

}  // namespace coalesce::analysis
