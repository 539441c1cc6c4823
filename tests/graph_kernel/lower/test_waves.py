"""Sine and cosine: vectors near 0, the C library's far from it, in every place of a loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from areas import area_of, build_for_here, differences, kernel_model, plain_model, session
from onnx import helper

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c.source import source

pytestmark = pytest.mark.usefixtures("needs_a_compiler")

TEXTS = {
    "snake": "g (float[N,M] x) => (float[N,M] z) <float a = {1.3}> { b = Mul(x, a) c = Sin(b) d = Mul(c, c) z = Add(x, d) }",
    "both": "g (float[N,M] x) => (float[N,M] z, float[N,M] y) { z = Sin(x) y = Cos(x) }",
    "largest": "g (float[N,M] x) => (float[N,1] z) <int64[1] a = {1}> { b = Sin(x) z = ReduceMax(b, a) }",
    "columns": "g (float[N,M] x) => (float[1,M] z) <int64[1] a = {0}> { b = Cos(x) z = ReduceMin(b, a) }",
    "a number for a row": "g (float[N,1] x, float[N,M] y) => (float[N,M] z) { b = Cos(x) z = Mul(b, y) }",
    "several parts": "g (float[N,M] x) => (float[N,M] z) { b = Cos(x) c = Exp(b) d = Sin(c) e = Softmax(d) z = Sin(e) }",
    "float16": "g (float16[N,M] x) => (float16[N,M] z) { a = Neg(x) b = Sin(a) z = Add(b, x) }",
    "double": "g (double[N,M] x) => (double[N,M] z) { a = Neg(x) b = Cos(a) z = Add(b, x) }",
}  # fmt: skip
OF_FLOAT = [4194305.0, -1e15, 3e38]
FAR = {
    "float16": [6e4, -3e4, np.inf],
    "double": [1e18, -1e300, np.nan],
    "both": [*OF_FLOAT, np.inf, np.nan],
}


@pytest.fixture(scope="module")
def areas() -> dict[str, Area]:
    return {name: area_of(text, name=name.replace(" ", "_")) for name, text in TEXTS.items()}


@pytest.fixture(scope="module")
def library(areas: dict[str, Area]) -> Path:
    built = build_for_here(list(areas.values()))
    assert built.library and not built.failed
    return built.library


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("name", TEXTS)
def test_waves_as_in_onnxruntime(
    name: str, far: bool, areas: dict[str, Area], library: Path
) -> None:
    area = areas[name]
    rng = np.random.default_rng(0)
    feeds = {}
    for key in area.inputs:
        value = area.values[key]
        array = rng.uniform(-40, 40, [{"N": 7, "M": 600}.get(str(n), n) for n in value.shape])
        if far:
            some = FAR.get(name, OF_FLOAT)
            array.reshape(-1)[: len(some)] = some
        feeds[key] = array.astype(helper.tensor_dtype_to_np_dtype(value.dtype))
    wanted = session(plain_model(area)).run(None, feeds)
    got = session(kernel_model(area), library).run(None, feeds)
    assert not differences(wanted, got, 2e-3 if name == "float16" else 1e-5)


def test_loops_over_waves_are_vectors(areas: dict[str, Area]) -> None:
    text = source([areas["snake"]])
    (vectors,) = [
        part for part in text.split("#pragma omp simd")[1:] if "gk_near_sin_f32(v" in part
    ]
    assert "sinf(" not in vectors.split("if (far)")[0]
