"""What the passes that put the nodes of one graph into another have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import NodeProto

from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import schema
from fusionc.rewrite import Tape, refuse


def inlined(
    new: Tape, body: Graph, inputs: Sequence[Edge | None], attributes: Mapping[str, onnx.AttributeProto] | None = None
) -> list[Edge]:
    """The outputs of a subgraph or function body, its nodes made anew where they are wanted.

    `inputs` stand for the inputs of the body, `attributes` for the parameters of a function. Refuses bodies that hold
    control flow of their own, and operators that mean something else at the other graph's opset.
    """
    values: dict[Edge, Edge | None] = dict(zip(body.inputs, inputs, strict=False))
    values.update(dict.fromkeys(body.inputs[len(inputs) :]))
    values.update({constant: new.const(constant.values, like=constant) for constant in body.constants()})
    for node in body.ordered():
        if node.bodies:
            refuse("control flow inside what would be inlined")
        _require_same_meaning(node, new.graph)
        given = [None if value is None else _translated(value, values, body) for value in node.inputs]
        made = new.node(
            node.op,
            given,
            domain=node.domain,
            like=_resolved(node, attributes or {}),
            outputs=len(node.outputs),
        )
        for old, value in zip(node.outputs, made if isinstance(made, tuple) else (made,), strict=True):
            if old is not None:
                values[old] = value
    results = [_translated(value, values, body) for value in body.outputs]
    if any(value is None for value in results):
        refuse("an output that is not given")
    return [value for value in results if value is not None]


def _translated(value: Edge, values: Mapping[Edge, Edge | None], body: Graph) -> Edge | None:
    if value in values:
        return values[value]
    if value.graph is body:
        refuse("a constant that cannot be read")
    return value  # of a graph around both


def _require_same_meaning(node: Node, target: Graph) -> None:
    versions = node.graph.opset_of(node.domain), target.opset_of(node.domain)
    if versions[0] == versions[1]:
        return
    schemas = [schema(node.op, node.domain, version) for version in versions]
    if schemas[0] is None or schemas[1] is None or schemas[0].since_version != schemas[1].since_version:
        refuse("an operator of another opset")


def _resolved(node: Node, attributes: Mapping[str, Any]) -> Node:
    """The node with the parameters of its function replaced by what the call gives."""
    if not node.has_references:
        return node
    proto = NodeProto()
    proto.CopyFrom(node.proto)
    del proto.attribute[:]
    for attribute in node.proto.attribute:
        if not attribute.ref_attr_name:
            proto.attribute.append(attribute)
        elif attribute.ref_attr_name in attributes:
            given = proto.attribute.add()
            given.CopyFrom(attributes[attribute.ref_attr_name])
            given.name = attribute.name
    return Node(proto, node.graph)
