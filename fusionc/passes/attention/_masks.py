"""Masks of attention: what they add to hide keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusionc.model.graph import Edge, Node, Shape
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.meeting_shapes import meets
from fusionc.passes._shared.transpose_and_reshape import new_unsqueeze
from fusionc.passes.attention._heads import heads_of, made_by
from fusionc.passes.attention._lengths import expanded, length_of
from fusionc.rewrite import Match, Tape, refuse
from fusionc.shapes.elements import broadcast_known

LOWEST = float(np.finfo(np.float32).min)
_FAR_BELOW = -1e30  # what is added to it is lost in rounding
_DEEPEST = 32  # operators, one behind the other, of which a mask is made
_MOVING = tuple(sorted(names_with(Trait.SELECTS)))
ADDING = ("Add", "Where", *_MOVING)  # of numbers below +∞ they make no NaN


def hidden_by(value: Edge | None) -> set[float] | None:
    """The numbers by which a mask hides keys, all those far below zero that it may hold; None where
    it is unknown.
    """
    return _hidden_by(value, _DEEPEST, {})


def _hidden_by(
    value: Edge | None, depth: int, known: dict[Edge, set[float] | None]
) -> set[float] | None:
    if value is None or value.is_constant:
        array = None if value is None else value.constant()
        return None if array is None or array.dtype.kind != "f" else _far_below(array)
    node = made_by(value, "Mul", *ADDING)
    if node is None or depth == 0:
        return None
    if node.op == "Mul":
        return _by_product(node)
    if value not in known:
        found = [_hidden_by(part, depth - 1, known) for part in parts_of(node)]
        # two such numbers may overflow
        is_unknown = None in found or (node.op == "Add" and all(found))
        known[value] = None if is_unknown else {number for part in found for number in part or ()}
    return known[value]


def parts_of(node: Node) -> list[Edge | None]:
    """The inputs of which the elements of a mask are made."""
    return list(
        node.inputs[1:]
        if node.op == "Where"
        else node.inputs[:1]
        if node.op in _MOVING
        else node.inputs
    )


def _far_below(array: np.ndarray[Any, Any]) -> set[float]:
    return {float(number) for number in np.unique(array[~(array > _FAR_BELOW)])}


def _by_product(node: Node) -> set[float] | None:
    """Of (1 − mask)·c, the mask being integers."""
    factors = [value for value in node.inputs if value is not None and value.is_constant]
    others = [value for value in node.inputs if value is not None and not value.is_constant]
    if len(factors) != 1 or len(others) != 1 or not _is_integral(others[0]):
        return None
    return hidden_by(factors[0])


def _is_integral(value: Edge | None, depth: int = _DEEPEST) -> bool:
    """Whether a value holds whole numbers: one minus what a Cast makes of integers."""
    node = made_by(value, "Sub", "Cast", "Unsqueeze")
    if node is None or node.inputs[0] is None or depth == 0:
        return False
    if node.op == "Sub":
        one = node.inputs[0].constant()
        return (
            one is not None and bool((one == 1).all()) and _is_integral(node.inputs[1], depth - 1)
        )
    dtype = node.inputs[0].dtype
    return (
        _is_integral(node.inputs[0], depth - 1)
        if node.op == "Unsqueeze"
        else dtype is not None and dtype.kind in "iub"
    )


def shows_all(given: Edge) -> bool:
    """Whether no row of a constant mask hides all keys."""
    array = given.constant()
    return array is not None and array.ndim > 0 and not bool((array <= LOWEST).all(axis=-1).any())


def added_mask(m: Match, query: Edge, key: Edge, new: Tape) -> Edge | None:
    """The mask as the operators add it, [batch or 1, heads or 1, queries, keys]; None where there
    is none.
    """
    given, shape = _whole(m, query, key, new)
    if given is None or shape is None:
        return None if given is None else refuse("the mask is not known to fit the scores")
    whole = full(given, shape, query, key, new)
    rank = len(shape)
    array = whole.constant()
    if array is not None:
        return new.const(array.reshape((1,) * (4 - rank) + array.shape), like=given)
    return whole if rank == 4 else new_unsqueeze(new, whole, list(range(4 - rank)))


def _whole(m: Match, query: Edge, key: Edge, new: Tape) -> tuple[Edge | None, Shape | None]:
    """What is added to the scores, and its shape: `m.mask`, and `m.bias`, or numbers far below zero
    where a Where fills them in.
    """
    given: Edge | None = m.mask
    shape = None if given is None else given.shape
    condition = m.shown or m.hidden
    if condition is not None:
        filled, shown = _filled(m, condition, query, key, new)
        if given is None:
            given = filled
            shape = shown
        else:
            given = new.Add(filled, given)
            shape = broadcast_known(shown, shape)
    if m.bias is not None and given is not None:
        given = new.Add(m.bias, given)
        shape = broadcast_known(m.bias.shape, shape)
    if m.floor is not None and given is not None:
        if not is_one_number(m.floor) or m.floor.constant().item() != LOWEST:
            refuse("the scores have a lower bound that others than hidden ones may reach")
        given = new.Max(given, new.const(np.array(LOWEST, np.float32)))
    return given, shape


def _filled(m: Match, condition: Edge, query: Edge, key: Edge, new: Tape) -> tuple[Edge, Shape]:
    """The numbers that Where fills in, and zeros where it shows the scores."""
    number = m.far.constant()
    if not is_one_number(m.far) or not number.item() <= _FAR_BELOW:
        refuse("what is filled in does not hide for certain")
    _require_fitting(condition.shape, query, key)
    expand = made_by(condition, "Expand")
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
    """Whether it is one, which leaves scores as large as they are, and of four axes."""
    array = constant.constant()
    return array is not None and array.size == 1 and array.ndim <= 4


def full(given: Edge, shape: Shape | None, query: Edge, key: Edge, new: Tape) -> Edge:
    """A mask of this shape with the last two axes that the operators want: all of queries and
    keys.
    """
    lengths = _require_fitting(shape, query, key)
    if shape is not None and not any(
        _is_repeated(*pair) for pair in zip(shape[-2:], lengths, strict=True)
    ):
        return given
    return expanded(given, [length_of(query, 2, new), length_of(key, 2, new)], new)


def _require_fitting(shape: Shape | None, query: Edge, key: Edge) -> Shape:
    """How many queries and keys there are. Refuses a mask of a shape that is not known to fit the
    scores.
    """
    if shape is None or not 2 <= len(shape) <= 4:
        refuse("the rank of the mask is unknown, or not 2 to 4")
    batch, _, length, _ = query.shape or (None,) * 4
    lengths = (length, None if key.shape is None else key.shape[2])
    for have, want in zip(
        reversed(shape), (*reversed(lengths), heads_of(query), batch), strict=False
    ):
        if have != 1 and (
            have is None
            or (have != want and (not isinstance(want, int | str) or not meets(have, want)))
        ):
            refuse("the mask is not known to fit the scores")
    return lengths


def _is_repeated(have: int | str | None, want: int | str | None) -> bool:
    """Whether one row or column of a mask is for all."""
    return have == 1 and want != 1
