#include "cuda/launch/events.hpp"

namespace coalesce::cuda {

Events::Events(Device& device, size_t count)
    : device_(device), generation_(device.generation()), events_(count) {
    const Device::CurrentContext current(device_);
    for (EventHandle& event : events_)
        device_.check(device_.driver().event_create(&event, 0), "cuEventCreate");
}

Events::~Events() {
    // After a fault, the context was reset. The reset has already destroyed the events.
    if (generation_ != device_.generation()) return;
    for (const EventHandle event : events_)
        if (event != nullptr) device_.driver().event_destroy(event);
}

void Events::record(size_t event, Stream stream, const std::string& what) {
    const Device::CurrentContext current(device_);
    device_.check(device_.driver().event_record(events_.at(event), stream), what);
}

void Events::wait(size_t event, const std::string& what) {
    device_.check(device_.driver().event_synchronize(events_.at(event)), what);
}

double Events::between(size_t begin, size_t end, const std::string& what) {
    float ms = 0;
    device_.check(device_.driver().event_elapsed(&ms, events_.at(begin), events_.at(end)), what);
    return ms;
}

}  // namespace coalesce::cuda
