#include "analysis/caches/block_requests.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

#include "analysis/caches/l1_replay.hpp"
#include "model/coalescing.hpp"

namespace coalesce::analysis {

namespace {

RequestForm form_of(uint64_t first, int32_t stride, uint32_t bytes) {
    constexpr auto line_bytes = int32_t{model::line_bytes};
    if (stride == 0) return RequestForm::one_address;
    if (stride % line_bytes == 0) return RequestForm::line_per_lane;
    const bool whole = stride == int32_t(bytes) && first % model::line_bytes == 0 &&
                       bytes * sim::warp_size >= model::line_bytes;
    return whole ? RequestForm::whole_lines : RequestForm::other;
}

}  // namespace

uint32_t CyclesByStride::compute(uint64_t first, int32_t stride, uint32_t lanes, uint32_t bytes) {
    const sim::LaneMask mask = sim::all_lanes >> (sim::warp_size - lanes);
    return model::l1_cycles(mask, bytes,
                            [&](int lane) { return first + uint64_t(int64_t(lane) * stride); })
        .data;
}

void RecordedBlock::clear() {
    for (auto& of_warp : requests) of_warp.clear();
    addresses.clear();
    results = {};
    once.reset();
}

BlockRequests::BlockRequests(const std::vector<CacheSite>& sites, uint32_t warps, uint32_t l1_bytes)
    : sites_(sites), warps_(warps), memory_(std::make_unique<ReplayMemory>(l1_bytes)) {}

BlockRequests::~BlockRequests() = default;

size_t RecordedBlock::size() const {
    size_t sum = 0;
    for (const auto& of_warp : requests) sum += of_warp.size();
    return sum;
}

void BlockRequests::start(uint64_t number, Candidates candidates) {
    if (own_ && !own_->is_candidate)
        own_->clear();
    else
        own_ = std::make_shared<RecordedBlock>(uint32_t(warps_.size()));
    own_->number = number;
    std::ranges::fill(warps_, OfWarp{});
    origins_.assign(1, 0);
    arrays_.assign(1, 0);
    origin_of_.assign(sites_.size(), {});
    cycles_.assign(sites_.size(), 0);
    candidates_ = std::move(candidates);
    expected_ = nullptr;
    if (candidates_.empty()) return;
    expect(std::move(candidates_.back()));
    candidates_.pop_back();
}

// Compares the next requests with those of the candidate, whose first requests are equal.
void BlockRequests::expect(std::shared_ptr<RecordedBlock> candidate) {
    for (size_t warp = 0; warp < warps_.size(); ++warp) {
        OfWarp& own = warps_[warp];
        const std::vector<MemoryRequest>& requests = candidate->requests[warp];
        const ptrdiff_t done = expected_ ? own.next - expected_->requests[warp].data() : 0;
        own.next = requests.data() + done;
        own.end = requests.data() + requests.size();
    }
    expected_ = std::move(candidate);
}

// Returns true if the requests until now are also those of the candidate.
bool BlockRequests::begins_as_expected(const RecordedBlock& candidate) const {
    size_t addresses = 0;
    for (size_t warp = 0; warp < warps_.size(); ++warp) {
        const MemoryRequest* const first = expected_->requests[warp].data();
        const std::vector<MemoryRequest>& other = candidate.requests[warp];
        const auto done = size_t(warps_[warp].next - first);
        if (done > other.size() || !std::equal(first, first + done, other.data())) return false;
        for (const MemoryRequest& r : std::span(first, done))
            if (r.scattered)
                addresses =
                    std::max(addresses, size_t(r.first) + std::popcount(uint32_t(r.stride)));
    }
    return addresses <= candidate.addresses.size() &&
           std::equal(candidate.addresses.data(), candidate.addresses.data() + addresses,
                      expected_->addresses.data());
}

// Chooses another candidate that begins with the requests until now, and for which suits() returns
// true. Returns false if there is none.
template <class Suits>
bool BlockRequests::choose_another(Suits&& suits) {
    while (!candidates_.empty()) {
        const std::shared_ptr<RecordedBlock> next = std::move(candidates_.back());
        candidates_.pop_back();
        if (!begins_as_expected(*next)) continue;
        expect(next);
        if (suits()) return true;
    }
    return false;
}

std::shared_ptr<RecordedBlock> BlockRequests::finish() {
    const auto is_complete = [&] {
        return std::ranges::all_of(warps_, [](const OfWarp& own) { return own.next == own.end; });
    };
    if (expected_ && !is_complete() && !choose_another(is_complete)) stop_comparing();
    return expected_ ? expected_ : own_;
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

void BlockRequests::add(const sim::Warp& warp, const sim::MemoryEvent& e) {
    const sim::Block& block = *warp.block;
    MemoryRequest r;
    if (e.shape == sim::Shape::uniform || e.shape == sim::Shape::consecutive) {
        r = regular(block, e, e.shape == sim::Shape::uniform ? 0 : e.bytes);
    } else if (const int64_t stride = sim::stride_of(e);
               stride != 0 && stride == int64_t(int32_t(stride))) {
        r = regular(block, e, stride);
    } else {
        r = scattered(block, e);
    }
    if (r.scattered)
        add_cycles(e);
    else if (r.form == uint32_t(RequestForm::other))
        add_cycles(r, e.address(0));
    if (expected_) {
        const auto is_next = [&] { return is_expected(warps_[warp.index], r); };
        if (is_next() || choose_another(is_next)) [[likely]]
            return;
        stop_comparing();
    }
    record(warp.index, r);
}

// Adds an access to words in global memory that is not the next request that is expected.
void BlockRequests::add_words(const sim::Warp& warp, const sim::Op& op, sim::Access access,
                              int64_t stride, uint64_t first) {
    // This is a short way for most accesses of a block that is not compared.
    const Origin& origin = origin_of_[op.pc];
    const uint64_t last = first + uint64_t(stride) * (sim::warp_size - 1);
    if (!expected_ && stride == int32_t(stride) && origin.has(first) && origin.has(last)) {
        MemoryRequest r{};
        r.first = first - origin.difference;
        r.stride = int32_t(stride);
        r.pc = op.pc;
        const RequestForm form = form_of(r.first, r.stride, sites_[op.pc].bytes);
        r.form = uint32_t(form);
        if (form == RequestForm::other) add_cycles(r, first);
        return record(warp.index, r);
    }
    add(warp, sim::event_of_words(op, ptx::Space::global, access, stride, first));
}

inline MemoryRequest BlockRequests::regular(const sim::Block& block, const sim::MemoryEvent& e,
                                            int64_t stride) {
    const uint64_t address = e.address(0), last = address + uint64_t(stride) * (sim::warp_size - 1);
    MemoryRequest r{};
    r.first = relative(block, e, address);
    if (stride != 0 && !origin_of_[e.pc].has(last)) [[unlikely]]
        return scattered(block, e);
    r.stride = int32_t(stride);
    r.pc = e.pc;
    r.form = uint32_t(form_of(r.first, r.stride, e.bytes));
    return r;
}

MemoryRequest BlockRequests::scattered(const sim::Block& block, const sim::MemoryEvent& e) {
    uint64_t* next = addresses_;
    sim::for_each_lane(e.mask, [&](int lane) { *next++ = relative(block, e, e.address(lane)); });
    MemoryRequest r{};
    r.stride = int32_t(e.mask);
    r.pc = e.pc;
    r.scattered = 1;
    return r;
}

// Returns true if the request is the next one that is expected, and proceeds to the request after
// it.
inline bool BlockRequests::is_expected(OfWarp& own, MemoryRequest r) {
    const MemoryRequest* const next = own.expected();
    if (!next || next->pc != r.pc || next->stride != r.stride || next->scattered != r.scattered)
        return false;
    const bool same = r.scattered
                          ? std::equal(addresses_, addresses_ + std::popcount(uint32_t(r.stride)),
                                       &expected_->addresses[next->first])
                          : next->first == r.first;
    if (same) own.proceed(next);
    return same;
}

// No candidate is like this block. So the requests until now, which were as expected, are copied.
void BlockRequests::stop_comparing() {
    for (size_t warp = 0; warp < warps_.size(); ++warp) {
        const std::vector<MemoryRequest>& expected = expected_->requests[warp];
        std::vector<MemoryRequest>& own = own_->requests[warp];
        own.assign(expected.data(), warps_[warp].next);
        for (MemoryRequest& r : own) {
            if (!r.scattered) continue;
            const auto from = expected_->addresses.begin() + ptrdiff_t(r.first);
            r.first = own_->addresses.size();
            own_->addresses.insert(own_->addresses.end(), from,
                                   from + std::popcount(uint32_t(r.stride)));
        }
        warps_[warp].next = warps_[warp].end = nullptr;
    }
    expected_ = nullptr;
}

void BlockRequests::record(uint32_t warp, MemoryRequest r) {
    std::vector<MemoryRequest>& own = own_->requests[warp];
    uint64_t& wavefronts = warps_[warp].wavefronts;
    // Most warps of a block make equally many requests, so less memory must be copied.
    if (warp > 0 && own.empty()) own.reserve(own_->requests[warp - 1].size());
    if (wavefronts) own.push_back({wavefronts, 0, MemoryRequest::pause, 0, 0});
    wavefronts = 0;
    own.push_back(r);
    if (!r.scattered) return;
    std::vector<uint64_t>& addresses = own_->addresses;
    own.back().first = addresses.size();
    addresses.insert(addresses.end(), addresses_, addresses_ + std::popcount(uint32_t(r.stride)));
}

}  // namespace coalesce::analysis
