"""GELU that is written out: its formulas, and a check that its factor ½ stays in place."""

from __future__ import annotations

import math

from fusionc.model.graph import Edge
from fusionc.rewrite import Match, either, op, refuse
from fusionc.rewrite.pattern import Formula, ms

_CUBIC = 0.044715
_SLOPE = math.sqrt(2 / math.pi)


def written_gelu(x: Formula) -> Formula:
    """x · (1 + Erf(x / √2)) / 2, with its factors in any order."""
    erf = op.Erf(either(x / math.sqrt(2), x * math.sqrt(0.5)))
    return either(_half_product(x, erf + 1.0), x * (_half(erf) + 0.5))


def written_tanh_gelu(x: Formula) -> Formula:
    """x · (1 + Tanh(√(2/π) · (x + 0.044715 x³))) / 2, with its factors in any order."""
    cube = either(x**3.0, x * (x * x), x * (x**2.0))
    cubic = either(
        cube * _CUBIC, (x * _CUBIC) * (x * x), x * ((x * x) * _CUBIC), x * (x * (x * _CUBIC))
    )
    square = either((x * x) * _CUBIC, (x**2.0) * _CUBIC, x * (x * _CUBIC))
    tanh = op.Tanh(
        either(
            (x + cubic) * _SLOPE,
            (x * _SLOPE) * (square + 1.0),
            x * ((square + 1.0) * _SLOPE),
            (x * (square + 1.0)) * _SLOPE,
        )
    )
    return either(_half_product(x, tanh + 1.0), x * (_half(tanh) + 0.5))


def any_gelu(x: Formula) -> Formula:
    """GELU with Erf: the ONNX operator, onnxruntime's own operator, or the formula written out."""
    return either(op.Gelu(x, approximate="none"), ms.Gelu(x), written_gelu(x))


def bias_of(m: Match) -> tuple[Edge, Edge]:
    """The addends m.x and m.b, ordered: first the matrix, then the bias, a vector with one number
    for each column. Refuses if neither addend is known to be such a vector.
    """
    for x, bias in ((m.x, m.b), (m.b, m.x)):
        columns = bias.shape[0] if bias.shape and len(bias.shape) == 1 else None
        if x.shape and isinstance(columns, int) and 0 < columns == x.shape[-1]:
            return x, bias
    refuse("neither addend is known to have one number for each column")


def keep_gelu(x: Edge) -> None:
    """Refuse to move a factor away from x if x is y·(1 + erf(…)) or y·(1 + tanh(…)): runtimes
    recognize GELU by its factor ½.
    """
    sums = [term for factor in _operands(x, "Mul") for term in _operands(factor, "Add")]
    if any(_operands(term, "Erf") or _operands(term, "Tanh") for term in sums):
        refuse("onnxruntime recognizes Gelu by this factor, so it stays")


def _half(value: Formula) -> Formula:
    return either(value * 0.5, value / 2.0)


def _half_product(x: Formula, value: Formula) -> Formula:
    return either(_half(x) * value, _half(x * value), x * _half(value))


def _operands(value: Edge, name: str) -> list[Edge]:
    """The inputs of the node that produces a value; empty if the node has another operator."""
    node = value.producer
    return [] if node is None or node.op != name else [v for v in node.inputs if v is not None]
