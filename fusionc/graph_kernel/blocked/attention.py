"""Attention whose queries, keys and values are rows with the channels of all heads side by side.
Keys and values may have an axis of heads, and fewer heads than queries (grouped-query
attention).
"""

from __future__ import annotations

import math
from dataclasses import replace

import onnx
from onnx import TensorProto

from fusionc.graph_kernel.blocked.heads import has_heads, rows_with_heads
from fusionc.graph_kernel.blocked.image_area import ImageArea, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.program import BLOCK, KernelWindow, StepKind
from fusionc.graph_kernel.lower.area_info import attribute

_SCORES_BIAS = 5  # which input of a MultiHeadAttention that is
_BIAS_RANK = 4  # axes of what is added to scores


def attention(images: ImageArea, node: onnx.NodeProto) -> Operation | None:
    """MultiHeadAttention without a past. Raises UnfitOperator."""
    inputs = [*node.input, *[""] * _SCORES_BIAS][: max(len(node.input), _SCORES_BIAS + 1)]
    query, key, value = inputs[:3]
    scores_bias = inputs[_SCORES_BIAS]
    if not key or not value:
        raise UnfitOperator("its queries, keys and values are one tensor")
    if any(name for place, name in enumerate(inputs[3:], 3) if place != _SCORES_BIAS) or any(
        node.output[1:]
    ):
        raise UnfitOperator(
            "its attention has a past, a bias of its own, a mask by keys or further outputs"
        )
    if attribute(node, "unidirectional", 0):
        raise UnfitOperator("its queries see the keys before them alone")
    heads = int(attribute(node, "num_heads"))
    if query in images.heads:
        raise UnfitOperator("its queries have an axis of heads")
    if images.is_fragment and any(has_heads(images, name) for name in (key, value)):
        images.note(node.output[0], None)
        return None
    query, _ = rows_with_heads(images, query, heads)
    (key, times), (value, of_values) = (
        rows_with_heads(images, name, heads) for name in (key, value)
    )
    q, k, v = (images.image(name) for name in (query, key, value))
    if times != of_values or q.channels != k.channels * times:
        raise UnfitOperator("its keys have other channels than its queries")
    if any(channels % (heads * BLOCK) for channels in (q.channels, v.channels * times)):
        raise UnfitOperator("its heads are no whole blocks of channels")
    same = (
        images.are_same(query, key, 0),
        images.are_same(key, value, 0),
        images.are_same(key, value, 3),
    )
    if not all(same):
        raise UnfitOperator("it may have other batches, or not as many values as keys")
    if scores_bias:
        images.tensor(scores_bias, TensorProto.FLOAT, _BIAS_RANK)
    images.note(node.output[0], replace(q, channels=v.channels * times))
    return Operation(
        StepKind.ATTENTION,
        node.output[0],
        query,
        key,
        value,
        tensor=scores_bias,
        window=KernelWindow(group=heads),
        scale=float(attribute(node, "scale", 0.0)) or 1 / math.sqrt(q.channels // heads),
    )
