// The driver API: streams, events and graphs. Their functions are those of the runtime API.
#include "cudart/abi/driver.hpp"
#include "cudart/driver/driver.hpp"
#include "cudart/state/runtime.hpp"
#include "cudart/state/work.hpp"

namespace coalesce::cudart {

FORWARD(cuStreamCreate, cudaStreamCreateWithFlags, (Stream * s, unsigned flags), (s, flags))
FORWARD(cuStreamCreateWithPriority, cudaStreamCreateWithPriority,
        (Stream * s, unsigned flags, int priority), (s, flags, priority))
FORWARD(cuStreamDestroy_v2, cudaStreamDestroy, (Stream s), (s))
FORWARD(cuStreamSynchronize, cudaStreamSynchronize, (Stream s), (s))
FORWARD(cuStreamQuery, cudaStreamQuery, (Stream s), (s))
FORWARD(cuStreamWaitEvent, cudaStreamWaitEvent, (Stream s, Event e, unsigned flags), (s, e, flags))
FORWARD(cuStreamGetPriority, cudaStreamGetPriority, (Stream s, int* priority), (s, priority))
FORWARD(cuStreamGetFlags, cudaStreamGetFlags, (Stream s, unsigned* flags), (s, flags))
FORWARD(cuStreamGetId, cudaStreamGetId, (Stream s, unsigned long long* id), (s, id))
FORWARD(cuStreamGetDevice, cudaStreamGetDevice, (Stream s, int* device), (s, device))
FORWARD(cuStreamAddCallback, cudaStreamAddCallback,
        (Stream s, StreamCallback callback, void* data, unsigned flags), (s, callback, data, flags))
FORWARD(cuLaunchHostFunc, cudaLaunchHostFunc, (Stream s, HostFunction f, void* data), (s, f, data))
FORWARD(cuStreamAttachMemAsync, cudaStreamAttachMemAsync,
        (Stream s, void* p, size_t length, unsigned flags), (s, p, length, flags))
FORWARD(cuStreamSetAttribute, cudaStreamSetAttribute,
        (Stream s, int number, const StreamAttribute* value), (s, number, value))
FORWARD(cuStreamGetAttribute, cudaStreamGetAttribute,
        (Stream s, int number, StreamAttribute* value), (s, number, value))
FORWARD(cuStreamCopyAttributes, cudaStreamCopyAttributes, (Stream to, Stream from), (to, from))
FORWARD(cuStreamBeginCapture_v2, cudaStreamBeginCapture, (Stream s, int mode), (s, mode))
FORWARD(cuStreamBeginCaptureToGraph, cudaStreamBeginCaptureToGraph,
        (Stream s, Graph g, const Node* after, const EdgeData* edges, size_t count, int mode),
        (s, g, after, edges, count, mode))
FORWARD(cuStreamEndCapture, cudaStreamEndCapture, (Stream s, Graph* g), (s, g))
FORWARD(cuStreamIsCapturing, cudaStreamIsCapturing, (Stream s, int* status), (s, status))
FORWARD(cuStreamGetCaptureInfo_v3, cudaStreamGetCaptureInfo,
        (Stream s, int* status, unsigned long long* id, Graph* g, const Node** after,
         const EdgeData** edges, size_t* count),
        (s, status, id, g, after, edges, count))
FORWARD(cuStreamUpdateCaptureDependencies_v2, cudaStreamUpdateCaptureDependencies,
        (Stream s, Node* after, const EdgeData* edges, size_t count, unsigned flags),
        (s, after, edges, count, flags))
FORWARD(cuThreadExchangeStreamCaptureMode, cudaThreadExchangeStreamCaptureMode, (int* mode), (mode))

namespace {
Context owner_of(Stream s) {
    const Context owner = runtime().streams.stream(s).owner;
    return owner ? owner : Contexts::current();  // the default stream has no owner
}
}  // namespace
CUDRIVER(cuStreamGetCtx)(Stream s, Context* context) {
    return driver_call("cuStreamGetCtx", Needs::context, Waits::no, [&] {
        require(context, cudaErrorInvalidValue);
        *context = owner_of(s);
    });
}
CUDRIVER(cuStreamGetCtx_v2)(Stream s, Context* context, void** green) {
    return driver_call("cuStreamGetCtx", Needs::context, Waits::no, [&] {
        require(context, cudaErrorInvalidValue);
        *context = owner_of(s);
        if (green) *green = nullptr;
    });
}

FORWARD(cuEventCreate, cudaEventCreateWithFlags, (Event * e, unsigned flags), (e, flags))
FORWARD(cuEventDestroy_v2, cudaEventDestroy, (Event e), (e))
FORWARD(cuEventRecord, cudaEventRecord, (Event e, Stream s), (e, s))
FORWARD(cuEventRecordWithFlags, cudaEventRecordWithFlags, (Event e, Stream s, unsigned flags),
        (e, s, flags))
FORWARD(cuEventQuery, cudaEventQuery, (Event e), (e))
FORWARD(cuEventSynchronize, cudaEventSynchronize, (Event e), (e))
FORWARD(cuEventElapsedTime_v2, cudaEventElapsedTime, (float* ms, Event start, Event end),
        (ms, start, end))

// Graphs.
FORWARD(cuGraphCreate, cudaGraphCreate, (Graph * g, unsigned flags), (g, flags))
FORWARD(cuGraphDestroy, cudaGraphDestroy, (Graph g), (g))
FORWARD(cuGraphClone, cudaGraphClone, (Graph * copy, Graph g), (copy, g))
FORWARD(cuGraphNodeFindInClone, cudaGraphNodeFindInClone, (Node * copy, Node original, Graph clone),
        (copy, original, clone))
FORWARD(cuGraphAddEmptyNode, cudaGraphAddEmptyNode,
        (Node * n, Graph g, const Node* after, size_t count), (n, g, after, count))
FORWARD(cuGraphAddHostNode, cudaGraphAddHostNode,
        (Node * n, Graph g, const Node* after, size_t count, const HostNodeParameters* p),
        (n, g, after, count, p))
FORWARD(cuGraphAddChildGraphNode, cudaGraphAddChildGraphNode,
        (Node * n, Graph g, const Node* after, size_t count, Graph child),
        (n, g, after, count, child))
FORWARD(cuGraphAddEventRecordNode, cudaGraphAddEventRecordNode,
        (Node * n, Graph g, const Node* after, size_t count, Event e), (n, g, after, count, e))
FORWARD(cuGraphAddEventWaitNode, cudaGraphAddEventWaitNode,
        (Node * n, Graph g, const Node* after, size_t count, Event e), (n, g, after, count, e))
FORWARD(cuGraphChildGraphNodeGetGraph, cudaGraphChildGraphNodeGetGraph, (Node n, Graph* child),
        (n, child))
FORWARD(cuGraphNodeGetType, cudaGraphNodeGetType, (Node n, int* type), (n, type))
FORWARD(cuGraphGetNodes, cudaGraphGetNodes, (Graph g, Node* nodes, size_t* count),
        (g, nodes, count))
FORWARD(cuGraphGetRootNodes, cudaGraphGetRootNodes, (Graph g, Node* nodes, size_t* count),
        (g, nodes, count))
FORWARD(cuGraphGetEdges_v2, cudaGraphGetEdges,
        (Graph g, Node* from, Node* to, EdgeData* data, size_t* count), (g, from, to, data, count))
FORWARD(cuGraphNodeGetDependencies_v2, cudaGraphNodeGetDependencies,
        (Node n, Node* nodes, EdgeData* data, size_t* count), (n, nodes, data, count))
FORWARD(cuGraphNodeGetDependentNodes_v2, cudaGraphNodeGetDependentNodes,
        (Node n, Node* nodes, EdgeData* data, size_t* count), (n, nodes, data, count))
FORWARD(cuGraphAddDependencies_v2, cudaGraphAddDependencies,
        (Graph g, const Node* from, const Node* to, const EdgeData* data, size_t count),
        (g, from, to, data, count))
FORWARD(cuGraphRemoveDependencies_v2, cudaGraphRemoveDependencies,
        (Graph g, const Node* from, const Node* to, const EdgeData* data, size_t count),
        (g, from, to, data, count))
FORWARD(cuGraphDestroyNode, cudaGraphDestroyNode, (Node n), (n))
FORWARD(cuGraphHostNodeGetParams, cudaGraphHostNodeGetParams, (Node n, HostNodeParameters* p),
        (n, p))
FORWARD(cuGraphHostNodeSetParams, cudaGraphHostNodeSetParams, (Node n, const HostNodeParameters* p),
        (n, p))
FORWARD(cuGraphMemsetNodeGetParams, cudaGraphMemsetNodeGetParams, (Node n, MemsetParameters* p),
        (n, p))
FORWARD(cuGraphMemsetNodeSetParams, cudaGraphMemsetNodeSetParams,
        (Node n, const MemsetParameters* p), (n, p))
FORWARD(cuGraphInstantiateWithFlags, cudaGraphInstantiateWithFlags,
        (Executable * e, Graph g, unsigned long long flags), (e, g, flags))
FORWARD(cuGraphInstantiateWithParams, cudaGraphInstantiateWithParams,
        (Executable * e, Graph g, InstantiateParameters* p), (e, g, p))
FORWARD(cuGraphExecGetFlags, cudaGraphExecGetFlags, (Executable e, unsigned long long* flags),
        (e, flags))
FORWARD(cuGraphExecDestroy, cudaGraphExecDestroy, (Executable e), (e))
FORWARD(cuGraphUpload, cudaGraphUpload, (Executable e, Stream s), (e, s))
FORWARD(cuGraphLaunch, cudaGraphLaunch, (Executable e, Stream s), (e, s))
FORWARD(cuGraphExecHostNodeSetParams, cudaGraphExecHostNodeSetParams,
        (Executable e, Node n, const HostNodeParameters* p), (e, n, p))
FORWARD(cuGraphExecChildGraphNodeSetParams, cudaGraphExecChildGraphNodeSetParams,
        (Executable e, Node n, Graph child), (e, n, child))
FORWARD(cuGraphNodeSetEnabled, cudaGraphNodeSetEnabled, (Executable e, Node n, unsigned enabled),
        (e, n, enabled))
FORWARD(cuGraphNodeGetEnabled, cudaGraphNodeGetEnabled, (Executable e, Node n, unsigned* enabled),
        (e, n, enabled))
FORWARD(cuGraphExecUpdate_v2, cudaGraphExecUpdate, (Executable e, Graph g, UpdateResult* result),
        (e, g, result))
FORWARD(cuGraphDebugDotPrint, cudaGraphDebugDotPrint, (Graph g, const char* path, unsigned flags),
        (g, path, flags))

// Nodes whose descriptions differ from those of the runtime API.
CUDART(cudaGraphAddKernelNode)
(Node* n, Graph g, const Node* after, size_t count, const KernelNodeParameters* p);
CUDART(cudaGraphKernelNodeSetParams)(Node n, const KernelNodeParameters* p);
CUDART(cudaGraphExecKernelNodeSetParams)(Executable e, Node n, const KernelNodeParameters* p);
CUDART(cudaGraphAddMemsetNode)
(Node* n, Graph g, const Node* after, size_t count, const MemsetParameters* p);
CUDART(cudaGraphExecMemsetNodeSetParams)(Executable e, Node n, const MemsetParameters* p);
CUDART(cudaGraphAddMemcpyNode)(Node* n, Graph g, const Node* after, size_t count, const Copy3D* p);
CUDART(cudaGraphMemcpyNodeSetParams)(Node n, const Copy3D* p);
CUDART(cudaGraphExecMemcpyNodeSetParams)(Executable e, Node n, const Copy3D* p);

namespace {
KernelNodeParameters converted(const DriverKernelNode* p) {
    require(p, cudaErrorInvalidValue);
    return {p->func ? p->func : p->kern,
            {p->gridDimX, p->gridDimY, p->gridDimZ},
            {p->blockDimX, p->blockDimY, p->blockDimZ},
            p->sharedMemBytes,
            p->kernelParams,
            p->extra};
}
}  // namespace

CUDRIVER(cuGraphAddKernelNode_v2)
(Node* n, Graph g, const Node* after, size_t count, const DriverKernelNode* p) {
    return driver_call("cuGraphAddKernelNode", Needs::context, Waits::no, [&] {
        const KernelNodeParameters own = converted(p);
        (void)cudaGraphAddKernelNode(n, g, after, count, &own);
    });
}
CUDRIVER(cuGraphKernelNodeSetParams_v2)(Node n, const DriverKernelNode* p) {
    return driver_call("cuGraphKernelNodeSetParams", Needs::context, Waits::no, [&] {
        const KernelNodeParameters own = converted(p);
        (void)cudaGraphKernelNodeSetParams(n, &own);
    });
}
CUDRIVER(cuGraphExecKernelNodeSetParams_v2)(Executable e, Node n, const DriverKernelNode* p) {
    return driver_call("cuGraphExecKernelNodeSetParams", Needs::context, Waits::no, [&] {
        const KernelNodeParameters own = converted(p);
        (void)cudaGraphExecKernelNodeSetParams(e, n, &own);
    });
}
CUDRIVER(cuGraphAddMemsetNode)
(Node* n, Graph g, const Node* after, size_t count, const MemsetParameters* p, Context) {
    return driver_call("cuGraphAddMemsetNode", Needs::context, Waits::no,
                       [&] { (void)cudaGraphAddMemsetNode(n, g, after, count, p); });
}
CUDRIVER(cuGraphExecMemsetNodeSetParams)(Executable e, Node n, const MemsetParameters* p, Context) {
    return driver_call("cuGraphExecMemsetNodeSetParams", Needs::context, Waits::no,
                       [&] { (void)cudaGraphExecMemsetNodeSetParams(e, n, p); });
}
CUDRIVER(cuGraphAddMemcpyNode)
(Node* n, Graph g, const Node* after, size_t count, const DriverCopy3D* p, Context) {
    return driver_call("cuGraphAddMemcpyNode", Needs::context, Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        const Copy3D own = converted(*p);
        (void)cudaGraphAddMemcpyNode(n, g, after, count, &own);
    });
}
CUDRIVER(cuGraphMemcpyNodeSetParams)(Node n, const DriverCopy3D* p) {
    return driver_call("cuGraphMemcpyNodeSetParams", Needs::context, Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        const Copy3D own = converted(*p);
        (void)cudaGraphMemcpyNodeSetParams(n, &own);
    });
}
CUDRIVER(cuGraphExecMemcpyNodeSetParams)(Executable e, Node n, const DriverCopy3D* p, Context) {
    return driver_call("cuGraphExecMemcpyNodeSetParams", Needs::context, Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        const Copy3D own = converted(*p);
        (void)cudaGraphExecMemcpyNodeSetParams(e, n, &own);
    });
}

}  // namespace coalesce::cudart
