import math

import numpy as np

from fusionc.model.graph import Edge
from fusionc.passes._shared.reduce_axes import new_reduce
from fusionc.passes.attention._heads import producer_of
from fusionc.passes.attention._masks import LOWEST, full_mask, hiding_numbers, shows_all
from fusionc.passes.attention._standard_attention import patterns
from fusionc.passes.attention._written_attention import SCORES, mask, operands
from fusionc.rewrite import Match, Pass, Result, Tape, refuse

_LOW = -3e38  # hides as well: what is added to it is lost in rounding
_LOW_AS_STORED = float(np.float32(_LOW))
_SHARE = (
    2.0**-20
)  # moves the lowest number by a few of the next ones, and 0, the usual maximum, not


def _attention(m: Match, new: Tape) -> Result:
    query, key, scale = operands(m, new)
    mask = full_mask(_replace_lowest(m, new), m.mask.shape, query, key, new)
    return new.Attention(query, key, m.v, mask, scale=scale)


def _replace_lowest(m: Match, new: Tape) -> Edge:
    """The mask, with other numbers in rows that hide all keys.

    If a row holds only the lowest number, or only −∞, onnxruntime makes zeros of it, and Softmax
    equal weights, or NaN.
    """
    given: Edge = m.mask
    if shows_all(given):
        return given
    numbers = hiding_numbers(given)
    if numbers is None or -math.inf in numbers:
        return _move_rows(m, numbers, new)
    if LOWEST not in numbers:
        return given
    array = given.constant()
    if array is not None and numbers == {LOWEST}:
        return new.const(np.maximum(array, np.float32(_LOW)), like=given)
    raised = _raise_operand(given, new)
    return _move_rows(m, numbers, new) if raised is None else raised


def _raise_operand(mask: Edge, new: Tape) -> Edge | None:
    """The mask with a higher number in place of the lowest one that its Where or Mul reads; None
    if that does not do.
    """
    node = producer_of(mask, "Where", "Mul")
    if node is None:
        return None
    for at, value in enumerate(node.inputs):
        array = None if value is None else value.constant()
        if array is None or array.size != 1 or array.item() != LOWEST:
            continue
        inputs = list(node.inputs)
        inputs[at] = new.const(np.full(array.shape, _LOW), like=value)
        raised = new.node(node.op, inputs, like=node)
        if hiding_numbers(raised) == {_LOW_AS_STORED}:
            return raised
    return None


def _move_rows(m: Match, numbers: set[float] | None, new: Tape) -> Edge:
    """The mask minus a small share of the largest number of each row, which does not change
    Softmax.

    It moves the lowest number by a few of the next ones, and turns −∞ into NaN, as Softmax does.
    With the guard that makes zeros of such rows, −∞ stays.
    """
    given: Edge = m.mask
    shape = given.shape
    is_guarded = m.guard is not None
    if is_guarded and not new.graph.model.is_for_onnxruntime:
        refuse("not every runtime makes zeros of a hidden row")
    if is_guarded and numbers is not None and LOWEST not in numbers:
        return given
    if shape is not None and len(shape) > 2 and shape[-3] != 1:
        refuse("one mask for each head, and what it hides is unknown")
    largest = new_reduce(new, "ReduceMax", given, [-1])
    if is_guarded:
        largest = new.Max(largest, new.const(np.array(LOWEST, np.float32)))
    return new.Sub(given, new.Mul(largest, new.const(np.array(_SHARE, np.float32))))


class FlashAttentionFusionV1(Pass):
    """Attention with a mask that is written out becomes Attention.

    before   Softmax(q·kᵀ·scale + mask)·v in all the ways of FlashAttentionFusionV2
    after    Attention(q, k, v, mask)
    refuses  what FlashAttentionFusionV2 refuses; a mask that is not known to fit the scores; one
             mask for each head that hides keys by unknown numbers (to look at all its rows takes
             1.07 to 1.3 of the time); with the guard Where(IsNaN(…), 0, …), a mask that may hold
             NaN or +∞ because of the constants it is made of; with target onnx and the guard, a
             mask that hides in an unknown way: not every runtime makes zeros
    never    kept: what FlashAttentionFusionV2 does not keep
    algebra  the definition of Attention; onnxruntime takes a row of the lowest number, or of −∞,
             for hidden and makes it zero, while Softmax makes equal weights of it, or NaN. So the
             lowest number becomes −3·10³⁸ if the mask tells by which numbers it hides: Where and
             (1 − mask)·c of constants. From any other mask, such as an input of the model, or one
             that hides by −∞, 2⁻²⁰ of the largest number of each row is subtracted (with the guard,
             of at least the lowest number): Softmax(s + c) = Softmax(s), and Attention no longer
             takes the row for hidden; the largest number is mostly 0. Measured with this: S = 16 /
             128 / 384: 0.94 to 1.02 of the time
    source   MindSpore's FlashAttentionFusionV1
    """

    numerics = "rounding"
    is_for_finite = True
    patterns = patterns(SCORES + mask, _attention, mask)
