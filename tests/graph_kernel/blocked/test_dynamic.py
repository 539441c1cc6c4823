"""Areas whose bytes are quantized at run time: they give the bits of the operators of the file, with
vectors of each width, and with the processor's instructions for products of bytes and without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from areas import session
from kernels_run import call_of
from networks import MICROSOFT, Array, Found, IntegerCase, Network, integer_case, kinds_of_steps
from standalone_programs import Standalone, widths

from fusionc.graph_kernel.area import KernelKind
from fusionc.graph_kernel.select.blocked_clusters import integer_locations
from fusionc.shapes.inference import typed_model

MASKS = ("", "amx", "amx avx512_vnni avx_vnni")
SIZES = ((1, 7, 7), (2, 14, 15), (3, 9, 33))  # batch, rows, columns
FLOAT = onnx.TensorProto.FLOAT
INT8 = onnx.TensorProto.INT8
INT32 = onnx.TensorProto.INT32
LAST = [0, 2, 3, 1]
SECOND = [0, 3, 1, 2]


class DynamicNetwork(Network):
    """A network whose bytes are quantized at run time."""

    def image(self, channels: int) -> str:
        return self.input("N", channels, "H", "W")

    def quantized(self, x: str) -> list[str]:
        """The bytes, their scale and their zero point."""
        return list(self.op("DynamicQuantizeLinear", x, outputs=3))

    def signed(self, x: str, grid: list[str], moved: str = "") -> list[str]:
        """The same in int8, as DynamicConvSignednessPass writes it."""
        _, scale, zero = grid
        wide = self.op("Cast", zero, to=INT32)
        zero = self.op("Cast", self.op("Add", wide, self.const(-128, np.int32)), to=INT8)
        return [str(self.op("QuantizeLinear", moved or x, scale, zero)), scale, str(zero)]

    def weights_of(self, *shape: int, dtype: type = np.uint8) -> str:
        least = np.iinfo(dtype).min
        return self.const(self.rng.integers(least, least + 256, shape), dtype)

    def scales(self, channels: int, shape: tuple[int, ...]) -> str:
        count = () if not channels else shape
        return self.const(self.rng.uniform(0.002, 0.01, count))

    def conv_integer(
        self,
        grid: list[str],
        channels: int,
        out: int,
        kernel: int = 3,
        *,
        per_channel: bool = False,
        bias: bool = True,
        dtype: type = np.uint8,
        zero: int | None = 120,
        **more: object,
    ) -> str:
        q, scale, z = grid
        w = self.weights_of(out, channels, kernel, kernel, dtype=dtype)
        zeros = [] if zero is None else [self.const(zero, dtype)]
        more = {"pads": [kernel // 2] * 4, **more}
        sums = self.op("ConvInteger", q, w, z, *zeros, **more)
        factor = self.op("Mul", scale, self.scales(per_channel, (1, out, 1, 1)))
        y = self.op("Mul", self.op("Cast", sums, to=FLOAT), factor)
        return str(
            self.op("Add", y, self.const(self.rng.normal(0, 5, (1, out, 1, 1)))) if bias else y
        )

    def product(
        self, rows: str, grid: list[str], channels: int, out: int, *, bias: bool = True
    ) -> str:
        """MatMulIntegerToFloat."""
        _, scale, z = grid
        w = self.weights_of(channels, out)
        more = [self.random(out)] if bias else []
        t = self.const(self.rng.uniform(0.002, 0.01, out))
        zero = self.const(131, np.uint8)
        inputs = [rows, w, scale, t, z, zero, *more]
        return str(self.op("MatMulIntegerToFloat", *inputs, domain=MICROSOFT))


def plain(channels: int, out: int, kernel: int = 3, **more: object) -> DynamicNetwork:
    n = DynamicNetwork(seed=out)
    y = n.conv_integer(n.quantized(n.image(channels)), channels, out, kernel, **more)
    n.outputs = [n.op("Relu", y)]
    return n


def signed(moved: bool = False) -> DynamicNetwork:
    """With data in int8; if `moved`, the range is that of an image with its channels last."""
    n = DynamicNetwork(seed=1)
    x = n.input("N", "H", "W", 72) if moved else n.image(72)
    y = n.op("Transpose", x, perm=SECOND) if moved else x
    grid = n.signed(x, n.quantized(x), y)
    n.outputs = [n.conv_integer(grid, 72, 40)]
    return n


def several() -> DynamicNetwork:
    """Two convolutions read the bytes, a third operator the image; with a residual sum."""
    n = DynamicNetwork(seed=2)
    x = n.op("Relu", n.conv_integer(n.quantized(n.image(40)), 40, 70))
    grid = n.quantized(x)
    one, other = (n.conv_integer(grid, 70, 70, kernel) for kernel in (1, 3))
    n.outputs = [n.op("Relu", n.op("Add", n.op("Add", one, other), x))]
    return n


def middle() -> DynamicNetwork:
    """Outputs of the graph in the middle: bytes and float32."""
    n = DynamicNetwork(seed=3)
    x = n.op("Relu", n.conv_integer(n.quantized(n.image(40)), 40, 70))
    grid = n.quantized(x)
    n.outputs = [x, grid[0], n.conv_integer(grid, 70, 33)]
    return n


def moved(stride: int = 1, sums: bool = False, active: bool = False) -> DynamicNetwork:
    """Products of pixels between Transposes; if `active`, with a Relu before the second one."""
    n = DynamicNetwork(seed=4)
    grid = n.quantized(n.image(72))
    rows = [_sliced(n, n.op("Transpose", grid[0], perm=LAST), stride) for _ in range(1 + sums)]
    made = [n.product(x, grid, 72, 97) for x in rows]
    y = n.op("Add", *made) if sums else made[0]
    y = n.op("Relu", y) if active else y
    n.outputs = [n.op("Transpose", y, perm=SECOND)]
    return n


def _sliced(n: DynamicNetwork, rows: str, stride: int) -> str:
    if stride == 1:
        return rows
    ends = [(1 << 31) - 1] * 2
    numbers = [n.const(a, np.int64) for a in ([0, 0], ends, [1, 2], [stride] * 2)]
    return str(n.op("Slice", rows, *numbers))


def channels_last() -> DynamicNetwork:
    """A chain that stays channels last, with a stride and a residual sum."""
    n = DynamicNetwork(seed=5)
    x = n.input("N", "H", "W", 40)
    grid = n.quantized(x)
    x = n.op("Relu", n.product(grid[0], grid, 40, 40))
    grid = n.quantized(x)
    y = n.op("Relu", n.op("Add", n.product(grid[0], grid, 40, 40), x))
    grid = n.quantized(y)
    y = n.op("Relu", n.product(_sliced(n, grid[0], 2), grid, 40, 70))
    grid = n.quantized(y)
    n.outputs = [n.product(grid[0], grid, 70, 33, bias=False)]
    return n


def depthwise(op: str = "FusedConv", moved: bool = False, stride: int = 1) -> DynamicNetwork:
    """A depthwise convolution as GroupedConvIntegerPass writes it."""
    n = DynamicNetwork(seed=6)
    grid = n.quantized(n.input("N", "H", "W", 72) if moved else n.image(72))
    q = n.op("Transpose", grid[0], perm=SECOND) if moved else grid[0]
    x = n.op("DequantizeLinear", q, *grid[1:])
    domain = MICROSOFT if op == "FusedConv" else ""
    more = {"activation": "Clip", "activation_params": [0.0, 6.0]} if domain else {}
    w = n.random(72, 1, 3, 3)
    y = n.op(
        op, x, w, n.random(72), group=72, pads=[1] * 4, strides=[stride] * 2, domain=domain, **more
    )
    n.outputs = [n.conv_integer(n.quantized(y), 72, 33, 1)]
    return n


def rows(kind: str) -> DynamicNetwork:
    n = DynamicNetwork(seed=7)
    x = n.input("N", "W", 96)
    w = n.weights_of(96, 130)
    t = n.const(0.004) if kind == "joined" else n.scales(1, (130,))
    zero = n.const(np.uint8(131), np.uint8)
    bias = n.random(130)
    if kind == "joined":
        y = n.op("DynamicQuantizeMatMul", x, w, t, zero, bias, domain=MICROSOFT)
    else:
        q, scale, z = n.quantized(x)
        sums = n.op("Cast", n.op("MatMulInteger", q, w, z, zero), to=FLOAT)
        y = n.op("Add", n.op("Mul", sums, n.op("Mul", scale, t)), bias)
    n.outputs = [n.op("Relu", y)]
    return n


def block() -> DynamicNetwork:
    """A product, a residual sum with an image from outside, a norm, and a product."""
    n = DynamicNetwork(seed=9)
    x = n.input("N", "W", 96)
    grid = n.quantized(x)
    y = n.op("Add", n.product(grid[0], grid, 96, 96), x)
    y = n.op("LayerNormalization", y, n.random(96), n.random(96))
    grid = n.quantized(y)
    n.outputs = [n.op("Add", n.product(grid[0], grid, 96, 96), y)]
    return n


NETWORKS: dict[str, Callable[[], DynamicNetwork]] = {
    "window": partial(plain, 72, 40),
    "points": partial(plain, 64, 64, 1),
    "points, uneven": partial(plain, 40, 97, 1, per_channel=True),
    "per channel": partial(plain, 40, 70, per_channel=True),
    "stride": partial(plain, 40, 33, strides=[2, 2]),
    "points, stride": partial(plain, 40, 33, 1, strides=[2, 2]),
    "dilated": partial(plain, 40, 33, dilations=[2, 2], pads=[2] * 4),
    "few channels": partial(plain, 3, 40),
    "few channels, window": partial(plain, 3, 64, 7, strides=[2, 2]),
    "no bias": partial(plain, 40, 33, bias=False),
    "no zero point of weights": partial(plain, 40, 33, dtype=np.int8, zero=None),
    "signed weights": partial(plain, 40, 33, dtype=np.int8, zero=-3),
    "signed": signed,
    "signed, moved": partial(signed, True),
    "several": several,
    "middle": middle,
    "moved": moved,
    "moved, stride": partial(moved, 2),
    "moved sum": partial(moved, sums=True),
    "moved, active": partial(moved, 2, active=True),
    "moved sum, active": partial(moved, 2, sums=True, active=True),
    "channels last": channels_last,
    "depthwise": depthwise,
    "depthwise, plain": partial(depthwise, "Conv", stride=2),
    "depthwise, moved": partial(depthwise, moved=True),
    "rows": partial(rows, "MatMulInteger"),
    "rows, joined": partial(rows, "joined"),
    "block": block,
}
# networks with sums of float32 in another order, by which a later byte may be on the next step
ROUNDED = ("depthwise", "depthwise, plain", "depthwise, moved", "block")
SPECIAL: Mapping[str, Callable[[Array], Array]] = {
    "zeros": np.zeros_like,
    "positive": lambda x: np.abs(x) + 1,
    "negative": lambda x: -np.abs(x) - 1,
    "tiny": lambda x: x * np.float32(1e-38),
    "subnormal": lambda x: np.sign(x) * np.float32(1e-45),
    "huge": lambda x: x * np.float32(5e37),
    "one infinity": lambda x: _with(x, np.inf),
    "minus infinity": lambda x: _with(x, -np.inf),
    "both infinities": lambda x: _with(_with(x, -np.inf), np.inf, 5),
    "range beyond float32": lambda x: _with(_with(x, 3e38), -3e38, 5),
}


def _with(x: Array, number: float, place: int = 3) -> Array:
    x = x.copy()
    x.ravel()[place] = number
    return x


@cache
def case(name: str) -> IntegerCase:
    return integer_case(NETWORKS[name]())


@pytest.fixture(scope="module")
def found() -> dict[str, Found]:
    return {name: case(name).found for name in NETWORKS}


def feeds_of(network: DynamicNetwork, sizes: tuple[int, int, int]) -> dict[str, Array]:
    return network.feeds(dict(zip("NHW", sizes, strict=True)))


def check(name: str, made: Array, right: Array) -> None:
    assert made.dtype == right.dtype
    assert made.shape == right.shape
    if name not in ROUNDED:
        np.testing.assert_array_equal(made, right)
        return
    off = np.abs(made.astype(np.float64) - right.astype(np.float64))
    assert off.max() <= 0.02 * np.abs(right).max()


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("name", NETWORKS)
def test_steps_compute_what_the_operators_compute(name: str, programs: Standalone) -> None:
    one = case(name)
    assert len(one.found.area.nodes) == len(one.network.nodes)
    reference = session(one.model)
    for sizes in SIZES:
        values = feeds_of(one.network, sizes)
        right = reference.run(None, values)
        tensors = one.found.tensors(values)
        for width in widths():
            for without in MASKS if width else MASKS[:1]:
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


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("name", ["window", "few channels", "channels last", "rows"])
def test_grids_are_those_of_onnxruntime(name: str, special: str, programs: Standalone) -> None:
    one = case(name)
    values = feeds_of(one.network, SIZES[1])
    values = {key: SPECIAL[special](array) for key, array in values.items()}
    right = session(one.model).run(None, values)
    for width in widths():
        made = programs.run(one.found.area, one.found.tensors(values), width, "")
        for a, b in zip(made, right, strict=True):
            check(name, a, b)


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("name", ["window", "few channels"])
def test_a_range_ignores_nan(name: str, programs: Standalone) -> None:
    """onnxruntime's range depends on the place of the NaN and on the width of its vectors."""
    one = case(name)
    values = feeds_of(one.network, SIZES[1])
    (image,) = values
    values[image].ravel()[::97] = 0.0
    (right,) = session(one.model).run(None, values)
    values[image].ravel()[::97] = np.nan
    for width in widths():
        (made,) = programs.run(one.found.area, one.found.tensors(values), width, "")
        assert np.isfinite(made).all()
        assert (made == right).any()


# what steps do: the kinds of all steps that are not loads and stores
GRID = ["ByteRangeStep", "ByteGridStep"]
STEPS: Mapping[str, list[str]] = {
    "window": [*GRID, "ByteQuantizeStep", "ByteConvStep"],
    "few channels": [*GRID, "ByteFirstStep"],
    "moved, stride": [*GRID, "ByteQuantizeStep", "ByteProductStep"],
    "rows, joined": [*GRID, "ByteQuantizeStep", "ByteProductStep"],
    "depthwise": [
        *GRID,
        "ByteRoundStep",
        "DepthwiseStep",
        *GRID,
        "ByteQuantizeStep",
        "ByteConvStep",
    ],
}


@pytest.mark.parametrize("name", STEPS)
def test_operators_become_few_steps(name: str) -> None:
    assert kinds_of_steps(case(name).found.area) == STEPS[name]


def _scale_outside(n: DynamicNetwork) -> None:
    grid = n.quantized(n.image(40))
    n.outputs = [n.conv_integer(grid, 40, 33), grid[1]]


def _other_zero(n: DynamicNetwork) -> None:
    grid = n.quantized(n.image(40))
    other = n.quantized(n.image(40))
    n.outputs = [n.conv_integer([grid[0], grid[1], other[2]], 40, 33)]


def _other_scale(n: DynamicNetwork) -> None:
    x = n.image(40)
    grid = n.quantized(x)
    other = n.quantized(n.op("Relu", x))
    n.outputs = [n.conv_integer([grid[0], other[1], grid[2]], 40, 33)]


def _pooled_bytes(n: DynamicNetwork) -> None:
    grid = n.quantized(n.image(40))
    q = n.op("MaxPool", grid[0], kernel_shape=[3, 3], pads=[1] * 4)
    n.outputs = [n.conv_integer([q, *grid[1:]], 40, 33)]


def _several_zeros(n: DynamicNetwork) -> None:
    grid = n.quantized(n.image(40))
    y = n.conv_integer(grid, 40, 33)
    (conv,) = (node for node in n.nodes if node.op_type == "ConvInteger")
    n.weights[conv.input[3]] = np.arange(33, dtype=np.uint8)
    n.outputs = [y]


def _grouped(n: DynamicNetwork) -> None:
    n.outputs = [n.conv_integer(n.quantized(n.image(40)), 20, 40, group=2)]


STAYS: dict[str, Callable[[DynamicNetwork], None]] = {
    "the scale is an output": _scale_outside,
    "the zero point is of other bytes": _other_zero,
    "the scale is of other bytes": _other_scale,
    "bytes are pooled": _pooled_bytes,
    "several zero points": _several_zeros,
    "groups": _grouped,
}


@pytest.mark.parametrize("name", STAYS)
def test_other_operators_stay(name: str) -> None:
    n = DynamicNetwork(seed=8)
    STAYS[name](n)
    locations = integer_locations(typed_model(n.model(), "").main, KernelKind.BLOCKED)
    inside = {node.op for location in locations for node in location.nodes}
    assert "ConvInteger" not in inside
