"""What onnx's shape inference says of one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto, ValueInfoProto

from fusionc.model import operators, tensors
from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.tensors import ValueType
from fusionc.protos import graphs_of, output_types
from fusionc.shapes.elements import SMALL, elements

_ANSWERS: dict[tuple[Any, ...], list[ValueType]] = {}
_MOST_ANSWERS = 10_000
# whose shapes they make
LIKE_STANDARD = {(f"Fused{op}", operators.MICROSOFT): (op, "") for op in ("Conv", "Gemm")}


def ask(node: Node, *, is_new: bool) -> Sequence[ValueType]:
    """The types of the outputs of a node, as far as they follow from those of its inputs and from
    small constants.

    The node gets names of its own for what it reads and makes. Its subgraphs have no nodes: of them
    onnx needs the types that they end in. Raises what onnx raises where the operator cannot take
    these inputs; but a node that is not new may have inputs of types that only onnxruntime has the
    operator for. What was asked once is remembered: layers are alike.
    """
    graph = node.graph
    given = {f"i{at}": value for at, value in enumerate(node.inputs) if value is not None}
    held = {name: array for name, value in given.items() if (array := _held(value)) is not None}
    is_alone = not node.bodies and node.function is None
    attributes = (
        tuple(attribute.SerializeToString() for attribute in node.proto.attribute)
        if is_alone
        else ()
    )
    inputs = [None if v is None else v.known_type for v in node.inputs]
    omitted = [v is None for v in node.outputs]
    contents = tuple((name, array.shape, array.tobytes()) for name, array in held.items())
    question = (
        node.operator,
        attributes,
        tuple(inputs),
        tuple(omitted),
        contents,
        tuple(graph.opsets.items()),
        is_new,
    )
    if is_alone and question in _ANSWERS:
        return _ANSWERS[question]
    proto = _alone(node)
    types = {name: value.known_type.proto for name, value in given.items()}
    known = {name: tensors.to_proto(array, name) for name, array in held.items()}
    schema = operators.schema(proto.op_type, proto.domain, graph.opset_of(proto.domain))
    functions = [
        called.proto for called in graphs_called(node) if isinstance(called.proto, FunctionProto)
    ]
    found = output_types(
        proto, schema, types, known, {node.domain: 1} | graph.opsets, functions, is_new=is_new
    )
    # What onnx calls a dimension of which it knows nothing is a name in this call only: it is not
    # that of another call.
    read = (
        *given.values(),
        *(value for body in node.bodies for value in (*body.inputs, *body.outputs)),
    )
    names = {dim for value in read for dim in value.known_type.shape or ()}
    made = [ValueType.of(found.get(name, TypeProto())) for name in proto.output]
    dims = (
        t.shape and tuple(dim if isinstance(dim, int) or dim in names else None for dim in t.shape)
        for t in made
    )
    answer = [replace(type_, shape=shape) for type_, shape in zip(made, dims, strict=True)]
    if is_alone and len(_ANSWERS) < _MOST_ANSWERS:
        _ANSWERS[question] = answer
    return answer


def _alone(node: Node) -> NodeProto:
    op, domain = LIKE_STANDARD.get((node.op, node.domain), (node.op, node.domain))
    proto = NodeProto(op_type=op, domain=domain, overload=node.proto.overload)
    is_like = op != node.op
    # the fourth of FusedConv has the shape of what it makes
    inputs = node.inputs[:3] if is_like else node.inputs
    proto.input.extend("" if value is None else f"i{at}" for at, value in enumerate(inputs))
    proto.output.extend("" if value is None else f"o{at}" for at, value in enumerate(node.outputs))
    bodies = iter(node.bodies)
    for attribute in node.proto.attribute:
        held = [_outline(next(bodies)) for _ in graphs_of(attribute)]
        value = held[0] if attribute.type == AttributeProto.GRAPH else held
        if not is_like or not attribute.name.startswith("activation"):
            proto.attribute.append(
                onnx.helper.make_attribute(attribute.name, value) if held else attribute
            )
    return proto


def _outline(body: Graph) -> GraphProto:
    inputs = [
        ValueInfoProto(name=f"i{at}", type=value.known_type.proto)
        for at, value in enumerate(body.inputs)
    ]
    outputs = [
        ValueInfoProto(name=f"o{at}", type=value.known_type.proto)
        for at, value in enumerate(body.outputs)
    ]
    return GraphProto(name="body", input=inputs, output=outputs)


def _held(value: Edge) -> np.ndarray[Any, Any] | None:
    """What a tensor holds that may be a shape, axes or sizes, as far as it is known."""
    if prod(dim for dim in value.known_type.shape or () if isinstance(dim, int)) > SMALL:
        return None
    # onnx's own propagation of elements ends at a Reshape: were they known before folding, other
    # rewrites came first.
    is_followed = (
        not value.is_constant and value.producer is not None and value.producer.op != "Reshape"
    )
    numbers = elements(value) if is_followed else None
    known = [number for number in numbers or () if isinstance(number, int)]
    if numbers is None or value.dtype is None or len(known) < len(numbers):
        return value.constant()
    return np.array(known, value.dtype).reshape([len(known)][: value.rank])


def graphs_called(node: Node) -> list[Graph]:
    """The body of the function that a node calls and of all that are called there, with their
    subgraphs.
    """
    found: dict[Graph, None] = {}
    pending = [node]
    while pending:
        function = pending.pop().function
        if function is not None and function not in found:
            graphs = (
                function,
                *(body for inner in function.nodes for body in inner.subgraphs(recursive=True)),
            )
            found |= dict.fromkeys(graphs)
            pending += (inner for graph in graphs for inner in graph.nodes)
    return list(found)
