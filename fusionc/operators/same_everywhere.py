"""Elementwise operators whose result depends on its operands alone, not on where the element lies.

onnxruntime computes Log, Softplus, Pow and others as polynomials: one for elements that fill a
vector, another for the rest of a row; or, as Pow does, one for a scalar operand and another for a
tensor. Which operators these are depends on the processor. Arithmetic is the same everywhere: each
result is the number nearest to the exact one. Max and Min are not: of two zeros they take the first
or the second one, by which of them is repeated.
"""

from __future__ import annotations

from fusionc.operators.deciding_operators import is_real
from fusionc.operators.facts import Trait, names_with

_UNIFORM = names_with(Trait.UNIFORM)


def is_same_everywhere(operator: str, elem_type: int) -> bool:
    """Whether an operator computes elements of a type in the same way wherever they lie; integers
    always are the same.
    """
    return operator in _UNIFORM or not is_real(elem_type)
