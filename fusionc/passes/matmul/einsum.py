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
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape, op, refuse, rest, unknown

Dim = int | str | None
IndexSizes = dict[str, Dim]

_TYPES = (
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.FLOAT16,
    TensorProto.INT32,
    TensorProto.INT64,
)
_ASSUMED_SIZE = 32  # the assumed size of an unknown dimension
_NODE_COST = 500  # an additional Transpose costs as much as moving this number of elements


@dataclass(frozen=True)
class _Plan:
    """How to multiply two values as matrices. A label is the letter of an axis in the equation."""

    values: tuple[Edge, Edge]
    terms: tuple[str, str]  # the labels of each value
    both: str  # labels that both values and the result have: the batch
    first: str  # labels that only the first value and the result have
    second: str  # labels that only the second value and the result have
    inner: str  # labels that only the two values have: the product sums over them

    def cost(self, result: str, sizes: IndexSizes) -> float:
        """The cost of the Transposes, in moved elements; infinity if the plan is impossible."""
        joins_unknown = len(self.second) > 1 and not all(
            isinstance(sizes[label], int) for label in self.second
        )
        if joins_unknown and not self.both:
            return math.inf
        left = self.both + self.first + self.inner
        right = self.both + self.inner + self.second
        moves = [
            (self.terms[i], new)
            for i, new in enumerate((left, right))
            if not self.values[i].is_constant
        ]
        moves.append((self.both + self.first + self.second, result))
        return sum(_move_cost(old, new, sizes) for old, new in moves)


def _move_cost(old: str, new: str, sizes: IndexSizes) -> int:
    """The cost of moving axes into a new order."""
    elements = math.prod(_assumed_size(sizes[label]) for label in old)
    return _cost_per_element(old, new) * elements + _NODE_COST * (old != new)


def _cost_per_element(old: str, new: str) -> int:
    """The cost of a Transpose for each element: 0 if nothing moves, 1 if the last axis stays, 2 if
    only one axis moves, else 8.
    """
    if old == new or old[-1:] == new[-1:]:
        return int(old != new)
    return 2 if any(old.replace(label, "") == new.replace(label, "") for label in old) else 8


def _assumed_size(size: Dim) -> int:
    return size if isinstance(size, int) else _ASSUMED_SIZE


def _plan(values: list[Edge], terms: list[str], result: str, sizes: IndexSizes) -> _Plan:
    """The cheapest plan. Either value may be the first operand, and the order of the summed axes
    may be that of either value.
    """
    shared = set(terms[0]) & set(terms[1])
    both = _common(result, shared)
    own_labels = [_common(result, set(term) - shared) for term in terms]
    inners = [_common(term, shared - set(both)) for term in terms]
    plans = [
        _Plan(
            (values[i], values[j]), (terms[i], terms[j]), both, own_labels[i], own_labels[j], inner
        )
        for i, j in ((0, 1), (1, 0))
        for inner in inners
    ]
    return min(plans, key=lambda plan: plan.cost(result, sizes))


def _common(labels: str, others: set[str]) -> str:
    """Those labels that are in `others`, in their order."""
    return "".join(label for label in labels if label in others)


def _product(new: Tape, plan: _Plan, sizes: IndexSizes) -> tuple[Edge, str]:
    """The product of the two values of a plan, summed over the inner labels; and the labels of its
    axes, in order.
    """
    is_outer = len(plan.first) == 1 == len(plan.second) and bool(plan.both)
    is_sum = bool(plan.inner and (plan.first or plan.second))
    return _matrix_product(new, plan, sizes) if is_sum or is_outer else _elementwise(new, plan)


def _elementwise(new: Tape, plan: _Plan) -> tuple[Edge, str]:
    """The same as `_product`, computed by Mul and ReduceSum, for products that MatMul cannot
    express.
    """
    both = len(plan.both)
    first = len(plan.first)
    second = len(plan.second)
    a = _arranged(new, plan.values[0], plan.terms[0], plan.both + plan.first + plan.inner)
    b = _arranged(new, plan.values[1], plan.terms[1], plan.both + plan.second + plan.inner)
    if second:
        a = new_unsqueeze(new, a, range(both + first, both + first + second))
    if both and first:
        b = new_unsqueeze(new, b, range(both, both + first))
    result = plan.both + plan.first + plan.second
    return _summed(new, new.Mul(a, b), result + plan.inner, result)


def _matrix_product(new: Tape, plan: _Plan, sizes: IndexSizes) -> tuple[Edge, str]:
    """The same as `_product`, computed by MatMul."""
    a = _arranged(new, plan.values[0], plan.terms[0], plan.both + plan.first + plan.inner)
    b = _arranged(new, plan.values[1], plan.terms[1], plan.both + plan.inner + plan.second)
    b = _join_axes(new, b, [*plan.both, plan.inner, plan.second], sizes)
    # If `both` is empty, the axes of the first value stay separate. If `first` is empty, too, the
    # first value is a vector.
    rows = [*plan.both, plan.first] if plan.both else [*plan.first]
    product = new.MatMul(_join_axes(new, a, [*rows, plan.inner], sizes), b)
    result = plan.both + plan.first + plan.second
    return _separate_axes(new, product, [*rows, plan.second], sizes), result


def _equation_of(node: Node) -> tuple[list[str], str]:
    """The labels of each input and of the result. Refuses an ellipsis, a label that occurs twice in
    one term, and a label of the result that is in no input.
    """
    text = node.attr("equation").replace(" ", "")
    operands, arrow, result = text.partition("->")
    terms = operands.split(",")
    if not all(term.isalpha() or not term for term in (*terms, result)):
        refuse("the equation has an ellipsis")
    if not arrow:
        result = "".join(
            sorted(label for label in set(operands) - {","} if operands.count(label) == 1)
        )
    if len(terms) != len(node.inputs) or any(
        len(set(term)) < len(term) for term in (*terms, result)
    ):
        refuse("the equation takes a diagonal, or lacks an input")
    if not set(result) <= set("".join(terms)):
        refuse("an axis of the result is in no input")
    return terms, result


def _sizes_of(terms: Sequence[str], inputs: Sequence[Edge | None]) -> IndexSizes:
    """The dimension of each label. Refuses an unknown rank, a dimension of 0, and a label whose
    dimension may be 1 in only one input.
    """
    sizes: IndexSizes = {}
    for term, value in zip(terms, inputs, strict=True):
        shape = shape_of(value)
        if shape is None or len(shape) != len(term):
            refuse(unknown("the rank"))
        for label, dim in zip(term, shape, strict=True):
            if dim == 0 or (label in sizes and (dim is None or sizes[label] != dim)):
                refuse("the dimensions are not known to be equal")
            sizes[label] = dim
    return sizes


def _arranged(new: Tape, value: Edge, labels: str, order: str) -> Edge:
    """The value with its axes in the order `order`."""
    return transposed(new, value, [labels.index(label) for label in order])


def _summed(new: Tape, value: Edge, labels: str, kept: str) -> tuple[Edge, str]:
    """The sum over all labels that are not in `kept`, and the labels that remain."""
    axes = [axis for axis, label in enumerate(labels) if label not in kept]
    if not axes:
        return value, labels
    return new_reduce(new, "ReduceSum", value, axes, keepdims=False), _common(labels, set(kept))


def _join_axes(new: Tape, value: Edge, groups: Sequence[str], sizes: IndexSizes) -> Edge:
    """The value with each group of axes joined into one axis. An empty group becomes an axis of
    size 1.
    """
    if all(len(group) < 2 for group in groups):
        empty = [axis for axis, group in enumerate(groups) if not group]
        return new_unsqueeze(new, value, empty) if empty else value
    flat = "".join(groups)
    is_kept = [flat[axis : axis + 1] == group for axis, group in enumerate(groups)]
    return _reshaped(new, value, [[sizes[label] for label in group] for group in groups], is_kept)


def _separate_axes(new: Tape, value: Edge, groups: Sequence[str], sizes: IndexSizes) -> Edge:
    """The inverse of `_join_axes`: each axis of the value is split into a group of axes."""
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
    """A Reshape of the value. The size of each new axis is the product of a group of `dims`.

    In the target shape, an unknown size is 0 if `is_kept` says that the axis keeps its position,
    else −1. Refuses if the sizes are then ambiguous.
    """
    target = []
    for group, keeps_axis in zip(dims, is_kept, strict=True):
        numbers = [dim for dim in group if isinstance(dim, int)]
        target.append(math.prod(numbers) if len(numbers) == len(group) else 0 if keeps_axis else -1)
    # If the 0 copies an empty dimension, −1 would be undefined.
    if target.count(-1) > 1 or (-1 in target and 0 in target):
        refuse("more than one dimension is unknown")
    return new.Reshape(value, new.const(np.array(target, np.int64)))


class EinsumPass(Pass):
    """An Einsum of one or two values becomes Transpose, ReduceSum, Mul and MatMul.

    before   Einsum(a) that transposes and sums; Einsum(a, b)
    after    Transpose(ReduceSum(a)); Transpose(MatMul(a, b)) with Transposes of a and b, and with
             Reshapes if several axes must be joined; Mul if nothing is summed; first a ReduceSum
             over axes that neither the other value nor the result has
    refuses  more than two inputs; elements other than floating-point numbers, int32 and int64; an
             ellipsis; a diagonal; dimensions with the same label that are not known to be equal,
             because onnxruntime broadcasts a dimension of 1; several axes that must be joined if
             more than one of them has an unknown size
    algebra  the definition of Einsum; MatMul sums in another order
    source   CANN's EinsumPass
    """

    numerics = "rounding"
    patterns = (Pattern("Einsum", op.Einsum(rest("inputs"), _as="einsum")),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        if len(m.inputs) > 2:
            refuse("the Einsum has more than two inputs")
        terms, result = _equation_of(m.einsum)
        sizes = _sizes_of(terms, m.inputs)
        if m.inputs[0].elem_type not in _TYPES:
            refuse("products of these elements are not supported")
        if len(m.inputs) == 1:
            value, labels = _summed(new, m.inputs[0], terms[0], result)
        else:
            kept = [result + other for other in reversed(terms)]
            sums = [
                _summed(new, v, term, keep)
                for v, term, keep in zip(m.inputs, terms, kept, strict=True)
            ]
            plan = _plan([v for v, _ in sums], [term for _, term in sums], result, sizes)
            value, labels = _product(new, plan, sizes)
        return _arranged(new, value, labels, result)
