#include "cuda/launch/planned_call.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

namespace coalesce::cuda {

namespace {

// Where a launch finds its arrays.
struct Addresses {
    Address workspace = 0;
    std::span<const Address> arrays = {};  // the addresses of GPU arrays
    // A part of the workspace may be elsewhere, at the address `there`: `bytes` bytes of it, from
    // offset `moved` on.
    size_t moved = 0, bytes = 0;
    Address there = 0;

    [[nodiscard]] Address of(const PlannedCall::Place& place) const {
        if (place.array != PlannedCall::in_workspace) return arrays[place.array] + place.offset;
        const bool elsewhere = place.offset >= moved && place.offset < moved + bytes;
        return elsewhere ? there + (place.offset - moved) : workspace + place.offset;
    }
};

void launch_at(Function& function, const Launch& how,
               const std::vector<PlannedCall::Argument>& arguments, const Addresses& places,
               Stream stream) {
    // The values are on the stack, so a launch allocates no memory. The driver allows 4 KB.
    struct alignas(64) Value {
        std::array<char, 128> bytes;
    };
    std::array<Value, PlannedCall::most_arguments> values;
    std::array<void*, PlannedCall::most_arguments> addresses;
    for (size_t i = 0; i < arguments.size(); ++i) {
        const PlannedCall::Argument& argument = arguments[i];
        char* const value = values[i].bytes.data();
        addresses[i] = value;
        if (!argument.place) {
            std::memcpy(value, argument.bytes.data(), argument.bytes.size());
            continue;
        }
        const Address address = places.of(*argument.place);
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
    function.allow_dynamic_shared(how.shared_bytes);
    launch(function, how, addresses.data(), stream);
}

}  // namespace

void PlannedCall::to_device(size_t array, size_t at, size_t place, size_t bytes, size_t row,
                            size_t pitch) {
    if (row != 0 && (row > Transfers::slot_bytes || bytes % row != 0))
        throw std::invalid_argument("a planned copy needs whole rows that fit into a slot");
    steps_.push_back({Step::Kind::to_device, array, at, place, bytes, row, pitch, {}, {}, {}});
}

void PlannedCall::to_host(size_t array, size_t at, size_t place, size_t bytes) {
    steps_.push_back({Step::Kind::to_host, array, at, place, bytes, 0, 0, {}, {}, {}});
}

void PlannedCall::launch(std::shared_ptr<Function> function, const Launch& how,
                         std::vector<Argument> arguments) {
    if (arguments.size() > most_arguments)
        throw std::invalid_argument("a planned launch has at most " +
                                    std::to_string(most_arguments) + " arguments");
    steps_.push_back(
        {Step::Kind::launch, 0, 0, 0, 0, 0, 0, std::move(function), how, std::move(arguments)});
}

size_t PlannedCall::bytes_of(size_t array) const {
    size_t size = 0;
    for (const Planned& step : steps_)
        if (step.kind != Step::Kind::launch && step.array == array)
            size = std::max(
                size,
                step.at + (step.row == 0 ? step.bytes
                                         : (step.bytes / step.row - 1) * step.pitch + step.row));
    return size;
}

void PlannedCall::run(std::span<char* const> arrays, const Waiting& waiting) {
    const std::shared_ptr<Memory> workspace = device_.allocate(workspace_, what_);
    Addresses places{.workspace = workspace->address()};
    std::vector<Step> steps;
    steps.reserve(steps_.size());
    for (const Planned& planned : steps_) {
        Step step{.kind = planned.kind};
        if (planned.kind == Step::Kind::launch) {
            step.launch = [&planned, &places](Stream stream, Address pinned) {
                Addresses own = places;
                own.there = pinned;
                launch_at(*planned.function, planned.how, planned.arguments, own, stream);
            };
        } else {
            step.host = arrays[planned.array] + planned.at;
            step.device = places.workspace + planned.place;
            step.bytes = planned.bytes;
            step.row = planned.row;
            step.pitch = planned.pitch;
        }
        steps.push_back(std::move(step));
    }
    // There is one place for a result, so the call must have exactly one.
    const auto is_result = [](const Step& step) { return step.kind == Step::Kind::to_host; };
    if (options_.pinned_result && std::ranges::count_if(steps, is_result) == 1 &&
        Transfers::is_small(steps)) {
        const auto result = size_t(std::ranges::find_if(steps, is_result) - steps.begin());
        steps[result].written = true;
        places.moved = steps_[result].place;
        places.bytes = steps_[result].bytes;
    }
    try {
        device_.run(steps, options_.overlap, waiting);
    } catch (...) {
        workspace->used_elsewhere();  // a launch may still run
        throw;
    }
}

void PlannedCall::enqueue(std::span<const Address> arrays, Stream stream) {
    std::shared_ptr<Memory> workspace;
    Addresses places{.arrays = arrays};
    if (workspace_ > 0) {
        workspace = device_.allocate(workspace_, what_);
        places.workspace = workspace->address();
        if (stream != nullptr) {
            // Earlier work on the default stream may still use this memory, and later work on the
            // default stream must not use it too early.
            device_.order(nullptr, stream);
            workspace->used_elsewhere();
        }
    }
    for (const Planned& step : steps_)
        launch_at(*step.function, step.how, step.arguments, places, stream);
}

}  // namespace coalesce::cuda
