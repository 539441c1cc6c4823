"""Small models on which other optimizers go wrong: through all default passes, and from file to
file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from harness import (
    assert_same_numbers,
    effected,
    interface,
    make_feeds,
    operators,
    optimize,
    parse,
    session,
)
from onnx import ModelProto, TensorProto, numpy_helper

import fusionc
from fusionc.model.tensors import byte_size
from fusionc.passes import PASSES
from fusionc.protos import tensors_of

DEFAULT = [p for p in PASSES if p.default != "off"]
Through = Callable[[ModelProto], list[ModelProto]]


@pytest.fixture
def through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Through:
    """What becomes of a model: by the passes for each target, and as a file. Valid, and no
    larger.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path / "log"))

    def results(model: ModelProto) -> list[ModelProto]:
        found = []
        for target in ("onnxruntime-cpu", "onnx"):
            result, _ = optimize(model, DEFAULT, target)
            assert effected(optimize(result, DEFAULT, target)[1]) == 0
            found.append(result)
        onnx.save(model, "model.onnx")
        report = fusionc.convert("model.onnx", output="out.onnx")
        assert report.verification is not None and report.verification.startswith("equal")
        found.append(onnx.load("out.onnx"))
        assert found[-1] == found[0]
        for result in found:
            if all(output.type.tensor_type.HasField("shape") for output in model.graph.output):
                onnx.checker.check_model(result, full_check=True)
            assert interface(result) == interface(model)
            assert operators(result).total() <= operators(model).total()
            assert weights(result) <= weights(model) + 8  # a scalar attribute may become a tensor
        return found

    return results


def weights(model: ModelProto) -> int:
    return sum(byte_size(tensor) for tensor in tensors_of(model))


def assert_right(through: Through, model: ModelProto, has: dict[str, int]) -> None:
    """The same numbers, and this many nodes of these operators."""
    for result in through(model):
        assert_same_numbers(model, result, "rounding", {})
        assert {op: operators(result)[op] for op in has} == has


def assert_still_random(
    through: Through, model: ModelProto, has: dict[str, int], **moments: float
) -> None:
    """As many random operators, another answer in each run, and the mean and deviation of the
    original.
    """
    feeds = make_feeds(model, {"": 1000}, 0)
    for result in [model, *through(model)]:
        assert {op: operators(result)[op] for op in has} == has
        runs = session(result)
        first, second = (np.asarray(runs.run(None, feeds)[0], np.float64) for _ in range(2))
        assert not np.array_equal(first, second)
        assert (
            abs(first.mean() - moments["mean"]) < 0.1
            and abs(first.std() - moments["deviation"]) < 0.1
        )


def test_shape_from_an_axis_on(through: Through) -> None:
    """Shape(start=1) → Gather is taken for the whole shape, and the graph input disappears."""
    model = parse(
        "agraph (float[N,3,K] x) => (int64 y, int64 z) <int64 i = {0}, int64 j = {1}> "
        "{ s = Shape <start = 1> (x) y = Gather (s, i) z = Gather (s, j) }"
    )
    assert_right(through, model, {})
    result = session(through(model)[0]).run(None, {"x": np.zeros((5, 3, 7), np.float32)})
    assert [int(value) for value in result] == [3, 7]


def test_random_normal_beside_an_input(through: Through) -> None:
    """RandomNormal has no inputs, so it is folded: always the same noise."""
    model = parse(
        "agraph (float[1000,3] x) => (float[1000,3] y) "
        "{ r = RandomNormal <shape = [1000, 3]> () z = Sub (x, x) y = Add (z, r) }"
    )
    assert_still_random(through, model, {"RandomNormal": 1}, mean=0, deviation=1)


def test_random_uniform_like_twice(through: Through) -> None:
    """Two RandomUniformLike of one input are merged, and their difference is 0."""
    model = parse(
        "agraph (float[N,3] x) => (float[N,3] y) { r = RandomUniformLike (x) s = "
        "RandomUniformLike (x) y = Sub (r, s) }"
    )
    assert_still_random(through, model, {"RandomUniformLike": 2}, mean=0, deviation=6**-0.5)


def test_multinomial_twice(through: Through) -> None:
    """Two Multinomial of one input are merged, and their difference is 0."""
    model = parse(
        "agraph (float[N,2] p) => (int32[N,9] y) { x = Sub (p, p) r = Multinomial <sample_size = "
        "9> (x) "
        "s = Multinomial <sample_size = 9> (x) y = Sub (r, s) }"
    )
    assert_still_random(through, model, {"Multinomial": 2}, mean=0, deviation=0.5**0.5)


def test_bernoulli_of_a_constant(through: Through) -> None:
    """Bernoulli of a constant is folded: thrown once, for ever."""
    model = parse(
        "agraph (float[1000,1] x) => (float[1000,3] y) <float[1000,3] p> "
        "{ h = Constant <value_float = 0.5> () q = Mul (p, h) z = Sub (x, x) r = Bernoulli (q) y "
        "= Add (z, r) }"
    )
    p = model.graph.initializer[0]
    p.CopyFrom(numpy_helper.from_array(np.ones((1000, 3), np.float32), p.name))
    # onnx defines it as uniform > p, which is 1 with the probability 1 - p: a half is right either
    # way
    assert_still_random(through, model, {"Bernoulli": 1}, mean=0.5, deviation=0.5)


def test_bernoulli_twice(through: Through) -> None:
    """Two Bernoulli of one input are merged; even onnxruntime does, and all optimizers that were
    tried.
    """
    model = parse(
        "agraph (float[N,3] x) => (float[N,3] y) <float half = {0.5}> "
        "{ z = Sub (x, x) p = Add (z, half) r = Bernoulli (p) s = Bernoulli (p) y = Sub (r, s) }"
    )
    assert_still_random(through, model, {"Bernoulli": 2}, mean=0, deviation=0.5**0.5)


def test_the_mask_of_a_dropout(through: Through) -> None:
    """Dropout is removed and its mask replaced by its input; the mask of an inference is all
    true.
    """
    model = parse(
        "agraph (float[N,3] x) => (float[N,3] y, bool[N,3] z) { y, m = Dropout (x) z = Not (m) }"
    )
    assert_right(through, model, {"Not": 1})
    for result in through(model):
        assert not session(result).run(["z"], {"x": np.ones((2, 3), np.float32)})[0].any()


def test_dropout_in_training(through: Through) -> None:
    """Dropout with training_mode = 1 is removed as if it dropped nothing."""
    model = parse(
        "agraph (float[N,3] x) => (float[N,3] y) <bool t = {1}, float half = {0.5}> "
        "{ z = Sub (x, x) o = Exp (z) y = Dropout (o, half, t) }"
    )
    assert_still_random(through, model, {"Dropout": 1}, mean=1, deviation=1)


def test_constant_value_float(through: Through) -> None:
    """Constant(value_float) becomes a double: an invalid model."""
    model = parse(
        "agraph (float[N] x) => (float[N] y) { c = Constant <value_float = 0.1> () y = Add (x, c) }"
    )
    assert_right(through, model, {"Constant": 0, "Add": 1})
    assert {t.data_type for result in through(model) for t in result.graph.initializer} == {
        TensorProto.FLOAT
    }


@pytest.mark.parametrize("outputs", ["bool[N] y", "bool[N] y, string[2] d"])
def test_string_constants(through: Through, outputs: str) -> None:
    """Folding a string constant raises a TypeError, or fails when the model is saved."""
    model = parse(
        f'agraph (string[N] x) => ({outputs}) <int64 i = {{0}}> {{ c = Constant <value_strings = ["1", "2"]> () '
        "d = Identity (c) e = Gather (d, i) y = Equal (x, e) }",
        19,
    )
    assert_right(through, model, {"Gather": 0, "Equal": 1})


@pytest.mark.parametrize("taken", [0, 1])
def test_a_branch_that_is_an_initializer(through: Through, taken: int) -> None:
    """An If whose condition is known and whose branch is nothing but an initializer: an invalid
    model, or a crash.
    """
    model = parse(
        f"""agraph (float[3] x) => (float[3] y) <bool c = {{{taken}}}> {{
            b = If (c) <then_branch = t () => (float[3] p) <float[3] p = {{4, 5, 6}}> {{ }},
                        else_branch = e () => (float[3] q) <float[3] q = {{1, 2, 3}}> {{ }}>
            y = Add (x, b)
        }}"""
    )
    assert_right(through, model, {"Add": 1})


def test_four_megabytes_out_of_16_bytes(through: Through) -> None:
    """ConstantOfShape is folded, and a file of 100 bytes has 4 MB."""
    model = parse(
        "agraph (float[N,1000] x) => (float[N,1000] y) <int64[2] s = {1000, 1000}> "
        "{ c = ConstantOfShape <value = float[1] {0.001}> (s) y = MatMul (x, c) }"
    )
    assert_right(through, model, {"ConstantOfShape": 1, "MatMul": 1})
    assert Path("out.onnx").stat().st_size < 1000


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_outputs_without_a_shape(through: Through, rank: int) -> None:
    """An output that does not say its shape raises a RuntimeError."""
    dims = ["", "[N]", "[N,3]"][rank]
    model = parse(
        f"agraph (float{dims} x) => (float{dims} y, float{dims} z) "
        "{ a = Identity (x) b = Neg (a) c = Neg (b) y = Relu (c) z = Dropout (y) }"
    )
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    assert_right(through, model, {"Relu": 1, "Neg": 0})


def test_batch_normalization_of_a_convolution(through: Through) -> None:
    """Where a Conv and its batch normalization should become one Conv, ten nodes of arithmetic are
    added.
    """
    model = parse(
        """agraph (float[N,3,6,6] x) => (float[N,4,4,4] y)
           <float[4,3,3,3] W, float[4] s, float[4] o, float[4] m, float[4] v> {
            a = Conv (x, W)
            y = BatchNormalization (a, s, o, m, v)
        }"""
    )
    assert_right(through, model, {"Conv": 1, "BatchNormalization": 0})
    assert all(len(result.graph.node) == 1 for result in through(model))


def test_weights_of_four_bits(through: Through) -> None:
    """A DequantizeLinear of INT4 raises, or is folded to floats of eight times the size."""
    model = parse(
        """agraph (float[N,4] x) => (float[N,2] y) <float[2] s = {0.5, 0.25}> {
            w = Constant <value = int4[4,2] {33, 195, 165, 135}> ()
            d = DequantizeLinear <axis = 1> (w, s)
            y = MatMul (x, d)
        }""",
        21,
    )
    assert_right(through, model, {"DequantizeLinear": 1, "MatMul": 1})
    assert any(t.data_type == TensorProto.INT4 for t in tensors_of(onnx.load("out.onnx")))


def test_a_local_function(through: Through) -> None:
    """What is inside a model-local function is left as it is: Identity and constants stay."""
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 18, "functions" : 1]>
        agraph (float[N,3] x) => (float[N,3] y) { a = Identity (x) b = functions.own (a) y = functions.own (b) }
        <domain: "functions", opset_import: ["" : 18]> own (a) => (b) {
            i = Identity (a) c = Constant <value_float = 2.0> () d = Mul (i, c) b = Identity (d)
        }
    """)
    assert_right(through, model, {"own": 2, "Identity": 0, "Mul": 1})


def test_inside_a_branch(through: Through) -> None:
    """A sum of constants and an Identity inside a branch stay, as nobody looks into subgraphs."""
    model = parse(
        """agraph (float[3] x, bool c) => (float[3] y) <float[3] j, float[3] k> {
            y = If (c) <then_branch = t () => (float[3] p) { a = Add (j, k) b = Identity (x) p = Mul (a, b) },
                        else_branch = e () => (float[3] q) { q = Neg (x) }>
        }"""
    )
    assert_right(through, model, {"Add": 0, "Identity": 0, "Mul": 1, "Neg": 1, "If": 1})


def test_there_are_seventeen() -> None:
    """One test for each case of the comparison, and all of them say what goes wrong."""
    tests: list[Any] = [
        f for name, f in globals().items() if name.startswith("test_") and "seventeen" not in name
    ]
    assert len(tests) == 17 and all(test.__doc__ for test in tests)
