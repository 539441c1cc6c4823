"""Deciding operators, whose result depends on the last bit of a number, and operators that pass
this bit on to a deciding operator.

A deciding operator has different results on the two sides of a limit: Round at every half, a
comparison at equal operands, a division at the divisor 0. Integers and quantized numbers often are
exactly on such a limit, because they are multiples of a step.
"""

from __future__ import annotations

from onnx import TensorProto

from fusionc.operators.domains import MICROSOFT, TRADITIONAL
from fusionc.operators.facts import Trait, names_with, operators_with, places_of

JUMPS = places_of(Trait.JUMPS)
SIGN_DECIDES = places_of(Trait.SIGN_DECIDES)
ZERO_DECIDES = places_of(Trait.ZERO_DECIDES)
NO_NEGATIVE = places_of(Trait.NO_NEGATIVE)
TURNS = places_of(Trait.TURNS)
SUBTRACTS = places_of(Trait.SUBTRACTS)
APPROXIMATED = operators_with(Trait.APPROXIMATED)
# functions whose slope is small for some arguments and large for others
CURVED = dict.fromkeys(APPROXIMATED | {("", "Clip"), ("", "HardSigmoid"), ("", "Softsign")}, (0,))
# operators that round to multiples of a step, so that the last bit may change the result by a step
QUANTIZERS = operators_with(Trait.QUANTIZES, Trait.GRID_INSIDE)
SUMS = names_with(Trait.SUMS)
ADDS_ELEMENTS = names_with(Trait.ADDS_ELEMENTS)
REDUCTIONS = names_with(Trait.REDUCES, Trait.GLOBAL_POOL, Trait.ADDS_ELEMENTS)
# including onnxruntime's own products with an activation or a factor, such as FusedGemm
PRODUCTS = names_with(Trait.WEIGHTED_SUMS) | names_with(Trait.WEIGHTED_SUMS, domain=MICROSOFT)
VANISHING = frozenset({("", "Sigmoid")})  # small results of the kernels are 0 or have few digits
LIMITED = frozenset({"Clip", "Max"})  # a constant may be a lower limit of the result
# These operators divide by the deviation or the root mean square of computed numbers.
NORMALIZATIONS = operators_with(Trait.NORM) - {("", "BatchNormalization")}
# The operators of the next four sets map numbers on a limit to numbers on a limit. Each set
# contains the set before it.
MOVES = names_with(Trait.MOVES)
# BatchNormalization multiplies each channel by a factor and adds a number to it.
STRAIGHT = MOVES | SUMS | names_with(Trait.SCALES) | {"BatchNormalization"}
ARITHMETIC = STRAIGHT | names_with(Trait.ARITHMETIC)
CONTINUOUS = ARITHMETIC | names_with(Trait.CONTINUOUS)
# the domains and names of continuous operators outside the standard domain
CONTINUOUS_ELSEWHERE = frozenset(
    operator
    for operator in operators_with(Trait.CONTINUOUS, Trait.MOVES)
    if operator[0] in (MICROSOFT, TRADITIONAL)
)
KEEPS_ZEROS = MOVES | names_with(Trait.KEEPS_ZERO)
# Operators that map 0 to 0 or −0. Sums belong to them: a sum is 0 if all terms are 0.
KEEPS_TINY = KEEPS_ZEROS | SUMS | {"Abs", "ReduceL1", "ReduceL2", "ReduceSumSquare"}

_FLOATS = frozenset(
    {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16}
)


def is_real(elem_type: int) -> bool:
    """Whether operations round elements of this type. For an unknown type, assume that they do."""
    return elem_type in _FLOATS or elem_type == TensorProto.UNDEFINED
