"""Copy the nodes of one graph into another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import NodeProto

from fusionc.model.functions import resolve
from fusionc.model.graph import Edge, Graph, Node, Value
from fusionc.model.operators import means_the_same
from fusionc.operators.randomness import RANDOM
from fusionc.rewrite import Tape, refuse


def inlined(
    new: Tape,
    node: Node,
    body: Graph,
    inputs: Sequence[Edge | None] = (),
    attributes: Mapping[str, onnx.AttributeProto] | None = None,
) -> list[Edge]:
    """Copy the body of a node (its subgraph or function) into the graph of the node, and return the
    values that replace the outputs of the node.

    `inputs` replace the inputs of the body, `attributes` the parameters of a function. Nodes with
    subgraphs are moved instead of copied. Refuses to move such nodes out of a function, because
    other nodes may call the function. Also refuses operators that have another definition at the
    opset of the node's graph, and random operators without a seed.
    """
    copier = _Copier(new, body, dict(zip(body.inputs, inputs, strict=False)), attributes or {})
    copier.values.update(dict.fromkeys(body.inputs[len(inputs) :]))
    for constant in body.constants():
        copier.values[constant] = new.const(constant.values, like=constant)
    for inner in body.ordered():
        copier.add(inner)
    results = [copier.copy_of(value) for value in body.outputs]
    if any(value is None for value in results):
        refuse("an output of the body is an input that the call omits")
    pairs = zip(results, node.outputs, strict=False)
    return [value for value, old in pairs if value is not None and old is not None]


@dataclass
class _Copier:
    """Copies the nodes of a body onto a tape, in order."""

    new: Tape
    body: Graph
    values: dict[Edge, Edge | None]  # value of the body → its copy; None for an omitted input
    attributes: Mapping[str, onnx.AttributeProto]  # those of the node that calls the function

    def add(self, node: Node) -> None:
        _require_same_meaning(node, self.new.graph)
        if node.op in RANDOM and node.attr("seed") is None:
            refuse("without a seed, random numbers depend on the name of the node")
        inputs = [None if value is None else self.copy_of(value) for value in node.inputs]
        if node.bodies and self.body.is_function:
            refuse("the function contains control flow")
        outputs = self._move(node, inputs) if node.bodies else self._copy(node, inputs)
        for old, value in zip(node.outputs, outputs, strict=True):
            if old is not None:
                self.values[old] = value

    def copy_of(self, value: Edge) -> Edge | None:
        if value in self.values:
            return self.values[value]
        if value.graph is self.body:
            refuse("a constant of the body cannot be read")
        return value  # a value of a graph that contains both graphs

    def _copy(self, node: Node, inputs: Sequence[Edge | None]) -> Sequence[Value | None]:
        like = _resolved(node, self.attributes) if self.body.is_function else node
        wanted = [value is not None for value in node.outputs]
        return self.new.node(node.op, inputs, domain=node.domain, like=like, outputs=wanted)

    def _move(self, node: Node, inputs: Sequence[Edge | None]) -> Sequence[Value | None]:
        """Move a node together with its subgraphs. Values of the body that the subgraphs read are
        replaced by their copies.
        """
        copies = {value: self.copy_of(value) for value in node.captures()}
        changed = {
            value: copy for value, copy in copies.items() if copy is not None and copy is not value
        }
        return self.new.move(node, inputs, changed)


def _require_same_meaning(node: Node, target: Graph) -> None:
    versions = (graph.opset_of(node.domain) for graph in (node.graph, target))
    if not means_the_same(node.op, node.domain, *versions):
        refuse("the body contains an operator of another opset")


def _resolved(node: Node, attributes: Mapping[str, Any]) -> Node:
    """The node, with references to parameters of its function replaced by the call's attributes."""
    if not node.has_references:
        return node
    proto = NodeProto()
    proto.CopyFrom(node.proto)
    resolve(proto, attributes)
    return Node(proto, node.graph)
