// Streams, events, and the capture of streams into graphs.
#include <algorithm>
#include <cstring>
#include <utility>

#include "cudart/state/api.hpp"
#include "cudart/state/graphs.hpp"
#include "cudart/state/runtime.hpp"
#include "cudart/state/work.hpp"

namespace coalesce::cudart {

namespace {

constexpr unsigned disable_timing = 2, interprocess = 4, event_external = 1;
constexpr int lowest_priority = 0, highest_priority = -5;

Stream created(unsigned flags, int priority) {
    require(flags <= 1, cudaErrorInvalidValue);
    return runtime().streams.create(flags, std::clamp(priority, highest_priority, lowest_priority));
}

// Invalidates the capture to which a stream belongs, and throws.
[[noreturn]] void invalidate(const StreamRecord& stream, Error error, const char* mistake = "") {
    stream.origin->invalidated = true;
    throw Failure{error, mistake};
}

// Throws if the stream is being captured for a graph. CUDA does not allow the program to wait for
// such a stream.
void refuse_capture(const StreamRecord& stream) {
    if (stream.capture)
        invalidate(stream, cudaErrorStreamCaptureUnsupported,
                   "the host waits for a stream that is being captured into a graph");
}

// The values of cudaStreamCaptureStatus.
int status_of(const StreamRecord& stream) {
    if (!stream.capture) return 0;
    return stream.origin->invalidated ? 2 : 1;
}

void begin_capture(Stream s, int mode, std::shared_ptr<GraphRecord> graph) {
    require(mode >= 0 && mode <= 2, cudaErrorInvalidValue);
    StreamRecord& stream = runtime().streams.stream(s);
    // The default stream of all host threads cannot be captured.
    require(!stream.legacy, cudaErrorStreamCaptureUnsupported);
    require(!stream.capture, cudaErrorIllegalState);
    stream.captured = std::move(graph);
    stream.capture = stream.captured.get();
    stream.origin = &stream;
    stream.owns_capture = true;
    stream.mode = CaptureMode(mode);
    stream.thread = std::this_thread::get_id();
    stream.last.clear();
}

void record(Event handle, Stream s, unsigned flags) {
    Runtime& rt = runtime();
    rt.streams.refuse_implicit_wait(s);
    EventRecord& event = rt.streams.event(handle);
    StreamRecord& stream = rt.streams.stream(s);
    if (stream.capture && !(flags & event_external)) {
        event.capture = stream.origin;
        event.nodes = stream.last;
        return;
    }
    submit(RecordWork{handle}, s);
}

void wait_event(Stream s, Event handle, unsigned flags) {
    Runtime& rt = runtime();
    EventRecord& event = rt.streams.event(handle);
    StreamRecord& stream = rt.streams.stream(s);
    if (flags & event_external) return submit(WaitWork{handle}, s);
    if (!event.capture) {
        if (!event.recorded) return;
        if (stream.capture)
            invalidate(stream, cudaErrorStreamCaptureIsolation,
                       "a stream that is being captured waits for an event that was recorded "
                       "outside the capture");
        return submit(WaitWork{handle}, s);
    }
    // A stream that waits for an event of a captured stream joins the capture.
    require(event.capture->capture != nullptr, cudaErrorCapturedEvent);
    rt.streams.refuse_implicit_wait(s);
    require(!stream.legacy, cudaErrorStreamCaptureUnsupported);
    if (!stream.capture) {
        stream.capture = event.capture->capture;
        stream.captured = event.capture->captured;
        stream.origin = event.capture;
        stream.owns_capture = false;
    }
    if (stream.capture != event.capture->capture) {
        event.capture->invalidated = true;
        invalidate(stream, cudaErrorStreamCaptureMerge,
                   "a stream that is being captured waits for an event of another capture");
    }
    for (const Node n : event.nodes)
        if (std::find(stream.last.begin(), stream.last.end(), n) == stream.last.end())
            stream.last.push_back(n);
}

// Throws cudaErrorNotReady, but only once, unless the program has waited for the event.
void require_end(EventRecord& event, const char* mistake = "") {
    Order& order = runtime().order;
    const bool asked = std::exchange(event.asked, true);
    require(asked || order.host_knows(event), cudaErrorNotReady, mistake);
    order.host_waits(event);
}

}  // namespace

void core::cudaStreamCreate(Stream* s) {
    require(s, cudaErrorInvalidValue);
    *s = created(0, 0);
}
void core::cudaStreamCreateWithFlags(Stream* s, unsigned flags) {
    require(s, cudaErrorInvalidValue);
    *s = created(flags, 0);
}
void core::cudaStreamCreateWithPriority(Stream* s, unsigned flags, int priority) {
    require(s, cudaErrorInvalidValue);
    *s = created(flags, priority);
}
void core::cudaStreamDestroy(Stream s) { runtime().streams.destroy(s); }
void core::cudaStreamSynchronize(Stream s) {
    StreamRecord& stream = runtime().streams.stream(s);
    refuse_capture(stream);
    runtime().order.host_waits(stream);
}
// A query of work returns cudaErrorNotReady once if the program has not waited for the work before:
// on a GPU, the work would still run. The next query finds that it has ended.
void core::cudaStreamQuery(Stream s) {
    Runtime& rt = runtime();
    StreamRecord& stream = rt.streams.stream(s);
    refuse_capture(stream);
    const bool asked = std::exchange(stream.asked, stream.operations) == stream.operations;
    require(asked || rt.order.host_knows(stream), cudaErrorNotReady);
    rt.order.host_waits(stream);
}
void core::cudaStreamWaitEvent(Stream s, Event event, unsigned flags) {
    wait_event(s, event, flags);
}
void core::cudaStreamGetPriority(Stream s, int* priority) {
    require(priority, cudaErrorInvalidValue);
    *priority = runtime().streams.stream(s).priority;
}
void core::cudaStreamGetFlags(Stream s, unsigned* flags) {
    require(flags, cudaErrorInvalidValue);
    *flags = runtime().streams.stream(s).flags;
}
// Attributes of streams. Most of them are hints that change only the time on a GPU; the model of
// time ignores them. The priority is stored, as by cudaStreamCreateWithPriority().
namespace {

constexpr int access_policy = 1, synchronization = 3, priority_attribute = 8, sync_domain_map = 9,
              sync_domain = 10;

void check_attribute(int number) {
    for (const int known :
         {access_policy, synchronization, priority_attribute, sync_domain_map, sync_domain})
        if (number == known) return;
    throw Failure{cudaErrorInvalidValue, "streams do not have this attribute"};
}

}  // namespace

void core::cudaStreamSetAttribute(Stream s, int number, const StreamAttribute* value) {
    StreamRecord& stream = runtime().streams.stream(s);
    check_attribute(number);
    require(value, cudaErrorInvalidValue);
    if (number == access_policy)
        print_once(
            "coalesce: the access policy of a stream (persisting L2 accesses) is not "
            "modelled");
    if (number == priority_attribute) {
        int priority = 0;
        std::memcpy(&priority, value, sizeof priority);
        stream.priority = std::clamp(priority, highest_priority, lowest_priority);
    }
    stream.attributes[number] = *value;
}
void core::cudaStreamGetAttribute(Stream s, int number, StreamAttribute* value) {
    const StreamRecord& stream = runtime().streams.stream(s);
    check_attribute(number);
    require(value, cudaErrorInvalidValue);
    const auto known = stream.attributes.find(number);
    *value = known == stream.attributes.end() ? StreamAttribute{} : known->second;
    if (number == priority_attribute) std::memcpy(value, &stream.priority, sizeof stream.priority);
}
void core::cudaStreamCopyAttributes(Stream to, Stream from) {
    runtime().streams.stream(to).attributes = runtime().streams.stream(from).attributes;
}
// Persisting accesses are not modelled, so there is nothing to reset.
void core::cudaCtxResetPersistingL2Cache() {}

void core::cudaStreamGetId(Stream s, unsigned long long* id) {
    require(id, cudaErrorInvalidValue);
    *id = runtime().streams.stream(s).id;
}
void core::cudaStreamGetDevice(Stream s, int* device) {
    require(device, cudaErrorInvalidValue);
    runtime().streams.stream(s);
    *device = 0;
}
void core::cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    if (least) *least = lowest_priority;
    if (greatest) *greatest = highest_priority;
}

void core::cudaEventCreateWithFlags(Event* event, unsigned flags) {
    require(event && flags < 8, cudaErrorInvalidValue);
    require(!(flags & interprocess) || (flags & disable_timing), cudaErrorInvalidValue,
            "cudaEventInterprocess needs cudaEventDisableTiming");
    *event = runtime().streams.create_event(flags);
}
void core::cudaEventCreate(Event* event) {
    require(event, cudaErrorInvalidValue);
    *event = runtime().streams.create_event(0);
}
void core::cudaEventDestroy(Event event) { runtime().streams.destroy(event); }
void core::cudaEventRecord(Event event, Stream s) { record(event, s, 0); }
void core::cudaEventRecordWithFlags(Event event, Stream s, unsigned flags) {
    record(event, s, flags);
}
void core::cudaEventSynchronize(Event handle) {
    const EventRecord& event = runtime().streams.event(handle);
    runtime().streams.refuse_in_capture();
    if (event.capture && event.capture->capture) invalidate(*event.capture, cudaErrorCapturedEvent);
    require(!event.capture, cudaErrorCapturedEvent);
    runtime().order.host_waits(event);
}
void core::cudaEventQuery(Event handle) {
    EventRecord& event = runtime().streams.event(handle);
    runtime().streams.refuse_in_capture();
    require(!event.capture, cudaErrorCapturedEvent);
    require_end(event);
}
void core::cudaEventElapsedTime(float* ms, Event start, Event end) {
    require(ms, cudaErrorInvalidValue);
    Runtime& rt = runtime();
    EventRecord& a = rt.streams.event(start);
    EventRecord& b = rt.streams.event(end);
    rt.streams.refuse_in_capture();
    require(a.recorded && b.recorded && !((a.flags | b.flags) & disable_timing),
            cudaErrorInvalidResourceHandle);
    require_end(a.number > b.number ? a : b,
                "cudaEventElapsedTime() was called before the host had waited for the event, so it "
                "returns cudaErrorNotReady; call cudaEventSynchronize() first");
    if (rt.settings.check) {
        print_once(
            "coalesce: cudaEventElapsedTime() counts kernels as 0 ms, because a check models no "
            "times");
    } else {
        print_once("coalesce: cudaEventElapsedTime() returns modelled times of " +
                   std::string(rt.gpu.title) + ", not measured ones");
        for (const std::string& kernel : rt.report.untimed())
            print_once("coalesce: cudaEventElapsedTime() counts launches of " + kernel +
                       " as 0 ms, because their time is not modelled");
    }
    *ms = float(b.time - a.time);
}

void core::cudaStreamBeginCapture(Stream s, int mode) {
    begin_capture(s, mode, std::make_shared<GraphRecord>());
}
void core::cudaStreamBeginCaptureToGraph(Stream s, Graph graph, const Node* after, const EdgeData*,
                                         size_t count, int mode) {
    begin_capture(s, mode, kept_graph(graph));
    runtime().streams.stream(s).last.assign(after, after + count);
}
void core::cudaStreamEndCapture(Stream s, Graph* graph) {
    require(graph, cudaErrorInvalidValue);
    Runtime& rt = runtime();
    StreamRecord& stream = rt.streams.stream(s);
    require(stream.capture, cudaErrorIllegalState);
    if (!stream.owns_capture) invalidate(stream, cudaErrorStreamCaptureUnmatched);
    require(stream.mode == CaptureMode::relaxed || stream.thread == std::this_thread::get_id(),
            cudaErrorStreamCaptureWrongThread,
            "another thread began the capture; only the mode cudaStreamCaptureModeRelaxed "
            "allows this");
    *graph = nullptr;
    const bool invalidated = stream.invalidated;
    const std::shared_ptr<GraphRecord> made = stream.captured;
    // The stream must have waited for all work of the streams that joined its capture.
    bool unjoined = false;
    rt.streams.each([&](StreamRecord& other) {
        if (other.origin != &stream || &other == &stream) return;
        for (const Node n : other.last) {
            const bool used =
                std::any_of(made->nodes.begin(), made->nodes.end(), [&](const auto& m) {
                    return std::find(m->after.begin(), m->after.end(), n) != m->after.end();
                });
            const bool joined =
                std::find(stream.last.begin(), stream.last.end(), n) != stream.last.end();
            unjoined = unjoined || !(used || joined);
        }
    });
    rt.streams.end_capture(stream);
    require(!invalidated, cudaErrorStreamCaptureInvalidated,
            "a call that is not allowed during a capture has invalidated the graph");
    require(!unjoined, cudaErrorStreamCaptureUnjoined,
            "a stream joined the capture of another stream, and no event joined it back before "
            "the end");
    *graph = keep_graph(made);
}
void core::cudaStreamIsCapturing(Stream s, int* status) {
    require(status, cudaErrorInvalidValue);
    runtime().streams.refuse_implicit_wait(s);
    *status = status_of(runtime().streams.stream(s));
}
void core::cudaStreamGetCaptureInfo(Stream s, int* status, unsigned long long* id, Graph* graph,
                                    const Node** after, const EdgeData** edges, size_t* count) {
    StreamRecord& stream = runtime().streams.stream(s);
    require(status, cudaErrorInvalidValue);
    *status = status_of(stream);
    if (id) *id = stream.capture ? stream.origin->timeline : 0;
    if (graph) *graph = stream.capture ? keep_graph(stream.captured) : nullptr;
    if (after) *after = stream.last.data();
    if (edges) *edges = nullptr;
    if (count) *count = stream.last.size();
}
void core::cudaStreamUpdateCaptureDependencies(Stream s, Node* after, const EdgeData*, size_t count,
                                               unsigned flags) {
    StreamRecord& stream = runtime().streams.stream(s);
    require(stream.capture, cudaErrorIllegalState);
    if (flags == 1) stream.last.clear();  // replaces the dependencies instead of adding to them
    stream.last.insert(stream.last.end(), after, after + count);
}
void core::cudaThreadExchangeStreamCaptureMode(int* mode) {
    require(mode && *mode >= 0 && *mode <= 2, cudaErrorInvalidValue);
    *mode = int(Streams::exchange_mode(CaptureMode(*mode)));
}

}  // namespace coalesce::cudart
