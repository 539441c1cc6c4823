"""--input_format NHWC: change inputs that are images to the layout (N, H, W, C)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from onnx import GraphProto, ModelProto, TensorShapeProto, helper

from fusionc.errors import UsageError
from fusionc.operators.facts import Trait, names_with
from fusionc.protos import fresh_name, inputs_to_feed
from fusionc.requested.rename_value import all_names, separate_input

NHWC = "NHWC"
_OPTION = "--input_format"
_TO_NCHW = (0, 3, 1, 2)
_RANK = 4
_ON_IMAGES = names_with(Trait.CONVOLUTION, Trait.WINDOW_POOL, Trait.GLOBAL_POOL) | {
    *("BatchNormalization", "InstanceNormalization", "Resize", "Upsample", "LRN")
}
_KEEP_LAYOUT = names_with(
    Trait.UNARY, Trait.BROADCASTS, Trait.CASTS, Trait.QUANTIZES, Trait.DEQUANTIZES
) | {"Pad", "Identity", "Dropout"}
_Size = TypeVar("_Size")


def as_nhwc(shape: Sequence[_Size]) -> tuple[_Size, ...]:
    """The entries of a shape (N, C, H, W) in the order (N, H, W, C)."""
    batch, channels, *sizes = shape
    return (batch, *sizes, channels)


def nhwc_axis(axis: int) -> int:
    """The place of an axis of (N, C, H, W) in (N, H, W, C)."""
    return as_nhwc(range(_RANK)).index(axis)


def image_inputs(model: ModelProto) -> list[str]:
    """The inputs with images: those of rank 4 that reach a convolution, a pooling or another
    operator on images through operators that work element by element. Raises UsageError if the
    model has none.
    """
    names = [
        value.name
        for value in inputs_to_feed(model.graph)
        if len(value.type.tensor_type.shape.dim) == _RANK and _is_image(model.graph, value.name)
    ]
    if not names:
        what = "no input of the model is an image: none of 4 dimensions reaches a convolution"
        hint = "leave the option out, or give NCHW"
        raise UsageError(what, where=f"{_OPTION} {NHWC}", hint=hint, code="E10001")
    return names


def _is_image(graph: GraphProto, name: str) -> bool:
    reached = {name}
    for node in graph.node:  # in topological order
        if node.op_type in _ON_IMAGES and node.input[0] in reached:
            return True
        if node.op_type in _KEEP_LAYOUT and not reached.isdisjoint(node.input):
            reached.update(node.output)
    return False


def transpose_inputs(model: ModelProto, names: Sequence[str]) -> None:
    """Put a Transpose after each of these inputs, and declare them in the layout (N, H, W, C).
    Raises UsageError if one of them is also an output.
    """
    if not names:
        return
    taken = dict.fromkeys(all_names(model), 1)
    values = {value.name: value for value in model.graph.input}
    nodes = []
    for name in names:
        if any(value.name == name for value in model.graph.output):
            what = f"the input {name} is also an output of the model"
            where = f"{_OPTION} {NHWC}"
            raise UsageError(what, where=where, hint="leave the option out", code="E10001")
        inner = fresh_name(f"{name}_nchw", taken)
        separate_input(model, values[name], inner)
        label = fresh_name(f"{name}_transpose", taken)
        nodes.append(helper.make_node("Transpose", [name], [inner], name=label, perm=_TO_NCHW))
        shape = values[name].type.tensor_type.shape
        shape.CopyFrom(TensorShapeProto(dim=as_nhwc(shape.dim)))
    nodes += model.graph.node
    del model.graph.node[:]
    model.graph.node.extend(nodes)
