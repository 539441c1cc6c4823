"""The inputs and outputs that a model declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import onnx

from fusionc.model.tensors import dimension_of, type_name
from fusionc.protos import initialized, inputs_to_feed
from fusionc.verify.result import Difference

Dim = int | str


@dataclass(frozen=True)
class Port:
    """A declared input or output.

    `kind` is the container: a tensor, a sequence of tensors, or a map. `element_type` (a
    TensorProto type) and `dims` describe the tensor, each tensor of the sequence, or each value of
    the map, whose keys have the type `key_type`. A dimension is a size, or a name (symbol) if it is
    dynamic. Equal names mean equal sizes, and a dimension without a name gets a name of its own.
    `dims` is None if even the rank is unknown.
    """

    name: str
    kind: Literal["tensor", "sequence", "map"]
    element_type: int
    dims: tuple[Dim, ...] | None
    optional: bool = False
    key_type: int = 0

    def takes(self, shape: Sequence[int]) -> bool:
        """Whether the declaration allows a tensor of this shape."""
        sizes = zip(self.dims or (), shape, strict=False)
        is_alike = len(self.dims or ()) == len(shape) and all(
            isinstance(dim, str) or dim == size for dim, size in sizes
        )
        return self.dims is None or is_alike


def required_inputs(model: onnx.ModelProto) -> list[Port]:
    """The inputs that a caller must feed."""
    return [_port(value) for value in inputs_to_feed(model.graph)]


def overridable(model: onnx.ModelProto) -> list[str]:
    """The initializers that a caller may replace: those that are also listed as inputs. Empty
    before IR version 4, which requires every initializer to be listed.
    """
    if model.ir_version < 4:
        return []
    stored = initialized(model.graph)
    return [value.name for value in model.graph.input if value.name in stored]


def overridable_inputs(model: onnx.ModelProto) -> list[Port]:
    """The overridable initializers as inputs."""
    names = set(overridable(model))
    return [_port(value) for value in model.graph.input if value.name in names]


def declared_outputs(model: onnx.ModelProto) -> list[Port]:
    """The outputs that a caller gets."""
    return [_port(value) for value in model.graph.output]


def interface_differences(
    reference: onnx.ModelProto, candidate: onnx.ModelProto
) -> Iterator[Difference]:
    """The differences between the interfaces of the original model (the reference) and of the
    optimized one (the candidate) that a caller would notice.
    """
    inputs = [_declared(model, required=True) for model in (reference, candidate)]
    yield from _changed_declarations("input", *inputs)
    yield from _changed_order("input", *inputs)
    initializers = [_declared(model, required=False) for model in (reference, candidate)]
    yield from _changed_declarations("overridable initializer", *initializers)
    outputs = [
        {value.name: _type_text(value.type) for value in model.graph.output}
        for model in (reference, candidate)
    ]
    yield from _changed_declarations("output", *outputs)
    yield from _changed_order("output", *outputs)


def _changed_declarations(
    what: str, ours: Mapping[str, str], theirs: Mapping[str, str]
) -> Iterator[Difference]:
    for name in (name for name in ours if name not in theirs):
        yield Difference(name, "", f"this {what} of the reference is missing")
    for name in (name for name in theirs if name not in ours):
        yield Difference(name, "", f"this {what} is not in the reference")
    for name in (name for name in ours if name in theirs and ours[name] != theirs[name]):
        how = f"declared as {theirs[name]}, in the reference as {ours[name]}"
        yield Difference(name, "", f"this {what} is {how}")


def _changed_order(
    what: str, ours: Mapping[str, str], theirs: Mapping[str, str]
) -> Iterator[Difference]:
    if ours.keys() == theirs.keys() and list(ours) != list(theirs):
        order = f"{', '.join(theirs)} instead of {', '.join(ours)}"
        yield Difference("", "", f"the {what}s are in another order: {order}")


def tensor_dims(value: onnx.ValueInfoProto) -> tuple[Dim, ...] | None:
    """The declared dimensions of a tensor. A dimension without a name is called `value[axis]`. None
    if the rank is unknown.
    """
    return _dims(value.type.tensor_type, value.name)


def _declared(model: onnx.ModelProto, *, required: bool) -> dict[str, str]:
    names = set(overridable(model))
    declared = (
        inputs_to_feed(model.graph)
        if required
        else [v for v in model.graph.input if v.name in names]
    )
    return {value.name: _type_text(value.type) for value in declared}


def _port(value: onnx.ValueInfoProto) -> Port:
    kind = value.type
    optional = False
    key_type = 0
    if kind.HasField("optional_type"):
        kind = kind.optional_type.elem_type
        optional = True
    wrapped: Literal["tensor", "sequence", "map"] = "tensor"
    if kind.HasField("sequence_type"):
        kind = kind.sequence_type.elem_type
        wrapped = "sequence"
    elif kind.HasField("map_type"):
        wrapped = "map"
        key_type = kind.map_type.key_type
        kind = kind.map_type.value_type
    tensor = kind.sparse_tensor_type if kind.HasField("sparse_tensor_type") else kind.tensor_type
    return Port(
        value.name, wrapped, tensor.elem_type, _dims(tensor, value.name), optional, key_type
    )


def _dims(
    tensor: onnx.TypeProto.Tensor | onnx.TypeProto.SparseTensor, name: str
) -> tuple[Dim, ...] | None:
    if not tensor.HasField("shape"):
        return None
    return tuple(_dim(dim, f"{name}[{axis}]") for axis, dim in enumerate(tensor.shape.dim))


def _dim(dim: onnx.TensorShapeProto.Dimension, unnamed: str) -> Dim:
    known = dimension_of(dim)
    return unnamed if known is None else known


def _type_text(kind: onnx.TypeProto) -> str:
    for wrapper in ("optional", "sequence"):
        if kind.HasField(f"{wrapper}_type"):
            return f"{wrapper}({_type_text(getattr(kind, f'{wrapper}_type').elem_type)})"
    if kind.HasField("map_type"):
        return f"map({type_name(kind.map_type.key_type)}, {_type_text(kind.map_type.value_type)})"
    sparse = kind.HasField("sparse_tensor_type")
    tensor = kind.sparse_tensor_type if sparse else kind.tensor_type
    text = ("sparse " if sparse else "") + type_name(tensor.elem_type)
    if not tensor.HasField("shape"):
        return text
    return f"{text}[{', '.join(str(_dim(dim, '?')) for dim in tensor.shape.dim)}]"
