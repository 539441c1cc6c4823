"""Rotary position embedding that is written out: its formulas, and what they must be made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx import TensorProto

from fusionc.model.operators import MICROSOFT
from fusionc.passes._shared.slice_and_gather import Cut, axes_of, cuts_of, piece_of
from fusionc.passes._shared.split_and_concat import sizes_of
from fusionc.passes.attention._heads import heads_of
from fusionc.passes.attention._rotary_caches import is_last
from fusionc.rewrite import Match, Pattern, Result, Tape, either, op, refuse, rest, var
from fusionc.rewrite.pattern import Formula
from fusionc.shapes.equality import same_after_reshape

x, cos, sin = var("x"), var("cos"), var("sin")
_split = op.Split(x, rest("sizes"), _as="split")
_low, _high = op.Slice(x, rest("low_cut"), _as="low"), op.Slice(x, rest("high_cut"), _as="high")


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
    if shape is None or len(shape) != 4 or not isinstance(shape[3], int) or shape[3] % 2 or not shape[3]:
        refuse("x is not known to have four axes, the last one even")
    return int(shape[3])


def patterns(turn: Callable[..., Result], operators: Any) -> tuple[Pattern, ...]:
    """The formulas; `turn(m, new, is_half=, interleaved=)` makes the operator, one of `operators`, of them."""

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
        Pattern("RotaryEmbedding", either(_turned(_split[0], _split[1]), _turned(_low, _high)), whole),
        Pattern("RotaryHalves", either(_halves(_split[0], _split[1]), _halves(_low, _high)), halves),
        Pattern("RotaryPairs", op.Reshape(_PAIRS, var("shape"), _as="merge"), pairs),
        Pattern("RotaryPartial", op.Concat(part, _split[1], _as="concat"), _rewrite_partial),
    )


def _require_halves(m: Match) -> None:
    size = _size(m)
    if m.split is not None:
        are_halves = is_last(m.split, m.x) and sizes_of(m.split) == [size // 2] * 2
    else:
        pieces = piece_of(m.low), piece_of(m.high)
        are_halves = pieces == ((m.x, 3, 0, size // 2), (m.x, 3, size // 2, size))
    if not are_halves or not is_last(m.concat, m.x):
        refuse("not the two halves of the last axis are turned")


def _require_pairs(m: Match) -> None:
    size = _size(m)
    for node, start in ((m.low, 0), (m.high, 1)):
        cuts = cuts_of(node) or [Cut(0, 0, 0)]
        cut = cuts[0]
        if len(cuts) != 1 or cut.axis not in (3, -1) or (cut.start, cut.step) != (start, 2) or cut.end < size:
            refuse("not every second element is taken")
    stacked = (axes_of(m.real), axes_of(m.imaginary), [m.concat.attr("axis")])
    if any(axes not in ([4], [-1]) for axes in stacked) or not same_after_reshape(m.merge.outputs[0].shape, m.x.shape):
        refuse("real and imaginary part are not known to alternate")


def _rewrite_partial(m: Match, new: Tape) -> Result:
    sizes = sizes_of(m.split)
    if m.x.rank != 4 or not (is_last(m.split, m.x) and is_last(m.concat, m.x)) or sizes is None or len(sizes) != 2:
        refuse("not two known pieces of the last of four axes")
    attributes = {"rotary_embedding_dim": m.rotary.attr("rotary_embedding_dim") or sizes[0]}
    if m.rotary.domain == MICROSOFT:
        heads = heads_of(m.x)
        if not isinstance(heads, int):
            refuse("the number of heads is unknown")
        attributes["num_heads"] = heads
    return new.node(m.rotary.op, [m.x, *m.tables], domain=m.rotary.domain, like=m.rotary, **attributes)
