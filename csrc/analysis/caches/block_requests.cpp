#include "analysis/caches/block_requests.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <type_traits>

#include "analysis/caches/l1_replay.hpp"
#include "model/atomics.hpp"

namespace coalesce::analysis {

uint32_t CyclesByStride::compute(uint64_t first, int32_t stride, uint32_t lanes, uint32_t bytes) {
    if (stride == int32_t(bytes))
        return model::l1_cycles_of_range(first, first + uint64_t{lanes} * bytes).data;
    model::L1Lines lines;
    if (is_apart(stride)) {
        lines.add_apart(first, stride, lanes, bytes);
        return lines.cycles().data;
    }
    for (uint32_t lane = 0; lane < lanes; ++lane) {
        const uint64_t address = first + uint64_t(int64_t{lane} * stride);
        lines.add(address / model::line_bytes, model::banks_of(address, bytes));
    }
    return lines.cycles().data;
}

void RecordedBlock::clear() {
    for (auto& of_warp : requests) of_warp.clear();
    lines.clear();
    results = {};
}

BlockRequests::BlockRequests(const std::vector<CacheSite>& sites, uint32_t warps, uint32_t l1_bytes,
                             model::AtomicUnits* atomics)
    : sites_(sites),
      warps_(warps),
      atomics_(atomics),
      memory_(std::make_unique<ReplayMemory>(l1_bytes)) {}

BlockRequests::~BlockRequests() = default;

size_t RecordedBlock::size() const {
    size_t sum = 0;
    for (const auto& of_warp : requests) sum += of_warp.size();
    return sum;
}

bool RecordedBlock::has_same_requests(const RecordedBlock& other) const {
    const auto same = []<class Part>(const std::vector<Part>& a, const std::vector<Part>& b) {
        static_assert(std::has_unique_object_representations_v<Part>);
        return a.size() == b.size() &&
               (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Part)) == 0);
    };
    return std::ranges::equal(requests, other.requests, same) && same(lines, other.lines);
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
    const uint64_t region = uint64_t{arrays_.size()} << model::region_bits;
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

void BlockRequests::add(OfWarp& own, const sim::Warp& warp, const sim::MemoryEvent& e,
                        const model::LaneRun& run, const model::RequestLines* lines) {
    const CacheSite site = sites_[e.pc];
    if (site.effect == CacheSite::Effect::atomic && atomics_)
        atomics_->add(e.mask, site.adds_floats, [&](int lane) { return e.address(lane); });
    if (run) {
        // The next accesses are usually to the same array.
        (void)relative(*warp.block, e, run.first);
        if (add_regular(own, e.pc, run.stride, run.first, run.lanes)) return;
    }
    if (site.local)
        collect_local(warp, e);
    else if (!lines)
        lines_.collect(e);
    if (site.local || !lines) lines = &lines_;
    const size_t first = own_->lines.size();
    own.record({first, int32_t(lines->count()), e.pc, 0, MemoryRequest::lines});
    own_->lines.resize(first + lines->count());
    RecordedLine* recorded = own_->lines.data() + first;
    model::L1Lines of_l1;
    for (uint32_t n = 0; n < lines->count(); ++n) {
        const uint64_t address = lines->number(n) * model::line_bytes;
        const uint64_t at = site.local ? address : relative(*warp.block, e, address);
        *recorded++ = {at / model::line_bytes, lines->sectors(n), lines->whole(n)};
        of_l1.add_new(lines->number(n), lines->banks(n));
    }
    cycles_[e.pc] += site.local ? lines->count() : of_l1.cycles().data;
}

// Collects the lines of an access to local memory, with relative addresses. A line holds one word
// of each lane. If lanes access several words at different addresses, there may be more than 32
// lines. The others are left out.
void BlockRequests::collect_local(const sim::Warp& warp, const sim::MemoryEvent& e) {
    lines_.start();
    const uint64_t base = warp.index * local_of_warp;
    sim::for_each_lane(e.mask, [&](int lane) {
        for (uint32_t word = 0; word < std::max<uint32_t>(1, e.bytes / 4) && !lines_.is_full();
             ++word)
            lines_.add(base + (e.address(lane) / 4 + word) * model::line_bytes + uint64_t(lane) * 4,
                       std::min<uint32_t>(e.bytes, 4));
    });
}

}  // namespace coalesce::analysis
