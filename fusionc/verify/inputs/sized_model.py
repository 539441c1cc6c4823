"""What is known about the reference (the original model) at given sizes before it runs: the cost of
a run, and whether onnx's shape inference accepts the sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import onnx
from onnx import TensorProto, helper, shape_inference

from fusionc.operators.facts import Trait, names_with
from fusionc.operators.node_work import Dims, node_work
from fusionc.protos import bodies_of, infer_types, light_copy, reads_of
from fusionc.verify.budget import Work
from fusionc.verify.inputs.formulas import Sizes, with_sizes
from fusionc.verify.inputs.size_choices import rank_symbol, shape_at
from fusionc.verify.interface import Port

_ITEM = 4  # bytes of an element of unknown type
_WIDE = {TensorProto.INT64: 8, TensorProto.DOUBLE: 8, TensorProto.UINT64: 8, TensorProto.STRING: 32}
# an input or output is in memory this many times while it is compared; some copies are float64
_HELD = 12
_MANY_NODES = 20_000  # for this many nodes, inference with data propagation takes seconds
# nodes to infer, summed over all proposed sizes; after that, a known cost is scaled by the number
# of elements of the inputs
_MOST_INFERRED = 100_000
_MOST_TRIPS = 1 << 20
_ERRORS = "[ShapeInferenceError] Inference error(s): "
_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
_A_CALL = 2_000  # the overhead of running a node costs as much as computing this many elements


@dataclass(frozen=True)
class _Inferred:
    weights: frozenset[str]
    shapes: dict[str, Dims] = field(default_factory=dict)
    item: dict[str, int] = field(default_factory=dict)  # bytes of an element
    guessed: set[str] = field(default_factory=set)  # values whose shapes are guessed


class SizedModel:
    """Computes the cost of the reference on demand, for given sizes of the symbols of its inputs.

    If the shape of a value depends on the contents of other values, it is unknown. Such a value is
    assumed to be as large as the largest input of its producer.
    """

    def __init__(self, model: onnx.ModelProto, ports: Sequence[Port]) -> None:
        self._given = model
        self._ports = ports
        self._light: onnx.ModelProto | None = None
        self._known: dict[tuple[tuple[str, int], ...], Work] = {}
        self._left = _MOST_INFERRED
        self._strict: onnx.ModelProto | None = None
        # the nodes that onnx refuses at all sizes
        self._always: frozenset[str] = frozenset()
        self._refused: dict[tuple[tuple[str, int], ...], bool] = {}

    def work(self, sizes: Sizes) -> Work:
        """The cost of one run at these sizes."""
        key = tuple(sorted(sizes.items()))
        if key not in self._known:
            nodes = len(self._given.graph.node)
            self._known[key] = (
                self._scaled(sizes) if self._known and self._left < nodes else self._inferred(sizes)
            )
            self._left -= nodes
        return self._known[key]

    def refuses(self, sizes: Sizes) -> bool:
        """Whether onnx's inference says that a node cannot have these sizes, whatever the sizes of
        the other symbols are.

        Nodes inside a branch or a loop do not count, because the branch may not be taken. For a
        large model only a limited number of sizes is tested; after that, none is refused.
        """
        key = tuple(sorted(sizes.items()))
        if key not in self._refused:
            nodes = len(self._given.graph.node)
            if self._left < nodes or nodes > _MANY_NODES:
                return False
            self._left -= nodes
            self._refused[key] = bool(self._contradictions(sizes) - self._always)
        return self._refused[key]

    def _contradictions(self, sizes: Sizes) -> frozenset[str]:
        if self._strict is None:
            self._strict = _unsized(self._given)
            _drop_empty_operands(self._strict)
            self._always = self._contradictions({})
        _declare(self._strict, self._ports, sizes)
        try:
            shape_inference.infer_shapes(self._strict, strict_mode=True)
        except Exception as error:  # onnx and protobuf raise errors of their own
            return frozenset(_nodes_at_fault(str(error)))
        return frozenset()

    def _scaled(self, sizes: Sizes) -> Work:
        old, known = next(iter(self._known.items()))
        return known.scaled(self._fed(sizes), self._fed(dict(old)))

    def _fed(self, sizes: Sizes) -> int:
        return sum(prod(shape_at(port, sizes)) for port in self._ports if port.kind == "tensor")

    def _inferred(self, sizes: Sizes) -> Work:
        if self._light is None:
            self._light = _unsized(self._given)
        light = self._light
        _declare(light, self._ports, sizes)
        try:
            found = (
                shape_inference.infer_shapes(light)
                if len(light.graph.node) > _MANY_NODES
                else infer_types(light)
            )
        except Exception:  # without shapes, the cost is computed from the inputs and outputs
            found = light
        known = _Inferred(frozenset(tensor.name for tensor in self._given.graph.initializer))
        _note(found.graph, known)
        functions = {(f.domain, f.name, f.overload): len(f.node) for f in light.functions}
        elements, guessed = _elements(found.graph, known, functions)
        made = sum(prod(known.shapes.get(value.name, (1,))) for value in found.graph.output)
        return Work(
            elements, _peak(found.graph, known) + self._held(found.graph, known), made, guessed
        )

    def _held(self, graph: onnx.GraphProto, known: _Inferred) -> int:
        names = [*(port.name for port in self._ports), *(value.name for value in graph.output)]
        return _HELD * sum(_bytes(name, known) for name in names)


def _unsized(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy without large weights and without declared shapes of values and outputs."""
    light = light_copy(model)
    del light.graph.value_info[:]
    for value in light.graph.output:
        value.type.tensor_type.ClearField("shape")
    return light


def _declare(model: onnx.ModelProto, ports: Sequence[Port], sizes: Sizes) -> None:
    """Give the inputs of a model these sizes; all other dimensions are open."""
    fed = {port.name: port for port in ports if port.kind == "tensor" and not port.optional}
    for value in model.graph.input:
        if value.name in fed:
            _fill(value.type.tensor_type, fed[value.name], sizes)


def _fill(kind: onnx.TypeProto.Tensor, port: Port, sizes: Sizes) -> None:
    kind.ClearField("shape")
    if port.dims is None and rank_symbol(port) not in sizes:
        return
    for dim in shape_at(port, sizes) if port.dims is None else port.dims:
        known = dim if isinstance(dim, int) else with_sizes(dim, sizes)
        if isinstance(known, int):
            kind.shape.dim.add(dim_value=known)
        else:
            kind.shape.dim.add(dim_param=known)
    if not port.dims:
        kind.shape.SetInParent()


def _drop_empty_operands(model: onnx.ModelProto) -> None:
    """Remove constants from Concats if they have no elements along the axis, because onnxruntime
    ignores their other sizes.
    """
    dims = {tensor.name: tensor.dims for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type != "Concat":
            continue
        axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
        if left := [
            name for name in node.input if name not in dims or not _is_empty(dims[name], axis)
        ]:
            node.input[:] = left


def _is_empty(dims: Dims, axis: int) -> bool:
    return -len(dims) <= axis < len(dims) and not dims[axis]


def _nodes_at_fault(said: str) -> Iterator[str]:
    """The nodes of the main graph that onnx names in an error, except nodes with subgraphs."""
    is_inside = False
    for line in said.removeprefix(_ERRORS).splitlines():
        node = line.partition("): ")[0]
        is_inside = bool(line) and (
            is_inside or node.removeprefix("(op_type:").split(",")[0] in names_with(Trait.CONTROL)
        )
        if node.startswith("(op_type:") and not is_inside:
            yield node


def _note(graph: onnx.GraphProto, known: _Inferred) -> None:
    """Note all shapes that are known in a graph and in inner ones. If a name occurs twice, the
    larger shape counts.
    """
    for tensor in graph.initializer:
        known.shapes[tensor.name] = tuple(tensor.dims)
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        known.item[value.name] = _WIDE.get(kind.elem_type, _ITEM)
        if not kind.HasField("shape") or not all(
            dim.HasField("dim_value") for dim in kind.shape.dim
        ):
            continue
        dims = tuple(dim.dim_value for dim in kind.shape.dim)
        if prod(dims) >= prod(known.shapes.get(value.name, (0,))):
            known.shapes[value.name] = dims
    for node in graph.node:
        for body in bodies_of(node):
            _note(body, known)


def _elements(
    graph: onnx.GraphProto,
    known: _Inferred,
    functions: Mapping[tuple[str, str, str], int],
    trips: int = 1,
) -> tuple[int, int]:
    """The cost of all nodes of a graph, and the cost of nodes whose sizes are guessed. The cost of
    a body is multiplied by the number of its runs if this number is known.
    """
    total = guessed = 0
    for node in graph.node:
        _guess(node, known)
        made = sum(prod(known.shapes.get(name, (1,))) for name in node.output if name)
        attributes = {
            a.name: helper.get_attribute_value(a) for a in node.attribute if a.type not in _GRAPHS
        }
        inputs = [known.shapes.get(name) for name in node.input]
        calls = functions.get((node.domain, node.op_type, node.overload), 1)
        work = trips * calls * node_work(node.op_type, attributes, inputs, made)
        total += work + trips * calls * _A_CALL
        guessed += 0 if known.guessed.isdisjoint(node.output) else work
        for body in bodies_of(node):
            inner = _elements(
                body, known, functions, min(trips * _trips(node, attributes, known), _MOST_TRIPS)
            )
            total += inner[0]
            guessed += inner[1]
    return total, guessed


def _guess(node: onnx.NodeProto, known: _Inferred) -> None:
    """Give each output of unknown shape the shape of the largest input that is not a weight. If a
    table is looked up, the rows get the width of the table.
    """
    shapes = known.shapes
    missing = [name for name in node.output if name and name not in shapes]
    if not missing:
        return
    read = [shapes[other] for other in node.input if other in shapes and other not in known.weights]
    guessed = max(read, key=prod, default=())
    if node.op_type == "Gather" and node.input[0] in known.weights:
        guessed = (*guessed, *shapes[node.input[0]][1:])
    shapes.update(dict.fromkeys(missing, guessed))
    known.guessed.update(missing)


def _trips(node: onnx.NodeProto, attributes: Mapping[str, Any], known: _Inferred) -> int:
    """How often the body of a node runs. For a Scan this is a size; otherwise 1, also for a Loop,
    whose number of runs is unknown.
    """
    if node.op_type != "Scan":
        return 1
    scanned = known.shapes.get(node.input[-1]) if node.input else None
    axis = next(iter(attributes.get("scan_input_axes") or (0,)))
    return scanned[axis] if scanned and -len(scanned) <= axis < len(scanned) else 1


def _bytes(name: str, known: _Inferred) -> int:
    return prod(known.shapes.get(name, (1,))) * known.item.get(name, _ITEM)


def _peak(graph: onnx.GraphProto, known: _Inferred) -> int:
    """The peak bytes of values, without weights, if nodes run in order."""
    last = {name: at for at, node in enumerate(graph.node) for name in reads_of(node)}
    last |= {value.name: len(graph.node) for value in graph.output}
    freed: dict[int, list[str]] = {}
    for name, at in last.items():
        freed.setdefault(at, []).append(name)
    held = {
        value.name: _bytes(value.name, known)
        for value in graph.input
        if value.name not in known.weights
    }
    live = peak = sum(held.values())
    for at, node in enumerate(graph.node):
        for name in filter(None, node.output):
            held[name] = _bytes(name, known)
            live += held[name]
        peak = max(peak, live)
        unread = (name for name in node.output if name not in last)
        live -= sum(held.pop(name, 0) for name in (*freed.get(at, ()), *unread))
    return peak
