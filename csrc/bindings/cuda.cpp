// coalesce._core.cuda: NVRTC, GPUs, their memory, launches. Slow functions release the GIL.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/dlpack.hpp"
#include "bindings/gil.hpp"
#include "bindings/gpu_calls.hpp"
#include "bindings/launch_of.hpp"
#include "bindings/launcher.hpp"
#include "cuda/device.hpp"
#include "cuda/launch/cublas.hpp"
#include "cuda/launch/events.hpp"
#include "cuda/launch/graph.hpp"
#include "cuda/launch/launch.hpp"
#include "cuda/launch/planned_call.hpp"
#include "cuda/launch/statistics.hpp"
#include "cuda/memory/host_memory.hpp"
#include "cuda/memory/pinned.hpp"
#include "cuda/module.hpp"
#include "cuda/nvrtc.hpp"
#include "cuda/tensor_map.hpp"
#include "cuda/texture.hpp"
#include "sim/memory/texture.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

namespace {

using Values = std::vector<std::string>;  // the bytes of each parameter

cuda::Stream stream_of(uint64_t handle) { return reinterpret_cast<cuda::Stream>(handle); }

// Holds a contiguous Python buffer until the end of the scope.
class Buffer {
  public:
    Buffer(const py::handle& object, bool writable, int layout = PyBUF_SIMPLE) {
        if (PyObject_GetBuffer(object.ptr(), &view_, layout | (writable ? PyBUF_WRITABLE : 0)) != 0)
            throw py::error_already_set();
    }
    ~Buffer() { PyBuffer_Release(&view_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    [[nodiscard]] void* data() const { return view_.buf; }
    [[nodiscard]] size_t size() const { return static_cast<size_t>(view_.len); }

  private:
    Py_buffer view_{};
};

// Copies of the argument values of a launch, and the addresses of these copies, which the driver
// needs. The copies are aligned, also for doubles.
class Arguments {
  public:
    explicit Arguments(const Values& values) {
        for (const std::string& value : values) {
            storage_.emplace_back((value.size() + 15) / 16 * 2 + 2);
            std::memcpy(storage_.back().data(), value.data(), value.size());
        }
        for (auto& words : storage_) addresses_.push_back(words.data());
    }
    [[nodiscard]] void** addresses() { return addresses_.data(); }

  private:
    std::vector<std::vector<uint64_t>> storage_;
    std::vector<void*> addresses_;
};

py::object status_of_driver() {
    static constexpr const char* names[] = {"ok", "no driver", "failed", "no device"};
    const cuda::Driver& driver = [&]() -> const cuda::Driver& {
        const ReleasedGil release;
        return cuda::Driver::get();
    }();
    py::dict result;
    result["status"] = names[static_cast<int>(driver.status)];
    result["detail"] = driver.detail;
    result["version"] = py::make_tuple(driver.version / 1000, driver.version % 1000 / 10);
    result["devices"] = driver.devices;
    return result;
}

py::dict resources_of(cuda::Function& function) {
    const cuda::Function::Resources r = function.resources();
    py::dict result;
    result["registers"] = r.registers;
    result["static_shared"] = r.static_shared;
    result["local"] = r.local;
    result["constant"] = r.constant;
    result["max_block_threads"] = r.max_block_threads;
    return result;
}

void launch(cuda::Function& function, const py::object& object, const Values& values,
            uint64_t stream) {
    Arguments arguments(values);
    const Launch how = launch_of(object);
    const ReleasedGil release;
    cuda::launch(function, how, arguments.addresses(), stream_of(stream));
}

py::tuple time(cuda::Function& function, const py::object& object, const Values& values,
               uint64_t stream, int runs) {
    Arguments arguments(values);
    const Launch how = launch_of(object);
    cuda::Timing timing;
    {
        const ReleasedGil release;
        timing = cuda::time(function, how, arguments.addresses(), stream_of(stream), runs, [] {
            const HeldGil acquire;
            if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        });
    }
    return py::make_tuple(timing.median_ms, timing.spread, timing.runs);
}

// Makes a launcher. A parameter is ("pointer", [element types]) or ("scalar", type). An empty list
// accepts any element type. If the type of a scalar is "", the Python function `fallback` handles
// the calls (launcher.hpp).
py::object launcher_of(std::shared_ptr<cuda::Function> function, const py::object& launch,
                       const py::list& parameters, py::object fallback) {
    LaunchPlan plan;
    plan.stream = launch.attr("stream").cast<std::optional<uint64_t>>();
    plan.function = std::move(function);
    plan.launch = launch_of(launch);
    plan.one_gpu = cuda::Driver::get().devices == 1;
    for (const py::handle item : parameters) {
        const auto pair = py::cast<py::tuple>(item);
        LauncherParameter parameter;
        parameter.pointer = py::cast<std::string>(pair[0]) == "pointer";
        if (parameter.pointer) {
            for (const py::handle name : py::cast<py::list>(pair[1]))
                parameter.accepted |= scalar_bit(py::cast<std::string>(name));
            if (parameter.accepted == 0) parameter.accepted = any_scalar;
        } else if (const auto name = py::cast<std::string>(pair[1]); !name.empty()) {
            parameter.accepted = scalar_bit(name);
        }
        plan.parameters.push_back(parameter);
    }
    return make_launcher(std::move(plan), std::move(fallback));
}

// A place in the workspace is an offset (an int). A place in a GPU array is a tuple of two: the
// number of the array, and an offset.
cuda::PlannedCall::Place place_of(const py::handle& place) {
    if (!py::isinstance<py::tuple>(place))
        return {cuda::PlannedCall::in_workspace, py::cast<size_t>(place)};
    const auto [array, offset] = py::cast<std::pair<size_t, size_t>>(place);
    return {array, offset};
}

// Converts an argument of a recorded launch. The argument has one of three forms:
// - bytes: the value of the parameter.
// - a place (see above): its address is the value of the parameter.
// - a tuple of six: a tensor map of a matrix. It has the place and the element type of the matrix,
//   its shape, the bytes from one row to the next, the shape of the box, and a bool that says
//   whether the box is swizzled.
cuda::PlannedCall::Argument argument_of_step(const py::handle& value) {
    cuda::PlannedCall::Argument argument;
    if (py::isinstance<py::bytes>(value)) {
        argument.bytes = py::cast<std::string>(value);
        if (argument.bytes.size() > 128)
            throw std::invalid_argument("the value of an argument has " +
                                        std::to_string(argument.bytes.size()) +
                                        " bytes; at most 128 are allowed");
        return argument;
    }
    if (!py::isinstance<py::tuple>(value) || py::len(value) == 2) {
        argument.place = place_of(value);
        return argument;
    }
    const auto map = py::cast<py::tuple>(value);
    const auto shape = py::cast<std::pair<uint64_t, uint64_t>>(map[2]);
    const auto box = py::cast<std::pair<uint32_t, uint32_t>>(map[4]);
    argument.place = place_of(map[0]);
    argument.element = py::cast<std::string>(map[1]);
    argument.map = {0,
                    {},
                    shape.first,
                    shape.second,
                    py::cast<uint64_t>(map[3]),
                    {box.first, box.second},
                    py::cast<bool>(map[5])};
    return argument;
}

// Executes the steps with host arrays. The last array receives the result.
void run_on_host_arrays(cuda::PlannedCall& call, const py::tuple& arrays,
                        const py::object& waiting) {
    std::vector<std::unique_ptr<Buffer>> buffers;
    std::vector<char*> memory;
    for (size_t i = 0; i < arrays.size(); ++i) {
        buffers.push_back(
            std::make_unique<Buffer>(arrays[i], i + 1 == arrays.size(), PyBUF_ANY_CONTIGUOUS));
        memory.push_back(static_cast<char*>(buffers.back()->data()));
        if (buffers.back()->size() < call.bytes_of(i))
            throw std::invalid_argument(
                "an array became smaller during the call; do not change arrays while a call uses "
                "them");
    }
    const ReleasedGil release;
    call.run(memory, [&] {
        const HeldGil acquire;
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        waiting();
    });
}

// Makes the object that the bytes of sim.texture_object describe, of the elements at an address on
// the GPU.
std::unique_ptr<cuda::Texture> make_texture(int ordinal, const py::bytes& described,
                                            cuda::Address elements, const std::string& what) {
    const auto bytes = static_cast<std::string>(described);
    std::optional<sim::TextureObject> texture;
    if (bytes.size() == sim::texture_object_bytes)
        texture = sim::texture_object_in(reinterpret_cast<const std::byte*>(bytes.data()));
    if (!texture) throw py::value_error("the passed bytes do not describe a texture object");
    const sim::TextureObject& o = *texture;
    cuda::TextureDescription d;
    d.extent = {o.width, o.height, o.depth};
    d.dimensions = o.dimensions;
    d.layers = o.layers, d.levels = o.levels;
    d.layered = o.layered, d.cube = o.cube;
    d.linear_memory = o.memory == sim::TextureMemory::linear;
    d.surface = o.surface;
    using Kind = cuda::TextureDescription::Kind;
    d.kind = o.kind == sim::TexelKind::integer            ? Kind::integer
             : o.kind == sim::TexelKind::unsigned_integer ? Kind::unsigned_integer
                                                          : Kind::floating;
    d.channels = o.channels, d.channel_bits = o.channel_bits;
    for (size_t i = 0; i < 3; ++i) d.modes[i] = int(o.mode[i]);
    d.linear_filter = o.linear_filter, d.linear_between_levels = o.linear_between_levels;
    d.normalized_coordinates = o.normalized_coordinates, d.normalized_read = o.normalized_read;
    d.level_bias = o.level_bias, d.min_level = o.min_level, d.max_level = o.max_level;
    std::ranges::copy(o.border, d.border.begin());
    const ReleasedGil release;
    return std::make_unique<cuda::Texture>(cuda::Device::get(ordinal), d, elements, what);
}

void add_compiler(py::module_& m) {
    Class<cuda::Nvrtc>(m, "Nvrtc", "The CUDA C++ compiler, from the library at a path.")
        .property<&cuda::Nvrtc::version>("version")
        .property<&cuda::Nvrtc::architectures>("architectures")
        .def(py::init<const std::string&>(), py::arg("path"))
        .def(
            "compile",
            [](const cuda::Nvrtc& nvrtc, const std::string& source, const std::string& name,
               const std::vector<std::string>& options,
               const std::vector<std::pair<std::string, std::string>>& headers,
               const std::vector<std::string>& expressions) {
                cuda::Compilation result;
                {
                    const ReleasedGil release;
                    result = nvrtc.compile(source, name, options, headers, expressions);
                }
                return py::make_tuple(result.ptx, py::bytes(result.cubin), result.log,
                                      result.lowered);
            },
            py::arg("source"), py::arg("name"), py::arg("options"), py::arg("headers"),
            py::arg("expressions"), "-> (ptx, cubin, log, lowered names); CompileError.");
}

void add_devices(py::module_& m) {
    m.def("driver_status", status_of_driver, "Whether there is a driver and what it sees.");
    m.def("needed_driver", &cuda::needed_driver, "13 -> \"580\"; \"\" if not known.");
    Class<cuda::Device, std::unique_ptr<cuda::Device, py::nodelete>>(m, "Device")
        .property<&cuda::Device::ordinal>("ordinal")
        .property<&cuda::Device::name>("name")
        .property<&cuda::Device::compute_capability>("compute_capability")
        .property<&cuda::Device::total_memory>("total_memory")
        .property<&cuda::Device::generation>("generation")
        .property<&cuda::Device::last_kernel>("last_kernel")
        .def(py::init([](int ordinal) { return &cuda::Device::get(ordinal); }), py::arg("ordinal"),
             py::call_guard<ReleasedGil>())
        .def("attribute", &cuda::Device::attribute, py::arg("number"))
        .def(
            "synchronize",
            [](cuda::Device& device, uint64_t stream, const std::string& what) {
                device.synchronize(stream_of(stream), what);
            },
            py::arg("stream") = 0, py::arg("what") = "waiting for the GPU",
            py::call_guard<ReleasedGil>())
        .def(
            "finishes_within",
            [](cuda::Device& device, uint64_t milliseconds, uint64_t stream,
               const std::string& what) {
                return device.finishes_within(stream_of(stream),
                                              std::chrono::milliseconds(milliseconds), what);
            },
            py::arg("milliseconds"), py::arg("stream") = 0, py::arg("what") = "waiting for the GPU",
            py::call_guard<ReleasedGil>())
        .def(
            "order",
            [](cuda::Device& device, uint64_t first, uint64_t second) {
                device.order(stream_of(first), stream_of(second));
            },
            py::arg("first"), py::arg("second"), py::call_guard<ReleasedGil>(),
            "Makes later work on `second` wait for the current work on `first`.")
        .def(
            "fill",
            [](cuda::Device& device, uint64_t target, int value, size_t bytes) {
                device.fill(target, static_cast<unsigned char>(value), bytes, nullptr);
            },
            py::arg("target"), py::arg("value"), py::arg("bytes"), py::call_guard<ReleasedGil>())
        .def("allocate", &cuda::Device::allocate, py::arg("bytes"), py::arg("what"),
             py::call_guard<ReleasedGil>())
        .def("prepare_staging", &cuda::Device::prepare_staging, py::call_guard<ReleasedGil>())
        .def("trim",
             [](cuda::Device& device) {
                 const cuda::Device::CurrentContext current(device);
                 cuda::HostMemory::trim();
                 return device.pool().trim();
             })
        .def("usage",
             [](cuda::Device& device) {
                 const cuda::Pool::Usage usage = device.pool().usage();
                 return py::make_tuple(usage.in_use, usage.cached);
             })
        .def(
            "to_device",
            [](cuda::Device& device, uint64_t target, const py::object& source, uint64_t stream) {
                const Buffer buffer(source, false);
                const ReleasedGil release;
                device.to_device(target, buffer.data(), buffer.size(), stream_of(stream));
            },
            py::arg("target"), py::arg("source"), py::arg("stream") = 0)
        .def(
            "to_host",
            [](cuda::Device& device, const py::object& target, uint64_t source, uint64_t stream) {
                const Buffer buffer(target, true);
                const ReleasedGil release;
                device.to_host(buffer.data(), source, buffer.size(), stream_of(stream));
            },
            py::arg("target"), py::arg("source"), py::arg("stream") = 0)
        .def(
            "prefault",
            [](cuda::Device& device, const py::object& target) {
                const Buffer buffer(target, true);
                const ReleasedGil release;
                device.prefault(buffer.data(), buffer.size());
            },
            py::arg("target"))
        .def(
            "copy",
            [](cuda::Device& device, uint64_t target, uint64_t source, size_t bytes,
               uint64_t stream) { device.copy(target, source, bytes, stream_of(stream)); },
            py::arg("target"), py::arg("source"), py::arg("bytes"), py::arg("stream") = 0,
            py::call_guard<ReleasedGil>());
}

void add_memory(py::module_& m) {
    Class<cuda::Memory, std::shared_ptr<cuda::Memory>>(m, "Memory")
        .property<&cuda::Memory::address>("address")
        .property<[](const cuda::Memory& memory) { return memory.device().ordinal(); }>("ordinal")
        .property<&cuda::Memory::lost>("lost")
        .def("used_elsewhere", &cuda::Memory::used_elsewhere);
    py::class_<cuda::PinnedMemory>(m, "PinnedMemory", py::buffer_protocol())
        .def(py::init([](int ordinal, size_t bytes) {
                 const ReleasedGil release;
                 return std::make_unique<cuda::PinnedMemory>(cuda::Device::get(ordinal), bytes);
             }),
             py::arg("ordinal"), py::arg("size"))
        .def_buffer([](cuda::PinnedMemory& memory) {
            return py::buffer_info(reinterpret_cast<uint8_t*>(memory.data()),
                                   static_cast<py::ssize_t>(memory.size()));
        });
    py::class_<cuda::HostMemory>(m, "HostMemory", py::buffer_protocol())
        .def(py::init<size_t>(), py::arg("size"))
        .def_buffer([](cuda::HostMemory& memory) {
            return py::buffer_info(reinterpret_cast<uint8_t*>(memory.data()),
                                   static_cast<py::ssize_t>(memory.size()));
        });
}

void add_launches(py::module_& m) {
    py::class_<cuda::LoadedModule, std::shared_ptr<cuda::LoadedModule>>(m, "LoadedModule")
        .def(py::init([](int ordinal, const py::bytes& image, const std::string& name) {
                 const auto text = static_cast<std::string>(image);
                 const ReleasedGil release;
                 return std::make_shared<cuda::LoadedModule>(cuda::Device::get(ordinal), text,
                                                             name);
             }),
             py::arg("ordinal"), py::arg("image"), py::arg("name"))
        .def(
            "variable",
            [](cuda::LoadedModule& module, const std::string& name) {
                const cuda::LoadedModule::Global variable = module.global(name);
                return py::make_tuple(variable.address, variable.bytes);
            },
            py::arg("name"), "-> (address, bytes) of a __device__ or __constant__ variable");
    Class<cuda::Function, std::shared_ptr<cuda::Function>>(m, "Function")
        .property<&cuda::Function::name>("name")
        .def(py::init<std::shared_ptr<cuda::LoadedModule>, std::string>(), py::arg("module"),
             py::arg("name"), py::call_guard<ReleasedGil>())
        .def("start_early", &cuda::Function::start_early,
             "Lets launches start before earlier launches on their stream have ended. The kernel "
             "must wait for them itself.")
        .def("resources", resources_of);
    m.def(
        "admit",
        [](cuda::Function& function, const py::object& launch) {
            cuda::admit(function, launch_of(launch));
        },
        py::arg("function"), py::arg("launch"),
        "Raises LaunchError if the kernel cannot run with this grid and block.");
    m.def("launch", launch, py::arg("function"), py::arg("launch"), py::arg("values"),
          py::arg("stream") = 0);
    m.def("time", time, py::arg("function"), py::arg("launch"), py::arg("values"),
          py::arg("stream"), py::arg("runs"), "-> (median ms, spread, runs)");
    py::class_<cuda::PlannedCall>(m, "PlannedCall")
        .def(py::init([](int ordinal, size_t workspace, const std::string& what, bool overlap,
                         bool pinned_result) {
                 return std::make_unique<cuda::PlannedCall>(
                     cuda::Device::get(ordinal), workspace, what,
                     cuda::PlannedCall::Options{overlap, pinned_result});
             }),
             py::arg("ordinal"), py::arg("workspace"), py::arg("what"), py::kw_only(),
             py::arg("overlap") = false, py::arg("pinned_result") = false)
        .def("to_device", &cuda::PlannedCall::to_device, py::arg("array"), py::arg("at"),
             py::arg("place"), py::arg("bytes"), py::arg("row") = 0, py::arg("pitch") = 0)
        .def("to_host", &cuda::PlannedCall::to_host, py::arg("array"), py::arg("at"),
             py::arg("place"), py::arg("bytes"))
        .def(
            "launch",
            [](cuda::PlannedCall& call, std::shared_ptr<cuda::Function> function,
               const py::object& launch, const py::list& arguments) {
                std::vector<cuda::PlannedCall::Argument> values;
                for (const py::handle value : arguments) values.push_back(argument_of_step(value));
                call.launch(std::move(function), launch_of(launch), std::move(values));
            },
            py::arg("function"), py::arg("launch"), py::arg("arguments"))
        .def("run", run_on_host_arrays, py::arg("arrays"), py::arg("waiting"))
        .def(
            "enqueue",
            [](cuda::PlannedCall& call, const std::vector<cuda::Address>& addresses) {
                call.enqueue(addresses, nullptr);
            },
            py::arg("addresses"), py::call_guard<ReleasedGil>());
    Class<GpuCalls>(m, "GpuCalls", "Runs operations on GPU arrays by their plans.")
        .def(py::init<py::object, py::object>(), py::arg("make"), py::arg("describe"))
        .def("run", &GpuCalls::run, py::arg("operation"), py::arg("arrays"), py::arg("options"),
             py::arg("device"), "-> the result; None if there is no plan for the call.")
        .def("clear", &GpuCalls::clear);
    m.def("enough_runs", &cuda::enough_runs, py::arg("times_ms"));
    m.def(
        "spread", [](std::vector<double> times_ms) { return cuda::summarize(times_ms).spread; },
        py::arg("times_ms"));
    m.def(
        "tensor_map",
        [](uint64_t address, const std::string& element, std::pair<uint64_t, uint64_t> shape,
           uint64_t row_bytes, std::pair<uint32_t, uint32_t> box, bool swizzled) {
            return py::bytes(cuda::tensor_map({address,
                                               element,
                                               shape.first,
                                               shape.second,
                                               row_bytes,
                                               {box.first, box.second},
                                               swizzled}));
        },
        py::arg("address"), py::arg("element"), py::arg("shape"), py::arg("row_bytes"),
        py::arg("box"), py::arg("swizzled"), "-> the 128 bytes of a tensor map; LaunchError.");
    Class<cuda::Texture>(m, "Texture")
        .property<&cuda::Texture::handle>("handle")
        .property<&cuda::Texture::in_array>("in_array")
        .def(py::init(&make_texture), py::arg("ordinal"), py::arg("described"), py::arg("elements"),
             py::arg("what"))
        .def("destroy", &cuda::Texture::destroy, py::call_guard<ReleasedGil>())
        .def(
            "fill",
            [](cuda::Texture& texture, uint64_t stream) { texture.fill(stream_of(stream)); },
            py::arg("stream"), py::call_guard<ReleasedGil>())
        .def(
            "read_back",
            [](cuda::Texture& texture, uint64_t stream) { texture.read_back(stream_of(stream)); },
            py::arg("stream"), py::call_guard<ReleasedGil>());
    m.def("launcher", launcher_of, py::arg("function"), py::arg("launch"), py::arg("parameters"),
          py::arg("fallback"));
    add_bound(m);
    m.def("register_numpy_scalar", [](const py::type& type, const std::string& name) {
        KnownTypes::get().add_numpy_scalar(reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr()),
                                           scalar_code(name));
    });
    m.def("register_device_array", [](const py::type& type) {
        KnownTypes::get().set_device_array(reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr()));
    });
    m.def("scalar_code", [](const std::string& name) { return scalar_code(name); });
}

// The parts of a benchmark's clock, and cuBLAS, which benchmarks compare kernels with.
void add_clock(py::module_& m) {
    static const std::string what = "timing work on the GPU";
    Class<cuda::Events>(m, "Events")
        .def(py::init([](int ordinal, size_t count) {
                 return std::make_unique<cuda::Events>(cuda::Device::get(ordinal), count);
             }),
             py::arg("ordinal"), py::arg("count"), py::call_guard<ReleasedGil>())
        .def(
            "record",
            [](cuda::Events& events, size_t event, uint64_t stream) {
                events.record(event, stream_of(stream), what);
            },
            py::arg("event"), py::arg("stream") = 0)
        .def(
            "wait", [](cuda::Events& events, size_t event) { events.wait(event, what); },
            py::arg("event"), py::call_guard<ReleasedGil>())
        .def(
            "between",
            [](cuda::Events& events, size_t begin, size_t end) {
                return events.between(begin, end, what);
            },
            py::arg("begin"), py::arg("end"), "-> milliseconds; call `wait` first");
    Class<cuda::Graph>(m, "Graph", "Records the work that this thread enqueues on `stream`.")
        .property<[](const cuda::Graph& graph) {
            return reinterpret_cast<uintptr_t>(graph.stream());
        }>("stream")
        .def(py::init([](int ordinal) {
                 return std::make_unique<cuda::Graph>(cuda::Device::get(ordinal));
             }),
             py::arg("ordinal"), py::call_guard<ReleasedGil>())
        .def("finish", &cuda::Graph::finish, py::call_guard<ReleasedGil>())
        .def(
            "launch", [](cuda::Graph& graph, uint64_t stream) { graph.launch(stream_of(stream)); },
            py::arg("stream") = 0, py::call_guard<ReleasedGil>());
    Class<cuda::Cublas>(m, "Cublas")
        .property<&cuda::Cublas::version>("version")
        .def(py::init([](const std::string& path, int ordinal) {
                 return std::make_unique<cuda::Cublas>(path, cuda::Device::get(ordinal));
             }),
             py::arg("path"), py::arg("ordinal"), py::call_guard<ReleasedGil>())
        .def(
            "multiply",
            [](cuda::Cublas& cublas, std::array<int, 3> extents,
               std::array<cuda::Address, 3> addresses, const std::string& operands,
               const std::string& result, bool tf32, uint64_t stream) {
                const auto [a, b, out] = addresses;
                cublas.multiply({extents, a, b, out, operands, result, tf32}, stream_of(stream));
            },
            py::arg("extents"), py::arg("addresses"), py::arg("operands"), py::arg("result"),
            py::arg("tf32"), py::arg("stream") = 0, py::call_guard<ReleasedGil>(),
            "Enqueues the product of an M x K and a K x N matrix; `extents` are M, N and K.");
}

}  // namespace

void add_cuda(py::module_ m) {
    add_compiler(m);
    add_devices(m);
    add_memory(m);
    add_launches(m);
    add_clock(m);
    m.def("to_dlpack", &dlpack::export_array, py::arg("owner"), py::arg("address"),
          py::arg("shape"), py::arg("dtype"), py::arg("ordinal"), py::arg("versioned"));
    m.def("from_dlpack", &dlpack::import_array, py::arg("capsule"));
}

}  // namespace coalesce::bindings
