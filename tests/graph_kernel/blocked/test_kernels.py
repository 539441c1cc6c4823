"""Programs as kernels compute what onnxruntime computes: all networks in one library."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from areas import session
from kernels_run import call_of, run_kernel
from mobile_networks import inverted, squeezed
from networks import (
    MICROSOFT,
    REPEATED,
    TRANSPOSED,
    Array,
    Found,
    Network,
    areas_of,
    difference,
    only_area,
    values_of,
    wanted,
)
from random_networks import RandomNetwork

from fusionc.graph_kernel.area import KernelKind
from fusionc.graph_kernel.blocked.kinds.winograd import WinogradStep
from fusionc.graph_kernel.blocked.make_program import program_of
from fusionc.graph_kernel.library.build_library import build

CHANNELS = (3, 16, 17, 24, 40)
SIZES = ((1, 1, 1), (4, 15, 7), (2, 8, 8), (3, 13, 22))  # batch, rows, columns
RANDOM = 25


def mixed(channels: int) -> Network:
    """Most kinds of steps, for any sizes."""
    n = Network(seed=channels)
    x = n.conv(n.input("N", 3, "H", "W"), 3, channels)
    y = n.op("Relu", n.conv(x, channels, channels))
    y = n.op("Add", x, n.op("Sigmoid", n.conv(y, channels, channels, 5, group=channels)))
    s = n.op("HardSigmoid", n.conv(n.op("GlobalAveragePool", y), channels, channels, 1))
    y = n.op("Mul", n.op("Mul", y, n.const(0.7)), s)
    z = n.op("MaxPool", n.conv(y, channels, 32, strides=[2, 2]), kernel_shape=[3, 3], pads=[1] * 4)
    z = n.op("AveragePool", z, kernel_shape=[3, 3], pads=[1] * 4)
    large = n.op(
        "Resize",
        n.op("ConvTranspose", z, n.random(32, 16, 2, 2), strides=[2, 2]),
        "",
        n.const([1, 1, 1, 3]),
        **REPEATED,
    )
    other = n.op(
        "Resize", n.conv(z, 32, 16, 2, pads=[0, 0, 1, 1]), "", n.const([1, 1, 2, 6]), **REPEATED
    )
    joined = n.op("Concat", large, n.op("Tanh", other), large, axis=1)
    a, b = n.op("Split", joined, n.const([16, 32], np.int64), axis=1, outputs=2)
    n.outputs = [y, n.op("Gelu", n.conv(b, 32, 40), domain=MICROSOFT), n.op("HardSwish", a)]
    return n


def dense() -> Network:
    """Concats of concats, sums in both orders, results in the middle."""
    n = Network(seed=1)
    x = n.conv(n.input("N", 16, "H", "W"), 16, 32)
    for k in range(3):
        x = n.op("Concat", x, n.conv(n.op("Relu", x), 32 + 16 * k, 16), axis=1)
    y = n.conv(x, 80, 80, 1)
    n.outputs = [
        x,
        n.op("LeakyRelu", n.op("Add", n.conv(y, 80, 80), x)),
        n.op("Add", x, n.op("Tanh", n.conv(y, 80, 80))),
    ]
    return n


def wide() -> Network:
    """Convolutions by Winograd."""
    n = Network(seed=2)
    n.outputs = [n.op("Relu", n.conv(n.conv(n.input("N", 32, "H", "W"), 32, 48), 48, 32))]
    return n


def halved() -> Network:
    """Convolutions by Winograd with a stride of 2."""
    n = Network(seed=5)
    x = n.input("N", 176, "H", "W")
    y = n.op("Relu", n.conv(x, 176, 136, strides=[2, 2]))
    z = n.op("Relu", n.op("Add", n.conv(x, 176, 136, strides=[2, 2]), y))
    n.outputs = [z, n.op("Tanh", n.conv(z, 136, 136, strides=[2, 2], pads=[2, 0, 0, 2]))]
    return n


def small() -> Network:
    """Convolutions by Winograd with few pixels a tile."""
    n = Network(seed=4)
    x = n.conv(n.input("N", 64, 7, 8), 64, 72)
    y = n.op("Relu", n.conv(n.op("Mul", x, n.op("Sigmoid", x)), 72, 64))
    n.outputs = [n.op("Add", n.op("Tanh", n.conv(y, 64, 64)), y)]
    return n


def spare() -> Network:
    """Channels that are no whole number of blocks, one behind the other."""
    n = Network(seed=3)
    x = n.op("Sigmoid", n.conv(n.conv(n.input("N", 5, "H", "W"), 5, 21), 21, 21, group=21))
    y = n.op("Relu", n.conv(n.op("Add", n.conv(n.input("N", 5, "H", "W"), 5, 21), x), 21, 19))
    n.outputs = [
        n.op("ConvTranspose", y, n.random(19, 18, 2, 2), strides=[2, 2]),
        n.conv(y, 19, 17),
    ]
    return n


def convnext() -> Network:
    """Blocks that turn images to normalize them and to multiply their pixels by matrices."""
    n = Network(seed=5)
    x = n.conv(n.input("N", 8, "H", "W"), 8, 40, 1)
    for _ in range(2):
        y = n.op("Transpose", n.conv(x, 40, 40, 7, group=40), perm=[0, 2, 3, 1])
        y = n.op("LayerNormalization", y, n.random(40), n.random(40))
        y = n.product(n.op("Gelu", n.product(y, 40, 72), domain=MICROSOFT), 72, 40)
        x = n.op("Add", n.op("Transpose", y, perm=[0, 3, 1, 2]), x)
    n.outputs = [
        x,
        n.op("LayerNormalization", n.op("Transpose", x, perm=[0, 2, 3, 1]), n.random(40)),
    ]
    return n


def gated() -> Network:
    """What is not zero for zero, in front of what takes all channels together; they are no whole
    number of blocks.
    """
    n = Network(seed=8)
    x = n.conv(n.input("N", 8, "H", "W"), 8, 20, 1)
    y = n.op("Transpose", n.op("Sigmoid", n.op("Add", x, n.conv(x, 20, 20))), perm=[0, 2, 3, 1])
    y = n.op("Tanh", n.op("LayerNormalization", y, n.random(20), n.random(20), epsilon=0.2))
    y = n.op("LayerNormalization", n.op("Sigmoid", n.product(y, 20, 36)), n.random(36))
    n.outputs = [n.conv(n.op("Transpose", y, perm=[0, 3, 1, 2]), 36, 20)]
    return n


def bottlenecks() -> Network:
    """Products of pixels: of so many channels that sums are made in parts, and short rows that get
    a border.
    """
    n = Network(seed=9)
    x = n.conv(n.input("N", 8, "H", "W"), 8, 528, 1)
    z = n.op("Gelu", n.conv(x, 528, 40, 1), domain=MICROSOFT)
    for _ in range(2):
        y = n.op("Sigmoid", n.conv(n.op("HardSwish", n.conv(x, 528, 40, 1)), 40, 40, group=40))
        y = n.conv(
            n.op("Clip", n.op("Add", n.conv(y, 40, 40, 1), z), n.const(-0.5), n.const(1)),
            40,
            40,
            group=40,
        )
        x = n.op("Relu", n.op("Add", n.conv(y, 40, 528, 1), x))
    n.outputs = [n.conv(n.op("Tanh", n.conv(x, 528, 24, 1)), 24, 24, group=24), z]
    return n


def classified() -> Network:
    """A gate and a result that products make of means: rows of pixels, pixels of rows, with a
    border as well.
    """
    n = Network(seed=10)
    x = n.conv(n.input("N", 8, "H", "W"), 8, 40, 1)
    s = n.op("Relu", n.product(n.op("Flatten", n.op("GlobalAveragePool", x)), 40, 24))
    s = n.op("Unsqueeze", n.op("Sigmoid", n.product(s, 24, 40)), n.const([2, 3], np.int64))
    x = n.op("Mul", x, n.op("Sigmoid", n.conv(s, 40, 40)))
    y = n.op("Tanh", n.op("ReduceMean", x, axes=[2, 3], keepdims=0))
    n.outputs = [x, n.op("Gemm", y, n.random(10, 40), n.random(10), transB=1)]
    return n


def from_outside() -> Network:
    """Rows from outside of the area that are the only pixels of images: of windows with a border,
    and of none.
    """
    n = Network(seed=11)
    x, y, z = (n.op("Unsqueeze", n.input(1, 64), n.const([2, 3], np.int64)) for _ in range(3))
    wide = n.conv(n.conv(y, 64, 40, 1, pads=[1] * 4), 40, 24, pads=[0] * 4)
    n.outputs = [
        n.op("Tanh", n.op("Add", n.op("Add", n.conv(x, 64, 24), wide), n.conv(z, 64, 24, 1)))
    ]
    return n


def pooled() -> Network:
    """The largest of windows."""
    n = Network(seed=6)
    x = n.conv(n.input("N", 8, "H", "W"), 8, 24, 1)
    n.outputs = [
        n.op("MaxPool", x, kernel_shape=[k, k], strides=[s, s], pads=[1] * 4)
        for k, s in ((2, 1), (3, 2))
    ]
    return n


def transposed() -> Network:
    """Every form of a transposed convolution; some make pixels that no element of the kernel
    reaches.
    """
    n = Network(seed=7)
    x = n.conv(n.input("N", 8, "H", "W"), 8, 32, 1, pads=[1] * 4)
    n.outputs = [n.op("Relu", n.transposed(name, x, 32, 64)) for name in TRANSPOSED]
    return n


@dataclass(frozen=True)
class Library:
    """All areas by what they are called here, and their kernels."""

    areas: dict[str, list[Found]]
    file: Path


def _networks() -> dict[str, Callable[[], Network]]:
    found: dict[str, Callable[[], Network]] = {f"mixed_{c}": lambda c=c: mixed(c) for c in CHANNELS}
    return found | {
        "dense": dense,
        "wide": wide,
        "small": small,
        "halved": halved,
        "spare": spare,
        "convnext": convnext,
        "bottlenecks": bottlenecks,
        "squeezed": squeezed,
        "inverted": inverted,
        "gated": gated,
        "classified": classified,
        "from_outside": from_outside,
        "pooled": pooled,
        "transposed": transposed,
    }


@pytest.fixture(scope="module")
def library() -> Library:
    areas = {}
    for name, make in _networks().items():
        for kind in KernelKind.BLOCKED, KernelKind.WINOGRAD:
            areas[f"{name}_{kind}"] = [only_area(make().model(), kind)]
    for seed in range(RANDOM):
        areas[f"random_{seed}"] = areas_of(RandomNetwork(f"kernels/{seed}").network.model())
    built = build([found.area for several in areas.values() for found in several])
    assert not built.failed and built.library is not None
    return Library(areas, built.library)


def compare(found: Found, tensors: list[Array], library: Library, threads: int = 2) -> None:
    plain = wanted(found.area, tensors)
    for k, (a, b) in enumerate(
        zip(plain, run_kernel(found, tensors, library.file, threads), strict=True)
    ):
        problem = difference(a, b)
        assert not problem, f"output {k}: {problem}"


@pytest.mark.parametrize(
    ("make", "points"), [(wide, [6, 6]), (small, [4, 4, 4]), (halved, [5, 5, 5])]
)
def test_tiles_of_each_kind(make: Callable[[], Network], points: list[int]) -> None:
    program = program_of(only_area(make().model(), KernelKind.WINOGRAD).area).program
    kinds = [step.kind for step in program.steps]
    assert [kind.tile_points for kind in kinds if isinstance(kind, WinogradStep)] == points


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", _networks())
def test_kernels_of_any_sizes(name: str, size: tuple[int, int, int], library: Library) -> None:
    """Each algorithm on half of the sizes, which is the other half for the next network."""
    turn = SIZES.index(size) + list(_networks()).index(name)
    (found,) = library.areas[f"{name}_{[KernelKind.BLOCKED, KernelKind.WINOGRAD][turn % 2]}"]
    feeds = _networks()[name]().feeds(dict(zip("NHW", size, strict=True)))
    compare(found, found.tensors(feeds), library)


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("seed", range(RANDOM))
def test_random_networks(seed: int, library: Library) -> None:
    made = RandomNetwork(f"kernels/{seed}")
    found = library.areas[f"random_{seed}"]
    names = [name for one in found for name in one.images.values()]
    values = values_of(made.network.model(), made.network.feeds(made.sizes), names)
    for one in found:
        compare(one, one.tensors(values), library)


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("name", ["dense", "spare", "convnext", "squeezed", "inverted", "halved"])
@pytest.mark.parametrize("kind", [KernelKind.BLOCKED, KernelKind.WINOGRAD])
def test_what_is_not_finite_spreads_as_far_as_it_should(
    kind: KernelKind, name: str, library: Library
) -> None:
    (found,) = library.areas[f"{name}_{kind}"]
    feeds = _networks()[name]().feeds({"N": 2, "H": 23, "W": 19}, edges=True)
    compare(found, found.tensors(feeds), library)


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("share", [0.2, 0.8])
def test_a_pool_begins_anew_behind_a_nan(share: float, library: Library) -> None:
    """As in onnxruntime's own blocked layout; with its optimizers off it goes through windows in
    another order.
    """
    (found,) = library.areas[f"pooled_{KernelKind.BLOCKED}"]
    feeds = pooled().feeds({"N": 1, "H": 40, "W": 40})
    feeds["in0"][:, :, np.random.default_rng(0).random((40, 40)) < share] = np.nan
    model = pooled().model()
    image = values_of(model, feeds, [made_first := model.graph.node[0].output[0]])[made_first]
    made = run_kernel(found, found.tensors(feeds), library.file)
    for size, stride, result in zip((2, 3), (1, 2), made, strict=True):
        windows = np.lib.stride_tricks.sliding_window_view(image, (size, size), (2, 3))
        windows = windows[:, :, stride - 1 :: stride, stride - 1 :: stride]
        largest = np.full(windows.shape[:4], -np.inf, np.float32)
        for x in np.moveaxis(windows.reshape(*windows.shape[:4], -1), -1, 0):
            largest = np.where(largest > x, largest, x)
        # those without a border
        inner = result[:, :, 1 : 1 + largest.shape[2], 1 : 1 + largest.shape[3]]
        assert (
            np.isnan(largest).any()
            and not np.isnan(largest).all()
            and not difference(largest, inner)
        )


@pytest.mark.usefixtures("needs_a_compiler")
def test_one_thread_and_several(library: Library) -> None:
    (found,) = library.areas[f"mixed_40_{KernelKind.WINOGRAD}"]
    feeds = mixed(40).feeds({"N": 2, "H": 64, "W": 64})
    for threads in 1, 2, 3:
        compare(found, found.tensors(feeds), library, threads)


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("sizes", [(0, 8, 8), (1, 0, 8), (2, 8, 0)])
@pytest.mark.parametrize(("name", "channels"), [("dense", (80, 80, 80)), ("squeezed", (9,))])
def test_no_image_at_all(
    name: str, channels: tuple[int, ...], sizes: tuple[int, int, int], library: Library
) -> None:
    (found,) = library.areas[f"{name}_{KernelKind.WINOGRAD}"]
    tensors = found.tensors(_networks()[name]().feeds(dict(zip("NHW", sizes, strict=True))))
    made = [array.shape for array in run_kernel(found, tensors, library.file)]
    assert made == [(sizes[0], out, *sizes[1:]) for out in channels]


@pytest.mark.usefixtures("needs_a_compiler")
def test_no_batch_of_what_is_made_block_by_block(library: Library) -> None:
    (found,) = library.areas[f"inverted_{KernelKind.BLOCKED}"]
    tensors = found.tensors(inverted().feeds({"N": 0, "H": 8, "W": 8}))
    made = [array.shape for array in run_kernel(found, tensors, library.file)]
    assert made == [(0, 24, 4, 4), (0, 256, 3, 3), (0, 24, 4, 4)]


@pytest.mark.usefixtures("needs_a_compiler")
def test_no_rows_of_no_images(library: Library) -> None:
    (found,) = library.areas[f"classified_{KernelKind.BLOCKED}"]
    tensors = found.tensors(classified().feeds({"N": 0, "H": 8, "W": 8}))
    assert [array.shape for array in run_kernel(found, tensors, library.file)] == [
        (0, 40, 8, 8),
        (0, 10),
    ]


@pytest.mark.usefixtures("needs_a_compiler")
def test_the_function_computes_the_same(library: Library) -> None:
    (found,) = library.areas[f"mixed_17_{KernelKind.WINOGRAD}"]
    tensors = found.tensors(mixed(17).feeds({"N": 1, "H": 9, "W": 9}))
    for a, b in zip(wanted(found.area, tensors), run_kernel(found, tensors, None), strict=True):
        assert not difference(a, b)


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
@pytest.mark.parametrize("name", ["wide", "small", "halved"])
def test_one_large_number_reaches_as_far_as_the_direct_way_lets_it(
    name: str, value: float, library: Library
) -> None:
    (found,) = library.areas[f"{name}_{KernelKind.WINOGRAD}"]
    feeds = _networks()[name]().feeds({"N": 1, "H": 21, "W": 30})
    feeds["in0"][0, 3, 5, 7] = value
    compare(found, found.tensors(feeds), library)


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("make", [wide, halved])
def test_sizes_may_change_from_run_to_run(make: Callable[[], Network], library: Library) -> None:
    (found,) = library.areas[f"{make.__name__}_{KernelKind.WINOGRAD}"]
    of_all = session(call_of(found), library.file)
    (name,) = found.images
    sizes = ((40, 37, 1), (5, 6, 3), (64, 33, 2), (1, 1, 1), (40, 37, 1))

    def is_right(size: tuple[int, int, int]) -> bool:
        tensors = found.tensors(make().feeds(dict(zip("HWN", size, strict=True))))
        kernels = of_all.run(None, {name: tensors[found.area.inputs.index(name)]})
        return not any(map(difference, wanted(found.area, tensors), kernels))

    assert all(map(is_right, sizes))
    with ThreadPoolExecutor() as pool:  # at the same time
        assert all(pool.map(is_right, sizes))


@pytest.mark.usefixtures("needs_a_compiler")
def test_a_sigmoid_ends_where_that_of_onnxruntime_does() -> None:
    n = Network()
    found = only_area(n.model(n.op("Sigmoid", n.conv(n.input(1, 16, 9, 9), 16, 16))))
    # the bias
    tensors = [np.full_like(t, -30) if t.shape == (16,) else t for t in found.tensors(n.feeds())]
    found.constants.update(
        {name: t for name, t in zip(found.area.inputs, tensors, strict=True) if t.shape == (16,)}
    )
    library = build([found.area]).library
    (kernel,) = run_kernel(found, tensors, library)
    assert not kernel.any() and not wanted(found.area, tensors)[0].any()
