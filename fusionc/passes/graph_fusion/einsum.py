from __future__ import annotations

import math
from dataclasses import dataclass

from onnx import TensorProto

from fusionc.model.graph import Edge
from fusionc.passes.einsum_steps import Sizes, arranged, equation_of, joined, parted, sizes_of, summed
from fusionc.passes.slicing import new_unsqueeze
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, refuse, rest

_TYPES = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT32, TensorProto.INT64)
_SIZE = 32  # what an unknown dimension is thought to be
_NODE = 500  # elements that could be moved in the time that one more Transpose costs


@dataclass(frozen=True)
class _Plan:
    """A product of two values with labels: those of both, the first, the second, and those that are summed."""

    values: tuple[Edge, Edge]
    terms: tuple[str, str]
    both: str
    first: str
    second: str
    inner: str

    def cost(self, result: str, sizes: Sizes) -> float:
        """Elements that Transposes move."""
        if not self.both and len(self.second) > 1 and not all(isinstance(sizes[x], int) for x in self.second):
            return math.inf  # the axes of the second value would be joined
        left, right = self.both + self.first + self.inner, self.both + self.inner + self.second
        moves = [(self.terms[i], new) for i, new in enumerate((left, right)) if not self.values[i].is_constant]
        moves.append((self.both + self.first + self.second, result))
        return sum(
            _weight(old, new) * math.prod(_number(sizes[x]) for x in old) + _NODE * (old != new) for old, new in moves
        )


def _weight(old: str, new: str) -> int:
    """How slow the Transpose is, for each element: none, rows that stay whole, one axis that moves, any other."""
    if old == new or old[-1:] == new[-1:]:
        return int(old != new)
    return 2 if any(old.replace(label, "") == new.replace(label, "") for label in old) else 8


def _number(size: int | str | None) -> int:
    return size if isinstance(size, int) else _SIZE


def _plan(values: list[Edge], terms: list[str], result: str, sizes: Sizes) -> _Plan:
    """Which value comes first, and in which order axes are summed."""
    shared, plans = set(terms[0]) & set(terms[1]), []
    both = "".join(label for label in result if label in shared)
    for i, j in ((0, 1), (1, 0)):
        first, second = ("".join(label for label in result if label in set(terms[k]) - shared) for k in (i, j))
        for term in terms:
            inner = "".join(label for label in term if label in shared - set(both))
            plans.append(_Plan((values[i], values[j]), (terms[i], terms[j]), both, first, second, inner))
    return min(plans, key=lambda plan: plan.cost(result, sizes))


def _product(new: Tape, plan: _Plan, sizes: Sizes) -> tuple[Edge, str]:
    """The sum of products of the two values, and its labels in order."""
    (a, b), (left, right) = plan.values, plan.terms
    both, first, second, inner = plan.both, plan.first, plan.second, plan.inner
    a = arranged(new, a, left, both + first + inner)
    is_outer = len(first) == 1 == len(second) and bool(both)
    if not (inner and (first or second)) and not is_outer:
        b = arranged(new, b, right, both + second + inner)
        if second:
            a = new_unsqueeze(new, a, range(len(both + first), len(both + first + second)))
        if both and first:
            b = new_unsqueeze(new, b, range(len(both), len(both + first)))
        return summed(new, new.Mul(a, b), both + first + second + inner, both + first + second)
    b = arranged(new, b, right, both + inner + second)
    b = joined(new, b, [*both, inner, second], sizes)
    # Without a batch, the axes of the first value need not be joined, and one without axes is a vector.
    rows = [*both, first] if both else [*first]
    made = new.MatMul(joined(new, a, [*rows, inner], sizes), b)
    return parted(new, made, [*rows, second], sizes), both + first + second


class EinsumPass(Pass):
    """Einsum of one or two values becomes Transpose, ReduceSum, Mul and MatMul.

    before   Einsum(a) that transposes and sums; Einsum(a, b)
    after    Transpose(ReduceSum(a)); Transpose(MatMul(a, b)) with Transposes of a and b, and Reshapes where several
             axes are summed or stay; Mul where nothing is summed; ReduceSum first where only one value has an axis
    refuses  more than two values; elements other than floating-point numbers, int32 and int64; an ellipsis; a diagonal;
             dimensions of one label that are not known to be equal, as onnxruntime broadcasts those of size 1; several
             axes to join of which more than one is unknown
    algebra  the definition of Einsum; sums are in another order
    source   CANN's EinsumPass
    """

    numerics = "rounding"
    patterns = (Pattern("Einsum", op.Einsum(rest("inputs"), _as="einsum")),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        if len(m.inputs) > 2:
            refuse("more than two values")
        terms, result = equation_of(m.einsum)
        sizes = sizes_of(terms, m.inputs)
        if m.inputs[0].elem_type not in _TYPES:
            refuse("elements without a product")
        if len(m.inputs) == 1:
            value, left = summed(new, m.inputs[0], terms[0], result)
        else:
            kept = [result + other for other in reversed(terms)]
            sums = [summed(new, v, term, keep) for v, term, keep in zip(m.inputs, terms, kept, strict=True)]
            plan = _plan([v for v, _ in sums], [term for _, term in sums], result, sizes)
            value, left = _product(new, plan, sizes)
        return arranged(new, value, left, result)
