from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge, Graph, Node
from fusionc.passes._shared.target import require_onnxruntime
from fusionc.rewrite import Match, Miss, Pattern, Result, Tape, UBFusionPass, refuse

_HALF = 128  # half of the range of 8 bits
# With fewer products, the second quantization takes longer than the convolution saves.
_DEEP = 64  # the least number of products in each sum
_MANY = 1 << 19  # the least number of products in the convolution


def _products(graph: Graph) -> Iterator[Match | Miss]:
    """A match for each DynamicQuantizeLinear whose integers a ConvInteger reads first: all nodes
    that read the integers.
    """
    for quantize in graph.of_operator("DynamicQuantizeLinear"):
        integers = quantize.outputs[0]
        readers = [] if integers is None else list(integers.outputs)
        if readers and readers[0].is_op("ConvInteger"):
            made = [node.outputs[0] for node in readers]
            yield Match(graph, readers, made, {"quantize": quantize, "convs": tuple(readers)})
        else:
            yield Miss(quantize, "the first operator that reads its integers is not a ConvInteger")


def _require_fast(conv: Node, quantize: Node) -> None:
    """Refuse a node that is not a ConvInteger of the integers, or is not faster with int8 data."""
    if not conv.is_op("ConvInteger") or conv.has_references or conv.graph is not quantize.graph:
        refuse("operators other than ConvInteger read the integers")
    data, weights, zero = ([*conv.inputs, None])[:3]
    if data is not quantize.outputs[0] or zero is not quantize.outputs[2] or zero is None:
        refuse("the zero point is not that of the data")
    if weights is None or weights.elem_type != TensorProto.UINT8:
        refuse("the weights are not uint8")
    if conv.attr("group", 1) != 1:
        refuse("the convolution has groups")
    if not _is_large(conv, weights):
        refuse("the convolution has too few products")


def _is_large(conv: Node, weights: Edge) -> bool:
    """Whether the products gain more time than the second quantization takes."""
    result = conv.outputs[0]
    shape = result.shape if result is not None and result.shape else ()
    depth = math.prod(size for size in (weights.shape or ())[1:] if isinstance(size, int))
    sizes = [size for size in shape if isinstance(size, int)]
    return depth >= _DEEP and (len(sizes) < len(shape) or math.prod(sizes) * depth >= _MANY)


class DynamicConvSignednessPass(UBFusionPass):
    """The data of a ConvInteger become int8 if the model quantizes them when it runs.

    before   q, s, z = DynamicQuantizeLinear(x); ConvInteger(q, W, z, w) with W in uint8
    after    k = z − 128 in int8; ConvInteger(QuantizeLinear(x, s, k), W, k, w)
    refuses  weights that are not uint8; convolutions with groups, which became slower; sums of
             fewer than 64 products, and small convolutions; integers that operators other than
             ConvInteger read, too; targets other than onnxruntime
    algebra  sat(round(x/s) + z) − 128 = sat(round(x/s) + z − 128) in the range of int8; ConvInteger
             computes (q − z)·(W − w)
    source   onnxruntime's quantize_dynamic. The weights are the left operand of ConvInteger's
             product, and products of uint8 by int8 are fast. A convolution of 64 channels takes 0.4
             of the time if its window is 3 × 3, and 0.7 if it is 1 × 1
    """

    patterns = (
        Pattern("DynamicConvSignedness", find=_products, operators=("DynamicQuantizeLinear",)),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        require_onnxruntime(m)
        for conv in m.convs:
            _require_fast(conv, m.quantize)
        _, scale, zero = m.quantize.outputs
        if scale is None:
            refuse("no operator reads the scale")
        wide = new.Cast(zero, to=TensorProto.INT32)
        moved = new.Sub(wide, new.const(np.asarray(_HALF, np.int32)))
        signed_zero = new.Cast(moved, to=TensorProto.INT8)
        data = new.QuantizeLinear(m.quantize.inputs[0], scale, signed_zero)
        return [
            new.ConvInteger(data, conv.inputs[1], signed_zero, *conv.inputs[3:], like=conv)
            for conv in m.convs
        ]
