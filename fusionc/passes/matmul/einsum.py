from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from fusionc.model.graph import Edge, Node
from fusionc.passes._shared.constants import shape_of
from fusionc.passes._shared.reduce_axes import new_reduce
from fusionc.passes._shared.transpose_and_reshape import new_unsqueeze, transposed
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, refuse, rest

Dim = int | str | None
IndexSizes = dict[str, Dim]

_TYPES = (
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.FLOAT16,
    TensorProto.INT32,
    TensorProto.INT64,
)
_SIZE = 32  # what an unknown dimension is thought to be
_NODE = 500  # elements that could be moved in the time that one more Transpose costs


@dataclass(frozen=True)
class _Plan:
    """A product of two values with labels: those of both, the first, the second, and those that are
    summed.
    """

    values: tuple[Edge, Edge]
    terms: tuple[str, str]
    both: str
    first: str
    second: str
    inner: str

    def cost(self, result: str, sizes: IndexSizes) -> float:
        """Elements that Transposes move."""
        if (
            not self.both
            and len(self.second) > 1
            and not all(isinstance(sizes[x], int) for x in self.second)
        ):
            return math.inf  # the axes of the second value would be joined
        left = self.both + self.first + self.inner
        right = self.both + self.inner + self.second
        moves = [
            (self.terms[i], new)
            for i, new in enumerate((left, right))
            if not self.values[i].is_constant
        ]
        moves.append((self.both + self.first + self.second, result))
        return sum(
            _weight(old, new) * math.prod(_number(sizes[x]) for x in old) + _NODE * (old != new)
            for old, new in moves
        )


def _weight(old: str, new: str) -> int:
    """How slow the Transpose is, for each element: none, rows that stay whole, one axis that moves,
    any other.
    """
    if old == new or old[-1:] == new[-1:]:
        return int(old != new)
    return 2 if any(old.replace(label, "") == new.replace(label, "") for label in old) else 8


def _number(size: int | str | None) -> int:
    return size if isinstance(size, int) else _SIZE


def _plan(values: list[Edge], terms: list[str], result: str, sizes: IndexSizes) -> _Plan:
    """Which value comes first, and in which order axes are summed."""
    shared = set(terms[0]) & set(terms[1])
    plans = []
    both = "".join(label for label in result if label in shared)
    for i, j in ((0, 1), (1, 0)):
        first, second = (
            "".join(label for label in result if label in set(terms[k]) - shared) for k in (i, j)
        )
        for term in terms:
            inner = "".join(label for label in term if label in shared - set(both))
            plans.append(
                _Plan((values[i], values[j]), (terms[i], terms[j]), both, first, second, inner)
            )
    return min(plans, key=lambda plan: plan.cost(result, sizes))


def _product(new: Tape, plan: _Plan, sizes: IndexSizes) -> tuple[Edge, str]:
    """The sum of products of the two values, and its labels in order."""
    (a, b) = plan.values
    (left, right) = plan.terms
    both = plan.both
    first = plan.first
    second = plan.second
    inner = plan.inner
    a = _arranged(new, a, left, both + first + inner)
    is_outer = len(first) == 1 == len(second) and bool(both)
    if not (inner and (first or second)) and not is_outer:
        b = _arranged(new, b, right, both + second + inner)
        if second:
            a = new_unsqueeze(new, a, range(len(both + first), len(both + first + second)))
        if both and first:
            b = new_unsqueeze(new, b, range(len(both), len(both + first)))
        return _summed(new, new.Mul(a, b), both + first + second + inner, both + first + second)
    b = _arranged(new, b, right, both + inner + second)
    b = _joined(new, b, [*both, inner, second], sizes)
    # Without a batch, the axes of the first value need not be joined, and one without axes is a
    # vector.
    rows = [*both, first] if both else [*first]
    made = new.MatMul(_joined(new, a, [*rows, inner], sizes), b)
    return _parted(new, made, [*rows, second], sizes), both + first + second


def _equation_of(node: Node) -> tuple[list[str], str]:
    """The labels of each input and those of the result. Refuses what is not written with one letter
    an axis.
    """
    text = node.attr("equation").replace(" ", "")
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    if not all(term.isalpha() or not term for term in (*terms, result)):
        refuse("an ellipsis")
    if not arrow:
        result = "".join(sorted(label for label in set(left) - {","} if left.count(label) == 1))
    if len(terms) != len(node.inputs) or any(
        len(set(term)) < len(term) for term in (*terms, result)
    ):
        refuse("a diagonal")
    if not set(result) <= set("".join(terms)):
        refuse("an axis of the result is in no input")
    return terms, result


def _sizes_of(terms: Sequence[str], inputs: Sequence[Edge | None]) -> IndexSizes:
    """The dimension of each label. Refuses those that may be 1 in one input and more in the
    other.
    """
    sizes: IndexSizes = {}
    for term, value in zip(terms, inputs, strict=True):
        shape = shape_of(value)
        if shape is None or len(shape) != len(term):
            refuse("the rank is unknown")
        for label, dim in zip(term, shape, strict=True):
            if dim == 0 or (label in sizes and (dim is None or sizes[label] != dim)):
                refuse("the dimensions are not known to be equal")
            sizes[label] = dim
    return sizes


def _arranged(new: Tape, value: Edge, labels: str, wanted: str) -> Edge:
    """The value with its axes in another order."""
    return transposed(new, value, [labels.index(label) for label in wanted])


def _summed(new: Tape, value: Edge, labels: str, kept: str) -> tuple[Edge, str]:
    """The sum over all labels that are not kept, and the labels that are left."""
    axes = [axis for axis, label in enumerate(labels) if label not in kept]
    left = "".join(label for label in labels if label in kept)
    if not axes:
        return value, labels
    return new_reduce(new, "ReduceSum", value, axes, keepdims=False), left


def _joined(new: Tape, value: Edge, groups: Sequence[str], sizes: IndexSizes) -> Edge:
    """Each group of axes as one axis; an empty group is an axis of one element."""
    if all(len(group) < 2 for group in groups):
        empty = [axis for axis, group in enumerate(groups) if not group]
        return new_unsqueeze(new, value, empty) if empty else value
    flat = "".join(groups)
    is_kept = [flat[axis : axis + 1] == group for axis, group in enumerate(groups)]
    return _reshaped(new, value, [[sizes[label] for label in group] for group in groups], is_kept)


def _parted(new: Tape, value: Edge, groups: Sequence[str], sizes: IndexSizes) -> Edge:
    """What `joined` does, undone."""
    if all(len(group) < 2 for group in groups):
        empty = [axis for axis, group in enumerate(groups) if not group]
        return new_unsqueeze(new, value, empty, "Squeeze") if empty else value
    flat = "".join(groups)
    is_kept = [
        label == (groups[axis] if axis < len(groups) else "") for axis, label in enumerate(flat)
    ]
    return _reshaped(new, value, [[sizes[label]] for label in flat], is_kept)


def _reshaped(
    new: Tape, value: Edge, dims: Sequence[Sequence[Dim]], is_kept: Sequence[bool]
) -> Edge:
    """A Reshape: numbers, 0 for an unknown dimension that stays in its place, −1 for another
    one.
    """
    target = []
    for group, stays in zip(dims, is_kept, strict=True):
        numbers = [dim for dim in group if isinstance(dim, int)]
        target.append(math.prod(numbers) if len(numbers) == len(group) else 0 if stays else -1)
    # with 0 elements, −1 would be anything
    if target.count(-1) > 1 or (-1 in target and 0 in target):
        refuse("more than one dimension is unknown")
    return new.Reshape(value, new.const(np.array(target, np.int64)))


class EinsumPass(Pass):
    """Einsum of one or two values becomes Transpose, ReduceSum, Mul and MatMul.

    before   Einsum(a) that transposes and sums; Einsum(a, b)
    after    Transpose(ReduceSum(a)); Transpose(MatMul(a, b)) with Transposes of a and b, and
             Reshapes where several axes are summed or stay; Mul where nothing is summed; ReduceSum
             first where only one value has an axis
    refuses  more than two values; elements other than floating-point numbers, int32 and int64; an
             ellipsis; a diagonal; dimensions of one label that are not known to be equal, as
             onnxruntime broadcasts those of size 1; several axes to join of which more than one is
             unknown
    algebra  the definition of Einsum; sums are in another order
    source   CANN's EinsumPass
    """

    numerics = "rounding"
    patterns = (Pattern("Einsum", op.Einsum(rest("inputs"), _as="einsum")),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        if len(m.inputs) > 2:
            refuse("more than two values")
        terms, result = _equation_of(m.einsum)
        sizes = _sizes_of(terms, m.inputs)
        if m.inputs[0].elem_type not in _TYPES:
            refuse("elements without a product")
        if len(m.inputs) == 1:
            value, left = _summed(new, m.inputs[0], terms[0], result)
        else:
            kept = [result + other for other in reversed(terms)]
            sums = [
                _summed(new, v, term, keep)
                for v, term, keep in zip(m.inputs, terms, kept, strict=True)
            ]
            plan = _plan([v for v, _ in sums], [term for _, term in sums], result, sizes)
            value, left = _product(new, plan, sizes)
        return _arranged(new, value, left, result)
