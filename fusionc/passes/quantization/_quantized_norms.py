"""A normalization that is quantized: its scale takes that of QuantizeLinear."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.passes._shared.constants import array_of
from fusionc.rewrite import Match, Tape, maybe, op, refuse, var
from fusionc.rewrite.pattern import Formula, OpFormula

# powers of two: beyond, a result could leave the range of float32 that would be rounded to a number
_WIDEST = 40


def quantized(value: Formula) -> OpFormula:
    """A value that is quantized, as `without_scale` wants it."""
    return op.QuantizeLinear(value, var("scale"), maybe(var("zero")), _as="quantize")


def without_scale(m: Match, new: Tape) -> tuple[Edge, Edge, Edge | None]:
    """The scale of the normalization divided by that of QuantizeLinear, then 1, and one zero point.

    Refuses where that is not the same bit by bit: where the scale of QuantizeLinear is no power of
    two.
    """
    if {m.gamma.elem_type, m.scale.elem_type} != {TensorProto.FLOAT}:
        refuse("the elements are not float32")
    if not m.gamma.is_constant or not m.scale.is_constant:
        refuse("a scale is not a constant")
    factor = array_of(m.scale)
    gamma = array_of(m.gamma)
    rank = m.quantize.inputs[0].rank
    if factor.size == 1 and factor.item() == 1:
        refuse("the scale is 1")
    if m.quantize.attr("block_size", 0):
        refuse("blocks are quantized")
    along_last = (
        rank is not None
        and factor.ndim == 1
        and m.quantize.attr("axis", 1) % max(rank, 1) == rank - 1
    )
    if factor.size != 1 and not (along_last and gamma.ndim and gamma.shape[-1] == factor.size):
        refuse("the scale of the quantization is not along the last axis")
    mantissa, exponent = np.frexp(factor)
    if (mantissa != 0.5).any() or (np.abs(exponent) > _WIDEST).any():
        refuse("the scale of the quantization is not a power of two")
    divided = gamma.astype(np.float64) / (factor if factor.size > 1 else factor.item())
    made = new.const(divided, like=m.gamma)
    if not np.array_equal(made.values, divided):
        refuse("the scale of the normalization would be rounded")
    return made, new.const(np.ones((), np.float32)), _one_zero_point(m, new)


def _one_zero_point(m: Match, new: Tape) -> Edge | None:
    zero: Edge | None = m.zero
    array = None if zero is None else zero.constant()
    if zero is None or zero.shape == ():
        return zero
    if array is None or not array.size or (array != array.reshape(-1)[0]).any():
        refuse("the zero points are not all the same")
    return new.const(array.reshape(-1)[0].reshape(()), like=zero)
