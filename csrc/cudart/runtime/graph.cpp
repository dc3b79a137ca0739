// Functions that build, change and launch graphs.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

#include "cudart/state/api.hpp"
#include "cudart/state/graphs.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

CopyWork copy_to_symbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                        CopyKind kind);
CopyWork copy_from_symbol(void* to, const void* symbol, size_t bytes, size_t offset, CopyKind kind);

namespace {

std::map<Graph, std::shared_ptr<GraphRecord>>& graphs() {
    static auto* const all = new std::map<Graph, std::shared_ptr<GraphRecord>>;
    return *all;
}
std::set<Executable>& executables() {
    static auto* const all = new std::set<Executable>;
    return *all;
}

// Returns a graph that the program owns, or a child of such a graph.
GraphRecord& graph_of(Graph handle) {
    require(handle, cudaErrorInvalidValue);
    const auto known = graphs().find(handle);
    require(known != graphs().end(), cudaErrorInvalidValue);
    return *known->second;
}
NodeRecord& node_of(Node handle) {
    for (const auto& [graph, record] : graphs())
        if (record->has(handle)) return *handle;
    throw Failure{cudaErrorInvalidValue};
}
ExecutableRecord& executable_of(Executable handle) {
    require(executables().contains(handle), cudaErrorInvalidValue);
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

KernelWork kernel_of(const KernelNodeParameters& p) {
    require(p.func, cudaErrorInvalidValue);
    KernelWork w =
        kernel_work(p.func, p.gridDim, p.blockDim, p.kernelParams, p.sharedMemBytes, p.extra);
    validate(w);
    return w;
}
SetWork set_of(const MemsetParameters& p) {
    require(p.elementSize == 1 || p.elementSize == 2 || p.elementSize == 4, cudaErrorInvalidValue);
    SetWork s;
    s.to = static_cast<std::byte*>(p.dst);
    s.pitch = p.pitch, s.value = p.value, s.element = p.elementSize, s.width = p.width;
    s.height = p.height;
    return s;
}
HostWork host_of(const HostNodeParameters& p) {
    require(p.fn, cudaErrorInvalidValue);
    HostWork w;
    w.function = p.fn, w.data = p.userData;
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
    return *executables().insert(made.release()).first;
}

}  // namespace

Graph keep_graph(std::shared_ptr<GraphRecord> graph) {
    const Graph handle = graph.get();
    graphs()[handle] = std::move(graph);
    return handle;
}
std::shared_ptr<GraphRecord> kept_graph(Graph graph) {
    (void)graph_of(graph);
    return graphs().at(graph);
}

CUDART(cudaGraphCreate)(Graph* graph, unsigned flags) {
    return call("cudaGraphCreate", Waits::no, [&] {
        require(graph && flags == 0, cudaErrorInvalidValue);
        *graph = keep_graph(std::make_shared<GraphRecord>());
    });
}
CUDART(cudaGraphDestroy)(Graph graph) {
    return call("cudaGraphDestroy", Waits::no, [&] {
        (void)graph_of(graph);
        graphs().erase(graph);
    });
}
CUDART(cudaGraphClone)(Graph* copy, Graph graph) {
    return call("cudaGraphClone", Waits::no, [&] {
        require(copy, cudaErrorInvalidValue);
        *copy = keep_graph(graph_of(graph).clone());
    });
}
CUDART(cudaGraphNodeFindInClone)(Node* copy, Node original, Graph clone) {
    return call("cudaGraphNodeFindInClone", Waits::no, [&] {
        require(copy, cudaErrorInvalidValue);
        *copy = graph_of(clone).of_original(original);
        require(*copy, cudaErrorInvalidValue);
    });
}

CUDART(cudaGraphAddKernelNode)
(Node* n, Graph g, const Node* after, size_t count, const KernelNodeParameters* p) {
    return call("cudaGraphAddKernelNode", Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        add(n, g, after, count, kernel_of(*p));
    });
}
CUDART(cudaGraphAddMemcpyNode)(Node* n, Graph g, const Node* after, size_t count, const Copy3D* p) {
    return call("cudaGraphAddMemcpyNode", Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        add(n, g, after, count, copy_of(*p, "cudaGraphAddMemcpyNode"));
    });
}
CUDART(cudaGraphAddMemcpyNode1D)
(Node* n, Graph g, const Node* after, size_t count, void* to, const void* from, size_t bytes,
 CopyKind kind) {
    return call("cudaGraphAddMemcpyNode1D", Waits::no, [&] {
        add(n, g, after, count, copy_of(to, from, bytes, kind, "cudaGraphAddMemcpyNode1D"));
    });
}
CUDART(cudaGraphAddMemcpyNodeToSymbol)
(Node* n, Graph g, const Node* after, size_t count, const void* symbol, const void* from,
 size_t bytes, size_t offset, CopyKind kind) {
    return call("cudaGraphAddMemcpyNodeToSymbol", Waits::no, [&] {
        add(n, g, after, count, copy_to_symbol(symbol, from, bytes, offset, kind));
    });
}
CUDART(cudaGraphAddMemcpyNodeFromSymbol)
(Node* n, Graph g, const Node* after, size_t count, void* to, const void* symbol, size_t bytes,
 size_t offset, CopyKind kind) {
    return call("cudaGraphAddMemcpyNodeFromSymbol", Waits::no, [&] {
        add(n, g, after, count, copy_from_symbol(to, symbol, bytes, offset, kind));
    });
}
CUDART(cudaGraphAddMemsetNode)
(Node* n, Graph g, const Node* after, size_t count, const MemsetParameters* p) {
    return call("cudaGraphAddMemsetNode", Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        add(n, g, after, count, set_of(*p));
    });
}
CUDART(cudaGraphAddHostNode)
(Node* n, Graph g, const Node* after, size_t count, const HostNodeParameters* p) {
    return call("cudaGraphAddHostNode", Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        add(n, g, after, count, host_of(*p));
    });
}
CUDART(cudaGraphAddEmptyNode)(Node* n, Graph g, const Node* after, size_t count) {
    return call("cudaGraphAddEmptyNode", Waits::no, [&] { add(n, g, after, count, EmptyWork{}); });
}
CUDART(cudaGraphAddEventRecordNode)(Node* n, Graph g, const Node* after, size_t count, Event e) {
    return call("cudaGraphAddEventRecordNode", Waits::no, [&] {
        runtime().streams.event(e);
        add(n, g, after, count, RecordWork{e});
    });
}
CUDART(cudaGraphAddEventWaitNode)(Node* n, Graph g, const Node* after, size_t count, Event e) {
    return call("cudaGraphAddEventWaitNode", Waits::no, [&] {
        runtime().streams.event(e);
        add(n, g, after, count, WaitWork{e});
    });
}
CUDART(cudaGraphAddChildGraphNode)(Node* n, Graph g, const Node* after, size_t count, Graph child) {
    return call("cudaGraphAddChildGraphNode", Waits::no,
                [&] { add(n, g, after, count, GraphWork{graph_of(child).clone()}); });
}
CUDART(cudaGraphChildGraphNodeGetGraph)(Node n, Graph* child) {
    return call("cudaGraphChildGraphNodeGetGraph", Waits::no, [&] {
        require(child, cudaErrorInvalidValue);
        *child = keep_graph(work_of<GraphWork>(node_of(n)).graph);
    });
}
// The address of a graph's memory is known when its node is added, as on a GPU.
CUDART(cudaGraphAddMemAllocNode)
(Node* n, Graph g, const Node* after, size_t count, AllocNodeParameters* p) {
    return call("cudaGraphAddMemAllocNode", Waits::no, [&] {
        require(p && p->bytesize, cudaErrorInvalidValue);
        const Allocation& a =
            runtime().memory.allocate(p->bytesize, Kind::device, "cudaGraphAddMemAllocNode");
        p->dptr = reinterpret_cast<void*>(a.address);
        add(n, g, after, count, AllocWork{a.address, p->bytesize});
    });
}
CUDART(cudaGraphAddMemFreeNode)(Node* n, Graph g, const Node* after, size_t count, void* pointer) {
    return call("cudaGraphAddMemFreeNode", Waits::no, [&] {
        require(runtime().memory.find(pointer), cudaErrorInvalidValue);
        add(n, g, after, count, FreeWork{reinterpret_cast<uint64_t>(pointer)});
    });
}

CUDART(cudaGraphNodeGetType)(Node n, int* type) {
    return call("cudaGraphNodeGetType", Waits::no, [&] {
        require(type, cudaErrorInvalidValue);
        *type = type_of(node_of(n).work);
    });
}
CUDART(cudaGraphGetNodes)(Graph g, Node* nodes, size_t* count) {
    return call("cudaGraphGetNodes", Waits::no, [&] {
        std::vector<Node> all;
        for (const auto& n : graph_of(g).nodes) all.push_back(n.get());
        copy_handles(all, nodes, count);
    });
}
CUDART(cudaGraphGetRootNodes)(Graph g, Node* nodes, size_t* count) {
    return call("cudaGraphGetRootNodes", Waits::no, [&] {
        std::vector<Node> roots;
        for (const auto& n : graph_of(g).nodes)
            if (n->after.empty()) roots.push_back(n.get());
        copy_handles(roots, nodes, count);
    });
}
CUDART(cudaGraphGetEdges)(Graph g, Node* from, Node* to, EdgeData* data, size_t* count) {
    return call("cudaGraphGetEdges", Waits::no, [&] {
        std::vector<Node> firsts, seconds;
        for (const auto& n : graph_of(g).nodes)
            for (const Node before : n->after) firsts.push_back(before), seconds.push_back(n.get());
        require(count && !from == !to, cudaErrorInvalidValue);
        size_t room = *count;
        if (from && data)
            for (size_t i = 0; i < std::min(room, firsts.size()); ++i) data[i] = {};
        copy_handles(firsts, from, count);
        copy_handles(seconds, to, &room);
    });
}
CUDART(cudaGraphNodeGetDependencies)(Node n, Node* nodes, EdgeData*, size_t* count) {
    return call("cudaGraphNodeGetDependencies", Waits::no,
                [&] { copy_handles(node_of(n).after, nodes, count); });
}
CUDART(cudaGraphNodeGetDependentNodes)(Node n, Node* nodes, EdgeData*, size_t* count) {
    return call("cudaGraphNodeGetDependentNodes", Waits::no,
                [&] { copy_handles(dependents(&node_of(n)), nodes, count); });
}
CUDART(cudaGraphAddDependencies)
(Graph g, const Node* from, const Node* to, const EdgeData*, size_t count) {
    return call("cudaGraphAddDependencies", Waits::no, [&] {
        for (size_t i = 0; i < count; ++i) {
            require(graph_of(g).has(from[i]) && graph_of(g).has(to[i]), cudaErrorInvalidValue);
            to[i]->after.push_back(from[i]);
        }
    });
}
CUDART(cudaGraphRemoveDependencies)
(Graph g, const Node* from, const Node* to, const EdgeData*, size_t count) {
    return call("cudaGraphRemoveDependencies", Waits::no, [&] {
        for (size_t i = 0; i < count; ++i) {
            require(graph_of(g).has(to[i]) && std::erase(to[i]->after, from[i]) > 0,
                    cudaErrorInvalidValue);
        }
    });
}
CUDART(cudaGraphDestroyNode)(Node n) {
    return call("cudaGraphDestroyNode", Waits::no, [&] {
        GraphRecord& graph = *node_of(n).graph;
        for (const auto& other : graph.nodes) std::erase(other->after, n);
        std::erase_if(graph.nodes, [&](const auto& own) { return own.get() == n; });
    });
}

CUDART(cudaGraphKernelNodeSetParams)(Node n, const KernelNodeParameters* p) {
    return call("cudaGraphKernelNodeSetParams", Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        work_of<KernelWork>(node_of(n)) = kernel_of(*p);
    });
}
CUDART(cudaGraphMemsetNodeSetParams)(Node n, const MemsetParameters* p) {
    return call("cudaGraphMemsetNodeSetParams", Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        work_of<SetWork>(node_of(n)) = set_of(*p);
    });
}
CUDART(cudaGraphMemcpyNodeSetParams)(Node n, const Copy3D* p) {
    return call("cudaGraphMemcpyNodeSetParams", Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        work_of<CopyWork>(node_of(n)) = copy_of(*p, "cudaGraphMemcpyNodeSetParams");
    });
}
CUDART(cudaGraphHostNodeSetParams)(Node n, const HostNodeParameters* p) {
    return call("cudaGraphHostNodeSetParams", Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        work_of<HostWork>(node_of(n)) = host_of(*p);
    });
}
CUDART(cudaGraphHostNodeGetParams)(Node n, HostNodeParameters* p) {
    return call("cudaGraphHostNodeGetParams", Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        const HostWork& w = work_of<HostWork>(node_of(n));
        *p = {w.function, w.data};
    });
}
CUDART(cudaGraphMemsetNodeGetParams)(Node n, MemsetParameters* p) {
    return call("cudaGraphMemsetNodeGetParams", Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        const SetWork& w = work_of<SetWork>(node_of(n));
        *p = {w.to, w.pitch, w.value, w.element, w.width, w.height};
    });
}

CUDART(cudaGraphInstantiate)(Executable* e, Graph g, unsigned long long flags) {
    return call("cudaGraphInstantiate", Waits::no, [&] {
        require(e, cudaErrorInvalidValue);
        *e = instantiated(g, flags);
    });
}
CUDART(cudaGraphInstantiateWithFlags)(Executable* e, Graph g, unsigned long long flags) {
    return call("cudaGraphInstantiateWithFlags", Waits::no, [&] {
        require(e, cudaErrorInvalidValue);
        *e = instantiated(g, flags);
    });
}
CUDART(cudaGraphInstantiateWithParams)(Executable* e, Graph g, InstantiateParameters* p) {
    return call("cudaGraphInstantiateWithParams", Waits::no, [&] {
        require(e && p, cudaErrorInvalidValue);
        *e = instantiated(g, p->flags);
        p->result_out = 0;
    });
}
CUDART(cudaGraphExecGetFlags)(Executable e, unsigned long long* flags) {
    return call("cudaGraphExecGetFlags", Waits::no, [&] {
        require(flags, cudaErrorInvalidValue);
        *flags = executable_of(e).flags;
    });
}
CUDART(cudaGraphExecDestroy)(Executable e) {
    return call("cudaGraphExecDestroy", Waits::no, [&] {
        (void)executable_of(e);
        executables().erase(e);
        delete e;
    });
}
CUDART(cudaGraphUpload)(Executable e, Stream s) {
    return call("cudaGraphUpload", Waits::no, [&] {
        (void)executable_of(e);
        runtime().streams.stream(s);
    });
}
CUDART(cudaGraphLaunch)(Executable e, Stream s) {
    return call("cudaGraphLaunch", Waits::no,
                [&] { submit(GraphWork{executable_of(e).graph}, s); });
}

CUDART(cudaGraphExecKernelNodeSetParams)(Executable e, Node n, const KernelNodeParameters* p) {
    return call("cudaGraphExecKernelNodeSetParams", Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        work_of<KernelWork>(node_in(e, n)) = kernel_of(*p);
    });
}
CUDART(cudaGraphExecMemcpyNodeSetParams)(Executable e, Node n, const Copy3D* p) {
    return call("cudaGraphExecMemcpyNodeSetParams", Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        work_of<CopyWork>(node_in(e, n)) = copy_of(*p, "cudaGraphExecMemcpyNodeSetParams");
    });
}
CUDART(cudaGraphExecMemcpyNodeSetParams1D)
(Executable e, Node n, void* to, const void* from, size_t bytes, CopyKind kind) {
    return call("cudaGraphExecMemcpyNodeSetParams1D", Waits::no, [&] {
        work_of<CopyWork>(node_in(e, n)) =
            copy_of(to, from, bytes, kind, "cudaGraphExecMemcpyNodeSetParams1D");
    });
}
CUDART(cudaGraphExecMemsetNodeSetParams)(Executable e, Node n, const MemsetParameters* p) {
    return call("cudaGraphExecMemsetNodeSetParams", Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        work_of<SetWork>(node_in(e, n)) = set_of(*p);
    });
}
CUDART(cudaGraphExecHostNodeSetParams)(Executable e, Node n, const HostNodeParameters* p) {
    return call("cudaGraphExecHostNodeSetParams", Waits::no, [&] {
        require(p, cudaErrorInvalidValue);
        work_of<HostWork>(node_in(e, n)) = host_of(*p);
    });
}
CUDART(cudaGraphExecChildGraphNodeSetParams)(Executable e, Node n, Graph child) {
    return call("cudaGraphExecChildGraphNodeSetParams", Waits::no,
                [&] { work_of<GraphWork>(node_in(e, n)).graph = graph_of(child).clone(); });
}
CUDART(cudaGraphNodeSetEnabled)(Executable e, Node n, unsigned enabled) {
    return call("cudaGraphNodeSetEnabled", Waits::no,
                [&] { node_in(e, n).enabled = enabled != 0; });
}
CUDART(cudaGraphNodeGetEnabled)(Executable e, Node n, unsigned* enabled) {
    return call("cudaGraphNodeGetEnabled", Waits::no, [&] {
        require(enabled, cudaErrorInvalidValue);
        *enabled = node_in(e, n).enabled;
    });
}
CUDART(cudaGraphExecUpdate)(Executable e, Graph g, UpdateResult* result) {
    return call("cudaGraphExecUpdate", Waits::no, [&] {
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
    });
}
CUDART(cudaGraphDebugDotPrint)(Graph g, const char* path, unsigned) {
    return call("cudaGraphDebugDotPrint", Waits::no, [&] {
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
    });
}

}  // namespace coalesce::cudart
