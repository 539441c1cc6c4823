"""Cost: reject areas that cost more than they save, or that would prevent better optimizations by
onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from onnx import TensorProto

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.select.area_location import AreaLocation
from fusionc.graph_kernel.select.operator_kinds import OperatorKind, kind_of
from fusionc.model.graph import Edge, Graph, Node
from fusionc.model.operators import MICROSOFT
from fusionc.runtime.cpu_kernels import has_cpu_kernel

# onnxruntime keeps float32 images in a blocked layout from the first to the last of these
# operators, if every operator between them has a form for the blocked layout.
_BLOCKED = frozenset(
    ("", op)
    for op in (
        "AveragePool",
        "Conv",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "MaxPool",
        "BatchNormalization",
    )
) | {(MICROSOFT, "FusedConv")}
_PASSES_LAYOUT_ON = frozenset({"Concat", "Resize", "Upsample"})
# onnxruntime also moves a Transpose towards another Transpose, if that undoes the first. An
# operator in the blocked layout acts on the values after it like a Transpose with the order _FIRST,
# and on the values before it like a Transpose with the order _LAST.
_FIRST = (0, 3, 1, 2)
_LAST = (0, 2, 3, 1)
_Order = tuple[int, ...]

_ALONE = "fewer than two of its operators compute or move elements"
_SHAPES = "it computes shapes; onnxruntime does that when it loads the model"
_SLOWER = "its kernel is estimated to take at least as long as its operators one by one"
_HALF = "it would round values to float16 that onnxruntime keeps in float32 between operators"
_LAYOUT = "it lies between convolutions or Transposes, where onnxruntime keeps another layout"


class Cost:
    """Judges the areas of one graph. `saves` gives the seconds that the kernel of an area saves."""

    def __init__(self, graph: Graph, saves: Callable[[Area], float]) -> None:
        self._saves = saves
        nodes = graph.ordered()
        self._from_layout = _Orders(lambda n: n.inputs, lambda n: n.outputs, _FIRST).spread(nodes)
        self._to_layout = _Orders(lambda n: n.outputs, lambda n: n.inputs, _LAST).spread(
            reversed(nodes)
        )

    def why_unprofitable(self, location: AreaLocation) -> str | None:
        """The reason against an area. `None` if the area saves time."""
        kinds = [kind_of(node.op_type) for node in location.area.nodes]
        if len(kinds) - kinds.count(OperatorKind.RESHAPE) < 2:
            return _ALONE
        if all(_is_shape(value) for value in location.outputs):
            return _SHAPES
        if self._is_in_layout(location):
            return _LAYOUT
        if _breaks_float32(location):
            return _HALF
        return None if self._saves(location.area) > 0 else _SLOWER

    def _is_in_layout(self, location: AreaLocation) -> bool:
        """Whether onnxruntime would move a Transpose through the area's operators, or compute them
        in its blocked layout.
        """
        before = {order for value in location.inputs for order in self._from_layout.get(value, ())}
        after = {order for value in location.outputs for order in self._to_layout.get(value, ())}
        return not before.isdisjoint(map(_inverse, after))

    def why_unprofitable_packet(self, location: AreaLocation) -> str | None:
        """The reason against a packet (an area that computes sizes). `None` if it saves time."""
        if all(isinstance(dim, int) for value in location.inputs for dim in value.shape or ()):
            return _SHAPES
        return None if self._saves(location.area) > 0 else _SLOWER


def _is_shape(value: Edge) -> bool:
    return value.elem_type == TensorProto.INT64 and value.rank is not None and value.rank <= 1


def _breaks_float32(location: AreaLocation) -> bool:
    """Whether onnxruntime lacks a float16 kernel for an operator next to the area.

    onnxruntime computes such operators in float32, and keeps float32 between them. A generated
    kernel between them would read and write float16, so values would be rounded that are not
    rounded now.
    """
    before = [value.producer for value in location.inputs if value.elem_type == TensorProto.FLOAT16]
    halves = [value for value in location.outputs if value.elem_type == TensorProto.FLOAT16]
    after = list(dict.fromkeys(user for value in halves for user in value.outputs))
    return any(
        node is not None and node not in location.nodes and _is_in_float32(node)
        for node in (*before, *after)
    )


def _is_in_float32(node: Node) -> bool:
    types = [0 if value is None else value.elem_type for value in node.inputs]
    return not has_cpu_kernel(node.op, node.domain, node.graph.opset_of(node.domain), *types)


_Values = Callable[[Node], Iterable[Edge | None]]


class _Orders:
    """The orders of axes (as in a Transpose) that onnxruntime might give to values.

    Orders spread from node to node: a node takes them from its `sources` and passes them to its
    `targets`. So they spread along the flow of data, or against it. `blocked` is the order of the
    blocked layout.
    """

    def __init__(self, sources: _Values, targets: _Values, blocked: _Order) -> None:
        self._sources = sources
        self._targets = targets
        self._blocked = blocked
        self._known: dict[Edge, set[_Order]] = {}

    def spread(self, nodes: Iterable[Node]) -> dict[Edge, set[_Order]]:
        """Each value that an order reaches → its possible orders. `nodes` must be sorted in the
        direction of spreading.
        """
        for node in nodes:
            orders = self._orders_of(node)
            for value in self._targets(node) if orders else ():
                if value is None or value.is_constant or value.elem_type != TensorProto.FLOAT:
                    continue
                fitting = (order for order in orders if len(order) == value.rank)
                self._known.setdefault(value, set()).update(fitting)
        return self._known

    def _orders_of(self, node: Node) -> set[_Order]:
        """The orders that a node passes to its targets."""
        if node.operator in _BLOCKED:
            return {self._blocked}
        if node.is_op("Transpose"):
            return {_order_of(node)}
        kind = kind_of(node.op)
        is_elementwise = kind in (OperatorKind.ELEMWISE, OperatorKind.BROADCAST)
        if not is_elementwise and node.op not in _PASSES_LAYOUT_ON:
            return set()
        sources = (value for value in self._sources(node) if value is not None)
        return {order for value in sources for order in self._known.get(value, ())}


def _order_of(transpose: Node) -> _Order:
    value = transpose.inputs[0]
    return tuple(transpose.attr("perm") or reversed(range((value and value.rank) or 0)))


def _inverse(order: _Order) -> _Order:
    return tuple(order.index(axis) for axis in range(len(order)))
