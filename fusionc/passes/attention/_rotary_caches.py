"""What rotary embeddings are turned by: cosine and sine in the form in which the operator reads them."""

from __future__ import annotations

import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.passes._shared.slice_and_gather import axes_of, cuts_of, new_unsqueeze
from fusionc.passes._shared.split_and_concat import axis_of
from fusionc.passes.attention._heads import expanded, length_of, made_by
from fusionc.rewrite import Tape, refuse

_UNKNOWN = "the two halves of the cosine or sine are not known to be the same"


def is_last(node: Node, value: Edge) -> bool:
    """Whether the axis of a Split or Concat is the last one of the value."""
    return value.rank is not None and axis_of(node, value.rank) == value.rank - 1


def cache_of(value: Edge, x: Edge, new: Tape, *, is_half: bool) -> Edge:
    """Cosine or sine of x, [batch, heads, length, size], as [batch, length, size / 2]."""
    rows, is_shared = rows_of(value, x, new, is_half=is_half)
    return repeated(rows, x, new) if is_shared else rows


def repeated(rows: Edge, x: Edge, new: Tape) -> Edge:
    """What is one for all of the batch, for each of it."""
    if x.shape is not None and x.shape[0] == 1:
        return rows
    return expanded(rows, [length_of(x, 0, new), new.const(np.array([1, 1], np.int64))], new)


def rows_of(value: Edge, x: Edge, new: Tape, *, is_half: bool) -> tuple[Edge, bool]:
    """Cosine or sine of x as [batch, length, size / 2], and whether it is only one for all of the batch."""
    given, wanted = value.shape, x.shape
    if given is None or wanted is None or not 2 <= len(given) <= 4:
        refuse("the shape of cosine or sine is unknown")
    batch, heads, length, size = (1,) * (4 - len(given)) + tuple(given)
    is_fitting = (
        batch is not None and batch in (1, wanted[0]) and heads == 1 and length is not None and length == wanted[2]
    )
    if not is_fitting or not isinstance(wanted[3], int) or size != (wanted[3] // 2 if is_half else wanted[3]):
        refuse("cosine or sine does not fit x")
    return _of_rank_three(value if is_half else _half(value, new), new), batch == 1


def _of_rank_three(value: Edge, new: Tape) -> Edge:
    array, rank, node = value.constant(), value.rank, made_by(value, "Unsqueeze")
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
    array, rank = value.constant(), value.rank
    if array is not None and array.ndim and array.shape[-1] % 2 == 0:
        first, second = np.split(array, 2, axis=-1)
        if np.array_equal(first, second):
            return new.const(np.ascontiguousarray(first), like=value)
        refuse("the two halves of the cosine or sine differ")
    node = made_by(value, "Concat", "Cos", "Sin", "Identity", "Unsqueeze", "Gather", "Mul", "Slice")
    if node is None or rank is None:
        refuse(_UNKNOWN)
    if node.op == "Concat" and is_last(node, value) and len(node.inputs) == 2 and node.inputs[1] is node.inputs[0]:
        whole: Edge | None = node.inputs[0]
        assert whole is not None
        return whole
    inputs = list(node.inputs)
    at = 1 if node.op == "Mul" and inputs[0] is not None and inputs[0].is_constant else 0
    above = inputs[at]
    if above is None or not _is_apart(node, above, inputs[1 - at] if node.op == "Mul" else None, rank):
        refuse(_UNKNOWN)
    inputs[at] = _half(above, new)
    return new.node(node.op, inputs, like=node)


def _is_apart(node: Node, above: Edge, factor: Edge | None, rank: int) -> bool:
    """Whether an operator computes each column of its last axis from the same column of its input."""
    last = {rank - 1, -1}
    if node.op == "Unsqueeze":
        axes = axes_of(node)
        return axes is not None and not last & set(axes)
    if node.op == "Gather":
        return node.attr("axis") == 0 and above.rank is not None and above.rank > 1
    if node.op == "Slice":
        cuts = cuts_of(node)
        return cuts is not None and not last & {cut.axis for cut in cuts}
    if node.op == "Mul":
        array = None if factor is None else factor.constant()
        return array is not None and array.size == 1 and array.ndim <= rank
    return node.op in ("Cos", "Sin", "Identity")
