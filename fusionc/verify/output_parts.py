"""Find the parts of an output that the model concatenates, such as boxes with values up to 640 and
scores up to 1 in one tensor.

Each part is judged like a separate output. With a single tolerance, any error in the parts with
small values would pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import onnx

from fusionc.model.functions import inlined
from fusionc.model.operators import canonical_domain
from fusionc.operators.facts import Trait, names_with
from fusionc.protos import infer_types, light_copy
from fusionc.verify.interface import tensor_dims
from fusionc.verify.joints import Dim, Joint

_DEEPEST = 64  # nodes that are followed from an output to its Concat
# Operators that compute each element from the element at the same place (and perhaps a constant),
# and keep its relative precision.
_ONE_BY_ONE = ("Abs", "Clip", "Div", "LeakyRelu", "Mul", "Neg", "Relu")
_SAME = ("Identity", "Cast", *_ONE_BY_ONE)
_MOVES = (*_SAME, *names_with(Trait.RESHAPES), "Transpose")
_Cuts = Mapping[int, tuple[Dim, ...]]  # the sizes of the parts along each concatenated axis


def joints_of(model: onnx.ModelProto) -> dict[str, tuple[Joint, ...]]:
    """The axes along which each output is concatenated. Outputs are left out unless a Concat
    computes them, directly or through operators that only move elements or compute them one by one.
    """
    try:
        flat = inlined(light_copy(model))
        if not _ends_in_concat(flat.graph):
            return {}
        graph = infer_types(flat).graph
    except Exception:  # if onnx cannot infer shapes, outputs are judged in one piece
        return {}
    ways = _Ways(graph)
    joints = {value.name: ways.cuts(value.name) for value in graph.output}
    return {
        name: tuple(Joint(*cut) for cut in cuts.items()) for name, cuts in joints.items() if cuts
    }


def _ends_in_concat(graph: onnx.GraphProto) -> bool:
    """Whether an output may be concatenated. This avoids a slow shape inference of large models."""
    makers = {name: node for node in graph.node for name in node.output}
    pending = [value.name for value in graph.output]
    seen = set[str]()
    while pending:
        node = makers.get(name := pending.pop())
        if node is None or name in seen:
            continue
        if node.op_type == "Concat":
            return True
        seen.add(name)
        pending += (
            node.input
            if node.op_type in _ONE_BY_ONE
            else node.input[:1]
            if node.op_type in _MOVES
            else ()
        )
    return False


@dataclass
class _Ways:
    graph: onnx.GraphProto
    _makers: dict[str, onnx.NodeProto] = field(init=False)
    _dims: dict[str, tuple[Dim, ...] | None] = field(init=False)

    def __post_init__(self) -> None:
        self._makers = {name: node for node in self.graph.node for name in node.output}
        values = (*self.graph.input, *self.graph.value_info, *self.graph.output)
        self._dims = {value.name: tensor_dims(value) for value in values}
        self._dims |= {tensor.name: tuple(tensor.dims) for tensor in self.graph.initializer}

    def cuts(self, name: str, deep: int = 0) -> _Cuts:
        """The sizes of the parts of a value, by axis."""
        node = self._makers.get(name)
        dims = self._dims.get(name)
        if node is None or canonical_domain(node.domain) or deep > _DEEPEST or not dims:
            return {}
        if node.op_type == "Concat":
            return self._joined(node, dims, deep + 1)
        return self._moved(node, dims, deep + 1) if node.op_type in _MOVES else {}

    def _moved(self, node: onnx.NodeProto, dims: Sequence[Dim], deep: int) -> _Cuts:
        """The parts of the output of a node that moves elements, or that computes each element from
        one element.
        """
        read = self._elements_of(node, dims) if node.op_type in _ONE_BY_ONE else node.input[0]
        behind = self.cuts(read, deep)
        if node.op_type in _SAME or not behind:
            return behind
        before = self._dims.get(read) or ()
        places = _order(node, len(before)) if node.op_type == "Transpose" else _kept(before, dims)
        return {places[axis]: sizes for axis, sizes in behind.items() if axis in places}

    def _elements_of(self, node: onnx.NodeProto, dims: Sequence[Dim]) -> str:
        """The input from whose elements a node computes the elements at the same places; "" if it
        uses two such inputs.
        """
        known = [(name, self._dims.get(name)) for name in node.input if name]
        read = [name for name, sizes in known if sizes is None or any(size != 1 for size in sizes)]
        return read[0] if len(read) == 1 and self._dims.get(read[0]) == tuple(dims) else ""

    def _joined(self, node: onnx.NodeProto, dims: Sequence[Dim], deep: int) -> _Cuts:
        """The parts of the output of a Concat: along its own axis, and along each other axis along
        which all its inputs are concatenated in the same way.
        """
        axis = next(a.i for a in node.attribute if a.name == "axis") % len(dims)
        each = [self.cuts(name, deep) for name in node.input]
        sizes = (
            self._sizes(name, axis, cuts.get(axis, ()))
            for name, cuts in zip(node.input, each, strict=True)
        )
        found: dict[int, tuple[Dim, ...]] = {axis: tuple(chain.from_iterable(sizes))}
        for other in each[0].keys() - {axis}:
            if all(cuts.get(other) == each[0][other] for cuts in each):
                found[other] = each[0][other]
        return found

    def _sizes(self, name: str, axis: int, inner: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """The sizes of a value's parts along an axis, if all of them are numbers. Otherwise the
        size of the whole axis as the only part, as a number or a name.
        """
        if inner and all(isinstance(size, int) for size in inner):
            return inner
        dims = self._dims.get(name) or ()
        return (dims[axis] if axis < len(dims) else name,)


def _order(node: onnx.NodeProto, rank: int) -> dict[int, int]:
    """The new place of each axis after a Transpose."""
    order = next(
        (list(a.ints) for a in node.attribute if a.name == "perm"), list(range(rank))[::-1]
    )
    return {axis: place for place, axis in enumerate(order)}


def _kept(before: Sequence[Dim], dims: Sequence[Dim]) -> dict[int, int]:
    """The new places of the axes that a Reshape keeps: leading and trailing axes, as far as their
    sizes are equal.
    """
    places = dict[int, int]()
    for here, there in zip(range(len(before)), range(len(dims)), strict=False):
        if before[here] != dims[there]:
            break
        places[here] = there
    for here, there in zip(range(len(before))[::-1], range(len(dims))[::-1], strict=False):
        if before[here] != dims[there] or here in places:
            break
        places[here] = there
    return places
