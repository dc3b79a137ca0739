#include "cuda/launch/launch.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cuda/launch/events.hpp"
#include "errors.hpp"

namespace coalesce::cuda {

namespace {

void check_cooperative(Function& function, const Launch& how) {
    constexpr int multiprocessor_count = 16, cooperative_launch = 95;  // CUdevice_attribute
    Device& device = function.device();
    const FunctionHandle handle = function.handle();
    const Device::CurrentContext current(device);
    const std::string what = "kernel `" + function.name() + "`";
    if (!device.attribute(cooperative_launch))
        throw LaunchError(what + ": this GPU does not support cooperative launches");
    int fit = 0;
    device.check(device.driver().occupancy(&fit, handle, int(how.block.count()), how.shared_bytes),
                 what);
    const uint64_t multiprocessors = uint64_t(device.attribute(multiprocessor_count));
    const uint64_t blocks = how.grid.count();
    if (blocks <= multiprocessors * uint64_t(fit)) return;
    throw LaunchError(what +
                      ": in a cooperative launch, all blocks must be on the GPU at the same time. "
                      "The grid has " +
                      std::to_string(blocks) + " blocks, but the GPU can hold only " +
                      std::to_string(multiprocessors * uint64_t(fit)) + ": " +
                      std::to_string(multiprocessors) + " multiprocessors with " +
                      std::to_string(fit) +
                      " blocks each. Launch fewer blocks, and let each block do more work in a "
                      "loop");
}

}  // namespace

void admit(Function& function, const Launch& how) {
    const Function::Resources resources = function.resources();
    const auto limit = static_cast<unsigned long long>(resources.max_block_threads);
    if (how.block.count() > limit)
        throw LaunchError("kernel `" + function.name() + "` cannot run with blocks of " +
                          std::to_string(how.block.count()) + " threads: because of its " +
                          "registers (" + std::to_string(resources.registers) +
                          " per thread) or its __launch_bounds__, a block can have at most " +
                          std::to_string(limit) + " threads");
    function.allow_dynamic_shared(how.shared_bytes);
    if (how.cooperative) check_cooperative(function, how);
}

void launch(Function& function, const Launch& how, void** arguments, Stream stream) {
    Device& device = function.device();
    const Device::CurrentContext current(device);
    device.launches(function.name());
    const auto& [gx, gy, gz] = how.grid;
    const auto& [bx, by, bz] = how.block;
    const Driver& driver = device.driver();
    const FunctionHandle handle = function.handle();
    Result result = success;
    if (how.cooperative) {
        result = driver.launch_cooperative(handle, gx, gy, gz, bx, by, bz, how.shared_bytes, stream,
                                           arguments);
    } else if (function.starts_early()) {
        LaunchAttribute early{.id = LaunchAttribute::programmatic_serialization, .value = 1};
        const LaunchConfig config{gx, gy, gz, bx, by, bz, how.shared_bytes, stream, &early, 1};
        result = driver.launch_with_attributes(&config, handle, arguments, nullptr);
    } else {
        result = driver.launch(handle, gx, gy, gz, bx, by, bz, how.shared_bytes, stream, arguments,
                               nullptr);
    }
    if (result != success) device.check(result, "kernel `" + function.name() + "`");
}

Timing time(Function& function, const Launch& how, void** arguments, Stream stream, int runs,
            const std::function<void()>& between) {
    Device& device = function.device();
    const Driver& driver = device.driver();
    const Device::CurrentContext current(device);
    const std::string what = "kernel `" + function.name() + "`";
    launch(function, how, arguments, stream);
    device.check(driver.stream_synchronize(stream), what);

    // The timed launches are enqueued in batches. If they were enqueued one by one, a short kernel
    // would have to wait for the host after each launch. The first batch is small, because one
    // launch may take seconds.
    constexpr size_t most = 16;
    Events events(device, 2 * most);
    std::vector<double> times_ms;
    size_t batch = 1;
    const auto done = [&] {
        return runs > 0 ? times_ms.size() >= static_cast<size_t>(runs) : enough_runs(times_ms);
    };
    while (!done()) {
        if (runs > 0) batch = std::min(batch, static_cast<size_t>(runs) - times_ms.size());
        for (size_t i = 0; i < batch; ++i) {
            events.record(2 * i, stream, what);
            launch(function, how, arguments, stream);
            events.record(2 * i + 1, stream, what);
        }
        events.wait(2 * batch - 1, what);
        for (size_t i = 0; i < batch; ++i)
            times_ms.push_back(events.between(2 * i, 2 * i + 1, what));
        between();
        batch = times_ms.back() < 50 ? std::min(2 * batch + 2, most) : 1;
    }
    return summarize(std::move(times_ms));
}

}  // namespace coalesce::cuda
