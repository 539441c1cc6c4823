"""Operators whose meaning changes between opsets and that onnx's version converter does not convert
correctly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, TensorShapeProto, TypeProto

from fusionc.model.operators import ALIGNED_BEFORE_7, canonical_domain
from fusionc.operators.changed_defaults import CHANGED_DEFAULTS
from fusionc.operators.early_operators import EARLY
from fusionc.protos import is_external
from fusionc.requested.target_opset.limits import raising_error
from fusionc.requested.target_opset.unknown import HIDDEN

# The opsets at which operators changed their meaning.
_NUMPY = 7
_SCAN = 9
_RESIZE = 11
_INPUTS = 11
_DROPOUT = 12
_ONE_AXIS = 13
_ALLOW_ZERO = 14
_GROUPS = 21
_MAX_FLOAT = float(np.finfo(np.float32).max)  # the default bound of Clip
# By operator: the attributes that become inputs at a newer opset, and their defaults.
_ATTRIBUTES_TO_INPUTS: dict[str, dict[str, Any]] = {
    "Clip": {"min": -_MAX_FLOAT, "max": _MAX_FLOAT},
    "Pad": {"pads": [], "value": 0.0},
}


class Meanings:
    """Preserves the meaning of the nodes of one graph, without its subgraphs, in a conversion to a
    newer opset. `write_out` is called before onnx's converter, `complete` after it.
    """

    def __init__(
        self, graph: GraphProto, types: Mapping[str, TypeProto], old: int, new: int
    ) -> None:
        self._graph = graph
        self._types = types
        self._old = old
        self._new = new
        # the attributes to add after the conversion, by the first output of the node
        self._implied: dict[str, dict[str, int | float | str]] = {}
        # outputs that may have a size 0, and whose node is replaced by nodes that end in a Reshape
        self._may_be_empty = set[str]()

    def write_out(self, used: Iterable[str], fresh: Callable[[str], str]) -> None:
        """Before the conversion, replace nodes whose meaning would change. `used` are the names of
        all used values, and `fresh` makes new names. Raises FusioncError if a node cannot be
        replaced.
        """
        nodes = list(self._graph.node)
        needed = set(used)
        del self._graph.node[:]
        for node in nodes:
            self._require_meaning(node, needed)
            self._keep_defaults(node)
            if self._changes(node, _RESIZE, "Resize", "Upsample"):
                self._implied[node.output[0]]["nearest_mode"] = self._nearest_mode(node, nodes)
            self._graph.node.extend(self._replacement(node, fresh))

    def _require_meaning(self, node: NodeProto, needed: set[str]) -> None:
        """Raise FusioncError for a node whose meaning the newer opset cannot express."""
        if self._changes(node, _NUMPY, "BatchNormalization", "Dropout") and not _attribute(
            node, "is_test", 0
        ):
            raise raising_error(
                self._old, self._new, f"{node.op_type} without is_test trains before opset {_NUMPY}"
            )
        if self._changes(node, _SCAN, "Scan"):
            raise raising_error(
                self._old, self._new, "Scan of opset 8 has a batch axis, newer versions do not"
            )
        if self._changes(node, _DROPOUT, "Dropout") and needed.intersection(node.output[1:]):
            raise raising_error(
                self._old,
                self._new,
                f"the mask of Dropout is false before opset {_DROPOUT}, and true from then on",
            )

    def _replacement(self, node: NodeProto, fresh: Callable[[str], str]) -> list[NodeProto]:
        """The nodes that the converter gets instead of a node."""
        written = [node]
        if self._changes(node, _NUMPY, *ALIGNED_BEFORE_7, "PRelu"):
            written = self._align(node, fresh)
        is_float = (
            self._element_type(node.input[0]) in (0, TensorProto.FLOAT) if node.input else True
        )
        if self._changes(node, _INPUTS, *_ATTRIBUTES_TO_INPUTS) and not is_float:
            # hidden from the converter, which would give every type constants of type float
            node.domain = HIDDEN
        if self._changes(node, _ONE_AXIS, "Softmax", "LogSoftmax", "Hardmax"):
            written = self._by_one_axis(node, fresh)
        if self._changes(node, EARLY["LayerNormalization"], "LayerNormalization"):
            written = _cast_norm(node, [self._element_type(name) for name in node.input[:2]], fresh)
        if self._changes(node, _GROUPS, "GroupNormalization"):
            written = _channel_norm(node, fresh)
        return written

    def _by_one_axis(self, node: NodeProto, fresh: Callable[[str], str]) -> list[NodeProto]:
        """The nodes that the converter gets instead of a Softmax, LogSoftmax or Hardmax. A Hardmax
        is replaced here. The other two stay, because the converter replaces them.

        In both cases the replacement ends in a Reshape, which would read a dimension of size 0 as
        "copy from the input". `complete` therefore adds `allowzero` to the Reshape.
        """
        dims = self._dims(node.input[0])
        if dims is not None and any(
            dim.HasField("dim_value") and not dim.dim_value for dim in dims
        ):
            return [onnx.helper.make_node("Identity", node.input, node.output, node.name)]
        if self._new >= _ALLOW_ZERO and (dims is None or not all(dim.dim_value for dim in dims)):
            self._may_be_empty.add(node.output[0])
        return _by_one_axis(node, fresh) if node.op_type == "Hardmax" else [node]

    def complete(self, converted: GraphProto, fresh: Callable[[str], str]) -> None:
        """After the conversion, write out the old value of attributes whose default has changed.
        Nodes that were hidden from the converter get constant inputs instead of attributes.
        """
        for node in converted.node:
            implied = dict(self._implied.get(node.output[0], {})) if node.output else {}
            if node.op_type == "Reshape" and node.output[0] in self._may_be_empty:
                implied["allowzero"] = 1
            written = {attribute.name for attribute in node.attribute}
            missing = {name: value for name, value in implied.items() if name not in written}
            node.attribute.extend(
                onnx.helper.make_attribute(name, value) for name, value in missing.items()
            )
            if node.op_type in _ATTRIBUTES_TO_INPUTS and node.domain == HIDDEN:
                node.domain = ""
                converted.initializer.extend(self._constants(node, fresh))

    def _constants(self, node: NodeProto, fresh: Callable[[str], str]) -> list[TensorProto]:
        """The constant inputs that replace the attributes of a Clip or a Pad, in the element type
        of the node. A Clip always gets both bounds, because at the old opset the default bounds are
        those of float32 for all types.
        """
        dtype = onnx.helper.tensor_dtype_to_np_dtype(self._element_type(node.input[0]))
        values = {
            attribute.name: onnx.helper.get_attribute_value(attribute)
            for attribute in node.attribute
        }
        defaults = _ATTRIBUTES_TO_INPUTS[node.op_type]
        _keep_attributes(node, lambda name: name not in defaults)
        tensors = []
        for name, default in defaults.items():
            node.input.append(fresh(f"{node.output[0]}_{name}"))
            with np.errstate(over="ignore"):
                array = np.array(values.get(name, default)).astype(
                    np.int64 if name == "pads" else dtype
                )
            tensors.append(onnx.numpy_helper.from_array(array, node.input[-1]))
        return tensors

    def _keep_defaults(self, node: NodeProto) -> None:
        """Note the old default values of omitted attributes whose default changes."""
        rows = [row for row in CHANGED_DEFAULTS if row.op == node.op_type]
        written = {attribute.name for attribute in node.attribute}
        types = {self._element_type(name) for name in node.input[:2]}
        for row in rows:
            is_meant = row.attribute not in written and (not row.of or not types.isdisjoint(row.of))
            if self._changes(node, row.since, row.op) and is_meant:
                self._implied.setdefault(node.output[0], {})[row.attribute] = row.before

    def _align(self, node: NodeProto, fresh: Callable[[str], str]) -> list[NodeProto]:
        """The node with its second operand aligned for numpy's broadcasting: an Unsqueeze adds
        dimensions of 1 at the end.

        Before opset 7, the slopes of a PRelu were aligned with the channels. The second operand of
        other operators began at the axis that the attribute `axis` gave.
        """
        is_prelu = node.op_type == "PRelu"
        axis = 1 if is_prelu else _attribute(node, "axis", None)
        if axis is None or (is_prelu and self._is_one(node.input[1])):
            return [node]
        first, second = self._ranks(node)
        axis += first if axis < 0 else 0
        _keep_attributes(node, lambda name: name != "axis")
        if axis + second >= first:
            return [node]
        operand = node.input[1]
        node.input[1] = fresh(f"{operand}_aligned")
        axes = list(range(second, first - axis))
        return [onnx.helper.make_node("Unsqueeze", [operand], [node.input[1]], axes=axes), node]

    def _dims(self, name: str) -> Sequence[TensorShapeProto.Dimension] | None:
        tensor = self._types[name].tensor_type if name in self._types else TypeProto.Tensor()
        return list(tensor.shape.dim) if tensor.HasField("shape") else None

    def _ranks(self, node: NodeProto) -> tuple[int, int]:
        """The ranks of both operands. Raises FusioncError if the rank of an operand is unknown."""
        ranks = [self._rank(name) for name in node.input]
        if None in ranks:
            why = (
                f"{node.op_type} aligns its operands differently before opset {_NUMPY}, and the "
                "rank of an operand is unknown"
            )
            raise raising_error(self._old, self._new, why)
        return ranks[0] or 0, ranks[1] or 0

    def _rank(self, name: str) -> int | None:
        dims = self._dims(name)
        return None if dims is None else len(dims)

    def _is_one(self, name: str) -> bool:
        """Whether a value has one element."""
        dims = self._dims(name)
        return dims is not None and all(dim.dim_value == 1 for dim in dims)

    def _element_type(self, name: str) -> int:
        """The element type of a value; 0 if it is unknown."""
        return self._types[name].tensor_type.elem_type if name in self._types else 0

    def _changes(self, node: NodeProto, since: int, *operators: str) -> bool:
        return (
            self._old < since <= self._new
            and node.op_type in operators
            and not canonical_domain(node.domain)
        )

    def _nearest_mode(self, node: NodeProto, nodes: Iterable[NodeProto]) -> str:
        """The `nearest_mode` that preserves the meaning of a Resize: "floor" if the node enlarges,
        and "ceil" if it reduces.
        """
        modes = [attribute.s for attribute in node.attribute if attribute.name == "mode"]
        if node.op_type == "Upsample" or modes not in ([], [b"nearest"]):
            return "floor"
        scales = self._constant(node.input[1], nodes)
        if scales is None or scales.min() < 1 < scales.max():
            why = (
                "Resize of opset 10 selects the nearest element in another way, which a newer "
                "Resize can do only if its scales are constants that all enlarge or all reduce"
            )
            raise raising_error(self._old, self._new, why)
        return "floor" if scales.min() >= 1 else "ceil"

    def _constant(self, name: str, nodes: Iterable[NodeProto]) -> np.ndarray[Any, Any] | None:
        """The elements of a Constant or an initializer. None if the value is not constant, or if
        its elements are external.
        """
        constants = (node for node in nodes if node.op_type == "Constant" and name in node.output)
        tensors = [node.attribute[0].t for node in constants]
        tensors += [tensor for tensor in self._graph.initializer if tensor.name == name]
        if not tensors or is_external(tensors[0]):
            return None
        return onnx.numpy_helper.to_array(tensors[0])


def _keep_attributes(node: NodeProto, is_kept: Callable[[str], bool]) -> None:
    """Remove the attributes whose names are not kept."""
    kept = [attribute for attribute in node.attribute if is_kept(attribute.name)]
    del node.attribute[:]
    node.attribute.extend(kept)


def _attribute(node: NodeProto, name: str, default: int | None) -> int | None:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)


def _by_one_axis(hardmax: NodeProto, fresh: Callable[[str], str]) -> list[NodeProto]:
    """Nodes that compute an old Hardmax, which takes the maximum over all axes from `axis` on, by a
    new Hardmax, which takes it over one axis.
    """
    axis = _attribute(hardmax, "axis", 1)
    (x,) = hardmax.input
    (y,) = hardmax.output
    shape, rows, one = (fresh(f"{y}_{what}") for what in ("shape", "rows", "hardmax"))
    return [
        onnx.helper.make_node("Shape", [x], [shape]),
        onnx.helper.make_node("Flatten", [x], [rows], axis=axis),
        onnx.helper.make_node("Hardmax", [rows], [one], hardmax.name, axis=1),
        onnx.helper.make_node("Reshape", [one, shape], [y], hardmax.name),
    ]


def _cast_norm(
    norm: NodeProto, types: Sequence[int], fresh: Callable[[str], str]
) -> list[NodeProto]:
    """The nodes for a LayerNormalization whose weights and input have different types: Casts to the
    wider type are added. The result has the type of the weights.
    """
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


def _channel_norm(norm: NodeProto, fresh: Callable[[str], str]) -> list[NodeProto]:
    """A GroupNormalization in the new form, which has a scale and a bias for each channel. The old
    form has a scale and a bias for each group.
    """
    x, *parameters = norm.input
    groups = next(attribute.i for attribute in norm.attribute if attribute.name == "num_groups")
    count, column, channels, size, wide, flat = (
        fresh(f"{norm.output[0]}_{what}")
        for what in ("groups", "column", "channels", "size", "wide", "flat")
    )
    nodes = [
        onnx.helper.make_node("Constant", [], [count], value_ints=[groups]),
        onnx.helper.make_node("Constant", [], [column], value_ints=[groups, 1]),
        onnx.helper.make_node("Constant", [], [flat], value_ints=[-1]),
        onnx.helper.make_node("Shape", [x], [channels], start=1, end=2),
        onnx.helper.make_node("Div", [channels, count], [size]),
        onnx.helper.make_node("Concat", [count, size], [wide], axis=0),
    ]
    for at, name in enumerate(parameters, start=1):
        rows, repeated, each = (fresh(f"{name}_{what}") for what in ("rows", "repeated", "each"))
        nodes += [
            onnx.helper.make_node("Reshape", [name, column], [rows]),
            onnx.helper.make_node("Expand", [rows, wide], [repeated]),
            onnx.helper.make_node("Reshape", [repeated, flat], [each]),
        ]
        norm.input[at] = each
    return [*nodes, norm]
