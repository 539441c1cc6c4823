"""Areas of bytes whose convolutions and products make float32, or add it before they quantize: they
compute what the operators of the file compute, with vectors of each width, and with the processor's
instructions for products of bytes and without them. Bytes differ by one step at ties.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from areas import session
from byte_networks import ByteNetwork
from kernels_run import call_of
from networks import MICROSOFT, Array, Found, IntegerCase, integer_case, kinds_of_steps
from standalone_programs import Standalone, widths

SAME = {"pads": [1, 1, 1, 1]}
MASKS = ("", "amx", "amx avx512_vnni avx_vnni")
SIZES = ((1, 7, 7), (2, 14, 15), (3, 9, 33))  # batch, rows, columns
NEAR = 1e-5  # of the largest number
TIES = 0.002  # the largest share of bytes that may be on the next step


def image(n: ByteNetwork, channels: int, zero: int = 117) -> str:
    return n.quantized(n.input("N", channels, "H", "W"), 0.02, zero)


def conv(
    n: ByteNetwork,
    x: str,
    channels: int,
    out: int,
    kernel: int = 1,
    bias: str = "float",
    **more: object,
) -> str:
    """A convolution whose result is float32."""
    w, scales = n.integers(out, channels, kernel, kernel)
    inputs = [x, w, *([n.bias(x, out, scales, is_float=bias == "float")] if bias else [])]
    pads = [kernel // 2] * 4
    return str(n.op("Conv", *inputs, kernel_shape=[kernel] * 2, pads=pads, **more))


def spread(channels: int, kernel: int = 1) -> float:
    """The step of a quantization that fits the result of such a convolution."""
    return float(0.02 * np.sqrt(channels * kernel * kernel) * 70 * 0.006 * 0.7)


def plain(channels: int, out: int, kernel: int, bias: str = "float", **more: object) -> ByteNetwork:
    n = ByteNetwork(seed=out)
    n.outputs = [conv(n, image(n, channels), channels, out, kernel, bias, **more)]
    return n


def residual(dtype: type = np.uint8, zero: int = 0, channels: int = 72) -> ByteNetwork:
    """A sum with what the block reads, dequantized."""
    n = ByteNetwork(seed=1, dtype=dtype)
    x = image(n, channels)
    y = n.op("Relu", n.op("Add", conv(n, x, channels, channels, 3), x))
    n.outputs = [n.quantized(y, spread(channels, 3), zero)]
    return n


def shortcut() -> ByteNetwork:
    """A sum of two convolutions, whose result is read as float32 and as bytes."""
    n = ByteNetwork(seed=2)
    x = image(n, 40)
    total = n.op(
        "Relu",
        n.op("Add", conv(n, x, 40, 97, strides=[2, 2]), conv(n, x, 40, 97, 3, strides=[2, 2])),
    )
    y = n.quantized(total, spread(40), 0)
    n.outputs = [n.op("Add", conv(n, y, 97, 97), total)]
    return n


def active_shortcut() -> ByteNetwork:
    """An activation before the sum."""
    n = ByteNetwork(seed=3)
    x = image(n, 40)
    n.outputs = [n.op("Add", n.op("Relu", conv(n, x, 40, 40, 3)), x)]
    return n


def quantized(activation: str, channels: int = 70, zero: int = 120) -> ByteNetwork:
    """An activation between a convolution and a quantization."""
    n = ByteNetwork(seed=4)
    y = n.op(activation, conv(n, image(n, 40), 40, channels))
    n.outputs = [n.quantized(y, spread(40), zero)]
    return n


def clipped(zero: int, dtype: type = np.uint8) -> ByteNetwork:
    """A Clip inside of the bytes."""
    n = ByteNetwork(seed=5, dtype=dtype)
    step = spread(40)
    bounds = [n.const(np.float32(30.3 * step * k)) for k in (-1, 2)]
    y = n.op("Clip", conv(n, image(n, 40), 40, 33), *bounds)
    n.outputs = [n.quantized(y, step, zero)]
    return n


def pooled() -> ByteNetwork:
    n = ByteNetwork(seed=6)
    y = n.op("Relu", conv(n, image(n, 3), 3, 40, 3))
    y = n.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], **SAME)
    n.outputs = [n.quantized(y, spread(3, 3), 20)]
    return n


def averaged() -> ByteNetwork:
    n = ByteNetwork(seed=7)
    y = n.op("Relu", conv(n, image(n, 40), 40, 70, 3))
    n.outputs = [n.op("GlobalAveragePool", y)]
    return n


def shared(*numbers: float) -> ByteNetwork:
    """A sum with float32 that is also quantized, in which some channels are these numbers."""
    n = ByteNetwork(seed=8)
    x = image(n, 70)
    y = conv(n, x, 70, 70)
    n.weights[n.nodes[-1].input[2]][: len(numbers)] = numbers
    other = n.op("Relu", y)
    y = n.op("Add", conv(n, n.quantized(other, spread(70), 100), 70, 70), other)
    n.outputs = [n.quantized(y, spread(70), 100)]
    return n


def rows(op: str, channels: int = 96) -> ByteNetwork:
    n = ByteNetwork(seed=9)
    x = n.quantized(n.input("N", channels), 0.02, 130)
    w, scales = n.integers(channels, 130, axis=1)
    n.outputs = [n.op(op, x, w, *([n.bias(x, 130, scales, is_float=True)] if op == "Gemm" else []))]
    return n


def moved(stride: int = 1, sums: bool = False, bias: bool = True) -> ByteNetwork:
    """Products of pixels, as the passes for convolutions of one element write them."""
    n = ByteNetwork(seed=10 + stride)
    x = image(n, 72)
    (dequantize,) = (node for node in n.nodes if node.output[0] == x)
    made = [_product(n, dequantize, stride, bias) for _ in range(1 + sums)]
    y = n.op("Add", *made) if sums else made[0]
    n.outputs = [n.op("Transpose", y, perm=[0, 3, 1, 2])]
    n.nodes.remove(dequantize)
    return n


def _product(n: ByteNetwork, dequantize: onnx.NodeProto, stride: int, bias: bool) -> str:
    integers, scale, zero = dequantize.input
    pixels = n.op("Transpose", integers, perm=[0, 2, 3, 1])
    if stride > 1:
        ends = [(1 << 31) - 1] * 2
        numbers = [n.const(a, np.int64) for a in ([0, 0], ends, [1, 2], [stride] * 2)]
        pixels = n.op("Slice", pixels, *numbers)
    w = n.const(n.rng.integers(-128, 128, (72, 97)), np.int8)
    scales = n.const(n.rng.uniform(0.002, 0.01, 97))
    more = [n.random(97)] if bias else []
    inputs = [pixels, w, scale, scales, zero, "", *more]
    return str(n.op("MatMulIntegerToFloat", *inputs, domain=MICROSOFT))


def fused(activation: str, *parameters: float, has_sum: bool = False) -> ByteNetwork:
    n = ByteNetwork(seed=12)
    x = image(n, 40)
    w, scales = n.integers(70, 40, 3, 3)
    z = [conv(n, x, 40, 70)] if has_sum else []
    bias = n.bias(x, 70, scales, is_float=True)
    more = {"activation_params": list(parameters)} if parameters else {}
    y = n.op(
        "FusedConv",
        x,
        w,
        bias,
        *z,
        domain=MICROSOFT,
        activation=activation,
        kernel_shape=[3, 3],
        **SAME,
        **more,
    )
    n.outputs = [n.quantized(y, spread(40, 3), 100)]
    return n


def cast(*count: int) -> ByteNetwork:
    """Weights that onnxruntime dequantizes when it loads a model."""
    n = ByteNetwork(seed=21)
    x = image(n, 3)
    w = n.const(n.rng.integers(-128, 128, (40, 3, 3, 3)), np.int8)
    scale = n.const(n.rng.uniform(0.002, 0.01, count))
    weights = n.op("Mul", n.op("Cast", w, to=onnx.TensorProto.FLOAT), scale)
    n.outputs = [n.op("Relu", n.op("Conv", x, weights, n.random(40), kernel_shape=[3, 3], **SAME))]
    return n


def not_finite() -> ByteNetwork:
    """NaN becomes the least byte, as in onnxruntime."""
    n = ByteNetwork(seed=20)
    y = conv(n, image(n, 72), 72, 70)
    n.weights[n.nodes[-1].input[2]][:4] = np.nan, np.inf, -np.inf, 3e38
    n.outputs = [n.quantized(n.op("LeakyRelu", y), spread(72), 100)]
    return n


NETWORKS: dict[str, Callable[[], ByteNetwork]] = {
    "not finite": not_finite,
    "cast": partial(cast, 40, 1, 1, 1),
    "cast, one scale": cast,
    "points": partial(plain, 64, 64, 1),
    "points, uneven": partial(plain, 40, 97, 1),
    "window": partial(plain, 72, 40, 3),
    "stride": partial(plain, 40, 33, 3, strides=[2, 2]),
    "points, stride": partial(plain, 40, 33, 1, strides=[2, 2]),
    "few channels": partial(plain, 3, 40, 3),
    "no bias": partial(plain, 40, 33, 3, ""),
    "integer bias": partial(plain, 40, 33, 3, "integer"),
    "residual": residual,
    "residual, signed": partial(residual, np.int8, 128),
    "residual, few": partial(residual, channels=9),
    "shortcut": shortcut,
    "active shortcut": active_shortcut,
    "relu": partial(quantized, "Relu"),
    "relu inside": partial(quantized, "Relu", 64, 30),
    "hard swish": partial(quantized, "HardSwish", 97),
    "sigmoid": partial(quantized, "Sigmoid", 9, 0),
    "clipped": partial(clipped, 120),
    "clipped, signed": partial(clipped, 90, np.int8),
    "pooled": pooled,
    "averaged": averaged,
    "shared": shared,
    "shared, not finite": partial(shared, np.nan, np.inf, 3e38),
    "product": partial(rows, "MatMul"),
    "matrix": partial(rows, "Gemm"),
    "moved": moved,
    "moved, stride": partial(moved, 2),
    "moved sum": partial(moved, sums=True),
    "moved, no bias": partial(moved, bias=False),
    "fused": partial(fused, "Relu"),
    "fused sum": partial(fused, "Relu", has_sum=True),
    "fused clip": partial(fused, "Clip", -1.0, 4.0),
    "fused leaky": partial(fused, "LeakyRelu", 0.1),
}
# networks in which a byte on the next step moves what follows
DEEP = ("shared", "shared, not finite", "shortcut")


@cache
def case(name: str) -> IntegerCase:
    return integer_case(NETWORKS[name]())


@pytest.fixture(scope="module")
def found() -> dict[str, Found]:
    return {name: case(name).found for name in NETWORKS}


def feeds_of(network: ByteNetwork, sizes: tuple[int, int, int]) -> dict[str, Array]:
    return {
        name: array * 1.5
        for name, array in network.feeds(dict(zip("NHW", sizes, strict=True))).items()
    }


def check(name: str, made: Array, right: Array) -> None:
    assert made.dtype == right.dtype
    assert made.shape == right.shape
    off = np.abs(made.astype(np.float64) - right.astype(np.float64))
    if made.dtype.kind == "f":
        share = 0.02 if name in DEEP else NEAR
        assert off.max() <= share * np.abs(right).max()
        return
    assert name in DEEP or off.max() <= 1
    assert (off > 0).mean() <= TIES * (5 if name in DEEP else 1)
    assert right.size < 100 or len(np.unique(right)) > 15


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("name", NETWORKS)
def test_steps_compute_what_the_operators_compute(name: str, programs: Standalone) -> None:
    one = case(name)
    assert len(one.found.area.nodes) >= len(one.network.nodes) - 1
    reference = session(one.model)
    ways = [(w, mask) for w in widths() for mask in (MASKS if w else MASKS[:1])]
    start = list(NETWORKS).index(name)
    for k, sizes in enumerate(SIZES):
        values = feeds_of(one.network, sizes)
        right = reference.run(None, values)
        tensors = one.found.tensors(values)
        # each way on one size, which is another one for the next network
        for width, without in ways[(k + start) % len(SIZES) :: len(SIZES)]:
            made = programs.run(one.found.area, tensors, width, without)
            for a, b in zip(made, right, strict=True):
                check(name, a, b)


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", NETWORKS)
def test_kernels_compute_what_the_operators_compute(name: str, threads: int, library: Path) -> None:
    one = case(name)
    with_kernel = session(call_of(one.found), library, threads=threads)
    reference = session(one.model)
    for sizes in SIZES:
        values = feeds_of(one.network, sizes)
        made = with_kernel.run(None, one.found.feeds(values))
        for a, b in zip(made, reference.run(None, values), strict=True):
            check(name, a, b)


# what steps do: the kinds of all steps that are not loads and stores
STEPS: Mapping[str, list[str]] = {
    "residual": ["ByteConvStep"],
    "residual, signed": ["ByteConvStep"],
    "relu": ["ByteConvStep"],
    "clipped": ["ByteConvStep"],
    "hard swish": ["ByteConvStep", "ByteQuantizeStep"],
    "pooled": ["ByteFirstStep", "ByteMaxPoolStep"],
    "active shortcut": ["ByteConvStep"],
    "moved sum": ["ByteProductStep", "ByteProductStep"],
    "fused sum": ["ByteConvStep", "ByteConvStep"],
    "shortcut": ["ByteConvStep", "ByteConvStep", "ByteQuantizeStep", "ByteConvStep"],
}


@pytest.mark.parametrize("name", STEPS)
def test_operators_become_few_steps(name: str) -> None:
    assert kinds_of_steps(case(name).found.area) == STEPS[name]
