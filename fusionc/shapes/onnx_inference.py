"""onnx's type and shape inference for a single node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto, ValueInfoProto

from fusionc.model import operators, tensors
from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.tensors import Array, ValueType
from fusionc.protos import graphs_of, output_types
from fusionc.shapes.elements import SMALL, elements

_ANSWERS: dict[tuple[Any, ...], list[ValueType]] = {}
_MAX_ANSWERS = 10_000
# operators of onnxruntime whose outputs have the same shapes as those of a standard operator
LIKE_STANDARD = {(operators.MICROSOFT, f"Fused{op}"): ("", op) for op in ("Conv", "Gemm")}


def ask(node: Node, *, is_new: bool) -> Sequence[ValueType]:
    """The output types of a node, inferred from its input types and from small constants.

    onnx gets a copy of the node with new names for inputs and outputs. The subgraphs of the copy
    have no nodes, because onnx only needs their output types. If the operator cannot take these
    inputs, onnx's exceptions are raised. For a node that is not new they are suppressed, because
    only onnxruntime may support its input types. Answers are cached, because the layers of a model
    are often alike.
    """
    arrays = {
        f"i{at}": array
        for at, value in enumerate(node.inputs)
        if value is not None and (array := _known_array(value)) is not None
    }
    if node.bodies or node.function is not None:
        return _answer(node, arrays, is_new)
    question = _question(node, arrays, is_new)
    answer = _ANSWERS.get(question)
    if answer is None:
        answer = _answer(node, arrays, is_new)
        if len(_ANSWERS) >= _MAX_ANSWERS:
            del _ANSWERS[next(iter(_ANSWERS))]  # the oldest
        _ANSWERS[question] = answer
    return answer


def _question(node: Node, arrays: Mapping[str, Array], is_new: bool) -> tuple[Any, ...]:
    """The key of an answer: everything that the answer depends on."""
    return (
        node.operator,
        tuple(attribute.SerializeToString() for attribute in node.proto.attribute),
        tuple(None if value is None else value.known_type for value in node.inputs),
        tuple(value is None for value in node.outputs),
        tuple((name, array.shape, array.tobytes()) for name, array in arrays.items()),
        tuple(node.graph.opsets.items()),
        is_new,
    )


def _answer(node: Node, arrays: Mapping[str, Array], is_new: bool) -> list[ValueType]:
    proto = _lone_node(node)
    inputs = {f"i{at}": value for at, value in enumerate(node.inputs) if value is not None}
    protos = (called.proto for called in graphs_called(node))
    types = output_types(
        proto,
        operators.schema(proto.op_type, proto.domain, node.graph.opset_of(proto.domain)),
        {name: value.known_type.proto for name, value in inputs.items()},
        {name: tensors.to_proto(array, name) for name, array in arrays.items()},
        {node.domain: 1} | node.graph.opsets,
        [called for called in protos if isinstance(called, FunctionProto)],
        is_new=is_new,
    )
    ends = (value for body in node.bodies for value in (*body.inputs, *body.outputs))
    # symbols that onnx invents are valid only in this call, and are removed
    known = _dimensions((*inputs.values(), *ends))
    answers = (ValueType.of(types.get(name, TypeProto())) for name in proto.output)
    return [answer.with_symbols(known) for answer in answers]


def _dimensions(values: Iterable[Edge]) -> set[int | str | None]:
    return {dim for value in values for dim in value.known_type.shape or ()}


def _lone_node(node: Node) -> NodeProto:
    domain, op = LIKE_STANDARD.get(node.operator, node.operator)
    proto = NodeProto(op_type=op, domain=domain, overload=node.proto.overload)
    is_like = op != node.op
    # FusedConv has a fourth input, which Conv lacks and which does not change the output's shape
    inputs = node.inputs[:3] if is_like else node.inputs
    proto.input.extend("" if value is None else f"i{at}" for at, value in enumerate(inputs))
    proto.output.extend("" if value is None else f"o{at}" for at, value in enumerate(node.outputs))
    bodies = iter(node.bodies)
    for attribute in node.proto.attribute:
        graphs = [_outline(next(bodies)) for _ in graphs_of(attribute)]
        value = graphs[0] if attribute.type == AttributeProto.GRAPH else graphs
        if not is_like or not attribute.name.startswith("activation"):
            proto.attribute.append(
                onnx.helper.make_attribute(attribute.name, value) if graphs else attribute
            )
    return proto


def _outline(body: Graph) -> GraphProto:
    inputs = _declarations("i", body.inputs)
    return GraphProto(name="body", input=inputs, output=_declarations("o", body.outputs))


def _declarations(prefix: str, values: Iterable[Edge]) -> list[ValueInfoProto]:
    types = (value.known_type.proto for value in values)
    return [ValueInfoProto(name=f"{prefix}{at}", type=type_) for at, type_ in enumerate(types)]


def _known_array(value: Edge) -> Array | None:
    """The elements of a small tensor, which may be a shape, axes or sizes. None if they are
    unknown.
    """
    if prod(dim for dim in value.known_type.shape or () if isinstance(dim, int)) > SMALL:
        return None
    # onnx's own propagation of elements stops at a Reshape, and so does this function. Otherwise
    # more shapes would be known before constant folding, and passes would fire in another order.
    producer = None if value.is_constant else value.producer
    known = elements(value) if producer is not None and producer.op != "Reshape" else None
    if known is None or value.dtype is None or not all(isinstance(e, int) for e in known):
        return value.constant()
    return np.array(known, value.dtype).reshape([len(known)][: value.rank])


def graphs_called(node: Node) -> list[Graph]:
    """The bodies of all functions that a node calls, directly or through other functions, with
    their subgraphs.
    """
    reached: dict[Graph, None] = {}
    pending = [node]
    while pending:
        function = pending.pop().function
        if function is not None and function not in reached:
            graphs = (
                function,
                *(body for inner in function.nodes for body in inner.subgraphs(recursive=True)),
            )
            reached |= dict.fromkeys(graphs)
            pending += (inner for graph in graphs for inner in graph.nodes)
    return list(reached)
