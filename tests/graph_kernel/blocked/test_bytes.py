"""Areas of bytes compute the integers that numpy computes, bit by bit: with vectors of each width,
with the processor's instructions for products of bytes and without them. And they compute the
integers that onnxruntime computes at its default level.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from areas import session
from byte_networks import (
    ByteNetwork,
    computed_in_integers,
    on_integers,
    only_area_of_integers,
)
from kernels_run import call_of
from networks import Found
from standalone_programs import Standalone, widths

from fusionc.graph_kernel.area import KernelKind
from fusionc.graph_kernel.blocked.integer_forms import INTEGER_FORMS
from fusionc.graph_kernel.select.blocked_clusters import integer_locations
from fusionc.integer_groups import float_results, kept_groups
from fusionc.shapes.inference import typed_model

IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
SAME = {"pads": [1, 1, 1, 1]}
# what the processor does without: nothing, tiles, also products of bytes
MASKS = ("", "amx", "amx avx512_vnni avx_vnni")
SIZES = ((1, 7, 7), (2, 14, 15), (3, 9, 33), (1, 40, 37))  # batch, rows, columns


def image(n: ByteNetwork, channels: int, scale: float = 0.02, zero: int = 117) -> str:
    return n.quantized(n.input("N", channels, "H", "W"), scale, zero)


def convolved(
    channels: int, out: int, kernel: tuple[int, int], seed: int = 0, **more: object
) -> ByteNetwork:
    """Two convolutions: the second one reads what is in the layout, and its borders."""
    n = ByteNetwork(seed=seed + channels)
    x = image(n, channels)
    y = n.byte_conv(x, channels, out, kernel, **more)
    z = n.byte_conv(y, out, 33, (3, 3), 0, activation="Relu", **SAME)
    n.outputs = [z]
    return n


def depthwise(channels: int, kernel: tuple[int, int], **more: object) -> ByteNetwork:
    n = ByteNetwork(seed=channels)
    x = n.byte_conv(image(n, channels), channels, channels, (1, 1))
    n.outputs = [n.byte_conv(x, channels, channels, kernel, group=channels, **more)]
    return n


def signed() -> ByteNetwork:
    n = ByteNetwork(seed=3, dtype=np.int8)
    x = image(n, 20)
    y = n.byte_conv(x, 20, 20, (3, 3), axis=None, **SAME)
    n.outputs = [n.byte_conv(y, 20, 40, (1, 1), axis=None, has_bias=False)]
    return n


def asymmetric() -> ByteNetwork:
    """Zero points of weights that are not in the middle."""
    n = ByteNetwork(seed=11)
    x = image(n, 3)
    more = {"axis": None, "dtype": np.uint8, "zero_weights": 90}
    x = n.byte_conv(x, 3, 40, (3, 3), strides=[2, 2], **more, **SAME)
    x = n.byte_conv(x, 40, 70, (3, 3), **more, **SAME)
    x = n.byte_conv(x, 70, 70, (3, 3), group=70, **more, **SAME)
    n.outputs = [n.byte_conv(x, 70, 33, (1, 1), **more)]
    return n


def clipped() -> ByteNetwork:
    """Bounds of integers after a quantization."""
    n = ByteNetwork(seed=12)
    x = n.byte_conv(image(n, 24), 24, 40, (3, 3), 128, **SAME)
    x = n.clipped(x, 128, 200)
    y = n.byte_conv(x, 40, 40, (3, 3), 110, group=40, **SAME)
    y = n.clipped(y, 110, None)
    z = n.clipped(n.total(n.byte_conv(y, 40, 40, (1, 1)), x), 90, 220)
    n.outputs = [n.total(n.clipped(n.total(z, x), 80, 230), z)]
    return n


def residual() -> ByteNetwork:
    """Sums in a convolution, as the first operand and as the second, and by themselves."""
    n = ByteNetwork(seed=4)
    x = n.byte_conv(image(n, 24), 24, 72, (1, 1))
    y = n.total(n.byte_conv(x, 72, 72, (3, 3), **SAME), x)
    z = n.total(y, n.byte_conv(y, 72, 72, (1, 1), 30))
    both = n.byte_conv(z, 72, 72, (3, 3), group=72, **SAME)
    n.outputs = [n.total(both, z), z]
    return n


def bordered_sum(channels: int, zero: int, zero_of_sum: int) -> ByteNetwork:
    """A sum in a convolution, added to an image that is not read later and that a convolution has
    read with its border. A convolution reads the sum with its border.
    """
    n = ByteNetwork(seed=13)
    x = n.byte_conv(image(n, 7), 7, channels, (1, 1), zero)
    y = n.byte_conv(x, channels, channels, (3, 3), **SAME)
    y = n.total(n.byte_conv(y, channels, channels, (3, 3), **SAME), x, zero_of_sum)
    n.outputs = [n.byte_conv(y, channels, 33, (3, 3), **SAME)]
    return n


def bordered_clip(*, is_fused: bool) -> ByteNetwork:
    """Bounds of integers that stand for other numbers than before."""
    n = ByteNetwork(seed=15)
    x = n.byte_conv(image(n, 24), 24, 40, (3, 3), 128, **SAME)
    if not is_fused:
        x = n.clipped(x, 20, 250)
    y = n.clipped(x, 60, 200)
    dequantize = n.nodes[-1]
    dequantize.input[2] = n.const(90, np.uint8)
    n.outputs = [n.byte_conv(y, 40, 40, (3, 3), **SAME)]
    return n


def pooled() -> ByteNetwork:
    n = ByteNetwork(seed=5)
    x = n.byte_conv(image(n, 3), 3, 70, (7, 7), 0, strides=[2, 2], pads=[3] * 4, activation="Relu")
    x = n.pooled(x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    y = n.byte_conv(x, 70, 40, (3, 3), **SAME)
    n.outputs = [n.quantized(n.op("GlobalAveragePool", y), n.scales[y] * 0.3, 77)]
    return n


def float_biased(**more: bool) -> ByteNetwork:
    """Biases of float32 in all kinds of convolutions, and before a sum."""
    n = ByteNetwork(seed=16, **more)
    own = {"has_float_bias": True}
    x = n.byte_conv(image(n, 3), 3, 40, (3, 3), strides=[2, 2], **own, **SAME)
    y = n.byte_conv(x, 40, 70, (1, 1), **own)
    y = n.byte_conv(y, 70, 70, (3, 3), group=70, **own, **SAME)
    y = n.byte_conv(y, 70, 70, (3, 2), group=70, pads=[1, 0, 1, 1], **own)
    y = n.byte_conv(y, 70, 40, (3, 3), **own, **SAME)
    n.outputs = [n.byte_conv(n.total(y, x), 40, 33, (1, 1), **own)]
    return n


def float_biased_once(
    channels: int,
    out: int,
    kernel: tuple[int, int],
    dtype: type[np.generic] = np.uint8,
    **more: object,
) -> ByteNetwork:
    n = ByteNetwork(seed=channels, dtype=dtype)
    x = image(n, channels)
    n.outputs = [n.byte_conv(x, channels, out, kernel, has_float_bias=True, **more)]
    return n


def float_biased_extremely(group: int) -> ByteNetwork:
    n = float_biased_once(64, 64, (3, 3), group=group, **SAME)
    (conv,) = (node for node in n.nodes if node.op_type == "Conv")
    n.weights[conv.input[2]][:4] = np.nan, np.inf, -np.inf, 3e30
    return n


def rows(**more: bool) -> ByteNetwork:
    n = ByteNetwork(seed=6)
    x = n.quantized(n.input("H", 96) if more else n.input("N", "H", 96), 0.02, 130)
    y = n.byte_product(x, 96, 130, **more)
    n.outputs = [n.byte_product(y, 130, 40, **more)]
    return n


FLOAT_BIASED_ONCE: dict[str, Callable[[], ByteNetwork]] = {
    "float bias of the first": partial(float_biased_once, 3, 40, (3, 3), **SAME),
    "float bias of points": partial(float_biased_once, 72, 40, (1, 1)),
    "float bias of many": partial(float_biased_once, 72, 97, (3, 3), np.int8, **SAME),
    "float bias of channels": partial(float_biased_once, 72, 72, (3, 3), group=72, **SAME),
    "float bias not finite": partial(float_biased_extremely, 1),
    "float bias of channels not finite": partial(float_biased_extremely, 64),
    "float bias of signed channels": partial(float_biased_once, 33, 33, (3, 2), np.int8, group=33),
}
FLOAT_BIASED: dict[str, Callable[[], ByteNetwork]] = {
    **FLOAT_BIASED_ONCE,
    "float bias": float_biased,
    "float bias, signed": partial(float_biased, dtype=np.int8),
    "float bias of a matrix": partial(rows, is_gemm=True, has_float_bias=True),
}
NETWORKS: dict[str, Callable[[], ByteNetwork]] = {
    "points": partial(convolved, 64, 64, (1, 1)),
    "few": partial(convolved, 5, 7, (3, 3), **SAME),
    "first": partial(convolved, 3, 40, (3, 3), strides=[2, 2], pads=[1, 1, 1, 1]),
    "first of one": partial(convolved, 1, 16, (5, 4), pads=[2, 1, 2, 2]),
    "many": partial(convolved, 130, 97, (3, 3), **SAME),
    "uneven": partial(convolved, 32, 48, (2, 3), pads=[1, 0, 0, 2]),
    "apart": partial(convolved, 72, 65, (3, 3), strides=[2, 2], **SAME),
    "lower": partial(convolved, 24, 32, (3, 3), strides=[2, 1], **SAME),
    "points apart": partial(convolved, 70, 64, (1, 1), strides=[2, 2]),
    "wide": partial(convolved, 16, 16, (3, 3), dilations=[2, 2], pads=[2, 2, 2, 2]),
    "without bias": partial(convolved, 64, 32, (1, 1), has_bias=False),
    "one scale": partial(convolved, 32, 32, (1, 1), axis=None),
    "unsigned weights": partial(convolved, 32, 32, (1, 1), axis=None, dtype=np.uint8),
    "depthwise": partial(depthwise, 72, (3, 3), **SAME),
    "depthwise apart": partial(depthwise, 130, (3, 3), strides=[2, 2], **SAME),
    "depthwise wide": partial(depthwise, 64, (5, 5), pads=[2] * 4),
    "depthwise wide apart": partial(depthwise, 20, (5, 5), strides=[2, 2], pads=[2] * 4),
    "depthwise uneven": partial(depthwise, 33, (3, 2), pads=[1, 0, 1, 1]),
    "depthwise dilated": partial(depthwise, 33, (3, 3), dilations=[2, 1], pads=[2, 1, 2, 1]),
    "depthwise of weights up to 255": partial(
        depthwise, 72, (3, 3), dtype=np.uint8, zero_weights=0, **SAME
    ),
    "saturated": partial(convolved, 32, 32, (1, 1), shrink=1e-10),
    "depthwise saturated": partial(depthwise, 72, (3, 3), shrink=1e-10, **SAME),
    "signed": signed,
    "asymmetric": asymmetric,
    "clipped": clipped,
    "residual": residual,
    "sum of another border": partial(bordered_sum, 16, 255, 0),
    "sum of another border, many": partial(bordered_sum, 72, 30, 200),
    "sum of the same border": partial(bordered_sum, 16, 200, 200),
    "clipped to another border": partial(bordered_clip, is_fused=True),
    "clipped twice": partial(bordered_clip, is_fused=False),
    "pooled": pooled,
    "rows": rows,
    "matrix": partial(rows, is_gemm=True),
    **FLOAT_BIASED,
}


_WITH_SUMS = ("residual", "clipped", "float bias", "float bias, signed")
ON_INTEGERS = ("first", "asymmetric", "residual", "without bias", "rows")


def feeds_of(network: ByteNetwork, sizes: tuple[int, int, int]) -> dict[str, np.ndarray]:
    """Numbers of which some are outside of what bytes stand for."""
    return {
        name: array * 1.5
        for name, array in network.feeds(dict(zip("NHW", sizes, strict=True))).items()
    }


@pytest.fixture(scope="module")
def found() -> dict[str, Found]:
    return {name: only_area_of_integers(make().model()) for name, make in NETWORKS.items()}


@pytest.fixture(scope="module")
def found_on_integers() -> dict[str, Found]:
    return {
        name: only_area_of_integers(on_integers(NETWORKS[name]()).model()) for name in ON_INTEGERS
    }


@pytest.fixture(scope="module")
def programs(
    found: dict[str, Found],
    found_on_integers: dict[str, Found],
    tmp_path_factory: pytest.TempPathFactory,
) -> Standalone:
    areas = [one.area for one in (*found.values(), *found_on_integers.values())]
    return Standalone(areas, tmp_path_factory.mktemp("programs"), ["-O0"])


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("name", NETWORKS)
def test_steps_compute_the_integers(
    name: str, found: dict[str, Found], programs: Standalone
) -> None:
    network = NETWORKS[name]()
    one = found[name]
    assert len(one.area.nodes) >= len(network.nodes) - len(network.outputs)
    for sizes, ways in ways_by_size(list(NETWORKS).index(name)).items():
        values = feeds_of(network, sizes)
        integers = computed_in_integers(network.model(), values)
        tensors = one.tensors(values)
        right = [integers[node.input[0]] for node in _last_dequantizations(network)]
        for width, without in ways:
            made = programs.run(one.area, tensors, width, without)
            for a, b in zip(made, right, strict=True):
                off = int((a != b).sum())
                assert a.dtype == b.dtype
                # without the instruction, a sum of two rounds once more
                assert off <= (b.size // 100 if width == 0 and name in _WITH_SUMS else 0)
                assert b.size < 100 or len(np.unique(b)) > 20 or "saturated" in name


def ways_by_size(number: int) -> dict[tuple[int, int, int], list[tuple[int, str]]]:
    """The vectors and the instructions with which the network of this number is run on images of
    each size: each of them on one size, which is another one for the next network.
    """
    ways = [(w, m) for w in widths() for m in (MASKS if w and IS_X86 else MASKS[:1])]
    count = len(SIZES)
    return {size: ways[(k + number) % count :: count] for k, size in enumerate(SIZES)}


def _last_dequantizations(network: ByteNetwork) -> list[object]:
    by_result = {node.output[0]: node for node in network.nodes}
    nodes = [by_result[name] for name in network.outputs]
    places = {id(node): k for k, node in enumerate(network.nodes)}
    return sorted(nodes, key=lambda node: places[id(node)])


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", [n for n in NETWORKS if n not in ("signed", *FLOAT_BIASED)])
def test_onnxruntime_computes_the_same_integers(
    name: str, threads: int, found: dict[str, Found], library: Path
) -> None:
    """At its default level it computes groups in integers, too; int8 it computes as they are."""
    network = NETWORKS[name]()
    one = found[name]
    with_kernel = session(call_of(one), library, threads=threads)
    without = session(network.model(), threads=threads, is_optimized=True)
    for sizes in SIZES:
        values = feeds_of(network, sizes)
        made = with_kernel.run(None, one.feeds(values))
        right = without.run(None, values)
        grids = [network.weights[n.input[1]] for n in _last_dequantizations(network)]
        zeros = [network.weights[n.input[2]] for n in _last_dequantizations(network)]
        order = [node.output[0] for node in _last_dequantizations(network)]
        for a, output, scale, zero in zip(made, order, grids, zeros, strict=True):
            b = right[network.outputs.index(output)]
            dequantized = (a.astype(np.int32) - zero.astype(np.int32)).astype(np.float32) * scale
            assert int((dequantized != b).sum()) == 0


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("name", FLOAT_BIASED_ONCE)
def test_a_float_bias_is_added_before_rounding(
    name: str, found: dict[str, Found], library: Path
) -> None:
    """The operators of the file compute the same integers, up to one step at ties."""
    network = NETWORKS[name]()
    one = found[name]
    with_kernel = session(call_of(one), library)
    without = session(network.model())
    (dequantize,) = _last_dequantizations(network)
    scale, zero = (network.weights[place].astype(np.float32) for place in dequantize.input[1:])
    for sizes in SIZES:
        values = feeds_of(network, sizes)
        (made,) = with_kernel.run(None, one.feeds(values))
        (right,) = without.run(None, values)
        off = np.abs(made.astype(np.float32) - zero - right / scale)
        assert off.max() < 1.5
        assert (off > 0.5).mean() < 0.001


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("name", ON_INTEGERS)
def test_operators_on_integers(
    name: str,
    found: dict[str, Found],
    found_on_integers: dict[str, Found],
    programs: Standalone,
) -> None:
    """They become the same steps as the groups that they stand for."""
    groups = found[name]
    operators = found_on_integers[name]
    assert len(operators.area.nodes) < len(groups.area.nodes) / 2
    values = feeds_of(NETWORKS[name](), SIZES[1])
    for a, b in zip(
        programs.run(groups.area, groups.tensors(values), widths()[-1]),
        programs.run(operators.area, operators.tensors(values), widths()[-1]),
        strict=True,
    ):
        assert np.array_equal(a, b)


def of_other_scales() -> ByteNetwork:
    """As many scales of weights as channels, but of those that are read."""
    n = ByteNetwork(seed=7)
    x = n.byte_conv(image(n, 32), 32, 32, (3, 3))
    n.outputs = [n.byte_conv(x, 32, 32, (3, 3))]
    for node in n.nodes:
        for axis in node.attribute if node.op_type == "DequantizeLinear" else ():
            axis.i = int(n.weights[node.input[0]].ndim == 4)
    return n


def of_three_bounds() -> ByteNetwork:
    n = ByteNetwork(seed=8)
    x = n.clipped(n.byte_conv(image(n, 32), 32, 32, (3, 3)), 90, 200)
    (clip,) = (node for node in n.nodes if node.op_type == "Clip")
    clip.op_type = "Min"
    n.outputs = [n.byte_conv(x, 32, 32, (3, 3))]
    return n


def of_two_zero_points() -> ByteNetwork:
    """Bytes that stand for two numbers: the borders of their image can be one of them."""
    n = ByteNetwork(seed=9)
    x = n.byte_conv(image(n, 32), 32, 32, (3, 3))
    (dequantize,) = (node for node in n.nodes if node.output[0] == x)
    y = n.op("DequantizeLinear", *dequantize.input[:2])
    n.scales[y] = n.scales[x]
    n.outputs = [n.byte_conv(value, 32, 32, (3, 3), **SAME) for value in (x, y)]
    return n


def of_broadcast_bias(*shape: int) -> ByteNetwork:
    n = ByteNetwork(seed=10)
    x = n.quantized(n.input(64, 96), 0.02, 130)
    w, _ = n.integers(96, 130, axis=None)
    own = n.const(np.float32(0.02 * n.weights[n.nodes[-1].input[1]]))
    bias = n.op("DequantizeLinear", n.const(n.rng.integers(-9, 9, shape), np.int32), own)
    n.outputs = [n.quantized(n.op("Gemm", x, w, bias), 0.1, 120)]
    return n


@pytest.mark.parametrize(
    "network",
    [
        pytest.param(of_other_scales(), id="scales along another axis"),
        pytest.param(of_broadcast_bias(1), id="one number as bias"),
        pytest.param(of_broadcast_bias(64, 1), id="a bias for each row"),
        pytest.param(of_broadcast_bias(64, 130), id="a bias for each element"),
    ],
)
def test_what_no_step_computes(network: ByteNetwork) -> None:
    graph = typed_model(network.model(), "").main
    assert integer_locations(graph, KernelKind.BLOCKED) == []


def test_all_operators_on_integers_have_a_form() -> None:
    assert set(INTEGER_FORMS) == {*kept_groups.ON_INTEGERS, float_results.SCALED_PRODUCT}


def test_an_area_has_one_zero_point_for_bytes() -> None:
    graph = typed_model(of_two_zero_points().model(), "").main
    for location in integer_locations(graph, KernelKind.BLOCKED):
        made = [node.outputs[0] for node in location.nodes if node.is_op("QuantizeLinear")]
        read = [node.inputs[0] for node in location.nodes if node.is_op("DequantizeLinear")]
        assert all(read.count(value) < 2 for value in made)


def test_a_min_of_three_stays() -> None:
    graph = typed_model(of_three_bounds().model(), "").main
    locations = integer_locations(graph, KernelKind.BLOCKED)
    assert not any(node.is_op("Min") for location in locations for node in location.nodes)


def test_a_bias_for_each_column() -> None:
    graph = typed_model(of_broadcast_bias(130).model(), "").main
    assert len(integer_locations(graph, KernelKind.BLOCKED)) == 1
