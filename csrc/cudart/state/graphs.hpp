// CUDA graphs. A graph has nodes, which are pieces of work (work.hpp), and their dependencies. A
// program adds nodes by calls, or captures the work of a stream.
//
// To launch a graph, a program makes an executable graph of it, which is a clone. Later changes of
// the graph do not change the executable graph. The functions are in runtime/graph.cpp (graphs) and
// runtime/stream.cpp (capture).
#pragma once

#include <memory>
#include <vector>

#include "cudart/abi/abi.hpp"
#include "cudart/state/order.hpp"
#include "cudart/state/work.hpp"

namespace coalesce::cudart {

// A node of a graph.
struct NodeRecord {
    Work work;
    std::vector<Node> after;  // the nodes that must run before this one
    Graph graph = nullptr;
    // The original node, if this node is in a clone of a graph.
    Node original = nullptr;
    bool enabled = true;
    // For a kernel node, copies of the arguments.
    std::vector<std::vector<std::byte>> values;
};

struct GraphRecord {
    std::vector<std::unique_ptr<NodeRecord>> nodes;
    Clock ended;  // what has ended when the last launch has (order.hpp)

    Node add(Work work, std::vector<Node> after);
    [[nodiscard]] std::shared_ptr<GraphRecord> clone() const;
    // Returns the nodes in an order in which each node comes after the nodes on which it depends.
    // Throws Failure if there is a cycle.
    [[nodiscard]] std::vector<Node> order() const;
    [[nodiscard]] bool has(Node node) const;
    // Returns null if there is no such node.
    [[nodiscard]] Node of_original(Node node) const;
};

struct ExecutableRecord {
    std::shared_ptr<GraphRecord> graph;
    unsigned long long flags = 0;
};

// Registers a graph that the program owns, and returns its handle.
Graph keep_graph(std::shared_ptr<GraphRecord> graph);
// Returns such a graph, or throws Failure.
std::shared_ptr<GraphRecord> kept_graph(Graph graph);

// Runs the nodes in the order of their dependencies, after the earlier launches of the graph.
void run_graph(GraphRecord& graph, StreamRecord& stream);

}  // namespace coalesce::cudart
