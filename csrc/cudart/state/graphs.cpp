#include "cudart/state/graphs.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

Node GraphRecord::add(Work work, std::vector<Node> after) {
    for (const Node n : after) require(has(n), cudaErrorInvalidValue);
    auto node = std::make_unique<NodeRecord>();
    node->work = std::move(work);
    node->after = std::move(after);
    node->graph = this;
    nodes.push_back(std::move(node));
    return nodes.back().get();
}

bool GraphRecord::has(Node node) const {
    return std::any_of(nodes.begin(), nodes.end(), [&](const auto& n) { return n.get() == node; });
}

Node GraphRecord::of_original(Node node) const {
    for (const auto& n : nodes)
        if (n->original == node) return n.get();
    return nullptr;
}

std::shared_ptr<GraphRecord> GraphRecord::clone() const {
    auto copy = std::make_shared<GraphRecord>();
    std::map<Node, Node> of;
    for (const auto& n : nodes) {
        const Node made = copy->add(n->work, {});
        made->original = n.get();
        made->enabled = n->enabled;
        made->values = n->values;
        if (auto* const child = std::get_if<GraphWork>(&made->work))
            child->graph = child->graph->clone();
        of[n.get()] = made;
    }
    for (const auto& n : nodes)
        for (const Node before : n->after) of[n.get()]->after.push_back(of.at(before));
    return copy;
}

std::vector<Node> GraphRecord::order() const {
    std::vector<Node> sorted;
    std::set<Node> done;
    while (sorted.size() < nodes.size()) {
        const size_t before = sorted.size();
        for (const auto& n : nodes) {
            if (done.contains(n.get()) || !std::all_of(n->after.begin(), n->after.end(),
                                                       [&](Node a) { return done.contains(a); }))
                continue;
            sorted.push_back(n.get());
            done.insert(n.get());
        }
        require(sorted.size() > before, cudaErrorInvalidValue,
                "the nodes of the graph depend on each other in a circle");
    }
    return sorted;
}

void run_graph(GraphRecord& graph, StreamRecord& stream) {
    const std::vector<Node> nodes = graph.order();
    bool chain = true;
    for (size_t i = 0; i < nodes.size(); ++i)
        chain = chain && (i == 0 ? nodes[i]->after.empty()
                                 : nodes[i]->after == std::vector<Node>{nodes[i - 1]});
    // If nodes may run at the same time, each node is a branch with an end of its own.
    Order& order = runtime().order;
    const uint64_t timeline = stream.timeline;
    // CUDA never runs two launches of an executable graph at the same time (CUDA Runtime API,
    // cudaGraphLaunch()).
    order.wait(stream, graph.ended);
    const Clock start = stream.end;
    Clock all = start;
    std::map<Node, Clock> ends;
    for (const Node n : nodes) {
        if (!chain) {
            stream.timeline = order.new_branch();
            stream.end = start;
            for (const Node before : n->after) stream.end.join(ends[before]);
        }
        if (n->enabled) perform(n->work, stream);
        if (!chain) all.join(ends[n] = stream.end);
    }
    stream.timeline = timeline;
    if (!chain) order.set_end(stream, all);
    graph.ended = stream.end;
}

}  // namespace coalesce::cudart
