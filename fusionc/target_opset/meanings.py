"""Operators that mean something else in a newer opset, which onnx's version converter leaves as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TypeProto

from fusionc.model.operators import ALIGNED_BEFORE_7, canonical_domain
from fusionc.operators.changed_defaults import CHANGED_DEFAULTS
from fusionc.protos import is_external
from fusionc.target_opset.limits import cannot
from fusionc.target_opset.unknown import EARLY

# The opsets since which they mean what they do now.
_NUMPY, _SCAN, _RESIZE, _DROPOUT, _HARDMAX, _GROUPS = 7, 9, 11, 12, 13, 21


class Meanings:
    """What the nodes of one graph, without those of its subgraphs, compute before and after the converter."""

    def __init__(self, graph: GraphProto, types: Mapping[str, TypeProto], old: int, new: int) -> None:
        self._graph, self._types, self._old, self._new = graph, types, old, new
        self._implied: dict[str, dict[str, int | float | str]] = {}  # attributes to come, by a node's first output

    def write_out(self, used: Iterable[str], fresh: Callable[[str], str]) -> None:
        """Write by other operators what would lose its meaning; FusioncError where that cannot be.

        `used` are the names of the values that somebody uses, `fresh` gives new ones.
        """
        nodes, needed = list(self._graph.node), set(used)
        del self._graph.node[:]
        for node in nodes:
            written = [node]
            self._keep_defaults(node)
            if self._changes(node, _NUMPY, *ALIGNED_BEFORE_7, "PRelu"):
                written = self._aligned(node, fresh)
            if self._changes(node, _NUMPY, "BatchNormalization", "Dropout") and not _attribute(node, "is_test", 0):
                raise cannot(self._old, self._new, f"{node.op_type} without is_test trains before opset {_NUMPY}")
            if self._changes(node, _SCAN, "Scan"):
                raise cannot(self._old, self._new, "Scan of opset 8 takes a batch, newer ones do not")
            if self._changes(node, _DROPOUT, "Dropout") and needed.intersection(node.output[1:]):
                raise cannot(self._old, self._new, f"the mask of Dropout is false before opset {_DROPOUT}, then true")
            if self._changes(node, _RESIZE, "Resize", "Upsample"):
                self._implied[node.output[0]]["nearest_mode"] = self._nearest_mode(node, nodes)
            if self._changes(node, _HARDMAX, "Hardmax"):
                written = _by_one_axis(node, fresh)
            if self._changes(node, EARLY["LayerNormalization"], "LayerNormalization"):
                written = _of_one_type(node, [self._element_type(name) for name in node.input[:2]], fresh)
            if self._changes(node, _GROUPS, "GroupNormalization"):
                written = _by_channel(node, fresh)
            self._graph.node.extend(written)

    def complete(self, nodes: Iterable[NodeProto]) -> None:
        """Give what the converter has made the attributes that say what was implied before."""
        for node in nodes:
            implied = self._implied.get(node.output[0], {}) if node.output else {}
            written = {attribute.name for attribute in node.attribute}
            left = {name: value for name, value in implied.items() if name not in written}
            node.attribute.extend(onnx.helper.make_attribute(name, value) for name, value in left.items())

    def _keep_defaults(self, node: NodeProto) -> None:
        """Note what attributes mean that a node leaves out, where that is something else in its newer version."""
        written = {attribute.name for attribute in node.attribute}
        types = {self._element_type(name) for name in node.input[:2]}
        for row in CHANGED_DEFAULTS:
            is_meant = row.attribute not in written and (not row.of or not types.isdisjoint(row.of))
            if self._changes(node, row.since, row.op) and is_meant:
                self._implied.setdefault(node.output[0], {})[row.attribute] = row.before

    def _aligned(self, node: NodeProto, fresh: Callable[[str], str]) -> list[NodeProto]:
        """The node with a second operand that has its axes where numpy looks for them: dimensions of 1 behind it.

        Of PRelu the slopes were those of channels, of others the second operand began at the axis.
        """
        ranks = [self._rank(name) for name in node.input]
        axis = 1 if node.op_type == "PRelu" else _attribute(node, "axis", None)
        if axis is None or (node.op_type == "PRelu" and self._is_one(node.input[1])):
            return [node]
        if None in ranks:
            why = f"{node.op_type} aligns its operands otherwise before opset {_NUMPY}, and here it matters, or may"
            raise cannot(self._old, self._new, f"{why}: the rank of an operand is unknown")
        first, second = (rank or 0 for rank in ranks[:2])
        axis += first if axis < 0 else 0
        kept = [attribute for attribute in node.attribute if attribute.name != "axis"]  # onnx knows none below 0
        del node.attribute[:]
        node.attribute.extend(kept)
        if axis + second >= first:
            return [node]
        operand = node.input[1]
        node.input[1] = fresh(f"{operand}_aligned")
        axes = list(range(second, first - axis))
        return [onnx.helper.make_node("Unsqueeze", [operand], [node.input[1]], axes=axes), node]

    def _rank(self, name: str) -> int | None:
        tensor = self._types[name].tensor_type if name in self._types else TypeProto.Tensor()
        return len(tensor.shape.dim) if tensor.HasField("shape") else None

    def _is_one(self, name: str) -> bool:
        """Whether a value has one element."""
        dims = self._types[name].tensor_type.shape.dim if self._rank(name) is not None else ()
        return self._rank(name) is not None and all(dim.dim_value == 1 for dim in dims)

    def _element_type(self, name: str) -> int:
        """The element type of a value; 0 where it is unknown."""
        return self._types[name].tensor_type.elem_type if name in self._types else 0

    def _changes(self, node: NodeProto, since: int, *operators: str) -> bool:
        return self._old < since <= self._new and node.op_type in operators and not canonical_domain(node.domain)

    def _nearest_mode(self, node: NodeProto, nodes: Iterable[NodeProto]) -> str:
        """The element that "nearest" takes: the one before it where the result is larger, else the one behind it."""
        mode = next((attribute.s for attribute in node.attribute if attribute.name == "mode"), b"nearest")
        if node.op_type == "Upsample" or mode != b"nearest":
            return "floor"
        made = [n.attribute[0].t for n in nodes if n.op_type == "Constant" and node.input[1] in n.output]
        found = [*made, *(tensor for tensor in self._graph.initializer if tensor.name == node.input[1])]
        is_known = bool(found) and not is_external(found[0])
        scales = onnx.numpy_helper.to_array(found[0]) if is_known else np.array([0.5, 2])
        if scales.min() < 1 < scales.max():
            why = "Resize of opset 10 takes another nearest element, unless its scales are constants, all up or down"
            raise cannot(self._old, self._new, why)
        return "floor" if scales.min() >= 1 else "ceil"


def _attribute(node: NodeProto, name: str, default: int | None) -> int | None:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)


def _by_one_axis(hardmax: NodeProto, fresh: Callable[[str], str]) -> list[NodeProto]:
    """Of all elements from an axis on, which is what it was, by the Hardmax of one axis, which is what it is."""
    axis = _attribute(hardmax, "axis", 1)
    (x,), (y,) = hardmax.input, hardmax.output
    shape, rows, one = (fresh(f"{y}_{what}") for what in ("shape", "rows", "hardmax"))
    return [
        onnx.helper.make_node("Shape", [x], [shape]),
        onnx.helper.make_node("Flatten", [x], [rows], axis=axis),
        onnx.helper.make_node("Hardmax", [rows], [one], hardmax.name, axis=1),
        onnx.helper.make_node("Reshape", [one, shape], [y], hardmax.name),
    ]


def _of_one_type(norm: NodeProto, types: Sequence[int], fresh: Callable[[str], str]) -> list[NodeProto]:
    """A LayerNormalization whose weights have another type than its input, which is that of the result there."""
    if 0 in types or types[0] == types[1]:
        return [norm]
    widest = max(types, key=lambda type_: onnx.helper.tensor_dtype_to_np_dtype(type_).itemsize)
    casts = [(k, name) for k, name in enumerate(norm.input) if name and types[min(k, 1)] != widest]
    nodes = []
    for k, name in casts:
        norm.input[k] = fresh(f"{name}_cast")
        nodes.append(onnx.helper.make_node("Cast", [name], [norm.input[k]], to=widest))
    nodes.append(norm)
    if types[1] != widest:
        result = norm.output[0]
        norm.output[0] = fresh(f"{result}_wide")
        nodes.append(onnx.helper.make_node("Cast", [norm.output[0]], [result], to=types[1]))
    return nodes


def _by_channel(norm: NodeProto, fresh: Callable[[str], str]) -> list[NodeProto]:
    """With scale and bias for each channel, which they are, of those for each group, which they were."""
    x, *given = norm.input
    groups = next(attribute.i for attribute in norm.attribute if attribute.name == "num_groups")
    count, column, channels, size, wide, flat = (
        fresh(f"{norm.output[0]}_{what}") for what in ("groups", "column", "channels", "size", "wide", "flat")
    )
    made = [
        onnx.helper.make_node("Constant", [], [count], value_ints=[groups]),
        onnx.helper.make_node("Constant", [], [column], value_ints=[groups, 1]),
        onnx.helper.make_node("Constant", [], [flat], value_ints=[-1]),
        onnx.helper.make_node("Shape", [x], [channels], start=1, end=2),
        onnx.helper.make_node("Div", [channels, count], [size]),
        onnx.helper.make_node("Concat", [count, size], [wide], axis=0),
    ]
    for at, name in enumerate(given, start=1):
        rows, repeated, each = (fresh(f"{name}_{what}") for what in ("rows", "repeated", "each"))
        made += [
            onnx.helper.make_node("Reshape", [name, column], [rows]),
            onnx.helper.make_node("Expand", [rows, wide], [repeated]),
            onnx.helper.make_node("Reshape", [repeated, flat], [each]),
        ]
        norm.input[at] = each
    return [*made, norm]
