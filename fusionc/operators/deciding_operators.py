"""Operators that decide by the last bit of a number, and those that hand a last bit on to them.

On one side of a limit they give one result and on the other side another one: Round at every half,
a comparison if both are equal, a division if the divisor changes its sign. Numbers that a
quantization has made, or integers, lie on such limits again and again: half a step is a number like
any other there.
"""

from __future__ import annotations

from onnx import TensorProto

from fusionc.operators.domains import MICROSOFT
from fusionc.operators.facts import Trait, names_with, places_of

JUMPS = places_of(Trait.JUMPS)
SIGN_DECIDES = places_of(Trait.SIGN_DECIDES)
ZERO_DECIDES = places_of(Trait.ZERO_DECIDES)
TURNS = places_of(Trait.TURNS)
SUMS = names_with(Trait.SUMS)
# What keeps a number that lies on a limit on a limit, from the strictest set to the widest.
MOVES = names_with(Trait.MOVES)
STRAIGHT = MOVES | SUMS | names_with(Trait.SCALES)
ARITHMETIC = STRAIGHT | names_with(Trait.ARITHMETIC)
CONTINUOUS = ARITHMETIC | names_with(Trait.CONTINUOUS)
CONTINUOUS_OF_MICROSOFT = names_with(Trait.CONTINUOUS, domain=MICROSOFT)
KEEPS_ZEROS = MOVES | names_with(Trait.KEEPS_ZERO)

_FLOATS = frozenset(
    {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16}
)


def is_real(elem_type: int) -> bool:
    """Whether operations round elements of a type; unknown types may be such."""
    return elem_type in _FLOATS or elem_type == TensorProto.UNDEFINED
