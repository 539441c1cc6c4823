"""Which nodes hold a size of an input, so that it cannot be another one: a Reshape to a constant shape, a constant that
is added, weights of a product.

Shapes are inferred for the sizes that the model has and for twice these. A Reshape should keep the axis where it was;
every other operator says itself whether it takes its inputs. Behind a Reshape that holds a size the search goes on with
the shape that it should have made, so that all are found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, zip_longest
from operator import mul
from typing import Any

import numpy as np
from onnx import ModelProto, numpy_helper
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError

from fusionc.model.graph import Edge, Graph, Model, Node, Shape
from fusionc.model.operators import is_foreign
from fusionc.model.write_back import write_back
from fusionc.passes import PASSES
from fusionc.protos import fresh_name, graphs_in, own_names, shapeless, without_large_weights
from fusionc.rewrite.log import RewriteLog
from fusionc.rewrite.pipeline import run
from fusionc.shapes.inference import typed_model
from fusionc.shapes.onnx_inference import ask

_MOST_ROUNDS = 30  # each finds what lies behind the Reshapes of the one before
_BROADCASTING = ("Max", "Mean", "Min", "Sum")
_CHANNELS = ("BatchNormalization", "Conv", "ConvTranspose", "InstanceNormalization", "LayerNormalization")
_TAKING = ("Gather", "Resize", "Slice", "TopK")
_Array = np.ndarray[Any, Any]
_Place = tuple[int, str]  # of a node: the number of its graph, and a name there


def shapes_only(model: ModelProto) -> ModelProto:
    """A copy for the inference of shapes: without large weights, and with what constants alone make computed."""
    built = typed_model(without_large_weights(model), "")
    run(built, [p for p in PASSES if p.name == "ConstantFoldingPass"], RewriteLog())
    return write_back(built)


class TwoSizes:
    """A model at its sizes (`before`) and at others (`after`), with the shapes of its values.

    `light` is what `shapes_only` makes of the model, whose initializers are the `weights`; `sizes` are those of the
    inputs that change, by input name and axis: numbers, or symbols that stand for any. `reached` are the values that
    depend on these inputs.
    """

    def __init__(
        self, light: ModelProto, weights: Collection[str], sizes: Mapping[str, Mapping[int, int | str]]
    ) -> None:
        self._weights = weights
        self.before = typed_model(light, "")
        self.reached = _reached(self.before, sizes)
        self._changed = ModelProto()
        self._changed.CopyFrom(light)
        graphs = list(graphs_in(self._changed.graph))
        for info in (info for graph in graphs for info in (*graph.value_info, *graph.output)):
            if info.name in self.reached:  # it holds for the sizes that the model has
                info.type.CopyFrom(shapeless(info.type))
        for value in self._changed.graph.input:
            for axis, size in sizes.get(value.name, {}).items():
                dim = value.type.tensor_type.shape.dim[axis]
                if isinstance(size, int):
                    dim.dim_value = size
                else:
                    dim.dim_param = size
        self.after = typed_model(self._changed, "")

    def holders(self) -> list[str]:
        """The nodes that hold a size, in order, each with what there is of a constant size."""
        found: dict[_Place, str] = {}
        for _ in range(_MOST_ROUNDS):
            right: dict[_Place, _Array] = {}  # shapes that Reshapes should have
            behind = set[Edge]()  # what a size that is held has made another, or nothing, for now
            for node in _with_those_inside(self.after.main):
                handed = (value for body in node.subgraphs() for value in body.outputs)
                is_behind = not behind.isdisjoint((*filter(None, node.inputs), *node.captures(), *handed))
                holder = "" if is_behind else self._holder(node, right)
                if holder:
                    found[node.graph.id, node.label()] = holder
                if holder or is_behind:
                    behind.update(filter(None, node.outputs))
            if not right:
                break
            self._set(right)
        return list(found.values())

    def _is_other(self, value: Edge) -> bool:
        return value.name in self.reached and value.shape != self._shapes_of(value)[0]

    def _shapes_of(self, value: Edge | None) -> tuple[Shape | None, Shape | None]:
        """The shape of a value of `after`: before, and now."""
        if value is None:
            return None, None
        former = self.before.graphs[value.graph.id].values.get(value.name)
        return None if former is None else former.shape, value.shape

    def _holder(self, node: Node, right: dict[_Place, _Array]) -> str:
        """What to say of a node that holds a size; empty where it does not."""
        inputs = [value for value in node.inputs if value is not None]
        fails = any(former is not None and now is None for former, now in map(self._shapes_of, node.outputs))
        if is_foreign(node) or not (fails or any(map(self._is_other, inputs))):
            return ""
        called = f"{node.op} {node.name or node.proto.output[0]}"
        given = inputs[1].constant() if len(inputs) > 1 else None
        if node.is_op("Reshape") and given is not None:
            shape = self._shape_it_should_have(node, given)
            if shape is None:
                return ""
            right[_place_of(node)] = shape
            return f"{called}: its shape is the constant {given.tolist()}"
        if node.is_op(*_TAKING) and given is not None and self._took_all(node, given):
            return f"{called}: it takes all of the size, and no more"
        try:
            ask(node, is_new=True)
            takes = not self._is_at_odds(node)
        except (InferenceError, ValidationError):
            takes = False
        if not takes:
            if node.is_op("Expand") and given is not None:
                return f"{called}: its shape is the constant {given.tolist()}"
            same = [f"{self._kind(v)}{v.name} is {_text(v.shape)}" for v in inputs if v.shape and not self._is_other(v)]
            if same or len(inputs) == 1:
                return f"{called}: {', '.join(same) or 'its attributes have the size'}"
        return ""

    def _kind(self, value: Edge) -> str:
        return "the constant " if value.is_constant or value.name in self._weights else ""

    def _shape_it_should_have(self, node: Node, target: _Array) -> _Array | None:
        """None where the Reshape has it, or where the dimensions are not known."""
        (former, now), (made, _) = self._shapes_of(node.inputs[0]), self._shapes_of(node.outputs[0])
        given, changed, result = _numbers(former), _numbers(now), _numbers(made)
        if given is None or changed is None or result is None:
            return None
        shape = target.copy()
        for axis, (size, other) in enumerate(zip(given, changed, strict=True)):
            places = [] if size == other else _places(given, axis, result)
            if places and not any(_follows(node, target, place, axis) for place in places):
                shape[places[-1]] = result[places[-1]] * other // size
        return None if np.array_equal(shape, target) else shape

    def _is_at_odds(self, node: Node) -> bool:
        """Whether a size has changed that another input, which has not, has to have, too; of these operators onnx's
        inference does not say so."""
        shapes = [v.shape for v in node.inputs if v is not None]
        if node.is_op(*_BROADCASTING):
            sizes = [{d for d in dims if isinstance(d, int) and d != 1} for dims in _aligned(shapes)]
            return any(len(found) > 1 for found in sizes)
        former, now = self._shapes_of(node.inputs[0])
        if not node.is_op(*_CHANNELS) or former is None or now is None or len(now) < 2:
            return False
        axis = -1 if node.is_op("LayerNormalization") else 1
        is_kept = node.inputs[1] is not None and not self._is_other(node.inputs[1])
        return is_kept and _grows(former[axis], now[axis])

    def _took_all(self, node: Node, given: _Array) -> bool:
        """Whether an operator took all of an axis, and takes no longer all of it."""
        (former, now), (made, makes) = self._shapes_of(node.inputs[0]), self._shapes_of(node.outputs[0])
        if former is None or now is None or made is None or makes is None:
            return False
        if node.is_op("Gather"):
            axis = node.attr("axis", 0)
            return _grows(former[axis], now[axis]) and former[axis] == given.size
        return any(a == b == c and _grows(a, d) for a, b, c, d in zip(former, made, makes, now, strict=True))

    def _set(self, shapes: Mapping[_Place, _Array]) -> None:
        """Let Reshapes make these shapes."""
        graphs = list(graphs_in(self._changed.graph))
        taken = dict.fromkeys((name for graph in graphs for name in own_names(graph)), 1)
        for number, graph in enumerate(graphs):
            for node in (node for node in graph.node if node.output and (number, node.output[0]) in shapes):
                name = fresh_name(f"{node.output[0]}/shape", taken)
                graph.initializer.append(numpy_helper.from_array(shapes[number, node.output[0]], name))
                node.input[1] = name
        self.after = typed_model(self._changed, "")


def _with_those_inside(graph: Graph) -> Iterator[Node]:
    """The nodes in order, those in subgraphs before the one whose they are."""
    for node in graph.ordered():
        for body in node.subgraphs():
            yield from _with_those_inside(body)
        yield node


def _place_of(node: Node) -> _Place:
    return node.graph.id, node.proto.output[0]


def _reached(model: Model, inputs: Iterable[str]) -> set[str]:
    """What depends on these inputs; of a node with subgraphs all that is in these."""
    found = set(inputs)
    for node in model.main.ordered():
        if any(value is not None and value.name in found for value in (*node.inputs, *node.captures())):
            found.update(value.name for value in node.outputs if value is not None)
            found.update(name for body in node.subgraphs(recursive=True) for name in body.values)
    return found


def _numbers(shape: Shape | None) -> list[int] | None:
    """The dimensions, where all are known."""
    known = [dim for dim in shape or () if isinstance(dim, int)]
    return None if shape is None or len(known) < len(shape) else known


def _grows(former: int | str | None, now: int | str | None) -> bool:
    """Whether a dimension is known to be another one."""
    return isinstance(former, int) and isinstance(now, int) and former != now


def _aligned(shapes: Sequence[Shape | None]) -> Iterator[tuple[int | str | None, ...]]:
    """The dimensions that meet each other when values are broadcast."""
    return zip_longest(*(reversed(shape) for shape in shapes if shape is not None))


def _places(given: Sequence[int], axis: int, made: Sequence[int]) -> list[int]:
    """The axes of what a Reshape makes in which an axis of its input lies: those that are just it, if there are some,
    else the one that it is a part of, or its parts.

    In memory an axis goes from the product of the dimensions behind it to that with its own.
    """
    low = _behind(given)[axis]
    high = low * given[axis]
    ranges = [(start, start * size) for start, size in zip(_behind(made), made, strict=True)]
    same = [at for at, (start, end) in enumerate(ranges) if (start, end) == (low, high)]
    around = [at for at, (start, end) in enumerate(ranges) if start <= low and high <= end]
    return same or around or [at for at, (start, end) in enumerate(ranges) if low <= start and end <= high]


def _behind(shape: Sequence[int]) -> list[int]:
    return [*accumulate(reversed(shape), mul, initial=1)][-2::-1]


def _follows(node: Node, target: _Array, place: int, axis: int) -> bool:
    """Whether the size at a place of a constant shape is that of an axis of the input, or what is left over."""
    return bool(target[place] == -1) or bool(target[place] == 0 and place == axis and not node.attr("allowzero", 0))


def _text(shape: Shape | None) -> str:
    return f"[{', '.join(map(str, shape or ()))}]"
