#include "analysis/caches/block_requests.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <type_traits>

#include "analysis/caches/l1_replay.hpp"
#include "model/coalescing.hpp"

namespace coalesce::analysis {

uint32_t CyclesByStride::compute(uint64_t first, int32_t stride, uint32_t lanes, uint32_t bytes) {
    if (stride == int32_t(bytes))
        return model::l1_cycles_of_range(first, first + uint64_t{lanes} * bytes).data;
    const sim::LaneMask mask = sim::all_lanes >> (sim::warp_size - lanes);
    return model::l1_cycles(mask, bytes,
                            [&](int lane) { return first + uint64_t(int64_t(lane) * stride); })
        .data;
}

void RecordedBlock::clear() {
    for (auto& of_warp : requests) of_warp.clear();
    addresses.clear();
    results = {};
}

BlockRequests::BlockRequests(const std::vector<CacheSite>& sites, uint32_t warps, uint32_t l1_bytes)
    : sites_(sites), warps_(warps), memory_(std::make_unique<ReplayMemory>(l1_bytes)) {}

BlockRequests::~BlockRequests() = default;

size_t RecordedBlock::size() const {
    size_t sum = 0;
    for (const auto& of_warp : requests) sum += of_warp.size();
    return sum;
}

bool RecordedBlock::has_same_requests(const RecordedBlock& other) const {
    static_assert(std::has_unique_object_representations_v<MemoryRequest>);
    const auto same = [](const std::vector<MemoryRequest>& a, const std::vector<MemoryRequest>& b) {
        return a.size() == b.size() &&
               std::memcmp(a.data(), b.data(), a.size() * sizeof(MemoryRequest)) == 0;
    };
    return std::ranges::equal(requests, other.requests, same) && addresses == other.addresses;
}

void BlockRequests::start() {
    if (own_ && !own_->is_kept)
        own_->clear();
    else
        own_ = std::make_shared<RecordedBlock>(uint32_t(warps_.size()));
    for (size_t warp = 0; warp < warps_.size(); ++warp) {
        warps_[warp] = {};
        warps_[warp].requests = &own_->requests[warp];
    }
    origins_.assign(1, 0);
    arrays_.assign(1, 0);
    origin_of_.assign(sites_.size(), {});
    cycles_.assign(sites_.size(), 0);
}

uint64_t BlockRequests::operations() const {
    return std::transform_reduce(warps_.begin(), warps_.end(), uint64_t{0}, std::plus(),
                                 std::mem_fn(&OfWarp::operations));
}

uint64_t BlockRequests::max_operations() const {
    return std::ranges::max_element(warps_, {}, &OfWarp::operations)->operations;
}

// Returns the array that has the address. If the block has not accessed it before, the array gets a
// new region of relative addresses.
BlockRequests::Origin BlockRequests::origin_of(const sim::Block& block, const sim::MemoryEvent& e,
                                               uint64_t address) {
    if (e.space == ptx::Space::local) return {0, middle_of_region, 0};
    uint16_t hint = block.hints[e.pc];
    const sim::Buffer* const buffer = block.memory->find(address, 1, hint);
    // Addresses outside all arrays are rare. Those with the same upper bits share a region.
    const uint64_t array = buffer ? buffer->address : address / middle_of_region;
    const uint64_t bytes = buffer ? buffer->bytes : 0;
    const auto known = std::find(arrays_.begin() + 1, arrays_.end(), array);
    if (known != arrays_.end()) return {array, bytes, origins_[size_t(known - arrays_.begin())]};
    const uint64_t region = uint64_t{arrays_.size()} << region_bits;
    arrays_.push_back(array);
    origins_.push_back((address & ~uint64_t{model::line_bytes - 1}) - region - middle_of_region);
    return {array, bytes, origins_.back()};
}

inline uint64_t BlockRequests::relative(const sim::Block& block, const sim::MemoryEvent& e,
                                        uint64_t address) {
    Origin& origin = origin_of_[e.pc];
    if (!origin.has(address)) [[unlikely]]
        origin = origin_of(block, e, address);
    return address - origin.difference;
}

// Adds the L1 cycles of a scattered request. At the edge of a matrix, neighbouring lanes often have
// a constant stride, but some lanes are inactive.
void BlockRequests::add_cycles(const sim::MemoryEvent& e) {
    const CacheSite site = sites_[e.pc];
    if (site.local) return;
    const int begin = std::countr_zero(e.mask), lanes = std::popcount(e.mask);
    const uint64_t first = e.address(begin);
    const bool neighbours = e.mask >> begin == sim::all_lanes >> (sim::warp_size - lanes);
    const auto stride = int32_t(lanes > 1 && neighbours ? e.address(begin + 1) - first : 0);
    uint64_t different = !neighbours;
    for (int i = 0; neighbours && i < lanes; ++i)
        different |= e.address(begin + i) ^ (first + uint64_t(int64_t(i) * stride));
    cycles_[e.pc] +=
        different
            ? model::l1_cycles(e.mask, site.bytes, [&](int lane) { return e.address(lane); }).data
            : cycles_by_stride_.of(first, stride, uint32_t(lanes), site.bytes);
}

void BlockRequests::add(OfWarp& own, const sim::Block& block, const sim::MemoryEvent& e) {
    const bool has_stride = e.shape == sim::Shape::uniform || e.shape == sim::Shape::consecutive;
    const int64_t stride = has_stride ? sim::lane_stride(e) : sim::stride_of(e);
    if ((!has_stride && stride == 0) || stride != int64_t(int32_t(stride)))
        return add_scattered(own, block, e);
    const uint64_t first = e.address(0), last = first + uint64_t(stride) * (sim::warp_size - 1);
    const uint64_t start = relative(block, e, first);
    if (stride != 0 && !origin_of_[e.pc].has(last)) return add_scattered(own, block, e);
    add_regular(own, e.pc, int32_t(stride), first, start);
}

void BlockRequests::add_scattered(OfWarp& own, const sim::Block& block, const sim::MemoryEvent& e) {
    std::vector<uint64_t>& addresses = own_->addresses;
    own.record({addresses.size(), int32_t(e.mask), e.pc, 0, 1});
    sim::for_each_lane(e.mask,
                       [&](int lane) { addresses.push_back(relative(block, e, e.address(lane))); });
    add_cycles(e);
}

}  // namespace coalesce::analysis
