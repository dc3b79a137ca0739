// Launches a program: packs the arguments, and converts the result to objects.
#include <pybind11/stl.h>

#include <chrono>
#include <cstring>

#include "analysis/compiled_launch.hpp"
#include "bindings/gil.hpp"
#include "bindings/sim/program.hpp"
#include "errors.hpp"
#include "ptx/demangle.hpp"
#include "sim/program/tensor_map.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

namespace {

// Returns (space, name, address, bytes, number of the argument or -1) for each array among the
// arguments, each variable of the module and each shared variable. Addresses of shared variables
// start at 0.
py::list layout(const sim::Program& program, const py::list& arguments, const Arguments& arrays,
                uint32_t dynamic_bytes) {
    py::list list;
    size_t array = 0;
    for (size_t i = 0; i < arguments.size(); ++i) {
        if (!py::isinstance<BufferArgument>(arguments[i])) continue;
        const auto& b = arguments[i].cast<const BufferArgument&>();
        list.append(py::make_tuple("global", b.name, arrays.address(array++), b.array.nbytes(),
                                   py::ssize_t(i)));
    }
    for (const sim::ModuleMemory::Item& v : program.memory->items)
        list.append(py::make_tuple(v.writable ? "global" : "constant", ptx::plain_name(v.name),
                                   v.address, v.bytes.size(), -1));
    for (const auto& [name, place] : program.shared_variables)
        list.append(py::make_tuple("shared", ptx::plain_name(name), place.first, place.second, -1));
    if (dynamic_bytes)
        list.append(py::make_tuple("shared", "dynamic shared memory", program.shared_bytes,
                                   dynamic_bytes, -1));
    return list;
}

std::vector<std::byte> pack(const sim::Program& program, const py::list& arguments,
                            const Arguments& arrays) {
    // The arguments for the parameters come first. The arrays to which structures point follow.
    if (arguments.size() < program.parameters.size()) {
        throw LaunchError(program.kernel + " takes " + std::to_string(program.parameters.size()) +
                          " arguments; got " + std::to_string(arguments.size()));
    }
    // For each argument that is an array: its address, or the handle of its texture object.
    std::vector<uint64_t> pointers(arguments.size());
    size_t array = 0;
    for (size_t i = 0; i < arguments.size(); ++i) {
        if (!py::isinstance<BufferArgument>(arguments[i])) continue;
        const size_t n = array++;
        const auto& b = arguments[i].cast<const BufferArgument&>();
        pointers[i] = b.texture ? arrays.handle(n) : arrays.address(n) + b.offset;
    }
    std::vector<std::byte> bytes(program.parameter_bytes);
    for (size_t i = 0; i < program.parameters.size(); ++i) {
        const sim::ParameterInfo& p = program.parameters[i];
        if (py::isinstance<BufferArgument>(arguments[i])) {
            if (p.bytes != 8)
                throw LaunchError("argument " + std::to_string(i) + " of " + program.kernel +
                                  " is an array, but the parameter is a scalar");
            std::memcpy(&bytes[p.offset], &pointers[i], sizeof(uint64_t));
            continue;
        }
        if (py::isinstance<py::tuple>(arguments[i]) &&
            py::isinstance<py::bytes>(arguments[i].cast<py::tuple>()[0])) {
            const auto structure =
                arguments[i].cast<std::pair<std::string, std::vector<std::pair<size_t, size_t>>>>();
            if (p.bytes != structure.first.size())
                throw LaunchError("argument " + std::to_string(i) + " of " + program.kernel +
                                  " has " + std::to_string(structure.first.size()) +
                                  " bytes; the parameter has " + std::to_string(p.bytes));
            std::memcpy(&bytes[p.offset], structure.first.data(), structure.first.size());
            for (const auto& [offset, number] : structure.second) {
                if (offset + sizeof(uint64_t) > p.bytes || number >= arguments.size() ||
                    !py::isinstance<BufferArgument>(arguments[number]))
                    throw LaunchError(
                        "argument " + std::to_string(i) + " of " + program.kernel +
                        " contains a pointer, but the array of this pointer was not passed");
                std::memcpy(&bytes[p.offset + offset], &pointers[number], sizeof(uint64_t));
            }
            continue;
        }
        if (py::isinstance<py::tuple>(arguments[i])) {
            const auto matrix = arguments[i].cast<std::pair<size_t, std::string>>();
            const auto map = sim::tensor_map_in(matrix.second);
            if (!map || p.bytes != matrix.second.size() ||
                !py::isinstance<BufferArgument>(arguments[matrix.first]))
                throw LaunchError("argument " + std::to_string(i) + " of " + program.kernel +
                                  " is not a tensor map of an array");
            sim::TensorMap of_array = *map;
            of_array.address += pointers[matrix.first];
            const sim::TensorMapBytes encoded = sim::encode(of_array);
            std::memcpy(&bytes[p.offset], encoded.data(), encoded.size());
            continue;
        }
        const std::string value = py::cast<py::bytes>(arguments[i]);
        if (value.size() != p.bytes) {
            throw LaunchError("argument " + std::to_string(i) + " of " + program.kernel + " has " +
                              std::to_string(value.size()) + " bytes; the parameter has " +
                              std::to_string(p.bytes));
        }
        std::memcpy(&bytes[p.offset], value.data(), value.size());
    }
    return bytes;
}

}  // namespace

LaunchResult SimulatedModule::launch(const std::string& entry, analysis::LaunchRequest request,
                                     const py::list& arguments, py::object progress) {
    const sim::Program& program = decoded(entry, analysis::purpose_of(request));
    analysis::prepare(program, request);
    sim::AddressSpace memory;
    program.memory->map_into(memory);
    Arguments arrays(arguments);
    arrays.map_into(memory);
    request.launch.parameters = pack(program, arguments, arrays);
    request.buffer_bytes = arrays.total_bytes();

    LaunchResult result;
    LaunchMonitor monitor(request.launch, std::move(progress));
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    const std::shared_ptr<KernelCode> code_for_host = code_for(entry, request);
    if (code_for_host) {
        code_for_host->consider(py::cast(this), 0, 0);
        request.launch.poll = [&, poll = std::move(request.launch.poll),
                               blocks = double(request.launch.block_count())](uint64_t finished) {
            poll(finished);
            const HeldGil gil;
            code_for_host->consider(py::cast(this), seconds(), double(finished) / blocks);
        };
    }
    try {
        const ReleasedGil no_gil;
        const auto lock = lock_launches();
        const auto code = request.counting() ? counted_code(program) : nullptr;
        result.result = code_for_host ? analysis::launch_compiled(program, request, memory,
                                                                  code_for_host->kernel())
                                      : analysis::launch(program, request, memory, code);
    } catch (py::error_already_set& error) {
        monitor.flush();
        monitor.add_place(error);
        throw;
    } catch (...) {
        monitor.flush();
        throw;
    }
    result.host_ms = 1000 * seconds();
    if (code_for_host) code_for_host->spend(seconds());
    monitor.finish();
    result.memory = layout(program, arguments, arrays, request.launch.shared_bytes);
    const analysis::Result& outcome = result.result;
    if (outcome.checked) result.findings = as_tuple(*outcome.checked, program);
    if (outcome.trace) result.events = columns_of(outcome.trace->events, request.launch.grid);
    return result;
}

std::unique_ptr<StepSession> SimulatedModule::step(const std::string& entry,
                                                   analysis::LaunchRequest request,
                                                   const py::list& arguments, uint64_t number,
                                                   size_t most_events) {
    auto known = stepped_.find(entry);
    if (known == stepped_.end()) {
        auto added = std::make_unique<Stepped>();
        const sim::Engine& engine = sim::engine(analysis::watch_for(analysis::Purpose::step));
        added->program = sim::decode(module_, find(entry), memory_, engine, added->registers);
        add_source_lines(added->program);
        known = stepped_.emplace(entry, std::move(added)).first;
    }
    const sim::Program& program = known->second->program;
    analysis::prepare(program, request);
    sim::GridRun& launch = request.launch;
    std::unique_ptr<StepSession> session;
    {
        std::unique_lock<LaunchLock> lock;
        {
            const ReleasedGil no_gil;
            lock = lock_launches();
        }
        session =
            std::make_unique<StepSession>(program, known->second->registers, *memory_, arguments);
    }
    launch.parameters = pack(program, arguments, session->arrays);
    session->layout = layout(program, arguments, session->arrays, launch.shared_bytes);
    session->start(std::move(launch), number, most_events);
    return session;
}

}  // namespace coalesce::bindings
