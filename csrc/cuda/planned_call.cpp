#include "cuda/planned_call.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace coalesce::cuda {

namespace {

// Enqueues a launch. `base` is the address of the workspace, and `arrays` has those of GPU arrays.
void launch_at(Function& function, const Geometry& geometry,
               const std::vector<PlannedCall::Argument>& arguments, Address base,
               std::span<const Address> arrays, Stream stream) {
    struct alignas(64) Value {
        std::array<char, 128> bytes;
    };
    std::vector<Value> values(arguments.size());
    std::vector<void*> addresses(arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
        const PlannedCall::Argument& argument = arguments[i];
        char* const value = values[i].bytes.data();
        addresses[i] = value;
        if (!argument.place) {
            std::memcpy(value, argument.bytes.data(), argument.bytes.size());
            continue;
        }
        const auto [array, offset] = *argument.place;
        const Address begin = array == PlannedCall::in_workspace ? base : arrays[array];
        const Address address = begin + offset;
        if (argument.map) {
            TiledMatrix matrix = *argument.map;
            matrix.address = address;
            matrix.element = argument.element;
            const std::string map = tensor_map(matrix);
            std::memcpy(value, map.data(), map.size());
        } else {
            std::memcpy(value, &address, sizeof(address));
        }
    }
    function.allow_dynamic_shared(geometry.dynamic_shared);
    launch(function, geometry, addresses.data(), stream);
}

}  // namespace

void PlannedCall::to_device(size_t array, size_t at, size_t place, size_t bytes) {
    steps_.push_back({Step::Kind::to_device, array, at, place, bytes, {}, {}, {}});
}

void PlannedCall::to_host(size_t array, size_t at, size_t place, size_t bytes) {
    steps_.push_back({Step::Kind::to_host, array, at, place, bytes, {}, {}, {}});
}

void PlannedCall::launch(std::shared_ptr<Function> function, const Geometry& geometry,
                         std::vector<Argument> arguments) {
    steps_.push_back(
        {Step::Kind::launch, 0, 0, 0, 0, std::move(function), geometry, std::move(arguments)});
}

size_t PlannedCall::bytes_of(size_t array) const {
    size_t size = 0;
    for (const Planned& step : steps_)
        if (step.kind != Step::Kind::launch && step.array == array)
            size = std::max(size, step.at + step.bytes);
    return size;
}

void PlannedCall::run(std::span<char* const> arrays, const Waiting& waiting) {
    const std::shared_ptr<Memory> workspace = device_.allocate(workspace_, what_);
    const Address base = workspace->address();
    std::vector<Step> steps;
    steps.reserve(steps_.size());
    for (const Planned& planned : steps_) {
        Step step{.kind = planned.kind};
        if (planned.kind == Step::Kind::launch) {
            step.launch = [&planned, base](Stream stream) {
                launch_at(*planned.function, planned.geometry, planned.arguments, base, {}, stream);
            };
        } else {
            step.host = arrays[planned.array] + planned.at;
            step.device = base + planned.place;
            step.bytes = planned.bytes;
        }
        steps.push_back(std::move(step));
    }
    try {
        device_.run(steps, overlap_, waiting);
    } catch (...) {
        workspace->used_elsewhere();  // a launch may still run
        throw;
    }
}

void PlannedCall::enqueue(std::span<const Address> arrays) {
    const std::shared_ptr<Memory> workspace = device_.allocate(workspace_, what_);
    for (const Planned& step : steps_)
        launch_at(*step.function, step.geometry, step.arguments, workspace->address(), arrays,
                  nullptr);
}

}  // namespace coalesce::cuda
