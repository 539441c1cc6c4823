"""Find values that are known to have no negative elements."""

from __future__ import annotations

import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.model.tensors import Array
from fusionc.operators.clip_bounds import clip_bounds
from fusionc.operators.facts import Trait, names_with, places_of

_NEVER_NEGATIVE = names_with(Trait.NEVER_NEGATIVE)
_ADDS_ELEMENTS = names_with(Trait.ADDS_ELEMENTS)
_AT_LEAST_ZERO = names_with(Trait.AT_LEAST_ZERO)
# Div is added here because its row in the table of traits has no room for another trait
_KEEPS_SIGN = places_of(Trait.KEEPS_SIGN) | {("", "Div"): (0, 1)}
_MAX_DEPTH = 12  # the length of the longest chain of producers that is examined


def is_never_negative(value: Edge | None) -> bool:
    """Whether each floating-point element is positive, +0 or NaN, and therefore not −0."""
    return _has_no_sign(value, _MAX_DEPTH, is_zero_signed=False)


def is_at_least_zero(value: Edge | None) -> bool:
    """Whether each floating-point element is positive, +0, −0 or NaN."""
    return _has_no_sign(value, _MAX_DEPTH, is_zero_signed=True)


def is_positive(value: Edge | None, limit: float = 0.0) -> bool:
    """Whether each element is NaN or at least as large as some constant above `limit`."""
    if value is None or value.is_constant:
        return value is not None and _are_above(value.constant(), limit)
    node = value.producer
    return node is not None and node.domain == "" and _has_lower_limit(node, limit)


def sums_squares(value: Edge | None) -> bool:
    """Whether a value is a square, or a sum or mean of squares."""
    node = None if value is None else value.producer
    if node is None or node.domain != "":
        return False
    if node.op in _ADDS_ELEMENTS:
        return sums_squares(node.inputs[0])
    return node.op == "ReduceSumSquare" or _is_even_power(node)


def _has_lower_limit(node: Node, limit: float) -> bool:
    """Whether a constant limits the results of a node to numbers above `limit`."""
    if node.op == "Clip":
        return all(bound is not None and bound > limit for bound in clip_bounds(node, np.inf))
    if node.op not in ("Add", "Sum", "Max"):
        return False
    constants = [value for value in node.inputs if value is not None and value.is_constant]
    is_limited = node.op == "Max" or all(map(is_at_least_zero, node.inputs))
    return is_limited and any(is_positive(value, limit) for value in constants)


def _has_no_sign(value: Edge | None, depth: int, is_zero_signed: bool) -> bool:
    if value is None or depth == 0:
        return False
    if value.is_constant:
        return _are_positive(value.constant())
    return value.producer is not None and _output_has_no_sign(value.producer, depth, is_zero_signed)


def _output_has_no_sign(node: Node, depth: int, is_zero_signed: bool) -> bool:
    if node.domain != "" or node.has_references:
        return False
    if node.op in _NEVER_NEGATIVE or _is_even_power(node):
        return True
    if is_zero_signed and (node.op in _AT_LEAST_ZERO or _is_clipped(node)):
        return True
    places = _KEEPS_SIGN.get(node.operator, ())
    operands = node.inputs if places is None else [node.inputs[at] for at in places]
    return bool(operands) and all(_has_no_sign(v, depth - 1, is_zero_signed) for v in operands)


def _are_positive(array: Array | None) -> bool:
    return array is not None and array.dtype.kind == "f" and not np.signbit(array).any()


def _are_above(array: Array | None, limit: float) -> bool:
    return array is not None and array.dtype.kind == "f" and bool((array > limit).all())


def _is_clipped(node: Node) -> bool:
    """Whether a node is a Clip to numbers of at least 0. Both bounds must be at least 0, because
    the upper bound wins if it is below the lower bound.
    """
    bounds = clip_bounds(node, np.inf) if node.op == "Clip" else [None]
    return all(bound is not None and bound >= 0 for bound in bounds)


def _is_even_power(node: Node) -> bool:
    """Whether a node multiplies a value by itself, or raises it to the power 2, 4, …"""
    if node.op == "Mul":
        return node.inputs[0] is node.inputs[1]
    power = node.inputs[1].constant() if node.op == "Pow" and node.inputs[1] is not None else None
    return power is not None and bool((power > 0).all() and not np.any(power % 2))
