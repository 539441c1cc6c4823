"""Decide whether a rewrite may change the rounding of its results.

This is forbidden if two conditions are met: the result of a later operator, such as Round, depends
on the last bit of a result of the rewrite; and the rewrite replaces operators whose results often
are exactly on a limit at which that operator changes its result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fusionc.exactness.constant_factors import (
    has_whole_weights,
    is_power_of_two,
    multiplies_much,
)
from fusionc.exactness.decisions_ahead import (
    CANCELS,
    GRID,
    JUMP,
    STEEP,
    STEP,
    TURN,
    ZERO,
    decider_of,
)
from fusionc.model.graph import Edge, Node
from fusionc.operators.deciding_operators import ARITHMETIC, MOVES, PRODUCTS, SUMS, is_real

_FACTORS = frozenset({"Mul", "Div"})
_NORMALIZATION = frozenset({"BatchNormalization"})
# operators that a rewrite may replace by a single product with other weights
_LINEAR = PRODUCTS | MOVES | SUMS | _FACTORS | _NORMALIZATION


def reason_to_be_exact(nodes: Collection[Node], outputs: Iterable[Edge]) -> str:
    """Why the bits of `outputs`, the results of the replaced `nodes`, must not change; "" if their
    rounding may change.

    The result of a later operator changes at a limit: that of Round changes at ½. Integers, and
    elements that are only moved, are not rounded. The results of arithmetic often are exactly on a
    limit. The results of a convolution, a matrix product, a reduction or a function such as Exp are
    on a limit only by chance, so they may be rounded in another way, with two exceptions:

    - angles: products with the sines of a Fourier transform often are tiny rounding errors instead
      of 0, and the angles of such errors are arbitrary.
    - scaled products: their sums may be integers, or exactly 0 if the weights are integers.
    """
    kinds = _deciding_kinds(nodes)
    rounded = [value for value in outputs if is_real(value.elem_type)]
    decider = next(
        filter(None, (decider_of(value, kind) for kind in kinds for value in rounded)), ""
    )
    return f"the result of the later {decider} depends on the last bit" if decider else ""


def _deciding_kinds(nodes: Collection[Node]) -> tuple[str, ...]:
    """The kinds of later decisions that may change if the results of these nodes are rounded in
    another way.
    """
    operators = {node.op if node.domain == "" or node.op in PRODUCTS else "" for node in nodes}
    if operators <= MOVES:
        return ()
    steep = (STEEP,) if any(map(multiplies_much, nodes)) else ()
    if operators <= ARITHMETIC:
        sums = (ZERO, *steep) if operators & SUMS else ()
        return (TURN, JUMP, CANCELS, *sums)
    if not operators <= _LINEAR or _is_scaled_exactly(nodes):
        return (TURN,)
    if any(map(has_whole_weights, nodes)):
        return (TURN, JUMP, CANCELS, ZERO, *steep)
    # A normalization before a quantization may be replaced: the quantization then rarely rounds to
    # another step, and the gain is worth it.
    return (TURN, GRID, CANCELS) if operators & _NORMALIZATION else (TURN, GRID, CANCELS, STEP)


def _is_scaled_exactly(nodes: Iterable[Node]) -> bool:
    """Whether all factors in these nodes are powers of two, which add no rounding error."""
    return not any(node.op in _NORMALIZATION for node in nodes) and all(
        any(v is not None and v.is_constant and _is_exact_factor(v) for v in node.inputs)
        for node in nodes
        if node.op in _FACTORS
    )


def _is_exact_factor(value: Edge) -> bool:
    array = value.constant()
    return array is not None and array.dtype.kind == "f" and is_power_of_two(array)
