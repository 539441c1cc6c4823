"""Masks of attention: what they add to hide keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusionc.model.graph import Edge, Node, Shape
from fusionc.passes.attention._heads import heads_of, made_by
from fusionc.passes.attention._lengths import expanded, length_of
from fusionc.rewrite import Tape, refuse

LOWEST = float(np.finfo(np.float32).min)
_FAR_BELOW = -1e30  # what is added to it is lost in rounding
_DEEPEST = 32  # operators, one behind the other, of which a mask is made
_MOVING = ("Expand", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Slice", "Identity", "Gather")
ADDING = ("Add", "Where", *_MOVING)  # of numbers below +∞ they make no NaN


def hidden_by(value: Edge | None) -> set[float] | None:
    """The numbers by which a mask hides keys, all those far below zero that it may hold; None where it is unknown."""
    return _hidden_by(value, _DEEPEST, {})


def _hidden_by(value: Edge | None, depth: int, known: dict[Edge, set[float] | None]) -> set[float] | None:
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
        is_unknown = None in found or (node.op == "Add" and all(found))  # two such numbers may overflow
        known[value] = None if is_unknown else {number for part in found for number in part or ()}
    return known[value]


def parts_of(node: Node) -> list[Edge | None]:
    """The inputs of which the elements of a mask are made."""
    return list(node.inputs[1:] if node.op == "Where" else node.inputs[:1] if node.op in _MOVING else node.inputs)


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
        return one is not None and bool((one == 1).all()) and _is_integral(node.inputs[1], depth - 1)
    dtype = node.inputs[0].dtype
    return (
        _is_integral(node.inputs[0], depth - 1) if node.op == "Unsqueeze" else dtype is not None and dtype.kind in "iub"
    )


def shows_all(given: Edge) -> bool:
    """Whether no row of a constant mask hides all keys."""
    array = given.constant()
    return array is not None and array.ndim > 0 and not bool((array <= LOWEST).all(axis=-1).any())


def full(given: Edge, shape: Shape | None, query: Edge, key: Edge, new: Tape) -> Edge:
    """A mask of this shape with the last two axes that the operators want: all of queries and keys."""
    if shape is None or not 2 <= len(shape) <= 4:
        refuse("the rank of the mask is unknown, or not 2 to 4")
    batch, _, length, _ = query.shape or (None,) * 4
    wanted = (batch, heads_of(query), length, None if key.shape is None else key.shape[2])
    for have, want in zip(reversed(shape), reversed(wanted), strict=False):
        if have != 1 and (have is None or have != want):
            refuse("the mask is not known to fit the scores")
    if tuple(shape[-2:]) == wanted[2:]:
        return given
    return expanded(given, [length_of(query, 2, new), length_of(key, 2, new)], new)
