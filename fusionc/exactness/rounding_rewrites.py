"""Decide whether a rewrite may change the rounding of its results. It may not if it replaces only
arithmetic, and the result of a later operator, such as Round, depends on the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable

from fusionc.exactness.decisions_ahead import CANCELS, JUMP, TURN, ZERO, decider_of
from fusionc.model.graph import Edge, Node
from fusionc.operators.deciding_operators import ARITHMETIC, MOVES, SUMS, is_real


def reason_to_be_exact(nodes: Iterable[Node], outputs: Iterable[Edge]) -> str:
    """Why the bits of these nodes' results must not change. "" if their rounding may change.

    The results of a convolution, a matrix product, a reduction or a function such as Exp are on a
    limit between two decisions only by chance. Angles are an exception: products with the sines of
    a Fourier transform are often tiny rounding errors instead of 0, and their angle is arbitrary.
    Integers, and elements that are only moved, are not rounded.
    """
    operators = {node.op if node.domain == "" else "" for node in nodes}
    if operators <= MOVES:
        return ""
    kinds: tuple[str, ...] = (TURN,)
    if operators <= ARITHMETIC:
        kinds += (JUMP, CANCELS, ZERO) if operators & SUMS else (JUMP, CANCELS)
    rounded = [value for value in outputs if is_real(value.elem_type)]
    decider = next(
        filter(None, (decider_of(value, kind) for kind in kinds for value in rounded)), ""
    )
    return f"the result of the later {decider} depends on the last bit" if decider else ""
