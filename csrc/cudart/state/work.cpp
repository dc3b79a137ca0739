#include "cudart/state/work.hpp"

#include <algorithm>
#include <cstring>

#include "cudart/state/api.hpp"
#include "cudart/state/graphs.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

uint64_t extent(size_t width, size_t pitch, size_t height, size_t slice, size_t depth) {
    if (width == 0 || height == 0 || depth == 0) return 0;
    uint64_t rows = 0, slices = 0, sum = 0;
    const bool overflows = __builtin_mul_overflow(height - 1, pitch, &rows) ||
                           __builtin_mul_overflow(depth - 1, slice, &slices) ||
                           __builtin_add_overflow(rows, slices, &sum) ||
                           __builtin_add_overflow(sum, width, &sum);
    return overflows ? UINT64_MAX : sum;
}

namespace {

// The bandwidth of PCI Express 5.0 with 16 lanes. It has 64 GB/s in each direction (PCI-SIG), and
// 63.0 GB/s after the overhead of the encoding. Real programs reach less. Not checked against
// hardware.
constexpr double link_bytes_per_ms = 63.0e6;

std::string direction(CopyKind kind) {
    switch (kind) {
        case CopyKind::host_to_host:
            return "cudaMemcpyHostToHost";
        case CopyKind::host_to_device:
            return "cudaMemcpyHostToDevice";
        case CopyKind::device_to_host:
            return "cudaMemcpyDeviceToHost";
        case CopyKind::device_to_device:
            return "cudaMemcpyDeviceToDevice";
        default:
            return "cudaMemcpyDefault";
    }
}

bool is_empty(const CopyWork& c) { return c.width == 0 || c.height == 0 || c.depth == 0; }

struct Ends {
    Memory::View to, from;
};

// Throws if the pointer is not in the kind of memory (device or host) that the copy requires.
void check_side(const Memory::View& view, bool device, const CopyWork& c, const char* side) {
    const bool on_device = view.allocation && !view.allocation->readable_by_host();
    const bool on_host = !view.allocation;
    if (device ? !on_host : !on_device) return;
    throw Failure{cudaErrorInvalidValue,
                  std::string(c.function) + "() was called with " + direction(c.kind) +
                      ", but the " + side + " is " +
                      (on_device ? "device memory: " + view.allocation->described()
                                 : "host memory that was not allocated with CUDA")};
}

// Throws if the pointer is the handle of a CUDA array or of a texture object.
void check_plain(const Memory::View& view, const std::string& what) {
    if (!view.allocation) return;
    if (view.allocation->kind == Kind::array)
        throw Failure{cudaErrorInvalidValue,
                      what + " is a CUDA array, " + view.allocation->described() +
                          "; use a function for arrays, such as cudaMemcpy2DToArray()"};
    if (view.allocation->kind == Kind::object)
        throw Failure{cudaErrorInvalidValue, what + " is a texture or surface object"};
}

Ends ends_of(const CopyWork& c) {
    Memory& memory = runtime().memory;
    const uint64_t to = extent(c.width, c.to_pitch, c.height, c.to_slice, c.depth);
    const uint64_t from = extent(c.width, c.from_pitch, c.height, c.from_slice, c.depth);
    const std::string name = std::string(c.function) + "(): the ";
    Ends e{memory.view(c.to, to, (name + "destination").c_str()),
           memory.view(c.from, from, (name + "source").c_str())};
    if (!c.to_array) check_plain(e.to, name + "destination");
    if (!c.from_array) check_plain(e.from, name + "source");
    if (c.kind != CopyKind::any && to) {
        check_side(e.to, c.kind == CopyKind::host_to_device || c.kind == CopyKind::device_to_device,
                   c, "destination");
        check_side(e.from,
                   c.kind == CopyKind::device_to_host || c.kind == CopyKind::device_to_device, c,
                   "source");
    }
    return e;
}

// Adds the rows of a copy or a fill to the bytes that it accesses. Memory that was not allocated
// with CUDA is left out: a call does not return before such memory has been read or written.
void add_rows(analysis::Touched::Ranges& ranges, const Memory::View& start, size_t width,
              size_t height, size_t pitch, size_t depth = 1, size_t slice = 0) {
    if (!start.allocation || !runtime().settings.check) return;
    const uint64_t first = start.allocation->address + start.offset;
    for (size_t z = 0; z < depth; ++z)
        for (size_t y = 0; y < height; ++y) {
            const uint64_t row = first + z * slice + y * pitch;
            if (!ranges.empty() && ranges.back().second == row)
                ranges.back().second += width;
            else
                ranges.emplace_back(row, row + width);
        }
}

bool only_device(const Memory::View& view) {
    return view.allocation && !view.allocation->readable_by_host();
}

bool on_device(const Memory::View& view) {
    return view.allocation &&
           (view.allocation->kind != Kind::pinned && view.allocation->kind != Kind::registered);
}

// In a checked run, reports a copy of memory to which nothing was written. Structures may have
// unused bytes between their members, so shorter gaps than `gap` are not reported.
void check_defined(const CopyWork& c, const Ends& e) {
    const Allocation* const from = e.from.allocation;
    if (!from || !from->undefined) return;
    constexpr uint64_t gap = 16;
    uint64_t undefined = 0, run = 0, longest = 0;
    for (size_t z = 0; z < c.depth; ++z) {
        for (size_t y = 0; y < c.height; ++y) {
            const bool* const row =
                from->undefined.get() + e.from.offset + z * c.from_slice + y * c.from_pitch;
            for (size_t x = 0; x < c.width; ++x) {
                run = row[x] ? run + 1 : 0;
                undefined += row[x];
                longest = std::max(longest, run);
            }
        }
    }
    const uint64_t all = c.width * c.height * c.depth;
    // Within the device, a copy of memory that is written only in part is reported when the host or
    // a kernel reads the rest.
    const bool reported = undefined == all || (longest >= gap && !on_device(e.to));
    if (undefined == 0 || !reported) return;
    const std::string part =
        undefined == all ? "" : std::to_string(undefined) + " of the copied bytes in ";
    runtime().report.add_mistake("uninitialized copy",
                                 std::string(c.function) +
                                     "() copies memory to which nothing was written: " + part +
                                     from->described(),
                                 caller());
}

void copy(const CopyWork& c, StreamRecord& stream) {
    const Ends e = ends_of(c);
    if (is_empty(c)) return;
    check_defined(c, e);
    for (size_t z = 0; z < c.depth; ++z) {
        for (size_t y = 0; y < c.height; ++y) {
            Memory::View to = e.to, from = e.from;
            const size_t by_to = z * c.to_slice + y * c.to_pitch;
            const size_t by_from = z * c.from_slice + y * c.from_pitch;
            to.host += by_to, to.offset += by_to, from.host += by_from, from.offset += by_from;
            std::memmove(to.host, from.host, c.width);
            Memory::copy_defined(to, from, c.width);
        }
    }
    Runtime& rt = runtime();
    Operation operation{std::string(c.function) + "()"};
    add_rows(operation.touched.read, e.from, c.width, c.height, c.from_pitch, c.depth,
             c.from_slice);
    add_rows(operation.touched.written, e.to, c.width, c.height, c.to_pitch, c.depth, c.to_slice);
    rt.order.issue(stream, std::move(operation));
    // A copy within the device never makes the host wait. An asynchronous copy makes it wait if the
    // destination was not allocated with CUDA (CUDA Runtime API, "API synchronization behavior").
    if (call_waits() ? !only_device(e.to) || !only_device(e.from) : !e.to.allocation)
        rt.order.host_waits(stream);
    const double bytes = double(c.width) * double(c.height) * double(c.depth);
    const bool up = !on_device(e.from), down = !on_device(e.to);
    const double dram_bytes_per_ms = rt.gpu.dram_gbps * 1e6;
    const double ms = up && down   ? 0
                      : up || down ? bytes / link_bytes_per_ms
                                   : 2 * bytes / dram_bytes_per_ms;
    rt.report.copies_ms += ms;
    rt.streams.pass(stream,
                    up && down ? Engine::none
                    : up       ? Engine::to_device
                    : down     ? Engine::to_host
                               : Engine::kernels,
                    ms);
}

Memory::View place_of(const SetWork& s) {
    require(s.width <= SIZE_MAX / s.element, cudaErrorInvalidValue);
    const size_t row = s.width * s.element;
    const Memory::View view = runtime().memory.view(s.to, extent(row, s.pitch, s.height, 0, 1),
                                                    "cudaMemset(): the destination");
    if (!view.allocation && row && s.height)
        throw Failure{cudaErrorInvalidValue,
                      "cudaMemset() cannot fill host memory that was not allocated with CUDA"};
    check_plain(view, "cudaMemset(): the destination");
    return view;
}

void set(const SetWork& s, StreamRecord& stream) {
    const Memory::View place = place_of(s);
    if (s.width == 0 || s.height == 0) return;
    if (s.element == 1) place.allocation->filled = {std::byte(s.value), caller()};
    for (size_t y = 0; y < s.height; ++y) {
        Memory::View row = place;
        row.host += y * s.pitch, row.offset += y * s.pitch;
        if (s.element == 1) {
            std::memset(row.host, int(s.value), s.width);
        } else {
            for (size_t i = 0; i < s.width; ++i)
                std::memcpy(row.host + i * s.element, &s.value, s.element);
        }
        Memory::define(row, s.width * s.element);
    }
    Runtime& rt = runtime();
    Operation operation{s.function + std::string("()")};
    add_rows(operation.touched.written, place, s.width * s.element, s.height, s.pitch);
    rt.order.issue(stream, std::move(operation));
    if (call_waits() && !only_device(place)) rt.order.host_waits(stream);
    rt.streams.pass(stream, Engine::kernels,
                    double(s.width) * s.element * double(s.height) / (rt.gpu.dram_gbps * 1e6));
}

// Adds an operation that uses a whole allocation.
void use_all(uint64_t address, const char* function, StreamRecord& stream) {
    Runtime& rt = runtime();
    Operation operation{function + std::string("()")};
    if (const Allocation* const a = rt.memory.find(address))
        operation.touched.written = {{a->address, a->end()}};
    rt.order.issue(stream, std::move(operation));
}

template <class... F>
struct Visitor : F... {
    using F::operator()...;
};
template <class... F>
Visitor(F...) -> Visitor<F...>;  // Clang 16 needs it

}  // namespace

int type_of(const Work& work) {
    // The numbers of cudaGraphNodeType, in the order of the alternatives of Work.
    constexpr int numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 11};
    return numbers[work.index()];
}

void validate(const Work& work) {
    std::visit(Visitor{[](const KernelWork& k) { validate(k); },
                       [](const CopyWork& c) { (void)ends_of(c); },
                       [](const SetWork& s) { (void)place_of(s); }, [](const auto&) {}},
               work);
}

void perform(const Work& work, StreamRecord& stream) {
    Runtime& rt = runtime();
    std::visit(
        Visitor{[&](const KernelWork& k) {
                    // The launch waits for the earlier work on the GPU.
                    rt.streams.pass(stream, Engine::kernels, 0);
                    rt.streams.pass(stream, Engine::kernels, launch(k, stream));
                },
                [&](const CopyWork& c) { copy(c, stream); },
                [&](const SetWork& s) { set(s, stream); },
                [&](const HostWork& h) {
                    rt.order.host_follows(stream);
                    rt.waited();
                    const ProgramCall program;
                    if (h.callback)
                        h.callback(h.stream, cudaSuccess, h.data);
                    else
                        h.function(h.data);
                },
                [&](const GraphWork& g) { run_graph(*g.graph, stream); }, [](const EmptyWork&) {},
                [&](const WaitWork& w) {
                    const EventRecord& event = rt.streams.event(w.event);
                    rt.order.wait(stream, event.ended);
                    stream.clock = std::max(stream.clock, event.time);
                },
                [&](const RecordWork& r) {
                    EventRecord& event = rt.streams.event(r.event);
                    rt.streams.pass(stream, Engine::none, 0);
                    rt.order.record(stream, event);
                    event.recorded = true;
                    event.time = stream.clock;
                    event.capture = nullptr;
                },
                [&](const AllocWork& a) { use_all(a.address, a.function, stream); },
                [&](const FreeWork& f) { use_all(f.address, f.function, stream); }},
        work);
}

void submit(Work work, Stream handle) {
    Runtime& rt = runtime();
    StreamRecord& stream = rt.streams.stream(handle);
    rt.streams.refuse_implicit_wait(handle);
    validate(work);
    if (!stream.capture) return perform(work, stream);
    require(!stream.origin->invalidated, cudaErrorStreamCaptureInvalidated);
    stream.last = {stream.capture->add(std::move(work), stream.last)};
}

}  // namespace coalesce::cudart
