from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from fusionc.model.graph import Edge, Node
from fusionc.passes._shared.constants import shape_of, would_double
from fusionc.passes._shared.elementwise_operators import (
    is_broadcasting_elementwise,
    is_unary_elementwise,
)
from fusionc.passes._shared.transpose_and_reshape import order_of
from fusionc.passes.data_movement._axis_factors import (
    Axes,
    Axis,
    Factor,
    Factors,
    Mover,
    Stored,
    flat,
    size_of,
)
from fusionc.rewrite import (
    Match,
    Pass,
    Pattern,
    Refused,
    Result,
    Tape,
    find_each,
    refuse,
    require_known,
)

_MAX_OPERATORS = 64  # the largest number of operators that one match examines
_MOVES = ("Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze")
_PRODUCTS = ("MatMul", "Gemm")
_SOFTMAX_OF_ONE_AXIS = 13  # from this opset on, Softmax is over a single axis


@dataclass(frozen=True)
class _Value:
    """A value of the original model."""

    axes: Axes  # its axes in the original model
    stored: Stored  # the same elements in the rewritten model


@dataclass
class _Region:
    """The operators after a Transpose that can compute their results from its input, without the
    Transpose.
    """

    mover: Mover
    values: dict[Edge, _Value] = field(default_factory=dict)
    nodes: dict[Node, None] = field(default_factory=dict)

    def add(self, node: Node) -> bool:
        """Add an operator; False if it cannot be added."""
        carried = [
            (position, self.values[edge])
            for position, edge in enumerate(node.inputs)
            if edge is not None and edge in self.values
        ]
        rule = _rule_of(node)
        result = node.outputs[0]
        if len(carried) != 1 or rule is None or result is None or node.has_references:
            return False
        ((position, value),) = carried
        axes = self.mover.factors.resolved(value.axes)
        try:
            replaced = rule(self.mover, node, position, _Value(axes, value.stored))
        except Refused:
            return False
        if replaced is None:
            return False
        self.nodes[node] = None
        self.values[result] = replaced
        return True


_Rule = Callable[[Mover, Node, int, _Value], _Value | None]


def _rule_of(node: Node) -> _Rule | None:
    """How an operator is added to a region; None if that is impossible."""
    if node.domain != "" or any(value is not None for value in node.outputs[1:]):
        return None
    if is_unary_elementwise(node):
        return _add_unary
    if is_broadcasting_elementwise(node):
        return _add_broadcast
    return _RULES.get(node.op)


def _add_move(mover: Mover, node: Node, position: int, value: _Value) -> _Value | None:
    """An operator that only moves elements: its new axes are recorded, and no node is built."""
    if position:
        return None
    if node.op == "Transpose":
        axes: Axes | None = tuple(value.axes[axis] for axis in order_of(node))
    else:
        axes = mover.factors.regrouped(value.axes, shape_of(node.outputs[0]))
    return None if axes is None else _Value(axes, value.stored)


def _add_unary(mover: Mover, node: Node, position: int, value: _Value) -> _Value | None:
    if position:
        return None
    edge = mover.node(node.op, [value.stored.edge, *node.inputs[1:]], like=node)
    return _Value(value.axes, Stored(edge, value.stored.axes))


def _add_broadcast(mover: Mover, node: Node, position: int, value: _Value) -> _Value | None:
    """An elementwise operator whose other operand is a single number, or has a number for each
    index of the last axis.
    """
    other = shape_of(node.inputs[1 - position]) if len(node.inputs) == 2 else None
    if other is None or len(other) > min(len(value.axes), len(value.stored.axes)):
        return None
    stored: Stored | None = value.stored
    if any(size != 1 for size in other):
        is_last = len(other) == 1 and bool(value.axes) and size_of(value.axes[-1]) == other[0]
        stored = _with_last(mover, value.stored, value.axes[-1]) if is_last else None
    if stored is None:
        return None
    inputs = list(node.inputs)
    inputs[position] = stored.edge
    return _Value(value.axes, Stored(mover.node(node.op, inputs, like=node), stored.axes))


def _add_row_operator(mover: Mover, node: Node, position: int, value: _Value) -> _Value | None:
    """A normalization over the last axis."""
    is_over_last = node.attr("axis") in (-1, len(value.axes) - 1)
    if node.op == "Softmax" and node.graph.opset < _SOFTMAX_OF_ONE_AXIS:
        return None
    others = [shape_of(edge) for edge in node.inputs[1:] if edge is not None]
    if position or not is_over_last or any(shape is None or len(shape) > 1 for shape in others):
        return None
    stored = _with_last(mover, value.stored, value.axes[-1])
    if stored is None:
        return None
    edge = mover.node(node.op, [stored.edge, *node.inputs[1:]], like=node, axis=-1)
    return _Value(value.axes, Stored(edge, stored.axes))


def _add_mat_mul(mover: Mover, node: Node, position: int, value: _Value) -> _Value | None:
    """A product that multiplies all rows by the same matrix."""
    weights = shape_of(node.inputs[1])
    if position or weights is None or len(weights) != 2 or len(value.axes) < 2:
        return None
    columns = _columns(weights[1])
    last = value.axes[-1]
    rows = _rows(mover.factors.resolved(value.stored.axes), last)
    if columns is None or not rows:
        return None
    stored = mover.arranged(value.stored, (*rows, last))
    edge = mover.node("MatMul", [stored.edge, node.inputs[1]], like=node)
    return _Value((*value.axes[:-1], columns), Stored(edge, (*rows, columns)))


def _add_gemm(mover: Mover, node: Node, position: int, value: _Value) -> _Value | None:
    """A Gemm. It becomes MatMul and Add if the axes of its rows have two unknown sizes, which a
    Reshape to a matrix could not restore.
    """
    shape = shape_of(node.outputs[0])
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    bias_shape = () if bias is None else shape_of(bias)
    if position or node.attr("transA") or shape is None or bias_shape is None:
        return None
    columns = _columns(shape[1])
    if columns is None or not (len(bias_shape) < 2 or bias_shape[0] == 1):
        return None
    axes = (value.axes[0], columns)
    rows = _rows(mover.factors.resolved(value.stored.axes), value.axes[1])
    if sum(not isinstance(size_of(axis), int) for axis in rows) > 1:
        stored = mover.arranged(value.stored, (*rows, value.axes[1]))
        return _Value(axes, Stored(_as_mat_mul(mover, node, stored), (*rows, columns)))
    matrix = mover.arranged(value.stored, (flat(rows), value.axes[1]))
    edge = mover.node("Gemm", [matrix.edge, *node.inputs[1:]], like=node)
    return _Value(axes, Stored(edge, (flat(rows), columns)))


def _as_mat_mul(mover: Mover, node: Node, stored: Stored) -> Edge | None:
    """MatMul and Add in place of a Gemm. Refuses weights that would be stored twice."""
    weights: Edge = require_known(node.inputs[1], "the matrix")
    if (node.attr("alpha"), node.attr("beta")) != (1, 1):
        refuse("the Gemm has a factor")
    if node.attr("transB"):
        array = weights.require_constant("the matrix")
        if would_double(weights, array.size):
            refuse("the transposed weights would be stored twice")
        weights = weights if mover.new is None else mover.new.const(array.T, like=weights)
    product = mover.node("MatMul", [stored.edge, weights])
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    return product if bias is None else mover.node("Add", [product, bias])


def _add_gather(mover: Mover, node: Node, position: int, value: _Value) -> _Value | None:
    """A Gather of one element, which removes an axis."""
    index = node.inputs[1]
    array = None if index is None else index.constant()
    if position or array is None or array.ndim:
        return None
    axis = node.attr("axis") % len(value.axes)
    stored = _isolated(mover, value.stored, value.axes[axis])
    if stored is None:
        return None
    place = stored.axes.index(value.axes[axis])
    edge = mover.node("Gather", [stored.edge, index], like=node, axis=place)
    rest = (*stored.axes[:place], *stored.axes[place + 1 :])
    return _Value((*value.axes[:axis], *value.axes[axis + 1 :]), Stored(edge, rest))


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_MOVES, _add_move),
    "MatMul": _add_mat_mul,
    "Gemm": _add_gemm,
    "Gather": _add_gather,
    "Softmax": _add_row_operator,
    "LayerNormalization": _add_row_operator,
}


def _columns(size: int | str | None) -> Axis | None:
    """A new axis of this size; None if it is unknown or 0."""
    return None if size is None or size == 0 else () if size == 1 else (Factor(size),)


def _with_last(mover: Mover, stored: Stored, last: Axis) -> Stored | None:
    """The value reshaped so that its last axis is `last`. None if that needs a Transpose."""
    axes = mover.factors.resolved(stored.axes)
    if not last or flat(axes)[-len(last) :] != last:
        return None
    return mover.reshaped(stored, (*_rows(axes, last), last))


def _rows(axes: Axes, last: Axis) -> Axes:
    """The axes without the factors of the last one, in their present order."""
    if not last:
        refuse("a row has one element")
    rows = [tuple(factor for factor in axis if factor not in last) for axis in axes]
    return tuple(row for row, axis in zip(rows, axes, strict=True) if row or not axis)


def _isolated(mover: Mover, stored: Stored, wanted: Axis) -> Stored | None:
    """The value reshaped so that `wanted` is an axis of its own. None if the factors of `wanted`
    are not neighbours.
    """
    axes = mover.factors.resolved(stored.axes)
    for index, axis in enumerate(axes):
        start = axis.index(wanted[0]) if wanted and wanted[0] in axis else None
        if start is not None and axis[start : start + len(wanted)] == wanted:
            parts = (axis[:start], wanted, axis[start + len(wanted) :])
            split = tuple(part for part in parts if part)
            return mover.reshaped(stored, (*axes[:index], *split, *axes[index + 1 :]))
    return None


def _region_from(turn: Node) -> _Region:
    """All operators after a Transpose that can compute their results without the Transpose, up to
    the last operator that moves elements.
    """
    region = _started(turn, Mover(None, Factors()))
    serials = count()
    pending = [(turn.position, next(serials), turn)]
    while pending and len(region.nodes) < _MAX_OPERATORS:
        *_, node = heapq.heappop(pending)
        if node in region.nodes or node.graph is not turn.graph or not region.add(node):
            continue
        for user in _users(node):
            heapq.heappush(pending, (user.position, next(serials), user))
    for node in reversed(list(region.nodes)):
        if node.op not in _MOVES and not any(user in region.nodes for user in _users(node)):
            del region.nodes[node]
    return region


def _started(turn: Node, mover: Mover) -> _Region:
    x = turn.inputs[0]
    axes = None if x is None else mover.factors.axes(x.shape)
    if x is None or axes is None:
        refuse("the shape is unknown, or the value may be empty")
    return _Region(mover, {x: _Value(axes, Stored(x, axes))})


def _users(node: Node) -> list[Node]:
    return [user for value in node.outputs if value is not None for user in value.outputs]


def _results(nodes: dict[Node, None]) -> list[Edge]:
    """The values of a region that are used outside of it."""
    return [
        value
        for node in nodes
        if (value := node.outputs[0]) is not None
        and (value.is_output or value.is_pinned or any(n not in nodes for n in value.outputs))
    ]


def _rebuilt(turn: Node, nodes: dict[Node, None], mover: Mover) -> list[Edge | None]:
    """The values that are used outside of a region, computed without the Transposes of the region.
    None in place of each value if no nodes are built.
    """
    region = _started(turn, mover)
    for node in nodes:
        if not region.add(node):
            refuse("an operator needs sizes that are unknown before the model runs")
    values = [region.values[result] for result in _results(nodes)]
    return [mover.arranged(value.stored, value.axes).edge for value in values]


def _find_at(turn: Node) -> Match:
    """A Transpose, and all operators after it that can compute their results without it."""
    region = _region_from(turn)
    if not any(node.op in _PRODUCTS for node in region.nodes):
        refuse("no product with one matrix for all rows follows")
    before = Mover(None, Factors())
    after = Mover(None, Factors())
    for node in region.nodes:
        if node.op == "Transpose" and node.outputs[0] is not None:
            before.count_transpose(region.values[node.outputs[0]].axes)
    _rebuilt(turn, region.nodes, after)
    if after.transposes >= before.transposes:
        refuse("the number of Transposes would not decrease")
    if after.transposed_elements > before.transposed_elements:
        refuse("the Transposes would move more elements")
    captures = {"turn": turn, "moved": region.nodes}
    return Match(turn.graph, list(region.nodes), _results(region.nodes), captures)


class TransMatMulSymmetryEliminationPass(Pass):
    """Transposes around products with one matrix for all rows become fewer or disappear.

    before   Transpose(MatMul(Transpose(x), W)), where both Transposes exchange batch and length;
             also through Gemm, elementwise operators and normalizations of rows, Reshape, Squeeze,
             Unsqueeze, and Gathers of one element that several Transposes follow, as in torch's
             MultiheadAttention, which computes with [length, batch, …]
    after    MatMul(x, W)
    refuses  only what every pass refuses
    never    a rewrite that does not reduce the number of Transposes; dimensions that are unknown;
             a Reshape that does more than join and split axes; new Reshapes to two unknown sizes
    algebra  each row of a product depends on the same row of x only, so rows can be in any order;
             Reshapes and Transposes only rename the factors of axes
    source   torch's MultiheadAttention and TransformerEncoderLayer with batch_first
    """

    numerics = "rounding"
    patterns = (
        Pattern(
            "TransposeMatMulTranspose",
            find=find_each(_find_at, "Transpose"),
            operators=("Transpose",),
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        values = _rebuilt(m.turn, m.moved, Mover(new, Factors()))
        return [value for value in values if value is not None]
