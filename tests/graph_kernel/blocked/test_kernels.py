"""The kernels of blocked areas compute what onnxruntime computes without them."""

from __future__ import annotations

import numpy as np
import pytest
from kernels_run import run_kernel
from networks import Array, Found, Network, areas_of, check, difference, kinds_of, only_area, values_of
from random_networks import RandomNetwork

from fusionc.graph_kernel.library.build_library import build

_NETWORKS = 24


@pytest.fixture(scope="module")
def networks() -> list[tuple[Found, list[Array]]]:
    """Areas of random networks, and what they read."""
    pairs = []
    for seed in range(_NETWORKS):
        made = RandomNetwork(f"kernels/{seed}")
        found = areas_of(made.network.model())
        names = [name for one in found for name in one.images.values()]
        values = values_of(made.network.model(), made.network.feeds(made.sizes), names)
        pairs += [(one, one.tensors(values)) for one in found]
    return pairs


@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_of_random_networks(networks: list[tuple[Found, list[Array]]], threads: int) -> None:
    built = build([found.area for found, _ in networks])
    assert built.library is not None and not built.failed
    for found, tensors in networks:
        kernel, body = run_kernel(found, tensors, built.library, threads), run_kernel(found, tensors, None, threads)
        problems = [difference(a, b) for a, b in zip(body, kernel, strict=True)]
        assert not any(problems), f"{found.area.name}: {problems}"


def of_one_convolution(channels: int = 32) -> tuple[Found, list[Array]]:
    n = Network()
    found = only_area(n.model(n.op("Relu", n.conv(n.input(1, channels, 21, 30), channels, channels))))
    return found, found.tensors(n.feeds())


def test_what_is_not_finite_reaches_as_far_as_the_direct_way_lets_it() -> None:
    found, tensors = of_one_convolution()
    library = build([found.area]).library
    assert library is not None and kinds_of(check(found.area, tensors)) == "WINOGRAD"
    (image,) = (tensor for tensor in tensors if tensor.shape == (1, 32, 21, 30))
    for value in (np.inf, -np.inf, np.nan, 3e38):
        image[0, 3, 7, 11] = value
        (kernel,), (body,) = run_kernel(found, tensors, library), run_kernel(found, tensors, None)
        assert not difference(body, kernel)
        assert np.array_equal(np.isfinite(kernel), np.isfinite(body))


def test_sizes_may_change_from_run_to_run() -> None:
    n = Network()
    y = n.conv(n.op("Relu", n.conv(n.input("N", 32, "H", "W"), 32, 48)), 48, 32)
    found = only_area(n.model(y))
    library = build([found.area]).library
    for height, width, batch in ((40, 37, 1), (5, 6, 3), (64, 33, 2), (1, 1, 1), (40, 37, 1)):
        tensors = found.tensors(n.feeds({"N": batch, "H": height, "W": width}))
        (kernel,), (body,) = run_kernel(found, tensors, library), run_kernel(found, tensors, None)
        assert not difference(body, kernel)
