// The driver API: streams, events and graphs. Their functions are those of the runtime API.
#include "cudart/abi/driver.hpp"
#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"
#include "cudart/state/work.hpp"

namespace coalesce::cudart {

void core::cuLaunchHostFunc(Stream s, HostFunction f, void* data) {
    core::cudaLaunchHostFunc(s, f, data);
}

namespace {
Context owner_of(Stream s) {
    const Context owner = runtime().streams.stream(s).owner;
    return owner ? owner : Contexts::current();  // the default stream has no owner
}
}  // namespace
void core::cuStreamGetCtx(Stream s, Context* context) {
    require(context, cudaErrorInvalidValue);
    *context = owner_of(s);
}
void core::cuStreamGetCtx_v2(Stream s, Context* context, void** green) {
    require(context, cudaErrorInvalidValue);
    *context = owner_of(s);
    if (green) *green = nullptr;
}

// Graphs.

// Nodes whose descriptions differ from those of the runtime API.

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

void core::cuGraphAddKernelNode_v2(Node* n, Graph g, const Node* after, size_t count,
                                   const DriverKernelNode* p) {
    const KernelNodeParameters own = converted(p);
    core::cudaGraphAddKernelNode(n, g, after, count, &own);
}
void core::cuGraphKernelNodeSetParams_v2(Node n, const DriverKernelNode* p) {
    const KernelNodeParameters own = converted(p);
    core::cudaGraphKernelNodeSetParams(n, &own);
}
void core::cuGraphExecKernelNodeSetParams_v2(Executable e, Node n, const DriverKernelNode* p) {
    const KernelNodeParameters own = converted(p);
    core::cudaGraphExecKernelNodeSetParams(e, n, &own);
}
void core::cuGraphAddMemsetNode(Node* n, Graph g, const Node* after, size_t count,
                                const MemsetParameters* p, Context) {
    core::cudaGraphAddMemsetNode(n, g, after, count, p);
}
void core::cuGraphExecMemsetNodeSetParams(Executable e, Node n, const MemsetParameters* p,
                                          Context) {
    core::cudaGraphExecMemsetNodeSetParams(e, n, p);
}
void core::cuGraphAddMemcpyNode(Node* n, Graph g, const Node* after, size_t count,
                                const DriverCopy3D* p, Context) {
    require(p, cudaErrorInvalidValue);
    const Copy3D own = converted(*p);
    core::cudaGraphAddMemcpyNode(n, g, after, count, &own);
}
void core::cuGraphMemcpyNodeSetParams(Node n, const DriverCopy3D* p) {
    require(p, cudaErrorInvalidValue);
    const Copy3D own = converted(*p);
    core::cudaGraphMemcpyNodeSetParams(n, &own);
}
void core::cuGraphExecMemcpyNodeSetParams(Executable e, Node n, const DriverCopy3D* p, Context) {
    require(p, cudaErrorInvalidValue);
    const Copy3D own = converted(*p);
    core::cudaGraphExecMemcpyNodeSetParams(e, n, &own);
}

}  // namespace coalesce::cudart
