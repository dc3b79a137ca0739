#include "cudart/state/streams.hpp"

#include <algorithm>
#include <utility>

#include "cudart/state/api.hpp"
#include "cudart/state/graphs.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {
constexpr unsigned non_blocking = 1;
thread_local CaptureMode thread_mode = CaptureMode::global;
}  // namespace

std::string StreamRecord::name() const {
    if (legacy) return "the default stream";
    if (!id) return "the default stream of a host thread";
    const std::string number = std::to_string(id) + runtime().place_of(caller);
    return (flags & non_blocking ? "non-blocking stream " : "stream ") + number;
}

StreamRecord& Streams::stream(Stream handle) {
    // Handles 0, 1 and 2 are null, cudaStreamLegacy and cudaStreamPerThread.
    const auto number = reinterpret_cast<uintptr_t>(handle);
    if (number == 1 || (number == 0 && !default_is_per_thread())) return legacy_;
    if (number <= 2) {
        StreamRecord& own = per_thread_[std::this_thread::get_id()];
        if (!own.timeline) own.timeline = runtime().order.new_branch();
        return own;
    }
    if (!streams_.contains(handle))
        throw Failure{cudaErrorInvalidResourceHandle,
                      "the stream was not created by cudaStreamCreate(), or it was destroyed"};
    return *handle;
}

EventRecord& Streams::event(Event handle) {
    if (!events_.contains(handle))
        throw Failure{cudaErrorInvalidResourceHandle,
                      "the event was not created by cudaEventCreate(), or it was destroyed"};
    return *handle;
}

Stream Streams::create(unsigned flags, int priority) {
    auto made = std::make_unique<StreamRecord>();
    made->id = made->timeline = ++count_;
    made->caller = caller();
    made->flags = flags;
    made->priority = priority;
    made->owner = runtime().contexts.owner();
    return *streams_.insert(made.release()).first;
}

void Streams::destroy(Stream handle) {
    StreamRecord& s = stream(handle);
    require(streams_.erase(handle) == 1, cudaErrorInvalidResourceHandle);
    end_capture(s);
    for (const Event e : events_)
        if (e->capture == &s) *e = {.flags = e->flags, .owner = e->owner};
    delete handle;
}

void Streams::end_capture(StreamRecord& origin) {
    const auto leave = [](StreamRecord& s) {
        s.capture = nullptr;
        s.captured.reset();
        s.origin = nullptr;
        s.owns_capture = true;
        s.invalidated = false;
        s.last.clear();
    };
    each([&](StreamRecord& s) {
        if (&s != &origin && s.origin == &origin) leave(s);
    });
    leave(origin);
}

CaptureMode Streams::exchange_mode(CaptureMode mode) { return std::exchange(thread_mode, mode); }

void Streams::refuse_in_capture(bool all_modes) {
    using enum CaptureMode;
    bool forbidden = false;
    each_capture([&](StreamRecord& s) {
        const bool own = s.thread == std::this_thread::get_id();
        const bool forbids = all_modes || (own ? thread_mode != relaxed && s.mode != relaxed
                                               : thread_mode == global && s.mode == global);
        s.invalidated = s.invalidated || forbids;
        forbidden = forbidden || forbids;
    });
    require(
        !forbidden, cudaErrorStreamCaptureUnsupported,
        "a call that waits for the GPU or that allocates or frees memory is not allowed while a "
        "stream is being captured into a graph");
}

void Streams::refuse_implicit_wait(Stream handle) {
    if (&stream(handle) != &legacy_) return;
    bool waits = false;
    each_capture([&](StreamRecord& s) {
        if (s.flags & non_blocking) return;
        s.invalidated = waits = true;
    });
    require(!waits, cudaErrorStreamCaptureImplicit,
            "work in the default stream waits for all other streams, but one of them is being "
            "captured into a graph; use another stream, or create the captured stream with "
            "cudaStreamNonBlocking");
}

Event Streams::create_event(unsigned flags) {
    auto made = std::make_unique<EventRecord>();
    made->flags = flags;
    made->owner = runtime().contexts.owner();
    return *events_.insert(made.release()).first;
}

void Streams::destroy(Event handle) {
    event(handle);
    events_.erase(handle);
    delete handle;
}

void Streams::destroy_all(Context owner) {
    std::vector<Stream> own;
    for (const Stream s : streams_)
        if (s->owner == owner) own.push_back(s);
    for (const Stream s : own) destroy(s);
    std::erase_if(events_, [&](Event e) { return e->owner == owner ? (delete e, true) : false; });
}

void Streams::pass(StreamRecord& stream, Engine engine, double ms) {
    // Work in the default stream waits for earlier work in all other streams. Work in other streams
    // waits for earlier work in the default stream. Streams that were created as non-blocking are
    // an exception.
    double start = stream.clock;
    if (&stream == &legacy_) {
        each([&](const StreamRecord& s) {
            if (!(s.flags & non_blocking)) start = std::max(start, s.clock);
        });
    } else if (!(stream.flags & non_blocking)) {
        start = std::max(start, legacy_.clock);
    }
    double& busy = engines_[size_t(engine)];
    if (engine != Engine::none) start = std::max(start, busy);
    stream.clock = start + ms;
    if (engine != Engine::none) busy = stream.clock;
}

void Streams::join_all() {
    each([&](const StreamRecord& s) { legacy_.clock = std::max(legacy_.clock, s.clock); });
    each([&](StreamRecord& s) { s.clock = legacy_.clock; });
}

}  // namespace coalesce::cudart
