"""Normalizations that are written out: their formulas, and what these captured."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.passes._shared.constants import array_of
from fusionc.rewrite import Match, Tape, const, either, op, refuse, rest, var
from fusionc.rewrite.pattern import Formula, OpFormula
from fusionc.shapes.equality import same_shape

LAYER_NORMALIZATION = 17  # the opset from which on it is an operator
scale = var("scale")
_x = var("x")
_epsilon = const("epsilon")


def _centred(name: str) -> OpFormula:
    """x − mean(x): exporters write it once, or once for each of its uses."""
    return op.Sub(_x, op.ReduceMean(_x, rest(f"{name}_axes"), _as=name))


def _inverse_root(value: Formula, numerator: Formula) -> Formula:
    """numerator / √value in the ways in which exporters write it."""
    root = op.Sqrt(value)
    inverse = either(op.Reciprocal(root), 1.0 / root, op.Pow(value, -0.5))
    return either(numerator / root, numerator * inverse)


_square = _centred("mean_of_square")
_variance = op.ReduceMean(
    either(_square**2.0, _square * _square), rest("variance_axes"), _as="variance"
)
# (x − mean(x)) / √(variance(x) + epsilon)
NORMALIZED = _inverse_root(_variance + _epsilon, _centred("mean"))
_MAX_ONES = 1 << 16  # elements of a scale that has to be made


def root_mean_square(value: Formula) -> Formula:
    """value / √(mean(value²) + epsilon)"""
    mean = op.ReduceMean(either(value**2.0, value * value), rest("axes"), _as="mean")
    return _inverse_root(mean + _epsilon, value)


def is_plain(m: Match) -> bool:
    """Whether no constant scales what the formula makes: where one does, it belongs to the
    normalization.
    """
    users = [node for value in m.outputs for node in value.outputs if node.op == "Mul"]
    return not any(
        value is not None and value.is_constant for node in users for value in node.inputs
    )


def keep_scale(x: Edge, scale: Edge) -> None:
    """Refuse to take the scale of each element away from x / √(mean(x²) + epsilon), written in
    whatever way.

    Layer normalization is another matter where the opset has it: it is found without its scale,
    too, and may be InstanceNormalization then.
    """
    quotients = [x, *_inputs_of(x, "Cast")]
    divisors = [
        value
        for quotient in quotients
        for value in (*_inputs_of(quotient, "Div")[1:], *_inverted(_inputs_of(quotient, "Mul")))
    ]
    terms = [
        term
        for root in divisors
        for total in _inputs_of(root, "Sqrt")
        for term in _inputs_of(total, "Add")
    ]
    squares = [square for term in terms for square in _inputs_of(term, "ReduceMean")[:1]]
    roots = [
        root for square in squares for name in ("Pow", "Mul") for root in _inputs_of(square, name)
    ]
    has_own_operator = (
        any(_inputs_of(root, "Sub") for root in roots) and x.graph.opset >= LAYER_NORMALIZATION
    )
    if scale.rank == 1 and squares and not has_own_operator:
        refuse("runtimes recognize normalizations by their scale")


def _inverted(factors: list[Edge]) -> list[Edge]:
    """Of what factors are one over something."""
    return [
        value
        for f in factors
        for value in (*_inputs_of(f, "Div")[1:], *_inputs_of(f, "Reciprocal"))
    ]


def _inputs_of(value: Edge, name: str) -> list[Edge]:
    """The inputs of the operator that makes a value, where it is this one."""
    node = value.producer
    return (
        [v for v in node.inputs if v is not None] if node is not None and node.is_op(name) else []
    )


def require_narrow(m: Match) -> None:
    """Refuses elements that the operators, which compute in float32, would round."""
    if m.x.elem_type not in (TensorProto.FLOAT, TensorProto.FLOAT16):
        refuse("the elements are neither float32 nor float16")


def epsilon_of(m: Match) -> float:
    """The captured epsilon. Refuses what is not one number."""
    array = m.epsilon.constant()
    if array.size != 1:
        refuse("epsilon is not one number")
    return float(array.item())


def channel_vector(value: Edge, channels: int, rank: int) -> np.ndarray[Any, Any]:
    """A constant of shape [C, 1, 1] or [1, C, 1, 1] as a vector. Refuses others."""
    array = array_of(value)
    shape = (1,) * (rank - array.ndim) + array.shape
    if shape != (1, channels, *[1] * (rank - 2)):
        refuse("the constant is not one number for each channel")
    return array.reshape(-1)


def scale_or_ones(m: Match, new: Tape, axis: int) -> Edge:
    """The captured scale of everything from `axis` on, or ones where the formula has none."""
    normalized = m.x.shape[axis:]
    factor = m.scale
    # the formula does not want anything to normalize
    if not all(isinstance(d, int) and d > 0 for d in normalized):
        refuse("there may be nothing to normalize")
    if factor is None:
        if math.prod(normalized) > _MAX_ONES:
            refuse("scales would take too much memory")
        return new.const(np.ones(normalized), dtype=m.x.dtype)
    if not same_shape(factor.shape, normalized):
        refuse("scale or offset has another shape than what is normalized")
    edge: Edge = factor
    return edge
