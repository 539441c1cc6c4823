"""Values that cross the border of a subgraph or of a model-local function."""

from __future__ import annotations

from collections.abc import Iterator

from fusionc.model.graph import Edge, Graph, Node


def values_across_border(value: Edge) -> Iterator[Edge | None]:
    """The values on the other side of a border that this value may come from; none if it does not
    cross one.
    """
    if value.producer is not None:
        yield from _values_handed_out(value.producer, value.producer.outputs.index(value))
    elif value in value.graph.inputs:
        yield from _values_handed_in(value.graph, value.graph.inputs.index(value))


def _values_handed_out(node: Node, at: int) -> Iterator[Edge | None]:
    """The values that the subgraphs or the function of a node hand out as its output `at`."""
    bodies = node.bodies if node.function is None else (node.function,)
    for body in bodies:
        # the first of a Loop's body says whether to go on
        yield from body.outputs[at + (node.op == "Loop") :][:1]


def _values_handed_in(body: Graph, at: int) -> Iterator[Edge | None]:
    """The values that go into a subgraph or a function as its input `at`: from outside, and from
    the iteration before.
    """
    for node in _users(body):
        yield from node.inputs[at:][:1]
        if (
            node.op == "Loop" and at >= 2
        ):  # the number of the iteration and the condition come first
            yield from body.outputs[at - 1 :][:1]
        elif node.op == "Scan" and at < len(node.inputs) - node.attr("num_scan_inputs", 0):
            yield from body.outputs[at:][:1]


def _users(body: Graph) -> Iterator[Node]:
    """The node that holds a subgraph, or all nodes that may call a function."""
    if body.is_function:
        domain, name, _ = body.function_key
        yield from (
            node
            for graph in body.model.graphs
            for node in graph.by_operator.get((domain, name), ())
        )
    elif body.owner is not None:
        yield body.owner
