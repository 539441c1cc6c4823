"""Small quantized networks with random integers, and numpy code that computes them in integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from networks import MICROSOFT, Array, Found, Network, found_at
from onnx import numpy_helper

from fusionc.graph_kernel.area import KernelKind
from fusionc.graph_kernel.select.blocked_clusters import integer_locations
from fusionc.shapes.inference import typed_model

F32 = np.float32
_CLIPPED = {np.dtype(np.uint8): (0, 255), np.dtype(np.int8): (-128, 127)}


class ByteNetwork(Network):
    """A network whose values are dequantized from bytes. Methods return dequantized values."""

    def __init__(self, seed: int = 0, dtype: Any = np.uint8) -> None:
        super().__init__(seed=seed)
        self.dtype = dtype
        self.scales: dict[str, float] = {}

    def quantized(self, x: str, scale: float, zero: int, dtype: Any = None) -> str:
        """x after QuantizeLinear and DequantizeLinear; `zero` as if bytes had no sign."""
        dtype = dtype or self.dtype
        number = zero - 128 if dtype == np.int8 else zero
        grid = self.const(F32(scale)), self.const(number, dtype)
        y = self.op("DequantizeLinear", self.op("QuantizeLinear", x, *grid), *grid)
        self.scales[y] = float(F32(scale))
        return str(y)

    def integers(
        self, *shape: int, axis: int | None = 0, dtype: Any = np.int8, zero: int = 128
    ) -> tuple[str, Array]:
        """Dequantized weights and their scales."""
        least = -128 if dtype == np.int8 else 0
        count = 1 if axis is None else shape[axis]
        scales = self.rng.uniform(0.002, 0.01, count).astype(F32)
        zeros = np.full(count, zero + least, dtype)
        if axis is None:
            scales = scales[0]
            zeros = zeros[0]
        w = self.const(self.rng.integers(least, least + 256, shape), dtype)
        more = {} if axis is None else {"axis": axis}
        return self.op(
            "DequantizeLinear", w, self.const(scales), self.const(zeros, dtype), **more
        ), scales

    def bias(self, x: str, out: int, scales: Array, *, is_float: bool = False) -> str:
        """A bias of float32, or dequantized from integers with the scales of the sums."""
        if is_float:
            spread = 4000 * self.scales[x] * np.asarray(scales)
            return str(self.const(F32(self.rng.uniform(-1, 1, out) * spread)))
        numbers = self.const(self.rng.integers(-4000, 4000, out), np.int32)
        own = np.asarray(F32(self.scales[x]) * np.asarray(scales), F32)
        zeros = self.const(np.zeros(own.shape, np.int32), np.int32)
        more = {"axis": 0} if own.ndim else {}
        return str(self.op("DequantizeLinear", numbers, self.const(own), zeros, **more))

    def byte_conv(
        self,
        x: str,
        channels: int,
        out: int,
        kernel: tuple[int, int],
        zero: int = 100,
        *,
        group: int = 1,
        has_bias: bool = True,
        has_float_bias: bool = False,
        axis: int | None = 0,
        dtype: Any = np.int8,
        activation: str = "",
        zero_weights: int = 128,
        shrink: float = 1.0,
        **attributes: Any,
    ) -> str:
        """A convolution whose result is quantized. With a small `shrink`, all elements saturate."""
        w, scales = self.integers(
            out, channels // group, *kernel, axis=axis, dtype=dtype, zero=zero_weights
        )
        bias = (self.bias(x, out, scales, is_float=has_float_bias),) if has_bias else ()
        y = self.op("Conv", x, w, *bias, group=group, kernel_shape=kernel, **attributes)
        y = self.op(activation, y) if activation else y
        spread = np.sqrt(channels // group * kernel[0] * kernel[1]) * 70 * 0.006
        return self.quantized(y, self.scales[x] * spread * 0.7 * shrink, zero)

    def byte_product(
        self,
        x: str,
        channels: int,
        out: int,
        *,
        is_gemm: bool = False,
        has_float_bias: bool = False,
    ) -> str:
        w, scales = self.integers(channels, out, axis=1)
        scale = self.scales[x] * np.sqrt(channels) * 70 * 0.006 * 0.7
        bias = (self.bias(x, out, scales, is_float=has_float_bias),) if is_gemm else ()
        y = self.op("Gemm" if is_gemm else "MatMul", x, w, *bias)
        return self.quantized(y, scale, 120)

    def pooled(self, x: str, **attributes: Any) -> str:
        """A MaxPool of the integers of x."""
        (dequantize,) = (node for node in self.nodes if node.output[0] == x)
        self.nodes.remove(dequantize)
        integers, *grid = dequantize.input
        y = self.op("DequantizeLinear", self.op("MaxPool", integers, **attributes), *grid)
        self.scales[y] = self.scales[x]
        return str(y)

    def clipped(self, x: str, least: int, most: int | None) -> str:
        """A Clip or Max of the integers of x."""
        (dequantize,) = (node for node in self.nodes if node.output[0] == x)
        self.nodes.remove(dequantize)
        integers, *grid = dequantize.input
        bounds = [self.const(b, self.dtype) for b in (least, most) if b is not None]
        y = self.op("Max" if most is None else "Clip", integers, *bounds)
        y = self.op("DequantizeLinear", y, *grid)
        self.scales[y] = self.scales[x]
        return str(y)

    def total(self, a: str, b: str, zero: int = 90) -> str:
        scale = (self.scales[a] + self.scales[b]) * 0.6
        return self.quantized(self.op("Add", a, b), scale, zero)


_ON_INTEGERS = {
    "Conv": ("QLinearConv", ""),
    "MatMul": ("QLinearMatMul", ""),
    "Gemm": ("QGemm", MICROSOFT),
    "Add": ("QLinearAdd", MICROSOFT),
    "GlobalAveragePool": ("QLinearGlobalAveragePool", MICROSOFT),
}


def on_integers(network: Network) -> Network:
    """The network with operators on integers in place of those between DequantizeLinear and
    QuantizeLinear.
    """
    made = {name: node for node in network.nodes for name in node.output}
    nodes = [_on_integers(node, made) for node in network.nodes]
    read = {name for node in nodes for name in node.input} | set(network.outputs)
    between = {"Relu", *_ON_INTEGERS}
    network.nodes = [
        node
        for node in nodes
        if read.intersection(node.output)
        and node.op_type not in between
        and (node.op_type != "DequantizeLinear" or node.output[0] in network.outputs)
    ]
    return network


def _on_integers(node: onnx.NodeProto, made: Mapping[str, onnx.NodeProto]) -> onnx.NodeProto:
    """The operator on integers that ends with a quantization; other nodes as they are."""
    core = made.get(node.input[0]) if node.op_type == "QuantizeLinear" else None
    core = _without_relu(core, made)
    if core is None or core.op_type not in _ON_INTEGERS:
        return node
    op, domain = _ON_INTEGERS[core.op_type]
    grids = [list(made[name].input) for name in core.input]
    bias = [grids.pop()[0]] if len(grids) > 2 else []
    read = [name for grid in grids for name in grid]
    middle = (bias or [""]) if op == "QGemm" else []
    end = bias if op == "QLinearConv" else []
    inputs = [*read, *middle, *node.input[1:], *end]
    on_integers = onnx.helper.make_node(op, inputs, node.output, domain=domain)
    on_integers.attribute.extend(core.attribute)
    return on_integers


def _without_relu(
    core: onnx.NodeProto | None, made: Mapping[str, onnx.NodeProto]
) -> onnx.NodeProto | None:
    return made[core.input[0]] if core is not None and core.op_type == "Relu" else core


def only_area_of_integers(model: onnx.ModelProto) -> Found:
    (location,) = integer_locations(typed_model(model, "").main, KernelKind.BLOCKED)
    return found_at(location)


class _Grid:
    """Integers with a scale and a zero point."""

    def __init__(self, numbers: Array, scale: Array, zero: Array) -> None:
        self.raw = numbers
        self.numbers = numbers.astype(np.int64)
        self.scale = np.asarray(scale, F32)
        self.zero = int(np.ravel(zero)[0])

    @property
    def centred(self) -> Array:
        return self.numbers - self.zero


def computed_in_integers(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The results of all quantizations, with each group computed in integers: exact sums, which are
    then multiplied by one float32 factor.
    """
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    known: dict[str, Any] = {**constants, **feeds}
    for node in model.graph.node:
        known[node.output[0]] = _result(node, [known[name] for name in node.input])
    return {k: v for k, v in known.items() if isinstance(v, np.ndarray) and k not in constants}


def _result(node: onnx.NodeProto, read: Sequence[Any]) -> Any:
    if node.op_type == "DequantizeLinear":
        return _Grid(*read)
    if node.op_type == "QuantizeLinear":
        return _quantized(*read)
    if node.op_type == "Relu":
        return read[0]  # the quantization saturates there
    if node.op_type in ("Clip", "Max"):
        return np.clip(*read, *[None] * (3 - len(read)))
    return _pooled(node, read[0]) if node.op_type == "MaxPool" else (node, read)


def _quantized(value: Any, scale: Array, zero: Array) -> Array:
    least, most = _CLIPPED[zero.dtype]
    if isinstance(value, np.ndarray):
        steps = np.rint(value / scale) + zero.astype(np.int64)
    else:
        node, read = value
        steps = _STEPS[node.op_type](node, read, scale, int(zero))
    return np.clip(steps, least, most).astype(zero.dtype)


def _rescaled(sums: Array, factor: Array, zero: int, addend: Array | float = 0.0) -> Array:
    steps = np.rint(sums.astype(F32) * factor.astype(F32) + F32(addend))
    return np.clip(np.nan_to_num(steps, nan=-1e9), -1e9, 1e9).astype(np.int64) + zero


def _biases(read: Sequence[Any], scale: Array) -> tuple[Array, Array]:
    """What a core adds to its sums of integers, and what it adds in steps of the result."""
    none = np.zeros(1, np.int64)
    if len(read) < 3:
        return none, none
    bias = read[2]
    return (bias.numbers, none) if isinstance(bias, _Grid) else (none, bias / scale)


def _convolved(node: onnx.NodeProto, read: Sequence[_Grid], scale: Array, zero: int) -> Array:
    x = read[0].centred
    w = read[1].centred
    settings = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    group = settings["group"]
    rows, columns = w.shape[2:]
    down, right = settings.get("strides", [1, 1])
    top, left, bottom, end = settings.get("pads", [0] * 4)
    apart = settings.get("dilations", [1, 1])
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, end)))
    height = (x.shape[2] - apart[0] * (rows - 1) - 1) // down + 1
    width = (x.shape[3] - apart[1] * (columns - 1) - 1) // right + 1
    sums = np.zeros((x.shape[0], w.shape[0], height, width), np.int64)
    x = x.reshape(x.shape[0], group, -1, *x.shape[2:])
    w = w.reshape(group, -1, *w.shape[1:])
    for i in range(rows):
        for j in range(columns):
            seen = x[
                :,
                :,
                :,
                i * apart[0] : i * apart[0] + (height - 1) * down + 1 : down,
                j * apart[1] : j * apart[1] + (width - 1) * right + 1 : right,
            ]
            sums += np.einsum("ngihw,goi->ngohw", seen, w[..., i, j]).reshape(sums.shape)
    integers, addend = (bias[:, None, None] for bias in _biases(read, scale))
    factor = read[0].scale * read[1].scale / scale
    return _rescaled(sums + integers, factor.reshape(-1, 1, 1), zero, addend)


def _multiplied(node: onnx.NodeProto, read: Sequence[_Grid], scale: Array, zero: int) -> Array:
    integers, addend = _biases(read, scale)
    sums = read[0].centred @ read[1].centred + integers
    return _rescaled(sums, read[0].scale * read[1].scale / scale, zero, addend)


def _added(node: onnx.NodeProto, read: Sequence[_Grid], scale: Array, zero: int) -> Array:
    """A quantized sum. Each product is added with one rounding, as the processor does it."""
    a, b = read
    first = F32(a.scale / scale)
    second = F32(b.scale / scale)
    # onnxruntime computes with the integers as they are; shifting all of them by 128 may change the
    # rounding
    shift = 128 if a.raw.dtype == np.int8 else 0
    zeros = np.float64(first) * (a.zero + shift) + np.float64(F32(second * F32(b.zero + shift)))
    addend = F32(F32(zero + shift) - F32(zeros))
    total = F32(np.float64(second) * (b.numbers + shift) + np.float64(addend))
    total = (np.float64(first) * (a.numbers + shift) + total.astype(np.float64)).astype(F32)
    return np.rint(total).astype(np.int64) - shift


def _averaged(node: onnx.NodeProto, read: Sequence[_Grid], scale: Array, zero: int) -> Array:
    sums = read[0].centred.sum((2, 3), keepdims=True)
    pixels = F32(read[0].numbers.shape[2] * read[0].numbers.shape[3])
    return _rescaled(sums, F32(read[0].scale / F32(scale * pixels)), zero)


def _pooled(node: onnx.NodeProto, x: Array) -> Array:
    settings = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    rows, columns = settings["kernel_shape"]
    down, right = settings.get("strides", [1, 1])
    top, left, bottom, end = settings.get("pads", [0] * 4)
    pads = ((0, 0), (0, 0), (top, bottom), (left, end))
    x = np.pad(x, pads, constant_values=np.iinfo(x.dtype).min)
    windows = np.lib.stride_tricks.sliding_window_view(x, (rows, columns), (2, 3))
    return windows[:, :, ::down, ::right].max((-2, -1))


_STEPS = {
    "Conv": _convolved,
    "MatMul": _multiplied,
    "Gemm": _multiplied,
    "Add": _added,
    "GlobalAveragePool": _averaged,
}
