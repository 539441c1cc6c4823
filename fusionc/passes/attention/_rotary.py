"""Rotary position embedding that is written out: its formulas, and cosine and sine as the operators
read them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge, Node
from fusionc.model.operators import MICROSOFT
from fusionc.passes._shared.slice_split_concat import Cut, axis_of, cuts_of, piece_of, sizes_of
from fusionc.passes._shared.transpose_and_reshape import axes_of, new_unsqueeze
from fusionc.passes.attention._heads import heads_of, made_by
from fusionc.passes.attention._lengths import expanded, length_of
from fusionc.rewrite import Match, Pattern, Result, Tape, either, op, refuse, rest, var
from fusionc.rewrite.pattern import Formula
from fusionc.shapes.equality import same_after_reshape

x = var("x")
cos = var("cos")
sin = var("sin")
_split = op.Split(x, rest("sizes"), _as="split")
_low = op.Slice(x, rest("low_cut"), _as="low")
_high = op.Slice(x, rest("high_cut"), _as="high")


def _turned(low: Formula, high: Formula) -> Formula:
    return x * cos + op.Concat(-high, low, _as="concat") * sin


def _halves(low: Formula, high: Formula) -> Formula:
    return op.Concat(low * cos - high * sin, high * cos + low * sin, _as="concat")


_PAIRS = op.Concat(
    op.Unsqueeze(_low * cos - _high * sin, rest("real_axes"), _as="real"),
    op.Unsqueeze(_high * cos + _low * sin, rest("imaginary_axes"), _as="imaginary"),
    _as="concat",
)


def _size(m: Match) -> int:
    """How many elements of each head are turned. Refuses what the operator cannot turn."""
    if any(value.elem_type != TensorProto.FLOAT for value in (m.x, m.cos, m.sin)):
        refuse("the elements are not float32")
    shape = m.x.shape
    if (
        shape is None
        or len(shape) != 4
        or not isinstance(shape[3], int)
        or shape[3] % 2
        or not shape[3]
    ):
        refuse("x is not known to have four axes, the last one even")
    return int(shape[3])


def patterns(turn: Callable[..., Result], operators: Any) -> tuple[Pattern, ...]:
    """The formulas; `turn(m, new, is_half=, interleaved=)` makes the operator, one of `operators`,
    of them.
    """

    def whole(m: Match, new: Tape) -> Result:
        _require_halves(m)
        return turn(m, new, is_half=False, interleaved=None)

    def halves(m: Match, new: Tape) -> Result:
        _require_halves(m)
        return turn(m, new, is_half=True, interleaved=None)

    def pairs(m: Match, new: Tape) -> Result:
        _require_pairs(m)
        return turn(m, new, is_half=True, interleaved=1)

    part = operators(_split[0], rest("tables"), _as="rotary")
    return (
        Pattern(
            "RotaryEmbedding", either(_turned(_split[0], _split[1]), _turned(_low, _high)), whole
        ),
        Pattern(
            "RotaryHalves", either(_halves(_split[0], _split[1]), _halves(_low, _high)), halves
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
        refuse("not the two halves of the last axis are turned")


def _require_pairs(m: Match) -> None:
    size = _size(m)
    for node, start in ((m.low, 0), (m.high, 1)):
        cuts = cuts_of(node) or [Cut(0, 0, 0)]
        cut = cuts[0]
        if (
            len(cuts) != 1
            or cut.axis not in (3, -1)
            or (cut.start, cut.step) != (start, 2)
            or cut.end < size
        ):
            refuse("not every second element is taken")
    stacked = (axes_of(m.real), axes_of(m.imaginary), [m.concat.attr("axis")])
    if any(axes not in ([4], [-1]) for axes in stacked) or not same_after_reshape(
        m.merge.outputs[0].shape, m.x.shape
    ):
        refuse("real and imaginary part are not known to alternate")


def _rewrite_partial(m: Match, new: Tape) -> Result:
    sizes = sizes_of(m.split)
    if (
        m.x.rank != 4
        or not (_is_last(m.split, m.x) and _is_last(m.concat, m.x))
        or sizes is None
        or len(sizes) != 2
    ):
        refuse("not two known pieces of the last of four axes")
    attributes = {"rotary_embedding_dim": m.rotary.attr("rotary_embedding_dim") or sizes[0]}
    if m.rotary.domain == MICROSOFT:
        heads = heads_of(m.x)
        if not isinstance(heads, int):
            refuse("the number of heads is unknown")
        attributes["num_heads"] = heads
    return new.node(
        m.rotary.op, [m.x, *m.tables], domain=m.rotary.domain, like=m.rotary, **attributes
    )


_UNKNOWN = "the two halves of the cosine or sine are not known to be the same"


def _is_last(node: Node, value: Edge) -> bool:
    """Whether the axis of a Split or Concat is the last one of the value."""
    return value.rank is not None and axis_of(node, value.rank) == value.rank - 1


def repeated(rows: Edge, x: Edge, new: Tape) -> Edge:
    """What is one for all of the batch, for each of it."""
    if x.shape is not None and x.shape[0] == 1:
        return rows
    return expanded(rows, [length_of(x, 0, new), new.const(np.array([1, 1], np.int64))], new)


def rows_of(value: Edge, x: Edge, new: Tape, *, is_half: bool) -> tuple[Edge, bool]:
    """Cosine or sine of x as [batch, length, size / 2], and whether it is only one for all of the
    batch.
    """
    given = value.shape
    wanted = x.shape
    if given is None or wanted is None or not 2 <= len(given) <= 4:
        refuse("the shape of cosine or sine is unknown")
    batch, heads, length, size = (1,) * (4 - len(given)) + tuple(given)
    is_fitting = (
        batch is not None
        and batch in (1, wanted[0])
        and heads == 1
        and length is not None
        and length == wanted[2]
    )
    if (
        not is_fitting
        or not isinstance(wanted[3], int)
        or size != (wanted[3] // 2 if is_half else wanted[3])
    ):
        refuse("cosine or sine does not fit x")
    return _of_rank_three(value if is_half else _half(value, new), new), batch == 1


def _of_rank_three(value: Edge, new: Tape) -> Edge:
    array = value.constant()
    rank = value.rank
    node = made_by(value, "Unsqueeze")
    if array is not None:
        shape = (1,) * (4 - array.ndim) + array.shape
        return new.const(array.reshape(shape[0], *shape[2:]), like=value)
    above = None if node is None else node.inputs[0]
    if node is not None and above is not None and above.rank == 3 and axes_of(node) in ([1], [-3]):
        return above
    if rank == 4:
        return new_unsqueeze(new, value, [1], "Squeeze")
    return value if rank == 3 else new_unsqueeze(new, value, [0])


def _half(value: Edge, new: Tape) -> Edge:
    """The first half of the last axis. Refuses where the second one is not known to be the same."""
    array = value.constant()
    rank = value.rank
    if array is not None and array.ndim and array.shape[-1] % 2 == 0:
        first, second = np.split(array, 2, axis=-1)
        if np.array_equal(first, second):
            return new.const(np.ascontiguousarray(first), like=value)
        refuse("the two halves of the cosine or sine differ")
    node = made_by(
        value,
        "Concat",
        "Cos",
        "Sin",
        "Identity",
        "Cast",
        "Unsqueeze",
        "Squeeze",
        "Gather",
        "Mul",
        "Slice",
    )
    if node is None or rank is None:
        refuse(_UNKNOWN)
    if (
        node.op == "Concat"
        and _is_last(node, value)
        and len(node.inputs) == 2
        and node.inputs[1] is node.inputs[0]
    ):
        whole: Edge | None = node.inputs[0]
        assert whole is not None
        return whole
    inputs = list(node.inputs)
    at = 1 if node.op == "Mul" and inputs[0] is not None and inputs[0].is_constant else 0
    above = inputs[at]
    if above is None or not _is_apart(
        node, above, inputs[1 - at] if node.op == "Mul" else None, rank
    ):
        refuse(_UNKNOWN)
    inputs[at] = _half(above, new)
    return new.node(node.op, inputs, like=node)


def _is_apart(node: Node, above: Edge, factor: Edge | None, rank: int) -> bool:
    """Whether an operator computes each column of its last axis from the same column of its
    input.
    """
    last = {rank - 1, -1}
    if node.op == "Unsqueeze":
        axes = axes_of(node)
        return axes is not None and not last & set(axes)
    if node.op == "Squeeze":
        axes = axes_of(node)
        return axes is not None and above.rank is not None and not {above.rank - 1, -1} & set(axes)
    if node.op == "Gather":
        return node.attr("axis") == 0 and above.rank is not None and above.rank > 1
    if node.op == "Slice":
        axes = _axes_cut(node)
        return axes is not None and not last & set(axes)
    if node.op == "Mul":
        array = None if factor is None else factor.constant()
        return array is not None and array.size == 1 and array.ndim <= rank
    return node.op in ("Cos", "Sin", "Identity", "Cast")


def _axes_cut(node: Node) -> list[int] | None:
    """The axes of which a Slice takes a part, which may be known only when the model runs."""
    cuts = cuts_of(node)
    given = node.inputs[3] if len(node.inputs) > 3 else None
    array = None if given is None else given.constant()
    if cuts is None:
        return None if array is None else [int(axis) for axis in array.reshape(-1)]
    return [cut.axis for cut in cuts]
