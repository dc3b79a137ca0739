// Streams and events, with modelled clocks.
//
// METHOD
// All work of a stream is executed immediately, in the order of the calls. CUDA allows this order
// for every program. Time is modelled separately. Each stream has a clock, and so has each engine
// of the GPU (kernels, copies to the GPU, copies from it). Work starts when its stream and its
// engine are free, and ends after its modelled time. Thus copies overlap with kernels of other
// streams. Kernels run one after another, because the model does not let several kernels share the
// GPU.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cudart/abi/abi.hpp"
#include "cudart/state/contexts.hpp"
#include "cudart/state/order.hpp"

namespace coalesce::cudart {

// Which calls are forbidden during a capture (cudaStreamCaptureMode). Calls that wait for the GPU
// or allocate memory are not captured, so a program that needs them would make a wrong graph.
enum class CaptureMode : int {
    global,      // such calls are forbidden in all threads
    own_thread,  // only in the thread that captures
    relaxed,     // such calls are allowed
};

// A stream.
struct StreamRecord {
    uint64_t id = 0;
    unsigned flags = 0;
    int priority = 0;
    double clock = 0;  // modelled time in ms
    // For the order of operations (order.hpp): the number of the stream in clocks, the number of
    // its operations, what has ended at its end, and the number of operations at the last query
    // that returned cudaErrorNotReady.
    uint64_t timeline = 0, operations = 0, asked = 0;
    Clock end;
    bool legacy = false;                     // the default stream of all host threads
    void* caller = nullptr;                  // the return address of the call that made the stream
    [[nodiscard]] std::string name() const;  // "stream 2", for messages
    Context owner = nullptr;
    std::map<int, StreamAttribute> attributes;  // the key is the number in cudaLaunchAttributeID
    // The following members are for a stream that is being captured.
    GraphRecord* capture = nullptr;
    bool owns_capture = true;        // false: the stream joined the capture through an event
    StreamRecord* origin = nullptr;  // the stream in which the capture began
    // The following three are valid for the origin of a capture. A mistake during the capture
    // invalidates it: the graph cannot be used, and only cudaStreamEndCapture() is allowed.
    bool invalidated = false;
    CaptureMode mode = CaptureMode::global;
    std::thread::id thread;  // the thread that began the capture
    std::vector<Node> last;  // the nodes on which the next captured node depends
    std::shared_ptr<GraphRecord> captured;
};

// An event. If it was recorded in a captured stream, it stands for nodes of the graph.
struct EventRecord {
    unsigned flags = 0;
    bool recorded = false;
    double time = 0;  // modelled time in ms
    // For the order of operations: what has ended when the event has, the number of the recording,
    // and whether a query has returned cudaErrorNotReady since.
    Clock ended = {};
    uint64_t number = 0;
    bool asked = false;
    Context owner = nullptr;
    // The captured stream in which the event was recorded; null if there is none.
    StreamRecord* capture = nullptr;
    std::vector<Node> nodes;
};

// The parts of the GPU that execute work at the same time.
enum class Engine : uint8_t { none, kernels, to_device, to_host };

class Streams {
  public:
    Streams() { legacy_.legacy = true; }
    StreamRecord& stream(Stream handle);  // throws Failure if there is no such stream
    EventRecord& event(Event handle);
    Stream create(unsigned flags, int priority);
    void destroy(Stream handle);
    Event create_event(unsigned flags);
    void destroy(Event handle);
    void destroy_all(Context owner);

    // Throws if a capture forbids calls that wait for the GPU or allocate memory in this thread.
    // The call invalidates the capture. `all_modes`: also captures of the mode `relaxed` forbid it.
    void refuse_in_capture(bool all_modes = false);
    // Throws if work in the default stream would have to wait for a stream that is being captured.
    void refuse_implicit_wait(Stream handle);
    // Takes a stream, and all streams that joined its capture, out of the capture.
    void end_capture(StreamRecord& origin);
    [[nodiscard]] static CaptureMode exchange_mode(CaptureMode mode);  // of this thread

    // Models work of `ms` milliseconds on an engine.
    void pass(StreamRecord& stream, Engine engine, double ms);
    // Sets the clock of the default stream to the latest of all clocks.
    void join_all();
    template <class F>
    void each(F&& f) {
        for (const Stream s : streams_) f(*s);
        for (auto& [thread, s] : per_thread_) f(s);
    }

  private:
    std::set<Stream> streams_;
    std::set<Event> events_;
    StreamRecord legacy_;
    std::map<std::thread::id, StreamRecord> per_thread_;
    template <class F>
    void each_capture(F&& f) {
        each([&](StreamRecord& s) {
            if (s.capture && s.origin == &s) f(s);
        });
    }

    double engines_[4] = {};
    uint64_t count_ = 0;
};

}  // namespace coalesce::cudart
