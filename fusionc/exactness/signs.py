"""Values that are known to have no negative elements."""

from __future__ import annotations

import numpy as np

from fusionc.model.graph import Edge, Node
from fusionc.model.tensors import Array
from fusionc.operators.facts import Trait, names_with, places_of

_NEVER_NEGATIVE = names_with(Trait.NEVER_NEGATIVE)
_KEEPS_SIGN = places_of(Trait.KEEPS_SIGN)


def is_never_negative(value: Edge | None, depth: int = 12) -> bool:
    """Whether no element of floating-point numbers can be below 0, or −0; it may be NaN."""
    if value is None or depth == 0:
        return False
    if value.is_constant:
        return _has_no_sign(value.constant())
    return value.producer is not None and _makes_no_sign(value.producer, depth)


def _makes_no_sign(node: Node, depth: int) -> bool:
    if node.domain != "" or node.has_references:
        return False
    if node.op in _NEVER_NEGATIVE or _is_even_power(node):
        return True
    places = _KEEPS_SIGN.get(node.operator) or ()
    return bool(places) and all(is_never_negative(node.inputs[at], depth - 1) for at in places)


def _has_no_sign(array: Array | None) -> bool:
    return array is not None and array.dtype.kind == "f" and not np.signbit(array).any()


def _is_even_power(node: Node) -> bool:
    """Whether a node multiplies a value by itself, or raises it to 2, 4, …"""
    if node.op == "Mul":
        return node.inputs[0] is node.inputs[1]
    power = node.inputs[1].constant() if node.op == "Pow" and node.inputs[1] is not None else None
    return power is not None and bool((power > 0).all() and not np.any(power % 2))
