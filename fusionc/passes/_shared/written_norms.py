"""Normalizations that are written out: their formulas, and checks of the captured values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fusionc.model.graph import Edge
from fusionc.passes._shared.constants import array_of
from fusionc.rewrite import Match, Tape, const, either, op, refuse, rest, var
from fusionc.rewrite.pattern import Formula, OpFormula
from fusionc.shapes.equality import same_shape

LAYER_NORMALIZATION = 17  # the opset that introduced LayerNormalization
scale = var("scale")
_x = var("x")
_epsilon = const("epsilon")


def _mean(value: Formula, axes: str, name: str) -> OpFormula:
    """The mean over the last axes. tf2onnx writes GlobalAveragePool for the last of three axes."""
    return op["ReduceMean", "GlobalAveragePool"](value, rest(axes), _as=name)


def _centred(name: str) -> OpFormula:
    """x − mean(x), with its mean captured as `name`. The names of two uses may capture the same
    node, because some exporters write x − mean(x) once and others once for each use.
    """
    return op.Sub(_x, _mean(_x, f"{name}_axes", name))


def _inverse_root(value: Formula, numerator: Formula) -> Formula:
    """numerator / √value, in all forms that exporters write."""
    root = op.Sqrt(value)
    inverse = either(op.Reciprocal(root), 1.0 / root, op.Pow(value, -0.5))
    return either(numerator / root, numerator * inverse)


_square = _centred("mean_of_square")
_variance = _mean(either(_square**2.0, _square * _square), "variance_axes", "variance")
# (x − mean(x)) / √(variance(x) + epsilon)
_NORMALIZED = _inverse_root(_variance + _epsilon, _centred("mean"))
_MAX_ONES = 1 << 16  # the largest number of elements of a scale of ones that a pass adds
_SECOND_INPUT = slice(1, 2)


def normalized(factor: Formula | None = None, offset: Formula | None = None) -> Formula:
    """(x − mean(x)) / √(variance(x) + epsilon), times a factor, plus an offset.

    tf2onnx multiplies the inverse root by the factor f; Tensorflow also writes x · f + (offset −
    mean(x) · f).
    """
    if factor is None:
        return _NORMALIZED
    inverse = op.Reciprocal(op.Sqrt(_variance + _epsilon)) * factor
    scaled = either(_NORMALIZED * factor, _centred("mean") * inverse)
    if offset is None:
        return scaled
    mean = _mean(_x, "mean_axes", "mean")
    return either(scaled + offset, _x * inverse + (offset - mean * inverse))


def root_mean_square(value: Formula, factor: Formula | None = None) -> Formula:
    """value / √(mean(value²) + epsilon), times a factor, by which tf2onnx multiplies the inverse
    root.
    """
    mean = _mean(either(value**2.0, value * value), "axes", "mean")
    plain = _inverse_root(mean + _epsilon, value)
    if factor is None:
        return plain
    return either(plain * factor, value * (op.Reciprocal(op.Sqrt(mean + _epsilon)) * factor))


def is_plain(m: Match) -> bool:
    """Whether no constant multiplies the result. Such a constant would be the scale of the
    normalization.
    """
    users = [node for value in m.outputs for node in value.outputs if node.op == "Mul"]
    return not any(
        value is not None and value.is_constant for node in users for value in node.inputs
    )


def keep_scale(x: Edge, scale: Edge) -> None:
    """Refuse to move the scale away from any form of y / √(mean(y²) + epsilon), because onnxruntime
    recognizes normalizations by it.

    Layer normalization may lose its scale at opsets that have LayerNormalization, because fusionc
    recognizes it there without a scale, too, and it may become InstanceNormalization.
    """
    quotients = [x, *_operands([x], "Cast")]
    factors = _operands(quotients, "Mul")
    divisors = [
        *_operands(quotients, "Div", _SECOND_INPUT),
        *_operands(factors, "Div", _SECOND_INPUT),
        *_operands(factors, "Reciprocal"),
    ]
    squares = _operands(_operands(_operands(divisors, "Sqrt"), "Add"), "ReduceMean", slice(1))
    roots = [*_operands(squares, "Pow"), *_operands(squares, "Mul")]
    has_own_operator = x.graph.opset >= LAYER_NORMALIZATION and bool(_operands(roots, "Sub"))
    if scale.rank == 1 and squares and not has_own_operator:
        refuse("onnxruntime recognizes normalizations by this scale, so it stays")


def _operands(values: list[Edge], name: str, which: slice = slice(None)) -> list[Edge]:
    """The inputs of all nodes with the operator `name` that produce one of the values. `which`
    selects among the inputs of each node.
    """
    nodes = [value.producer for value in values]
    inputs = [
        [edge for edge in node.inputs if edge is not None][which]
        for node in nodes
        if node is not None and node.is_op(name)
    ]
    return [edge for edges in inputs for edge in edges]


def epsilon_of(m: Match) -> float:
    """The captured epsilon. Refuses an epsilon that is not a single constant number."""
    return float(m.epsilon.require_number("epsilon"))


def channel_vector(value: Edge, channels: int, rank: int) -> np.ndarray[Any, Any]:
    """A constant of shape [C, 1, 1] or [1, C, 1, 1] as a vector. Refuses other shapes."""
    array = array_of(value)
    shape = (1,) * (rank - array.ndim) + array.shape
    if shape != (1, channels, *[1] * (rank - 2)):
        refuse("the constant does not have exactly one number for each channel")
    return array.reshape(-1)


def scale_or_ones(m: Match, new: Tape, axis: int) -> Edge:
    """The captured scale for the axes from `axis` on, or ones if the formula has no scale. Refuses
    a scale of another shape, and a scale of ones that would be too large.
    """
    normalized = m.x.shape[axis:]
    factor = m.scale
    # The formula maps an empty tensor to an empty one, but perhaps the operator does not.
    if not all(isinstance(d, int) and d > 0 for d in normalized):
        refuse("the normalized axes may be empty")
    if factor is None:
        if math.prod(normalized) > _MAX_ONES:
            refuse("a scale of ones would take too much memory")
        return new.const(np.ones(normalized), dtype=m.x.dtype)
    if not same_shape(factor.shape, normalized):
        refuse("scale or offset does not have the shape of the normalized axes")
    edge: Edge = factor
    return edge
