"""Operators between DequantizeLinear and QuantizeLinear, as operations on images of bytes.

Such an operator, its dequantizations and its quantization form a group; the operator itself is the
group's core. The operation computes the same integers as onnxruntime, which fuses a group, too: it
multiplies sums of integers by one factor, rounds to the nearest integer (ties to even), and adds
the zero point. If no quantization follows, a convolution or product converts its sums to float32.

A grid is the scale and zero point of a quantization.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from fusionc.graph_kernel.blocked.integer_forms import POINTWISE
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
from fusionc.graph_kernel.blocked.kinds.byte_quantize import ByteDequantizeStep, ByteQuantizeStep
from fusionc.graph_kernel.blocked.step_kind import (
    NO_ACTIVATION,
    Activated,
    Activation,
    KernelWindow,
    StepKind,
)
from fusionc.graph_kernel.blocked.windows import pooled, window_of
from fusionc.graph_kernel.lower.area_info import attribute
from fusionc.operators.integer_operators import BYTES

_F32 = np.float32
_BLOCK = 64  # bytes in a block of channels
_MOST_PLANAR = 4  # the most channels of an image that is stored as four bytes for each pixel
_GRID_CHANNELS = 2  # channels of the pixel that contains a computed grid: scale and zero point
_QUANTIZING = ("DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear")
_MOST_COLUMNS = 16  # the most columns of a convolution's window over such images
# Bounds for scales: their inverses are normal numbers, and quantized numbers stay finite.
_SMALLEST = float(np.finfo(_F32).tiny)
_LARGEST = 2.0**100
_NEAR = 1e-5  # the relative difference that the scale of a bias may have from the scale of the sums


@dataclass(frozen=True)
class Dequantized(Part):
    """Floats that were dequantized from bytes, or from the 32-bit integers of a bias."""

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
    """The scale and zero point of a quantization. The zero point of signed bytes is written as that
    of unsigned bytes. If scale and zero point are computed at run time, both are 1 here, and
    `computed` is the name of the value that contains them.
    """

    scale: np.ndarray
    zero: int
    axis: int  # the axis of the scales, if there are several
    computed: str = ""

    @property
    def step(self) -> np.float32:
        if self.scale.size != 1:
            raise UnfitOperator("an image has several scales")
        return _F32(self.scale.item())


_EXACT = _Grid(np.ones(1, _F32), 0, 0)  # the grid of a result that is not quantized


@dataclass(frozen=True)
class _Result:
    """The result of a group: bytes from `least` to `most`, or float32."""

    name: str
    grid: _Grid = _EXACT
    least: int = 0
    most: int = 255

    @property
    def has_floats(self) -> bool:
        return self.grid is _EXACT


def is_of_bytes(images: ImageArea, node: onnx.NodeProto) -> bool:
    """Whether an operator reads or makes bytes, or numbers dequantized from them."""
    if node.op_type in _QUANTIZING:
        return True
    is_moved = node.op_type == "Transpose" and node.input[0] in images.grids
    if is_moved or not images.has_bytes:
        return False
    parts = [images.parts.get(name) for name in node.input]
    if any(isinstance(part, Unquantized) for part in parts):
        return True
    if any(_is_bytes(images, name) for name in node.input):
        return True
    return _is_of_dequantized(images, node)


def _is_of_dequantized(images: ImageArea, node: onnx.NodeProto) -> bool:
    """Whether an operator on dequantized numbers is computed in integers."""
    parts = [images.parts.get(name) for name in node.input]
    are_dequantized = [isinstance(part, Dequantized) for part in parts]
    if parts and parts[0] is not None and parts[0].image in images.grids:
        return all(are_dequantized[:2])
    if node.op_type in _SUMS:
        return any(are_dequantized)
    # Other operators are computed in integers only if they read and make nothing except integers.
    is_inside = all(are_dequantized) and _is_quantized(images, node)
    return node.op_type in _CORES and is_inside


def byte_operation(
    images: ImageArea, node: onnx.NodeProto
) -> Operation | ImageCut | ImageJoin | None:
    """The operation of an operator on bytes. `None` if a later operator completes the operation.
    Raises UnfitOperator.
    """
    if node.op_type == "DequantizeLinear":
        _dequantized(images, node)
        return None
    if node.op_type == "QuantizeLinear":
        return _quantized(images, node)
    if node.op_type == "DynamicQuantizeLinear":
        return _quantized_by_range(images, node)
    if node.input[0] in images.grids:
        raise UnfitOperator("it reads bytes whose zero point is not known before the model runs")
    if _is_bytes(images, node.input[0]):
        if node.op_type == "MaxPool":
            return _max_pool(images, node, node.input[0], node.output[0])
        return _clipped(images, node)
    if node.op_type not in _CORES and node.op_type not in _ACTIVATIONS:
        raise UnfitOperator("no step computes it on bytes")
    return _of_numbers(images, node)


def _of_numbers(images: ImageArea, node: onnx.NodeProto) -> Operation | None:
    """The operation of an operator that reads dequantized numbers. `None` if a later quantization
    completes the operation.
    """
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
    if node.op_type in _SUMS and not _is_quantized(images, node):
        return _SUMS[node.op_type](images, node, _Result(node.output[0]))
    images.note_part(node.output[0], Unquantized(part.image, node))
    return None


def _is_quantized(images: ImageArea, node: onnx.NodeProto) -> bool:
    """Whether the only use of an operator's result is a quantization. Activations may be between
    the two.
    """
    while True:
        readers = images.readers.get(node.output[0], ())
        if node.output[0] in images.area.outputs or len(readers) != 1:
            return False
        (node,) = readers
        if node.op_type not in _ACTIVATIONS:
            return node.op_type == "QuantizeLinear"


def takes_sum(conv: StepKind) -> bool:
    """Whether a convolution can add an image to its result."""
    if not isinstance(conv, ByteConvolutionKind):
        return True
    is_clipped = (conv.least, conv.most) != (0, 255)
    return not isinstance(conv, ByteDepthwiseStep) and not is_clipped


def with_sum(conv: ByteConvolutionKind, total: StepKind, *, is_second: bool) -> ByteConvolutionKind:
    """A convolution that also adds an image to its result, in place of the sum `total`. `is_second`
    says that the convolution's own result is the second operand of the sum.
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


def with_dequantized(conv: ByteConvolutionKind, second: StepKind) -> ByteConvolutionKind:
    """A convolution that also dequantizes an image of bytes and adds it to its own float32
    result.
    """
    assert isinstance(second, ByteDequantizeStep)
    return replace(conv, factor2=second.scale, zero_second=second.zero_in)


def quantize(conv: Operation, kind: ByteQuantizeStep) -> bool:
    """Let a convolution quantize its float32 result, if it can. Returns whether it can."""
    own = conv.kind
    limits = _LIMITS.get(conv.activated.function)
    if not isinstance(own, ByteConvolutionKind) or not own.has_floats or limits is None:
        return False
    if conv.is_after or conv.third:
        return False
    step = _F32(kind.scale)
    grid = _Grid(np.array([step]), kind.zero, 0)
    least, most = _steps_between(limits(conv.activated), grid)
    conv.numbers = tuple((np.array(conv.numbers, _F32) / step).tolist())
    conv.activated = NO_ACTIVATION
    conv.kind = replace(
        own,
        has_floats=False,
        adds_floats=bool(conv.second),
        zero=kind.zero,
        least=least,
        most=most,
        scale=own.scale * kind.scale,
        factor2=float(_F32(own.factor2) / step),
    )
    return True


# activation of float32 → the smallest and largest result that it can have
_LIMITS: Mapping[Activation, Callable[[Activated], np.ndarray]] = {
    Activation.NONE: lambda _: np.array([-np.inf, np.inf], _F32),
    Activation.RELU: lambda _: np.array([0.0, np.inf], _F32),
    Activation.CLIP: lambda of: np.array([of.alpha, of.beta], _F32),
}


def _is_bytes(images: ImageArea, name: str) -> bool:
    value = images.area.values.get(name)
    return value is not None and value.dtype in BYTES


def _grid(images: ImageArea, node: onnx.NodeProto) -> _Grid:
    """The scale and zero point of a DequantizeLinear or QuantizeLinear."""
    if node.input[0] in images.grids:
        computed = {images.grids.get(name, "") for name in node.input}
        if len(node.input) != 3 or len(computed) != 1:
            raise UnfitOperator("bytes are not dequantized as they were quantized")
        return replace(_EXACT, zero=1, computed=images.grids[node.input[0]])
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
    grid = _grid(images, node)
    images.note_part(node.output[0], Dequantized(node.input[0], node))
    if grid.computed and images.is_channels_last(node.input[0]):
        images.channels_last.add(node.output[0])
    if grid.scale.size == 1:
        images.dequantized[node.output[0]] = node.input[0], float(grid.step), grid.zero


def _quantized(images: ImageArea, node: onnx.NodeProto) -> Operation | ImageCut | None:
    part = images.parts.get(node.input[0])
    grid = _grid(images, node)
    if isinstance(part, Unquantized):
        bounds = _bounds(images, part.activations, grid)
        return _CORES[part.core.op_type](images, part.core, _Result(node.output[0], grid, *bounds))
    if part is not None:
        raise UnfitOperator("it quantizes a value that is not an image")
    if node.input[0] not in images.area.inputs:
        return _of_floats(images, node, grid)
    if node.output[0] in images.area.outputs:
        raise UnfitOperator("bytes that are loaded are needed outside")
    float_image = images.image(node.input[0])
    images.note(node.output[0], replace(float_image, element_bytes=1))
    images.loaded_as_bytes[node.output[0]] = node.input[0], float(grid.step)
    return None


def _quantized_by_range(images: ImageArea, node: onnx.NodeProto) -> Operation | None:
    """The operation of DynamicQuantizeLinear. `None` if the convolution that reads the result
    quantizes the image while loading it, which is so for images of few channels.
    """
    x = node.input[0]
    out, scale, zero = node.output
    if not {scale, zero}.isdisjoint(images.area.outputs):
        raise UnfitOperator("a scale or a zero point is needed outside")
    is_last = images.is_channels_last(x)
    image = images.image(x)
    if is_last:
        images.channels_last.add(out)
    images.note(out, replace(image, element_bytes=1))
    grid = f"{out}/grid"
    images.grids |= dict.fromkeys(node.output, grid)
    images.ranges[grid] = x
    one = ImageSize(1)
    images.images[grid] = Image(_GRID_CHANNELS, image.batch, one, one)
    is_loaded = x in images.area.inputs and out not in images.area.outputs
    if is_loaded and image.channels <= _MOST_PLANAR and not is_last:
        images.loaded_as_bytes[out] = x, 0.0
        return None
    return Operation(ByteQuantizeStep(), out, x, third=grid)


def _of_floats(images: ImageArea, node: onnx.NodeProto, grid: _Grid) -> Operation:
    """The operation that quantizes a float32 image that the area computes."""
    image = images.image(node.input[0])
    if not _SMALLEST <= grid.step <= _LARGEST:
        raise UnfitOperator("its scale is too small or too large to round safely")
    images.note(node.output[0], image)
    kind = ByteQuantizeStep(grid.zero, float(grid.step))
    return Operation(kind, node.output[0], node.input[0])


def _bounds(
    images: ImageArea, activations: Sequence[onnx.NodeProto], grid: _Grid
) -> tuple[int, int]:
    """The smallest and largest byte to which results of these activations can be quantized."""
    bounds = [0, 255]
    for activation in activations:
        least, most = _steps_between(_limits(images, activation), grid)
        bounds = [min(max(bound, least), most) for bound in bounds]
    return bounds[0], bounds[1]


def _steps_between(limits: np.ndarray, grid: _Grid) -> tuple[int, int]:
    """The bytes to which two numbers are quantized. Raises UnfitOperator."""
    with np.errstate(all="ignore"):
        steps = np.rint(limits / grid.step) + grid.zero
    if np.isnan(steps).any():
        raise UnfitOperator("a bound is not a number")
    least, most = np.clip(steps, 0, 255).astype(int).tolist()
    return least, most


def _limits(images: ImageArea, activation: onnx.NodeProto) -> np.ndarray:
    """The smallest and largest result of a Relu or Clip."""
    limits = np.array([-np.inf, np.inf], _F32)
    if activation.op_type == "Relu":
        limits[0] = 0.0
        return limits
    for k, name in enumerate(("min", "max")):
        number = images.numbers(activation, k + 1, name)
        if number is not None:
            limits[k] = number[0]
    return limits


def _operand(images: ImageArea, node: onnx.NodeProto, place: int) -> tuple[str, _Grid]:
    """The bytes from which an operand is dequantized, and their grid. Raises UnfitOperator."""
    part = images.parts.get(node.input[place])
    if not isinstance(part, Dequantized):
        raise UnfitOperator(Dequantized.unknown)
    return part.image, _grid(images, part.dequantize)


def _weights(images: ImageArea, node: onnx.NodeProto) -> tuple[str, _Grid, tuple[int, ...], int]:
    """The weights, their grid, their shape, and the bits to flip (an XOR) to make them signed."""
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
    """The name of the bias, or "". A bias has a number for each channel: float32, or integers with
    the scales of the sums. Raises UnfitOperator for others.
    """
    if len(node.input) < 3 or not node.input[2]:
        return ""
    if _has_float_bias(images, node):
        shape = images.weights(node.input[2])
        if channels not in shape or np.prod(shape) != channels:
            raise UnfitOperator("its bias does not have exactly one number for each channel")
        return str(node.input[2])
    name, grid = _operand(images, node, 2)
    if grid.zero or grid.scale.size not in (1, scales.size):
        raise UnfitOperator("the scale of its bias is not that of the sums")
    if not np.allclose(grid.scale.ravel(), scales, rtol=_NEAR, atol=0.0):
        raise UnfitOperator("the scale of its bias is not that of the sums")
    value = images.area.values[name]
    if value.dtype != TensorProto.INT32:
        raise UnfitOperator("its bias does not have 32 bits")
    if value.shape not in ((channels,), (1, channels)):
        raise UnfitOperator("its bias does not have exactly one number for each channel")
    return name


def _has_float_bias(images: ImageArea, node: onnx.NodeProto) -> bool:
    """Whether a convolution or product adds a bias that is not dequantized."""
    is_biased = len(node.input) > 2 and node.input[2] != ""
    return is_biased and not isinstance(images.parts.get(node.input[2]), Dequantized)


def _sums(
    images: ImageArea,
    core: onnx.NodeProto,
    result: _Result,
    kind: ByteConvolutionKind,
    channels: int,
    window: KernelWindow,
) -> Operation:
    """The operation of a convolution or product with `channels` channels in its result."""
    x, of_image = _operand(images, core, 0)
    w, of_weights, _, flip = _weights(images, core)
    if of_image.computed and not result.has_floats:
        raise UnfitOperator("its result is quantized with a scale that is known earlier")
    scales = of_image.step * of_weights.scale.ravel()
    if scales.size not in (1, channels):
        raise UnfitOperator("its weights have several scales, but not one for each channel")
    factors = np.zeros(-(-channels // _BLOCK) * _BLOCK, _F32)
    factors[:channels] = scales / result.grid.step
    bias = _bias(images, core, scales, channels)
    is_of_integers = bias and not _has_float_bias(images, core)
    if is_of_integers and of_image.computed:
        raise UnfitOperator("its bias has another scale")
    is_scaled = not is_of_integers and (bias or result.has_floats)
    kind = replace(
        kind,
        zero=result.grid.zero,
        least=result.least,
        most=result.most,
        has_floats=result.has_floats,
        factor2=1.0 if result.has_floats else 0.0,
        zero_in=of_image.zero,
        flip=flip,
        zero_weights=of_weights.zero - SIGN,
        scale=float(result.grid.step) if is_scaled else 0.0,
    )
    return Operation(
        kind,
        result.name,
        x,
        weights=w,
        bias=bias,
        third=of_image.computed,
        window=window,
        numbers=tuple(factors.tolist()),
        is_planar=isinstance(kind, ByteFirstStep),
    )


def _convolution(images: ImageArea, core: onnx.NodeProto, result: _Result) -> Operation:
    x, _ = _operand(images, core, 0)
    image = images.image(x)
    if images.is_channels_last(x):
        raise UnfitOperator("the last axis is the channels")
    _, _, shape, _ = _weights(images, core)
    out, window = channels_and_window(core, shape, image)
    kind = _kind_of_convolution(
        images, x, image.channels, out, window, has_floats=result.has_floats
    )
    operation = _sums(images, core, result, kind, out, window)
    images.note(operation.out, pooled(image, window, out))
    return operation


def _pointwise(images: ImageArea, core: onnx.NodeProto, result: _Result) -> Operation:
    """A convolution with a window of one element. Its weights have the shape [in, out]."""
    x, _ = _operand(images, core, 0)
    image = images.image(x)
    _, _, shape, _ = _weights(images, core)
    if len(shape) != 2 or shape[0] != image.channels:
        raise UnfitOperator("its weights do not fit its image")
    rows, columns = attribute(core, "strides")
    window = KernelWindow(stride=(int(rows), int(columns)))
    operation = _sums(images, core, result, ByteProductStep(), shape[1], window)
    images.note(operation.out, pooled(image, window, shape[1]))
    return operation


def _kind_of_convolution(
    images: ImageArea, x: str, channels: int, out: int, window: KernelWindow, *, has_floats: bool
) -> ByteConvolutionKind:
    if window.group == channels == out and channels > 1:
        if has_floats:
            raise UnfitOperator("no step makes float32 from a depthwise convolution of bytes")
        return ByteDepthwiseStep()
    if window.group != 1:
        raise UnfitOperator("no step convolves groups of bytes")
    is_loaded = x in images.area.inputs or x in images.loaded_as_bytes
    has_columns = window.kernel[1] <= _MOST_COLUMNS and window.dilation[1] == 1
    if is_loaded and channels <= _MOST_PLANAR and has_columns:
        return ByteFirstStep()
    return ByteConvStep()


def _product(images: ImageArea, core: onnx.NodeProto, result: _Result) -> Operation:
    x, _ = _operand(images, core, 0)
    image = images.image(x)
    _, _, shape, _ = _weights(images, core)
    is_turned = bool(attribute(core, "transB", 0))
    is_plain = not attribute(core, "transA", 0) and attribute(core, "alpha", 1.0) == 1
    if len(shape) != 2 or not images.is_channels_last(x) or not is_plain:
        raise UnfitOperator("it is not rows times a matrix")
    if not images.is_rows(x):
        images.channels_last.add(result.name)
    if len(core.input) > 2 and attribute(core, "beta", 1.0) != 1:
        raise UnfitOperator("its bias is scaled")
    taken, out = shape[::-1] if is_turned else shape
    if taken != image.channels:
        raise UnfitOperator("its weights do not fit its rows")
    kind = ByteConvStep() if is_turned else ByteProductStep()
    operation = _sums(images, core, result, kind, out, KernelWindow())
    images.note(operation.out, replace(image, channels=out))
    return operation


def _sum(images: ImageArea, core: onnx.NodeProto, result: _Result) -> Operation:
    (a, of_a), (b, of_b) = (_operand(images, core, place) for place in range(2))
    of_result = result.grid
    images.require_same(a, b)
    first, second = (_F32(of.step / of_result.step) for of in (of_a, of_b))
    # As in onnxruntime: the second product is rounded separately, and then each multiply-add once.
    offset = np.float64(first) * of_a.zero + np.float64(_F32(second * _F32(of_b.zero)))
    addend = _F32(_F32(of_result.zero) - _F32(offset))
    images.note(result.name, images.image(a))
    kind = ByteAddStep(
        of_result.zero, float(first), float(second), float(addend), result.least, result.most
    )
    return Operation(kind, result.name, a, b)


def _require_all(result: _Result) -> None:
    """Raises UnfitOperator if activations restrict the result to fewer than all 256 bytes."""
    if (result.least, result.most) != (0, 255):
        raise UnfitOperator("an activation limits the bytes of its result")


def _pool(images: ImageArea, core: onnx.NodeProto, result: _Result) -> Operation:
    x, of_image = _operand(images, core, 0)
    _require_all(result)
    if (of_image.step, of_image.zero) != (result.grid.step, result.grid.zero):
        raise UnfitOperator("the scale or zero point of its result is not that of its image")
    return _max_pool(images, core, x, result.name)


def _max_pool(images: ImageArea, node: onnx.NodeProto, x: str, out: str) -> Operation:
    image = images.image(x)
    kernel = attribute(node, "kernel_shape")
    if len(node.output) > 1 or attribute(node, "ceil_mode", 0):
        raise UnfitOperator("no step pools bytes in this way")
    window = window_of(node, (int(kernel[0]), int(kernel[1])), image)
    top, left, bottom, right = window.pads
    is_inside = max(top, bottom) < kernel[0] and max(left, right) < kernel[1]
    if window.dilation != (1, 1) or not is_inside:
        raise UnfitOperator("no step pools bytes in this way")
    images.note(out, pooled(image, window, image.channels))
    zero = images.zero_points.get(out, 0)
    return Operation(ByteMaxPoolStep(zero), out, x, window=window)


def _clipped(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """Clip, Max or Min of bytes and constants."""
    x = node.input[0]
    out = node.output[0]
    places = _BOUNDS.get(node.op_type)
    if places is None or len(node.input) > 1 + len(places):
        raise UnfitOperator("no step computes it on bytes")
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


def _average(images: ImageArea, core: onnx.NodeProto, result: _Result) -> Operation:
    x, of_image = _operand(images, core, 0)
    _require_all(result)
    image = images.image(x)
    if len(images.shape(x)) != 4:
        raise UnfitOperator("it is not a mean over rows and columns")
    one = ImageSize(1)
    images.note(result.name, Image(image.channels, image.batch, one, one, element_bytes=1))
    kind = ByteAverageStep(
        result.grid.zero, of_image.zero, float(of_image.step), float(result.grid.step)
    )
    return Operation(kind, result.name, x)


_Maker = Callable[[ImageArea, onnx.NodeProto, _Result], Operation]
# operators whose result may be float32
_SUMS: Mapping[str, _Maker] = {
    "Conv": _convolution,
    POINTWISE: _pointwise,
    "MatMul": _product,
    "Gemm": _product,
}
_CORES: Mapping[str, _Maker] = {
    **_SUMS,
    "Add": _sum,
    "MaxPool": _pool,
    "GlobalAveragePool": _average,
}
_ACTIVATIONS = ("Relu", "Clip")
# operator on bytes → which bound each input after the first one is (0: lower, 1: upper)
_BOUNDS: Mapping[str, tuple[int, ...]] = {"Clip": (0, 1), "Max": (0,), "Min": (1,)}
