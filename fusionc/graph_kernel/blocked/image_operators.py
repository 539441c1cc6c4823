"""Turns each operator that an area in the blocked layout can contain into an operation on images or
rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx

from fusionc.graph_kernel.blocked import heads
from fusionc.graph_kernel.blocked.byte_operators import byte_operation, is_of_bytes
from fusionc.graph_kernel.blocked.convolution_operators import convolution
from fusionc.graph_kernel.blocked.dynamic_forms import DYNAMIC_FORMS
from fusionc.graph_kernel.blocked.float16_values import FLOATS
from fusionc.graph_kernel.blocked.image_activations import ACTIVATIONS
from fusionc.graph_kernel.blocked.image_area import (
    ImageArea,
    ImageCut,
    ImageJoin,
    Operation,
    UnfitOperator,
)
from fusionc.graph_kernel.blocked.integer_forms import INTEGER_FORMS, POINTWISE
from fusionc.graph_kernel.blocked.kinds import operator_readings
from fusionc.graph_kernel.blocked.kinds.by_element import ActStep, AddStep, MulStep, ScaleStep
from fusionc.graph_kernel.blocked.kinds.by_lane import DepthwiseStep
from fusionc.graph_kernel.blocked.kinds.global_average import global_average
from fusionc.graph_kernel.blocked.moved_axes import reshaped, transposed, unsqueezed
from fusionc.graph_kernel.blocked.operator_reading import OperatorReading, Read
from fusionc.graph_kernel.blocked.pixel_rows import is_between_pixel_and_row, pixel_or_row
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
    product,
    with_bias,
    with_factor,
)
from fusionc.graph_kernel.blocked.step_kind import BLOCK, KernelWindow, are_blocks
from fusionc.graph_kernel.lower.area_info import attribute
from fusionc.model.operators import MICROSOFT

_SLICE = ("starts", "ends", "axes", "steps")
_INTEGER_PRODUCTS = frozenset(
    {
        "DynamicQuantizeMatMul",
        "MatMulInteger",
        "MatMulIntegerToFloat",
        "QGemm",
        "QLinearMatMul",
    }
)


def _mean(images: ImageArea, node: onnx.NodeProto) -> Operation | None:
    if images.is_channels_last(node.input[0]):
        mean_of_squares(images, node)
        return None
    return global_average(images, node)


def _sum_or_product(images: ImageArea, node: onnx.NodeProto) -> Operation | None:
    if is_mean_of_squares(images, node):
        with_epsilon(images, node)
        return None
    if len(node.input) != 2:
        raise UnfitOperator("it does not have two operands")
    a, b = node.input
    for name, constant in ((a, b), (b, a)):
        operation = _with_constant(images, node, name, constant)
        if operation is not None:
            return operation
    return _of_images(images, node, a, b)


def _with_constant(
    images: ImageArea, node: onnx.NodeProto, name: str, constant: str
) -> Operation | None:
    """A sum or product with one number, or with one number for each channel. `None` if `constant`
    is neither.
    """
    number = images.number(constant)
    if number is not None:
        return _linear(images, node, name, number, is_first=node.input[0] == constant)
    if not images.is_vector(constant):
        return None
    if node.op_type in ("Add", "Sum"):
        return with_bias(images, name, constant, node.output[0])
    return with_factor(images, name, constant, node.output[0]) if node.op_type == "Mul" else None


def _of_images(images: ImageArea, node: onnx.NodeProto, a: str, b: str) -> Operation:
    is_product = node.op_type == "Mul"
    if node.op_type == "Sub":
        raise UnfitOperator("no step subtracts images")
    one = images.image(a)
    other = images.image(b)
    if one.channels != other.channels or not images.are_same(a, b, 0):
        raise UnfitOperator("its operands have different channels or batches")
    if is_product and one.is_pixel != other.is_pixel and not images.is_channels_last(a):
        large, small = (b, a) if one.is_pixel else (a, b)
        images.note(node.output[0], images.image(large))
        return Operation(ScaleStep(), node.output[0], large, small)
    images.require_same(a, b)
    images.note(node.output[0], one)
    return Operation(MulStep() if is_product else AddStep(), node.output[0], a, b)


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
        raise UnfitOperator("its result has more axes than its operand")
    images.note(node.output[0], image)
    return Operation(
        DepthwiseStep(), node.output[0], name, window=KernelWindow(group=image.channels), line=line
    )


def _normalized(images: ImageArea, node: onnx.NodeProto) -> Operation:
    """BatchNormalization with constant statistics: a factor and an addend for each channel."""
    image = images.image(node.input[0])
    statistics = [np.array(images.numbers(node, k), np.float64) for k in range(1, 5)]
    if (
        len(node.output) > 1
        or attribute(node, "training_mode", 0)
        or not attribute(node, "spatial", 1)
    ):
        raise UnfitOperator("it computes statistics, or its statistics are not those of channels")
    if any(numbers.shape != (image.channels,) for numbers in statistics):
        raise UnfitOperator("its statistics do not fit its image")
    scale, offset, mean, variance = statistics
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + attribute(node, "epsilon", 1e-5))
        line = tuple(factor.tolist()), tuple((offset - mean * factor).tolist())
        is_finite = np.isfinite(np.array(line, np.float32)).all()
    if not is_finite:
        raise UnfitOperator("its statistics are not finite")
    images.note(node.output[0], image)
    window = KernelWindow(group=image.channels)
    return Operation(DepthwiseStep(), node.output[0], node.input[0], window=window, line=line)


def _activation(images: ImageArea, node: onnx.NodeProto) -> Operation:
    activated = ACTIVATIONS[node.domain, node.op_type](images, node)
    images.note(node.output[0], images.image(node.input[0]))
    return Operation(ActStep(), node.output[0], node.input[0], activated=activated)


def _joined(images: ImageArea, node: onnx.NodeProto) -> ImageJoin:
    if not images.is_of_channels(node.output[0], attribute(node, "axis", 1)):
        raise UnfitOperator("it does not join channels")
    parts = tuple(node.input)
    first = images.image(parts[0])
    channels = [images.image(part).channels for part in parts]
    # Such rows are left to onnxruntime, which concatenates them as fast.
    if images.is_rows(parts[0]) and any(count % BLOCK for count in channels[:-1]):
        raise UnfitOperator("it joins parts of blocks of rows")
    for part in parts[1:]:
        if not images.are_same(parts[0], part, 0):
            raise UnfitOperator("it joins images of different batches")
    images.note(node.output[0], replace(first, channels=sum(channels)))
    return ImageJoin(node.output[0], parts)


def _split(images: ImageArea, node: onnx.NodeProto) -> ImageCut:
    if not images.is_of_channels(node.input[0], attribute(node, "axis", 0)) or not all(node.output):
        raise UnfitOperator("it does not split channels")
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
        raise UnfitOperator("it does not take adjacent channels")
    if len(starts) != 1 or axes is None or not images.is_of_channels(node.input[0], axes[0]):
        raise UnfitOperator("it does not take channels")
    first, end, _ = slice(int(starts[0]), int(ends[0])).indices(image.channels)
    return _cut(images, node.input[0], [(node.output[0], first, end - first)])


def _between_floats(images: ImageArea, node: onnx.NodeProto) -> ImageCut:
    """A Cast between float32 and float16 whose operand and result are both needed outside."""
    if attribute(node, "to") not in FLOATS:
        raise UnfitOperator("it converts to a type that images do not have")
    return _cut(images, node.input[0], [(node.output[0], 0, images.image(node.input[0]).channels)])


def _cut(images: ImageArea, source: str, parts: list[tuple[str, int, int]]) -> ImageCut:
    image = images.image(source)
    for name, first, channels in parts:
        if images.is_rows(source) and not are_blocks(first, channels, image.channels):
            raise UnfitOperator("it takes parts of blocks of rows")
        images.note(name, replace(image, channels=channels))
    return ImageCut(source, tuple((name, first) for name, first, _ in parts))


OPERATORS: Mapping[tuple[str, str], OperatorReading] = {
    **dict.fromkeys(ACTIVATIONS, OperatorReading(_activation, of_rows=True)),
    **dict.fromkeys(
        (("", "Conv"), (MICROSOFT, "FusedConv")),
        OperatorReading(convolution, is_convolution=True, weights=(1, 2)),
    ),
    **dict.fromkeys(
        (("", "MatMul"), ("", "Gemm"), (MICROSOFT, "FusedGemm")),
        OperatorReading(
            product,
            of_rows=True,
            of_last_axis=True,
            is_convolution=True,
            is_product=True,
            weights=(1, 2),
        ),
    ),
    **dict.fromkeys(
        ((MICROSOFT, "BiasGelu"), (MICROSOFT, "FastGelu")),
        OperatorReading(biased_activation, of_rows=True, takes_vectors=True),
    ),
    **dict.fromkeys(
        (("", "Add"), ("", "Sum"), ("", "Mul")),
        OperatorReading(_sum_or_product, of_rows=True, takes_vectors=True),
    ),
    ("", "Sub"): OperatorReading(_sum_or_product, of_rows=True),
    ("", "ReduceMean"): OperatorReading(_mean, of_rows=True),
    ("", "BatchNormalization"): OperatorReading(_normalized),
    ("", "Concat"): OperatorReading(_joined, of_rows=True),
    ("", "Split"): OperatorReading(_split, of_rows=True),
    ("", "Slice"): OperatorReading(_slice, of_rows=True),
    ("", "Pow"): OperatorReading(squared, of_rows=True),
    ("", "Sqrt"): OperatorReading(root, of_rows=True),
    ("", "Div"): OperatorReading(over_root, of_rows=True),
    ("", "Transpose"): OperatorReading(transposed, of_heads=True),
    ("", "Reshape"): OperatorReading(reshaped, of_heads=True, of_pixels=True),
    ("", "Unsqueeze"): OperatorReading(unsqueezed, of_heads=True, of_pixels=True),
    ("", "Squeeze"): OperatorReading(pixel_or_row, of_pixels=True),
    ("", "Flatten"): OperatorReading(pixel_or_row, of_pixels=True),
    ("", "Expand"): OperatorReading(heads.repeated, of_heads=True),
    ("", "DequantizeLinear"): OperatorReading(byte_operation, of_rows=True, weights=(0,)),
    ("", "QuantizeLinear"): OperatorReading(byte_operation, of_rows=True),
    **{
        operator: OperatorReading(
            byte_operation,
            of_rows=True,
            is_convolution=bool(weights),
            is_product=operator[1] in _INTEGER_PRODUCTS,
            weights=weights,
        )
        for operator, weights in (INTEGER_FORMS | DYNAMIC_FORMS).items()
    },
    ("", "Cast"): OperatorReading(_between_floats, of_rows=True),
    ("", "Max"): OperatorReading(byte_operation, of_rows=True),
    ("", "Min"): OperatorReading(byte_operation, of_rows=True),
    **operator_readings(),
}
CONVOLVING = frozenset(key for key, reading in OPERATORS.items() if reading.is_convolution)
_PRODUCTS = frozenset(op for (_, op), reading in OPERATORS.items() if reading.is_product)


def is_of_integers(operator: tuple[str, str]) -> bool:
    """Whether an operator can be in an area only as a part of a group of integers."""
    reading = OPERATORS.get(operator)
    return reading is not None and reading.read is byte_operation


def is_product(op: str) -> bool:
    """Whether an operator multiplies rows by a matrix."""
    return op in _PRODUCTS


def is_of_rows(nodes: Sequence[onnx.NodeProto]) -> bool:
    """Whether the operators work on rows: at least one multiplies by a matrix, and none
    convolves.
    """
    ops = [
        node.op_type
        for node in nodes
        if (node.domain, node.op_type) in CONVOLVING or node.op_type == POINTWISE
    ]
    return bool(ops) and all(map(is_product, ops))


def operation_of(images: ImageArea, node: onnx.NodeProto) -> Read:
    """The operation of an operator. `None` if a later operator completes the operation. Raises
    UnfitOperator if no step computes the operator.
    """
    if is_of_bytes(images, node):
        return byte_operation(images, node)
    reading = OPERATORS.get((node.domain, node.op_type))
    if reading is None:
        raise UnfitOperator("no step computes it")
    if _has_rows(images, node) and not _may_have_rows(images, node, reading):
        raise UnfitOperator("no step computes it on rows")
    if reading.of_last_axis and not images.is_rows(node.input[0]):
        images.put_channels_last(node.input[0])
    # Only a Transpose may move the axis of the channels, so all other results have it last, too.
    if images.channels_last.intersection(node.input) and node.op_type != "Transpose":
        if not reading.of_rows:
            raise UnfitOperator("the last axis is the channels")
        # Note this for every operand: otherwise equal shapes would not mean that the axes are
        # equal.
        for name in images.of_four_axes(node.input):
            images.put_channels_last(name)
        images.channels_last.update(node.output)
    return reading.read(images, node)


def _has_rows(images: ImageArea, node: onnx.NodeProto) -> bool:
    ends = (*node.input[:1], *node.output)
    return any(images.is_rows(name) for name in ends if name in images.area.values)


def _may_have_rows(images: ImageArea, node: onnx.NodeProto, reading: OperatorReading) -> bool:
    # In an area of images, the axes of values that look like heads have other meanings.
    is_of_rows = reading.of_rows or (reading.of_heads and images.has_rows)
    return is_of_rows or (reading.of_pixels and is_between_pixel_and_row(images, node))
