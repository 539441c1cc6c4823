"""Which values are known to have no negative elements."""

from __future__ import annotations

import numpy as np

from fusionc.model.graph import Edge

_NEVER_NEGATIVE = frozenset({"Abs", "Exp", "Sigmoid", "Softmax", "ReduceL1", "ReduceL2", "ReduceSumSquare"})
_KEEPS_SIGNS = frozenset(
    {"Add", "Mul", "Sqrt", "ReduceSum", "ReduceMean", "Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze"}
)


def is_never_negative(value: Edge | None, depth: int = 12) -> bool:
    """Whether no element of floating-point numbers can be below 0, or −0; NaN it may be."""
    if value is None or depth == 0:
        return False
    if value.is_constant:
        array = value.constant()
        return array is not None and array.dtype.kind == "f" and not np.signbit(array).any()
    node = value.producer
    if node is None or node.domain != "" or node.has_references:
        return False
    if node.op in _NEVER_NEGATIVE or (node.op == "Mul" and node.inputs[0] is node.inputs[1]):
        return True
    if node.op == "Pow":
        power = None if node.inputs[1] is None else node.inputs[1].constant()
        return power is not None and bool((power > 0).all() and not np.any(power % 2))
    if node.op not in _KEEPS_SIGNS:
        return False
    operands = node.inputs if node.op in ("Add", "Mul") else node.inputs[:1]
    return all(is_never_negative(operand, depth - 1) for operand in operands)
