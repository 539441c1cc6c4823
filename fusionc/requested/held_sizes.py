"""Which nodes hold a size of an input, so that it cannot change: a Reshape to a constant shape, a
constant that is added, weights of a product.

Shapes are inferred for the sizes of the model, and again for other sizes. A Reshape should keep a
changed axis at its place. For every other operator, inference says whether it takes the changed
inputs. If a Reshape holds a size, the search goes on with the shape that it should have. In this
way it finds all holders. Sometimes the constant shape of a Reshape can be read in only one way.
Then -1 or 0 can replace the size that it holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import accumulate, zip_longest
from operator import mul
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto, helper, numpy_helper
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError

from fusionc.model.graph import Edge, Graph, Model, Node, Shape
from fusionc.model.operators import is_foreign
from fusionc.model.write_back import write_back
from fusionc.passes import PASSES
from fusionc.protos import fresh_name, graphs_in, light_copy, own_names, shapeless
from fusionc.rewrite.log import RewriteLog
from fusionc.rewrite.pipeline import run
from fusionc.shapes.inference import typed_model
from fusionc.shapes.onnx_inference import ask

_MOST_ROUNDS = 30  # each goes on after the Reshapes that the last one found
_BROADCASTING = ("Max", "Mean", "Min", "Sum")
_CHANNELS = (
    "BatchNormalization",
    "Conv",
    "ConvTranspose",
    "InstanceNormalization",
    "LayerNormalization",
)
_TAKING = ("Gather", "Resize", "Slice", "TopK")
_Array = np.ndarray[Any, Any]
_Place = tuple[int, str]  # of a node: the number of its graph, and a name there
Shapes = Mapping[_Place, _Array]  # of Reshapes


class Holders(NamedTuple):
    """Descriptions of the nodes that hold a size, in the order of the model. `correctable` are
    Reshapes. With their new shapes, which are in `shapes`, they no longer hold it.
    """

    fixed: list[str]
    correctable: list[str]
    shapes: Shapes


def shapes_only(model: ModelProto) -> ModelProto:
    """A copy for the inference of shapes: without large weights, and with everything folded that
    depends on constants alone.
    """
    built = typed_model(light_copy(model), "")
    run(built, [p for p in PASSES if p.name == "ConstantFoldingPass"], RewriteLog())
    return write_back(built)


class TwoSizes:
    """A model with its own sizes (`before`) and with other sizes (`after`), and the shapes of its
    values. `light` is the result of `shapes_only`. `weights` are the initializers of the model.
    `sizes` are the new sizes of inputs, by input name and axis. A size is a number, or a symbol for
    any size. `reached` are the values that depend on these inputs.
    """

    def __init__(
        self,
        light: ModelProto,
        weights: Collection[str],
        sizes: Mapping[str, Mapping[int, int | str]],
    ) -> None:
        self._weights = weights
        self.before = typed_model(light, "")
        self.reached = _dependent_values(self.before, sizes)
        self._changed = ModelProto()
        self._changed.CopyFrom(light)
        graphs = list(graphs_in(self._changed.graph))
        for info in (info for graph in graphs for info in (*graph.value_info, *graph.output)):
            if info.name in self.reached:  # its type holds for the sizes of the model only
                info.type.CopyFrom(shapeless(info.type))
        self._is_one = False  # whether an axis of size 1 changes
        for value in self._changed.graph.input:
            for axis, size in sizes.get(value.name, {}).items():
                dim = value.type.tensor_type.shape.dim[axis]
                self._is_one |= dim.dim_value == 1
                if isinstance(size, int):
                    dim.dim_value = size
                else:
                    dim.dim_param = size
        self.after = typed_model(self._changed, "")

    def holders(self) -> Holders:
        """The nodes that hold a size."""
        found: dict[_Place, str] = {}
        readings: dict[_Place, _Array] = {}
        for _ in range(_MOST_ROUNDS):
            right: dict[_Place, _Array] = {}  # shapes that Reshapes should have
            found.update(self._search(right, readings))
            if not right:
                break
            give_shapes(self._changed, right)
            self.after = typed_model(self._changed, "")
        fixed = [text for place, text in found.items() if place not in readings]
        correctable = [text for place, text in found.items() if place in readings]
        return Holders(fixed, correctable, readings)

    def _search(
        self, right: dict[_Place, _Array], readings: dict[_Place, _Array]
    ) -> Iterator[tuple[_Place, str]]:
        """The nodes that hold a size, each with its description; `right` and `readings` as in
        `_holder`.
        """
        behind = set[Edge]()  # values whose shape is not known yet, as a holder comes before them
        for node in _all_nodes(self.after.main):
            handed = (value for body in node.subgraphs() for value in body.outputs)
            is_behind = not behind.isdisjoint(
                (*filter(None, node.inputs), *node.captures(), *handed)
            )
            holder = "" if is_behind else self._holder(node, right, readings)
            if holder:
                yield _place_of(node), holder
            if holder or is_behind:
                behind.update(filter(None, node.outputs))

    def _is_other(self, value: Edge) -> bool:
        return value.name in self.reached and value.shape != self._shapes_of(value)[0]

    def _shapes_of(self, value: Edge | None) -> tuple[Shape | None, Shape | None]:
        """The shapes of a value of `after`: in `before` and in `after`."""
        if value is None:
            return None, None
        former = self.before.graphs[value.graph.id].values.get(value.name)
        return None if former is None else former.shape, value.shape

    def _holder(
        self, node: Node, right: dict[_Place, _Array], readings: dict[_Place, _Array]
    ) -> str:
        """The description of a node that holds a size; empty if it does not. Adds to `right` the
        shape that a Reshape should have, and to `readings` a constant shape that does not hold the
        size.
        """
        inputs = [value for value in node.inputs if value is not None]
        is_touched = self._fails(node) or any(map(self._is_other, inputs))
        if is_foreign(node) or not is_touched:
            return ""
        constant = inputs[1].constant() if len(inputs) > 1 else None
        reason = self._reason(node, inputs, constant, right, readings)
        return reason and f"{node.op} {node.name or node.proto.output[0]}: {reason}"

    def _reason(
        self,
        node: Node,
        inputs: Sequence[Edge],
        constant: _Array | None,
        right: dict[_Place, _Array],
        readings: dict[_Place, _Array],
    ) -> str:
        """How a node holds a size; empty if it does not. `constant` is its second input."""
        if constant is not None and node.is_op("Reshape"):
            return self._shape_that_holds(node, constant, right, readings)
        if constant is not None and node.is_op(*_TAKING) and self._took_all(node, constant):
            return "it takes all of the size, and no more"
        return "" if self._takes(node) else self._operands_that_hold(node, inputs, constant)

    def _shape_that_holds(
        self, node: Node, given: _Array, right: dict[_Place, _Array], readings: dict[_Place, _Array]
    ) -> str:
        """The description of the constant shape of a Reshape; `right` and `readings` as in
        `_holder`.
        """
        shape = self._shape_it_should_have(node, given)
        if shape is None:
            return ""
        right[_place_of(node)] = shape
        reading = self._only_reading(node, given)
        if reading is not None:
            readings[_place_of(node)] = reading
        return _constant_shape(given)

    def _fails(self, node: Node) -> bool:
        """Whether the shape of an output was known and is unknown now."""
        return any(
            former is not None and now is None for former, now in map(self._shapes_of, node.outputs)
        )

    def _takes(self, node: Node) -> bool:
        """Whether an operator takes the present sizes of its inputs."""
        try:
            ask(node, is_new=True)
        except (InferenceError, ValidationError):
            return False
        return not self._is_at_odds(node)

    def _operands_that_hold(self, node: Node, inputs: Sequence[Edge], given: _Array | None) -> str:
        """The description of the inputs whose sizes did not change with those of the others."""
        if node.is_op("Expand") and given is not None:
            return _constant_shape(given)
        same = [
            f"{self._kind(v)}{v.name} is {_text(v.shape)}"
            for v in inputs
            if v.shape and not self._is_other(v)
        ]
        return ", ".join(same) or ("its attributes have the size" if len(inputs) == 1 else "")

    def _kind(self, value: Edge) -> str:
        return "the constant " if value.is_constant or value.name in self._weights else ""

    def _moved_axes(self, node: Node) -> list[_MovedAxis]:
        """The axes of the input of a Reshape that change; none if the dimensions are unknown."""
        (former, now) = self._shapes_of(node.inputs[0])
        (made, _) = self._shapes_of(node.outputs[0])
        sizes = _numbers(former)
        changed = _numbers(now)
        result = _numbers(made)
        if sizes is None or changed is None or result is None:
            return []
        places = [_places(sizes, axis, result) for axis in range(len(sizes))]
        ones = {place for place, size in enumerate(result) if size == 1}
        ones -= {
            found[0] for found, size in zip(places, sizes, strict=True) if size == 1 == len(found)
        }
        return [
            _MovedAxis(axis, size, other, places[axis], result, bool(ones))
            for axis, (size, other) in enumerate(zip(sizes, changed, strict=True))
            if size != other
        ]

    def _shape_it_should_have(self, node: Node, target: _Array) -> _Array | None:
        """The shape that a Reshape should have. None if it already has that shape, or if the
        dimensions are unknown.
        """
        shape = target.copy()
        for axis in self._moved_axes(node):
            if axis.places and not axis.follows(node, target):
                last = axis.places[-1]
                shape[last] = axis.made[last] * axis.other // axis.size
        return None if np.array_equal(shape, target) else shape

    def _only_reading(self, node: Node, target: _Array) -> _Array | None:
        """The only constant shape that takes the held sizes from the input; None if there are
        several. If one dimension has to follow the input, it becomes -1. If several have to,
        those that stay at their axis become 0.
        """
        moved = self._moved_axes(node)
        held = [axis for axis in moved if not axis.follows(node, target)]
        is_empty = 0 in (*(axis.size for axis in moved), *held[0].made)
        if is_empty or any(axis.is_ambiguous(self._is_one) for axis in held):
            return None
        copied = set[int]() if node.attr("allowzero", 0) else _copied_axes(held, target)
        places = _all_places(held) - copied
        if len(places) > 1 or any(
            not copied.isdisjoint(axis.places) for axis in moved if axis.axis not in copied
        ):
            return None
        shape = target.copy()
        shape[list(copied)] = 0
        return _put_following(shape, places, held[0].made, _all_places(moved))

    def _is_at_odds(self, node: Node) -> bool:
        """Whether a size changed and no longer fits another input, which did not change. onnx's
        inference does not check that for these operators.
        """
        if node.is_op(*_BROADCASTING):
            return not _can_broadcast([value.shape for value in node.inputs if value is not None])
        former, now = self._shapes_of(node.inputs[0])
        if not node.is_op(*_CHANNELS) or former is None or now is None or len(now) < 2:
            return False
        axis = -1 if node.is_op("LayerNormalization") else 1
        is_kept = node.inputs[1] is not None and not self._is_other(node.inputs[1])
        return is_kept and _grows(former[axis], now[axis])

    def _took_all(self, node: Node, given: _Array) -> bool:
        """Whether an operator took all of an axis and now takes only a part."""
        (former, now) = self._shapes_of(node.inputs[0])
        (made, makes) = self._shapes_of(node.outputs[0])
        if former is None or now is None or made is None or makes is None:
            return False
        if node.is_op("Gather"):
            axis = node.attr("axis", 0)
            return _grows(former[axis], now[axis]) and former[axis] == given.size
        return any(
            a == b == c and _grows(a, d)
            for a, b, c, d in zip(former, made, makes, now, strict=True)
        )


class _MovedAxis(NamedTuple):
    """An axis of the input of a Reshape. Its size changes from `size` to `other`. In the output, it
    lies in the axes `places`. `made` are the sizes of all axes of the output. `has_new_ones` says
    that the output has an axis of size 1 that no input axis accounts for.
    """

    axis: int
    size: int
    other: int
    places: list[int]
    made: list[int]
    has_new_ones: bool

    def follows(self, node: Node, target: _Array) -> bool:
        """Whether a constant shape takes the size from the input."""
        return any(_follows(node, target, place, self.axis) for place in self.places)

    @property
    def is_copied(self) -> bool:
        """Whether the output has the same axis at the same position."""
        return self.places == [self.axis] and self.made[self.axis] == self.size

    def is_ambiguous(self, may_hold_one: bool) -> bool:
        """Whether the changing size may lie in several places. `may_hold_one` says that this axis
        may contain a changing axis of size 1, which an earlier Reshape joined to it.

        If the Reshape joins an axis of size 1 to another axis, it may as well move the axis to any
        place of size 1: a Transpose that moves only such axes is often written as a Reshape. For
        the same reason, a Reshape may split an axis of size 1 off again.
        """
        is_joined = self.size == 1 and any(self.made[place] != 1 for place in self.places)
        may_part = may_hold_one and self.size > 1
        return len(self.places) != 1 or ((is_joined or may_part) and self.has_new_ones)


def give_shapes(model: ModelProto, shapes: Shapes) -> None:
    """Give Reshapes these constant shapes."""
    graphs = list(graphs_in(model.graph))
    taken = dict.fromkeys((name for graph in graphs for name in own_names(graph)), 1)
    for number, graph in enumerate(graphs):
        at = {node.output[0]: index for index, node in enumerate(graph.node) if node.output}
        found = [
            (at[output], shape) for (place, output), shape in shapes.items() if place == number
        ]
        for index, shape in sorted(found, key=lambda one: one[0], reverse=True):
            node = graph.node[index]
            name = fresh_name(f"{node.output[0]}/shape", taken)
            node.input[1] = name
            constant = helper.make_node(
                "Constant", [], [name], value=numpy_helper.from_array(shape)
            )
            graph.node.insert(index, constant)


def _all_places(axes: Iterable[_MovedAxis]) -> set[int]:
    return {place for axis in axes for place in axis.places}


def _copied_axes(held: Sequence[_MovedAxis], target: _Array) -> set[int]:
    """The axes for which a constant shape may have a 0. There are none if a single -1 is enough for
    all held axes.
    """
    needs_more = len(_all_places(held)) > 1 or -1 in target
    return {axis.axis for axis in held if axis.is_copied} if needs_more else set()


def _put_following(
    shape: _Array, places: Set[int], made: Sequence[int], moved: Set[int]
) -> _Array | None:
    """The shape with -1 at the place in `places`, if there is one. A former -1 becomes the size in
    `made`. None if the former -1 is at one of the `moved` places.
    """
    for place in places:
        former = np.flatnonzero(shape == -1).tolist()
        if not moved.isdisjoint(former):
            return None
        shape[former] = [made[other] for other in former]
        shape[place] = -1
    return shape


def _constant_shape(given: _Array) -> str:
    return f"its shape is the constant {given.tolist()}"


def _all_nodes(graph: Graph) -> Iterator[Node]:
    """The nodes in order; those in subgraphs come before the node that has the subgraph."""
    for node in graph.ordered():
        for body in node.subgraphs():
            yield from _all_nodes(body)
        yield node


def _place_of(node: Node) -> _Place:
    return node.graph.id, node.proto.output[0]


def _dependent_values(model: Model, inputs: Iterable[str]) -> set[str]:
    """The values that depend on these inputs; for a node with subgraphs, all values in them."""
    names = set(inputs)
    for node in model.main.ordered():
        if any(
            value is not None and value.name in names for value in (*node.inputs, *node.captures())
        ):
            names.update(value.name for value in node.outputs if value is not None)
            names.update(name for body in node.subgraphs(recursive=True) for name in body.values)
    return names


def _numbers(shape: Shape | None) -> list[int] | None:
    """The dimensions if all are known."""
    known = [dim for dim in shape or () if isinstance(dim, int)]
    return None if shape is None or len(known) < len(shape) else known


def _grows(former: int | str | None, now: int | str | None) -> bool:
    """Whether a dimension is known to have changed."""
    return isinstance(former, int) and isinstance(now, int) and former != now


def _can_broadcast(shapes: Sequence[Shape | None]) -> bool:
    """Whether values of these shapes can be broadcast, as far as their sizes are known."""
    aligned = zip_longest(*(reversed(shape) for shape in shapes if shape is not None))
    sizes = ({dim for dim in dims if isinstance(dim, int) and dim != 1} for dims in aligned)
    return all(len(different) <= 1 for different in sizes)


def _places(given: Sequence[int], axis: int, made: Sequence[int]) -> list[int]:
    """The axes of a Reshape's output in which an axis of its input lies. These are the axes equal
    to it, else those that contain it, else those that are parts of it.

    Axes are compared as ranges of strides in memory. The range begins at the stride of the axis,
    the product of the later dimensions. It ends at that stride times the size of the axis.
    """
    low = _strides(given)[axis]
    high = low * given[axis]
    ranges = [(start, start * size) for start, size in zip(_strides(made), made, strict=True)]
    same = [at for at, (start, end) in enumerate(ranges) if (start, end) == (low, high)]
    around = [at for at, (start, end) in enumerate(ranges) if start <= low and high <= end]
    return (
        same
        or around
        or [at for at, (start, end) in enumerate(ranges) if low <= start and end <= high]
    )


def _strides(shape: Sequence[int]) -> list[int]:
    return [*accumulate(reversed(shape), mul, initial=1)][-2::-1]


def _follows(node: Node, target: _Array, place: int, axis: int) -> bool:
    """Whether a constant shape takes the size at a place from an axis of the input: -1, or 0 at the
    same axis.
    """
    return bool(target[place] == -1) or bool(
        target[place] == 0 and place == axis and not node.attr("allowzero", 0)
    )


def _text(shape: Shape | None) -> str:
    return f"[{', '.join(map(str, shape or ()))}]"
