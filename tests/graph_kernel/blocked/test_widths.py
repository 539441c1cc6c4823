"""Programs compute the same with vectors of each width that the processor has, whatever onnxruntime
would take.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mobile_networks import inverted, shuffled, squeezed
from networks import MICROSOFT, Found, Network, areas_of, difference, only_area, values_of, wanted
from random_networks import RandomNetwork
from standalone_programs import Standalone, has_512, widths

from fusionc.graph_kernel.area import Area, KernelKind
from fusionc.graph_kernel.blocked.kinds.winograd import WinogradStep
from fusionc.graph_kernel.blocked.make_program import program_of

Array = np.ndarray[Any, Any]
_NETWORKS = 15
# By Winograd, with so many channels, rows and columns, and a stride: a task transforms the weights
# of some blocks of channels after the other where there are few tiles, and reads kept ones where
# there are more.
_DEEP = (
    (416, 5, 6, 1),
    (416, 12, 12, 1),
    (416, 20, 20, 1),
    (720, 6, 6, 1),
    (416, 11, 12, 2),
    (416, 36, 35, 2),
)


def deep(channels: int, rows: int, columns: int, stride: int) -> Network:
    n = Network(seed=channels)
    y = n.conv(n.input(1, channels, rows, columns), channels, 136, strides=[stride] * 2)
    n.outputs = [n.op("Relu", y)]
    return n


@pytest.mark.usefixtures("needs_a_compiler")
def test_widths(tmp_path: Path) -> None:
    calls = [*_random_calls(), *_mobile_calls(), *_deep_calls()]
    programs = Standalone([area for area, _ in calls], tmp_path, ["-O0"])
    for area, tensors in calls:
        plain = wanted(area, tensors)
        for width in widths():
            for k, (a, b) in enumerate(zip(plain, programs.run(area, tensors, width), strict=True)):
                problem = difference(a, b)
                assert not problem, f"width {width}, output {k}: {problem}"


def _random_calls() -> Iterator[tuple[Area, list[Array]]]:
    for seed in range(_NETWORKS):
        made = RandomNetwork(f"widths/{seed}")
        found = areas_of(made.network.model())
        names = [name for one in found for name in one.images.values()]
        values = values_of(made.network.model(), made.network.feeds(made.sizes), names)
        yield from ((one.area, one.tensors(values)) for one in found)


def _mobile_calls() -> Iterator[tuple[Area, list[Array]]]:
    for network, sizes in (
        *product((squeezed(), inverted()), ((1, 7, 5), (3, 4, 6))),
        (shuffled(), (2, 7, 5)),
    ):
        found = only_area(network.model(), KernelKind.BLOCKED)
        feeds = network.feeds(dict(zip("NHW", sizes, strict=True)))
        yield found.area, found.tensors(feeds)


def _deep_calls() -> Iterator[tuple[Area, list[Array]]]:
    """Convolutions by Winograd, with tiles of each kind."""
    points = set()
    for size in _DEEP:
        found = only_area(deep(*size).model(), KernelKind.WINOGRAD)
        kinds = [step.kind for step in program_of(found.area).program.steps]
        points |= {kind.tile_points for kind in kinds if isinstance(kind, WinogradStep)}
        yield found.area, found.tensors(deep(*size).feeds({}))
    assert points == {4, 5, 6}


@pytest.mark.usefixtures("needs_a_compiler")
def test_swish_of_any_number(tmp_path: Path) -> None:
    """At most 5 units in the last place from x / (1 + exp(-alpha x)), wherever that is a normal
    number, and beside that what comes of alpha x being rounded.
    """
    bounds = [
        sign * number for number in (87.0, 88.72, 88.73, 1e3, 3e38, np.inf) for sign in (1, -1)
    ]
    edges = [*bounds, 0.0, -0.0, np.nan, 1e-40]
    x = np.concatenate([edges, np.linspace(-90, 90, 1200), np.linspace(-1, 1, 320)]).astype(
        np.float32
    )
    areas = {alpha: _swish(alpha, x.size // 16) for alpha in (1.0, 1.702, -0.5)}
    programs = Standalone([found.area for found in areas.values()], tmp_path, ["-O0"])
    for alpha, found in areas.items():
        with np.errstate(all="ignore"):
            right = (y := x.astype(np.float64)) / (1 + np.exp(-np.float64(np.float32(alpha)) * y))
        for width in widths() if has_512() else widths()[:-1]:
            (made,) = programs.run(
                found.area, found.tensors({"in0": x.reshape(1, 16, 1, -1)}), width
            )
            made = made.ravel()
            unlike = ~(
                (made == right) | (np.isnan(made) & np.isnan(right)) | (np.abs(right) < 1e-36)
            )
            units = np.abs(made[unlike] - right[unlike]) / np.spacing(
                np.abs(right[unlike]).astype(np.float32)
            )
            allowed = 5 + np.abs(alpha * x[unlike]) * (np.log2(abs(alpha)) % 1 > 0)
            assert (units <= allowed).all(), (
                width,
                x[unlike][units.argmax()],
                made[unlike][units.argmax()],
            )
            assert (np.abs(made[np.abs(right) < 1e-36]) < 2e-36).all()


def _swish(alpha: float, columns: int) -> Found:
    n = Network()
    image = n.op("Conv", n.input(1, 16, 1, columns), n.const(np.ones((16, 1, 1, 1))), group=16)
    return only_area(n.model(n.op("QuickGelu", image, domain=MICROSOFT, alpha=alpha)))
