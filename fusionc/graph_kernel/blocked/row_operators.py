"""Operators on rows: matrices whose last axis are the channels."""

from __future__ import annotations

from dataclasses import replace

import onnx
from onnx import TensorProto

from fusionc.graph_kernel.blocked.image_activations import fused_activation
from fusionc.graph_kernel.blocked.image_area import ImageArea, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.program import Activated, Activation, KernelWindow, StepKind
from fusionc.graph_kernel.lower.area_info import attribute

_WITH_BATCH = 3  # axes of rows


def product(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """Rows times a constant matrix, a bias, and the activation of a FusedGemm."""
    x, w, bias = [*node.input, ""][:3]
    image = images.image(x)
    shape = images.weights(w)
    is_transposed = bool(attribute(node, "transB", 0))
    if len(shape) != 2:
        raise UnfitOperator("its weights are no matrix")
    taken, out = reversed(shape) if is_transposed else shape
    if taken != image.channels or (bias and images.weights(bias) not in ((out,), (1, out))):
        raise UnfitOperator("its weights do not fit its rows")
    if (
        attribute(node, "transA", 0)
        or attribute(node, "alpha", 1.0) != 1
        or attribute(node, "beta", 1.0) != 1
    ):
        raise UnfitOperator("no step multiplies like that")
    images.note(node.output[0], replace(image, channels=out))
    kind = StepKind.CONV if is_transposed else StepKind.PRODUCT
    return Operation(
        kind, node.output[0], x, weights=w, bias=bias, activated=fused_activation(node)
    )


def with_bias(images: ImageArea, name: str, bias: str, out: str) -> Operation:
    """A number for each channel is added to rows."""
    image = images.image(name)
    if not images.is_channels_last(name) or images.weights(bias) != (image.channels,):
        raise UnfitOperator("its bias does not fit its rows")
    images.note(out, image)
    return Operation(
        StepKind.DEPTHWISE,
        out,
        name,
        bias=bias,
        window=KernelWindow(group=image.channels),
        line=(1, 0),
    )


def with_factor(images: ImageArea, name: str, factor: str, out: str) -> Operation:
    """Each channel of rows is multiplied by a number."""
    image = images.image(name)
    if not images.is_channels_last(name) or images.weights(factor) != (image.channels,):
        raise UnfitOperator("its factor does not fit its rows")
    images.note(out, image)
    return Operation(
        StepKind.DEPTHWISE, out, name, weights=factor, window=KernelWindow(group=image.channels)
    )


def biased_activation(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """GELU of rows, to which a number for each channel may be added before."""
    function = Activation.TANH_GELU if node.op_type == "FastGelu" else Activation.GELU
    if len(node.input) < 2 or not node.input[1]:
        images.note(node.output[0], images.image(node.input[0]))
        return Operation(StepKind.ACT, node.output[0], node.input[0], activated=Activated(function))
    found = with_bias(images, node.input[0], node.input[1], node.output[0])
    found.activated = Activated(function)
    return found


def cleared(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """Rows that become zero where a condition for each of them holds, as behind attention without
    any key.
    """
    condition, zero, name = node.input
    image = images.image(name)
    if images.number(zero) != 0 or not images.is_rows(name):
        raise UnfitOperator("it chooses between rows")
    chosen = images.tensor(condition, TensorProto.BOOL, _WITH_BATCH).shape
    declared = images.area.values[name].shape
    made = images.area.values[node.output[0]].shape
    if chosen[-1] != 1 or len(declared) != _WITH_BATCH or made != declared:
        raise UnfitOperator("its condition is not known to be one for each row")
    images.note(node.output[0], image)
    return Operation(StepKind.CLEAR, node.output[0], name, tensor=condition)
