"""The settings of a matrix product: its operator and its attributes. Products with equal settings
may be joined.
"""

from __future__ import annotations

from fusionc.model.graph import Node

_GEMM_ATTRIBUTES = ("transA", "transB", "alpha", "beta")


def product_settings(node: Node) -> tuple[object, ...]:
    """The operator of a MatMul or Gemm, with the attributes of a Gemm."""
    return (node.op, *(node.attr(name) for name in _GEMM_ATTRIBUTES if node.op == "Gemm"))
