"""What onnxruntime's own attention operators have in common: [batch, length, heads · size], and a mask of four axes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fusionc.model.graph import Edge
from fusionc.passes.attention import SCORES, attention, guarded_attention, mask
from fusionc.passes.attention_operator import is_merged, merged
from fusionc.passes.heads import SPLIT, heads_of
from fusionc.passes.masks import full, hidden_by, shows_all
from fusionc.passes.reduction import new_reduce
from fusionc.passes.slicing import new_unsqueeze
from fusionc.rewrite import Match, Pattern, Result, Tape, keep, refuse

Rewrite = Callable[[Match, Tape], Result]


def patterns(name: str, rewrite: Rewrite, where: Callable[[Match], bool] | None = None) -> tuple[Pattern, ...]:
    """Attention that is written out, with its heads merged: without a mask, with one, and with one that needs a guard.

    The guard Where(IsNaN(weights), 0, weights) makes zeros of a row of which the mask hides all keys by −∞. It becomes
    a Where of the mask behind the attention, from where the operators, which make NaN of such a row, do not see it.
    """

    def unguarded(m: Match, new: Tape) -> Result:
        rewrite(m, Tape(m.graph))  # what it refuses keeps its guard
        return _zeroed(m, new)

    return (
        Pattern(name, merged(attention(SCORES)), rewrite, where=where),
        Pattern(
            f"{name}Guard",
            merged(guarded_attention(keep(SCORES + mask))),
            unguarded,
            where=lambda m: (where is None or where(m)) and _needs_guard(m),
        ),
        Pattern(
            f"{name}Masked",
            merged(attention(SCORES + mask)),
            rewrite,
            where=lambda m: (where is None or where(m)) and not _needs_guard(m),
        ),
    )


def _needs_guard(m: Match) -> bool:
    if m.captures.get("guard") is None or (m.mask.is_constant and shows_all(m.mask)):
        return False
    hidden = hidden_by(m.mask)
    return hidden is None or not all(map(math.isfinite, hidden))


def _zeroed(m: Match, new: Tape) -> Edge:
    """The same without the guard, and zeros where the mask hides a whole row."""
    weights = new.Softmax(m.softmax.inputs[0], like=m.softmax)
    result = new.MatMul(weights, m.v)
    if m.captures.get("unchanged") is not None:
        result = new.Reshape(result, m.same_shape, like=m.unchanged)
    result = new.Reshape(new.Transpose(result, perm=SPLIT), m.shape, like=m.merge)
    rank, shape = m.mask.rank, m.mask.shape
    if shape is None or (rank > 2 and shape[-3] != 1):
        refuse("one mask for each head, and the guard")
    highest = new_reduce(new, "ReduceMax", m.mask, [-1])
    hidden = new.Equal(highest, new.const(np.array(-np.inf, np.float32)))
    if rank > 2:
        hidden = new_unsqueeze(new, hidden, [rank - 3], "Squeeze")
    made: Edge = new.Where(hidden, new.const(np.array(0, np.float32)), result)
    return made


def number_of_heads(m: Match, query: Edge) -> int:
    """The heads of the query; where only their size is known, from the product behind, which takes all of them."""
    heads, size, merged_heads = heads_of(query), None if m.v.shape is None else m.v.shape[3], m.merge.outputs[0]
    if isinstance(heads, int):
        return heads
    for user in merged_heads.outputs:
        weights = user.inputs[1] if user.is_op("MatMul") and user.graph is m.graph else None
        if weights is None or weights.rank != 2 or weights.shape is None or user.inputs[0] is not merged_heads:
            continue
        width = weights.shape[0]
        if isinstance(width, int) and isinstance(size, int) and 0 < size <= width and width % size == 0:
            return width // size
    refuse("the number of heads is unknown")


def require_merged(m: Match, heads: int) -> None:
    """Refuses where the result is not what the operators make."""
    if not is_merged(m, heads):
        refuse("the heads are not known to be merged on three axes")


def bias_of(m: Match, query: Edge, key: Edge, new: Tape) -> Edge | None:
    """The mask as the operators add it, [batch or 1, heads or 1, queries, keys]; None where there is none."""
    given: Edge | None = m.captures.get("mask")
    if given is None:
        return None
    whole, rank = full(given, given.shape, query, key, new), given.rank or 0
    array = whole.constant()
    if array is not None:
        return new.const(array.reshape((1,) * (4 - rank) + array.shape), like=given)
    return whole if rank == 4 else new_unsqueeze(new, whole, list(range(4 - rank)))
