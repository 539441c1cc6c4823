"""Find the nodes that hold an input size, that is, that need exactly this size. Examples: a Reshape
to a constant shape, an Add of a constant, or a MatMul with weights.

Shapes are inferred for the sizes of the model, and again for other sizes of its inputs. A Reshape
holds a size if its constant shape contains the size of an axis that changes. For other operators,
shape inference says whether they accept the changed inputs. After a Reshape that holds a size, the
search continues as if the Reshape had the shape that the other sizes need; so the search also finds
the holders after it. If the constant shape of a Reshape can be interpreted in only one way, the
held size can be replaced by -1 or 0.
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

_MAX_ROUNDS = 30  # each round searches after the Reshapes that the previous round found
_BROADCASTING = ("Max", "Mean", "Min", "Sum")
_CHANNELS = (
    "BatchNormalization",
    "Conv",
    "ConvTranspose",
    "InstanceNormalization",
    "LayerNormalization",
)
_SELECTING = ("Gather", "Resize", "Slice", "TopK")
_Array = np.ndarray[Any, Any]
_Place = tuple[int, str]  # a node: the number of its graph, and the name of its first output
Shapes = Mapping[_Place, _Array]  # the constant shapes of Reshapes


class Holders(NamedTuple):
    """The nodes that hold a size, in the order of the model."""

    fixed: list[str]  # descriptions of nodes that cannot be corrected
    correctable: list[str]  # descriptions of Reshapes that can be corrected
    shapes: Shapes  # the corrected shapes of these Reshapes


def shapes_only(model: ModelProto) -> ModelProto:
    """A copy of the model for shape inference: without large weights, and with constants folded."""
    built = typed_model(light_copy(model), "")
    run(built, [p for p in PASSES if p.name == "ConstantFoldingPass"], RewriteLog())
    return write_back(built)


class TwoSizes:
    """The shapes of a model with its own sizes (`before`) and with other sizes (`after`).

    `light` is the result of `shapes_only`, and `weights` are the initializers of the model. `sizes`
    are the new sizes of inputs by input name and axis: numbers, or symbols for any size. `reached`
    are the names of the values that depend on these inputs.
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
            if (
                info.name in self.reached
            ):  # the declared shape is correct only for the model's own sizes
                info.type.CopyFrom(shapeless(info.type))
        self._is_one = False  # whether a dimension of size 1 changes
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
        descriptions: dict[_Place, str] = {}
        corrected: dict[_Place, _Array] = {}
        for _ in range(_MAX_ROUNDS):
            right: dict[_Place, _Array] = {}  # the shapes that Reshapes should have
            descriptions.update(self._search(right, corrected))
            if not right:
                break
            give_shapes(self._changed, right)
            self.after = typed_model(self._changed, "")
        fixed = [text for place, text in descriptions.items() if place not in corrected]
        correctable = [text for place, text in descriptions.items() if place in corrected]
        return Holders(fixed, correctable, corrected)

    def _search(
        self, right: dict[_Place, _Array], corrected: dict[_Place, _Array]
    ) -> Iterator[tuple[_Place, str]]:
        """The nodes that hold a size, each with its description. `_holder` explains `right` and
        `corrected`.
        """
        unclear = set[Edge]()  # values after a holder: their shapes are not yet known
        for node in _all_nodes(self.after.main):
            body_outputs = (value for body in node.subgraphs() for value in body.outputs)
            is_unclear = not unclear.isdisjoint(
                (*filter(None, node.inputs), *node.captures(), *body_outputs)
            )
            holder = "" if is_unclear else self._holder(node, right, corrected)
            if holder:
                yield _place_of(node), holder
            if holder or is_unclear:
                unclear.update(filter(None, node.outputs))

    def _has_changed(self, value: Edge) -> bool:
        return value.name in self.reached and value.shape != self._shapes_of(value)[0]

    def _shapes_of(self, value: Edge | None) -> tuple[Shape | None, Shape | None]:
        """The shapes in `before` and in `after` of a value of `after`."""
        if value is None:
            return None, None
        former = self.before.graphs[value.graph.id].values.get(value.name)
        return None if former is None else former.shape, value.shape

    def _holder(
        self, node: Node, right: dict[_Place, _Array], corrected: dict[_Place, _Array]
    ) -> str:
        """The description of a node that holds a size. Empty if the node does not hold a size. If
        the node is a Reshape that holds a size, the shape that it needs for the other sizes is
        added to `right`. If its constant shape can be corrected to suit all sizes, the corrected
        shape is added to `corrected`.
        """
        inputs = [value for value in node.inputs if value is not None]
        is_affected = self._lost_shape(node) or any(map(self._has_changed, inputs))
        if is_foreign(node) or not is_affected:
            return ""
        constant = inputs[1].constant() if len(inputs) > 1 else None
        reason = self._reason(node, inputs, constant, right, corrected)
        return reason and f"{node.op} {node.name or node.proto.output[0]}: {reason}"

    def _reason(
        self,
        node: Node,
        inputs: Sequence[Edge],
        constant: _Array | None,
        right: dict[_Place, _Array],
        corrected: dict[_Place, _Array],
    ) -> str:
        """How a node holds a size. Empty if it does not hold a size. `constant` is the second input
        of the node, if it is a constant.
        """
        if constant is not None and node.is_op("Reshape"):
            return self._shape_that_holds(node, constant, right, corrected)
        if constant is not None and node.is_op(*_SELECTING) and self._selected_all(node, constant):
            return "it selects a whole axis, and with another size it would select only a part"
        return "" if self._accepts(node) else self._operands_that_hold(node, inputs, constant)

    def _shape_that_holds(
        self,
        node: Node,
        target: _Array,
        right: dict[_Place, _Array],
        corrected: dict[_Place, _Array],
    ) -> str:
        """The description of the constant shape `target` of a Reshape, if this shape holds a size.
        `_holder` explains `right` and `corrected`.
        """
        shape = self._right_shape(node, target)
        if shape is None:
            return ""
        right[_place_of(node)] = shape
        correction = self._corrected_shape(node, target)
        if correction is not None:
            corrected[_place_of(node)] = correction
        return _constant_shape(target)

    def _lost_shape(self, node: Node) -> bool:
        """Whether the shape of an output is known in `before` and unknown in `after`."""
        return any(
            former is not None and now is None for former, now in map(self._shapes_of, node.outputs)
        )

    def _accepts(self, node: Node) -> bool:
        """Whether an operator accepts the changed sizes of its inputs."""
        try:
            ask(node, is_new=True)
        except (InferenceError, ValidationError):
            return False
        return not self._is_at_odds(node)

    def _operands_that_hold(
        self, node: Node, inputs: Sequence[Edge], constant: _Array | None
    ) -> str:
        """The description of the inputs whose shapes did not change although the shapes of other
        inputs of the node did.
        """
        if node.is_op("Expand") and constant is not None:
            return _constant_shape(constant)
        same = [
            f"{self._kind(v)}{v.name} is {_text(v.shape)}"
            for v in inputs
            if v.shape and not self._has_changed(v)
        ]
        return ", ".join(same) or ("its attributes have the size" if len(inputs) == 1 else "")

    def _kind(self, value: Edge) -> str:
        return "the constant " if value.is_constant or value.name in self._weights else ""

    def _moved_axes(self, node: Node) -> list[_MovedAxis]:
        """The axes of the input of a Reshape whose sizes change. Empty if sizes are unknown."""
        (former, now) = self._shapes_of(node.inputs[0])
        sizes = _numbers(former)
        changed = _numbers(now)
        result = _numbers(self._shapes_of(node.outputs[0])[0])
        if sizes is None or changed is None or result is None:
            return []
        places = [_places(sizes, axis, result) for axis in range(len(sizes))]
        ones = {place for place, size in enumerate(result) if size == 1}
        ones -= {
            axes[0] for axes, size in zip(places, sizes, strict=True) if size == 1 == len(axes)
        }
        return [
            _MovedAxis(axis, size, other, places[axis], result, bool(ones))
            for axis, (size, other) in enumerate(zip(sizes, changed, strict=True))
            if size != other
        ]

    def _right_shape(self, node: Node, target: _Array) -> _Array | None:
        """The constant shape that a Reshape needs for the changed sizes. None if it already has
        this shape, or if sizes are unknown.
        """
        shape = target.copy()
        for axis in self._moved_axes(node):
            if axis.places and not axis.follows(node, target):
                last = axis.places[-1]
                shape[last] = axis.result[last] * axis.other // axis.size
        return None if np.array_equal(shape, target) else shape

    def _corrected_shape(self, node: Node, target: _Array) -> _Array | None:
        """A constant shape with which the Reshape takes the held sizes from its input. None if the
        present shape can be interpreted in several ways. If one dimension has to follow the input,
        it becomes -1. If several dimensions have to follow the input, those that stay at the same
        axis become 0.
        """
        moved = self._moved_axes(node)
        held = [axis for axis in moved if not axis.follows(node, target)]
        is_empty = 0 in (*(axis.size for axis in moved), *held[0].result)
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
        return _put_following(shape, places, held[0].result, _all_places(moved))

    def _is_at_odds(self, node: Node) -> bool:
        """Whether the changed size of one input no longer fits another input that did not change.
        This check is needed because onnx's inference does not make it for some operators.
        """
        if node.is_op(*_BROADCASTING):
            return not _can_broadcast([value.shape for value in node.inputs if value is not None])
        former, now = self._shapes_of(node.inputs[0])
        if not node.is_op(*_CHANNELS) or former is None or now is None or len(now) < 2:
            return False
        axis = -1 if node.is_op("LayerNormalization") else 1
        is_kept = node.inputs[1] is not None and not self._has_changed(node.inputs[1])
        return is_kept and _is_changed(former[axis], now[axis])

    def _selected_all(self, node: Node, constant: _Array) -> bool:
        """Whether an operator selected a whole axis with the former sizes, and selects only a part
        with the changed sizes.
        """
        (former, now) = self._shapes_of(node.inputs[0])
        (former_result, result) = self._shapes_of(node.outputs[0])
        if former is None or now is None or former_result is None or result is None:
            return False
        if node.is_op("Gather"):
            axis = node.attr("axis", 0)
            return _is_changed(former[axis], now[axis]) and former[axis] == constant.size
        return any(
            a == b == c and _is_changed(a, d)
            for a, b, c, d in zip(former, former_result, result, now, strict=True)
        )


class _MovedAxis(NamedTuple):
    """An axis of the input of a Reshape whose size changes."""

    axis: int
    size: int  # the former size
    other: int  # the changed size
    places: list[int]  # the axes of the output that contain this axis
    result: list[int]  # the former sizes of all axes of the output, which `places` counts
    has_new_ones: bool  # whether the output has an axis of size 1 that no input axis becomes

    def follows(self, node: Node, target: _Array) -> bool:
        """Whether the constant shape takes the size of this axis from the input, by -1 or 0."""
        return any(_follows(node, target, place, self.axis) for place in self.places)

    @property
    def is_copied(self) -> bool:
        """Whether the output has the same axis at the same position."""
        return self.places == [self.axis] and self.result[self.axis] == self.size

    def is_ambiguous(self, may_hold_one: bool) -> bool:
        """Whether it is unclear which axis of the output has the changing size. `may_hold_one` says
        whether an earlier Reshape may have merged a changing axis of size 1 into this axis.

        An axis of size 1 that seems to be merged into another axis may instead have moved to any
        output axis of size 1: a Transpose of such axes is often written as a Reshape. For the same
        reason, a Reshape may split a merged axis of size 1 off again.
        """
        is_joined = self.size == 1 and any(self.result[place] != 1 for place in self.places)
        may_part = may_hold_one and self.size > 1
        return len(self.places) != 1 or ((is_joined or may_part) and self.has_new_ones)


def give_shapes(model: ModelProto, shapes: Shapes) -> None:
    """Replace the constant shapes of Reshapes."""
    graphs = list(graphs_in(model.graph))
    taken = dict.fromkeys((name for graph in graphs for name in own_names(graph)), 1)
    for number, graph in enumerate(graphs):
        at = {node.output[0]: index for index, node in enumerate(graph.node) if node.output}
        own = [(at[output], shape) for (place, output), shape in shapes.items() if place == number]
        for index, shape in sorted(own, key=lambda one: one[0], reverse=True):
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
    """The axes at which the constant shape gets a 0, which copies the size of the same input axis.
    Empty if a single -1 is enough for all held axes.
    """
    needs_more = len(_all_places(held)) > 1 or -1 in target
    return {axis.axis for axis in held if axis.is_copied} if needs_more else set()


def _put_following(
    shape: _Array, places: Set[int], result: Sequence[int], moved: Set[int]
) -> _Array | None:
    """The shape with -1 at the only place in `places`, or unchanged if `places` is empty. Another
    -1 in the shape becomes the size in `result`. None if this other -1 is at one of the `moved`
    places.
    """
    for place in places:
        former = np.flatnonzero(shape == -1).tolist()
        if not moved.isdisjoint(former):
            return None
        shape[former] = [result[other] for other in former]
        shape[place] = -1
    return shape


def _constant_shape(shape: _Array) -> str:
    return f"its shape is the constant {shape.tolist()}"


def _all_nodes(graph: Graph) -> Iterator[Node]:
    """All nodes in topological order. The nodes of a subgraph come before the node with the
    subgraph.
    """
    for node in graph.ordered():
        for body in node.subgraphs():
            yield from _all_nodes(body)
        yield node


def _place_of(node: Node) -> _Place:
    return node.graph.id, node.proto.output[0]


def _dependent_values(model: Model, inputs: Iterable[str]) -> set[str]:
    """The names of the values that depend on these inputs. If a node depends on these inputs, all
    values in its subgraphs count as dependent.
    """
    names = set(inputs)
    for node in model.main.ordered():
        if any(
            value is not None and value.name in names for value in (*node.inputs, *node.captures())
        ):
            names.update(value.name for value in node.outputs if value is not None)
            names.update(name for body in node.subgraphs(recursive=True) for name in body.values)
    return names


def _numbers(shape: Shape | None) -> list[int] | None:
    """The sizes of a shape; None if a size is unknown."""
    known = [dim for dim in shape or () if isinstance(dim, int)]
    return None if shape is None or len(known) < len(shape) else known


def _is_changed(former: int | str | None, now: int | str | None) -> bool:
    """Whether a dimension is known to have changed."""
    return isinstance(former, int) and isinstance(now, int) and former != now


def _can_broadcast(shapes: Sequence[Shape | None]) -> bool:
    """Whether these shapes can be broadcast together. An unknown size fits every size."""
    aligned = zip_longest(*(reversed(shape) for shape in shapes if shape is not None))
    sizes = ({dim for dim in dims if isinstance(dim, int) and dim != 1} for dims in aligned)
    return all(len(different) <= 1 for different in sizes)


def _places(shape: Sequence[int], axis: int, result: Sequence[int]) -> list[int]:
    """The axes of a Reshape's output that correspond to an axis of its input: the axes equal to the
    input axis, or else the axes that contain it, or else the axes that are parts of it.

    Axes are compared by their ranges of strides in memory. The range of an axis begins at its
    stride, which is the product of all later dimensions, and ends at this stride times the size of
    the axis.
    """
    low = _strides(shape)[axis]
    high = low * shape[axis]
    ranges = [(start, start * size) for start, size in zip(_strides(result), result, strict=True)]
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
    """Whether the constant shape takes the size at a place from an axis of the input: it has -1
    there, or 0 at the same axis.
    """
    return bool(target[place] == -1) or bool(
        target[place] == 0 and place == axis and not node.attr("allowzero", 0)
    )


def _text(shape: Shape | None) -> str:
    return f"[{', '.join(map(str, shape or ()))}]"
