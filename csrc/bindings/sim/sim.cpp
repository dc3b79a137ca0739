// Binds the simulator: a SimulatedModule is made from PTX text and launched on NumPy arrays.
#include "bindings/sim/sim.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings/launch_of.hpp"
#include "bindings/options.hpp"
#include "bindings/sim/program.hpp"
#include "errors.hpp"
#include "sim/memory/device_arrays.hpp"
#include "sim/memory/texture.hpp"
#include "sim/program/tensor_map.hpp"
#include "sim/warp/memory.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

namespace {

const model::Gpu& named_gpu(const std::string& name) {
    const model::Gpu* const gpu = model::find_gpu(name);
    if (!gpu) throw LaunchError("there is no simulated GPU `" + name + "`");
    return *gpu;
}

// Reads what launches and single steps have in common.
void read_common(const py::object& launch, Options& options, analysis::LaunchRequest& r) {
    static_cast<Launch&>(r.launch) = launch_of(launch);
    std::string gpu = "h200";
    options.read("gpu", gpu);
    r.gpu = &named_gpu(gpu);
    options.read("registers", r.registers);
    options.read("instruction_limit", r.launch.instruction_limit);
}

BufferArgument make_buffer(py::array array, std::string name, bool writable, py::object undefined,
                           uint64_t offset, const std::optional<std::string>& texture,
                           std::optional<uint64_t> view_bytes) {
    if (!(array.flags() & py::array::c_style))
        throw py::value_error("the array of `" + name + "` is not C-contiguous");
    if (!undefined.is_none() && py::array_t<bool>::ensure(undefined).nbytes() != array.nbytes())
        throw py::value_error("the mask of undefined bytes of `" + name +
                              "` must be a bool array with one element per byte of `" + name + "`");
    if (offset > uint64_t(array.nbytes()))
        throw py::value_error("the offset of `" + name + "` is outside the array");
    if (view_bytes && *view_bytes > uint64_t(array.nbytes()) - offset)
        throw py::value_error("the view of `" + name + "` extends beyond the end of the array");
    std::optional<sim::TextureObject> object;
    if (texture) {
        if (texture->size() == sim::texture_object_bytes)
            object = sim::texture_object_in(reinterpret_cast<const std::byte*>(texture->data()));
        if (!object || object->bytes() > uint64_t(array.nbytes()))
            throw py::value_error("the texture object for `" + name +
                                  "` is invalid, or describes more bytes than the array has");
    }
    return BufferArgument{std::move(array), std::move(name), writable, std::move(undefined),
                          offset,           view_bytes,      object};
}

LaunchResult launch_program(SimulatedModule& p, const std::string& entry, const py::object& launch,
                            const py::list& arguments, const py::kwargs& keywords) {
    analysis::LaunchRequest r;
    Options options(keywords);
    read_common(launch, options, r);
    options.read("workers", r.launch.workers);
    options.read("blocks", r.launch.blocks);
    options.read("counts", r.counts);
    options.read("caches", r.caches);
    options.read("first_rounds", r.first_rounds);
    options.read("record", r.record);
    options.read("exemplars", r.exemplars);
    options.read("accel_sim", r.accel_sim);
    std::optional<py::dict> check;
    options.read("check", check);
    bool strict = false;
    options.read("strict", strict);
    std::map<uint32_t, std::string> restricted;
    options.read("restricted", restricted);
    if (check) r.check = {shared_shapes(*check), std::move(restricted), strict};
    bool outside_reads = false;
    options.read("outside_reads", outside_reads);
    sim::OutsideReads reads;
    if (outside_reads) r.launch.outside_reads = &reads;
    py::object progress = py::none();
    options.read("progress", progress);
    options.finish();
    return p.launch(entry, std::move(r), arguments, std::move(progress));
}

std::unique_ptr<StepSession> step_program(SimulatedModule& p, const std::string& entry,
                                          const py::object& launch, const py::list& arguments,
                                          uint64_t number, const py::kwargs& keywords) {
    analysis::LaunchRequest r;
    Options options(keywords);
    read_common(launch, options, r);
    size_t most_events = 100'000;
    options.read("most_events", most_events);
    options.finish();
    return p.step(entry, std::move(r), arguments, number, most_events);
}

py::bytes make_tensor_map(uint64_t address, const std::string& element,
                          const std::vector<uint64_t>& extents,
                          const std::vector<uint64_t>& strides, const std::vector<uint32_t>& box,
                          const std::vector<uint32_t>& steps, uint32_t swizzle, bool nan) {
    sim::TensorMap map;
    const auto type = sim::map_element_named(element);
    if (!type) throw LaunchError("a tensor map cannot have elements of type " + element);
    map.address = address;
    map.element = *type;
    map.rank = uint32_t(extents.size());
    map.swizzle = sim::Swizzle(swizzle);
    map.nan = nan;
    if (map.rank == 0 || map.rank > sim::max_dimensions || box.size() != map.rank ||
        steps.size() != map.rank || strides.size() + 1 != map.rank)
        throw LaunchError(
            "a tensor map has 1 to 5 dimensions. It needs an extent, a box extent and an element "
            "stride for each dimension, and a stride in bytes for each dimension except the first; "
            "got " +
            std::to_string(extents.size()) + " extents, " + std::to_string(box.size()) +
            " box extents, " + std::to_string(steps.size()) + " element strides and " +
            std::to_string(strides.size()) + " strides in bytes");
    std::ranges::copy(extents, map.extent.begin());
    std::ranges::copy(strides, map.stride.begin() + 1);
    std::ranges::copy(box, map.box.begin());
    std::ranges::copy(steps, map.step.begin());
    if (const std::string wrong = sim::problem(map); !wrong.empty()) throw LaunchError(wrong);
    const sim::TensorMapBytes bytes = sim::encode(map);
    return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

py::bytes make_texture_object(const py::kwargs& keywords) {
    Options options(keywords);
    sim::TextureObject o;
    const auto extent = options.required<std::array<uint32_t, 3>>("extent");
    o.width = extent[0], o.height = extent[1], o.depth = extent[2];
    o.dimensions = uint8_t(options.required<uint32_t>("dimensions"));
    o.layers = options.required<uint32_t>("layers");
    o.layered = options.required<bool>("layered");
    o.cube = options.required<bool>("cube");
    const bool linear_memory = options.required<bool>("linear_memory");
    o.memory = linear_memory ? sim::TextureMemory::linear : sim::TextureMemory::array;
    o.surface = options.required<bool>("surface");
    const char kind = options.required<char>("kind");
    o.kind = kind == 'i'   ? sim::TexelKind::integer
             : kind == 'u' ? sim::TexelKind::unsigned_integer
                           : sim::TexelKind::floating;
    o.channels = uint8_t(options.required<uint32_t>("channels"));
    o.channel_bits = uint8_t(options.required<uint32_t>("bits"));
    o.row_bytes = uint64_t{o.width} * o.texel_bytes();
    const auto modes = options.required<std::array<uint32_t, 3>>("modes");
    for (size_t d = 0; d < 3; ++d) o.mode[d] = sim::AddressMode(modes[d] & 3);
    o.linear_filter = options.required<bool>("linear_filter");
    o.normalized_coordinates = options.required<bool>("normalized_coordinates");
    o.normalized_read = options.required<bool>("normalized_read");
    std::ranges::copy(options.required<std::array<float, 4>>("border"), o.border);
    uint32_t levels = 1;
    options.read("levels", levels);
    o.levels = levels;
    options.read("linear_between_levels", o.linear_between_levels);
    options.read("level_bias", o.level_bias);
    options.finish();
    o.max_level = float(levels - 1);
    if (const std::string wrong = sim::problem(o); !wrong.empty()) throw py::value_error(wrong);
    const sim::TextureObjectBytes bytes = sim::encode(o);
    return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void add_simulated_arrays(py::module_& m) {
    py::class_<BufferArgument>(
        m, "Buffer",
        "An array argument of a launch: C-contiguous host memory with a name for messages.")
        .def(py::init(&make_buffer), py::arg("array"), py::arg("name"), py::arg("writable"),
             py::arg("undefined") = py::none(), py::arg("offset") = 0,
             py::arg("texture") = py::none(), py::arg("view_bytes") = py::none());

    py::class_<sim::DeviceArray, std::shared_ptr<sim::DeviceArray>>(
        m, "Memory", "An array in simulated device memory: host memory with a device address.")
        .def(py::init([](std::vector<int64_t> shape, uint32_t item_bytes, std::string type,
                         uint64_t address, uint64_t host) {
                 return sim::allocate_array(std::move(shape), item_bytes, std::move(type), address,
                                            reinterpret_cast<std::byte*>(host));
             }),
             py::arg("shape"), py::arg("item_bytes"), py::arg("type"), py::arg("address") = 0,
             py::arg("host") = 0)
        .def_property_readonly("address",
                               [](const sim::DeviceArray& a) { return a.buffer().address; })
        .def(
            "bytes",
            [](const std::shared_ptr<sim::DeviceArray>& a) {
                return py::array_t<uint8_t>(py::ssize_t(a->buffer().bytes),
                                            reinterpret_cast<uint8_t*>(a->buffer().host),
                                            py::cast(a));
            },
            "The memory as a NumPy array that keeps it alive.");
}

std::optional<double> modelled_ms(const LaunchResult& r) {
    return r.result.time ? std::optional(r.result.time->ms) : std::nullopt;
}

py::object model_of(const LaunchResult& launched) {
    const analysis::Result& r = launched.result;
    if (!r.time) return py::none();
    py::dict d;
    d["time"] = as_dict(*r.time);
    d["work"] = as_dict(r.work);
    d["occupancy"] = as_dict(r.occupancy);
    d["caches"] = r.caches ? py::object(as_dict(*r.caches)) : py::none();
    return d;
}

void add_launch_result(py::module_& m) {
    Class<LaunchResult>(m, "LaunchResult")
        .property<&modelled_ms>("modelled_ms", "Modelled time on the simulated GPU in ms, or None.")
        .property<&model_of>(
            "model",
            "What was modelled: dicts of the time, what it is made of (work), the occupancy and "
            "the\n"
            "caches, None if not requested; or None.")
        .property<&LaunchResult::host_ms>("host_ms",
                                          "Time the simulation took on this machine in ms.")
        .property<&LaunchResult::events>(
            "events", "The events that were recorded, a dict of columns, or None.")
        .property<[](const LaunchResult& r) {
            return r.result.trace ? r.result.trace->omitted : 0;
        }>("omitted", "How many events were left out, because a limit was reached.")
        .property<&LaunchResult::memory>(
            "memory", "(space, name, address, bytes, argument or -1) of each array and variable.")
        .property<&LaunchResult::findings>(
            "findings", "(findings, how many more in groups left out) of a checked run, or None.")
        // This function returns a C++ object, which Python does not copy.
        .def_property_readonly(
            "counts",
            [](const LaunchResult& r) -> const std::optional<analysis::Counts>& {
                return r.result.counts;
            },
            "Counts, or None if they were not requested.");
}

void add_program(py::module_& m) {
    py::class_<SimulatedModule>(m, "SimulatedModule",
                                "A module of PTX text, ready to be simulated.")
        .def(py::init<std::string, const std::string&, py::object,
                      std::map<std::string, uint64_t, std::less<>>, std::string,
                      const std::vector<std::pair<std::string, std::string>>&>(),
             py::arg("ptx"), py::arg("source") = "", py::arg("listing") = py::none(),
             py::arg("functions") = py::dict(), py::arg("filename") = "",
             py::arg("member_accesses") = py::list())
        .def_property_readonly("entries", &SimulatedModule::entries, "Names of the kernels.")
        .def("parameters", &SimulatedModule::parameters, py::arg("entry"),
             "(type, bytes, alignment, is_pointer) of each parameter.")
        .def("variables", &SimulatedModule::variables,
             "(name, \"global\" or \"constant\", type, bytes, alignment) of each variable.")
        .def("read_variable", &SimulatedModule::read_variable, py::arg("name"),
             "A variable's bytes.")
        .def("write_variable", &SimulatedModule::write_variable, py::arg("name"), py::arg("value"),
             "Sets a variable's bytes, for the launches that follow.")
        .def("launch", &launch_program, py::arg("entry"), py::arg("launch"), py::arg("arguments"))
        .def("step", &step_program, py::keep_alive<0, 1>(), py::arg("entry"), py::arg("launch"),
             py::arg("arguments"), py::arg("number"),
             "One block of a launch, by its linear number, to be stepped through.")
        .def("compiled", &SimulatedModule::compiled, py::arg("entry"),
             "What of a kernel is compiled for the host, for each shape of blocks.")
        .def("why_ptx", &SimulatedModule::why_ptx, py::arg("entry"),
             "Why counting executes the PTX of a kernel and not its machine code; \"\" if it does "
             "not.")
        .def("exchanges", &SimulatedModule::exchanges, py::arg("entry"),
             "The instructions by which blocks may communicate: rows of no_counts(of_ptx=True).")
        .def(
            "spaces_ordered_by_atomics",
            [](SimulatedModule& p, const std::string& entry) {
                std::vector<const char*> names;
                for (const ptx::Space space : p.spaces_ordered_by_atomics(entry))
                    names.push_back(name_of(space));
                return names;
            },
            py::arg("entry"),
            "The state spaces in which addresses depend on the results of atomics.")
        .def("no_counts", &SimulatedModule::no_counts, py::arg("entry"), py::arg("of_ptx") = false,
             "The counts of a launch of no block: zeros, with the table's instructions.");
}

// Functions that make the objects that kernels get as arguments.
void add_objects(py::module_& m) {
    py::class_<KernelCode, std::shared_ptr<KernelCode>>(m, "KernelCode")
        .def("next", &KernelCode::next)
        .def("set", &KernelCode::set, py::arg("address"), py::arg("owner"))
        .def("fail", &KernelCode::fail, py::arg("reason"));
    m.def("set_kernel_compiler", &KernelCode::set_compiler, py::arg("start"),
          py::arg("seconds") = 0);
    m.def("tensor_map", &make_tensor_map, py::arg("address"), py::arg("element"),
          py::arg("extents"), py::arg("strides"), py::arg("box"), py::arg("steps"),
          py::arg("swizzle") = 0, py::arg("nan") = false,
          "The 128 bytes of a tensor map on the simulator, whose arguments are those of\n"
          "cuTensorMapEncodeTiled: the innermost dimension comes first.");
    m.def("texture_object", &make_texture_object,
          "The bytes of a texture or surface object on the simulator, of an array at address 0;\n"
          "ValueError if the object is not valid.");
    m.def(
        "element_name",
        [](std::string name, std::vector<int64_t> shape, uint32_t item_bytes, int64_t offset,
           bool variable) {
            sim::Buffer buffer;
            buffer.name = std::move(name);
            buffer.shape = std::move(shape);
            buffer.item_bytes = item_bytes;
            buffer.variable = variable;
            return sim::element(buffer, offset);
        },
        py::arg("name"), py::arg("shape"), py::arg("item_bytes"), py::arg("offset"),
        py::arg("variable"),
        "The name of the element at a byte offset: \"a[1, 3]\", or \"tile[1][3]\" for a variable.");
    m.def("extents_in_memory", &sim::extents_in_memory, py::arg("declared"), py::arg("item_bytes"),
          py::arg("size"),
          "The extents of a variable of that size; -1 in `declared` is an extent that follows from "
          "the size. Empty if the declaration does not fit the size.");
}

}  // namespace

void add_sim(py::module_ m) {
    add_simulated_arrays(m);
    m.attr("SWIZZLE_128") = uint32_t(sim::Swizzle::bytes_128);
    add_sim_counts(m);
    add_sim_trace(m);
    add_sim_step(m);
    add_launch_result(m);
    add_program(m);
    add_objects(m);
    m.def(
        "instruction_set", [] { return sim::name_of(sim::best_isa()); },
        "The host instruction set the simulator uses.");
}

}  // namespace coalesce::bindings
