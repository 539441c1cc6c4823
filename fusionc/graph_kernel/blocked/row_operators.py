"""Operators on rows: matrices whose last axis is the channels."""

from __future__ import annotations

from dataclasses import replace

import onnx

from fusionc.graph_kernel.blocked.image_activations import fused_activation
from fusionc.graph_kernel.blocked.image_area import ImageArea, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.kinds.by_element import ActStep
from fusionc.graph_kernel.blocked.kinds.by_lane import DepthwiseStep
from fusionc.graph_kernel.blocked.kinds.convolve import ConvStep, ProductStep
from fusionc.graph_kernel.blocked.step_kind import Activated, Activation, KernelWindow
from fusionc.graph_kernel.lower.area_info import attribute


def product(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """A product of rows with a constant matrix, possibly with a bias or with the activation of a
    FusedGemm. Raises UnfitOperator.
    """
    x, w, bias = [*node.input, ""][:3]
    image = images.image(x)
    shape = images.weights(w)
    is_transposed = bool(attribute(node, "transB", 0))
    if len(shape) != 2:
        raise UnfitOperator("its weights are not a matrix")
    taken, out = reversed(shape) if is_transposed else shape
    if taken != image.channels or (bias and images.weights(bias) not in ((out,), (1, out))):
        raise UnfitOperator("its weights do not fit its rows")
    if (
        attribute(node, "transA", 0)
        or attribute(node, "alpha", 1.0) != 1
        or attribute(node, "beta", 1.0) != 1
    ):
        raise UnfitOperator("no step multiplies in this way")
    images.note(node.output[0], replace(image, channels=out))
    kind = ConvStep() if is_transposed else ProductStep()
    return Operation(
        kind, node.output[0], x, weights=w, bias=bias, activated=fused_activation(node)
    )


def with_bias(images: ImageArea, name: str, bias: str, out: str) -> Operation:
    """Rows plus a number for each channel. Raises UnfitOperator."""
    image = images.image(name)
    if not images.is_channels_last(name) or images.weights(bias) != (image.channels,):
        raise UnfitOperator("its bias does not fit its rows")
    images.note(out, image)
    return Operation(
        DepthwiseStep(),
        out,
        name,
        bias=bias,
        window=KernelWindow(group=image.channels),
        line=(1, 0),
    )


def with_factor(images: ImageArea, name: str, factor: str, out: str) -> Operation:
    """Rows times a number for each channel. Raises UnfitOperator."""
    image = images.image(name)
    if not images.is_channels_last(name) or images.weights(factor) != (image.channels,):
        raise UnfitOperator("its factor does not fit its rows")
    images.note(out, image)
    return Operation(
        DepthwiseStep(), out, name, weights=factor, window=KernelWindow(group=image.channels)
    )


def biased_activation(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """GELU of rows, or of rows plus a number for each channel. Raises UnfitOperator."""
    function = Activation.TANH_GELU if node.op_type == "FastGelu" else Activation.GELU
    if len(node.input) < 2 or not node.input[1]:
        images.note(node.output[0], images.image(node.input[0]))
        return Operation(ActStep(), node.output[0], node.input[0], activated=Activated(function))
    operation = with_bias(images, node.input[0], node.input[1], node.output[0])
    operation.activated = Activated(function)
    return operation
