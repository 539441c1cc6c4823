import math

import numpy as np

from fusionc.model.graph import Edge
from fusionc.passes._shared.reduce_axes import new_reduce
from fusionc.passes.attention._heads import made_by
from fusionc.passes.attention._masks import LOWEST, full, hidden_by, shows_all
from fusionc.passes.attention._standard_attention import patterns
from fusionc.passes.attention._written_attention import SCORES, mask, operands
from fusionc.rewrite import Match, Pass, Result, Tape, refuse

_LOW = -3e38  # hides as well: what is added to it is lost in rounding
_LOW_AS_STORED = float(np.float32(_LOW))
# of the lowest number: it is some of the next ones; of 0, the usual maximum: nothing
_SHARE = 2.0**-20


def _attention(m: Match, new: Tape) -> Result:
    query, key, scale = operands(m, new)
    return new.Attention(
        query, key, m.v, full(_without_lowest(m, new), m.mask.shape, query, key, new), scale=scale
    )


def _without_lowest(m: Match, new: Tape) -> Edge:
    """The mask, with other numbers in rows that hide all keys: of a row that has only the lowest
    number, or only −∞, onnxruntime makes zeros, and Softmax equal weights, or NaN.
    """
    given: Edge = m.mask
    if shows_all(given):
        return given
    hidden = hidden_by(given)
    if hidden is None or -math.inf in hidden:
        return _moved_by_row(m, hidden, new)
    if LOWEST not in hidden:
        return given
    array = given.constant()
    if array is not None and hidden == {LOWEST}:
        return new.const(np.maximum(array, np.float32(_LOW)), like=given)
    node = made_by(given, "Where", "Mul")
    for at, value in enumerate([] if node is None else node.inputs):
        array = None if value is None else value.constant()
        if node is not None and array is not None and array.size == 1 and array.item() == LOWEST:
            inputs = list(node.inputs)
            inputs[at] = new.const(np.full(array.shape, _LOW), like=value)
            changed = new.node(node.op, inputs, like=node)
            if hidden_by(changed) == {_LOW_AS_STORED}:
                return changed
    return _moved_by_row(m, hidden, new)


def _moved_by_row(m: Match, hidden: set[float] | None, new: Tape) -> Edge:
    """The mask minus a small share of the largest number of each row, which Softmax does not see:
    of a row that hides all keys by the lowest number it makes some of the next ones, of one that
    hides them by −∞ NaN, as Softmax does. With the guard that makes zeros of the latter, it stays
    −∞.
    """
    given: Edge = m.mask
    shape = given.shape
    is_guarded = m.guard is not None
    if is_guarded and not new.graph.model.is_for_onnxruntime:
        refuse("not every runtime makes zeros of a hidden row")
    if is_guarded and hidden is not None and LOWEST not in hidden:
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
             mask for each head of which it is not known by which numbers it hides keys (to look at
             all its rows takes 1.07 to 1.3 of the time); with the guard Where(IsNaN(…), 0, …), a
             mask that may hold NaN or +∞ by the constants it is made of; with target onnx, one that
             hides in an unknown way and the guard: not every runtime makes zeros
    never    kept: what FlashAttentionFusionV2 does not keep
    algebra  the definition of Attention; onnxruntime takes a row of the lowest number, or of −∞,
             for hidden and makes it zero, while Softmax makes equal weights of it, or NaN. So the
             lowest number becomes −3·10³⁸ where the mask says by which numbers it hides: Where and
             (1 − mask)·c of constants. Of another mask, such as an input of the model, or one that
             hides by −∞, 2⁻²⁰ of the largest number of each row is subtracted (with the guard, of
             at least the lowest number): Softmax(s + c) = Softmax(s), and Attention no longer takes
             it for hidden; the largest number is mostly 0. Measured with this: S = 16 / 128 / 384:
             0.94 to 1.02 of the time
    source   MindSpore's FlashAttentionFusionV1
    """

    numerics = "rounding"
    is_for_finite = True
    patterns = patterns(SCORES + mask, _attention, mask)
