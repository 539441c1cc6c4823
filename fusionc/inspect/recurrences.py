"""Recurrences that an exporter has unrolled: in every step, the same weights multiply the result of
the preceding step.
"""

from __future__ import annotations

from collections.abc import Iterator

from fusionc.inspect.finding import Finding, counted
from fusionc.model.graph import Edge, Graph, Model, Node

_PRODUCTS = ("MatMul", "Gemm", "FusedMatMul", "FusedGemm")
_GATES = ("Sigmoid", "Tanh", "HardSigmoid")
_LEAST = 4  # steps; shorter chains are not reported
_MOST = 64  # weights to examine: unrolled networks have few


def findings(model: Model) -> Iterator[Finding]:
    """A finding on products with the same weight, if each product depends on the preceding one."""
    chains = [chain for graph in model.graphs for chain in _chains(graph)]
    if not chains:
        return
    gates = sum(node.is_op(*_GATES) for graph in model.graphs for node in graph.nodes)
    steps = max(map(len, chains))
    nodes = [node for chain in chains for node in chain]
    text = (
        f"{counted(len(chains), 'weight')} multiplied step after step, up to {steps:,} "
        f"times: {len(nodes):,} products"
    )
    yield Finding(
        "an unrolled recurrence",
        (
            f"{text} of few rows, and {counted(gates, 'gate activation')}; onnxruntime runs "
            "each as a separate node"
        ),
        "export it as LSTM, GRU or RNN, which onnxruntime has kernels for; products that do not "
        "depend on other steps "
        "can be joined into one product before the recurrence",
        tuple(node.label() for node in nodes),
    )


def _chains(graph: Graph) -> Iterator[list[Node]]:
    """For each weight, its products that depend on one another."""
    readers = {
        value: [node for node in dict.fromkeys(value.outputs) if _is_product(node, value, graph)]
        for value in graph.values.values()
        if value.is_constant and value.use_count >= _LEAST
    }
    several = sorted(
        (nodes for nodes in readers.values() if len(nodes) >= _LEAST), key=len, reverse=True
    )
    for nodes in several[:_MOST]:
        if len(chain := _longest(graph, set(nodes))) >= _LEAST:
            yield chain


def _is_product(node: Node, weight: Edge, graph: Graph) -> bool:
    return (
        node.op in _PRODUCTS
        and node.graph is graph
        and len(node.inputs) > 1
        and node.inputs[1] is weight
    )


def _longest(graph: Graph, products: set[Node]) -> list[Node]:
    """The longest chain of these products in which each product depends on the preceding one."""
    depth: dict[Edge, int] = {}
    before: dict[Node, int] = {}
    for node in graph.ordered():
        deepest = max(
            (depth.get(value, 0) for value in node.inputs if value is not None), default=0
        )
        if node in products:
            deepest += 1
            before[node] = deepest
        if deepest:
            depth |= {value: deepest for value in node.outputs if value is not None}
    steps = {step: node for node, step in before.items()}
    return [steps[step] for step in sorted(steps)]
