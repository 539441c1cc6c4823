import math

import numpy as np

from fusionc.model.graph import Edge
from fusionc.passes._shared.reduce_axes import new_reduce
from fusionc.passes.attention._heads import producer_of
from fusionc.passes.attention._masks import LOWEST, full_mask, hiding_numbers, shows_all
from fusionc.passes.attention._standard_attention import patterns
from fusionc.passes.attention._written_attention import SCORES, mask, operands
from fusionc.rewrite import Match, Pass, Result, Tape, refuse

_LOW = -3e38  # hides keys like the lowest number: its sum with a score rounds to this number
_LOW_AS_STORED = float(np.float32(_LOW))
# The share of a row's maximum that is subtracted from the row. If the maximum is the lowest number,
# the row changes by a few units in the last place of float32. If the maximum is 0, as is usual, the
# row stays unchanged.
_SHARE = 2.0**-20


def _attention(m: Match, new: Tape) -> Result:
    query, key, scale = operands(m, new)
    mask = full_mask(_replace_lowest(m, new), m.mask.shape, query, key, new)
    return new.Attention(query, key, m.v, mask, scale=scale)


def _replace_lowest(m: Match, new: Tape) -> Edge:
    """The mask, with other numbers in rows that hide all keys.

    If all elements of a row are the lowest number or −∞, onnxruntime's Attention returns zeros.
    Softmax returns equal weights for the lowest number, and NaN for −∞.
    """
    original: Edge = m.mask
    if shows_all(original):
        return original
    numbers = hiding_numbers(original)
    if numbers is None or -math.inf in numbers:
        return _move_rows(m, numbers, new)
    if LOWEST not in numbers:
        return original
    array = original.constant()
    if array is not None and numbers == {LOWEST}:
        return new.const(np.maximum(array, np.float32(_LOW)), like=original)
    raised = _raise_operand(original, new)
    return _move_rows(m, numbers, new) if raised is None else raised


def _raise_operand(mask: Edge, new: Tape) -> Edge | None:
    """The mask, computed by a Where or Mul that reads a higher number in place of the lowest one.
    None if the mask is not computed in this way, or if it may hide keys by another number, too.
    """
    node = producer_of(mask, "Where", "Mul")
    if node is None:
        return None
    for index, value in enumerate(node.inputs):
        array = None if value is None else value.constant()
        if array is None or array.size != 1 or array.item() != LOWEST:
            continue
        inputs = list(node.inputs)
        inputs[index] = new.const(np.full(array.shape, _LOW), like=value)
        raised = new.node(node.op, inputs, like=node)
        if hiding_numbers(raised) == {_LOW_AS_STORED}:
            return raised
    return None


def _move_rows(m: Match, numbers: set[float] | None, new: Tape) -> Edge:
    """The mask minus a small share of the largest number of each row. Softmax ignores a number that
    is subtracted from a whole row.

    This moves the lowest number by a few units in the last place, and turns a row of −∞ into NaN,
    as Softmax does. If the guard replaces such rows by zeros, −∞ stays.
    """
    original: Edge = m.mask
    shape = original.shape
    is_guarded = m.guard is not None
    if is_guarded and not new.graph.model.is_for_onnxruntime:
        refuse("not every runtime returns zeros for a hidden row")
    if is_guarded and numbers is not None and LOWEST not in numbers:
        return original
    if shape is not None and len(shape) > 2 and shape[-3] != 1:
        refuse("each head has its own mask, and the numbers with which it hides keys are unknown")
    largest = new_reduce(new, "ReduceMax", original, [-1])
    if is_guarded:
        largest = new.Max(largest, new.const(np.array(LOWEST, np.float32)))
    return new.Sub(original, new.Mul(largest, new.const(np.array(_SHARE, np.float32))))


class FlashAttentionFusionV1(Pass):
    """Attention with a mask that is written out becomes Attention.

    before   Softmax(q·kᵀ·scale + mask)·v in all forms that FlashAttentionFusionV2 finds
    after    Attention(q, k, v, mask)
    refuses  what FlashAttentionFusionV2 refuses; a mask that is not known to broadcast to the
             scores; a mask for each head if it hides keys by unknown numbers, because the largest
             number of each row must then be searched, and Attention takes 1.07 to 1.3 of the time;
             if the guard Where(IsNaN(…), 0, …) is present: a mask that may contain NaN or +∞
             because of its constants, and, if the target is onnx, a mask that hides keys by unknown
             numbers, because not every runtime returns zeros for a hidden row
    never    guarantees the same result in the cases that FlashAttentionFusionV2 lists
    algebra  the definition of Attention. If a row of the mask contains only the lowest number
             or −∞, onnxruntime's Attention takes all keys as hidden and returns zeros. Softmax
             returns equal weights or NaN. If the mask is made by Where, or is (1 − mask)·c, with
             constants, the lowest number therefore becomes −3·10³⁸. Any other mask, for example an
             input of the model, or one with −∞, is reduced by 2⁻²⁰ of the largest number of each
             row. (If there is a guard, −∞ counts as the lowest number.) Softmax(s + c) =
             Softmax(s), and the row is no longer taken as hidden. The largest number is 0 in most
             masks. Measured with this subtraction, S = 16 / 128 / 384: 0.94 to 1.02 of the time
    source   MindSpore's FlashAttentionFusionV1
    """

    numerics = "rounding"
    is_for_finite = True
    patterns = patterns(SCORES + mask, _attention, mask)
