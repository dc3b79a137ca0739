// Binds the counts of a launch.
#include <pybind11/stl.h>

#include <algorithm>

#include "analysis/counts/counts.hpp"
#include "bindings/sim/sim.hpp"
#include "errors.hpp"
#include "ptx/demangle.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

const char* name_of(ptx::Space space) {
    using ptx::Space;
    switch (space) {
        case Space::global:
            return "global";
        case Space::shared:
            return "shared";
        case Space::local:
            return "local";
        case Space::constant:
            return "constant";
        case Space::generic:
            return "generic";
        default:
            return "";
    }
}

namespace {

using analysis::CountedCode;
using analysis::Counts;
using analysis::InstructionCounts;
using ptx::Space;
using sim::Access;
using sim::InstructionInfo;

// Returns the memory space of the opcode, or, for a generic instruction, the space of its accesses.
const char* space_name(const InstructionInfo& info, const InstructionCounts& counted) {
    return name_of(info.space == Space::generic ? counted.space : info.space);
}

const char* kind_name(const InstructionInfo& info) {
    if (info.space == Space::reg) return "";
    if (info.traits.bulk) return info.access == Access::store ? "tma_store" : "tma_load";
    switch (info.access) {
        case Access::load:
            return "load";
        case Access::store:
            return "store";
        case Access::atomic:
            return "atomic";
        case Access::reduction:
            return "reduction";
        case Access::async_copy:
            return "async_copy";
    }
    return "";
}

template <auto member, Space space, Access access>
uint64_t total(const Counts& c) {
    return c.sum(space, access).*member;
}

bool is_machine_code(const Counts& c) {
    const auto& all = c.code->instructions;
    return std::any_of(all.begin(), all.end(), [](const auto& i) { return i.traits.machine_code; });
}

// Returns a column of the table: a NumPy array with one string per instruction. NumPy stores a
// string as a fixed number of characters, and fills the rest with zeros.
template <class F>
py::array strings(const Counts& c, F&& value) {
    const size_t count = c.instructions.size();
    std::vector<py::str> values;
    values.reserve(count);
    size_t longest = 1;
    for (size_t i = 0; i < count; ++i) {
        values.emplace_back(value(c.code->instructions[i], c.instructions[i]));
        longest = std::max(longest, py::len(values.back()));
    }
    py::array array(py::dtype("U" + std::to_string(longest)), py::ssize_t(count));
    auto* next = static_cast<Py_UCS4*>(array.mutable_data());
    std::fill_n(next, count * longest, Py_UCS4{0});
    for (const py::str& each : values) {
        if (!PyUnicode_AsUCS4(each.ptr(), next, py::ssize_t(longest), 0))
            throw py::error_already_set();
        next += longest;
    }
    return array;
}

// Returns a column of the table with one number per instruction.
template <class T, class F>
py::array_t<T> numbers(const Counts& c, F&& value) {
    py::array_t<T> array{py::ssize_t(c.instructions.size())};
    T* next = array.mutable_data();
    for (size_t i = 0; i < c.instructions.size(); ++i)
        *next++ = T(value(c.code->instructions[i], c.instructions[i]));
    return array;
}

py::dict table(const Counts& c) {
    using Info = InstructionInfo;
    using Count = InstructionCounts;
    py::dict t;
    t["ptx_line"] = numbers<int32_t>(c, [](const Info& i, const Count&) { return i.ptx_line; });
    t["line"] = numbers<int32_t>(c, [](const Info& i, const Count&) { return i.source.line; });
    t["file"] = numbers<int32_t>(c, [](const Info& i, const Count&) { return i.source.file; });
    t["function"] = numbers<int32_t>(c, [](const Info& i, const Count&) { return i.function; });
    t["opcode"] = strings(c, [](const Info& i, const Count&) { return i.opcode; });
    t["space"] = strings(c, [](const Info& i, const Count& n) { return space_name(i, n); });
    t["kind"] = strings(c, [](const Info& i, const Count&) { return kind_name(i); });
    t["generic"] =
        numbers<bool>(c, [](const Info& i, const Count&) { return i.space == Space::generic; });
    static constexpr std::pair<const char*, bool sim::Traits::*> traits[] = {
        {"strong", &sim::Traits::strong},
        {"bulk", &sim::Traits::bulk},
        {"ends_bulk_group", &sim::Traits::ends_bulk_group},
        {"cluster", &sim::Traits::cluster},
        {"calls_outside", &sim::Traits::calls_outside},
        {"system_fence", &sim::Traits::system_fence},
        {"tests_mbarrier", &sim::Traits::tests_mbarrier},
        {"requests_registers", &sim::Traits::requests_registers},
        {"unrecorded", &sim::Traits::unrecorded},
        {"tensor_cycles_vary", &sim::Traits::tensor_cycles_vary},
    };
    for (const auto& [name, trait] : traits)
        t[name] = numbers<bool>(
            c, [trait = trait](const Info& i, const Count&) { return i.traits.*trait; });
    t["mbarrier"] = numbers<bool>(c, [](const Info& i, const Count&) {
        return sim::operation(i.traits.code).has(sim::trait::mbarrier);
    });
    t["tensor"] =
        numbers<bool>(c, [](const Info& i, const Count&) { return i.traits.uses_tensor_cores(); });
    t["width"] = numbers<int32_t>(c, [](const Info& i, const Count&) { return i.bytes; });
    t["parameter"] =
        numbers<int32_t>(c, [](const Info& i, const Count&) { return i.origin.parameter; });
    t["variable"] =
        strings(c, [](const Info& i, const Count&) { return ptx::plain_name(i.origin.variable); });
    for (const analysis::Counter& counter : analysis::counters) {
        t[counter.name] =
            numbers<uint64_t>(c, [&](const Info&, const Count& n) { return n.*counter.value; });
    }
    return t;
}

// Returns the table of a Counts object as a dict of arrays. The arrays are made once and shared.
// Each caller gets a dict of its own.
py::object kept_table(const py::object& self) {
    if (!py::hasattr(self, "_table")) self.attr("_table") = table(self.cast<const Counts&>());
    return self.attr("_table").attr("copy")();
}

// Returns the state for pickle. Its types do not depend on the build of the package.
py::tuple state_of(const Counts& c) {
    const CountedCode& l = *c.code;
    py::list instructions;
    for (size_t n = 0; n < c.instructions.size(); ++n) {
        const InstructionInfo& i = l.instructions[n];
        instructions.append(py::make_tuple(i.text, i.opcode, i.ptx_line, i.source.file,
                                           i.source.line, i.source.column, i.function, int(i.space),
                                           int(i.access), i.bytes, i.origin.parameter,
                                           i.origin.variable, int(c.instructions[n].space)));
    }
    py::dict counts;
    for (const analysis::Counter& counter : analysis::counters) {
        counts[counter.name] = numbers<uint64_t>(
            c, [&](const InstructionInfo&, const auto& n) { return n.*counter.value; });
    }
    return py::make_tuple(l.kernel, l.source_file, l.files, instructions, counts);
}

Counts counts_of(const py::tuple& state) {
    CountedCode l;
    l.kernel = state[0].cast<std::string>();
    l.source_file = state[1].cast<uint32_t>();
    l.files = state[2].cast<std::map<uint32_t, std::string>>();
    Counts c;
    for (const py::handle item : state[3]) {
        const auto t = item.cast<py::tuple>();
        InstructionInfo& i = l.instructions.emplace_back();
        i.set_text(t[0].cast<std::string>(), t[1].cast<std::string>());
        i.ptx_line = t[2].cast<uint32_t>();
        i.source = {t[3].cast<uint32_t>(), t[4].cast<uint32_t>(), t[5].cast<uint32_t>()};
        i.function = t[6].cast<uint32_t>();
        i.space = Space(t[7].cast<int>());
        i.access = Access(t[8].cast<int>());
        i.bytes = t[9].cast<uint8_t>();
        i.origin = {t[10].cast<int32_t>(), t[11].cast<std::string>()};
        InstructionCounts& n = c.instructions.emplace_back();
        n.space = Space(t[12].cast<int>());
        n.access = i.access;
    }
    const auto counts = state[4].cast<py::dict>();
    for (const analysis::Counter& counter : analysis::counters) {
        if (!counts.contains(counter.name)) continue;
        const auto values = counts[counter.name].cast<py::array_t<uint64_t>>();
        for (size_t n = 0; n < c.instructions.size(); ++n)
            c.instructions[n].*counter.value = values.at(n);
    }
    c.code = std::make_shared<const CountedCode>(std::move(l));
    return c;
}

}  // namespace

void add_sim_counts(py::module_& m) {
    Class<Counts>(m, "Counts", py::dynamic_attr(),
                  "What a launch executed and moved, with Nsight Compute's names.")
        .property<&Counts::executed>(
            "instructions",
            "The number of executed warp instructions, of the machine code or of the PTX.")
        .property<&Counts::threads>(
            "thread_instructions",
            "The number of executed thread instructions, of the machine code or of the PTX.")
        .property<&total<&InstructionCounts::requests, Space::global, Access::load>>(
            "global_load_requests")
        .property<&total<&InstructionCounts::sectors, Space::global, Access::load>>(
            "global_load_sectors")
        .property<&total<&InstructionCounts::requests, Space::global, Access::store>>(
            "global_store_requests")
        .property<&total<&InstructionCounts::sectors, Space::global, Access::store>>(
            "global_store_sectors")
        .property<&total<&InstructionCounts::requests, Space::shared, Access::load>>(
            "shared_load_requests")
        .property<&total<&InstructionCounts::wavefronts, Space::shared, Access::load>>(
            "shared_load_wavefronts")
        .property<&total<&InstructionCounts::requests, Space::shared, Access::store>>(
            "shared_store_requests")
        .property<&total<&InstructionCounts::wavefronts, Space::shared, Access::store>>(
            "shared_store_wavefronts")
        .property<&Counts::not_counted>(
            "not_counted", "Why the counts lack accesses of the launch; empty if none lack.")
        .property<&Counts::not_modelled>("not_modelled",
                                         "Why the time cannot be modelled; empty if it can.")
        .property<[](const Counts& c) { return c.code->files; }>(
            "files", "The source files by the numbers that the table has.")
        .property<[](const Counts& c) { return c.code->source_file; }>(
            "source_file", "The number of the file that the kernel is in.")
        .property<&is_machine_code>(
            "machine_code",
            "Whether the instructions are those of the machine code; else they are the PTX's.")
        .property<[](const Counts& c) { return c.code->kernel; }>("kernel", "The kernel's name.")
        .def("flops", &Counts::flops, "The floating-point operations of each type.")
        .def("metrics", &Counts::metrics, "The counts as a dict by Nsight Compute's metric names.")
        .def(
            "table", &kept_table,
            "One row for each PTX instruction of the kernel, as a dict of equally long arrays:\n"
            "where it stands (ptx_line; line and file of the CUDA source, line 0 for unknown; the\n"
            "function, 0 for the kernel itself), what it is (opcode, space, kind; whether only\n"
            "the address tells the space, whether other threads may rely on the access, whether\n"
            "it calls code that is not in the cubin, whether it communicates with other blocks of\n"
            "its cluster; width in bytes per lane), what it accesses (the index of a parameter or\n"
            "-1, the name of a variable or none) and what it cost, summed over all warps.")
        .def(
            "__add__",
            [](const Counts& a, const Counts& b) {
                Counts sum = a;
                sum.add(b);
                return sum;
            },
            py::is_operator())
        .def(
            "__eq__", [](const Counts& a, const Counts& b) { return a == b; }, py::is_operator())
        .def(py::pickle(&state_of, &counts_of));
}

}  // namespace coalesce::bindings
