from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

from fusionc.model.graph import Edge, Node, Shape
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.constants import array_of, shape_of
from fusionc.passes._shared.slice_split_concat import Cut, cuts_of, new_slice
from fusionc.passes._shared.transpose_and_reshape import new_unsqueeze
from fusionc.passes.data_movement._row_by_row import Carriers, carriers
from fusionc.rewrite import (
    Match,
    Pass,
    Pattern,
    Result,
    Tape,
    find_each,
    refuse,
    require_known,
    unknown,
)

_ASSUMED_ROWS = 64  # assumed number of rows if it is unknown
_SINGLE_COST = 8  # copying a single element costs as much as this many elements of a longer row
_NODE_COST = 1000  # cost of an additional node, in elements of elementwise work
_PRODUCTS_PER_ELEMENT = 8  # multiplications of a matrix product that cost as much as one element
_TOO_MANY = "the number of selected rows is 0, or more than half of all rows"
_Region = dict[Node, tuple[int, Carriers]]  # node → the axis of its rows, and its carriers


def _region(rows: _Selection) -> _Region:
    """The operators of whose results only the selected rows are used."""
    region: _Region = {}
    start = rows.node.inputs[0]
    if start is None or start.producer is None:
        return region
    required_axes = {start: {rows.axis}}
    pending = [_heap_entry(start)]
    while pending:  # users before producers
        _, _, value = heapq.heappop(pending)
        node = value.producer
        if node is None or not _is_private(value, required_axes[value], rows, region):
            continue
        (axis,) = required_axes[value]
        carried = _carriers(node, value, axis, rows)
        if carried is None:
            continue
        region[node] = axis, carried
        for operand, operand_axis in (
            (node.inputs[position], operand_axis) for position, operand_axis in carried.items()
        ):
            if operand is None:
                continue
            if operand.producer is not None and operand not in required_axes:
                heapq.heappush(pending, _heap_entry(operand))
            required_axes.setdefault(operand, set()).add(operand_axis)
    return region


def _carriers(node: Node, value: Edge, axis: int, rows: _Selection) -> Carriers | None:
    """The inputs that carry the rows of a value; None if the node needs all rows."""
    if node.outputs[0] is not value or (node.op == "Reshape" and rows.count is None):
        return None
    return carriers(node, axis)


def _heap_entry(value: Edge) -> tuple[float, int, Edge]:
    return (-value.producer.position if value.producer else 0, value.serial, value)


def _is_private(value: Edge, axes: set[int], rows: _Selection, region: _Region) -> bool:
    """Whether all users of a value read only its selected rows, along one axis."""
    node = value.producer
    if node is None or node.graph is not rows.node.graph or len(axes) > 1:
        return False
    if value.is_output or value.is_pinned:
        return False
    return all(user is rows.node or _only_carries(user, value, region) for user in value.outputs)


def _only_carries(user: Node, value: Edge, region: _Region) -> bool:
    return user in region and all(
        p in region[user][1] for p, v in enumerate(user.inputs) if v is value
    )


def _saves_work(rows: _Selection, region: _Region) -> bool:
    """Whether the rewrite saves more work than its additional Gathers cost."""
    count = rows.count or 1
    whole = rows.node.inputs[0]
    size = whole.shape[rows.axis] if whole is not None and whole.shape is not None else None
    saved = sum(_work(node, axis) for node, (axis, _) in region.items())
    saved *= (size if isinstance(size, int) else _ASSUMED_ROWS) - count
    gathered = _gathered(region)
    copied = (sum(_copied(v, a) for v, a in gathered) - _copied(whole, rows.axis)) * count
    return saved > copied + _NODE_COST * (len(gathered) - 1 + rows.is_dropped)


def _gathered(region: _Region) -> set[tuple[Edge, int]]:
    """The values that need a Gather before the region, with the axes of their rows."""
    inner = {node.outputs[0] for node in region}
    gathered: set[tuple[Edge, int]] = set()
    for node, (_, carried) in region.items():
        for position, axis in carried.items():
            value = node.inputs[position]
            if value is not None and value not in inner and not value.is_constant:
                gathered.add((value, axis))
    return gathered


def _copied(value: Edge | None, axis: int) -> int:
    """The cost of copying one row, in elements; higher if the row is a column in memory."""
    shape = shape_of(value)
    return _elements(value, axis) * (
        _SINGLE_COST if shape is not None and axis == len(shape) - 1 else 1
    )


def _elements(value: Edge | None, axis: int) -> int:
    """The number of elements in one row. Unknown dimensions count as 1."""
    return math.prod(
        d for a, d in enumerate(shape_of(value) or ()) if a != axis and isinstance(d, int)
    )


def _work(node: Node, axis: int) -> int:
    """The cost of computing one row, in elements of elementwise work."""
    work = 0 if node.op in names_with(Trait.RESHAPES) else _elements(node.outputs[0], axis)
    depth: list[int | str | None] = []
    if node.op in ("MatMul", "Gemm"):
        depth = list((shape_of(node.inputs[0]) or ())[-2 if node.attr("transA") else -1 :][:1])
    elif node.op == "Conv":
        depth = list((shape_of(node.inputs[1]) or ())[1:])
    return work * max(1, math.prod(d for d in depth if isinstance(d, int)) // _PRODUCTS_PER_ELEMENT)


def _find_at(node: Node) -> Match:
    rows = _selection_of(node)
    region = _region(rows)
    if not region:
        refuse(_obstacle(node))
    if not _saves_work(rows, region):
        refuse("the additional Gathers cost more than the work that is saved")
    return Match(node.graph, [node, *region], node.outputs, {"rows": rows, "region": region})


def _obstacle(node: Node) -> str:
    """Why the operator before a Gather or Slice cannot compute only the selected rows."""
    value = node.inputs[0]
    producer = None if value is None else value.producer
    if value is None or producer is None:
        return "no operator computes its input"
    if value.is_output:
        return "its input is an output of the graph"
    if value.use_count > 1:
        return "its input is used elsewhere"
    return (
        f"{producer.op} is not known to compute each row of its result from one row of its inputs"
    )


@dataclass(frozen=True)
class _Selection:
    """The rows (slices along one axis) that a Gather or Slice selects."""

    node: Node
    axis: int
    count: int | None  # the number of selected rows; None if it is 0 or 1
    cut: Cut | None = None  # the cut of a Slice; None for a Gather

    @property
    def is_dropped(self) -> bool:
        """Whether the index is a scalar, so that the Gather removes the axis."""
        index = self.node.inputs[1] if self.cut is None else None
        return index is not None and index.rank == 0

    def select(self, value: Edge, axis: int, new: Tape) -> Edge:
        """The same rows of another value, whose axis is kept."""
        if self.cut is not None:
            return new_slice(new, value, [Cut(axis, self.cut.start, self.cut.end, self.cut.step)])
        index = self.node.inputs[1]
        assert index is not None
        if self.is_dropped:
            array = index.constant()
            index = (
                new_unsqueeze(new, index, [0])
                if array is None
                else new.const(array.reshape(1), like=index)
            )
        return new.Gather(value, index, axis=axis)


def _selection_of(node: Node) -> _Selection:
    """The rows that a Gather or Slice takes. Refuses if they may be more than half of all rows."""
    x: Edge = require_known(node.inputs[0], "the input")
    shape = x.require_shape(least=1)
    return _gather_selection(node, shape) if node.op == "Gather" else _slice_selection(node, shape)


def _gather_selection(node: Node, shape: Shape) -> _Selection:
    axis = node.attr("axis") % len(shape)
    index: Edge = require_known(node.inputs[1], "the index")
    indices = index.require_shape(0, 1, of="the index")
    count = indices[0] if indices else 1
    size = shape[axis]
    if not isinstance(count, int):
        refuse(unknown("the number of indices"))
    if not 0 < 2 * count <= (size if isinstance(size, int) else 2):
        refuse(_TOO_MANY)
    return _Selection(node, axis, count)


def _slice_selection(node: Node, shape: Shape) -> _Selection:
    cuts = require_known(cuts_of(node), "the slice")
    if len(cuts) != 1:
        refuse("the Slice does not cut exactly one axis")
    cut = cuts[0]
    if cut.step < 1:
        refuse("the step is negative")
    axis = cut.axis % len(shape)
    size = shape[axis]
    if not isinstance(size, int):
        if not cut.is_single:
            refuse(unknown("the number of rows"))
        return _Selection(node, axis, None, cut)
    count = len(range(*slice(cut.start, cut.end, cut.step).indices(size)))
    if not 0 < 2 * count <= size:
        refuse(_TOO_MANY)
    return _Selection(node, axis, count, cut)


class UpstreamGatherPass(Pass):
    """A Gather or Slice of some rows moves before row-by-row operators, which then skip the other
    rows.

    before   Gather(f(x, c), 0, axis 1), where f consists of elementwise operators, normalizations,
             Softmax, products (with the rows in either operand), Transpose, Reshape, …, for example
             in a classifier that reads one token
    after    Squeeze(f(Gather(x, [0], axis 1), c))
    refuses  only what every pass refuses
    never    more than half of the rows; a move that would not save work; values that are also used
             elsewhere; operands that are not known to have either one row or as many as the result
    algebra  these operators compute each row of the result from the same row of some operands and
             from all of the others
    source   onnxruntime's UpStreamGather, which is for training
    """

    numerics = "rounding"
    patterns = (
        Pattern(
            "RowsOfRows", find=find_each(_find_at, "Gather", "Slice"), operators=("Gather", "Slice")
        ),
    )

    def rewrite(self, m: Match, new: Tape) -> Result:
        selected: dict[tuple[Edge, int], Edge] = {}
        result = m.rows.node.inputs[0]
        for node in sorted(m.region, key=lambda n: n.position):
            axis, carried = m.region[node]
            inputs = list(node.inputs)
            for position, operand_axis in carried.items():
                value = inputs[position]
                if value is not None:
                    key = value, operand_axis
                    if key not in selected:
                        selected[key] = m.rows.select(value, operand_axis, new)
                    inputs[position] = selected[key]
            if node.op == "Reshape":
                target = array_of(inputs[1]).copy()
                target[axis] = m.rows.count
                inputs[1] = new.const(target, like=inputs[1])
            result = selected[node.outputs[0], axis] = new.node(node.op, inputs, like=node)
        return new_unsqueeze(new, result, [m.rows.axis], "Squeeze") if m.rows.is_dropped else result
