"""What single runs are for: each shows a mistake that the others do not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from harness import parse
from onnx import TensorProto, helper, numpy_helper

from fusionc.runtime.runner import Runner
from fusionc.verify import Verification, sample_runs, verify
from fusionc.verify.deployment import Deployment
from fusionc.verify.judge import Judge
from fusionc.verify.order_dependence import OrderDependence
from fusionc.verify.side_by_side import share_off

RANDOM = "agraph (float[N,3] x) => (float[N,3] y) {{ {} }}"


def judge(
    tmp_path: Path, reference: onnx.ModelProto, candidate: onnx.ModelProto, **options: object
) -> Verification:
    onnx.save(reference, tmp_path / "a.onnx")
    onnx.save(candidate, tmp_path / "b.onnx")
    return verify(tmp_path / "a.onnx", tmp_path / "b.onnx", **options)


def counted(method: Any, calls: list[Any]) -> Any:
    """The method, which notes what it is called with."""

    def counting(self: Any, *arguments: Any) -> Any:
        calls.append(arguments)
        return method(self, *arguments)

    return counting


EDGES = {
    "zeros": (
        "y = Div (x, x)",
        "z = Constant <value = float {1}> () s = Shape (x) y = Expand (z, s)",
    ),
    "mixed magnitudes": (
        "y = Identity (x)",
        (
            "lo = Constant <value = float {-99}> () hi = Constant <value = float {99}> () y = "
            "Clip (x, lo, hi)"
        ),
    ),
    "NaN and Inf": (
        "y = Sub (x, x)",
        "z = Constant <value = float {0}> () s = Shape (x) y = Expand (z, s)",
    ),
}


@pytest.mark.parametrize("edge", EDGES)
def test_an_edge_shows_what_ordinary_values_do_not(tmp_path: Path, edge: str) -> None:
    right, wrong = (parse(RANDOM.format(body)) for body in EDGES[edge])
    found = judge(tmp_path, right, wrong)
    assert found.status == "different" and found.runs >= 3
    assert found.differences[0].run.startswith(edge) and found.differences[0].subject == "y"


def test_a_merge_of_random_nodes_is_seen_and_other_rewrites_are_not(tmp_path: Path) -> None:
    two = parse(
        RANDOM.format(
            "i = Identity (x) a = RandomNormalLike (i) b = RandomNormalLike (i) y = Sub (a, b)"
        )
    )
    fewer = parse(RANDOM.format("a = RandomNormalLike (x) b = RandomNormalLike (x) y = Sub (a, b)"))
    merged = parse(RANDOM.format("a = RandomNormalLike (x) y = Sub (a, a)"))
    assert judge(tmp_path, two, fewer).status == "equal"
    found = judge(tmp_path, two, merged)
    # not taken for instability
    assert found.status == "different" and found.differences[0].run == "seed 0, N=2"


@pytest.mark.parametrize("kind", ["float", "float16", "double"])
def test_an_overridable_initializer_must_still_be_used(tmp_path: Path, kind: str) -> None:
    def model(operand: str) -> onnx.ModelProto:
        made = parse(
            f"agraph ({kind}[N,3] x, {kind}[3] w) => ({kind}[N,3] y) <{kind}[3] fixed> {{ y "
            f"= Mul (x, {operand}) }}"
        )
        numbers = np.array(
            [1, 2, 3], {"float": np.float32, "float16": np.float16, "double": np.float64}[kind]
        )
        made.graph.initializer[0].CopyFrom(numpy_helper.from_array(numbers, "fixed"))
        made.graph.initializer.append(numpy_helper.from_array(numbers, "w"))
        return made

    assert judge(tmp_path, model("w"), model("w")).status == "equal"
    found = judge(tmp_path, model("w"), model("fixed"))
    assert found.status == "different" and "initializers overridden" in found.summary


# -- a reference that amplifies rounding
# -------------------------------------------------------------------------------


def cancelling(offset: float) -> onnx.ModelProto:
    """y = (x + offset) - offset, which rounds x to multiples of the offset's last place."""
    made = parse("""agraph (float[N,64] x) => (float[N,64] y) <float[1] plus, float[1] minus> {
        up = Add (x, plus) y = Sub (up, minus) }""")
    for tensor, name in zip(made.graph.initializer, ("plus", "minus"), strict=True):
        tensor.CopyFrom(numpy_helper.from_array(np.float32([offset]), name))
    return made


def exact(factor: str = "1") -> onnx.ModelProto:
    made = parse(
        "agraph (float[N,64] x) => (float[N,64] y) <float[1] factor> { y = Mul (x, factor) }"
    )
    made.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.float32([factor]), "factor"))
    return made


def test_rounding_that_the_reference_amplifies_is_accepted_up_to_a_bound(tmp_path: Path) -> None:
    assert judge(tmp_path, cancelling(1.7), exact()).summary == "equal in 7 runs"
    amplified = judge(tmp_path, cancelling(12345.7), exact())
    assert amplified.status == "equal" and "the reference itself amplifies" in amplified.summary
    assert judge(tmp_path, cancelling(12345.7), exact("1.01")).status == "different"
    unstable = judge(tmp_path, cancelling(1234567.7), exact())  # wherever one looks
    assert unstable.status == "different" and unstable.runs == 0


def test_rounding_is_seen_without_a_look_at_the_order_of_reductions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    largest: list[float] = []  # of the samples that were looked at
    reaches = OrderDependence.reaches

    def noted(self: OrderDependence, feeds: Mapping[str, Any], outputs: Sequence[Any]) -> list[Any]:
        largest.append(np.abs(feeds["x"]).max())
        return reaches(self, feeds, outputs)

    monkeypatch.setattr(OrderDependence, "reaches", noted)
    monkeypatch.setattr("fusionc.verify.side_by_side._ENOUGH", 0)
    amplified = judge(tmp_path, cancelling(12345.7), exact())
    assert "in 3 of them within the rounding" in amplified.summary
    assert not any(0 < value < 10 for value in largest), "those of the seeds are normal"
    for reference, candidate, why in (
        (cancelling(12345.7), exact("1.005"), "it is off farther than the reference moves"),
        (cancelling(400000.28), cancelling(400000.28), "nothing is off"),
        (
            cancelling(400000.28),
            scaled(cancelling(400000.28), 1.004),
            "the reference moves farther than is accepted",
        ),
    ):
        largest.clear()
        judge(tmp_path, reference, candidate, nonfinite=False)
        assert any(0 < value < 10 for value in largest) == (why != "nothing is off"), why


def scaled(model: onnx.ModelProto, factor: float) -> onnx.ModelProto:
    """The same with its result times a factor."""
    made = onnx.ModelProto.FromString(model.SerializeToString())
    made.graph.node[-1].output[0] = "unscaled"
    made.graph.node.append(helper.make_node("Mul", ["unscaled", "factor"], ["y"]))
    made.graph.initializer.append(numpy_helper.from_array(np.float32(factor), "factor"))
    return made


def scaled_and_cancelling(*offsets: float) -> onnx.ModelProto:
    """y = 0.001 x, plus and minus the offsets."""
    names = [f"w{k}" for k in range(len(offsets))]
    body = " ".join(f"s{k + 1} = Add (s{k}, {name})" for k, name in enumerate(names))
    declared = ", ".join(f"float[1] {name}" for name in ("small", *names))
    text = f"<{declared}> {{ s0 = Mul (x, small) {body} y = Identity (s{len(offsets)}) }}"
    made = parse(f"agraph (float[N,64] x) => (float[N,64] y) {text}")
    for tensor, value in zip(made.graph.initializer, (1e-3, *offsets), strict=True):
        tensor.CopyFrom(numpy_helper.from_array(np.float32([value]), tensor.name))
    return made


def test_a_model_that_moves_by_more_than_is_accepted_is_told_and_not_failed(tmp_path: Path) -> None:
    found = judge(tmp_path, scaled_and_cancelling(700.03, -700.03), scaled_and_cancelling())
    assert found.status == "impossible" and not found.differences
    assert re.fullmatch(
        "no input that was tried gives outputs that can be compared: the reference's outputs move "
        "by .* % of the largest "
        "value when its inputs and weights move by one unit in the last place",
        found.summary,
    )
    wrong = judge(tmp_path, scaled_and_cancelling(700.03, -700.03), scaled_and_cancelling(0.01))
    assert wrong.status == "different"


# -- types
#
#
#
# -------------------------------------------------------------------------------------------------------------


def typed(
    op: str, inputs: onnx.TypeProto, outputs: onnx.TypeProto, **attributes: object
) -> onnx.ModelProto:
    domain = "ai.onnx.ml" if op in ("ZipMap", "DictVectorizer") else ""
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], domain=domain, **attributes)],
        "g",
        [helper.make_value_info("x", inputs)],
        [helper.make_value_info("y", outputs)],
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 19), helper.make_opsetid("ai.onnx.ml", 3)],
        ir_version=9,
    )


def tensor(elem_type: int, *dims: int | str) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(elem_type, dims)


def map_of(key: int, value: int) -> onnx.TypeProto:
    return onnx.TypeProto(map_type=onnx.TypeProto.Map(key_type=key, value_type=tensor(value)))


FLOAT = tensor(TensorProto.FLOAT, "n", 3)
MAPS = helper.make_sequence_type_proto(map_of(TensorProto.STRING, TensorProto.FLOAT))
TYPED = {
    "bfloat16 in": (
        typed("Cast", tensor(TensorProto.BFLOAT16, "n"), tensor(TensorProto.FLOAT, "n"), to=TensorProto.FLOAT),
        None,
    ),
    "bfloat16 out": (typed("Cast", FLOAT, tensor(TensorProto.BFLOAT16, "n", 3), to=TensorProto.BFLOAT16), None),
    "float8 out": (typed("Cast", FLOAT, tensor(TensorProto.FLOAT8E5M2, "n", 3), to=TensorProto.FLOAT8E5M2), None),
    "strings": (typed("Identity", tensor(TensorProto.STRING, "n"), tensor(TensorProto.STRING, "n")), None),
    "sequence in": (
        typed("ConcatFromSequence", helper.make_sequence_type_proto(FLOAT), tensor(TensorProto.FLOAT, "m", 3), axis=0),
        typed("ConcatFromSequence", helper.make_sequence_type_proto(FLOAT), tensor(TensorProto.FLOAT, "m", 3), axis=1),
    ),
    "sequence out": (
        typed("SplitToSequence", FLOAT, helper.make_sequence_type_proto(FLOAT), axis=0),
        typed("SplitToSequence", FLOAT, helper.make_sequence_type_proto(FLOAT), axis=1),
    ),
    "optional in": (
        typed("OptionalHasElement", helper.make_optional_type_proto(FLOAT), tensor(TensorProto.BOOL)),
        None,
    ),
    "map in": (
        typed("DictVectorizer", map_of(TensorProto.INT64, TensorProto.FLOAT), FLOAT, int64_vocabulary=[0, 1, 2]),
        typed("DictVectorizer", map_of(TensorProto.INT64, TensorProto.FLOAT), FLOAT, int64_vocabulary=[1, 0, 2]),
    ),
    "maps out": (
        typed("ZipMap", FLOAT, MAPS, classlabels_strings=["a", "b", "c"]),
        typed("ZipMap", FLOAT, MAPS, classlabels_strings=["a", "c", "b"]),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("right", "wrong"), TYPED.values(), ids=TYPED)
def test_every_type_is_fed_and_compared(
    tmp_path: Path, right: onnx.ModelProto, wrong: onnx.ModelProto | None
) -> None:
    found = judge(tmp_path, right, right)
    assert found.status == "equal" and found.runs >= 4
    if wrong is not None:
        assert judge(tmp_path, right, wrong).status == "different"


def test_an_optional_input_is_fed_with_and_without_a_value(tmp_path: Path) -> None:
    optional = helper.make_optional_type_proto(FLOAT)
    always = helper.make_model(
        helper.make_graph(
            [
                helper.make_node(
                    "Constant", [], ["y"], value=numpy_helper.from_array(np.array(True))
                )
            ],
            "g",
            [helper.make_value_info("x", optional)],
            [helper.make_tensor_value_info("y", TensorProto.BOOL, [])],
        ),
        opset_imports=[helper.make_opsetid("", 19)],
        ir_version=9,
    )
    assert (
        judge(
            tmp_path, typed("OptionalHasElement", optional, tensor(TensorProto.BOOL)), always
        ).status
        == "different"
    )


def test_inputs_and_outputs_keep_their_order(tmp_path: Path) -> None:
    def model(inputs: str, outputs: str) -> onnx.ModelProto:
        return parse(f"agraph ({inputs}) => ({outputs}) {{ p = Add (a, b) q = Sub (a, b) }}")

    right = model("float[N] a, float[N] b", "float[N] p, float[N] q")
    for inputs, outputs in (
        ("float[N] b, float[N] a", "float[N] p, float[N] q"),
        ("float[N] a, float[N] b", "float[N] q, float[N] p"),
    ):
        found = judge(tmp_path, right, model(inputs, outputs))
        assert found.status == "different" and "order" in found.summary


def test_weights_in_external_files_are_read(tmp_path: Path) -> None:
    def write(name: str, factor: float) -> Path:
        made = parse("agraph (float[N,4] x) => (float[N,3] y) <float[4,3] W> { y = MatMul (x, W) }")
        weights = numpy_helper.to_array(made.graph.initializer[0]) * np.float32(factor)
        made.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "W"))
        onnx.save(
            made,
            tmp_path / name,
            save_as_external_data=True,
            location=f"{name}.data",
            size_threshold=0,
        )
        return tmp_path / name

    original = write("a.onnx", 1)
    assert verify(original, write("b.onnx", 1)).status == "equal"
    assert verify(original, write("c.onnx", 1.01)).status == "different"


@pytest.mark.parametrize(
    "behind", ["Softmax <axis = -1> (p)", "LayerNormalization <axis = -1> (p, w)"]
)
def test_a_lost_nan_of_a_row_is_a_difference(tmp_path: Path, behind: str) -> None:
    """No infinity in that row makes another one."""
    head = (
        "agraph (float[N,6] x) => (float[N,6] y) <float[6] w = {1, 2, 3, 4, 5, 6}, float c = {0}>"
    )
    onnx.save(parse(f"{head} {{ p = Abs (x) y = {behind} }}"), tmp_path / "a.onnx")
    lost = "n = IsNaN (x) a = Abs (x) p = Where (n, c, a)"
    onnx.save(parse(f"{head} {{ {lost} y = {behind} }}"), tmp_path / "b.onnx")
    found = verify(tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert found.status == "different" and found.differences[0].run.startswith("NaN, "), found


def test_inputs_of_its_own_are_fewer_where_they_take_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_runs, "_PATIENCE", 0)
    found = judge(tmp_path, exact(), exact())
    assert found.summary.startswith(
        "verified in part: equal in 1 run; left out to save budget: seed 1, N=3 and all "
        "later samples, after 0 s of runs"
    )
    assert judge(tmp_path, exact(), exact("1.01")).status == "different"


def test_a_model_that_decides_nothing_is_given_up_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One redraw is tried, and no sample after it; with patience all are."""
    models = scaled_and_cancelling(700.03, -700.03), scaled_and_cancelling()
    ran = []
    monkeypatch.setattr(Judge, "outcome", counted(Judge.outcome, ran))
    assert judge(tmp_path, *models).status == "impossible" and len(ran) > 9
    ran.clear()
    monkeypatch.setattr(sample_runs, "_PATIENCE", 0)
    assert judge(tmp_path, *models).status == "impossible" and len(ran) == 2


@pytest.mark.parametrize("size, is_run_again", [(1, False), (sample_runs.MOST_KEPT + 1, True)])
def test_the_deployed_candidate_runs_with_no_other_model_in_memory(
    size: int, is_run_again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values that are kept are not computed again; those that are not, by a reference that is
    closed when they are.
    """
    monkeypatch.setattr(sample_runs, "bytes_of", lambda _: size)
    np.savez(tmp_path / "x.npz", x=np.full((2, 64), 0.3, np.float32))
    run = Runner.run
    asked = list[Any]()
    opened = list[Runner]()
    others = list[int]()

    def watched(self: Runner, feeds: Mapping[str, Any]) -> list[Any]:
        opened.append(self)
        if self is not opened[0] and asked:
            others.append(sum(runner._home is not None for runner in set(opened) - {self}))
        return run(self, feeds)

    monkeypatch.setattr(Runner, "run", watched)
    monkeypatch.setattr(Deployment, "fault", counted(Deployment.fault, asked))
    assert judge(tmp_path, exact(), exact(), inputs=tmp_path / "x.npz").status == "equal"
    assert others == [0] * 4, "three seeds and the given one"
    assert (opened[-2] is opened[0]) == is_run_again


def test_both_branches_meet_the_edges(tmp_path: Path) -> None:
    """Which of them a switch chooses is drawn once for each of the ordinary runs."""
    text = """agraph (float[N,3] x, bool{0} c) => (float[N,3] y) {{
        y = If (c) <then_branch = t () => (float[N,3] a) {{ {1} }},
                    else_branch = e () => (float[N,3] b) {{ {2} }}> }}"""
    low, high = (
        f"{name} = Constant <value = float {{{value}}}> ()"
        for name, value in (("lo", -99), ("hi", 99))
    )
    for shape in ("", "[1]"):
        right = parse(text.format(shape, "a = Identity (x)", "b = Neg (x)"))
        assert judge(tmp_path, right, right).summary == "equal in 11 runs"
        for branches in (
            (f"{low} {high} a = Clip (x, lo, hi)", "b = Neg (x)"),
            ("a = Identity (x)", f"n = Neg (x) {low} {high} b = Clip (n, lo, hi)"),
        ):
            found = judge(tmp_path, right, parse(text.format(shape, *branches)))
            assert found.status == "different" and not found.differences[0].run.startswith("seed")


OVERFLOW = """agraph (float[40] x, float[40] y) => (float[40] z)
    <float one = {{1}}, float small = {{1e-36}}> {{ s = Mul (x, small) t = Mul (y, small) {} }}"""
FORMS = {
    "the reference": "r = Div (one, s) z = Mul (r, t)",
    "another form": "z = Div (t, s)",
    "a wrong form": "a = Abs (s) z = Div (t, a)",
}


@pytest.mark.parametrize(
    ("reference", "candidate", "status"),
    [
        ("the reference", "another form", "equal"),
        ("another form", "the reference", "different"),
        ("the reference", "a wrong form", "different"),
    ],
)
def test_what_overflows_between_in_the_reference_alone_is_no_difference(
    tmp_path: Path, reference: str, candidate: str, status: str
) -> None:
    """The reciprocal of a number below 2.9e-39 is infinite."""
    found = judge(
        tmp_path,
        parse(OVERFLOW.format(FORMS[reference])),
        parse(OVERFLOW.format(FORMS[candidate])),
        nonfinite=False,
    )
    assert found.status == status, found.summary


SPREAD = """agraph (float[40,2] x) => (float[40,1] y) <float zero = {{0}}> {{
    e = {} (x) p, q = Split <axis = 1, num_outputs = 2> (e) s = Tanh (p) t = Tanh (q) {} }}"""


@pytest.mark.parametrize(
    ("function", "candidate", "nonfinite", "status"),
    [
        ("Exp", "z = Mul (q, zero) u = Add (s, z) y = Add (u, t)", False, "equal"),
        ("Exp", "z = Mul (q, zero) u = Add (s, z) y = Add (u, t)", True, "different"),
        ("Exp", "z = Mul (q, zero) u = Add (s, z) y = Sub (u, t)", False, "different"),
        ("Reciprocal", "z = Mul (q, zero) u = Add (s, z) y = Add (u, t)", False, "equal"),
        ("Reciprocal", "z = Mul (q, zero) u = Add (s, z) y = Add (u, t)", True, "different"),
        ("Sin", "z = Div (q, q) u = Mul (s, z) y = Add (u, t)", False, "different"),
    ],
)
def test_what_is_for_finite_numbers_may_spread_an_infinity_that_the_model_computes(
    tmp_path: Path, function: str, candidate: str, nonfinite: bool, status: str
) -> None:
    """Of numbers whose exponentials are infinite; not NaN that the candidate computes by itself."""
    found = judge(
        tmp_path,
        parse(SPREAD.format(function, "y = Add (s, t)"), opset=18),
        parse(SPREAD.format(function, candidate), opset=18),
        nonfinite=nonfinite,
    )
    assert found.status == status, found.summary


HALF = """agraph (float[8,4] x) => (float[8,8] y) <int64[2] shape = {{8, 8}}> {{
    k = Constant <value = float16[1] {{{}}}> () e = Constant <value_ints = [4, 8]> ()
    a = Cast <to = 10> (x) w = Expand (k, e) m = MatMul (a, w) {} c = Cast <to = 1> ({})
    s = ReduceSumSquare <keepdims = 0> (c) q = Sqrt (s) y = Div (c, q) }}"""


POWER = """h = Cast <to = 1> (m) t = Constant <value_float = 12.0> () p = Pow (h, t)
    z = Sub (p, p) u = Add (h, z) r = Cast <to = 10> (u)"""


@pytest.mark.parametrize(
    ("weight", "between", "status"),
    [
        (26624, "r = Reshape (m, shape)", "equal"),
        (19456, POWER, "different"),
    ],
)
def test_a_product_in_half_precision_may_overflow_in_the_candidate_alone(
    tmp_path: Path, weight: int, between: str, status: str
) -> None:
    """onnxruntime does not round the product to float16 if a Cast to float32 follows. The weight is
    written as the bits of 2048 and of 16. An overflow that the model does not have is an error.
    """
    reference = parse(HALF.format(weight, "", "m"))
    found = judge(tmp_path, reference, parse(HALF.format(weight, between, "r")))
    assert found.status == status, found.summary


CONSTANT = """agraph (float[2,8,5,5] x) => (float[1,2,4,5] y) <float e = {{0.00001}}, float k = {},
    int64[2] last = {{2, 3}}, float[2] one = {{1, 1}}, float[2] none = {{0, 0}}> {{
    q, s, z = DynamicQuantizeLinear (x) t = Neg (s)
    shape = Constant <value_ints = [1, 2, 4, 5]> () w = Expand (t, shape) {} }}"""
WRITTEN = """u = ReduceMean (w, last) d = Sub (w, u) p = Mul (d, d) v = ReduceMean (p, last)
    a = Add (v, e) r = Sqrt (a) n = Div (d, r) y = Add (n, k)"""
NORMALIZED = "n = InstanceNormalization (w, one, none) y = Add (n, k)"


def test_an_output_that_rounding_decides_is_not_judged_at_ties(tmp_path: Path) -> None:
    """The mean of equal numbers differs from them by a last place, or not. Large inputs show it."""
    written = parse(CONSTANT.format("{0}", WRITTEN), opset=18)
    fused = parse(CONSTANT.format("{0}", NORMALIZED), opset=18)
    shifted = parse(CONSTANT.format("{0.01}", NORMALIZED), opset=18)
    assert judge(tmp_path, written, fused).status == "equal"
    assert judge(tmp_path, written, shifted).status == "different"


@pytest.mark.parametrize(
    ("dtype", "step", "share"),
    [
        (np.float32, 2e-3, 1.0),
        (np.float32, 5e-4, 0.0),
        (np.float16, 2e-3, 0.0),
        (np.float16, 1, 1.0),
    ],
)
def test_what_is_off_by_more_than_the_last_places(dtype: Any, step: float, share: float) -> None:
    ours = np.ones((3, 4), dtype)
    assert share_off(ours, (ours + step).astype(dtype)) == share


# -- outputs of few elements
# -------------------------------------------------------------------------------------------


RARE = """agraph (float[N,8] x) => (float[N,8] y) <float lo = {2}, float hi = {2.1}> {
    a = Greater (x, lo) b = Less (x, hi) c = And (a, b) n = Neg (x) y = Where (c, n, x) }"""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("agraph (float[N,8] x) => (float[N,8] y) { y = Identity (x) }", RARE),
        ("agraph (float[8] x) => (float[8] y) { y = Identity (x) }", RARE.replace("[N,8]", "[8]")),
    ],
)
def test_few_elements_are_drawn_until_some_thousand_were_compared(
    tmp_path: Path, right: str, wrong: str
) -> None:
    """One element in 500 is wrong, and a sample has eight or sixteen."""
    assert judge(tmp_path, parse(right), parse(right)).summary.startswith("equal in ")
    found = judge(tmp_path, parse(right), parse(wrong))
    assert found.status == "different" and "seed 100" in found.differences[0].run, found


def test_outputs_that_stay_the_same_are_not_drawn_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = list[int]()
    run_each = Runner.run_each

    def counting(self: Runner, several: Sequence[Any]) -> Any:
        drawn.append(len(several))
        return run_each(self, several)

    monkeypatch.setattr(Runner, "run_each", counting)
    constant = parse(
        "agraph (float[N,8] x) => (float[2] y) <float[2] c = {1, 2}> { z = Neg (x) y = "
        "Identity "
        "(c) }"
    )
    judge(tmp_path, constant, constant)
    assert drawn == [8, 8], "eight show it, and the candidate runs on them"
    drawn.clear()
    moving = parse("agraph (float[N,8] x) => (float[N,8] y) { y = Neg (x) }")
    judge(tmp_path, moving, moving)
    assert sum(drawn[:-1]) == drawn[-1] > 100
    drawn.clear()
    large = parse("agraph (float[N,8000] x) => (float[N,8000] y) { y = Neg (x) }")
    judge(tmp_path, large, large)
    assert not drawn
