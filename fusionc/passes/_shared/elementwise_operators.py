"""Find elementwise operators: they commute with operators that only move elements."""

from __future__ import annotations

from fusionc.model.graph import Node
from fusionc.model.operators import has_legacy_axis
from fusionc.operators.facts import Trait, names_with

_UNARY = names_with(Trait.UNARY)
_BROADCASTS = names_with(Trait.BROADCASTS)
BROADCASTING = 8  # the opset from which all elementwise operators broadcast like numpy


def is_unary_elementwise(node: Node) -> bool:
    """Whether each output element of a node depends on a single element of the first input."""
    return node.domain == "" and node.op in _UNARY and not node.has_references


def is_broadcasting_elementwise(node: Node) -> bool:
    """Whether each output element of a node depends on a single element of each input, and the
    inputs are broadcast as in numpy.
    """
    is_broadcasting = node.domain == "" and node.op in _BROADCASTS and not node.has_references
    return is_broadcasting and node.graph.opset >= BROADCASTING and not has_legacy_axis(node)
