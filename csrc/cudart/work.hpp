// What a stream or a graph does: launches, copies, callbacks, events.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cudart/abi.hpp"

namespace coalesce::cudart {

struct Function;

struct KernelWork {
    Function* function = nullptr;
    Dim grid, block;
    uint32_t shared_bytes = 0;
    std::vector<std::byte> parameters;  // as the .param space lays them out
    bool cooperative = false;
    Dim cluster{1, 1, 1};         // as the launch asks for it
    std::vector<void*> pointers;  // to values within `copies`, for cudaGraphKernelNodeGetParams
};
// Rows of bytes; a copy of plain bytes is one row.
struct CopyWork {
    std::byte* to = nullptr;
    size_t to_pitch = 0, to_slice = 0;
    const std::byte* from = nullptr;
    size_t from_pitch = 0, from_slice = 0;
    size_t width = 0, height = 1, depth = 1;
    CopyKind kind = CopyKind::any;
    const char* function = "cudaMemcpy";
};
struct SetWork {
    std::byte* to = nullptr;
    size_t pitch = 0;
    uint32_t value = 0, element = 1;
    size_t width = 0, height = 1;  // width in elements
};
struct HostWork {
    HostFunction function = nullptr;
    void* data = nullptr;
    StreamCallback callback = nullptr;  // instead, with the stream
    Stream stream = nullptr;
};
struct GraphWork {
    std::shared_ptr<GraphRecord> graph;
};
struct EmptyWork {};
struct WaitWork {
    Event event = nullptr;
};
struct RecordWork {
    Event event = nullptr;
};
struct AllocWork {
    uint64_t address = 0, bytes = 0;
};
struct FreeWork {
    uint64_t address = 0;
};

using Work = std::variant<KernelWork, CopyWork, SetWork, HostWork, GraphWork, EmptyWork, WaitWork,
                          RecordWork, AllocWork, FreeWork>;

// The number that cudaGraphNodeGetType() has for it.
[[nodiscard]] int type_of(const Work& work);

// Refuses, with the error of the call, what could not be done.
void validate(const Work& work);
// Does it now, in order after what the stream did before.
void perform(const Work& work, StreamRecord& stream);
// Does it now or, if the stream is being captured, adds it to the graph.
void submit(Work work, Stream stream);

// A launch of a kernel; returns its modelled milliseconds. Failure where it cannot start.
double launch(const KernelWork& work);
void validate(const KernelWork& work);

}  // namespace coalesce::cudart
