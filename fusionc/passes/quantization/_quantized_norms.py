"""Fold the scale of a QuantizeLinear into the scale of the normalization before it."""

from __future__ import annotations

import numpy as np

from fusionc.model.graph import Edge
from fusionc.model.tensors import Array
from fusionc.rewrite import Match, Tape, maybe, op, refuse, var
from fusionc.rewrite.pattern import Formula, OpFormula

# with scales above 2^40 or below 2^−40, a result could leave the range of float32
_WIDEST = 40


def quantized(value: Formula) -> OpFormula:
    """The quantization of a value. Captures what `move_scale` reads."""
    return op.QuantizeLinear(value, var("scale"), maybe(var("zero")), _as="quantize")


def move_scale(m: Match, new: Tape) -> tuple[Edge, Edge, Edge | None]:
    """The scale of the normalization divided by that of QuantizeLinear; the new scale of
    QuantizeLinear, which is 1; and its zero point.

    Refuses if the scale of QuantizeLinear is not a power of two, because the results would not be
    the same bit by bit. Also refuses blocks, an axis other than the last one, and zero points that
    differ.
    """
    m.gamma.require_type(np.float32)
    m.scale.require_type(np.float32)
    gamma = m.gamma.require_constant("the scale of the normalization")
    factor = m.scale.require_constant("the scale of the quantization")
    if factor.size == 1 and factor.item() == 1:
        refuse("the scale of the quantization is already 1")
    _require_last_axis(m, gamma, factor)
    mantissa, exponent = np.frexp(factor)
    if (mantissa != 0.5).any() or (np.abs(exponent) > _WIDEST).any():
        refuse("the scale of the quantization is not a power of two")
    divided = gamma.astype(np.float64) / (factor if factor.size > 1 else factor.item())
    new_scale = new.const(divided, like=m.gamma)
    if not np.array_equal(new_scale.values, divided):
        refuse("the scale of the normalization would be rounded")
    return new_scale, new.const(np.ones((), np.float32)), _one_zero_point(m, new)


def _require_last_axis(m: Match, gamma: Array, factor: Array) -> None:
    """Refuse a quantization of blocks, or along an axis other than the last."""
    if m.quantize.attr("block_size", 0):
        refuse("blocks are quantized")
    if factor.size == 1:
        return
    rank = m.quantize.inputs[0].rank
    is_last = rank is not None and m.quantize.attr("axis", 1) % max(rank, 1) == rank - 1
    if not is_last or factor.ndim != 1 or gamma.shape[-1:] != factor.shape:
        refuse("the scale of the quantization is not along the last axis")


def _one_zero_point(m: Match, new: Tape) -> Edge | None:
    """The zero point as a scalar; None if it is omitted. Refuses zero points that differ."""
    zero: Edge | None = m.zero
    array = None if zero is None else zero.constant()
    if zero is None or zero.shape == ():
        return zero
    if array is None or not array.size or (array != array.reshape(-1)[0]).any():
        refuse("the zero points are not all the same")
    return new.const(array.reshape(-1)[0].reshape(()), like=zero)
