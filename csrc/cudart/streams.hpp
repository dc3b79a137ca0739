// Streams and events, with modelled clocks.
//
// METHOD
// Whatever is put into a stream is done at once, in the order of the calls: an order that every
// program allows. Time is modelled apart: a stream has a clock, and so have the engines of the GPU
// (kernels, copies to it, copies from it). Work starts when its stream and its engine are free and
// ends after its modelled time. So copies overlap with kernels of other streams. Kernels follow
// each other: how several would share the GPU is not modelled.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "cudart/abi.hpp"

namespace coalesce::cudart {

struct StreamRecord {
    uint64_t id = 0;
    unsigned flags = 0;
    int priority = 0;
    double clock = 0;  // modelled ms
    // While it is captured:
    GraphRecord* capture = nullptr;
    bool owns_capture = true;  // false: joined through an event
    bool invalidated = false;
    StreamRecord* origin = nullptr;
    std::vector<Node> last;  // what the next node depends on
    std::shared_ptr<GraphRecord> captured;
};

struct EventRecord {
    unsigned flags = 0;
    bool recorded = false;
    double time = 0;                  // modelled ms
    StreamRecord* capture = nullptr;  // recorded in a stream that is captured
    std::vector<Node> nodes;
};

enum class Engine : uint8_t { none, kernels, to_device, to_host };

class Streams {
  public:
    StreamRecord& stream(Stream handle);  // Failure if there is none
    EventRecord& event(Event handle);
    Stream create(unsigned flags, int priority);
    void destroy(Stream handle);
    Event create_event(unsigned flags);
    void destroy(Event handle);

    // Work of `ms` on an engine.
    void pass(StreamRecord& stream, Engine engine, double ms);
    void join_all();  // the clock of the default stream is the latest of all
    template <class F>
    void each(F&& f) {
        for (const Stream s : streams_) f(*s);
    }

  private:
    std::set<Stream> streams_;
    std::set<Event> events_;
    StreamRecord legacy_;
    double engines_[4] = {};
    uint64_t count_ = 0;
};

}  // namespace coalesce::cudart
