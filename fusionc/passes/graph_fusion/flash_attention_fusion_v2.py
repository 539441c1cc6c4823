import math

import numpy as np

from fusionc.model.graph import Edge
from fusionc.passes.attention import SCORES, mask, operands
from fusionc.passes.attention_operator import patterns
from fusionc.passes.heads import made_by
from fusionc.passes.masks import LOWEST, full, hidden_by, shows_all
from fusionc.rewrite import Match, Pass, Result, Tape, refuse

_LOW = -3e38  # hides as well: what is added to it is lost in rounding
_LOW_AS_STORED = float(np.float32(_LOW))


def _attention(m: Match, new: Tape) -> Result:
    query, key, scale = operands(m, new)
    return new.Attention(query, key, m.v, full(_without_lowest(m, new), m.mask.shape, query, key, new), scale=scale)


def _without_lowest(m: Match, new: Tape) -> Edge:
    """The mask, with another number in place of the lowest one: of a row that has only this one onnxruntime makes
    zeros, and Softmax equal weights."""
    given: Edge = m.mask
    hidden = hidden_by(given)
    if hidden is None:
        refuse("what the mask hides is unknown")
    if -math.inf in hidden and not shows_all(given):
        if m.captures.get("guard") is None:
            refuse("a row that the mask hides becomes NaN")
        if not new.graph.model.is_for_onnxruntime:
            refuse("not every runtime makes zeros of a hidden row")
    if LOWEST not in hidden:
        return given
    array = given.constant()
    if array is not None and -math.inf not in hidden:
        return new.const(np.maximum(array, np.float32(_LOW)), like=given)
    node = made_by(given, "Where", "Mul")
    if node is None or -math.inf in hidden:
        refuse("the mask hides by the lowest number")
    for at, value in enumerate(node.inputs):
        array = None if value is None else value.constant()
        if array is not None and array.size == 1 and array.item() == LOWEST:
            inputs = list(node.inputs)
            inputs[at] = new.const(np.full(array.shape, _LOW), like=value)
            changed: Edge = new.node(node.op, inputs, like=node)
            if hidden_by(changed) == {_LOW_AS_STORED}:
                return changed
    refuse("the mask hides by the lowest number")


class FlashAttentionFusionV2(Pass):
    """Attention with a mask that is written out becomes Attention.

    before   Softmax(q·kᵀ·scale + mask)·v in all the ways of FlashAttentionFusionV1
    after    Attention(q, k, v, mask)
    refuses  what FlashAttentionFusionV1 refuses; a mask that is not known to fit the scores; a mask of which it is not
             known by which numbers it hides keys: Where and (1 − mask)·c of constants; −∞ without the guard
             Where(IsNaN(…), 0, …): a row without any key is NaN there and zero here
    never    kept: what FlashAttentionFusionV1 does not keep
    algebra  the definition of Attention; the lowest number becomes −3·10³⁸, as onnxruntime takes a row of the lowest
             ones for hidden and makes it zero, while Softmax makes equal weights of it
    source   MindSpore's FlashAttentionFusionV1
    """

    numerics = "rounding"
    is_for_finite = True
    patterns = patterns(SCORES + mask, _attention, mask)
