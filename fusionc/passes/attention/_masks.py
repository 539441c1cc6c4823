"""Masks of attention. A mask is added to the scores. The hiding numbers of a mask are its numbers
far below zero, which hide keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge, Node, Shape
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.meeting_shapes import meets
from fusionc.passes._shared.transpose_and_reshape import new_unsqueeze
from fusionc.passes.attention._heads import Heads, heads_of, producer_of
from fusionc.passes.attention._lengths import expanded, length_of
from fusionc.rewrite import Match, Tape, refuse, require_known
from fusionc.shapes.elements import broadcast_known

LOWEST = float(np.finfo(np.float32).min)
_FAR_BELOW = -1e30  # a number is hiding if it is at most this: number + score rounds to number
_MAX_DEPTH = 32  # how many operators of a chain are followed back from a mask
_SELECTING = tuple(sorted(names_with(Trait.SELECTS)))
ADDING = ("Add", "Where", *_SELECTING)  # operators that make no NaN from numbers below +∞
_DOES_NOT_FIT = "the mask is not known to fit the scores"


def hiding_numbers(value: Edge | None) -> set[float] | None:
    """The numbers with which a mask hides keys: all numbers far below zero that the mask may
    contain. None if unknown.
    """
    return _hiding_numbers(value, _MAX_DEPTH, {})


def _hiding_numbers(
    value: Edge | None, depth: int, known: dict[Edge, set[float] | None]
) -> set[float] | None:
    if value is None:
        return None
    if value.is_constant:
        array = value.constant()
        return None if array is None or array.dtype.kind != "f" else _numbers_far_below(array)
    node = producer_of(value, "Mul", *ADDING)
    if node is None or depth == 0:
        return None
    if node.op == "Mul":
        return _hiding_factors(node)
    if value not in known:
        parts = [_hiding_numbers(part, depth - 1, known) for part in parts_of(node)]
        known[value] = _union(parts, is_sum=node.op == "Add")
    return known[value]


def _union(parts: list[set[float] | None], *, is_sum: bool) -> set[float] | None:
    """The hiding numbers of all parts together. None if the hiding numbers of a part are unknown.
    Also None for a sum in which every part has hiding numbers, because the sum might overflow.
    """
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or (is_sum and all(known)):
        return None
    return {number for part in known for number in part}


def parts_of(node: Node) -> list[Edge | None]:
    """The inputs from which an operator takes the elements of a mask."""
    if node.op == "Where":
        return list(node.inputs[1:])
    return list(node.inputs[:1] if node.op in _SELECTING else node.inputs)


def _numbers_far_below(array: np.ndarray[Any, Any]) -> set[float]:
    return {float(number) for number in np.unique(array[~(array > _FAR_BELOW)])}


def _hiding_factors(node: Node) -> set[float] | None:
    """The hiding numbers of (1 − mask)·c, if the mask has only integers; otherwise None."""
    factors = [value for value in node.inputs if value is not None and value.is_constant]
    others = [value for value in node.inputs if value is not None and not value.is_constant]
    if len(factors) != 1 or len(others) != 1 or not _is_integral(others[0]):
        return None
    return hiding_numbers(factors[0])


def _is_integral(value: Edge | None, depth: int = _MAX_DEPTH) -> bool:
    """Whether a value consists of whole numbers: a Cast of integers, or 1 minus such a Cast."""
    node = producer_of(value, "Sub", "Cast", "Unsqueeze")
    if node is None or node.inputs[0] is None or depth == 0:
        return False
    if node.op == "Sub":
        minuend = node.inputs[0].constant()
        return (
            minuend is not None
            and bool((minuend == 1).all())
            and _is_integral(node.inputs[1], depth - 1)
        )
    if node.op == "Unsqueeze":
        return _is_integral(node.inputs[0], depth - 1)
    dtype = node.inputs[0].dtype
    return dtype is not None and dtype.kind in "iub"


def shows_all(mask: Edge) -> bool:
    """Whether the mask is a constant that leaves at least one key visible in each row."""
    array = mask.constant()
    return array is not None and array.ndim > 0 and not bool((array <= LOWEST).all(axis=-1).any())


def added_mask(m: Match, query: Edge, key: Edge, new: Tape) -> Edge | None:
    """The mask in the form that the operators add, [batch or 1, heads or 1, queries, keys]. None if
    the match has no mask.
    """
    mask, shape = _sum_of_masks(m, query, key, new)
    if mask is None:
        return None
    if shape is None:
        refuse(_DOES_NOT_FIT)
    whole = full_mask(mask, shape, query, key, new)
    rank = len(shape)
    array = whole.constant()
    if array is not None:
        return new.const(array.reshape((1,) * (4 - rank) + array.shape), like=mask)
    return whole if rank == 4 else new_unsqueeze(new, whole, list(range(4 - rank)))


def _sum_of_masks(m: Match, query: Edge, key: Edge, new: Tape) -> tuple[Edge | None, Shape | None]:
    """The sum of all masks and its shape. The masks are `m.mask`, `m.bias`, and the mask of a Where
    that fills in numbers far below zero.
    """
    mask: Edge | None = _widened(m.mask, new)
    shape = None if m.mask is None else m.mask.shape
    condition = m.shown or m.hidden
    if condition is not None:
        filled, shown = _filled_mask(m, condition, query, key, new)
        shape = shown if mask is None else broadcast_known(shown, shape)
        mask = filled if mask is None else new.Add(filled, mask)
    if m.bias is not None and mask is not None:
        mask = new.Add(_widened(m.bias, new), mask)
        shape = broadcast_known(m.bias.shape, shape)
    if m.floor is not None and mask is not None:
        if not is_one_number(m.floor) or m.floor.constant().item() != LOWEST:
            refuse("the lower bound of the scores may change visible scores")
        mask = new.Max(mask, new.const(np.array(LOWEST, np.float32)))
    return mask, shape


def _widened(mask: Edge | None, new: Tape) -> Edge | None:
    """A mask in float32."""
    if mask is None or mask.elem_type != TensorProto.FLOAT16:
        return mask
    array = mask.constant()
    if array is None:
        return new.Cast(mask, to=TensorProto.FLOAT)
    return new.const(array.astype(np.float32))


def _filled_mask(
    m: Match, condition: Edge, query: Edge, key: Edge, new: Tape
) -> tuple[Edge, Shape]:
    """The mask that has the effect of a Where, and its shape.

    It is 0 for scores that the Where keeps; for the others, it is the number that the Where fills
    in.
    """
    number = m.far.constant()
    if not is_one_number(m.far) or not number.item() <= _FAR_BELOW:
        refuse("the filled-in numbers may not hide the scores")
    _require_fitting(condition.shape, query, key)
    expand = producer_of(condition, "Expand")
    if expand is not None and expand.inputs[0] is not None and expand.inputs[0].shape is not None:
        condition = expand.inputs[0]
    far = np.array(number.item(), np.float32)
    zero = np.array(0, np.float32)
    pair = (zero, far) if m.shown is not None else (far, zero)
    array = condition.constant()
    shape: Shape = tuple(condition.shape or ())
    if array is not None:
        return new.const(np.where(array, *pair)), shape
    return new.Where(condition, *map(new.const, pair)), shape


def is_one_number(constant: Edge) -> bool:
    """Whether a constant is a single number that broadcasts into the scores."""
    array = constant.constant()
    return array is not None and array.size == 1 and array.ndim <= 4


def _meet(a: Heads, b: Heads) -> bool:
    """Whether two dimensions are known to be equal in every run in which they can be broadcast
    together.
    """
    if isinstance(a, int | str) and isinstance(b, int | str):
        return meets(a, b)
    return a is not None and a == b


def full_mask(mask: Edge, shape: Shape | None, query: Edge, key: Edge, new: Tape) -> Edge:
    """The mask, with its last two axes broadcast to all queries and all keys if needed."""
    lengths = _require_fitting(shape, query, key)
    if shape is not None and not any(
        _is_broadcast(*pair) for pair in zip(shape[-2:], lengths, strict=True)
    ):
        return mask
    return expanded(mask, [length_of(query, 2, new), length_of(key, 2, new)], new)


def _require_fitting(shape: Shape | None, query: Edge, key: Edge) -> Shape:
    """The numbers of queries and keys. Refuses a mask that is not known to broadcast to the
    scores.
    """
    shape = require_known(shape, "the rank of the mask")
    if not 2 <= len(shape) <= 4:
        refuse("the rank of the mask is not 2, 3 or 4")
    batch, _, length, _ = query.shape or (None,) * 4
    lengths = (length, None if key.shape is None else key.shape[2])
    for size, expected in zip(
        reversed(shape), (*reversed(lengths), heads_of(query), batch), strict=False
    ):
        if size != 1 and not _meet(size, expected):
            refuse(_DOES_NOT_FIT)
    return lengths


def _is_broadcast(size: int | str | None, expected: int | str | None) -> bool:
    """Whether a mask has one row (or column) that is broadcast to several."""
    return size == 1 and expected != 1
