// Converts recorded memory events to NumPy arrays.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <vector>

#include "analysis/trace/trace.hpp"
#include "bindings/sim/sim.hpp"
#include "model/caches/kept_memory.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

namespace {

using analysis::Recording;
using analysis::TraceEvent;
using analysis::TraceEvents;

template <class T, class F>
py::array_t<T> column(const TraceEvents& events, F&& value) {
    py::array_t<T> array{py::ssize_t(events.size())};
    T* out = array.mutable_data();
    for (const TraceEvent& e : events) *out++ = T(value(e));
    return array;
}

// Returns an array of shape (`rows`, `columns`), without values. The next launch reuses its memory.
template <class T>
py::array_t<T> kept_array(size_t rows, size_t columns) {
    using Memory = std::vector<T, model::KeptPages<T>>;
    auto memory = std::make_unique<Memory>(rows * columns);
    T* const first = memory->data();
    const py::capsule owner(memory.release(), [](void* m) { delete static_cast<Memory*>(m); });
    return py::array_t<T>({rows, columns}, first, owner);
}

}  // namespace

py::dict columns_of(const TraceEvents& events, Dim3 grid) {
    const py::ssize_t n = py::ssize_t(events.size());
    py::array_t<int32_t> block({n, py::ssize_t(3)});
    auto addresses = kept_array<uint64_t>(events.size(), sim::warp_size);
    int32_t* index = block.mutable_data();
    uint64_t* lane = addresses.mutable_data();
    for (const TraceEvent& e : events) {
        *index++ = int32_t(e.block % grid.x);
        *index++ = int32_t(e.block / grid.x % grid.y);
        *index++ = int32_t(e.block / grid.x / grid.y);
        std::memcpy(lane, e.addresses, sizeof e.addresses);
        lane += sim::warp_size;
    }
    py::dict t;
    t["block"] = block;
    t["warp"] = column<int32_t>(events, [](const TraceEvent& e) { return e.warp; });
    t["step"] = column<int64_t>(events, [](const TraceEvent& e) {
        return e.step == TraceEvent::unknown_step ? -1 : int64_t(e.step);
    });
    t["execution"] = column<int64_t>(events, [](const TraceEvent& e) { return e.execution; });
    t["instruction"] = column<int32_t>(events, [](const TraceEvent& e) { return e.pc; });
    t["space"] = column<uint8_t>(events, [](const TraceEvent& e) { return int(e.space); });
    t["kind"] = column<uint8_t>(events, [](const TraceEvent& e) { return int(e.access); });
    t["width"] = column<int32_t>(events, [](const TraceEvent& e) { return e.bytes; });
    t["mask"] = column<uint32_t>(events, [](const TraceEvent& e) { return e.mask; });
    t["addresses"] = addresses;
    return t;
}

void add_sim_trace(py::module_& m) {
    py::class_<Recording>(
        m, "Recording",
        "Says which memory events of a launch to keep.\n\n"
        "`blocks` (linear numbers), `warps` (of a block) and `lines` (of the kernel's source "
        "file)\n"
        "are lists; None means all. Of these events, the first `limit` are kept, in the order of\n"
        "the blocks. If `exemplars` is not 0, only this number of events per instruction is kept,\n"
        "at most `exemplars_per_warp` of them from one warp. Each executed instruction has at\n"
        "least one.")
        .def(py::init([](std::optional<std::vector<uint64_t>> blocks,
                         std::optional<std::vector<uint32_t>> warps,
                         std::optional<std::vector<uint32_t>> lines, std::optional<uint64_t> limit,
                         uint32_t exemplars, uint32_t exemplars_per_warp) {
                 Recording r;
                 r.blocks = std::move(blocks);
                 r.warps = std::move(warps);
                 r.lines = std::move(lines);
                 if (limit) r.limit = *limit;
                 r.exemplars = exemplars;
                 r.exemplars_per_warp = exemplars_per_warp;
                 return r;
             }),
             py::kw_only(), py::arg("blocks") = py::none(), py::arg("warps") = py::none(),
             py::arg("lines") = py::none(), py::arg("limit") = py::none(), py::arg("exemplars") = 0,
             py::arg("exemplars_per_warp") = 1);
    // The names for the codes in the columns "space" and "kind".
    m.attr("SPACES") =
        py::make_tuple("generic", "register", "param", "local", "shared", "global", "constant");
    m.attr("KINDS") = py::make_tuple("load", "store", "atomic", "reduction", "async_copy");
}

}  // namespace coalesce::bindings
