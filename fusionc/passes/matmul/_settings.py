"""How a product is computed, apart from what it multiplies."""

from __future__ import annotations

from fusionc.model.graph import Node

_OF_GEMM = ("transA", "transB", "alpha", "beta")


def product_settings(node: Node) -> tuple[object, ...]:
    """The operator of a MatMul or Gemm and its attributes; equal for products alike."""
    return (node.op, *(node.attr(name) for name in _OF_GEMM if node.op == "Gemm"))
