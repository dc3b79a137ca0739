// CUDA events: marks in the work of streams. The time between two marks is the time of the work.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/device.hpp"

namespace coalesce::cuda {

// A number of events of one GPU. They can be recorded again and again.
class Events {
  public:
    Events(Device& device, size_t count);
    ~Events();
    Events(const Events&) = delete;
    Events& operator=(const Events&) = delete;

    [[nodiscard]] size_t count() const { return events_.size(); }

    // Enqueues a mark. `what` names the marked work if the driver reports an error.
    void record(size_t event, Stream stream, const std::string& what);

    // Waits until the work before the mark has ended.
    void wait(size_t event, const std::string& what);

    // Returns the milliseconds between two marks. Call wait() for both first.
    [[nodiscard]] double between(size_t begin, size_t end, const std::string& what);

  private:
    Device& device_;
    uint64_t generation_;
    std::vector<EventHandle> events_;
};

}  // namespace coalesce::cuda
