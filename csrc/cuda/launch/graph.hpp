// A CUDA graph: recorded work that one call of the driver enqueues. So short kernels follow each
// other without waiting for the host.
#pragma once

#include <cstdint>

#include "cuda/device.hpp"

namespace coalesce::cuda {

class Graph {
  public:
    // Begins to record. Throws LaunchError if the driver has no graphs.
    explicit Graph(Device& device);
    ~Graph();
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;

    // Work that this thread enqueues on this stream is recorded, and does not run. After finish(),
    // the stream is an ordinary stream.
    [[nodiscard]] Stream stream() const { return stream_; }

    // Ends the recording.
    void finish();

    // Enqueues the recorded work on a stream. Call finish() first.
    void launch(Stream stream);

  private:
    void destroy();

    Device& device_;
    uint64_t generation_;
    Stream stream_ = nullptr;
    bool recording_ = false;
    GraphHandle graph_ = nullptr;
    ExecutableGraphHandle executable_ = nullptr;
};

}  // namespace coalesce::cuda
