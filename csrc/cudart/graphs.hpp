// Graphs: nodes of work and their dependencies, built by calls or by capturing a stream.
#pragma once

#include <memory>
#include <vector>

#include "cudart/abi.hpp"
#include "cudart/work.hpp"

namespace coalesce::cudart {

struct NodeRecord {
    Work work;
    std::vector<Node> after;  // the nodes on which it depends
    Graph graph = nullptr;
    Node original = nullptr;  // for a node of a clone
    bool enabled = true;
    std::vector<std::vector<std::byte>> values;  // copies of the arguments of a kernel node
};

struct GraphRecord {
    std::vector<std::unique_ptr<NodeRecord>> nodes;

    Node add(Work work, std::vector<Node> after);
    [[nodiscard]] std::shared_ptr<GraphRecord> clone() const;
    // Returns the nodes so that each follows those it depends on. Failure if there is a cycle.
    [[nodiscard]] std::vector<Node> order() const;
    [[nodiscard]] bool has(Node node) const;
    [[nodiscard]] Node of_original(Node node) const;  // null if there is none
};

struct ExecutableRecord {
    std::shared_ptr<GraphRecord> graph;
    unsigned long long flags = 0;
};

// Runs the nodes in order.
void run_graph(const GraphRecord& graph, StreamRecord& stream);

}  // namespace coalesce::cudart
