// Graphs: nodes of work with their dependencies, built by calls or by capturing a stream.
#pragma once

#include <memory>
#include <vector>

#include "cudart/abi.hpp"
#include "cudart/work.hpp"

namespace coalesce::cudart {

struct NodeRecord {
    Work work;
    std::vector<Node> after;  // the nodes it depends on
    Graph graph = nullptr;
    Node original = nullptr;  // of a node of a clone
    bool enabled = true;
    std::vector<std::vector<std::byte>> values;  // the arguments of a kernel node, as they came
};

struct GraphRecord {
    std::vector<std::unique_ptr<NodeRecord>> nodes;

    Node add(Work work, std::vector<Node> after);
    [[nodiscard]] std::shared_ptr<GraphRecord> clone() const;
    // Each node behind those it depends on; Failure where they depend on each other in a circle.
    [[nodiscard]] std::vector<Node> order() const;
    [[nodiscard]] bool has(Node node) const;
    [[nodiscard]] Node of_original(Node node) const;  // null: there is none
};

struct ExecutableRecord {
    std::shared_ptr<GraphRecord> graph;
    unsigned long long flags = 0;
};

// Runs the nodes in order.
void run_graph(const GraphRecord& graph, StreamRecord& stream);

}  // namespace coalesce::cudart
