"""onnxruntime's own attention operators: [batch, length, heads · size], and a mask of four axes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fusionc.model.graph import Edge
from fusionc.passes._shared.reduce_axes import new_reduce
from fusionc.passes._shared.slice_split_concat import axis_of
from fusionc.passes._shared.transpose_and_reshape import new_unsqueeze
from fusionc.passes.attention._heads import (
    SPLIT,
    batch_of,
    heads_of,
    is_merged,
    merged,
    reshaped,
    ungrouped,
)
from fusionc.passes.attention._masks import hidden_by, shows_all
from fusionc.passes.attention._written_attention import attention, guarded, k, mask, scores_of, v
from fusionc.rewrite import Match, Pattern, Result, Tape, const, either, keep, op, refuse, rest, var
from fusionc.rewrite.pattern import Formula, OpFormula
from fusionc.shapes.elements import dimension
from fusionc.shapes.equality import same_shape

# the heads side by side, keys and values with those of the past
Made = tuple[Edge, Edge | None, Edge | None]
Rewrite = Callable[[Match, Tape], Made]
_KEYS = op.Concat(var("past_key"), var("new_key"), _as="keys")
_VALUES = op.Concat(var("past_value"), var("new_value"), _as="values")


def _repeated(value: OpFormula, name: str) -> Formula:
    """The same heads, or each of them several times."""
    wide = op.Expand(
        op.Unsqueeze(value, rest(f"{name}_axes")), var(f"{name}_wide"), _as=f"{name}_expand"
    )
    return either(op.Reshape(wide, var(f"{name}_shape"), _as=f"{name}_repeat"), wide, value)


def _masked(scores: Formula) -> Formula:
    """The scores with a mask: added, filled in by Where, or both, or two added, maybe with a lower
    bound behind it.
    """
    filled = either(
        op.Where(var("shown"), scores, const("far")), op.Where(var("hidden"), const("far"), scores)
    )
    hiding = either(filled + mask, filled, (scores + var("bias")) + mask, scores + mask)
    return either(op.Max(hiding, const("floor")), hiding)


def _merged_or_single(formula: Formula) -> Formula:
    """The heads side by side, also without a Transpose, which one query for each head does not
    need: `m.turn` is None there.
    """
    return either(merged(formula), op.Reshape(formula, var("shape"), _as="merge"))


def patterns(name: str, rewrite: Rewrite, where: Callable[[Match], bool]) -> tuple[Pattern, ...]:
    """Attention that is written out, with its heads merged: without a mask, with one, and with one
    that needs a guard; first those of which the keys and values are joined to those of the past.

    The guard Where(IsNaN(weights), 0, weights) makes zeros of a row of which the mask hides all
    keys by −∞. It becomes a Where of the mask behind the attention, from where the operators, which
    make NaN of such a row, do not see it.
    """

    def alone(m: Match, new: Tape) -> Result:
        result, keys, _ = rewrite(m, new)
        if keys is not None:
            refuse("keys and values of the past are not joined to the new ones in one place")
        return _as_before(m, result, new)

    def joined(m: Match, new: Tape) -> Result:
        result, keys, values = rewrite(m, new)
        if keys is None or values is None:
            refuse("the past is not joined as the operator does it")
        return [_as_before(m, result, new), keys, values]

    def unguarded(m: Match, new: Tape) -> Result:
        rewrite(m, Tape(m.graph))  # what it refuses keeps its guard
        return _zeroed(m, new)

    def is_single(m: Match) -> bool:
        # a Transpose would exchange the heads of a group and the groups
        if ungrouped(m.q) is not None:
            return m.turn is None and where(m)
        return (m.turn is not None or _length_of_queries(m) == 1) and where(m)

    def fits(m: Match) -> bool:
        return is_single(m) and not _needs_guard(m)

    def fits_with_guard(m: Match) -> bool:
        return is_single(m) and _needs_guard(m)

    single = (
        f"{(where.__doc__ or '').rstrip('.')}; a Transpose merges the heads, or there is one query"
    )
    fits.__doc__ = f"{single}; and nothing guards against hidden rows."
    fits_with_guard.__doc__ = f"{single}; and the guard against hidden rows is needed."

    past = scores_of(_repeated(_KEYS, "k"), casts=True)
    values = _repeated(_VALUES, "v")
    plain, hiding = (
        _merged_or_single(attention(scores, values, casts=True)) for scores in (past, _masked(past))
    )
    scores = scores_of(k, casts=True)
    return (
        Pattern(
            f"{name}Guard",
            _merged_or_single(
                op.MatMul(guarded(op.Softmax(keep(scores + mask), _as="softmax")), v)
            ),
            unguarded,
            where=fits_with_guard,
        ),
        Pattern(f"{name}Past", (plain, _KEYS, _VALUES), joined, where=fits),
        Pattern(f"{name}PastMasked", (hiding, _KEYS, _VALUES), joined, where=fits),
        Pattern(name, _merged_or_single(attention(scores, casts=True)), alone, where=fits),
        Pattern(
            f"{name}Masked",
            _merged_or_single(attention(_masked(scores), casts=True)),
            alone,
            where=fits,
        ),
    )


def query_of(m: Match) -> Edge:
    """The query of each head, also where those of one key stand as several of one head."""
    return ungrouped(m.q) or m.q


def key_of(m: Match) -> Edge:
    """The key as it goes into the scores."""
    node = m.k_repeat or m.k_expand or m.keys
    value: Edge = node.outputs[0] if node else m.k
    return value


def value_of(m: Match) -> Edge:
    """The value as the weights multiply it."""
    node = m.v_repeat or m.v_expand or m.values
    value: Edge = node.outputs[0] if node else m.v
    return value


def _length_of_queries(m: Match) -> int | str | None:
    """How many queries there are for each head."""
    shape = query_of(m).shape
    return None if shape is None or len(shape) != 4 else shape[2]


def past_of(value: Edge, query: Edge) -> tuple[Edge, Edge] | None:
    """What a Concat joins along the axis of lengths, all of one batch: what there was, and what is
    new.
    """
    node = value.producer
    if (
        node is None
        or not node.is_op("Concat")
        or node.has_references
        or len(node.inputs) != 2
        or value.rank != 4
    ):
        return None
    past, fresh = node.inputs
    if (
        axis_of(node, 4) != 2
        or past is None
        or fresh is None
        or past.shape is None
        or fresh.shape is None
    ):
        return None
    is_one_batch = (
        dimension(past, 0) == dimension(batch_of(fresh), 0) == dimension(batch_of(query), 0)
    )
    is_alike = (
        past.shape[1] == fresh.shape[1]
        and isinstance(past.shape[1], int)
        and past.shape[3] == fresh.shape[3]
    )
    return (past, fresh) if is_one_batch and is_alike and isinstance(past.shape[3], int) else None


def _needs_guard(m: Match) -> bool:
    if m.guard is None:
        return False
    if m.bias is not None or (
        m.far is not None and (m.mask is not None or not np.isfinite(m.far.constant()).all())
    ):
        return True  # of two finite numbers far below zero the sum may not be one
    if m.mask is None or shows_all(m.mask):
        return False
    hidden = hidden_by(m.mask)
    return hidden is None or not all(map(math.isfinite, hidden))


def _as_before(m: Match, made: Edge, new: Tape) -> Edge:
    return made if is_merged(m, _heads(m), query_of(m), value_of(m)) else reshaped(m, made, new)


def _zeroed(m: Match, new: Tape) -> Edge:
    """The same without the guard, and zeros where the mask hides a whole row."""
    rank = m.mask.rank
    shape = m.mask.shape
    if shape is None or (rank > 2 and shape[-3] != 1):
        refuse("one mask for each head, and the guard")
    heads = number_of_heads(m)
    size = None if m.v.shape is None else m.v.shape[3]
    weights = new.Softmax(m.softmax.inputs[0], like=m.softmax)
    result = new.MatMul(weights, m.v)
    if m.unchanged is not None:
        result = new.Reshape(result, m.same_shape, like=m.unchanged)
    merges = is_merged(m, heads, query_of(m), m.v)
    if m.turn is not None:
        result = new.Transpose(result, perm=SPLIT)
    if merges:
        result = new.Reshape(result, m.shape, like=m.merge)
    elif isinstance(size, int):
        result = new.Reshape(
            result, new.const(np.array([0, 0 if m.turn is not None else 1, heads * size], np.int64))
        )
    else:
        refuse("the size of the heads is unknown")
    # With keepdims, onnxruntime does not reduce the axes of a tensor without elements.
    axes = [axis for axis in (rank - 3, rank - 1) if axis >= 0]
    highest = new_reduce(new, "ReduceMax", m.mask, axes, keepdims=False)
    is_lowest = new.Equal(highest, new.const(np.array(-np.inf, np.float32)))
    hidden = new_unsqueeze(new, is_lowest, [rank - len(axes)])
    made = new.Where(hidden, new.const(np.array(0, np.float32)), result)
    return made if merges else reshaped(m, made, new)


def number_of_heads(m: Match) -> int:
    """The heads of the query; where only their size is known, from the product behind, which takes
    all of them.
    """
    found = _heads(m)
    return found if found else refuse("the number of heads is unknown")


def _heads(m: Match) -> int:
    heads = heads_of(query_of(m))
    shape = value_of(m).shape
    merged_heads = m.merge.outputs[0]
    size = None if shape is None else shape[3]
    query = query_of(m).shape
    if isinstance(heads, int):
        return heads
    if (
        query is None
        or merged_heads.shape is None
        or len(merged_heads.shape) != 3
        or not same_shape((query[0], query[2]), merged_heads.shape[:2])
    ):
        return 0  # its rows may be others than those of the queries, each with a part of the heads
    for user in merged_heads.outputs:
        weights = user.inputs[1] if user.is_op("MatMul") and user.graph is m.graph else None
        if (
            weights is None
            or weights.rank != 2
            or weights.shape is None
            or user.inputs[0] is not merged_heads
        ):
            continue
        width = weights.shape[0]
        if (
            isinstance(width, int)
            and isinstance(size, int)
            and 0 < size <= width
            and width % size == 0
        ):
            return width // size
    return 0
