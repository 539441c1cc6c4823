"""Cost: which areas pay. One that costs more than it saves, or breaks what onnxruntime does better,
is none.
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

# onnxruntime keeps float32 images in a blocked layout from the first of these to the last, and
# through what lies between as long as it knows each operator.
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
# A Transpose that is undone later is moved through what lies between as well, into the way to the
# blocked layout and back, too: these are the Transposes that such an operator behind it and before
# it takes the place
# of.
_FIRST = (0, 3, 1, 2)
_LAST = (0, 2, 3, 1)
_Order = tuple[int, ...]

_ALONE = "fewer than two operators that move memory"
_SHAPES = "it computes shapes, which onnxruntime does when it loads the model"
_SLOWER = "its kernel is estimated to take as long as its operators one by one, or longer"
_HALF = "it would round to float16 what onnxruntime keeps in float32 from operator to operator"
_LAYOUT = "it lies between convolutions or Transposes, where onnxruntime keeps another layout"


class Cost:
    """Judges the areas of one graph. `saves` says how many seconds the kernel of an area saves."""

    def __init__(self, graph: Graph, saves: Callable[[Area], float]) -> None:
        self._saves = saves
        nodes = graph.ordered()
        self._from_layout = _reached(nodes, lambda n: n.outputs, lambda n: n.inputs, _FIRST)
        self._to_layout = _reached(reversed(nodes), lambda n: n.inputs, lambda n: n.outputs, _LAST)

    def why_unprofitable(self, location: AreaLocation) -> str | None:
        """Why an area does not pay; None where it does."""
        moving = [
            node for node in location.area.nodes if kind_of(node.op_type) != OperatorKind.RESHAPE
        ]
        if len(moving) < 2:
            return _ALONE
        if all(_is_shape(value) for value in location.outputs):
            return _SHAPES
        made = {order for value in location.inputs for order in self._from_layout.get(value, ())}
        undone = {
            _inverse(order)
            for value in location.outputs
            for order in self._to_layout.get(value, ())
        }
        if made & undone:
            return _LAYOUT
        if _breaks_float32(location):
            return _HALF
        return None if self._saves(location.area) > 0 else _SLOWER

    def why_unprofitable_packet(self, location: AreaLocation) -> str | None:
        """Why a packet does not pay; None where it does."""
        if all(isinstance(dim, int) for value in location.inputs for dim in value.shape or ()):
            return _SHAPES
        return None if self._saves(location.area) > 0 else _SLOWER


def _is_shape(value: Edge) -> bool:
    return value.elem_type == TensorProto.INT64 and value.rank is not None and value.rank <= 1


def _breaks_float32(location: AreaLocation) -> bool:
    """Whether an operator beside the area has no kernel for float16: onnxruntime computes it in
    float32, and hands that on to the next such operator without rounding, but not to the kernel of
    an area and back.
    """
    before = [value.producer for value in location.inputs if value.elem_type == TensorProto.FLOAT16]
    halves = [value for value in location.outputs if value.elem_type == TensorProto.FLOAT16]
    behind = list(dict.fromkeys(user for value in halves for user in value.outputs))
    return any(
        node is not None and node not in location.nodes and _is_in_float32(node)
        for node in (*before, *behind)
    )


def _is_in_float32(node: Node) -> bool:
    types = [0 if value is None else value.elem_type for value in node.inputs]
    return not has_cpu_kernel(node.op, node.domain, node.graph.opset_of(node.domain), *types)


def _reached(
    nodes: Iterable[Node],
    ahead: Callable[[Node], Iterable[Edge | None]],
    behind: Callable[[Node], Iterable[Edge | None]],
    blocked: _Order,
) -> dict[Edge, set[_Order]]:
    """The values that come from another layout, or go to one, the operators being looked at in that
    direction; each with the orders of axes that lie between both. That of the blocked layout is
    `blocked`.
    """
    found: dict[Edge, set[_Order]] = {}
    for node in nodes:
        if node.operator in _BLOCKED:
            orders = {blocked}
        elif node.is_op("Transpose"):
            orders = {_order_of(node)}
        elif (
            kind_of(node.op) in (OperatorKind.ELEMWISE, OperatorKind.BROADCAST)
            or node.op in _PASSES_LAYOUT_ON
        ):
            orders = {
                order
                for value in behind(node)
                if value is not None
                for order in found.get(value, ())
            }
        else:
            continue
        for value in ahead(node):
            if value is not None and not value.is_constant and value.elem_type == TensorProto.FLOAT:
                found.setdefault(value, set()).update(
                    order for order in orders if len(order) == value.rank
                )
    return found


def _order_of(transpose: Node) -> _Order:
    value = transpose.inputs[0]
    return tuple(transpose.attr("perm") or reversed(range((value and value.rank) or 0)))


def _inverse(order: _Order) -> _Order:
    return tuple(order.index(axis) for axis in range(len(order)))
