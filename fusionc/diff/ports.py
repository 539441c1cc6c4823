"""The inputs and outputs of the graphs of two models; their names may be misleading."""

from __future__ import annotations

from collections.abc import Iterator

from fusionc.diff.pairs import Digests, Pairs, named_bodies
from fusionc.model.graph import Edge, Graph, Model, Node


def is_other(value: Edge, its: Edge, pairs: Pairs, digests: Digests) -> bool:
    """Whether two values differ for another reason than that their producer was replaced."""
    if value.is_constant != its.is_constant:
        return True
    if value.is_constant:
        return digests.of(value) != digests.of(its)
    maker = value.producer
    its_maker = its.producer
    if maker is None and its_maker is None:
        return pairs.values.get(value) is not its
    if maker is None or its_maker is None:
        return maker in pairs.after or its_maker in pairs.before
    if maker not in pairs.after or its_maker not in pairs.before:
        return False
    if pairs.after[maker] is not its_maker:
        return True
    return maker.outputs.index(value) != its_maker.outputs.index(its)


def port_changes(models: tuple[Model, Model], pairs: Pairs, digests: Digests) -> Iterator[str]:
    """The outputs of the main graphs, by name, and the ports of functions, that have other
    values.
    """
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
    """The ports of subgraphs of two paired nodes that have other values."""
    if one.bodies and other.bodies:
        bodies = named_bodies(one)
        others = named_bodies(other)
        for name in (name for name in bodies if name in others):
            yield from (
                f"{name}: {what}"
                for what in _graph_ports(bodies[name], others[name], pairs, digests)
            )


def _graph_ports(graph: Graph, its: Graph, pairs: Pairs, digests: Digests) -> Iterator[str]:
    """Callers know the ports of such graphs by their order."""
    for what, ports, others in (
        ("inputs", graph.inputs, its.inputs),
        ("outputs", graph.outputs, its.outputs),
    ):
        if len(ports) != len(others):
            yield f"{len(ports)} {what}, {len(others)} after"
    for at, (value, other) in enumerate(zip(graph.inputs, its.inputs, strict=False)):
        if pairs.values.get(value) is not other:
            yield f"another value as input {at}"
    for at, (value, other) in enumerate(zip(graph.outputs, its.outputs, strict=False)):
        if is_other(value, other, pairs, digests):
            yield f"another value as output {at}"
