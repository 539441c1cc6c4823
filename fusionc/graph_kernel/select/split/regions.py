"""Regions: groups of operators of one cluster, and the edges between the groups. At first, each
operator is a region.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from fusionc.graph_kernel.select.area_values import is_scalar_constant
from fusionc.graph_kernel.select.operator_kinds import OperatorKind, kind_of
from fusionc.graph_kernel.select.split.rows import Row, row_of
from fusionc.model.graph import Edge, Graph, Node, Shape
from fusionc.shapes.equality import same_shape


@dataclass(eq=False)
class Region:
    """Operators that become one kernel. `dominant` is the operator of the highest kind.

    `inputs` maps each region that this one reads to True if every element is read once, and to
    False if elements are read several times (a broadcast). `rows` are the rows of the region's
    reductions. `reason` says why a kernel cannot contain the operator, or is None; a region with a
    reason is never fused. `is_composite` says whether the region gets its own kernel by MindSpore's
    rules. `place` is a position in a topological order: it is higher than the place of every region
    that this one reads.
    """

    nodes: list[Node]
    dominant: Node
    kind: OperatorKind
    is_output: bool
    is_composite: bool
    reason: str | None
    place: int
    rows: frozenset[Row]
    inputs: dict[Region, bool] = field(default_factory=dict)
    users: dict[Region, None] = field(default_factory=dict)

    @property
    def is_lone(self) -> bool:
        """Whether the region has only one operator."""
        return len(self.nodes) == 1


class Regions:
    """All regions of a cluster. When two regions are fused, one of the two objects becomes the
    result, and the other is removed.
    """

    def __init__(self, graph: Graph, why_unsupported: Callable[[Node], str | None]) -> None:
        self._regions: dict[Region, None] = {}
        by_node: dict[Node, Region] = {}
        for place, node in enumerate(n for n in graph.ordered() if not n.is_op("Constant")):
            kind = kind_of(node.op) if node.domain == "" else OperatorKind.OPAQUE
            is_output = any(value is not None and value.is_output for value in node.outputs)
            rows = frozenset(row for row in (row_of(node),) if row is not None)
            reason = why_unsupported(node)
            region = Region(
                [node], node, kind, is_output, kind != OperatorKind.RESHAPE, reason, place, rows
            )
            self._regions[region] = None
            by_node[node] = region
            makers = [
                None if v is None or v.producer is None else by_node.get(v.producer)
                for v in node.inputs
            ]
            _connect(region, node, makers)

    def __iter__(self) -> Iterator[Region]:
        """The regions, in the order of their first operators."""
        return iter(list(self._regions))

    def __contains__(self, region: Region) -> bool:
        return region in self._regions

    def fuse(self, a: Region, b: Region) -> Region:
        """Join two regions and return the result. One must read the other, and there must not be a
        detour between them (see `has_detour`).
        """
        maker, user = (a, b) if b in a.users else (b, a)
        place = _make_room(maker, user)
        kept, gone = (a, b) if len(a.nodes) >= len(b.nodes) else (b, a)
        leader = a if a.kind >= b.kind else b
        kept.kind = max(a.kind, b.kind)
        kept.dominant = leader.dominant
        kept.nodes += gone.nodes
        kept.is_output = a.is_output or b.is_output
        kept.is_composite = a.is_composite or b.is_composite
        kept.rows = a.rows | b.rows
        kept.place = place
        for maker, is_injective in gone.inputs.items():
            del maker.users[gone]
            _add_edge(maker, kept, is_injective)
        for user in gone.users:
            is_injective = user.inputs.pop(gone)
            _add_edge(kept, user, is_injective)
        del self._regions[gone]
        return kept

    def has_detour(self, maker: Region, user: Region) -> bool:
        """Whether a path leads from one region to the other through a third region. If so, fusing
        the two would make a cycle.
        """
        if len(maker.users) > len(user.inputs):  # fewer paths to follow backwards
            return maker in _leading_to(user, maker)
        return user in _following(maker, user)


def _following(maker: Region, user: Region) -> set[Region]:
    """The regions that need `maker` and have places up to that of `user`. Paths through `user` do
    not count.
    """
    return _between(maker, user, lambda region: region.users)


def _leading_to(user: Region, maker: Region) -> set[Region]:
    """The regions that `user` needs and that have places down to that of `maker`. Paths through
    `maker` do not count.
    """
    return _between(user, maker, lambda region: region.inputs)


def _between(
    start: Region, end: Region, following: Callable[[Region], Iterable[Region]]
) -> set[Region]:
    """The regions that can be reached from `start` without passing `end`, and whose places are
    between those of `start` and `end`.
    """
    low, high = sorted((start.place, end.place))
    found: set[Region] = set()
    stack = [region for region in following(start) if region is not end]
    while stack:
        region = stack.pop()
        if region not in found and low <= region.place <= high:
            found.add(region)
            stack.extend(following(region))
    return found


def _make_room(maker: Region, user: Region) -> int:
    """The place for the region that the two become. Regions that `user` needs get places before it,
    and regions that need `maker` get places after it.
    """
    before = sorted(_leading_to(user, maker), key=_place)
    after = sorted(_following(maker, user), key=_place)
    places = sorted([maker.place, user.place, *map(_place, (*before, *after))])
    for region, place in zip(before, places, strict=False):
        region.place = place
    for region, place in zip(reversed(after), reversed(places), strict=False):
        region.place = place
    return places[len(before)]


def _place(region: Region) -> int:
    return region.place


def _connect(region: Region, node: Node, makers: list[Region | None]) -> None:
    """Add the edges from `makers` to the region, which has one operator. If an edge broadcasts, set
    the region's kind accordingly.
    """
    output = node.outputs[0]
    is_scalar_apart = (
        sum(value is not None and not is_scalar_constant(value) for value in node.inputs) <= 1
    )
    for value, maker in zip(node.inputs, makers, strict=True):
        if value is None or maker is None:
            continue
        is_injective = region.kind != OperatorKind.BROADCAST
        if region.kind == OperatorKind.ELEMWISE and len(node.inputs) > 1 and not is_scalar_apart:
            is_injective = output is not None and same_shape(
                _aligned(value.shape), _aligned(output.shape)
            )
        _add_edge(maker, region, is_injective)
    if region.kind == OperatorKind.ELEMWISE and not all(region.inputs.values()):
        region.kind = OperatorKind.BROADCAST


def _add_edge(maker: Region, user: Region, is_injective: bool) -> None:
    if maker is not user:
        maker.users[user] = None
        user.inputs[maker] = user.inputs.get(maker, True) and is_injective


def _aligned(shape: Shape | None) -> Shape | None:
    """A shape without leading 1s, because these do not matter for broadcasting."""
    if shape is None:
        return None
    start = next((i for i, dim in enumerate(shape) if dim != 1), len(shape))
    return shape[start:]


def reads_between(maker: Region, user: Region) -> Iterator[tuple[Edge, Node]]:
    """The values that one region reads from another, with the operators that read them."""
    makers = set(maker.nodes)
    for node in user.nodes:
        yield from (
            (value, node) for value in node.inputs if value is not None and value.producer in makers
        )


def same_size(a: Region, b: Region) -> bool:
    """Whether the results of the two dominant operators are known to have the same number of
    elements.
    """
    first = _result_shape(a)
    second = _result_shape(b)
    if first is None or second is None:
        return False
    sizes = [math.prod(d for d in shape if isinstance(d, int)) for shape in (first, second)]
    symbols = [sorted(str(d) for d in shape if not isinstance(d, int)) for shape in (first, second)]
    return sizes[0] == sizes[1] and symbols[0] == symbols[1] and None not in (*first, *second)


def _result_shape(region: Region) -> Shape | None:
    output = region.dominant.outputs[0]
    return None if output is None else output.shape
