"""What onnxruntime's own attention operators have in common: [batch, length, heads · size], and a mask of four axes."""

from __future__ import annotations

import math
from collections.abc import Callable

from fusionc.model.graph import Edge
from fusionc.passes.attention import SCORES, attention, mask
from fusionc.passes.attention_operator import is_merged, merged
from fusionc.passes.masks import full, hidden_by, shows_all
from fusionc.passes.slicing import new_unsqueeze
from fusionc.rewrite import Match, Pattern, Result, Tape, refuse

Rewrite = Callable[[Match, Tape], Result]


def patterns(name: str, rewrite: Rewrite, where: Callable[[Match], bool] | None = None) -> tuple[Pattern, ...]:
    """Attention that is written out, with its heads merged; without a mask and with one."""
    return (
        Pattern(name, merged(attention(SCORES)), rewrite, where=where),
        Pattern(f"{name}Masked", merged(attention(SCORES + mask)), rewrite, where=where),
    )


def require_merged(m: Match, heads: int) -> None:
    """Refuses where the result is not what the operators make."""
    if not is_merged(m, heads):
        refuse("the heads are not known to be merged on three axes")


def bias_of(m: Match, query: Edge, key: Edge, new: Tape) -> Edge | None:
    """The mask as the operators add it, [batch or 1, heads or 1, queries, keys]; None where there is none."""
    given: Edge | None = m.captures.get("mask")
    if given is None:
        return None
    if m.captures.get("guard") is not None:
        hidden = hidden_by(given)
        if hidden is None:
            refuse("what the mask hides is unknown")
        if not all(map(math.isfinite, hidden)) and not (given.is_constant and shows_all(given)):
            refuse("the guard makes zeros of a row that the mask hides")
    whole, rank = full(given, given.shape, query, key, new), given.rank or 0
    array = whole.constant()
    if array is not None:
        return new.const(array.reshape((1,) * (4 - rank) + array.shape), like=given)
    return whole if rank == 4 else new_unsqueeze(new, whole, list(range(4 - rank)))
