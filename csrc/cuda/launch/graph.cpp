#include "cuda/launch/graph.hpp"

#include "errors.hpp"

namespace coalesce::cuda {

Graph::Graph(Device& device) : device_(device), generation_(device.generation()) {
    constexpr unsigned non_blocking = 1;  // CUstream_flags: does not wait for the default stream
    constexpr int thread_local_mode = 1;  // CUstreamCaptureMode: other threads are not restricted
    const Driver& driver = device_.driver();
    if (driver.graph_instantiate == nullptr)
        throw LaunchError(
            "the CUDA driver is too old for CUDA graphs; install a driver for CUDA 11.4 or newer");
    const Device::CurrentContext current(device_);
    device_.check(driver.stream_create(&stream_, non_blocking), "cuStreamCreate");
    try {
        device_.check(driver.stream_begin_capture(stream_, thread_local_mode), "recording a graph");
    } catch (...) {
        destroy();
        throw;
    }
    recording_ = true;
}

Graph::~Graph() { destroy(); }

void Graph::destroy() {
    // After a fault, the context was reset. The reset has already destroyed the graph.
    if (generation_ != device_.generation()) return;
    const Driver& driver = device_.driver();
    if (recording_) driver.stream_end_capture(stream_, &graph_);
    if (executable_ != nullptr) driver.executable_graph_destroy(executable_);
    if (graph_ != nullptr) driver.graph_destroy(graph_);
    if (stream_ != nullptr) driver.stream_destroy(stream_);
}

void Graph::finish() {
    if (!recording_) throw LaunchError("finish() was called twice for the same CUDA graph");
    const Driver& driver = device_.driver();
    const Device::CurrentContext current(device_);
    recording_ = false;
    device_.check(driver.stream_end_capture(stream_, &graph_), "recording a graph");
    device_.check(driver.graph_instantiate(&executable_, graph_, 0), "cuGraphInstantiate");
}

void Graph::launch(Stream stream) {
    if (executable_ == nullptr)
        throw LaunchError("the CUDA graph cannot be launched yet; call finish() first");
    const Device::CurrentContext current(device_);
    device_.check(device_.driver().graph_launch(executable_, stream), "cuGraphLaunch");
}

}  // namespace coalesce::cuda
