"""Each operator that can be in a blocked area as an operation on images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx

from fusionc.graph_kernel.blocked import heads
from fusionc.graph_kernel.blocked.attention import attention
from fusionc.graph_kernel.blocked.convolution_operators import convolution, transposed_convolution
from fusionc.graph_kernel.blocked.image_activations import ACTIVATIONS
from fusionc.graph_kernel.blocked.image_area import (
    ImageArea,
    ImageCut,
    ImageJoin,
    Operation,
    UnfitOperator,
)
from fusionc.graph_kernel.blocked.image_resize import resize
from fusionc.graph_kernel.blocked.image_size import ImageSize
from fusionc.graph_kernel.blocked.layer_normalization import layer_normalization
from fusionc.graph_kernel.blocked.moved_axes import reshaped, transposed, unsqueezed
from fusionc.graph_kernel.blocked.pixel_rows import as_rows, is_between_pixel_and_row, pixel_or_row
from fusionc.graph_kernel.blocked.program import BLOCK, KernelWindow, StepKind, are_blocks
from fusionc.graph_kernel.blocked.root_mean_square import (
    is_mean_of_squares,
    mean_of_squares,
    over_root,
    root,
    squared,
    with_epsilon,
)
from fusionc.graph_kernel.blocked.row_operators import (
    biased_activation,
    cleared,
    product,
    with_bias,
    with_factor,
)
from fusionc.graph_kernel.blocked.windows import pooled, reaching_ends, window_of
from fusionc.graph_kernel.lower.area_info import attribute
from fusionc.model.operators import MICROSOFT

_ONE = ImageSize(1)

_Found = Operation | ImageJoin | ImageCut | None
_Reader = Callable[[ImageArea, onnx.NodeProto], _Found]


def _pool(images: ImageArea, node: onnx.NodeProto) -> Operation:
    image = images.image(node.input[0])
    kernel = attribute(node, "kernel_shape")
    window = window_of(node, (int(kernel[0]), int(kernel[1])), image)
    if attribute(node, "ceil_mode", 0):
        if node.op_type != "MaxPool" or attribute(node, "auto_pad", "NOTSET") not in ("NOTSET", ""):
            raise UnfitOperator("how windows beyond the end count is not the same everywhere")
        window = reaching_ends(window, image)
    if window.dilation != (1, 1) or len(node.output) > 1:
        raise UnfitOperator("no step pools like that")
    top, left, bottom, right = window.pads
    if max(top, bottom) >= kernel[0] or max(left, right) >= kernel[1]:
        raise UnfitOperator("a window lies beside the image")
    images.note(node.output[0], pooled(image, window, image.channels))
    kind = StepKind.MAX_POOL if node.op_type == "MaxPool" else StepKind.AVERAGE_POOL
    counts = bool(attribute(node, "count_include_pad", 0))
    return Operation(kind, node.output[0], node.input[0], window=window, flag=counts)


def _global_average(images: ImageArea, node: onnx.NodeProto) -> Operation:
    image = images.image(node.input[0])
    if node.op_type == "ReduceMean":
        axes = images.numbers(node, 1, "axes")
        if axes is None or sorted(int(axis) % 4 for axis in axes) != [2, 3]:
            raise UnfitOperator("it is no mean over rows and columns")
    pixel = replace(image, height=_ONE, width=_ONE)
    images.note(node.output[0], pixel if attribute(node, "keepdims", 1) else as_rows(pixel))
    return Operation(StepKind.GLOBAL_AVERAGE, node.output[0], node.input[0])


def _mean(images: ImageArea, node: onnx.NodeProto) -> Operation | None:
    if images.is_channels_last(node.input[0]):
        mean_of_squares(images, node)
        return None
    return _global_average(images, node)


def _sum_or_product(images: ImageArea, node: onnx.NodeProto) -> Operation | None:
    if is_mean_of_squares(images, node):
        with_epsilon(images, node)
        return None
    if len(node.input) != 2:
        raise UnfitOperator("it has not two operands")
    a, b = node.input
    for image, scalar in ((a, b), (b, a)):
        number = images.number(scalar)
        if number is not None:
            return _linear(images, node, image, number, is_first=scalar is a)
        if node.op_type in ("Add", "Sum") and images.is_vector(scalar):
            return with_bias(images, image, scalar, node.output[0])
        if node.op_type == "Mul" and images.is_vector(scalar):
            return with_factor(images, image, scalar, node.output[0])
    if node.op_type == "Sub":
        raise UnfitOperator("no step subtracts images")
    if images.image(a).channels != images.image(b).channels or not images.are_same(a, b, 0):
        raise UnfitOperator("its operands have different channels or batches")
    if (
        node.op_type == "Mul"
        and images.image(a).is_pixel != images.image(b).is_pixel
        and not images.is_channels_last(a)
    ):
        large, small = (b, a) if images.image(a).is_pixel else (a, b)
        images.note(node.output[0], images.image(large))
        return Operation(StepKind.SCALE, node.output[0], large, small)
    images.require_same(a, b)
    images.note(node.output[0], images.image(a))
    kind = StepKind.MUL if node.op_type == "Mul" else StepKind.ADD
    return Operation(kind, node.output[0], a, b)


def _linear(
    images: ImageArea, node: onnx.NodeProto, name: str, number: float, *, is_first: bool
) -> Operation:
    if node.op_type == "Mul":
        line = number, 0.0
    elif node.op_type == "Sub":
        line = (-1.0, number) if is_first else (1.0, -number)
    else:
        line = 1.0, number
    image = images.image(name)
    if len(images.shape(node.output[0])) != len(images.shape(name)):
        raise UnfitOperator("it adds axes")
    images.note(node.output[0], image)
    return Operation(
        StepKind.DEPTHWISE,
        node.output[0],
        name,
        window=KernelWindow(group=image.channels),
        line=line,
    )


def _normalized(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """BatchNormalization by constant statistics: a factor and an addend for each channel."""
    image = images.image(node.input[0])
    statistics = [np.array(images.numbers(node, k), np.float64) for k in range(1, 5)]
    if (
        len(node.output) > 1
        or attribute(node, "training_mode", 0)
        or not attribute(node, "spatial", 1)
    ):
        raise UnfitOperator("it computes statistics, or has others than of channels")
    if any(numbers.shape != (image.channels,) for numbers in statistics):
        raise UnfitOperator("its statistics do not fit its image")
    scale, offset, mean, variance = statistics
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + attribute(node, "epsilon", 1e-5))
        line = tuple(factor.tolist()), tuple((offset - mean * factor).tolist())
        is_finite = np.isfinite(np.array(line, np.float32)).all()
    if not is_finite:
        raise UnfitOperator("its statistics are no finite numbers")
    images.note(node.output[0], image)
    window = KernelWindow(group=image.channels)
    return Operation(StepKind.DEPTHWISE, node.output[0], node.input[0], window=window, line=line)


def _activation(images: ImageArea, node: onnx.NodeProto) -> Operation:
    found = ACTIVATIONS[node.domain, node.op_type](images, node)
    images.note(node.output[0], images.image(node.input[0]))
    return Operation(StepKind.ACT, node.output[0], node.input[0], activated=found)


def _joined(images: ImageArea, node: onnx.NodeProto) -> ImageJoin:
    if not images.is_of_channels(node.output[0], attribute(node, "axis", 1)):
        raise UnfitOperator("it joins no channels")
    parts = tuple(node.input)
    first = images.image(parts[0])
    channels = [images.image(part).channels for part in parts]
    # onnxruntime joins them as fast
    if images.is_rows(parts[0]) and any(count % BLOCK for count in channels[:-1]):
        raise UnfitOperator("it joins parts of blocks of rows")
    for part in parts[1:]:
        if not images.are_same(parts[0], part, 0):
            raise UnfitOperator("it joins images of different batches")
    images.note(node.output[0], replace(first, channels=sum(channels)))
    return ImageJoin(node.output[0], parts)


def _split(images: ImageArea, node: onnx.NodeProto) -> ImageCut:
    if not images.is_of_channels(node.input[0], attribute(node, "axis", 0)) or not all(node.output):
        raise UnfitOperator("it splits no channels")
    sizes = [
        images.area.values[name].shape[-1 if images.is_channels_last(name) else 1]
        for name in node.output
    ]
    first = 0
    parts = list[tuple[str, int, int]]()
    for name, size in zip(node.output, sizes, strict=True):
        if not isinstance(size, int):
            raise UnfitOperator("its channels are not known before the model runs")
        parts.append((name, first, size))
        first += size
    return _cut(images, node.input[0], parts)


def _slice(images: ImageArea, node: onnx.NodeProto) -> ImageCut:
    starts, ends, axes, strides = (
        images.numbers(node, k, name) for k, name in enumerate(_SLICE, 1)
    )
    image = images.image(node.input[0])
    if starts is None or ends is None or (strides or [1.0]) != [1.0]:
        raise UnfitOperator("it takes no channels that lie together")
    if len(starts) != 1 or axes is None or not images.is_of_channels(node.input[0], axes[0]):
        raise UnfitOperator("it takes no channels")
    first, end, _ = slice(int(starts[0]), int(ends[0])).indices(image.channels)
    return _cut(images, node.input[0], [(node.output[0], first, end - first)])


def _cut(images: ImageArea, source: str, parts: list[tuple[str, int, int]]) -> ImageCut:
    image = images.image(source)
    for name, first, channels in parts:
        if images.is_rows(source) and not are_blocks(first, channels, image.channels):
            raise UnfitOperator("it takes parts of blocks of rows")
        images.note(name, replace(image, channels=channels))
    return ImageCut(source, tuple((name, first) for name, first, _ in parts))


_SLICE = ("starts", "ends", "axes", "steps")
OPERATORS: Mapping[tuple[str, str], _Reader] = {
    **dict.fromkeys(ACTIVATIONS, _activation),
    ("", "Conv"): convolution,
    (MICROSOFT, "FusedConv"): convolution,
    ("", "ConvTranspose"): transposed_convolution,
    ("", "MatMul"): product,
    ("", "Gemm"): product,
    (MICROSOFT, "FusedGemm"): product,
    (MICROSOFT, "BiasGelu"): biased_activation,
    (MICROSOFT, "FastGelu"): biased_activation,
    ("", "MaxPool"): _pool,
    ("", "AveragePool"): _pool,
    ("", "GlobalAveragePool"): _global_average,
    ("", "ReduceMean"): _mean,
    ("", "Add"): _sum_or_product,
    ("", "Sub"): _sum_or_product,
    ("", "Sum"): _sum_or_product,
    ("", "Mul"): _sum_or_product,
    ("", "BatchNormalization"): _normalized,
    ("", "Concat"): _joined,
    ("", "Split"): _split,
    ("", "Slice"): _slice,
    ("", "LayerNormalization"): layer_normalization,
    ("", "RMSNormalization"): layer_normalization,
    ("", "Pow"): squared,
    ("", "Sqrt"): root,
    ("", "Div"): over_root,
    (MICROSOFT, "MultiHeadAttention"): attention,
    ("", "Where"): cleared,
    ("", "Transpose"): transposed,
    ("", "Reshape"): reshaped,
    ("", "Unsqueeze"): unsqueezed,
    ("", "Squeeze"): pixel_or_row,
    ("", "Flatten"): pixel_or_row,
    ("", "Expand"): heads.repeated,
    (MICROSOFT, "RotaryEmbedding"): heads.rotary_embedding,
    ("", "Resize"): resize,
    ("", "Upsample"): resize,
}
CONVOLVING = frozenset(
    name
    for name, reader in OPERATORS.items()
    if reader in (convolution, transposed_convolution, product)
)
_PRODUCTS = frozenset(op for (_, op), reader in OPERATORS.items() if reader is product)
_OF_ROWS = (
    product,
    attention,
    _sum_or_product,
    _activation,
    biased_activation,
    _joined,
    _split,
    _slice,
    layer_normalization,
    squared,
    _mean,
    root,
    over_root,
    cleared,
)
_OF_HEADS = (reshaped, transposed, unsqueezed, heads.repeated, heads.rotary_embedding)
_OF_PIXELS = (reshaped, unsqueezed, pixel_or_row)
_OF_THE_LAST_AXIS = (product, layer_normalization)


def is_product(op: str) -> bool:
    """Whether an operator multiplies rows by a matrix."""
    return op in _PRODUCTS


def is_of_rows(nodes: Sequence[onnx.NodeProto]) -> bool:
    """Whether operators are about rows: there are products, and no convolution."""
    found = [node.op_type for node in nodes if (node.domain, node.op_type) in CONVOLVING]
    return bool(found) and all(map(is_product, found))


def operation_of(images: ImageArea, node: onnx.NodeProto) -> _Found:
    """What an operator does; None where that is done by a later one. Raises UnfitOperator where no
    step does it.
    """
    reader = OPERATORS.get((node.domain, node.op_type))
    if reader is None:
        raise UnfitOperator("no step computes it")
    has_rows = [
        images.is_rows(name)
        for name in (*node.input[:1], *node.output)
        if name in images.area.values
    ]
    # among images the same words mean other axes
    of_rows = (*_OF_ROWS, *_OF_HEADS) if images.has_rows else _OF_ROWS
    is_between = reader in _OF_PIXELS and is_between_pixel_and_row(images, node)
    if any(has_rows) and not is_between and reader not in of_rows:
        raise UnfitOperator("it is of images, and these are rows")
    if reader in _OF_THE_LAST_AXIS and not images.is_rows(node.input[0]):
        images.put_channels_last(node.input[0])
    if images.channels_last.intersection(node.input) and reader is not transposed:
        if reader not in _OF_ROWS:
            raise UnfitOperator("the last axis are the channels")
        # or else equal shapes would mean other elements
        for name in images.of_four_axes(node.input):
            images.put_channels_last(name)
        images.channels_last.update(node.output)
    return reader(images, node)
