"""What onnxruntime's MultiHeadAttention and GroupQueryAttention have in common.

Their operands have the shape [batch, length, heads · size], and their masks have four axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from fusionc.model.graph import Edge, Graph, Shape
from fusionc.passes._shared.reduce_axes import new_reduce
from fusionc.passes._shared.slice_split_concat import axis_of
from fusionc.passes._shared.transpose_and_reshape import new_unsqueeze
from fusionc.passes.attention._heads import (
    SPLIT,
    batch_of,
    dimensions,
    heads_of,
    is_merged,
    merged,
    producer_of,
    reshaped,
    ungrouped,
)
from fusionc.passes.attention._masks import hiding_numbers, shows_all
from fusionc.passes.attention._written_attention import attention, guarded, k, mask, scores_of, v
from fusionc.rewrite import (
    Match,
    Pattern,
    Result,
    Tape,
    const,
    either,
    keep,
    op,
    refuse,
    rest,
    unknown,
    var,
)
from fusionc.rewrite.pattern import Formula, OpFormula
from fusionc.shapes.elements import dimension
from fusionc.shapes.equality import same_shape

# The result [batch, length, heads · size]. If there is a past, in addition the keys and the values
# of the past joined with the new ones; otherwise None and None.
AttentionResult = tuple[Edge, Edge | None, Edge | None]
Rewrite = Callable[[Match, Tape], AttentionResult]
_KEYS = op.Concat(var("past_key"), var("new_key"), _as="keys")
_VALUES = op.Concat(var("past_value"), var("new_value"), _as="values")


def _repeated(value: OpFormula, name: str) -> Formula:
    """A value, or the value with each of its heads repeated several times."""
    wide = op.Expand(
        op.Unsqueeze(value, rest(f"{name}_axes")), var(f"{name}_wide"), _as=f"{name}_expand"
    )
    return either(op.Reshape(wide, var(f"{name}_shape"), _as=f"{name}_repeat"), wide, value)


def _masked(scores: Formula) -> Formula:
    """The scores after one mask is added, after a Where fills in numbers, after both, or after two
    masks are added.

    A Max with a lower bound may follow.
    """
    filled = either(
        op.Where(var("shown"), scores, const("far")), op.Where(var("hidden"), const("far"), scores)
    )
    hiding = either(filled + mask, filled, (scores + var("bias")) + mask, scores + mask)
    return either(op.Max(hiding, const("floor")), hiding)


def _merged_or_single(formula: Formula) -> Formula:
    """The result with its heads merged. If there is a single query, the merge may lack a Transpose,
    and `m.turn` is then None.
    """
    return either(merged(formula), op.Reshape(formula, var("shape"), _as="merge"))


def patterns(name: str, rewrite: Rewrite, where: Callable[[Match], bool]) -> tuple[Pattern, ...]:
    """Patterns of attention that is written out and merges its heads. Each pattern with keys and
    values of a past comes before the same pattern without a past.

    If the mask hides all keys of a row by −∞, the guard Where(IsNaN(weights), 0, weights) replaces
    the NaN of this row by zeros. The attention operators have no guard, so the Guard pattern first
    moves it: it becomes a Where after the attention, whose condition is computed from the mask.
    """

    def without_past(m: Match, new: Tape) -> Result:
        result, keys, _ = rewrite(m, new)
        if keys is not None:
            refuse("keys and values of the past are joined to the new ones in different places")
        return _as_merged(m, result, new)

    def with_past(m: Match, new: Tape) -> Result:
        result, keys, values = rewrite(m, new)
        if keys is None or values is None:
            refuse("keys and values of the past are not joined in the way of the operator")
        return [_as_merged(m, result, new), keys, values]

    def without_guard(m: Match, new: Tape) -> Result:
        rewrite(m, Tape(m.graph))  # a trial: if the rewrite refuses, the guard stays
        return _zeroed(m, new)

    conditions = (where, _merges_heads, _is_unguarded)
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
            without_guard,
            where=(where, _merges_heads, _needs_guard),
        ),
        Pattern(f"{name}Past", (plain, _KEYS, _VALUES), with_past, where=conditions),
        Pattern(f"{name}PastMasked", (hiding, _KEYS, _VALUES), with_past, where=conditions),
        Pattern(
            name, _merged_or_single(attention(scores, casts=True)), without_past, where=conditions
        ),
        Pattern(
            f"{name}Masked",
            _merged_or_single(attention(_masked(scores), casts=True)),
            without_past,
            where=conditions,
        ),
    )


def _merges_heads(m: Match) -> bool:
    """Whether a Transpose merges the heads, or a single query needs none."""
    # If heads are grouped, a Transpose exchanges the groups and the heads of each group, so it does
    # not merge.
    if ungrouped(m.q) is not None:
        return m.turn is None
    return m.turn is not None or _length_of_queries(m) == 1


def _is_unguarded(m: Match) -> bool:
    """Whether the match lacks a guard, or has a guard without effect."""
    return not _needs_guard(m)


def query_of(m: Match) -> Edge:
    """The query as [batch, heads, length, size], also if the model computes the heads that share a
    key as several queries of one head.
    """
    return ungrouped(m.q) or m.q


def key_of(m: Match) -> Edge:
    """The key as the product with the query reads it."""
    node = m.k_repeat or m.k_expand or m.keys
    value: Edge = node.outputs[0] if node else m.k
    return value


def value_of(m: Match) -> Edge:
    """The value as the product with the weights reads it."""
    node = m.v_repeat or m.v_expand or m.values
    value: Edge = node.outputs[0] if node else m.v
    return value


def _length_of_queries(m: Match) -> int | str | None:
    """The number of queries of each head."""
    shape = query_of(m).shape
    return None if shape is None or len(shape) != 4 else shape[2]


def pasts_of(query: Edge, key: Edge, value: Edge) -> tuple[list[Edge], list[Edge]] | None:
    """The key and value of the past, and the new key and value that a Concat joins to each of them.
    None if the key or the value is not joined to a past.
    """
    pairs = [pair for pair in (_past_of(key, query), _past_of(value, query)) if pair is not None]
    if len(pairs) != 2:
        return None
    return [past for past, _ in pairs], [new_part for _, new_part in pairs]


def require_same_past(pasts: list[Edge]) -> None:
    """Refuse key and value of the past if their shapes are not known to be equal."""
    if not same_shape(pasts[0].shape, pasts[1].shape):
        refuse("keys and values of the past are not known to have the same shape")


def _past_of(value: Edge, query: Edge) -> tuple[Edge, Edge] | None:
    """The past and the new part that a Concat joins along the length axis. None if one of them does
    not have the query's batch.
    """
    node = producer_of(value, "Concat")
    if node is None or len(node.inputs) != 2 or value.rank != 4 or axis_of(node, 4) != 2:
        return None
    past, new_part = node.inputs
    if past is None or new_part is None or not _have_same_heads(past.shape, new_part.shape):
        return None
    batches = {dimension(value, 0) for value in (past, batch_of(new_part), batch_of(query))}
    return (past, new_part) if len(batches) == 1 else None


def _have_same_heads(a: Shape | None, b: Shape | None) -> bool:
    """Whether both shapes are known to have the same number of heads, of the same size."""
    if a is None or b is None:
        return False
    sizes = (a[1], a[3])
    return sizes == (b[1], b[3]) and all(isinstance(size, int) for size in sizes)


def _needs_guard(m: Match) -> bool:
    """Whether the guard may have an effect, because the mask may hide all keys of a row by −∞."""
    if m.guard is None:
        return False
    if m.bias is not None or (
        m.far is not None and (m.mask is not None or not np.isfinite(m.far.constant()).all())
    ):
        return True  # the sum of two finite numbers far below zero may be infinite
    if m.mask is None or shows_all(m.mask):
        return False
    numbers = hiding_numbers(m.mask)
    return numbers is None or not all(map(math.isfinite, numbers))


def _as_merged(m: Match, result: Edge, new: Tape) -> Edge:
    """The result in the shape to which the model merges the heads."""
    return result if is_merged(m, _heads(m), query_of(m), value_of(m)) else reshaped(m, result, new)


def _zeroed(m: Match, new: Tape) -> Edge:
    """Attention without the guard, and then a Where that sets the rows to zero in which the mask
    hides all keys.
    """
    rank = m.mask.rank
    shape = m.mask.shape
    if shape is None or (rank > 2 and shape[-3] != 1):
        refuse("the attention has a guard, and each head has its own mask")
    heads = number_of_heads(m)
    weights = new.Softmax(m.softmax.inputs[0], like=m.softmax)
    result = new.MatMul(weights, m.v)
    if m.unchanged is not None:
        result = new.Reshape(result, m.same_shape, like=m.unchanged)
    merges = is_merged(m, heads, query_of(m), m.v)
    merged_result = _merge(m, result, None if merges else heads, new)
    # With keepdims, onnxruntime does not reduce an empty tensor.
    axes = [axis for axis in (rank - 3, rank - 1) if axis >= 0]
    highest = new_reduce(new, "ReduceMax", m.mask, axes, keepdims=False)
    is_lowest = new.Equal(highest, new.const(-np.inf, like=m.mask))
    hidden = new_unsqueeze(new, is_lowest, [rank - len(axes)])
    zeroed = new.Where(hidden, new.const(0.0, like=m.v), merged_result)
    return zeroed if merges else reshaped(m, zeroed, new)


def _merge(m: Match, result: Edge, heads: int | None, new: Tape) -> Edge:
    """The result [batch, heads, length, size] as [batch, length, heads · size].

    If `heads` is None, the model's own Reshape merges the heads.
    """
    if m.turn is not None:
        result = new.Transpose(result, perm=SPLIT)
    if heads is None:
        return new.Reshape(result, m.shape, like=m.merge)
    size = m.v.require_size(3, "the size of the heads")
    length = 1 if m.turn is None else 0
    return new.Reshape(result, new.const(np.array([0, length, heads * size], np.int64)))


def number_of_heads(m: Match) -> int:
    """The number of heads of the query. Refuses if it is unknown."""
    return _heads(m) or refuse(unknown("the number of heads"))


def _heads(m: Match) -> int:
    """The number of heads of the query; 0 if it is unknown.

    If only the size of a head is known, the number follows from the matrix that multiplies the
    merged heads: its row count is heads · size.
    """
    query = query_of(m)
    heads = heads_of(query)
    if isinstance(heads, int):
        return heads
    shape = value_of(m).shape
    size = None if shape is None else shape[3]
    merged_value = m.merge.outputs[0]
    if not isinstance(size, int) or size <= 0 or not _keeps_rows(merged_value, query.shape):
        return 0
    widths = _multiplied_widths(merged_value, m.graph)
    return next((width // size for width in widths if width >= size and width % size == 0), 0)


def _keeps_rows(merged_value: Edge, query: Shape | None) -> bool:
    """Whether the merged result has one row for each query. Otherwise a row may have only some of
    the heads of a query.
    """
    shape = dimensions(merged_value, 3)
    return shape is not None and query is not None and same_shape((query[0], query[2]), shape[:2])


def _multiplied_widths(value: Edge, graph: Graph) -> Iterator[int]:
    """The row counts of the matrices that multiply a value in this graph."""
    for user in value.outputs:
        if user.is_op("MatMul") and user.graph is graph and user.inputs[0] is value:
            width = (dimensions(user.inputs[1], 2) or (None,))[0]
            if isinstance(width, int):
                yield width
