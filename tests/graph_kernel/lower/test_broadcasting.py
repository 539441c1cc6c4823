"""Sizes that onnxruntime broadcasts, whatever the model says of the result, and those that it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from areas import area_of, build_for_here, differences, kernel_model, plain_model, session

from fusionc.graph_kernel.area import Area

pytestmark = pytest.mark.usefixtures("needs_a_compiler")

# Graphs without their name, and sizes of N, M and K for which onnxruntime answers; a result may be larger than declared.
LARGER = {
    "(float[N,5] x, float[K,1] s) => (float[N,5] z) { z = PRelu(x, s) }": [
        (1, 0, 2),
        (2, 0, 2),
        (3, 0, 1),
    ],
    "(float[N,1] x, float[5] s) => (float[N,1] z) { z = PRelu(x, s) }": [(4, 0, 0)],
    "(float[N,M] x, float[N,K] s) => (float[N,M] z) { a = PRelu(x, s) z = Add(a, x) }": [
        (4, 1, 5),
        (4, 5, 1),
    ],
    "(float[N,M] x, float[N,K] s) => (float[N,M] z) { a = PRelu(x, s) z = Softmax(a) }": [
        (4, 1, 5),
        (4, 5, 5),
    ],
    "(float[N,5] x, float[M,5] s) => (float[N,5] z) { z = Add(x, s) }": [
        (1, 2, 0),
        (2, 2, 0),
        (3, 1, 0),
        (1, 0, 0),
    ],
    "(float[N,5] x, float[2,1] s) => (float[N,5] z) { z = Max(x, s) }": [(1, 0, 0), (2, 0, 0)],
    "(bool[N,5] c, float[M,5] x) => (float[N,5] z) { z = Where(c, x, x) }": [(1, 3, 0), (3, 1, 0)],
    "(float[N,M] x, float[K] s) => (float[N,M] z) { z = LayerNormalization(x, s) }": [
        (2, 5, 5),
        (2, 5, 1),
    ],
}
REFUSED = {
    "(float[N,5] x, float[K,1] s) => (float[N,5] z) { z = PRelu(x, s) }": (3, 0, 2),
    "(float[N,5] x, float[M,5] s) => (float[N,5] z) { z = Add(x, s) }": (3, 0, 0),
    "(float[N,M] x, float[K] s) => (float[N,M] z) { z = LayerNormalization(x, s) }": (2, 5, 7),
    "(float[N,1] x, float[K] s) => (float[N,1] z) { z = LayerNormalization(x, s) }": (2, 0, 3),
    "(float[N,M] x, float[N,M] s, float[K] b) => (float[N,M] z) { z = LayerNormalization(x, s, b) }": (
        2,
        5,
        3,
    ),
}


@pytest.fixture(scope="module")
def areas() -> dict[str, Area]:
    return {
        text: area_of(f"g {text}", name=f"area_{k}") for k, text in enumerate({**LARGER, **REFUSED})
    }


@pytest.fixture(scope="module")
def library(areas: dict[str, Area]) -> Path:
    built = build_for_here(list(areas.values()))
    assert built.library and not built.failed
    return built.library


def _feeds(area: Area, sizes: tuple[int, int, int]) -> dict[str, np.ndarray]:
    known = dict(zip("NMK", sizes, strict=True))
    rng = np.random.default_rng(0)
    shapes = {name: [known.get(str(n), n) for n in area.values[name].shape] for name in area.inputs}
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return {name: array > 0 if name == "c" else array for name, array in feeds.items()}


@pytest.mark.parametrize("text", LARGER)
def test_results_are_as_large_as_in_onnxruntime(
    text: str, areas: dict[str, Area], library: Path
) -> None:
    plain = session(plain_model(areas[text]))
    kernel = session(kernel_model(areas[text]), library)
    for sizes in LARGER[text]:
        feeds = _feeds(areas[text], sizes)
        assert not differences(plain.run(None, feeds), kernel.run(None, feeds), 1e-5), sizes


@pytest.mark.parametrize("text", REFUSED)
def test_what_onnxruntime_refuses_is_not_read_beyond_its_end(
    text: str, areas: dict[str, Area], library: Path
) -> None:
    feeds = _feeds(areas[text], REFUSED[text])
    with pytest.raises(Exception, match="broadcast"):
        session(plain_model(areas[text])).run(None, feeds)
    with pytest.raises(Exception, match="Non-zero status code"):
        session(kernel_model(areas[text]), library).run(None, feeds)
