from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass

from fusionc.model.graph import Edge, Graph, Node
from fusionc.operators.facts import Trait, names_with
from fusionc.passes._shared.constants import array_of, shape_of
from fusionc.passes._shared.slice_split_concat import Cut, cuts_of, new_slice
from fusionc.passes._shared.transpose_and_reshape import new_unsqueeze
from fusionc.passes.data_movement._row_by_row import Carriers, carriers
from fusionc.rewrite import Match, Pass, Pattern, Result, Tape

_ROWS = 64  # how many rows a value is thought to have where that is unknown
_ALONE = 8  # elements that are copied in the time of one that is picked alone
_NODE = 1000  # what one more node costs, in elements of elementwise work
_PRODUCTS = 8  # multiplications and additions of a matrix product that cost as much as one element


def _region(rows: _Selection) -> dict[Node, tuple[int, Carriers]]:
    """The operators that can do with the rows: nobody needs anything else of what they make. Each
    with the axis of its rows, and what brings them.
    """
    found: dict[Node, tuple[int, Carriers]] = {}
    start = rows.node.inputs[0]
    wanted: dict[Edge, set[int]] = {} if start is None else {start: {rows.axis}}
    pending = [_entry(value) for value in wanted if value.producer is not None]
    while pending:  # users come before what they use
        _, _, value = heapq.heappop(pending)
        node = value.producer
        axes = wanted[value]
        if (
            node is None
            or node.graph is not rows.node.graph
            or len(axes) > 1
            or value.is_output
            or value.is_pinned
        ):
            continue
        (axis,) = axes
        if not all(
            user is rows.node or _only_carries(user, value, found) for user in value.outputs
        ):
            continue
        brought = None if node.outputs[0] is not value else carriers(node, axis)
        if brought is None or (node.op == "Reshape" and rows.count is None):
            continue
        found[node] = axis, brought
        for position, own in brought.items():
            operand = node.inputs[position]
            if operand is not None and operand.producer is not None and operand not in wanted:
                heapq.heappush(pending, _entry(operand))
            if operand is not None:
                wanted.setdefault(operand, set()).add(own)
    return found


def _entry(value: Edge) -> tuple[float, int, Edge]:
    return (-value.producer.position if value.producer else 0, value.serial, value)


def _only_carries(user: Node, value: Edge, found: dict[Node, tuple[int, Carriers]]) -> bool:
    return user in found and all(
        p in found[user][1] for p, v in enumerate(user.inputs) if v is value
    )


def _saves(rows: _Selection, region: dict[Node, tuple[int, Carriers]]) -> bool:
    """Whether what need not be computed is more than what the additional Gathers cost."""
    count = rows.count or 1
    whole = rows.node.inputs[0]
    size = whole.shape[rows.axis] if whole is not None and whole.shape is not None else None
    saved = sum(_work(node, axis) for node, (axis, _) in region.items())
    saved *= (size if isinstance(size, int) else _ROWS) - count
    inner = {node.outputs[0] for node in region}
    ends = {
        (node.inputs[p], a) for node, (_, brought) in region.items() for p, a in brought.items()
    }
    cuts = [(v, a) for v, a in ends if v is not None and v not in inner and not v.is_constant]
    copied = (sum(_copied(v, a) for v, a in cuts) - _copied(whole, rows.axis)) * count
    return saved > copied + _NODE * (len(cuts) - 1 + rows.is_dropped)


def _copied(value: Edge | None, axis: int) -> int:
    """What picking one row costs: elements, one by one where rows are columns in memory."""
    shape = shape_of(value)
    return _elements(value, axis) * (_ALONE if shape is not None and axis == len(shape) - 1 else 1)


def _elements(value: Edge | None, axis: int) -> int:
    """The elements of one row, as far as they are known."""
    return math.prod(
        d for a, d in enumerate(shape_of(value) or ()) if a != axis and isinstance(d, int)
    )


def _work(node: Node, axis: int) -> int:
    work = 0 if node.op in names_with(Trait.RESHAPES) else _elements(node.outputs[0], axis)
    depth: list[int | str | None] = []
    if node.op in ("MatMul", "Gemm"):
        depth = list((shape_of(node.inputs[0]) or ())[-2 if node.attr("transA") else -1 :][:1])
    elif node.op == "Conv":
        depth = list((shape_of(node.inputs[1]) or ())[1:])
    return work * max(1, math.prod(d for d in depth if isinstance(d, int)) // _PRODUCTS)


def _find(graph: Graph) -> Iterator[Match]:
    for node in [*graph.of_operator("Gather"), *graph.of_operator("Slice")]:
        rows = _selection_of(node) if node.is_in_graph else None
        region = {} if rows is None else _region(rows)
        if rows is not None and region and _saves(rows, region):
            yield Match(graph, [node, *region], node.outputs, {"rows": rows, "region": region})


@dataclass(frozen=True)
class _Selection:
    """The rows that a Gather or Slice takes along one axis; `count` None where at most one is
    taken.
    """

    node: Node
    axis: int
    count: int | None
    cut: Cut | None = None

    @property
    def is_dropped(self) -> bool:
        """Whether the axis goes: the index is a scalar."""
        index = self.node.inputs[1] if self.cut is None else None
        return index is not None and index.rank == 0

    def of(self, value: Edge, axis: int, new: Tape) -> Edge:
        """The same rows of another value, whose axis stays."""
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


def _selection_of(node: Node) -> _Selection | None:
    """What a Gather or Slice takes, where that is at most half of the rows."""
    x = node.inputs[0]
    shape = None if x is None else x.shape
    if not shape or node.has_references:
        return None
    if node.op == "Gather":
        axis = node.attr("axis") % len(shape)
        index = node.inputs[1]
        taken = None if index is None else index.shape
        count = 1 if taken == () else taken[0] if taken is not None and len(taken) == 1 else None
        is_few = isinstance(count, int) and 0 < 2 * count <= (
            d if isinstance(d := shape[axis], int) else 2
        )
        return _Selection(node, axis, count) if is_few and isinstance(count, int) else None
    cuts = cuts_of(node)
    if cuts is None or len(cuts) != 1 or cuts[0].step < 1:
        return None
    cut = cuts[0]
    axis = cuts[0].axis % len(shape)
    size = shape[axis]
    if isinstance(size, int):
        count = len(range(*slice(cut.start, cut.end, cut.step).indices(size)))
        return _Selection(node, axis, count, cut) if 0 < 2 * count <= size else None
    return _Selection(node, axis, None, cut) if cut.is_single else None


class UpstreamGatherPass(Pass):
    """A Gather or Slice of some rows moves up through what works row by row: the other rows are not
    computed.

    before   Gather(f(x, c), 0, axis 1), where f is made of elementwise operators, normalizations,
             Softmax, products (of which either side has rows), Transpose, Reshape, …: a classifier
             that reads one token
    after    Squeeze(f(Gather(x, [0], axis 1), c))
    refuses  nothing of its own
    never    more than half of the rows; where it would not save work; through values that somebody
             else uses; where it is not known whether an operand has as many rows as the result, or
             one that is broadcast
    algebra  these operators compute each row of the result from the same row of some operands, and
             all of the others
    source   onnxruntime's UpStreamGather, which is for training
    """

    numerics = "rounding"
    patterns = (Pattern("RowsOfRows", find=_find, operators=("Gather", "Slice")),)

    def rewrite(self, m: Match, new: Tape) -> Result:
        made: dict[tuple[Edge, int], Edge] = {}
        result = m.rows.node.inputs[0]
        for node in sorted(m.region, key=lambda n: n.position):
            axis, brought = m.region[node]
            inputs = list(node.inputs)
            for position, own in brought.items():
                value = inputs[position]
                if value is not None:
                    key = value, own
                    made[key] = inputs[position] = made.get(key) or m.rows.of(value, own, new)
            if node.op == "Reshape":
                target = array_of(inputs[1]).copy()
                target[axis] = m.rows.count
                inputs[1] = new.const(target, like=inputs[1])
            result = made[node.outputs[0], axis] = new.node(node.op, inputs, like=node)
        return new_unsqueeze(new, result, [m.rows.axis], "Squeeze") if m.rows.is_dropped else result
