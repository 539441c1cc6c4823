"""onnx's shape inference, kept from listing the elements of long vectors."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import shape_inference

from fusionc.model.walk import graphs_of

_LONG = 1 << 20  # elements


def infer(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the types and shapes that follow from what it computes, shapes that are computed included.

    For these onnx makes a list of the elements of every vector, whatever it holds and whether or not they are known:
    millions of them take seconds and gigabytes, more of them the end of the process. So a model with vectors as long
    as that goes without. Raises what onnx raises where it gives up on the model.
    """
    shapes = shape_inference.infer_shapes(model)
    if any(length > _LONG for length in _lengths(shapes.graph)):
        return shapes
    return shape_inference.infer_shapes(model, data_prop=True)


def _lengths(graph: onnx.GraphProto) -> Iterator[int]:
    """The lengths of all vectors."""
    for value in (*graph.input, *graph.value_info, *graph.output):
        dims = value.type.tensor_type.shape.dim
        if len(dims) == 1:
            yield dims[0].dim_value
    yield from (tensor.dims[0] for tensor in graph.initializer if len(tensor.dims) == 1)
    for node in graph.node:
        for attribute in node.attribute:
            for body in graphs_of(attribute):
                yield from _lengths(body)
