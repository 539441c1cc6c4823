"""The judge: right results pass, wrong ones never do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import optimize, parse
from onnx import TensorProto, helper, numpy_helper

from fusionc.errors import FusioncError, UsageError
from fusionc.passes import PASSES
from fusionc.verify import Verification, verify
from fusionc.verify.compare import Bounds, compare

SAMPLES = sorted((Path(__file__).parents[2] / "sample_models").glob("*.onnx"))
GRAPH = """agraph (float[N,4] x) => (float[a,b] y) <float[4,3] W, float[3] c> {{
    p = MatMul (x, W) q = Add (p, c) {} }}"""


def judge(
    tmp_path: Path, reference: onnx.ModelProto, candidate: onnx.ModelProto, **options: object
) -> Verification:
    onnx.save(reference, tmp_path / "a.onnx")
    onnx.save(candidate, tmp_path / "b.onnx")
    return verify(tmp_path / "a.onnx", tmp_path / "b.onnx", **options)


def scaled(kind: str, factor: str) -> onnx.ModelProto:
    model = parse(GRAPH.format("y = Mul (q, f)").replace("float[", f"{kind}["))
    dtype = {"float": np.float32, "double": np.float64, "float16": np.float16}[kind]
    model.graph.initializer.append(numpy_helper.from_array(np.array(factor, dtype), "f"))
    return model


@pytest.mark.parametrize("kind", ["float", "double", "float16"])
def test_an_output_scaled_by_1_01_is_rejected(tmp_path: Path, kind: str) -> None:
    assert judge(tmp_path, scaled(kind, "1"), scaled(kind, "1")).status == "equal"
    found = judge(tmp_path, scaled(kind, "1"), scaled(kind, "1.01"))
    assert found.status == "different" and "y" in found.summary


@pytest.mark.parametrize(
    ("factor", "bounds", "status"),
    [
        ("1.01", Bounds(0.0, 0.02), "equal"),
        ("1.01", Bounds(0.0, 0.009), "different"),
        ("1.00001", Bounds(0.0, 1e-6), "different"),
        ("1.00001", Bounds(1e-3, 0.0), "equal"),  # large numbers are off by more
        ("1.00001", None, "equal"),
        ("1", Bounds(0.0, 0.0), "equal"),
    ],
)
def test_bounds_replace_the_tolerance(
    tmp_path: Path, factor: str, bounds: Bounds | None, status: str
) -> None:
    found = judge(tmp_path, scaled("float", "1"), scaled("float", factor), bounds=bounds)
    assert found.status == status, found.summary
    if bounds is not None and status == "equal":
        assert f"atol {bounds.absolute:g} and rtol {bounds.relative:g}" in found.summary


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_a_model_equals_itself_and_its_optimized_self(tmp_path: Path, path: Path) -> None:
    model = onnx.load(path)
    found = judge(tmp_path, model, optimize(model, PASSES)[0])
    assert found.status == "equal" and found.runs >= 3


WRONG = {
    "another constant": lambda m: m.graph.initializer[1].CopyFrom(
        numpy_helper.from_array(numpy_helper.to_array(m.graph.initializer[1]) + np.float32([0, 0.1, 0]), "c")
    ),
    "another operator": lambda m: setattr(m.graph.node[1], "op_type", "Sub"),
    "NaN where there was none": lambda m: setattr(m.graph.node[2], "op_type", "Log"),
    "an input of another name": lambda m: (
        setattr(m.graph.input[0], "name", "z"), m.graph.node[0].input.__setitem__(0, "z")
    ),
    "an output of another name": lambda m: (
        setattr(m.graph.output[0], "name", "z"), m.graph.node[2].output.__setitem__(0, "z")
    ),
    "one more output": lambda m: m.graph.output.append(helper.make_tensor_value_info("p", 1, ["N", 3])),
    "no model that loads": lambda m: setattr(m.graph.node[1], "op_type", "NoSuchOperator"),
    "a fixed size": lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", 2),
}  # fmt: skip


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_whatever_is_wrong_is_seen(
    tmp_path: Path, change: Callable[[onnx.ModelProto], object]
) -> None:
    reference = parse(GRAPH.format("y = Abs (q)"))
    candidate = onnx.ModelProto()
    candidate.CopyFrom(reference)
    change(candidate)
    assert judge(tmp_path, reference, candidate).status == "different"


def test_a_difference_that_only_another_size_shows(tmp_path: Path) -> None:
    """The mean over the batch, computed for a batch of two."""
    right = parse(
        "agraph (float[N,4] x) => (float[1,4] y) <int64[1] axis = {0}> { y = ReduceMean (x, axis) }"
    )
    wrong = parse("""agraph (float[N,4] x) => (float[1,4] y) <int64[1] axis = {0}, float two = {2}> {
        s = ReduceSum (x, axis) y = Div (s, two) }""")
    assert judge(tmp_path, right, wrong).status == "different"
    assert judge(tmp_path, right, wrong, input_shape={"x": (2, 4)}).status == "equal"


def test_integers_stay_in_the_range_of_what_uses_them(tmp_path: Path) -> None:
    model = parse("""agraph (int64[N,S] ids, int64[N,S] mask) => (float[N,S,a] y)
        <float[7,3] table, int64[1] last = {2}> {
        rows = Gather (table, ids) m = Cast <to = 1> (mask) u = Unsqueeze (m, last) y = Mul (rows, u) }""")
    found = judge(tmp_path, model, model)
    assert found.status == "equal" and found.runs >= 3


def test_a_reference_that_cannot_run_is_no_proof(tmp_path: Path) -> None:
    model = parse("agraph (float[N] x) => (float[N] y) { y = my.own.F (x) }")
    model.opset_import.add(domain="my.own", version=1)
    found = judge(tmp_path, model, model)
    assert found.status == "impossible" and found.runs == 0


def test_random_operators_are_compared_with_equal_seeds(tmp_path: Path) -> None:
    model = parse(
        "agraph (float[N,3] x) => (float[N,3] y) { r = RandomNormalLike (x) y = Add (x, r) }"
    )
    assert judge(tmp_path, model, model).status == "equal"


def test_shapes_that_do_not_fit_are_the_users_mistake(tmp_path: Path) -> None:
    model = parse(GRAPH.format("y = Abs (q)"))
    with pytest.raises(UsageError, match="does not fit"):
        judge(tmp_path, model, model, input_shape={"x": (2, 5)})
    with pytest.raises(UsageError, match="no input z") as caught:
        judge(tmp_path, model, model, input_shape={"z": (2, 4)})
    assert "--verify_shape" in caught.value.where


# -- comparing values
# --------------------------------------------------------------------------------------------------

VALUES = np.linspace(-3, 5, 24).reshape(4, 6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_one_element_or_another_order(dtype: type) -> None:
    values = VALUES.astype(dtype)
    one = values.copy()
    one[2, 3] += dtype(0.1)
    assert compare(values, values.copy()) is None
    for wrong in (
        one,
        values * dtype(1.01),
        values[::-1].copy(),
        values.T.copy(),
        values.astype(np.longdouble),
    ):
        assert compare(values, wrong) is not None


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_nan_and_infinities_have_their_places(special: float) -> None:
    here = VALUES.astype(np.float32)
    there = VALUES.astype(np.float32)
    here[1, 1] = there[1, 1] = special
    assert compare(here, there) is None
    there[1, 1] = 1
    there[1, 2] = special
    assert compare(here, there) is not None
    there = here.copy()
    there[1, 1] = -special if np.isinf(special) else np.inf
    assert compare(here, there) is not None


def test_integers_booleans_strings_and_sequences_are_exact() -> None:
    assert compare(np.array([1, 2]), np.array([1, 3])) is not None
    assert compare(np.array([True]), np.array([False])) is not None
    assert compare(np.array(["a"], object), np.array(["b"], object)) is not None
    assert compare([VALUES], [VALUES]) is None
    assert compare([VALUES], [VALUES, VALUES]) is not None
    assert compare([VALUES], [VALUES * 1.01]) is not None
    assert compare(None, None) is None
    assert compare(None, VALUES) is not None


@pytest.mark.parametrize("which", ["reference", "candidate"])
@pytest.mark.parametrize("fault", ["missing", "a folder", "no model"])
def test_a_file_that_is_no_model_is_not_a_different_model(
    tmp_path: Path, which: str, fault: str
) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [output])
    good = tmp_path / "good.onnx"
    bad = tmp_path / "bad.onnx"
    onnx.save(helper.make_model(graph, ir_version=10), good)
    if fault == "a folder":
        bad.mkdir()
    elif fault == "no model":
        bad.write_bytes(b"\x00junk")
    with pytest.raises(FusioncError) as caught:
        verify(*((bad, good) if which == "reference" else (good, bad)))
    assert caught.value.exit_code == (1 if fault == "no model" else 2) and caught.value.hint


BEYOND = {
    "below 0": ("int64[8] x", "int64[8] y", "y = Abs (x)", "y = Identity (x)"),
    "above 1": (
        "int64[8] x",
        "float[8] y",
        "f = Cast <to = 1> (x)  y = Mul (f, f)",
        "y = Cast <to = 1> (x)",
    ),
    "a mask by name": (
        "float[8] masked_image",
        "float[8] y",
        "y = Mul (masked_image, masked_image)",
        "y = Identity (masked_image)",
    ),
    "above 0 for one": (
        "float[8] x",
        "float[8] y, float[8] z",
        "z = Sqrt (x)  y = Relu (x)",
        "z = Sqrt (x)  y = Identity (x)",
    ),
}


@pytest.mark.parametrize(("inputs", "outputs", "right", "wrong"), BEYOND.values(), ids=BEYOND)
def test_what_an_input_seems_to_hold_is_not_all_that_is_tried(
    tmp_path: Path, inputs: str, outputs: str, right: str, wrong: str
) -> None:
    models = [parse(f"g ({inputs}) => ({outputs}) {{ {text} }}") for text in (right, wrong)]
    assert judge(tmp_path, models[0], models[0]).status == "equal"
    assert judge(tmp_path, *models).status == "different"


def test_shapes_of_half_bytes_count(tmp_path: Path) -> None:
    """Of five elements, the last half of a byte is nobody's."""
    head = "g (float[a,b] x) => (uint4[c,d] y) <float one = {1}, uint4 zero, int64[2] s = {3, -1}>"
    texts = (
        "y = QuantizeLinear (x, one, zero)",
        "r = Reshape (x, s)  y = QuantizeLinear (r, one, zero)",
    )
    models = [parse(f"{head} {{ {text} }}", opset=21) for text in texts]
    for model in models:
        model.graph.initializer[1].CopyFrom(helper.make_tensor("zero", TensorProto.UINT4, [], [0]))
    assert judge(tmp_path, models[0], models[0], input_shape={"x": (2, 6)}).status == "equal"
    assert judge(tmp_path, *models, input_shape={"x": (2, 6)}).status == "different"
    assert judge(tmp_path, models[0], models[0], input_shape={"x": (1, 5)}).status == "equal"


def test_an_empty_input_may_have_its_own_shape(tmp_path: Path) -> None:
    model = parse(
        "g (float[2,0,4] past, float[2,N,4] new) => (float[2,N,4] y) { y = Concat <axis = 1> "
        "(past, new) }"
    )
    assert judge(tmp_path, model, model, input_shape={"past": (2, 0, 4)}).status == "equal"
    with pytest.raises(UsageError, match="does not fit"):
        judge(tmp_path, model, model, input_shape={"past": (2, 0, 4), "new": (2, 0, 4)})


ROOTS = "agraph (float[N,4] x) => (float[N,3] y{}) <float five = {{5}}, float[4,3] W, float[3] c> {{ {} }}"
NEVER = "s = Sub (x, five) r = Sqrt (s) p = MatMul (r, W) y = Add (p, c)"


def test_where_nothing_but_nan_comes_nothing_is_known(tmp_path: Path) -> None:
    reference = parse(ROOTS.format("", NEVER))
    other = parse(ROOTS.format("", NEVER.replace("Add (p, c)", "Sub (p, c)")))
    found = judge(tmp_path, reference, other)
    assert found.status == "impossible" and "only NaN and infinities" in found.summary
    np.savez(tmp_path / "x.npz", x=np.full((2, 4), 9, np.float32))
    assert judge(tmp_path, reference, other, inputs=tmp_path / "x.npz").status == "different"


def test_an_output_of_which_nothing_is_known_is_named(tmp_path: Path) -> None:
    model = parse(ROOTS.format(", float[N,4] z", f"{NEVER} z = Exp (x)"))
    found = judge(tmp_path, model, model)
    assert found.status == "equal" and "of y only NaN and infinities were compared" in found.summary


@pytest.mark.parametrize("factor", [2.0, 1.0])
def test_a_huge_bias_hides_nothing(tmp_path: Path, factor: float) -> None:
    """As those that keep a token from being chosen."""
    made = []
    for by in (1.0, factor):
        model = parse("agraph (float[N,4] x) => (float[N,3] y) { y = Gemm (x, W, C) }")
        weights = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3) * np.float32(by)
        bias = np.float32([-3e38, 0, 0])
        model.graph.initializer.extend(
            numpy_helper.from_array(a, n) for a, n in ((weights, "W"), (bias, "C"))
        )
        made.append(model)
    assert judge(tmp_path, *made).status == ("equal" if factor == 1 else "different")


def test_the_first_step_of_a_decoder_has_no_past(tmp_path: Path) -> None:
    """An axis of 0 elements is one that a Reshape to 0 and −1 cannot find."""
    text = """agraph (float[N,2,past_len,4] past) => (float[N,2,past_len,4] y) <int64[4] s = {{{}}}> {{
        n = Neg (past) y = Reshape (n, s) }}"""
    whole = parse(text.format("0,2,0,4"))
    left_over = parse(text.format("0,2,0,-1"))
    found = judge(tmp_path, whole, left_over)
    assert found.status == "different" and "no past tokens" in found.differences[0].run
