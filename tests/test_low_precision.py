"""The styles that benchmarks/low_precision.py measures: each is a model that answers nearly as the
float32 one, and the passes for signedness change no bit of it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import needs_vnni, parse
from onnx import numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import low_precision
from low_precision_styles import STYLES, NotApplicable, written

MODEL = """agraph (float[2,32,8,8] x) => (float[2,32] y) {
    c = Conv <pads = [1, 1, 1, 1]> (x, W, b) r = Relu (c) p = GlobalAveragePool (r)
    f = Flatten (p) [product] y = MatMul (f, V) }"""
WRITTEN = [style for style in STYLES.values() if style.write]
# of the largest element: float8 has three bits, a block of 4 bits 15 steps
APART = {"weights_int4": 0.15, "weights_float8": 0.1}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    model = parse(MODEL)
    random = np.random.default_rng(0)
    for name, shape in (("W", (32, 32, 3, 3)), ("b", (32,)), ("V", (32, 32))):
        weights = random.standard_normal(shape).astype(np.float32) / 8
        model.graph.initializer.append(numpy_helper.from_array(weights, name))
    onnx.save(model, tmp_path / "float32.onnx")
    return tmp_path / "float32.onnx"


SAMPLES = [{"x": np.random.default_rng(1).standard_normal((2, 32, 8, 8)).astype(np.float32)}]


def made(name: str, source: Path) -> Path:
    style = STYLES[name]
    if style.of == ("MatMul", "Gemm"):  # the convolution has most of the weights
        with pytest.raises(NotApplicable):
            written(style, source, SAMPLES, source.with_name(f"{name}.onnx"))
        pytest.skip("the style quantizes no convolution")
    return written(style, source, SAMPLES, source.with_name(f"{name}.onnx"))


@pytest.mark.parametrize("name", [style.name for style in WRITTEN])
def test_a_style_answers_nearly_the_same(name: str, source: Path) -> None:
    model = made(name, source)
    assert model.stat().st_size < 0.6 * source.stat().st_size
    (expected,) = onnxruntime.InferenceSession(source).run(None, SAMPLES[0])
    (answer,) = onnxruntime.InferenceSession(model).run(None, SAMPLES[0])
    assert 0 < np.abs(expected - answer).max() <= APART.get(name, 0.05) * np.abs(expected).max()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(style.name, marks=[needs_vnni] if style.name in ("s8s8", "u8u8") else [])
        for style in WRITTEN
        if style.is_quantized
    ],
)
def test_signedness_changes_no_bit(name: str, source: Path) -> None:
    model = made(name, source)
    after = low_precision.after_signedness(model, source.parent)
    assert low_precision.difference(model, after, SAMPLES) == "equal"
    if name in ("s8s8", "u8u8", "inputs_s8"):
        there, here = ({t.name for t in onnx.load(p).graph.initializer} for p in (model, after))
        assert there != here


def test_a_difference_is_counted(source: Path) -> None:
    other = onnx.load(source)
    other.graph.initializer[1].raw_data = np.full(32, 0.5, np.float32).tobytes()
    onnx.save(other, source.with_name("other.onnx"))
    found = low_precision.difference(source, source.with_name("other.onnx"), SAMPLES)
    assert found.endswith("1.0e+00 of elements")
