"""What onnx's shape inference says of one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto, ValueInfoProto, shape_inference
from onnx.checker import ValidationError

from fusionc.model import operators, tensors
from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.tensors import ValueType
from fusionc.protos import graphs_of, with_shapes
from fusionc.shapes.elements import SMALL, elements

_IR_VERSION = 10  # of what onnx is asked about: initializers need not be inputs there
LIKE_STANDARD = {("FusedConv", operators.MICROSOFT): ("Conv", "")}  # those of onnxruntime, and whose shapes they make


def ask(node: Node, *, is_new: bool) -> Sequence[ValueType]:
    """The types of the outputs of a node, as far as they follow from those of its inputs and from small constants.

    The node gets names of its own for what it reads and makes. Its subgraphs have no nodes: of them onnx needs the
    types that they end in. Raises what onnx raises where the operator cannot take these inputs; but a node that is not
    new may have inputs of types that only onnxruntime has the operator for.
    """
    graph, given = node.graph, {f"i{at}": value for at, value in enumerate(node.inputs) if value is not None}
    types = {name: value.known_type.proto for name, value in given.items()}
    held = {name: array for name, value in given.items() if (array := _held(value)) is not None}
    known = {name: tensors.to_proto(array, name) for name, array in held.items()}
    proto = _alone(node)
    opsets = [onnx.helper.make_opsetid(*entry) for entry in ({node.domain: 1} | graph.opsets).items()]
    schema = operators.schema(proto.op_type, proto.domain, graph.opset_of(proto.domain))
    found: Mapping[str, TypeProto] | None = None
    if schema is not None:
        try:
            found = shape_inference.infer_node_outputs(schema, proto, types, known, None, opsets, _IR_VERSION)
        except (ValidationError, shape_inference.InferenceError):
            if is_new:
                raise
    if found is None:  # a model's inference does not compare types with those of the operator
        model = onnx.ModelProto(ir_version=_IR_VERSION, opset_import=opsets, functions=_functions(node))
        model.graph.CopyFrom(GraphProto(name="call", node=[proto], initializer=known.values()))
        model.graph.input.extend(ValueInfoProto(name=name, type=type_) for name, type_ in types.items())
        model.graph.output.extend(ValueInfoProto(name=name) for name in proto.output if name)
        found = {info.name: info.type for info in with_shapes(model).graph.output}
    # What onnx calls a dimension of which it knows nothing is a name in this call only: it is not that of another call.
    read = (*given.values(), *(value for body in node.bodies for value in (*body.inputs, *body.outputs)))
    names = {dim for value in read for dim in value.known_type.shape or ()}
    made = [ValueType.of(found.get(name, TypeProto())) for name in proto.output]
    dims = (t.shape and tuple(dim if isinstance(dim, int) or dim in names else None for dim in t.shape) for t in made)
    return [replace(type_, shape=shape) for type_, shape in zip(made, dims, strict=True)]


def _alone(node: Node) -> NodeProto:
    op, domain = LIKE_STANDARD.get((node.op, node.domain), (node.op, node.domain))
    proto, is_like = NodeProto(op_type=op, domain=domain, overload=node.proto.overload), op != node.op
    inputs = node.inputs[:3] if is_like else node.inputs  # the fourth of FusedConv has the shape of what it makes
    proto.input.extend("" if value is None else f"i{at}" for at, value in enumerate(inputs))
    proto.output.extend("" if value is None else f"o{at}" for at, value in enumerate(node.outputs))
    bodies = iter(node.bodies)
    for attribute in node.proto.attribute:
        held = [_outline(next(bodies)) for _ in graphs_of(attribute)]
        value = held[0] if attribute.type == AttributeProto.GRAPH else held
        if not is_like or not attribute.name.startswith("activation"):
            proto.attribute.append(onnx.helper.make_attribute(attribute.name, value) if held else attribute)
    return proto


def _outline(body: Graph) -> GraphProto:
    inputs = [ValueInfoProto(name=f"i{at}", type=value.known_type.proto) for at, value in enumerate(body.inputs)]
    outputs = [ValueInfoProto(name=f"o{at}", type=value.known_type.proto) for at, value in enumerate(body.outputs)]
    return GraphProto(name="body", input=inputs, output=outputs)


def _held(value: Edge) -> np.ndarray[Any, Any] | None:
    """What a tensor holds that may be a shape, axes or sizes, as far as it is known."""
    if prod(dim for dim in value.known_type.shape or () if isinstance(dim, int)) > SMALL:
        return None
    # onnx's own propagation of elements ends at a Reshape: were they known before folding, other rewrites came first.
    is_followed = not value.is_constant and value.producer is not None and value.producer.op != "Reshape"
    numbers = elements(value) if is_followed else None
    known = [number for number in numbers or () if isinstance(number, int)]
    if numbers is None or value.dtype is None or len(known) < len(numbers):
        return value.constant()
    limits = np.iinfo(value.dtype)
    if any(not limits.min <= number <= limits.max for number in known):
        return None
    return np.array(known, value.dtype).reshape([len(known)][: value.rank])


def _functions(node: Node) -> list[FunctionProto]:
    """The function that a node calls, with all that are called there."""
    found: dict[Graph, FunctionProto] = {}
    pending = [node]
    while pending:
        function = pending.pop().function
        if function is not None and function not in found:
            found[function] = function.proto
            bodies = (body for inner in function.nodes for body in inner.subgraphs(recursive=True))
            pending += (inner for graph in (function, *bodies) for inner in graph.nodes)
    return list(found.values())
