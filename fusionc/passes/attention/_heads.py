"""Heads that are split, repeated and merged around attention."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusionc.model.graph import Edge, Node, Shape
from fusionc.model.operators import MICROSOFT
from fusionc.passes._shared.slice_split_concat import axis_of, new_split, sizes_of
from fusionc.passes._shared.transpose_and_reshape import axes_of
from fusionc.rewrite import Match, Tape, either, op, refuse, var
from fusionc.rewrite.pattern import Formula
from fusionc.shapes.elements import elements
from fusionc.shapes.equality import same_after_reshape, same_shape

Heads = int | str | tuple[Shape, int] | None
# [batch, length, 3, heads, size] to three times [batch, heads, length, size]
_UNPACKED = [2, 0, 3, 1, 4]
SPLIT = [0, 2, 1, 3]  # [batch, length, heads, size] to [batch, heads, length, size], and back


def made_by(value: Edge | None, *names: str) -> Node | None:
    """The node that makes a value, where it is one of these operators."""
    node = None if value is None else value.producer
    return node if node is not None and node.is_op(*names) and not node.has_references else None


def _turned(value: Edge | None) -> Node | None:
    """The RotaryEmbedding, the standard one or onnxruntime's own, that makes a value of four
    axes.
    """
    node = None if value is None else value.producer
    if (
        value is None
        or node is None
        or node.op != "RotaryEmbedding"
        or node.domain not in ("", MICROSOFT)
    ):
        return None
    return None if value.rank != 4 or node.has_references else node


def split(value: Edge | None) -> Node | None:
    """The Reshape of which a Transpose makes the value, [batch, heads, length, size]; one of length
    1 needs none.
    """
    transpose = made_by(value, "Transpose")
    if transpose is not None:
        return made_by(transpose.inputs[0], "Reshape") if transpose.attr("perm") == SPLIT else None
    reshape = made_by(value, "Reshape")
    x = None if reshape is None else reshape.inputs[0]
    if value is None or x is None or x.rank != 3 or value.shape is None or len(value.shape) != 4:
        return None
    return reshape if value.shape[2] == 1 and isinstance(value.shape[1], int) else None


def heads_of(value: Edge) -> Heads:
    """The number of heads of a [batch, heads, length, size], or something equal for equally many;
    None if unknown.
    """
    rotary = _turned(value)
    if rotary is not None and rotary.inputs[0] is not None and rotary.inputs[0].rank == 4:
        return heads_of(rotary.inputs[0])
    heads = None if value.shape is None else value.shape[1]
    reshape = split(value)
    if isinstance(heads, int) or reshape is None:
        return heads
    x = reshape.inputs[0]
    made = reshape.outputs[0]
    if x is None or x.shape is None or made is None or made.shape is None or None in x.shape:
        return heads
    size = made.shape[-1]
    width = x.shape[-1]
    if x.shape[:-1] != made.shape[:2]:
        return (x.shape, id(reshape.inputs[1]))  # equal shapes, reshaped in the same way
    return width // size if isinstance(size, int) and isinstance(width, int) and size > 0 else heads


def joined(value: Edge | None) -> Edge | None:
    """The [batch, length, heads · size] of which a Reshape and a Transpose make the value, [batch,
    heads, …].
    """
    reshape = split(value)
    x, made = (reshape.inputs[0], reshape.outputs[0]) if reshape else (None, None)
    if (
        value is None
        or x is None
        or made is None
        or x.rank != 3
        or made.shape is None
        or len(made.shape) != 4
    ):
        return None
    if value.shape is None:
        return None
    batch, _, length, size = value.shape if made is value else [made.shape[axis] for axis in SPLIT]
    heads = heads_of(value)
    if not isinstance(heads, int) or not isinstance(size, int):
        return None
    return x if same_after_reshape(x.shape, (batch, length, heads * size)) else None


def _rejoined(value: Edge, width: int, new: Tape) -> Edge:
    """The same from what a Reshape and a Transpose split into heads, whatever shape it has."""
    inner = joined(value)
    reshape = split(value)
    if inner is not None:
        return inner
    target = None if reshape is None or reshape.inputs[1] is None else reshape.inputs[1].constant()
    if reshape is None or reshape.outputs[0] is value:
        refuse("the heads are not split by a Reshape")
    if target is None or target.ndim != 1:
        return new.Reshape(reshape.outputs[0], new.const(np.array([0, 0, width], np.int64)))
    return new.Reshape(
        reshape.inputs[0], new.const(np.array([*target[:2], width], np.int64)), like=reshape
    )


def side_by_side(value: Edge, heads: int, new: Tape) -> Edge | None:
    """[batch, length, heads · size] of which Reshape, Transpose, and maybe a rotary embedding, make
    the value.
    """
    rotary = _turned(value)
    size = None if value.shape is None else value.shape[3]
    above = value if rotary is None else rotary.inputs[0]
    if above is None or split(above) is None or not isinstance(size, int) or size == 0:
        return None
    part = _rejoined(above, heads * size, new)
    if rotary is None:
        return part
    given = [part, *rotary.inputs[1:]]
    return new.node("RotaryEmbedding", given, domain=rotary.domain, like=rotary, num_heads=heads)


def packed(values: Sequence[Edge]) -> tuple[Edge, int] | None:
    """The [batch, length, 3 · heads · size] of which query, key and value are the pieces, and how
    wide each of them is, where they come out of one product.
    """
    squeezes = [made_by(value, "Squeeze") for value in values]
    splits = [
        made_by(node.inputs[0], "Split") if node and axes_of(node) == [0] else None
        for node in squeezes
    ]
    node = splits[0]
    if node is None or splits != [node] * 3 or sizes_of(node) != [1, 1, 1] or axis_of(node, 5) != 0:
        return None
    if [squeeze.inputs[0] for squeeze in squeezes if squeeze] != list(node.outputs):
        return None
    transpose = made_by(node.inputs[0], "Transpose")
    reshape = (
        made_by(transpose.inputs[0], "Reshape")
        if transpose and transpose.attr("perm") == _UNPACKED
        else None
    )
    x, made = (reshape.inputs[0], reshape.outputs[0]) if reshape else (None, None)
    if x is None or x.rank != 3 or made is None or made.shape is None or len(made.shape) != 5:
        return None
    batch, length, _, heads, size = made.shape
    if not isinstance(heads, int) or not isinstance(size, int):
        return None
    return (
        (x, heads * size)
        if same_after_reshape(x.shape, (batch, length, 3 * heads * size))
        else None
    )


def ungrouped(value: Edge) -> Edge | None:
    """The [batch, heads, 1, size] of which a Reshape makes the value, [batch, groups, heads /
    groups, size]: one query for each head, those of one key as if they were several of one head.
    """
    reshape = made_by(value, "Reshape")
    x = None if reshape is None else reshape.inputs[0]
    if (
        x is None
        or x.shape is None
        or value.shape is None
        or len(x.shape) != 4
        or len(value.shape) != 4
    ):
        return None
    (batch, heads, length, size) = x.shape
    (_, groups, times, _) = value.shape
    if (
        length != 1
        or not isinstance(heads, int)
        or not isinstance(groups, int)
        or not isinstance(times, int)
    ):
        return None
    is_regrouped = groups * times == heads != groups and same_shape(
        value.shape, (batch, groups, times, size)
    )
    return x if is_regrouped else None


def unrepeated(value: Edge | None) -> Edge | None:
    """The [batch, heads, …] of which Unsqueeze, Expand and Reshape repeat each head to make the
    value.
    """
    reshape = made_by(value, "Reshape")
    expand = made_by(reshape.inputs[0], "Expand") if reshape else made_by(value, "Expand")
    unsqueeze = made_by(expand.inputs[0], "Unsqueeze") if expand else None
    x, wide = (unsqueeze.inputs[0], expand.outputs[0]) if unsqueeze and expand else (None, None)
    if (
        value is None
        or unsqueeze is None
        or x is None
        or wide is None
        or axes_of(unsqueeze) not in ([2], [-3])
    ):
        return None
    if x.shape is None or wide.shape is None or len(x.shape) != 4 or len(wide.shape) != 5:
        return None
    batch, symbol, length, size = x.shape
    heads = heads_of(x)
    times = wide.shape[2]
    if (
        not isinstance(heads, int)
        or not isinstance(times, int)
        or wide.shape[1] not in (symbol, heads)
    ):
        return None
    if not same_shape((wide.shape[0], *wide.shape[3:]), (batch, length, size)):
        return None
    if wide is value:  # the Reshape has become one with another
        return x
    return x if same_after_reshape(value.shape, (batch, heads * times, length, size)) else None


def merged(formula: Formula) -> Formula:
    """The heads side by side, also where torch writes a Reshape between: to the shape that there
    is.
    """
    unchanged = either(op.Reshape(formula, var("same_shape"), _as="unchanged"), formula)
    return op.Reshape(op.Transpose(unchanged, perm=SPLIT, _as="turn"), var("shape"), _as="merge")


def reshaped(m: Match, made: Edge, new: Tape) -> Edge:
    """[batch, length, heads · size] in the shape that the heads had before. Refuses where a 0 might
    mean another dimension.
    """
    # how many dimensions a 0 in front means as before
    target = elements(m.shape)
    same = 1 if m.turn is None else 2
    is_literal = bool(m.merge.attr("allowzero"))
    if target is None or any(
        not is_literal and (e == 0 or not isinstance(e, int)) for e in target[same:]
    ):
        refuse("the heads are merged in an unknown way")
    return new.Reshape(made, m.shape, like=m.merge)


def inside(
    three: tuple[Edge, Edge, Edge], heads: tuple[int, int, int], new: Tape
) -> list[Edge] | None:
    """Query, key and value with their heads side by side, as they were before Reshape and Transpose
    split them.
    """
    whole = packed(three)
    if whole is not None:
        x, width = whole
        return list(new_split(new, x, [width] * 3, 2))
    found = [side_by_side(value, count, new) for value, count in zip(three, heads, strict=True)]
    parts = [part for part in found if part is not None]
    return parts if len(parts) == 3 else None


def is_merged(m: Match, heads: int, query: Edge, value: Edge) -> bool:
    """Whether the heads are known to be side by side, on three axes, in the result."""
    if m.unchanged is not None:
        before = m.unchanged.inputs[0].shape
        after = m.unchanged.outputs[0].shape
        if not same_after_reshape(before, after):
            refuse("a Reshape behind the operator changes something")
    (batch, _, length, _) = query.shape or (None,) * 4
    size = None if value.shape is None else value.shape[3]
    shape: Shape = (batch, length, heads * size if isinstance(size, int) else None)
    return same_after_reshape(m.merge.outputs[0].shape, shape)


def batch_of(value: Edge) -> Edge:
    """A value that has the same first dimension, as far up as that is known."""
    while (
        node := made_by(value, "Transpose", "Reshape", "RotaryEmbedding") or _turned(value)
    ) is not None:
        above = node.inputs[0]
        if above is None or (node.op == "Transpose" and (node.attr("perm") or [1])[0] != 0):
            break
        if node.op == "Reshape" and not _keeps_batch(above, value):
            break
        value = above
    return value


def _keeps_batch(above: Edge, value: Edge) -> bool:
    """Whether a Reshape only rearranges what follows the first axis."""
    rests = [v.shape[1:] if v.shape else None for v in (above, value)]
    counts = [
        0 if r is None else int(np.prod([d if isinstance(d, int) else 0 for d in r])) for r in rests
    ]
    return counts[0] == counts[1] > 0
