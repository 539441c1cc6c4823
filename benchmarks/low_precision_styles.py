"""Write a float32 model in several styles of low precision, as tools do.

Static and dynamic quantization use onnxruntime's quantizer, with the options whose results look
like those of other tools. Its `quant_pre_process` is not used, because that turns each MatMul with
a bias into a Gemm between two Reshapes. Weights of 8 bits, 4 bits and float8 are read through
DequantizeLinear with symmetric scales.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.transformers.float16 import convert_float_to_float16

from fusionc.requested.target_opset import raise_opset

Feeds = dict[str, NDArray[Any]]
_SIGNED = QuantType.QInt8
_UNSIGNED = QuantType.QUInt8
CONVOLUTIONS = ("Conv", "ConvTranspose")
PRODUCTS = ("MatMul", "Gemm")
_LARGE = 1024  # elements; smaller constants are biases and factors
_BLOCKS = (32, 16, 8)
_OPSET_OF_BLOCKS = 21
_OPSET_OF_FLOAT8 = 19


@dataclass(frozen=True)
class Style:
    """A style of low precision."""

    name: str
    title: str
    # writes the model in this style; None if the file stays unchanged
    write: Callable[[Path, Sequence[Feeds], Path], None] | None
    of: tuple[str, ...] = ()  # operators that must have half of the weights; empty for all models
    is_quantized: bool = True  # whether the values are integers that must stay bit for bit
    options: tuple[str, ...] = ()  # of the conversion with kernels


class NotApplicable(Exception):
    """The style quantizes only the smaller part of a model."""


class _Reader(CalibrationDataReader):
    def __init__(self, samples: Sequence[Feeds]) -> None:
        self._rest = iter(samples)

    def get_next(self) -> Feeds | None:
        return next(self._rest, None)


def _static(source: Path, samples: Sequence[Feeds], target: Path, **how: Any) -> None:
    quantize_static(source, target, _Reader(samples), **how)


def _dynamic(source: Path, _: Sequence[Feeds], target: Path, **how: Any) -> None:
    quantize_dynamic(source, target, **how)


def _weights_only(
    source: Path, _: Sequence[Feeds], target: Path, pack: _Packing, opset: int = 0
) -> None:
    model = onnx.load(source)
    if opset:
        model = raise_opset(model, opset)
    for name, axis in _weights(model):
        place = next(at for at, one in enumerate(model.graph.initializer) if one.name == name)
        array = numpy_helper.to_array(model.graph.initializer[place])
        pieces = pack(array, axis % array.ndim)
        if pieces is None:
            continue
        del model.graph.initializer[place]
        packed, scale, attributes = pieces
        integers = f"{name}_quantized"
        scales = f"{name}_scale"
        model.graph.initializer.append(numpy_helper.from_array(packed, integers))
        model.graph.initializer.append(numpy_helper.from_array(scale, scales))
        node = helper.make_node(
            "DequantizeLinear", [integers, scales], [name], f"{name}_dequantize", **attributes
        )
        model.graph.node.insert(0, node)
    onnx.save(model, target)


_Packed = tuple[NDArray[Any], NDArray[np.float32], dict[str, int]]
_Packing = Callable[[NDArray[np.float32], int], _Packed | None]


def _by_channel(
    array: NDArray[np.float32], channels: int, dtype: type[Any], largest: float
) -> _Packed:
    """Quantize with one scale for each output channel."""
    others = tuple(axis for axis in range(array.ndim) if axis != channels)
    peak = np.abs(array).max(others, keepdims=True)
    scale = np.where(peak > 0, peak / largest, 1).astype(np.float32)
    scaled = array / scale
    if np.dtype(dtype).kind == "i":
        scaled = np.rint(scaled)
    return scaled.astype(dtype), scale.reshape(-1), {"axis": channels}


def _by_block(array: NDArray[np.float32], channels: int) -> _Packed | None:
    """Quantize to 4 bits with one scale for each block of inputs of an output channel. None if the
    inputs cannot be divided into blocks of equal size.
    """
    axis = channels - 1 if channels else 1
    size = array.shape[axis]
    block = next((block for block in _BLOCKS if size % block == 0), 0)
    if not block:
        return None
    peak = np.maximum.reduceat(np.abs(array), np.arange(0, size, block), axis)
    scale = np.where(peak > 0, peak / 7, 1).astype(np.float32)
    packed = np.clip(np.rint(array / np.repeat(scale, block, axis)), -8, 7)
    return packed.astype(ml_dtypes.int4), scale, {"axis": axis, "block_size": block}


def _weights(model: ModelProto) -> Iterator[tuple[str, int]]:
    """Each large float32 weight of a convolution or product, with its axis of output channels."""
    shapes = {one.name: one.dims for one in model.graph.initializer if one.data_type == 1}
    known = set[str]()
    for node in model.graph.node:
        axis = _output_axis(node)
        name = node.input[1] if axis is not None else ""
        if axis is None or name in known or name not in shapes or len(shapes[name]) < 2:
            continue
        if np.prod(shapes[name]) >= _LARGE:
            known.add(name)
            yield name, axis


def _output_axis(node: onnx.NodeProto) -> int | None:
    if node.op_type == "Gemm":
        is_transposed = any(a.name == "transB" and a.i for a in node.attribute)
        return 0 if is_transposed else 1
    return {"Conv": 0, "ConvTranspose": 1, "MatMul": -1}.get(node.op_type)


def _float16(source: Path, _: Sequence[Feeds], target: Path) -> None:
    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), target)


def share_of_weights(model: ModelProto, operators: Sequence[str]) -> float:
    """The share of a model's weights that these operators read as constants."""
    sizes = {one.name: int(np.prod(one.dims)) for one in model.graph.initializer}
    read = {
        node.input[1]
        for node in model.graph.node
        if node.op_type in operators and len(node.input) > 1
    }
    total = sum(size for size in sizes.values() if size >= _LARGE)
    return sum(sizes.get(name, 0) for name in read) / max(total, 1)


_INPUTS_ONLY: dict[str, Any] = {
    "op_types_to_quantize": [*CONVOLUTIONS, *PRODUCTS],
    "per_channel": True,
}
_OTHERS: dict[str, Any] = {
    "OpTypesToExcludeOutputQuantization": [*CONVOLUTIONS, *PRODUCTS],
    "QuantizeBias": False,
}
STYLES = {
    style.name: style
    for style in (
        Style("float32", "float32 file", None, is_quantized=False),
        Style("s8s8", "s8s8: `quantize_static`'s own default", _static),
        Style("u8u8", "u8u8", partial(_static, activation_type=_UNSIGNED, weight_type=_UNSIGNED)),
        Style(
            "u8s8",
            "u8s8, per channel (onnxruntime's advice)",
            partial(_static, activation_type=_UNSIGNED, weight_type=_SIGNED, per_channel=True),
        ),
        Style(
            "qoperator",
            "u8s8 in QOperator format",
            partial(
                _static,
                activation_type=_UNSIGNED,
                weight_type=_SIGNED,
                quant_format=QuantFormat.QOperator,
            ),
        ),
        Style(
            "inputs_u8",
            "QDQ on inputs only, u8 (NNCF, OpenVINO)",
            partial(
                _static,
                activation_type=_UNSIGNED,
                weight_type=_SIGNED,
                extra_options=_OTHERS,
                **_INPUTS_ONLY,
            ),
        ),
        Style(
            "inputs_s8",
            "the same, s8 symmetric (TensorRT, ModelOpt)",
            partial(
                _static,
                activation_type=_SIGNED,
                weight_type=_SIGNED,
                extra_options={**_OTHERS, "ActivationSymmetric": True},
                **_INPUTS_ONLY,
            ),
        ),
        Style(
            "dynamic_s8",
            "dynamic, weights int8",
            partial(_dynamic, op_types_to_quantize=list(PRODUCTS), weight_type=_SIGNED),
            PRODUCTS,
        ),
        Style(
            "dynamic_u8",
            "dynamic, weights uint8 (transformers)",
            partial(_dynamic, op_types_to_quantize=list(PRODUCTS), weight_type=_UNSIGNED),
            PRODUCTS,
        ),
        Style(
            "conv_integer",
            "ConvInteger (`quantize_dynamic` of convolutions)",
            partial(_dynamic, op_types_to_quantize=["Conv"], weight_type=_UNSIGNED),
            ("Conv",),
        ),
        Style(
            "weights_int8",
            "weights int8 behind DequantizeLinear",
            partial(_weights_only, pack=partial(_by_channel, dtype=np.int8, largest=127.0)),
            is_quantized=False,
        ),
        Style(
            "weights_int4",
            "weights int4, blocks of 32",
            partial(_weights_only, pack=_by_block, opset=_OPSET_OF_BLOCKS),
            is_quantized=False,
        ),
        Style(
            "weights_float8",
            "weights float8",
            partial(
                _weights_only,
                pack=partial(_by_channel, dtype=ml_dtypes.float8_e4m3fn, largest=448.0),
                opset=_OPSET_OF_FLOAT8,
            ),
            is_quantized=False,
        ),
        Style("float16", "float16 file", _float16, is_quantized=False),
        Style(
            "bfloat16",
            "**float32 file, bfloat16 inside**",
            None,
            is_quantized=False,
            options=("--precision_mode_v2=mixed_bfloat16",),
        ),
    )
}


def written(style: Style, source: Path, samples: Sequence[Feeds], target: Path) -> Path:
    """Write the model in a style, unless the file already exists, and return its path. If the style
    does not change the file, return the path of the model itself.

    Raises NotApplicable if the style would quantize less than half of the weights.
    """
    if style.write is None:
        return source
    if target.is_file():
        return target
    if style.of and share_of_weights(onnx.load(source), style.of) < 0.5:
        raise NotApplicable
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".unfinished.onnx")
    style.write(source, samples, unfinished)
    unfinished.rename(target)
    return target
