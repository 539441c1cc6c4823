"""Operators that compute element by element, past which others may move."""

from __future__ import annotations

from fusionc.model.graph import Node
from fusionc.model.operators import has_legacy_axis
from fusionc.operators.facts import Trait, names_with

_UNARY = names_with(Trait.UNARY)
_BROADCASTS = names_with(Trait.BROADCASTS)
BROADCASTING = 8  # the opset since which all of them broadcast like numpy


def is_of_one(node: Node) -> bool:
    """Whether the operator computes each element from one element of its first input."""
    return node.domain == "" and node.op in _UNARY and not node.has_references


def is_of_several(node: Node) -> bool:
    """Whether the operator computes each element from one element of each of its inputs,
    broadcast.
    """
    is_one = node.domain == "" and node.op in _BROADCASTS and not node.has_references
    return is_one and node.graph.opset >= BROADCASTING and not has_legacy_axis(node)
