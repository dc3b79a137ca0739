// Is read in place of CUDA's header, and adds the functions of older versions of the driver API.
#pragma GCC system_header
#include_next <cuda.h>
#if defined(__cplusplus) && CUDA_VERSION >= 13000 && !defined(COALESCE_OLDER_DRIVER)
#define COALESCE_OLDER_DRIVER
extern "C++" {
static inline CUresult cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device) {
    return cuCtxCreate(context, nullptr, flags, device);
}
static inline CUmemLocation coalescePlace(CUdevice device) {
    CUmemLocation place = {};
    place.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
    place.id = device == CU_DEVICE_CPU ? 0 : device;
    return place;
}
static inline CUresult cuMemPrefetchAsync(CUdeviceptr p, size_t count, CUdevice device,
                                          CUstream stream) {
    return cuMemPrefetchAsync(p, count, coalescePlace(device), 0, stream);
}
static inline CUresult cuMemAdvise(CUdeviceptr p, size_t count, CUmem_advise advice,
                                   CUdevice device) {
    return cuMemAdvise(p, count, advice, coalescePlace(device));
}
static inline CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                                       size_t *count) {
    return cuGraphGetEdges(graph, from, to, nullptr, count);
}
static inline CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes,
                                                  size_t *count) {
    return cuGraphNodeGetDependencies(node, nodes, nullptr, count);
}
static inline CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes,
                                                    size_t *count) {
    return cuGraphNodeGetDependentNodes(node, nodes, nullptr, count);
}
static inline CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
                                              const CUgraphNode *to, size_t count) {
    return cuGraphAddDependencies(graph, from, to, nullptr, count);
}
static inline CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from,
                                                 const CUgraphNode *to, size_t count) {
    return cuGraphRemoveDependencies(graph, from, to, nullptr, count);
}
static inline CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph,
                                      const CUgraphNode *dependencies, size_t count,
                                      CUgraphNodeParams *parameters) {
    return cuGraphAddNode(node, graph, dependencies, nullptr, count, parameters);
}
}  // extern "C++"
#endif
