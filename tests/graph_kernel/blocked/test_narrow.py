"""Programs of bfloat16 compute what numpy makes of numbers rounded as they are stored, with the
tiles of the processor and with its vectors alone; without either, kernels compute in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from areas import session
from interpreter import NARROW, CProgram, Interpreter, programs_in, to_bfloat16
from kernels_run import call_of
from networks import MICROSOFT, Array, Found, Network, difference, only_area, wanted
from onnx import TensorProto, helper, numpy_helper
from standalone_programs import Standalone, instructions

from fusionc.graph_kernel.area import Area, KernelKind
from fusionc.graph_kernel.blocked.kinds.narrow_convolve import NarrowConvStep
from fusionc.graph_kernel.blocked.make_program import narrow_program_of
from fusionc.graph_kernel.c.source import source
from fusionc.graph_kernel.library.build_library import build

WIDEST = 2  # the number of vectors of 16 floats
# what the processor does without
TILES = ""
VECTORS = "amx"
NONE = "amx bf16"
# the largest distance, as a share of the largest number of a result, and the root of the mean of its
# squares, as a share of that of the result: sums are of float32, and where a product makes numbers
# of bfloat16, one between two of these may be rounded to the other one
NEAR = (2e-5, 4e-6)
NEAR_IF_ROUNDED_AGAIN = (1e-2, 1e-3)
needs_avx512_bf16 = pytest.mark.skipif(
    "avx512_bf16" not in instructions(), reason="the processor lacks AVX512_BF16"
)


def convolved(
    channels: int, out: int, kernel: int, group: int = 1, **attributes: list[int]
) -> Network:
    n = Network(seed=channels + out)
    y = n.conv(n.input("N", channels, "H", "W"), channels, out, kernel, group=group, **attributes)
    n.outputs = [n.op("Relu", y)]
    return n


def deep(channels: int = 40) -> Network:
    """Images of bfloat16 that other convolutions read, and add, before an activation and after."""
    n = Network(seed=7)
    x = n.op("Relu", n.conv(n.input("N", channels, "H", "W"), channels, channels))
    y = n.op("Relu", n.op("Add", n.conv(x, channels, channels), x))
    z = n.op("Add", n.op("Sigmoid", n.conv(y, channels, channels, 1)), y)
    y = n.conv(z, channels, 48, strides=[2, 2])
    n.outputs = [n.op("HardSwish", n.conv(y, 48, 20, 1))]
    return n


def apart() -> Network:
    """Images that steps of float32 read as well."""
    n = Network(seed=8)
    x = n.conv(n.input("N", 33, "H", "W"), 33, 64)
    pooled = n.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
    joined = n.op("Concat", n.conv(pooled, 64, 17), n.conv(x, 64, 40), axis=1)
    n.outputs = [n.conv(joined, 57, 33), n.op("Tanh", pooled)]
    return n


def squeezed() -> Network:
    """A convolution that multiplies its weights by a pixel."""
    n = Network(seed=9)
    x = n.conv(n.input("N", 16, "H", "W"), 16, 40)
    s = n.op("Sigmoid", n.conv(n.op("GlobalAveragePool", x), 40, 40, 1))
    n.outputs = [n.conv(n.op("Mul", x, s), 40, 8, 1)]
    return n


def mobile(channels: int, kernel: int, stride: int = 1, **attributes: list[int]) -> Network:
    """Depthwise convolutions between others, from an image of three channels to its mean."""
    n = Network(seed=11)
    x = n.op("Relu", n.conv(n.input("N", 3, "H", "W"), 3, 8))
    x = n.op("Clip", n.conv(x, 8, channels, 1), n.const(0.0), n.const(6.0))
    y = n.conv(x, channels, channels, kernel, group=channels, strides=[stride] * 2, **attributes)
    y = n.op("HardSwish", y)
    y = n.op("Sigmoid", n.conv(y, channels, channels, 3, group=channels))
    z = n.op("MaxPool", n.conv(y, channels, 40, 1), kernel_shape=[3, 3], pads=[1] * 4)
    mean = n.op("GlobalAveragePool", n.op("Relu", n.conv(z, 40, 36)))
    n.outputs = [n.conv(mean, 36, 10, 1), n.conv(z, 40, 16, 1)]
    return n


def stored(channels: int) -> Network:
    """Products whose rows are results, one alone and one in two parts."""
    n = Network(seed=13)
    x = n.op("Relu", n.product(n.input("N", "H", 64), 64, 64))
    parts = n.product(x, 64, channels + 64)
    sizes = n.const([channels, 64], np.int64)
    n.outputs = [
        n.product(x, 64, channels),
        *n.op("Split", parts, sizes, axis=2, outputs=2),
    ]
    return n


def joined(*channels: int) -> Network:
    """A convolution of two images, one of which others read as well."""
    n = Network(seed=14)
    x = n.op("Relu", n.conv(n.input("N", 16, "H", "W"), 16, channels[0]))
    y = n.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
    y = n.op("Sigmoid", n.conv(y, channels[0], channels[1]))
    both = n.op("Concat", x, y, axis=1)
    n.outputs = [n.op("Relu", n.conv(both, sum(channels[:2]), 40))]
    if len(channels) > 2:
        n.outputs = [n.op("Tanh", both), *n.outputs]
    return n


def enlarged(channels: int, out: int, rows: int, columns: int) -> Network:
    n = Network(seed=15)
    x = n.op("Relu", n.conv(n.input("N", channels, "H", "W"), channels, channels))
    weights = n.random(channels, out, rows, columns)
    y = n.op("ConvTranspose", x, weights, n.random(out), strides=[rows, columns])
    n.outputs = [n.conv(n.op("Relu", y), out, 16)]
    return n


def first(kernel: int, stride: int, out: int, **attributes: list[int]) -> Network:
    n = Network(seed=12)
    x = n.conv(n.input("N", 3, "H", "W"), 3, out, kernel, strides=[stride] * 2, **attributes)
    n.outputs = [n.op("Relu", x)]
    return n


def rows(channels: int = 48, out: int = 72) -> Network:
    n = Network(seed=10)
    x = n.input("N", "H", channels)
    y = n.op("Gelu", n.product(x, channels, out), domain=MICROSOFT)
    n.outputs = [n.op("Add", n.product(y, out, channels), x)]
    return n


NETWORKS: dict[str, Callable[[], Network]] = {
    "points": partial(convolved, 64, 32, 1),
    "few": partial(convolved, 8, 5, 3),
    "odd": partial(convolved, 33, 49, 3),
    "many": partial(convolved, 100, 70, 3),
    "apart": partial(convolved, 24, 40, 3, strides=[2, 2]),
    "lower": partial(convolved, 24, 40, 3, strides=[2, 1]),
    "points apart": partial(convolved, 40, 24, 1, strides=[2, 2], pads=[0, 0, 0, 0]),
    "wide": partial(convolved, 16, 16, 5, dilations=[2, 2], pads=[4, 4, 4, 4]),
    "uneven": partial(convolved, 32, 32, 4, pads=[1, 2, 2, 1]),
    "bare": partial(convolved, 32, 32, 3, pads=[0, 0, 0, 0]),
    "groups": partial(convolved, 64, 128, 3, group=2),
    "deep": deep,
    "mixed": apart,
    "squeezed": squeezed,
    "rows": rows,
    "stored": partial(stored, 96),
    "enlarged": partial(enlarged, 48, 24, 2, 2),
    "enlarged by 3": partial(enlarged, 16, 40, 1, 3),
    "joined": partial(joined, 24, 24),
    "joined whole": partial(joined, 32, 40),
    "joined and more": partial(joined, 40, 17, 1),
    "stored apart": partial(stored, 48),
    "first": partial(first, 3, 1, 24),
    "first of 7": partial(first, 7, 2, 64),
    "first of 4": partial(first, 4, 4, 40, pads=[0, 0, 0, 0]),
    "first of 5": partial(first, 5, 3, 33, dilations=[2, 1], pads=[4, 2, 4, 2]),
    "mobile": partial(mobile, 40, 3),
    "mobile of 5": partial(mobile, 24, 5, 2),
    "mobile of 7": partial(mobile, 64, 7),
    "mobile by 2": partial(mobile, 33, 3, 2),
    "mobile by 3": partial(mobile, 33, 3, 3, dilations=[1, 2], pads=[1, 2, 1, 2]),
}
SIZES = ((1, 5, 5), (2, 7, 7), (1, 14, 15), (3, 9, 33))  # batch, rows, columns


def narrowed(network: Network) -> Found:
    found = only_area(network.model())
    return replace(found, area=replace(found.area, kind=found.area.kind | KernelKind.NARROW))


@pytest.fixture(scope="module")
def found() -> dict[str, Found]:
    return {name: narrowed(make()) for name, make in NETWORKS.items()}


def program_in(area: Area) -> CProgram:
    (program,) = programs_in(source([area]), is_narrow=True).values()
    return program


def check_near(made: Array, right: Array, program: CProgram) -> None:
    products = [step for step in program.steps if step.kind in NARROW]
    largest, mean = NEAR_IF_ROUNDED_AGAIN if len(products) > 1 else NEAR
    distance = np.abs(made.astype(np.float64) - right)
    assert distance.max() <= largest * np.abs(right).max()
    assert np.sqrt((distance**2).mean()) <= mean * np.sqrt((right.astype(np.float64) ** 2).mean())


@needs_avx512_bf16
@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("name", NETWORKS)
def test_what_steps_compute(name: str, found: dict[str, Found], programs: Standalone) -> None:
    one = found[name]
    program = program_in(one.area)
    assert {"NARROW_CONV", "NARROW_PRODUCT", "NARROW_FIRST"} & set(program.kinds)
    start = list(NETWORKS).index(name)
    for sizes in SIZES[start % 2 :: 2]:  # the other half is that of the next network
        tensors = one.tensors(NETWORKS[name]().feeds(dict(zip("NHW", sizes, strict=True))))
        right = Interpreter(program, tensors).run()
        plain = wanted(one.area, tensors)
        for without in (TILES, VECTORS):
            for a, b, c in zip(
                programs.run(one.area, tensors, WIDEST, without), right, plain, strict=True
            ):
                check_near(a, b, program)
                assert difference(a, c), "it was not rounded"
        for a, c in zip(programs.run(one.area, tensors, WIDEST, NONE), plain, strict=True):
            assert not difference(a, c)


@needs_avx512_bf16
@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("without", [TILES, VECTORS])
def test_numbers_that_are_none(without: str, found: dict[str, Found], programs: Standalone) -> None:
    """NaN and infinity stay, also of what is larger than the largest number of bfloat16, and reach
    no pixel or channel that does not depend on them.
    """
    one = found["points"]
    (x, *weights) = one.tensors(NETWORKS["points"]().feeds({"N": 1, "H": 1, "W": 6}))
    x[:] = 0
    x[0, 3, 0, 1:6] = [np.nan, np.inf, -np.inf, np.finfo(np.float32).max, 1e-40]
    (made,) = programs.run(one.area, [x, *weights], WIDEST, without)
    (right,) = Interpreter(program_in(one.area), [x, *weights]).run()
    assert np.isfinite(made[..., [0, 5]]).all()
    assert np.array_equal(made[..., 5], made[..., 0]), "a subnormal number is 0"
    assert np.array_equal(np.isnan(made), np.isnan(right))
    assert np.array_equal(np.isinf(made), np.isinf(right))
    assert np.isnan(made[..., 1]).all() and np.isinf(made[..., 2:5]).any()


def test_rounding() -> None:
    """Of the model itself: ties to even."""
    x = np.float32([1, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -1 - 2**-8, 1e-40])
    right = [1, 1, 1 + 2**-6, 1 + 2**-7, -1, 0]
    assert to_bfloat16(x).tolist() == right


def test_images_between_products_are_narrow(found: dict[str, Found]) -> None:
    """Only what float32 needs is of float32."""
    program = program_in(found["deep"].area)
    assert program.kinds == ["LOAD", "NARROW", *["NARROW_CONV"] * 5, "STORE"]
    assert [storage[4] for storage in program.storages] == [4, 2, 2, 2, 2, 2, 4]


def test_depthwise_convolutions_and_pools_are_narrow(found: dict[str, Found]) -> None:
    program = program_in(found["mobile"].area)
    assert program.kinds == [
        *("LOAD", "NARROW_FIRST", "NARROW_CONV", "NARROW_DEPTHWISE", "NARROW_DEPTHWISE"),
        *("NARROW_CONV", "NARROW_MAX_POOL", "NARROW_CONV", "NARROW_GLOBAL_AVERAGE", "NARROW"),
        *("NARROW_CONV", "STORE", "NARROW_CONV", "STORE"),
    ]


def test_images_are_enlarged_in_bfloat16(found: dict[str, Found]) -> None:
    kinds = program_in(found["enlarged"].area).kinds
    assert kinds == ["LOAD", "NARROW", "NARROW_CONV", "NARROW_TRANSPOSED", "NARROW_CONV", "STORE"]


def test_joined_images_are_narrow(found: dict[str, Found]) -> None:
    program = program_in(found["joined"].area)
    assert "PICK" not in program.kinds and program.kinds.count("NARROW") == 1
    assert program.steps[-2].own["joined"] == 24


def test_rows_are_added_in_float32(found: dict[str, Found]) -> None:
    program = program_in(found["rows"].area)
    assert program.kinds == ["LOAD", "NARROW", "NARROW_PRODUCT", "NARROW_PRODUCT", "STORE"]
    assert program.steps[3].other == program.steps[0].out


def test_what_stays(found: dict[str, Found]) -> None:
    """Groups that are not whole blocks, and convolutions of very few channels."""
    for group, channels in ((4, 64), (1, 6)):
        n = convolved(channels, channels, 3, group)
        assert narrow_program_of(narrowed(n).area) is None
    made = narrow_program_of(found["groups"].area)
    assert made is not None
    assert any(isinstance(step.kind, NarrowConvStep) for step in made.program.steps)


def test_an_area_of_float32_has_one_program(found: dict[str, Found]) -> None:
    one = only_area(deep().model())
    assert not programs_in(source([one.area]), is_narrow=True)
    assert narrow_program_of(one.area) is None


@needs_avx512_bf16
@pytest.mark.usefixtures("needs_a_compiler")
def test_the_tiles_of_onnxruntime() -> None:
    """Products of integers, which use the same tiles, stay right in the same thread."""
    found = narrowed(rows(64, 64))
    library = build([found.area]).library
    tensors = found.tensors(rows(64, 64).feeds({"N": 4, "H": 32}))
    kernel = session(call_of(found), library, threads=1)
    feeds = {n: t for n, t in zip(found.area.inputs, tensors, strict=True) if n in found.images}
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (96, 128)).astype(np.uint8)
    b = rng.integers(-128, 128, (128, 64)).astype(np.int8)
    x = helper.make_tensor_value_info("a", TensorProto.UINT8, [96, 128])
    y = helper.make_tensor_value_info("y", TensorProto.INT32, [96, 64])
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["y"])],
        "integers",
        [x],
        [y],
        [numpy_helper.from_array(b, "b")],
    )
    integers = session(helper.make_model(graph, ir_version=10), None, threads=1)
    (first,) = kernel.run(None, feeds)
    for _ in range(3):
        (product,) = integers.run(None, {"a": a})
        assert np.array_equal(product, a.astype(np.int32) @ b.astype(np.int32))
        assert np.array_equal(kernel.run(None, feeds)[0], first)
