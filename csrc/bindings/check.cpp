// Converts the findings of a checked run to Python objects.
#include "analysis/check/check.hpp"

#include <pybind11/stl.h>

#include "bindings/sim/sim.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

namespace {

py::tuple triple(const auto (&n)[3]) { return py::make_tuple(n[0], n[1], n[2]); }

py::object tell_actor(const analysis::Actor& a, const sim::Program& program) {
    if (a.what.empty()) return py::none();
    const sim::InstructionInfo& in = program.instructions[a.pc];
    const auto file = program.files.find(in.source.file);
    const bool own = in.source.file == program.source_file;
    const bool known = own && in.source.line > 0 && in.source.line <= program.source.size();
    py::dict d;
    d["what"] = a.what;
    d["file"] = own || file == program.files.end() ? "" : file->second;
    d["line"] = in.source.line;
    d["text"] = known ? program.source[in.source.line - 1] : "";
    // A test of an index was added for the check (sim/run/outside_member.hpp). It is not in the
    // kernel.
    const bool added = in.text.find("__coalesce_outside_member") != std::string::npos;
    d["instruction"] = added ? "" : in.text;
    d["thread"] = triple(a.thread);
    d["block"] = triple(a.block);
    return d;
}

}  // namespace

SharedShapes shared_shapes(const py::dict& declared) {
    SharedShapes shapes;
    for (const auto& [name, value] : declared) {
        const auto parts = value.cast<py::tuple>();
        shapes[name.cast<std::string>()] = {parts[0].cast<std::vector<int64_t>>(),
                                            parts[1].cast<uint32_t>(),
                                            parts[2].cast<std::string>()};
    }
    return shapes;
}

py::tuple as_tuple(const analysis::Checked& checked, const sim::Program& program) {
    py::list list;
    for (const analysis::Finding& f : checked.findings) {
        py::dict d;
        d["kind"] = analysis::name_of(f.kind);
        d["severity"] = analysis::name_of(f.severity);
        d["skipped"] = f.skipped;
        d["title"] = f.title;
        d["details"] = f.details;
        d["space"] = f.space;
        d["array"] = f.array;
        d["index"] = py::tuple(py::cast(f.index));
        d["offset"] = f.offset;
        d["bytes"] = f.bytes;
        d["first"] = tell_actor(f.first, program);
        d["second"] = tell_actor(f.second, program);
        d["count"] = f.count;
        list.append(std::move(d));
    }
    return py::make_tuple(list, checked.left_out);
}

}  // namespace coalesce::bindings
