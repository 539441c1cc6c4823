"""The nodes of one graph put into another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import NodeProto

from fusionc.model.functions import resolve
from fusionc.model.graph import Edge, Graph, Node, Value
from fusionc.model.operators import schema
from fusionc.operators.randomness import RANDOM
from fusionc.rewrite import Tape, refuse


def inlined(
    new: Tape,
    node: Node,
    body: Graph,
    inputs: Sequence[Edge | None] = (),
    attributes: Mapping[str, onnx.AttributeProto] | None = None,
) -> list[Edge]:
    """What the outputs of a node become: those of a subgraph or function body of it, made anew
    beside it.

    `inputs` stand for the inputs of the body, `attributes` for the parameters of a function. Nodes
    with subgraphs of their own are moved: out of a function, which may have other calls, that is
    refused, as are operators that mean something else at the other graph's opset.
    """
    values: dict[Edge, Edge | None] = dict(zip(body.inputs, inputs, strict=False))
    values.update(dict.fromkeys(body.inputs[len(inputs) :]))
    values.update(
        {constant: new.const(constant.values, like=constant) for constant in body.constants()}
    )
    for inner in body.ordered():
        _require_same_meaning(inner, new.graph)
        if inner.op in RANDOM and inner.attr("seed") is None:
            refuse("random numbers without a seed: with another name they would be others")
        given = [
            None if value is None else _translated(value, values, body) for value in inner.inputs
        ]
        if inner.bodies and body.is_function:
            refuse("control flow inside what would be inlined")
        made: Sequence[Value | None]
        if inner.bodies:
            made = new.move(inner, given, _known(inner, values, body))
        else:
            like = _resolved(inner, attributes or {}) if body.is_function else inner
            wanted = [value is not None for value in inner.outputs]
            made = new.node(inner.op, given, domain=inner.domain, like=like, outputs=wanted)
        for old, value in zip(inner.outputs, made, strict=True):
            if old is not None:
                values[old] = value
    results = [_translated(value, values, body) for value in body.outputs]
    if any(value is None for value in results):
        refuse("an output that is not given")
    pairs = zip(results, node.outputs, strict=False)
    return [value for value, old in pairs if value is not None and old is not None]


def _known(node: Node, values: Mapping[Edge, Edge | None], body: Graph) -> dict[Edge, Edge]:
    """What the subgraphs of a node read of the body that holds it, and what stands for that."""
    pairs = {value: _translated(value, values, body) for value in node.captures()}
    return {
        value: found for value, found in pairs.items() if found is not None and found is not value
    }


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
    if (
        schemas[0] is None
        or schemas[1] is None
        or schemas[0].since_version != schemas[1].since_version
    ):
        refuse("an operator of another opset")


def _resolved(node: Node, attributes: Mapping[str, Any]) -> Node:
    """The node with the parameters of its function replaced by what the call gives."""
    if not node.has_references:
        return node
    proto = NodeProto()
    proto.CopyFrom(node.proto)
    resolve(proto, attributes)
    return Node(proto, node.graph)
