// The kinds of work of streams and graphs: launches, copies, callbacks, events.
//
// A function of the API makes one of these structs and passes it to submit(). If the stream is
// being captured, submit() adds the work to the graph. Otherwise it executes the work at once.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "cudart/abi/abi.hpp"
#include "cudart/state/api.hpp"

namespace coalesce::cudart {

struct Function;

// The largest pitch of a copy or a fill, in bytes (the device attribute memPitch).
inline constexpr size_t max_pitch = 0x7fffffff;

// Returns the distance in bytes from the first to the last byte of a copy of rows. If the distance
// does not fit into 64 bits, returns the largest number; no allocation has that many bytes.
[[nodiscard]] uint64_t extent(size_t width, size_t pitch, size_t height, size_t slice,
                              size_t depth);

// A launch of a kernel.
struct KernelWork : Launch {
    Function* function = nullptr;
};
// A copy of rows of bytes. A copy of contiguous bytes has one row.
struct CopyWork {
    std::byte* to = nullptr;
    size_t to_pitch = 0, to_slice = 0;
    const std::byte* from = nullptr;
    size_t from_pitch = 0, from_slice = 0;
    size_t width = 0, height = 1, depth = 1;
    CopyKind kind = CopyKind::any;
    bool to_array = false, from_array = false;  // the end is in a CUDA array
    const char* function = called();
};
// A fill of rows of elements with a value.
struct SetWork {
    std::byte* to = nullptr;
    size_t pitch = 0;
    uint32_t value = 0, element = 1;
    size_t width = 0, height = 1;  // the width is in elements
    const char* function = called();
};
// A call of a function of the program, or of a callback of a stream.
struct HostWork {
    HostFunction function = nullptr;
    void* data = nullptr;
    // If this function is not null, it is called with the stream. Otherwise `function` is called.
    StreamCallback callback = nullptr;
    Stream stream = nullptr;
};
// The execution of a graph.
struct GraphWork {
    std::shared_ptr<GraphRecord> graph;
};
// A node that does nothing.
struct EmptyWork {};
// A wait for an event.
struct WaitWork {
    Event event = nullptr;
};
// The recording of an event.
struct RecordWork {
    Event event = nullptr;
};
// An allocation in the order of a stream or a graph. It is made before this work is submitted.
struct AllocWork {
    uint64_t address = 0;
    const char* function = called();
};
// The end of an allocation in the order of a stream or a graph.
struct FreeWork {
    uint64_t address = 0;
    const char* function = called();
};

using Work = std::variant<KernelWork, CopyWork, SetWork, HostWork, GraphWork, EmptyWork, WaitWork,
                          RecordWork, AllocWork, FreeWork>;

// Returns the number of this kind of work in cudaGraphNodeGetType().
[[nodiscard]] int type_of(const Work& work);

// Throws the error that the call must return if the work cannot be executed.
void validate(const Work& work);
// Executes the work now, after the earlier work of the stream.
void perform(const Work& work, StreamRecord& stream);
// Executes the work now. If the stream is being captured, adds the work to the graph instead.
void submit(Work work, Stream stream);

// Returns the work of a launch. `arguments` has a pointer to the value of each parameter. If the
// values are in one buffer instead, `extra` describes this buffer, as for cuLaunchKernel().
[[nodiscard]] KernelWork kernel_work(const void* host, Dim grid, Dim block, void** arguments,
                                     size_t shared_bytes, void** extra = nullptr);
// Takes over the attributes of cudaLaunchKernelEx().
void take_attributes(KernelWork& work, const LaunchAttribute* attributes, unsigned count);
// Submits a launch with these attributes.
void launch_with(KernelWork work, const LaunchAttribute* attributes, unsigned count, Stream stream);
[[nodiscard]] CopyWork copy_of(void* to, const void* from, size_t bytes, CopyKind kind);
[[nodiscard]] CopyWork copy_of(const Copy3D& p);
[[nodiscard]] CopyWork copy_to_symbol(const void* symbol, const void* from, size_t bytes,
                                      size_t offset, CopyKind kind);
[[nodiscard]] CopyWork copy_from_symbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                        CopyKind kind);

// Launches a kernel and returns its modelled milliseconds. Throws Failure if it cannot start.
double launch(const KernelWork& work, StreamRecord& stream);
void validate(const KernelWork& work);

}  // namespace coalesce::cudart
