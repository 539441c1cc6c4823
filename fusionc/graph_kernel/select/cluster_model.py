"""A copy of a cluster (operators from which areas are made) as a model. Graph kernel fusion
expands, simplifies and splits this copy, and leaves the original model unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import onnx

from fusionc.graph_kernel.select.area_values import area_value_of, edges_of, named
from fusionc.model.graph import Edge, Graph, Model, Node
from fusionc.model.operators import MICROSOFT
from fusionc.model.tensors import to_proto
from fusionc.protos import part_model
from fusionc.shapes.expressions import INVENTED
from fusionc.shapes.inference import typed_model

# A constant with at most so many elements becomes a constant of the copy. Others become inputs.
_MOST_COPIED = 1024


def cluster_proto(graph: Graph, nodes: Sequence[Node]) -> onnx.ModelProto | None:
    """The model of these nodes. `None` if the element type or rank of one of its inputs or outputs
    is unknown.
    """
    proto = part_model("cluster", map(named, nodes), {"": graph.opset, MICROSOFT: 1}, (), ())
    inside = set(nodes)
    for edge in dict.fromkeys(chain.from_iterable(map(edges_of, nodes))):
        is_made = edge.producer in inside and edge.graph is graph
        if not is_made and not _declare(edge, proto.graph):
            return None
    for output in chain.from_iterable(node.outputs for node in nodes):
        if output is None or not is_seen_outside(output, inside):
            continue
        info = _info(output)
        if info is None:
            return None
        proto.graph.output.append(info)
    return proto


def cluster_model(proto: onnx.ModelProto) -> Model:
    """The model as a graph in memory. The target is any runtime, so that simplification makes only
    standard operators.
    """
    return typed_model(proto, "", "onnx")


def is_seen_outside(value: Edge, inside: set[Node]) -> bool:
    """Whether an output or an operator other than `inside` needs a value."""
    return value.is_output or value.is_pinned or any(user not in inside for user in value.outputs)


def _declare(edge: Edge, graph: onnx.GraphProto) -> bool:
    """Declare a value from outside the cluster as a constant or an input. Return whether its type
    is known.
    """
    array = edge.constant() if edge.is_constant and _size(edge) <= _MOST_COPIED else None
    info = _info(edge) if array is None else None
    if array is not None:
        graph.initializer.append(to_proto(array, edge.name))
        graph.value_info.append(
            onnx.helper.make_tensor_value_info(edge.name, edge.elem_type, array.shape)
        )
    elif info is not None:
        graph.input.append(info)
    return array is not None or info is not None


def _size(edge: Edge) -> int:
    size = 1
    for dim in edge.shape or ():
        size *= dim if isinstance(dim, int) else _MOST_COPIED + 1
    return size if edge.shape is not None else _MOST_COPIED + 1


def _info(edge: Edge) -> onnx.ValueInfoProto | None:
    """The declaration of a value. Symbols of sizes that shape inference invented are renamed: in
    the copy, it may invent the same symbols again for other sizes.
    """
    operand = area_value_of(edge)
    if operand is None:
        return None
    dims = [
        dim.replace(INVENTED, "size ") if isinstance(dim, str) else dim for dim in operand.shape
    ]
    return onnx.helper.make_tensor_value_info(edge.name, operand.dtype, dims)
