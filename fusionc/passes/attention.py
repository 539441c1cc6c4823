"""Attention that is written out: its formula, what it captured, and the operator that takes its place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto

from fusionc.model.dimensions import dimension
from fusionc.model.graph import Edge, Node
from fusionc.model.types import same_after_reshape
from fusionc.passes.heads import SPLIT, batch_of, joined, made_by, unrepeated
from fusionc.rewrite import Match, Pattern, Result, Tape, const, either, keep, op, refuse, var
from fusionc.rewrite.pattern import Formula

q, k, v, mask = var("q"), var("k"), var("v"), var("mask")
_SMALLEST_SCALE = 2.0**-12  # smaller ones may keep the product in range; that of heads of 2²⁴ elements


def _scaled(formula: Formula, name: str) -> Formula:
    """The formula, or a constant times it, or it divided by a constant."""
    return either(formula * const(name), formula / const(f"{name}_divisor"), formula)


_flat = op.Reshape(_scaled(k, "k_scale"), var("flat_shape"), _as="flatten")
_KEY = either(  # with its last two axes exchanged; torch does it on [batch · heads, length, size]
    op.Transpose(_scaled(k, "k_scale"), _as="swap"),
    op.Reshape(op.Transpose(_flat, perm=[0, 2, 1]), var("key_shape"), _as="restore"),
)
_PRODUCT = op.MatMul(keep(_scaled(q, "q_scale")), keep(_scaled(_KEY, "key_scale")))
SCORES = _scaled(_PRODUCT, "scale")


def attention(scores: Formula) -> Formula:
    """Softmax(scores)·v, also with the guard that makes rows of NaN zero."""
    weights = op.Softmax(scores, _as="softmax")
    return op.MatMul(either(op.Where(op.IsNaN(weights, _as="guard"), 0.0, weights), weights), v)


def patterns(scores: Formula, rewrite: Any, *inputs: Formula) -> tuple[Pattern, ...]:
    """The formula, and what makes the operator that comes out of it read less."""
    operator = op.Attention(q, k, v, *inputs, _as="attention")
    merged = op.Reshape(op.Transpose(operator, perm=SPLIT), var("shape"), _as="merge")
    return (
        Pattern("Attention", attention(scores), rewrite),
        Pattern("AttentionGroups", operator, _without_repeats, where=_has_repeats),
        Pattern("AttentionHeads", merged, _with_heads_inside, where=_has_split_heads),
    )


def operands(m: Match, new: Tape) -> tuple[Edge, Edge, float]:
    """Query, key and scale. Refuses what the operator cannot do."""
    if any(value.elem_type != TensorProto.FLOAT for value in (m.q, m.k, m.v)):
        refuse("the elements are not float32")
    if any(value.rank != 4 for value in (m.q, m.k, m.v)):
        refuse("the rank is unknown or not 4")
    if m.softmax.attr("axis") not in (-1, 3):
        refuse("Softmax is not over the keys")
    key = _key(m, new)
    heads, key_heads, value_heads = (value.shape[1] for value in (m.q, key, m.v))
    if key_heads is None or key_heads != value_heads or key_heads not in (heads, 1):
        refuse("the heads are not known to be the same")
    if heads == 1:
        refuse("one head, which the operator computes on one thread")
    batches = {dimension(batch_of(value), 0) for value in (m.q, key, m.v)}
    if len(batches) != 1:
        refuse("the batches are not known to be the same")
    return m.q, key, _scale(m)


def _scale(m: Match) -> float:
    scale = 1.0
    for name in ("q_scale", "k_scale", "key_scale", "scale"):
        for factor, sign in ((m.captures.get(name), 1), (m.captures.get(f"{name}_divisor"), -1)):
            if factor is None:
                continue
            array = factor.constant()
            if array.size != 1 or array.ndim > 4 or not float(array.item()) > 0:
                refuse("the scale is not one positive number")
            scale *= float(array.item()) ** sign
    if not _SMALLEST_SCALE <= scale < math.inf:
        refuse("a very small or infinite scale")
    return scale


def _key(m: Match, new: Tape) -> Edge:
    """The key with its last two axes as they are in the query."""
    if m.captures.get("swap") is not None:
        order = m.swap.attr("perm") or [3, 2, 1, 0]
        order = [*order[:2], order[3], order[2]]
        return _moved(m.k, order, new)
    swapped = m.restore.outputs[0].shape
    (batch, heads, length, size), flat = m.k.shape, m.flatten.outputs[0].shape
    known = isinstance(heads, int) and isinstance(length, int | str) and isinstance(size, int)
    if not known or flat is None or tuple(flat[1:]) != (length, size):
        refuse("the key is not known to be transposed")
    if not same_after_reshape(swapped, (batch, heads, size, length)) or tuple(swapped[1:]) != (heads, size, length):
        refuse("the key is not known to be transposed")
    key: Edge = m.k
    return key


def _moved(value: Edge, order: list[int], new: Tape) -> Edge:
    made: Edge = value if order == [0, 1, 2, 3] else new.Transpose(value, perm=order)
    return made


def _inputs(m: Match) -> list[Edge | None]:
    node: Node = m.attention
    return list(node.inputs)


def _has_repeats(m: Match) -> bool:
    return unrepeated(m.k) is not None and unrepeated(m.v) is not None


def _without_repeats(m: Match, new: Tape) -> Result:
    key, value = unrepeated(m.k), unrepeated(m.v)
    assert key is not None and value is not None
    if key.shape is None or value.shape is None or key.shape[1] != value.shape[1]:
        refuse("key and value have different heads")
    return new.Attention(m.q, key, value, *_inputs(m)[3:], like=m.attention)


def _has_split_heads(m: Match) -> bool:
    return len(m.attention.outputs) == 1 and all(joined(value) is not None for value in (m.q, m.k, m.v))


def _with_heads_inside(m: Match, new: Tape) -> Result:
    parts = [joined(value) for value in (m.q, m.k, m.v)]
    heads, key_heads, size = m.q.shape[1], m.k.shape[1], m.v.shape[3]
    made: Edge = new.Attention(*parts, *_inputs(m)[3:], like=m.attention, q_num_heads=heads, kv_num_heads=key_heads)
    batch, length = m.q.shape[0], m.q.shape[2]
    merged = m.merge.outputs[0].shape
    if merged is not None and same_after_reshape(merged, (batch, length, heads * size)):
        return made
    target = m.shape.constant()
    if target is None or (not m.merge.attr("allowzero") and (target[2:] == 0).any()):
        refuse("the heads are merged in an unknown way")
    return new.Reshape(made, m.shape, like=m.merge)


def hidden_by(value: Edge | None) -> set[float] | None:
    """What a mask adds to hide a key, all numbers below −10³⁰ in it; None where that is unknown."""
    if value is None:
        return None
    if value.is_constant:
        array = value.constant()
        return None if array is None or array.dtype.kind != "f" else set(map(float, np.unique(array[array < -1e30])))
    node = made_by(value, "Where", "Mul", "Add", *_MOVING)
    if node is None:
        return None
    if node.op == "Mul":
        return _hidden_by_product(node)
    inputs = {"Where": node.inputs[1:], "Add": node.inputs}.get(node.op, node.inputs[:1])
    found = [hidden_by(part) for part in inputs]
    if any(part is None for part in found) or (node.op == "Add" and all(found)):
        return None
    return {number for part in found if part is not None for number in part}


_MOVING = ("Expand", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Slice", "Identity", "Gather")


def _hidden_by_product(node: Node) -> set[float] | None:
    """Of (1 − mask)·c, the mask being integers."""
    factors = [value for value in node.inputs if value is not None and value.is_constant]
    others = [value for value in node.inputs if value is not None and not value.is_constant]
    if len(factors) != 1 or len(others) != 1 or not is_integral(others[0]):
        return None
    return hidden_by(factors[0])


def is_integral(value: Edge | None) -> bool:
    """Whether a value holds whole numbers: one minus what a Cast makes of integers."""
    node = made_by(value, "Sub", "Cast", "Unsqueeze")
    if node is None or node.inputs[0] is None:
        return False
    if node.op == "Sub":
        one = node.inputs[0].constant()
        return one is not None and bool((one == 1).all()) and is_integral(node.inputs[1])
    dtype = node.inputs[0].dtype
    return is_integral(node.inputs[0]) if node.op == "Unsqueeze" else dtype is not None and dtype.kind in "iub"
