"""Compare the inputs and outputs (ports) of the graphs of two models. Equal names do not prove that
two values are the same, so the nodes that compute them are compared.
"""

from __future__ import annotations

from collections.abc import Iterator

from fusionc.diff.pairs import Digests, Pairs, named_bodies
from fusionc.model.graph import Edge, Graph, Model, Node


def is_other(old: Edge, new: Edge, pairs: Pairs, digests: Digests) -> bool:
    """Whether two values differ. Values count as equal if the producer of either was replaced."""
    if old.is_constant != new.is_constant:
        return True
    if old.is_constant:
        return digests.of(old) != digests.of(new)
    old_node = old.producer
    new_node = new.producer
    if old_node is None and new_node is None:
        return pairs.values.get(old) is not new
    if old_node is None or new_node is None:
        return old_node in pairs.after or new_node in pairs.before
    if old_node not in pairs.after or new_node not in pairs.before:
        return False
    if pairs.after[old_node] is not new_node:
        return True
    return old_node.outputs.index(old) != new_node.outputs.index(new)


def port_changes(models: tuple[Model, Model], pairs: Pairs, digests: Digests) -> Iterator[str]:
    """A sentence for each output of the main graphs, and each port of a function, that differs."""
    outputs = {value.name: value for value in models[1].main.outputs}
    for value in models[0].main.outputs:
        if value.name in outputs and is_other(value, outputs[value.name], pairs, digests):
            yield f"{value.name}: this output is another value"
    for key, function in models[0].functions.items():
        if key in models[1].functions:
            name = ".".join(filter(None, key))
            yield from (
                f"function {name}: {what}"
                for what in _graph_ports(function, models[1].functions[key], pairs, digests)
            )


def body_changes(one: Node, other: Node, pairs: Pairs, digests: Digests) -> Iterator[str]:
    """A sentence for each port that differs in the subgraphs of two paired nodes."""
    if one.bodies and other.bodies:
        bodies = named_bodies(one)
        others = named_bodies(other)
        for name in (name for name in bodies if name in others):
            yield from (
                f"{name}: {what}"
                for what in _graph_ports(bodies[name], others[name], pairs, digests)
            )


def _graph_ports(before: Graph, after: Graph, pairs: Pairs, digests: Digests) -> Iterator[str]:
    """A sentence for each port that differs. Ports are compared by their order, because callers
    identify them by order.
    """
    for what, ports, others in (
        ("inputs", before.inputs, after.inputs),
        ("outputs", before.outputs, after.outputs),
    ):
        if len(ports) != len(others):
            yield f"{len(ports)} {what} before, {len(others)} after"
    for at, (old, new) in enumerate(zip(before.inputs, after.inputs, strict=False)):
        if pairs.values.get(old) is not new:
            yield f"input {at} is another value"
    for at, (old, new) in enumerate(zip(before.outputs, after.outputs, strict=False)):
        if is_other(old, new, pairs, digests):
            yield f"output {at} is another value"
