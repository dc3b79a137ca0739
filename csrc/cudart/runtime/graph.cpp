// Functions that build, change and launch graphs.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "cudart/state/api.hpp"
#include "cudart/state/graphs.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {

// Returns a graph that the program owns, or a child of such a graph.
GraphRecord& graph_of(Graph handle) {
    require(handle, cudaErrorInvalidValue);
    const auto known = runtime().graphs.find(handle);
    require(known != runtime().graphs.end(), cudaErrorInvalidValue);
    return *known->second;
}
NodeRecord& node_of(Node handle) {
    for (const auto& [graph, record] : runtime().graphs)
        if (record->has(handle)) return *handle;
    throw Failure{cudaErrorInvalidValue};
}
ExecutableRecord& executable_of(Executable handle) {
    require(runtime().executables.contains(handle), cudaErrorInvalidValue);
    return *handle;
}
// Returns the node of an executable graph that was made from `node`.
NodeRecord& node_in(Executable handle, Node node) {
    const Node copy = executable_of(handle).graph->of_original(node);
    require(copy, cudaErrorInvalidValue);
    return *copy;
}

void add(Node* made, Graph graph, const Node* after, size_t count, Work work) {
    require(made && (after || count == 0), cudaErrorInvalidValue);
    *made = graph_of(graph).add(std::move(work), std::vector<Node>(after, after + count));
}

template <class W>
W& work_of(NodeRecord& node) {
    W* const work = std::get_if<W>(&node.work);
    require(work, cudaErrorInvalidValue);
    return *work;
}

// These functions return the work that the parameters of a node describe.
KernelWork kernel_of(const KernelNodeParameters* p) {
    require(p && p->func, cudaErrorInvalidValue);
    KernelWork w =
        kernel_work(p->func, p->gridDim, p->blockDim, p->kernelParams, p->sharedMemBytes, p->extra);
    validate(w);
    return w;
}
SetWork set_of(const MemsetParameters* p) {
    require(
        p && (p->elementSize == 1 || p->elementSize == 2 || p->elementSize == 4) &&
            (p->height <= 1 || (p->pitch <= max_pitch && p->width <= p->pitch / p->elementSize)),
        cudaErrorInvalidValue);
    SetWork s;
    s.to = static_cast<std::byte*>(p->dst);
    s.pitch = p->pitch, s.value = p->value, s.element = p->elementSize, s.width = p->width;
    s.height = p->height;
    return s;
}
CopyWork box_of(const Copy3D* p) {
    require(p, cudaErrorInvalidValue);
    return copy_of(*p);
}
HostWork host_of(const HostNodeParameters* p) {
    require(p && p->fn, cudaErrorInvalidValue);
    HostWork w;
    w.function = p->fn, w.data = p->userData;
    return w;
}

// Copies as many handles as fit. Without an array, sets `count` to the number of handles.
void copy_handles(const std::vector<Node>& handles, Node* nodes, size_t* count) {
    require(count, cudaErrorInvalidValue);
    if (nodes) {
        for (size_t i = 0; i < *count; ++i) nodes[i] = i < handles.size() ? handles[i] : nullptr;
        *count = std::min(*count, handles.size());
    } else {
        *count = handles.size();
    }
}

std::vector<Node> dependents(Node node) {
    std::vector<Node> nodes;
    for (const auto& n : node->graph->nodes)
        if (std::find(n->after.begin(), n->after.end(), node) != n->after.end())
            nodes.push_back(n.get());
    return nodes;
}

Executable instantiated(Graph graph, unsigned long long flags) {
    (void)graph_of(graph).order();
    auto made = std::make_unique<ExecutableRecord>();
    made->graph = graph_of(graph).clone();
    made->flags = flags;
    return *runtime().executables.insert(made.release()).first;
}

}  // namespace

Graph keep_graph(std::shared_ptr<GraphRecord> graph) {
    const Graph handle = graph.get();
    runtime().graphs[handle] = std::move(graph);
    return handle;
}
std::shared_ptr<GraphRecord> kept_graph(Graph graph) {
    (void)graph_of(graph);
    return runtime().graphs.at(graph);
}

void core::cudaGraphCreate(Graph* graph, unsigned flags) {
    require(graph && flags == 0, cudaErrorInvalidValue);
    *graph = keep_graph(std::make_shared<GraphRecord>());
}
void core::cudaGraphDestroy(Graph graph) {
    (void)graph_of(graph);
    runtime().graphs.erase(graph);
}
void core::cudaGraphClone(Graph* copy, Graph graph) {
    require(copy, cudaErrorInvalidValue);
    *copy = keep_graph(graph_of(graph).clone());
}
void core::cudaGraphNodeFindInClone(Node* copy, Node original, Graph clone) {
    require(copy, cudaErrorInvalidValue);
    *copy = graph_of(clone).of_original(original);
    require(*copy, cudaErrorInvalidValue);
}

void core::cudaGraphAddKernelNode(Node* n, Graph g, const Node* after, size_t count,
                                  const KernelNodeParameters* p) {
    add(n, g, after, count, kernel_of(p));
}
void core::cudaGraphAddMemcpyNode(Node* n, Graph g, const Node* after, size_t count,
                                  const Copy3D* p) {
    add(n, g, after, count, box_of(p));
}
void core::cudaGraphAddMemcpyNode1D(Node* n, Graph g, const Node* after, size_t count, void* to,
                                    const void* from, size_t bytes, CopyKind kind) {
    add(n, g, after, count, copy_of(to, from, bytes, kind));
}
void core::cudaGraphAddMemcpyNodeToSymbol(Node* n, Graph g, const Node* after, size_t count,
                                          const void* symbol, const void* from, size_t bytes,
                                          size_t offset, CopyKind kind) {
    add(n, g, after, count, copy_to_symbol(symbol, from, bytes, offset, kind));
}
void core::cudaGraphAddMemcpyNodeFromSymbol(Node* n, Graph g, const Node* after, size_t count,
                                            void* to, const void* symbol, size_t bytes,
                                            size_t offset, CopyKind kind) {
    add(n, g, after, count, copy_from_symbol(to, symbol, bytes, offset, kind));
}
void core::cudaGraphAddMemsetNode(Node* n, Graph g, const Node* after, size_t count,
                                  const MemsetParameters* p) {
    add(n, g, after, count, set_of(p));
}
void core::cudaGraphAddHostNode(Node* n, Graph g, const Node* after, size_t count,
                                const HostNodeParameters* p) {
    add(n, g, after, count, host_of(p));
}
void core::cudaGraphAddEmptyNode(Node* n, Graph g, const Node* after, size_t count) {
    add(n, g, after, count, EmptyWork{});
}
void core::cudaGraphAddEventRecordNode(Node* n, Graph g, const Node* after, size_t count, Event e) {
    runtime().streams.event(e);
    add(n, g, after, count, RecordWork{e});
}
void core::cudaGraphAddEventWaitNode(Node* n, Graph g, const Node* after, size_t count, Event e) {
    runtime().streams.event(e);
    add(n, g, after, count, WaitWork{e});
}
void core::cudaGraphAddChildGraphNode(Node* n, Graph g, const Node* after, size_t count,
                                      Graph child) {
    add(n, g, after, count, GraphWork{graph_of(child).clone()});
}
void core::cudaGraphChildGraphNodeGetGraph(Node n, Graph* child) {
    require(child, cudaErrorInvalidValue);
    *child = keep_graph(work_of<GraphWork>(node_of(n)).graph);
}
// The address of a graph's memory is known when its node is added, as on a GPU.
void core::cudaGraphAddMemAllocNode(Node* n, Graph g, const Node* after, size_t count,
                                    AllocNodeParameters* p) {
    require(p && p->bytesize, cudaErrorInvalidValue);
    Allocation& a = runtime().memory.allocate(p->bytesize, Kind::device);
    a.stays = true;
    p->dptr = reinterpret_cast<void*>(a.address);
    add(n, g, after, count, AllocWork{a.address});
}
void core::cudaGraphAddMemFreeNode(Node* n, Graph g, const Node* after, size_t count,
                                   void* pointer) {
    require(runtime().memory.find(pointer), cudaErrorInvalidValue);
    add(n, g, after, count, FreeWork{reinterpret_cast<uint64_t>(pointer)});
}

void core::cudaGraphNodeGetType(Node n, int* type) {
    require(type, cudaErrorInvalidValue);
    *type = type_of(node_of(n).work);
}
void core::cudaGraphGetNodes(Graph g, Node* nodes, size_t* count) {
    std::vector<Node> all;
    for (const auto& n : graph_of(g).nodes) all.push_back(n.get());
    copy_handles(all, nodes, count);
}
void core::cudaGraphGetRootNodes(Graph g, Node* nodes, size_t* count) {
    std::vector<Node> roots;
    for (const auto& n : graph_of(g).nodes)
        if (n->after.empty()) roots.push_back(n.get());
    copy_handles(roots, nodes, count);
}
void core::cudaGraphGetEdges(Graph g, Node* from, Node* to, EdgeData* data, size_t* count) {
    std::vector<Node> firsts, seconds;
    for (const auto& n : graph_of(g).nodes)
        for (const Node before : n->after) firsts.push_back(before), seconds.push_back(n.get());
    require(count && !from == !to, cudaErrorInvalidValue);
    size_t room = *count;
    if (from && data)
        for (size_t i = 0; i < std::min(room, firsts.size()); ++i) data[i] = {};
    copy_handles(firsts, from, count);
    copy_handles(seconds, to, &room);
}
void core::cudaGraphNodeGetDependencies(Node n, Node* nodes, EdgeData*, size_t* count) {
    copy_handles(node_of(n).after, nodes, count);
}
void core::cudaGraphNodeGetDependentNodes(Node n, Node* nodes, EdgeData*, size_t* count) {
    copy_handles(dependents(&node_of(n)), nodes, count);
}
void core::cudaGraphAddDependencies(Graph g, const Node* from, const Node* to, const EdgeData*,
                                    size_t count) {
    require((from && to) || count == 0, cudaErrorInvalidValue);
    for (size_t i = 0; i < count; ++i) {
        require(graph_of(g).has(from[i]) && graph_of(g).has(to[i]), cudaErrorInvalidValue);
        to[i]->after.push_back(from[i]);
    }
}
void core::cudaGraphRemoveDependencies(Graph g, const Node* from, const Node* to, const EdgeData*,
                                       size_t count) {
    require((from && to) || count == 0, cudaErrorInvalidValue);
    for (size_t i = 0; i < count; ++i) {
        require(graph_of(g).has(to[i]) && std::erase(to[i]->after, from[i]) > 0,
                cudaErrorInvalidValue);
    }
}
void core::cudaGraphDestroyNode(Node n) {
    GraphRecord& graph = *node_of(n).graph;
    for (const auto& other : graph.nodes) std::erase(other->after, n);
    std::erase_if(graph.nodes, [&](const auto& own) { return own.get() == n; });
}

void core::cudaGraphKernelNodeSetParams(Node n, const KernelNodeParameters* p) {
    work_of<KernelWork>(node_of(n)) = kernel_of(p);
}
void core::cudaGraphMemsetNodeSetParams(Node n, const MemsetParameters* p) {
    work_of<SetWork>(node_of(n)) = set_of(p);
}
void core::cudaGraphMemcpyNodeSetParams(Node n, const Copy3D* p) {
    work_of<CopyWork>(node_of(n)) = box_of(p);
}
void core::cudaGraphHostNodeSetParams(Node n, const HostNodeParameters* p) {
    work_of<HostWork>(node_of(n)) = host_of(p);
}
void core::cudaGraphHostNodeGetParams(Node n, HostNodeParameters* p) {
    require(p, cudaErrorInvalidValue);
    const HostWork& w = work_of<HostWork>(node_of(n));
    *p = {w.function, w.data};
}
void core::cudaGraphMemsetNodeGetParams(Node n, MemsetParameters* p) {
    require(p, cudaErrorInvalidValue);
    const SetWork& w = work_of<SetWork>(node_of(n));
    *p = {w.to, w.pitch, w.value, w.element, w.width, w.height};
}

void core::cudaGraphInstantiate(Executable* e, Graph g, unsigned long long flags) {
    require(e, cudaErrorInvalidValue);
    *e = instantiated(g, flags);
}
void core::cudaGraphInstantiateWithFlags(Executable* e, Graph g, unsigned long long flags) {
    require(e, cudaErrorInvalidValue);
    *e = instantiated(g, flags);
}
void core::cudaGraphInstantiateWithParams(Executable* e, Graph g, InstantiateParameters* p) {
    require(e && p, cudaErrorInvalidValue);
    *e = instantiated(g, p->flags);
    p->result_out = 0;
}
void core::cudaGraphExecGetFlags(Executable e, unsigned long long* flags) {
    require(flags, cudaErrorInvalidValue);
    *flags = executable_of(e).flags;
}
void core::cudaGraphExecDestroy(Executable e) {
    (void)executable_of(e);
    runtime().executables.erase(e);
    delete e;
}
void core::cudaGraphUpload(Executable e, Stream s) {
    (void)executable_of(e);
    runtime().streams.stream(s);
}
void core::cudaGraphLaunch(Executable e, Stream s) { submit(GraphWork{executable_of(e).graph}, s); }

void core::cudaGraphExecKernelNodeSetParams(Executable e, Node n, const KernelNodeParameters* p) {
    work_of<KernelWork>(node_in(e, n)) = kernel_of(p);
}
void core::cudaGraphExecMemcpyNodeSetParams(Executable e, Node n, const Copy3D* p) {
    work_of<CopyWork>(node_in(e, n)) = box_of(p);
}
void core::cudaGraphExecMemcpyNodeSetParams1D(Executable e, Node n, void* to, const void* from,
                                              size_t bytes, CopyKind kind) {
    work_of<CopyWork>(node_in(e, n)) = copy_of(to, from, bytes, kind);
}
void core::cudaGraphExecMemsetNodeSetParams(Executable e, Node n, const MemsetParameters* p) {
    work_of<SetWork>(node_in(e, n)) = set_of(p);
}
void core::cudaGraphExecHostNodeSetParams(Executable e, Node n, const HostNodeParameters* p) {
    work_of<HostWork>(node_in(e, n)) = host_of(p);
}
void core::cudaGraphExecChildGraphNodeSetParams(Executable e, Node n, Graph child) {
    work_of<GraphWork>(node_in(e, n)).graph = graph_of(child).clone();
}
void core::cudaGraphNodeSetEnabled(Executable e, Node n, unsigned enabled) {
    node_in(e, n).enabled = enabled != 0;
}
void core::cudaGraphNodeGetEnabled(Executable e, Node n, unsigned* enabled) {
    require(enabled, cudaErrorInvalidValue);
    *enabled = node_in(e, n).enabled;
}
void core::cudaGraphExecUpdate(Executable e, Graph g, UpdateResult* result) {
    require(result, cudaErrorInvalidValue);
    *result = {};
    GraphRecord& old = *executable_of(e).graph;
    const GraphRecord& now = graph_of(g);
    constexpr int topology_changed = 2, type_changed = 3;
    const auto place = [](const GraphRecord& in, Node n) {
        return std::find_if(in.nodes.begin(), in.nodes.end(),
                            [&](const auto& m) { return m.get() == n; }) -
               in.nodes.begin();
    };
    const auto differ = [&](size_t i) {
        const auto &a = *old.nodes[i], &b = *now.nodes[i];
        if (a.after.size() != b.after.size()) return topology_changed;
        for (size_t d = 0; d < a.after.size(); ++d)
            if (place(old, a.after[d]) != place(now, b.after[d])) return topology_changed;
        return type_of(a.work) != type_of(b.work) ? type_changed : 0;
    };
    if (old.nodes.size() != now.nodes.size()) result->result = topology_changed;
    for (size_t i = 0; i < old.nodes.size() && !result->result; ++i) {
        result->result = differ(i);
        if (result->result) result->errorNode = now.nodes[i].get();
    }
    require(result->result == 0, cudaErrorGraphExecUpdateFailure);
    for (size_t i = 0; i < old.nodes.size(); ++i) {
        old.nodes[i]->work = now.nodes[i]->work;
        old.nodes[i]->original = now.nodes[i].get();
    }
}
void core::cudaGraphDebugDotPrint(Graph g, const char* path, unsigned) {
    const GraphRecord& graph = graph_of(g);
    require(path, cudaErrorInvalidValue);
    std::FILE* const out = std::fopen(path, "w");
    require(out, cudaErrorOperatingSystem);
    const char* const names[] = {"kernel", "memcpy", "memset", "host", "graph",  "empty",
                                 "wait",   "record", "",       "",     "malloc", "free"};
    std::fprintf(out, "digraph graph_of_cuda {\n");
    for (const auto& n : graph.nodes) {
        std::fprintf(out, "  \"%p\" [label=\"%s\"]\n", static_cast<void*>(n.get()),
                     names[type_of(n->work)]);
        for (const Node before : n->after)
            std::fprintf(out, "  \"%p\" -> \"%p\"\n", static_cast<void*>(before),
                         static_cast<void*>(n.get()));
    }
    std::fprintf(out, "}\n");
    std::fclose(out);
}

}  // namespace coalesce::cudart
