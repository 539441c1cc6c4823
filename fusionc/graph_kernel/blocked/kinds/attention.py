"""Attention. Queries, keys and values are rows. A row contains the channels of all heads, one head
after the other. Keys and values may have an axis of heads, and fewer heads than the queries
(grouped-query attention).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import onnx
from onnx import TensorProto

from fusionc.graph_kernel.blocked.heads import has_heads, rows_with_heads
from fusionc.graph_kernel.blocked.image_area import Heads, ImageArea, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.operator_reading import OperatorReading
from fusionc.graph_kernel.blocked.step_kind import (
    BLOCK,
    StepEstimate,
    StepFunctions,
    StepKind,
    StepSizes,
)
from fusionc.graph_kernel.lower.area_info import attribute
from fusionc.model.operators import MICROSOFT

_SCORES_BIAS = 5  # the input of a MultiHeadAttention that is added to scores
_BIAS_RANK = 4  # the number of axes of that input
# Measured with AVX-512, as the sum of the times of two threads in milliseconds:
#     12 heads of 64 channels, 2 × 64 rows:   0.44 here, 0.96 in onnxruntime
#     12 heads of 64 channels, 197 rows:      1.8 here, 2.2 to 3 in onnxruntime
#      6 heads of 64 channels, 400 rows:      2.6 here, 3.5 in onnxruntime
# The estimate adds two times: one for the multiplications, and one for reading and writing each
# element of queries, keys, values and results.
_PRODUCTS = 50e9  # multiplications in a second
_NUMBER = 0.6e-9  # seconds to read or write an element here
_NUMBER_THERE = 1.6e-9  # seconds to read or write an element in onnxruntime


@dataclass(frozen=True)
class AttentionStep(StepKind):
    """The image contains the queries, `second` the keys and `third` the values. `tensor` is added
    to the scores. If keys and values have fewer heads than the queries, several heads of the
    queries share one head of keys and one head of values.
    """

    heads: int  # of the queries
    scale: float  # the factor of scores
    functions = StepFunctions(
        task="attend",
        scratch="attention_floats",
        fault="attention_fault",
        divide="divide_attention",
        most_tasks="attention_tasks",
    )
    family = "attention"
    keeps_pixels = True

    @staticmethod
    def products(sizes: StepSizes) -> Any:
        return sizes.made * sizes.keys * (1 + sizes.channels_in / sizes.channels_out)

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        assert of.second is not None and of.third is not None
        queries = of.out.pixels
        keys = of.second.pixels
        channels = of.image.channels + of.out.channels
        products = self.products(of.sizes) / _PRODUCTS
        numbers = queries * channels + keys * (of.second.channels + of.third.channels)
        return products + numbers * _NUMBER, products + numbers * _NUMBER_THERE


def attention(images: ImageArea, node: onnx.NodeProto) -> Operation | None:
    """The operator MultiHeadAttention, without past keys and values. Raises UnfitOperator for
    others. Returns None in a fragment if keys or values have an axis of heads.
    """
    query, key, value, scores_bias = _operands(node)
    heads = int(attribute(node, "num_heads"))
    if isinstance(images.parts.get(query), Heads):
        raise UnfitOperator("its queries have an axis of heads")
    if images.is_fragment and any(has_heads(images, name) for name in (key, value)):
        images.note(node.output[0], None)
        return None
    query, _ = rows_with_heads(images, query, heads)
    key, times = rows_with_heads(images, key, heads)
    value, of_values = rows_with_heads(images, value, heads)
    _require_same_heads(images, (query, key, value), heads, (times, of_values))
    if scores_bias:
        images.tensor(scores_bias, TensorProto.FLOAT, _BIAS_RANK)
    q = images.image(query)
    channels_out = images.image(value).channels * times
    images.note(node.output[0], replace(q, channels=channels_out))
    scale = float(attribute(node, "scale", 0.0)) or 1 / math.sqrt(q.channels // heads)
    kind = AttentionStep(heads, scale)
    return Operation(kind, node.output[0], query, key, value, tensor=scores_bias)


def _operands(node: onnx.NodeProto) -> tuple[str, str, str, str]:
    """The names of the queries, the keys, the values, and the tensor that is added to the scores
    ("" if there is none). Raises UnfitOperator if the attention has other operands or results.
    """
    inputs = [*node.input, *[""] * _SCORES_BIAS][: max(len(node.input), _SCORES_BIAS + 1)]
    query, key, value = inputs[:3]
    if not key or not value:
        raise UnfitOperator("its queries, keys and values are not three separate tensors")
    others = [name for place, name in enumerate(inputs[3:], 3) if place != _SCORES_BIAS]
    if any(others) or any(node.output[1:]):
        raise UnfitOperator(
            "its attention has past keys, a bias of its own, a mask of keys, or further outputs"
        )
    if attribute(node, "unidirectional", 0):
        raise UnfitOperator("its attention is causal: a query sees only its own and earlier keys")
    return query, key, value, inputs[_SCORES_BIAS]


def _require_same_heads(
    images: ImageArea, names: tuple[str, str, str], heads: int, times: tuple[int, int]
) -> None:
    """Raises UnfitOperator if queries, keys and values do not fit each other. `times` contains two
    numbers: how often each head of the keys, and each head of the values, is repeated.
    """
    query, key, value = names
    q, k, v = (images.image(name) for name in names)
    if times[0] != times[1] or q.channels != k.channels * times[0]:
        raise UnfitOperator(
            "its keys have other channels than its queries, or other heads than its values"
        )
    if any(channels % (heads * BLOCK) for channels in (q.channels, v.channels * times[0])):
        raise UnfitOperator("its heads are not whole blocks of channels")
    same = (
        images.are_same(query, key, 0),
        images.are_same(key, value, 0),
        images.are_same(key, value, 3),
    )
    if not all(same):
        raise UnfitOperator(
            "its queries, keys and values may have different batch sizes, or keys and values "
            "different numbers of rows"
        )


READINGS = {(MICROSOFT, "MultiHeadAttention"): OperatorReading(attention, of_rows=True)}
