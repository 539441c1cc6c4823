"""Follow values across the border of a subgraph or of a model-local function."""

from __future__ import annotations

from collections.abc import Iterator

from fusionc.model.graph import Edge, Graph, Node


def values_across_border(value: Edge) -> Iterator[Edge | None]:
    """The values on the other side of a border that may become this value.

    For an output of a node with subgraphs or a function, they are outputs of these bodies. For an
    input of a body, they are values of the graph around it. For other values, there are none.
    """
    if value.producer is not None:
        yield from _body_outputs(value.producer, value.producer.outputs.index(value))
    elif value in value.graph.inputs:
        yield from _outer_inputs(value.graph, value.graph.inputs.index(value))


def _body_outputs(node: Node, at: int) -> Iterator[Edge | None]:
    """The outputs of the subgraphs or the function of a node that become its output `at`."""
    bodies = node.bodies if node.function is None else (node.function,)
    for body in bodies:
        # skip the first output of a Loop's body, which is the condition
        yield from body.outputs[at + (node.op == "Loop") :][:1]


def _outer_inputs(body: Graph, at: int) -> Iterator[Edge | None]:
    """The values that become input `at` of a subgraph or a function: an outer value, or an output
    of the previous iteration.
    """
    for node in _users(body):
        yield from node.inputs[at:][:1]
        # the first two inputs of a Loop's body are the iteration number and the condition
        if node.op == "Loop" and at >= 2:
            yield from body.outputs[at - 1 :][:1]
        elif node.op == "Scan" and at < len(node.inputs) - node.attr("num_scan_inputs", 0):
            yield from body.outputs[at:][:1]


def _users(body: Graph) -> Iterator[Node]:
    """The node that contains a subgraph, or all nodes that may call a function."""
    if body.is_function:
        domain, name, _ = body.function_key
        yield from (
            node
            for graph in body.model.graphs
            for node in graph.by_operator.get((domain, name), ())
        )
    elif body.owner is not None:
        yield body.owner
