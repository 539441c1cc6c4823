"""Rotary position embedding that is written out: its formulas, and the conversion of its cosines
and sines (tables with a row for each position) to the form that the operators read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fusionc.model.graph import Edge, Node, Shape
from fusionc.model.operators import MICROSOFT
from fusionc.passes._shared.slice_split_concat import axis_of, cuts_of, piece_of, sizes_of
from fusionc.passes._shared.transpose_and_reshape import axes_of, new_unsqueeze
from fusionc.passes.attention._heads import heads_of, producer_of
from fusionc.passes.attention._lengths import expanded, length_of
from fusionc.rewrite import Match, Pattern, Result, Tape, either, op, refuse, rest, unknown, var
from fusionc.rewrite.pattern import Formula
from fusionc.shapes.equality import same_after_reshape

x = var("x")
cos = var("cos")
sin = var("sin")
_split = op.Split(x, rest("sizes"), _as="split")
_low = op.Slice(x, rest("low_cut"), _as="low")
_high = op.Slice(x, rest("high_cut"), _as="high")


_UNKNOWN = "the two halves of the cosine or sine are not known to be the same"
# Operators that compute each column of the result from the same column of their first input.
_COLUMNWISE = ("Cos", "Sin", "Identity", "Cast")


def _rotated_whole(low: Formula, high: Formula) -> Formula:
    return x * cos + op.Concat(-high, low, _as="concat") * sin


def _rotated_halves(low: Formula, high: Formula) -> Formula:
    return op.Concat(low * cos - high * sin, high * cos + low * sin, _as="concat")


_PAIRS = op.Concat(
    op.Unsqueeze(_low * cos - _high * sin, rest("real_axes"), _as="real"),
    op.Unsqueeze(_high * cos + _low * sin, rest("imaginary_axes"), _as="imaginary"),
    _as="concat",
)


def _size(m: Match) -> int:
    """The size of each head. Refuses a value that the operator cannot rotate."""
    for value in (m.x, m.cos, m.sin):
        value.require_type(np.float32)
    m.x.require_rank(4)
    size: int = m.x.require_size(3, "the size of the heads")
    if size % 2 or not size:
        refuse("the size of the heads is odd or 0")
    return size


def patterns(build: Callable[..., Result], operators: Any) -> tuple[Pattern, ...]:
    """The patterns of rotary embedding.

    `build(m, new, is_half=, interleaved=)` builds the operator. `operators` is `op` or `ms`, the
    domain of its RotaryEmbedding.
    """

    def whole(m: Match, new: Tape) -> Result:
        _require_halves(m)
        return build(m, new, is_half=False, interleaved=None)

    def halves(m: Match, new: Tape) -> Result:
        _require_halves(m)
        return build(m, new, is_half=True, interleaved=None)

    def pairs(m: Match, new: Tape) -> Result:
        _require_pairs(m)
        return build(m, new, is_half=True, interleaved=1)

    part = operators(_split[0], rest("tables"), _as="rotary")
    return (
        Pattern(
            "RotaryEmbedding",
            either(_rotated_whole(_split[0], _split[1]), _rotated_whole(_low, _high)),
            whole,
        ),
        Pattern(
            "RotaryHalves",
            either(_rotated_halves(_split[0], _split[1]), _rotated_halves(_low, _high)),
            halves,
        ),
        Pattern("RotaryPairs", op.Reshape(_PAIRS, var("shape"), _as="merge"), pairs),
        Pattern("RotaryPartial", op.Concat(part, _split[1], _as="concat"), _rewrite_partial),
    )


def _require_halves(m: Match) -> None:
    size = _size(m)
    if m.split is not None:
        are_halves = _is_last(m.split, m.x) and sizes_of(m.split) == [size // 2] * 2
    else:
        pieces = piece_of(m.low), piece_of(m.high)
        are_halves = pieces == ((m.x, 3, 0, size // 2), (m.x, 3, size // 2, size))
    if not are_halves or not _is_last(m.concat, m.x):
        refuse("the rotated parts are not the two halves of the last axis")


def _require_pairs(m: Match) -> None:
    size = _size(m)
    if not _takes_alternate(m.low, 0, size) or not _takes_alternate(m.high, 1, size):
        refuse("the rotated parts are not every second element")
    stacked = (axes_of(m.real), axes_of(m.imaginary), [m.concat.attr("axis")])
    if any(axes not in ([4], [-1]) for axes in stacked) or not same_after_reshape(
        m.merge.outputs[0].shape, m.x.shape
    ):
        refuse("real and imaginary part are not known to alternate")


def _takes_alternate(node: Node, start: int, size: int) -> bool:
    """Whether a Slice takes every second element of the last axis, from `start` on, at rank 4."""
    cuts = cuts_of(node) or []
    if len(cuts) != 1 or cuts[0].axis not in (3, -1):
        return False
    return (cuts[0].start, cuts[0].step) == (start, 2) and cuts[0].end >= size


def _rewrite_partial(m: Match, new: Tape) -> Result:
    sizes = sizes_of(m.split)
    is_last = m.x.rank == 4 and _is_last(m.split, m.x) and _is_last(m.concat, m.x)
    if not is_last or sizes is None or len(sizes) != 2:
        refuse("the Split does not have two known pieces of the last of four axes")
    attributes = {"rotary_embedding_dim": m.rotary.attr("rotary_embedding_dim") or sizes[0]}
    if m.rotary.domain == MICROSOFT:
        heads = heads_of(m.x)
        if not isinstance(heads, int):
            refuse(unknown("the number of heads"))
        attributes["num_heads"] = heads
    return new.node(
        m.rotary.op, [m.x, *m.tables], domain=m.rotary.domain, like=m.rotary, **attributes
    )


def _is_last(node: Node, value: Edge) -> bool:
    """Whether a Split or Concat works along the last axis of the value."""
    return value.rank is not None and axis_of(node, value.rank) == value.rank - 1


def repeated(rows: Edge, x: Edge, new: Tape) -> Edge:
    """Rows that the whole batch shares, repeated for each element of the batch of x."""
    if x.shape is not None and x.shape[0] == 1:
        return rows
    return expanded(rows, [length_of(x, 0, new), new.const(np.array([1, 1], np.int64))], new)


def rows_of(value: Edge, x: Edge, new: Tape, *, is_half: bool) -> tuple[Edge, bool]:
    """Cosine or sine of x as [batch or 1, length, size / 2], and whether the whole batch shares it.
    `is_half` says that `value` has only one of the two equal halves.
    """
    shape = value.require_shape(2, 3, 4, of="cosine or sine")
    wanted = x.require_shape(4)
    batch, heads, length, size = (1,) * (4 - len(shape)) + tuple(shape)
    is_fitting = batch in (1, wanted[0]) and heads == 1 and length == wanted[2]
    if not is_fitting or None in (batch, length) or size != _row_size(wanted, is_half=is_half):
        refuse("cosine or sine does not fit x")
    return _drop_heads(value if is_half else _half(value, new), new), batch == 1


def _row_size(x: Shape, *, is_half: bool) -> int:
    """The number of cosines for each position: the size of a head, or half of it if `is_half`."""
    size = x[3]
    if not isinstance(size, int):
        refuse("cosine or sine does not fit x")
    return size // 2 if is_half else size


def _drop_heads(value: Edge, new: Tape) -> Edge:
    """A value [batch, 1, length, size / 2], possibly with fewer axes, as [batch, length, size /
    2].
    """
    array = value.constant()
    rank = value.rank
    node = producer_of(value, "Unsqueeze")
    if array is not None:
        shape = (1,) * (4 - array.ndim) + array.shape
        return new.const(array.reshape(shape[0], *shape[2:]), like=value)
    source = None if node is None else node.inputs[0]
    is_unsqueezed = node is not None and axes_of(node) in ([1], [-3])
    if source is not None and source.rank == 3 and is_unsqueezed:
        return source
    if rank == 4:
        return new_unsqueeze(new, value, [1], "Squeeze")
    return value if rank == 3 else new_unsqueeze(new, value, [0])


def _half(value: Edge, new: Tape) -> Edge:
    """The first half of the last axis. Refuses if the second half is not known to be equal."""
    array = value.constant()
    if array is not None and array.ndim and array.shape[-1] % 2 == 0:
        first, second = np.split(array, 2, axis=-1)
        if np.array_equal(first, second):
            return new.const(np.ascontiguousarray(first), like=value)
        refuse("the two halves of the cosine or sine differ")
    repeated_half = _repeated_half(value)
    if repeated_half is not None:
        return repeated_half
    node = producer_of(value, "Unsqueeze", "Squeeze", "Gather", "Mul", "Slice", *_COLUMNWISE)
    if node is None:
        refuse(_UNKNOWN)
    inputs = list(node.inputs)
    index = 1 if node.op == "Mul" and inputs[0] is not None and inputs[0].is_constant else 0
    source = inputs[index]
    if source is None or not _keeps_columns(node, index):
        refuse(_UNKNOWN)
    inputs[index] = _half(source, new)
    return new.node(node.op, inputs, like=node)


def _repeated_half(value: Edge) -> Edge | None:
    """The value that a Concat joins with itself along the last axis to make this one."""
    node = producer_of(value, "Concat")
    if node is None or not _is_last(node, value) or len(node.inputs) != 2:
        return None
    first, second = node.inputs
    return first if first is second else None


def _keeps_columns(node: Node, index: int) -> bool:
    """Whether each column of the output depends only on the same column of input `index`."""
    source, rank = (None if v is None else v.rank for v in (node.inputs[index], node.outputs[0]))
    if rank is None:
        return False
    match node.op:
        case "Mul":
            return _is_scalar(node.inputs[1 - index], rank)
        case "Gather":
            return node.attr("axis") == 0 and (source or 0) > 1
        case "Slice":
            return _excludes_last(_axes_cut(node), rank)
        case "Unsqueeze":
            return _excludes_last(axes_of(node), rank)
        case "Squeeze":
            return _excludes_last(axes_of(node), source)
    return True


def _excludes_last(axes: list[int] | None, rank: int | None) -> bool:
    """Whether the axes are known, and the last axis is not among them."""
    return axes is not None and rank is not None and not {rank - 1, -1} & set(axes)


def _is_scalar(factor: Edge | None, rank: int) -> bool:
    """Whether a factor is a constant single number that keeps this rank."""
    array = None if factor is None else factor.constant()
    return array is not None and array.size == 1 and array.ndim <= rank


def _axes_cut(node: Node) -> list[int] | None:
    """The axes along which a Slice cuts. They may be known although its bounds are not. None if
    they are unknown.
    """
    cuts = cuts_of(node)
    if cuts is not None:
        return [cut.axis for cut in cuts]
    axes = node.inputs[3] if len(node.inputs) > 3 else None
    array = None if axes is None else axes.constant()
    return None if array is None else [int(axis) for axis in array.reshape(-1)]
