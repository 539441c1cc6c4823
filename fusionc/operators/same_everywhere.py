"""Elementwise operators whose result does not depend on the position of the element.

onnxruntime computes Log, Softplus, Pow and others by polynomials. It uses one polynomial for
elements that fill a vector register, and another one for the rest of a row. For Pow, it uses one
polynomial if the exponent is a scalar, and another one if it is a tensor. The processor determines
for which operators this is so. Arithmetic is the same at every position, because each result is the
number nearest to the exact one. Max and Min are not: for −0 and +0, the result depends on which
operand is broadcast.
"""

from __future__ import annotations

from fusionc.operators.deciding_operators import is_real
from fusionc.operators.facts import Trait, names_with

_UNIFORM = names_with(Trait.UNIFORM)


def is_same_everywhere(operator: str, elem_type: int) -> bool:
    """Whether an operator computes elements of this type in the same way at every position. For
    integers, all operators do.
    """
    return operator in _UNIFORM or not is_real(elem_type)
