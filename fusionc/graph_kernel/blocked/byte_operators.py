"""Operators between DequantizeLinear and QuantizeLinear as operations on images of bytes.

They compute the integers that onnxruntime computes when it fuses such a group: it multiplies sums
of integers by one factor, rounds to the nearest integer (ties to even), and adds the zero point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import TensorProto

from fusionc.graph_kernel.blocked.convolution_operators import channels_and_window
from fusionc.graph_kernel.blocked.image_area import (
    SIGN,
    Image,
    ImageArea,
    ImageCut,
    ImageJoin,
    Operation,
    Part,
    UnfitOperator,
    unsigned,
)
from fusionc.graph_kernel.blocked.image_size import ImageSize
from fusionc.graph_kernel.blocked.kinds.byte_convolve import (
    ByteConvolutionKind,
    ByteConvStep,
    ByteFirstStep,
    ByteProductStep,
)
from fusionc.graph_kernel.blocked.kinds.byte_depthwise import ByteDepthwiseStep
from fusionc.graph_kernel.blocked.kinds.byte_elements import (
    ByteAddStep,
    ByteAverageStep,
    ByteClipStep,
    ByteMaxPoolStep,
)
from fusionc.graph_kernel.blocked.step_kind import KernelWindow, StepKind
from fusionc.graph_kernel.blocked.windows import pooled, window_of
from fusionc.graph_kernel.lower.area_info import attribute
from fusionc.operators.clip_bounds import clips_nothing
from fusionc.operators.integer_operators import BYTES

_F32 = np.float32
_BLOCK = 64  # bytes of a block of channels
_MOST_PLANAR = 4  # channels that lie together in four bytes
_MOST_COLUMNS = 16  # of a kernel that reads such pixels
_NEAR = 1e-5  # the scale of a bias may differ from that of the sums by this share


@dataclass(frozen=True)
class Dequantized(Part):
    """Float numbers dequantized from bytes, or from the integers of a bias."""

    dequantize: onnx.NodeProto
    unknown = "it does not read dequantized integers here"
    outside = "dequantized numbers are needed outside"


@dataclass(frozen=True)
class Unquantized(Part):
    """The result of an operator before it is quantized."""

    core: onnx.NodeProto
    activations: tuple[onnx.NodeProto, ...] = ()
    unknown = "its result is not quantized here"
    outside = "a result is needed outside before it is quantized"


@dataclass(frozen=True)
class _Grid:
    """The scale and zero point of a quantization. The zero point of bytes is an unsigned one."""

    scale: np.ndarray
    zero: int
    axis: int  # along which the scales lie, if there are several

    @property
    def step(self) -> np.float32:
        if self.scale.size != 1:
            raise UnfitOperator("an image has several scales")
        return _F32(self.scale.item())


def is_of_bytes(images: ImageArea, node: onnx.NodeProto) -> bool:
    """Whether an operator reads or makes bytes, or numbers dequantized from them."""
    if node.op_type in ("DequantizeLinear", "QuantizeLinear"):
        return True
    return images.has_bytes and any(
        isinstance(images.parts.get(name), Dequantized | Unquantized) or _is_bytes(images, name)
        for name in node.input
    )


def byte_operation(
    images: ImageArea, node: onnx.NodeProto
) -> Operation | ImageCut | ImageJoin | None:
    """The operation of an operator on bytes; None if a later operator completes it. Raises
    UnfitOperator.
    """
    if node.op_type == "DequantizeLinear":
        _dequantized(images, node)
        return None
    if node.op_type == "QuantizeLinear":
        return _quantized(images, node)
    if _is_bytes(images, node.input[0]):
        if node.op_type == "MaxPool":
            return _max_pool(images, node, node.input[0], node.output[0])
        return _clipped(images, node)
    if node.op_type not in _CORES and node.op_type not in _ACTIVATIONS:
        raise UnfitOperator("no step computes it of bytes")
    part = images.parts.get(node.input[0])
    if isinstance(part, Unquantized):
        if node.op_type not in _ACTIVATIONS:
            raise UnfitOperator(part.unknown)
        images.note_part(
            node.output[0],
            Unquantized(part.image, part.core, (*part.activations, node)),
        )
        return None
    if not isinstance(part, Dequantized) or node.op_type not in _CORES:
        raise UnfitOperator(Dequantized.unknown)
    images.note_part(node.output[0], Unquantized(part.image, node))
    return None


def takes_sum(conv: StepKind) -> bool:
    """Whether a convolution can add an image to its result."""
    if not isinstance(conv, ByteConvolutionKind):
        return True
    return not isinstance(conv, ByteDepthwiseStep) and (conv.least, conv.most) == (0, 255)


def with_sum(conv: ByteConvolutionKind, total: StepKind, *, is_second: bool) -> ByteConvolutionKind:
    """A convolution that adds an image to its result; `is_second` if its result is the second
    operand of the sum.
    """
    assert isinstance(total, ByteAddStep)
    return replace(
        conv,
        zero_product=conv.zero,
        zero=total.zero,
        least=total.least,
        most=total.most,
        factor=total.factor,
        factor2=total.factor2,
        addend=total.addend,
        is_swapped=is_second,
    )


def _is_bytes(images: ImageArea, name: str) -> bool:
    value = images.area.values.get(name)
    return value is not None and value.dtype in BYTES


def _grid(images: ImageArea, node: onnx.NodeProto) -> _Grid:
    """The scale and zero point of a DequantizeLinear or QuantizeLinear."""
    scale = images.area.constants.get(node.input[1])
    zero = images.zero_point(node)
    if scale is None or zero is None or scale.dtype != _F32:
        raise UnfitOperator("a scale or a zero point is not known before the model runs")
    if np.unique(zero).size != 1 or attribute(node, "block_size", 0):
        raise UnfitOperator("it has several zero points")
    if np.dtype(zero.dtype) not in (np.uint8, np.int8, np.int32):
        raise UnfitOperator("its integers do not have 8 bits")
    return _Grid(scale, unsigned(zero.ravel()[:1]), attribute(node, "axis", 1))


def _dequantized(images: ImageArea, node: onnx.NodeProto) -> None:
    _grid(images, node)
    images.note_part(node.output[0], Dequantized(node.input[0], node))


def _quantized(images: ImageArea, node: onnx.NodeProto) -> Operation | ImageCut | None:
    part = images.parts.get(node.input[0])
    grid = _grid(images, node)
    if isinstance(part, Unquantized):
        if not all(_is_void(images, activation, grid) for activation in part.activations):
            raise UnfitOperator("an activation is not that of the quantization")
        return _CORES[part.core.op_type](images, part.core, node)
    if part is not None or node.input[0] not in images.area.inputs:
        raise UnfitOperator("it quantizes what is not an image from outside")
    if node.output[0] in images.area.outputs:
        raise UnfitOperator("bytes that are loaded are needed outside")
    float_image = images.image(node.input[0])
    images.note(node.output[0], replace(float_image, element_bytes=1))
    images.loaded_as_bytes[node.output[0]] = node.input[0], float(grid.step)
    return None


def _is_void(images: ImageArea, activation: onnx.NodeProto, grid: _Grid) -> bool:
    """Whether the quantization gives the same bytes without an activation."""
    bounds = 0.0, np.inf
    if activation.op_type == "Clip":
        least, most = (images.numbers(activation, k, name) for k, name in ((1, "min"), (2, "max")))
        bounds = -np.inf if least is None else least[0], np.inf if most is None else most[0]
    return clips_nothing(bounds, grid.step, grid.zero, (0, 255))


def _operand(images: ImageArea, node: onnx.NodeProto, place: int) -> tuple[str, _Grid]:
    """The bytes that an operand is dequantized from, and their grid. Raises UnfitOperator."""
    part = images.parts.get(node.input[place])
    if not isinstance(part, Dequantized):
        raise UnfitOperator(Dequantized.unknown)
    return part.image, _grid(images, part.dequantize)


def _weights(images: ImageArea, node: onnx.NodeProto) -> tuple[str, _Grid, tuple[int, ...], int]:
    """Weights, their grid, their shape, and the bits to flip to make them signed."""
    name, grid = _operand(images, node, 1)
    value = images.area.values.get(name)
    if value is None or name not in images.area.inputs:
        raise UnfitOperator("its weights are not known before the model runs")
    if value.dtype not in BYTES:
        raise UnfitOperator("its weights do not have 8 bits")
    sizes = tuple(size for size in value.shape if isinstance(size, int))
    made = 0 if node.op_type == "Conv" or attribute(node, "transB", 0) else 1
    if grid.scale.size > 1 and grid.axis % len(sizes) != made:
        raise UnfitOperator("its weights have scales along another axis")
    return name, grid, sizes, SIGN if value.dtype == TensorProto.UINT8 else 0


def _bias(images: ImageArea, node: onnx.NodeProto, scales: np.ndarray, channels: int) -> str:
    """A bias, one number for each channel: float32, or integers in the scales of the sums."""
    if len(node.input) < 3 or not node.input[2]:
        return ""
    if _has_float_bias(images, node):
        if images.weights(node.input[2]) not in ((channels,), (1, channels)):
            raise UnfitOperator("its bias is not one number for each channel")
        return str(node.input[2])
    name, grid = _operand(images, node, 2)
    if grid.zero or grid.scale.size not in (1, scales.size):
        raise UnfitOperator("its bias has another scale")
    if not np.allclose(grid.scale.ravel(), scales, rtol=_NEAR, atol=0.0):
        raise UnfitOperator("its bias has another scale")
    value = images.area.values[name]
    if value.dtype != TensorProto.INT32:
        raise UnfitOperator("its bias does not have 32 bits")
    if value.shape not in ((channels,), (1, channels)):
        raise UnfitOperator("its bias is not one number for each channel")
    return name


def _has_float_bias(images: ImageArea, node: onnx.NodeProto) -> bool:
    """Whether a convolution or product adds a bias that is not dequantized."""
    is_biased = len(node.input) > 2 and node.input[2] != ""
    return is_biased and not isinstance(images.parts.get(node.input[2]), Dequantized)


def _sums(
    images: ImageArea,
    core: onnx.NodeProto,
    quantize: onnx.NodeProto,
    kind: ByteConvolutionKind,
    channels: int,
    window: KernelWindow,
) -> Operation:
    """A convolution or product. Its result has this number of channels."""
    x, of_image = _operand(images, core, 0)
    w, of_weights, _, flip = _weights(images, core)
    of_result = _grid(images, quantize)
    scales = of_image.step * of_weights.scale.ravel()
    if scales.size not in (1, channels):
        raise UnfitOperator("its weights have another number of scales")
    factors = np.zeros(-(-channels // _BLOCK) * _BLOCK, _F32)
    factors[:channels] = scales / of_result.step
    kind = replace(
        kind,
        zero=of_result.zero,
        zero_in=of_image.zero,
        flip=flip,
        zero_weights=of_weights.zero - SIGN,
        scale=float(of_result.step) if _has_float_bias(images, core) else 0.0,
    )
    return Operation(
        kind,
        quantize.output[0],
        x,
        weights=w,
        bias=_bias(images, core, scales, channels),
        window=window,
        numbers=tuple(factors.tolist()),
        is_planar=isinstance(kind, ByteFirstStep),
    )


def _convolution(images: ImageArea, core: onnx.NodeProto, quantize: onnx.NodeProto) -> Operation:
    x, _ = _operand(images, core, 0)
    image = images.image(x)
    _, _, shape, _ = _weights(images, core)
    out, window = channels_and_window(core, shape, image)
    kind = _kind_of_convolution(images, x, image.channels, out, window)
    operation = _sums(images, core, quantize, kind, out, window)
    images.note(operation.out, pooled(image, window, out))
    return operation


def _kind_of_convolution(
    images: ImageArea, x: str, channels: int, out: int, window: KernelWindow
) -> ByteConvolutionKind:
    if window.group == channels == out and channels > 1:
        return ByteDepthwiseStep()
    if window.group != 1:
        raise UnfitOperator("no step convolves groups of bytes")
    is_loaded = x in images.area.inputs or x in images.loaded_as_bytes
    has_columns = window.kernel[1] <= _MOST_COLUMNS and window.dilation[1] == 1
    if is_loaded and channels <= _MOST_PLANAR and has_columns:
        return ByteFirstStep()
    return ByteConvStep()


def _product(images: ImageArea, core: onnx.NodeProto, quantize: onnx.NodeProto) -> Operation:
    x, _ = _operand(images, core, 0)
    image = images.image(x)
    _, _, shape, _ = _weights(images, core)
    is_turned = bool(attribute(core, "transB", 0))
    is_plain = not attribute(core, "transA", 0) and attribute(core, "alpha", 1.0) == 1
    if len(shape) != 2 or not images.is_rows(x) or not is_plain:
        raise UnfitOperator("it is not rows times a matrix")
    if len(core.input) > 2 and attribute(core, "beta", 1.0) != 1:
        raise UnfitOperator("its bias is scaled")
    taken, out = shape[::-1] if is_turned else shape
    if taken != image.channels:
        raise UnfitOperator("its weights do not fit its rows")
    kind = ByteConvStep() if is_turned else ByteProductStep()
    operation = _sums(images, core, quantize, kind, out, KernelWindow())
    images.note(operation.out, replace(image, channels=out))
    return operation


def _sum(images: ImageArea, core: onnx.NodeProto, quantize: onnx.NodeProto) -> Operation:
    (a, of_a), (b, of_b) = (_operand(images, core, place) for place in range(2))
    of_result = _grid(images, quantize)
    images.require_same(a, b)
    first, second = (_F32(of.step / of_result.step) for of in (of_a, of_b))
    # onnxruntime rounds the second product by itself, and then each multiply-add once
    offset = np.float64(first) * of_a.zero + np.float64(_F32(second * _F32(of_b.zero)))
    addend = _F32(_F32(of_result.zero) - _F32(offset))
    out = quantize.output[0]
    images.note(out, images.image(a))
    kind = ByteAddStep(of_result.zero, float(first), float(second), float(addend))
    return Operation(kind, out, a, b)


def _pool(images: ImageArea, core: onnx.NodeProto, quantize: onnx.NodeProto) -> Operation:
    x, of_image = _operand(images, core, 0)
    of_result = _grid(images, quantize)
    if (of_image.step, of_image.zero) != (of_result.step, of_result.zero):
        raise UnfitOperator("it is quantized in another way")
    return _max_pool(images, core, x, quantize.output[0])


def _max_pool(images: ImageArea, node: onnx.NodeProto, x: str, out: str) -> Operation:
    image = images.image(x)
    kernel = attribute(node, "kernel_shape")
    if len(node.output) > 1 or attribute(node, "ceil_mode", 0):
        raise UnfitOperator("no step pools bytes like that")
    window = window_of(node, (int(kernel[0]), int(kernel[1])), image)
    top, left, bottom, right = window.pads
    is_inside = max(top, bottom) < kernel[0] and max(left, right) < kernel[1]
    if window.dilation != (1, 1) or not is_inside:
        raise UnfitOperator("no step pools bytes like that")
    images.note(out, pooled(image, window, image.channels))
    zero = images.zero_points.get(out, 0)
    return Operation(ByteMaxPoolStep(zero), out, x, window=window)


def _clipped(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """Clip, Max or Min of bytes and constants."""
    x = node.input[0]
    out = node.output[0]
    places = _BOUNDS.get(node.op_type)
    if places is None or len(node.input) > 1 + len(places):
        raise UnfitOperator("no step computes it of bytes")
    shift = images.flip(x)
    bounds = [0, 255]
    for place, name in zip(places, node.input[1:], strict=False):
        if not name:
            continue
        number = images.number(name)
        if number is None:
            raise UnfitOperator("a bound is not a number that is known before the model runs")
        bounds[place] = int(number) + shift
    images.note(out, images.image(x))
    return Operation(ByteClipStep(images.zero_points.get(out, 0), *bounds), out, x)


def _average(images: ImageArea, core: onnx.NodeProto, quantize: onnx.NodeProto) -> Operation:
    x, of_image = _operand(images, core, 0)
    of_result = _grid(images, quantize)
    image = images.image(x)
    if len(images.shape(x)) != 4:
        raise UnfitOperator("it is not a mean over rows and columns")
    one = ImageSize(1)
    images.note(quantize.output[0], Image(image.channels, image.batch, one, one, element_bytes=1))
    kind = ByteAverageStep(
        of_result.zero, of_image.zero, float(of_image.step), float(of_result.step)
    )
    return Operation(kind, quantize.output[0], x)


_Maker = Callable[[ImageArea, onnx.NodeProto, onnx.NodeProto], Operation]
_CORES: Mapping[str, _Maker] = {
    "Conv": _convolution,
    "MatMul": _product,
    "Gemm": _product,
    "Add": _sum,
    "MaxPool": _pool,
    "GlobalAveragePool": _average,
}
_ACTIVATIONS = ("Relu", "Clip")
# by operator on bytes: which bound each input after the first one is (0: lower, 1: upper)
_BOUNDS: Mapping[str, tuple[int, ...]] = {"Clip": (0, 1), "Max": (0,), "Min": (1,)}
