"""Split, repeat and merge the heads of queries, keys and values."""

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
# the permutation from [batch, length, 3, heads, size] to [3, batch, heads, length, size]
_UNPACKED = [2, 0, 3, 1, 4]
SPLIT = [0, 2, 1, 3]  # [batch, length, heads, size] to [batch, heads, length, size], and back


def dimensions(value: Edge | None, rank: int) -> Shape | None:
    """The shape of a value, if it has this rank; None for any other value."""
    shape = None if value is None else value.shape
    return shape if shape is not None and len(shape) == rank else None


def axis_lengths(values: Sequence[Edge], axis: int) -> list[int | str | None]:
    """The size of one axis in each of several values."""
    return [None if value.shape is None else value.shape[axis] for value in values]


def producer_of(value: Edge | None, *names: str) -> Node | None:
    """The producer of a value, if it is one of these operators."""
    node = None if value is None else value.producer
    return node if node is not None and node.is_op(*names) and not node.has_references else None


def _rotary_of(value: Edge | None) -> Node | None:
    """The RotaryEmbedding, standard or onnxruntime's own, that produces a value of rank 4."""
    node = None if value is None else value.producer
    if value is None or node is None or node.has_references:
        return None
    is_rotary = node.op == "RotaryEmbedding" and node.domain in ("", MICROSOFT)
    return node if is_rotary and value.rank == 4 else None


def splitting_reshape(value: Edge | None) -> Node | None:
    """The Reshape that splits the heads of a value [batch, heads, length, size].

    Unless the length is 1, a Transpose follows the Reshape.
    """
    transpose = producer_of(value, "Transpose")
    if transpose is not None:
        is_split = transpose.attr("perm") == SPLIT
        return producer_of(transpose.inputs[0], "Reshape") if is_split else None
    reshape = producer_of(value, "Reshape")
    x = None if reshape is None else reshape.inputs[0]
    shape = dimensions(value, 4) if x is not None and x.rank == 3 else None
    return reshape if shape and shape[2] == 1 and isinstance(shape[1], int) else None


def heads_of(value: Edge) -> Heads:
    """The number of heads of a value [batch, heads, length, size]; None if unknown.

    If the number depends on the model's input, the result is another object instead of an integer:
    equal objects mean equal numbers of heads.
    """
    rotary = _rotary_of(value)
    source = None if rotary is None else rotary.inputs[0]
    if source is not None and source.rank == 4:
        return heads_of(source)
    heads = None if value.shape is None else value.shape[1]
    reshape = splitting_reshape(value)
    return heads if isinstance(heads, int) or reshape is None else _count_heads(reshape, heads)


def _count_heads(reshape: Node, symbol: str | None) -> Heads:
    """The number of heads into which a Reshape splits [batch, length, width]; `symbol` if
    unknown.
    """
    shape, split = (None if v is None else v.shape for v in (reshape.inputs[0], reshape.outputs[0]))
    if shape is None or split is None or None in shape:
        return symbol
    if shape[:-1] != split[:2]:
        return (shape, id(reshape.inputs[1]))  # the same shape and target give the same heads
    size = split[-1]
    width = shape[-1]
    if not isinstance(size, int) or not isinstance(width, int) or size <= 0:
        return symbol
    return width // size


def unsplit_heads(value: Edge | None) -> Edge | None:
    """The value [batch, length, heads · size] from which Reshape and Transpose make this value
    [batch, heads, length, size]. None if the value is not made in this way.
    """
    reshape = splitting_reshape(value)
    if value is None or reshape is None:
        return None
    x = reshape.inputs[0]
    split = dimensions(reshape.outputs[0], 4)
    if x is None or x.rank != 3 or split is None or value.shape is None:
        return None
    is_turned = value is not reshape.outputs[0]
    batch, _, length, size = [split[axis] for axis in SPLIT] if is_turned else split
    heads = heads_of(value)
    if not isinstance(heads, int) or not isinstance(size, int):
        return None
    return x if same_after_reshape(x.shape, (batch, length, heads * size)) else None


def _rejoined_heads(value: Edge, width: int, new: Tape) -> Edge:
    """The input of the Reshape that splits heads, reshaped to [batch, length, width]. The input
    itself may have any rank.
    """
    unsplit = unsplit_heads(value)
    if unsplit is not None:
        return unsplit
    reshape = splitting_reshape(value)
    if reshape is None or reshape.outputs[0] is value:
        refuse("the heads are not split by a Reshape")
    target = None if reshape.inputs[1] is None else reshape.inputs[1].constant()
    if target is None or target.ndim != 1:
        return new.Reshape(reshape.outputs[0], new.const(np.array([0, 0, width], np.int64)))
    return new.Reshape(
        reshape.inputs[0], new.const(np.array([*target[:2], width], np.int64)), like=reshape
    )


def merged_heads(value: Edge, heads: int, new: Tape) -> Edge | None:
    """The value as [batch, length, heads · size], if Reshape and Transpose split it into heads;
    otherwise None.

    If a RotaryEmbedding follows the split, a new RotaryEmbedding is applied before the split
    instead.
    """
    rotary = _rotary_of(value)
    size = None if value.shape is None else value.shape[3]
    source = value if rotary is None else rotary.inputs[0]
    if source is None or splitting_reshape(source) is None or not isinstance(size, int) or not size:
        return None
    part = _rejoined_heads(source, heads * size, new)
    if rotary is None:
        return part
    inputs = [part, *rotary.inputs[1:]]
    return new.node("RotaryEmbedding", inputs, domain=rotary.domain, like=rotary, num_heads=heads)


def packed_source(values: Sequence[Edge]) -> tuple[Edge, int] | None:
    """The value [batch, length, 3 · heads · size] that is unpacked into query, key and value, and
    the width heads · size. None if `values` are not unpacked from one value.
    """
    split = _unpacking_split(values)
    transpose = None if split is None else producer_of(split.inputs[0], "Transpose")
    if transpose is None or transpose.attr("perm") != _UNPACKED:
        return None
    reshape = producer_of(transpose.inputs[0], "Reshape")
    x = None if reshape is None else reshape.inputs[0]
    shape = None if reshape is None else dimensions(reshape.outputs[0], 5)
    if x is None or x.rank != 3 or shape is None:
        return None
    batch, length, _, heads, size = shape
    if not isinstance(heads, int) or not isinstance(size, int):
        return None
    width = heads * size
    return (x, width) if same_after_reshape(x.shape, (batch, length, 3 * width)) else None


def _unpacking_split(values: Sequence[Edge]) -> Node | None:
    """The Split whose three outputs, with their first axis squeezed, are the values, in order."""
    squeezes = [producer_of(value, "Squeeze") for value in values]
    pieces = [node.inputs[0] for node in squeezes if node is not None and axes_of(node) == [0]]
    split = producer_of(pieces[0], "Split") if len(pieces) == 3 else None
    if split is None or pieces != list(split.outputs) or sizes_of(split) != [1, 1, 1]:
        return None
    return split if axis_of(split, 5) == 0 else None


def ungrouped(value: Edge) -> Edge | None:
    """The value [batch, heads, 1, size] that a Reshape turns into [batch, groups, heads / groups,
    size]: the heads of a group become several queries of one head. None for any other value.
    """
    reshape = producer_of(value, "Reshape")
    x = None if reshape is None else reshape.inputs[0]
    shape = dimensions(x, 4)
    grouped = dimensions(value, 4)
    if shape is None or grouped is None or shape[2] != 1:
        return None
    batch, heads, _, size = shape
    _, groups, times, _ = grouped
    if not isinstance(groups, int) or not isinstance(times, int):
        return None
    is_regrouped = groups * times == heads != groups
    return x if is_regrouped and same_shape(grouped, (batch, groups, times, size)) else None


def unrepeated(value: Edge | None) -> Edge | None:
    """The value [batch, heads, …] whose heads Unsqueeze, Expand and Reshape repeat."""
    reshape = producer_of(value, "Reshape")
    expand = producer_of(value if reshape is None else reshape.inputs[0], "Expand")
    unsqueeze = None if expand is None else producer_of(expand.inputs[0], "Unsqueeze")
    if value is None or expand is None or unsqueeze is None:
        return None
    x = unsqueeze.inputs[0]
    wide = expand.outputs[0]
    if x is None or axes_of(unsqueeze) not in ([2], [-3]):
        return None
    shape = _repeated_shape(x, wide)
    # The Reshape after Expand may be missing, because a pass has joined it with a later Reshape.
    is_repeated = wide is value or same_after_reshape(value.shape, shape)
    return x if shape is not None and is_repeated else None


def _repeated_shape(x: Edge, wide: Edge | None) -> Shape | None:
    """The shape of x after its heads are repeated along the third axis of `wide`; None if
    unknown.
    """
    shape = dimensions(x, 4)
    expanded = dimensions(wide, 5)
    if shape is None or expanded is None:
        return None
    batch, symbol, length, size = shape
    heads = heads_of(x)
    times = expanded[2]
    if not isinstance(heads, int) or not isinstance(times, int):
        return None
    keeps_rest = same_shape((expanded[0], *expanded[3:]), (batch, length, size))
    is_repeated = keeps_rest and expanded[1] in (symbol, heads)
    return (batch, heads * times, length, size) if is_repeated else None


def merged(formula: Formula) -> Formula:
    """The formula with its heads merged. A Reshape that changes nothing may come before the merge,
    as torch writes it.
    """
    unchanged = either(op.Reshape(formula, var("same_shape"), _as="unchanged"), formula)
    return op.Reshape(op.Transpose(unchanged, perm=SPLIT, _as="turn"), var("shape"), _as="merge")


def reshaped(m: Match, result: Edge, new: Tape) -> Edge:
    """The result [batch, length, heads · size] in the shape to which the model merges its heads.

    Refuses a shape with a 0 that may copy another dimension.
    """
    target = elements(m.shape)
    copyable = 1 if m.turn is None else 2  # how many leading dimensions a 0 in the shape may copy
    is_literal = bool(m.merge.attr("allowzero"))
    if target is None or any(
        not is_literal and (e == 0 or not isinstance(e, int)) for e in target[copyable:]
    ):
        refuse("the heads are merged in an unknown way")
    return new.Reshape(result, m.shape, like=m.merge)


def merged_operands(
    qkv: tuple[Edge, Edge, Edge], heads: tuple[int, int, int], new: Tape
) -> list[Edge] | None:
    """Query, key and value as they were before Reshape and Transpose split their heads; None if
    unknown.
    """
    packed = packed_source(qkv)
    if packed is not None:
        x, width = packed
        return list(new_split(new, x, [width] * 3, 2))
    merged = [merged_heads(value, count, new) for value, count in zip(qkv, heads, strict=True)]
    parts = [part for part in merged if part is not None]
    return parts if len(parts) == 3 else None


def is_merged(m: Match, heads: int, query: Edge, value: Edge) -> bool:
    """Whether the model merges the heads of the result to [batch, length, heads · size]."""
    if m.unchanged is not None:
        before = m.unchanged.inputs[0].shape
        after = m.unchanged.outputs[0].shape
        if not same_after_reshape(before, after):
            refuse("a Reshape after the operator changes something")
    (batch, _, length, _) = query.shape or (None,) * 4
    size = None if value.shape is None else value.shape[3]
    shape: Shape = (batch, length, heads * size if isinstance(size, int) else None)
    return same_after_reshape(m.merge.outputs[0].shape, shape)


def batch_of(value: Edge) -> Edge:
    """The earliest value whose first dimension this value keeps."""
    while (
        node := producer_of(value, "Transpose", "Reshape", "RotaryEmbedding") or _rotary_of(value)
    ) is not None:
        source = node.inputs[0]
        if source is None or (node.op == "Transpose" and (node.attr("perm") or [1])[0] != 0):
            break
        if node.op == "Reshape" and not _keeps_batch(source, value):
            break
        value = source
    return value


def _keeps_batch(source: Edge, value: Edge) -> bool:
    """Whether a Reshape keeps the first axis and only rearranges the others."""
    rests = [v.shape[1:] if v.shape else None for v in (source, value)]
    counts = [
        0 if r is None else int(np.prod([d if isinstance(d, int) else 0 for d in r])) for r in rests
    ]
    return counts[0] == counts[1] > 0
