"""`why`: what a pass did in a conversion, what it refused, what others took, and where it nearly
fired.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import parse

import fusionc
from fusionc.api import why
from fusionc.errors import UsageError
from fusionc.why.pass_answer import PassAnswer

GELU = """agraph (float[N,4] x) => (float[N,4] y) <float half = {0.5}, float one = {1}, float root = {1.41421356}> {
    [d] d = Div (x, root) [e] e = Erf (d) [a] a = Add (e, one) [h] h = Mul (x, half) [y] y = Mul (h, a) }"""
BLOCK = """ [dX] dX = Div (xX, rX) [eX] eX = Erf (dX) [aX] aX = Add (eX, one) [hX] hX = Mul (xX, half)
    [yX] yX = Mul (hX, aX)"""
TWICE = """agraph (float[N,4] x) => (float[N,4] y) { [a] a = Transpose <perm = [1, 0]> (x)
    [b] b = Transpose <perm = [1, 0]> (a) [y] y = Relu (b) }"""
FUNCTION = """agraph (float[N,4] x) => (float[N,4] y) { y = fusionc.test.gelu (x) }
<domain: "fusionc.test", opset_import: ["" : 20]> gelu (x) => (y) {
    half = Constant <value_float: float = 0.5> () one = Constant <value_float: float = 1.0> ()
    root = Constant <value_float: float = 1.4142135> () [d] d = Div (x, root) [e] e = Erf (d) [a] a = Add (e, one)
    [h] h = Mul (x, half) [y] y = Mul (h, a) }"""
OWN = """
import fusionc
from fusionc import op

fusionc.register_replacement(lambda x: op.Relu(op.Relu(x) * 2.0), lambda x: op.Relu(x) * 2.0, name="Own")
"""
FAILING = """
import fusionc
from fusionc import op

def failing(x):
    raise ValueError("no such thing")

fusionc.register_replacement(lambda x: op.Exp(op.Abs(x)), failing, name="Own")
"""
CONDITIONS = """
from functools import partial

from fusionc.rewrite import Pass, Pattern, op, var

def has_rank_three(m):
    return m.x.rank == 3

def documented(m):
    "Whether x has three axes. Others have not."
    return m.x.rank == 3

class First(Pass):
    patterns = (Pattern("First", op.Relu(var("x")), where=lambda m: m.x.rank == 3),)

class Second(Pass):
    patterns = (Pattern("Second", op.Exp(var("x")), where=has_rank_three),)

class Third(Pass):
    patterns = (Pattern("Third", op.Neg(var("x")), where=documented),)

class Fourth(Pass):
    patterns = (Pattern("Fourth", op.Neg(var("x")), where=partial(documented)),)
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ask(graph: str, name: str, opset: int = 18, **options: object) -> PassAnswer:
    onnx.save(parse(graph, opset), "in.onnx")
    (answer,) = why("in.onnx", name, **options).passes
    return answer


def test_what_switches_users_passes_off_together_is_named() -> None:
    name = "AddRmsNormDynamicQuantFusionPass"
    assert ask(GELU, name, pattern_fusion_pass=False).state.startswith(
        "off by --pattern_fusion_pass false"
    )
    assert f'"{name}:on" switches it on' in ask(GELU, name, optimization_switch=f"{name}:off").state


def test_a_pass_that_fires_says_so() -> None:
    answer = ask(GELU, "GeluFusionPass", 20)
    assert (answer.state, [commit.nodes[0] for commit in answer.fired]) == ("on", ["y"])
    assert not answer.reasons and not answer.taken and not answer.notes


def test_what_keep_nodes_refuses() -> None:
    graph = """agraph (float[1,2,4,4] x, float[2,2,1,1] w) => (float[1,2,4,4] y) {
        c = Conv (x, w) [last] y = Relu (c) }"""
    answer = ask(graph, "TbeConvElemwiseFusionPass", keep_nodes="la*")
    assert answer.fired == ()
    assert "--keep_nodes keeps one of its nodes as it is" in answer.reasons[0].text
    with pytest.raises(UsageError, match="no node of the model has the name first"):
        ask(graph, "TbeConvElemwiseFusionPass", keep_nodes="first")


def test_what_was_refused_and_then_taken_by_another_pass() -> None:
    (taken,) = ask(GELU, "GeluFusionPass").taken
    assert taken.reason == "Mul ‹y›: opset 18 has no Gelu: 18 < 20, --target_opset 20 would do"
    assert taken.by.pass_name == "BiasGeluFusionPass" and set(taken.nodes) == set("ydeah")
    assert ask(GELU, "GeluFusionPass", target_opset=20).fired


def test_an_opset_that_onnxruntime_does_not_run_is_no_advice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fusionc.why.pass_places.newest_opset", lambda: 19)
    (taken,) = ask(GELU, "GeluFusionPass").taken
    assert (
        taken.reason == "Mul ‹y›: opset 18 has no Gelu: 18 < 20, newer than this onnxruntime runs"
    )


def test_what_another_pass_took_before() -> None:
    answer = ask(TWICE, "ArithmeticSimplifyPass")
    (taken,) = answer.taken
    assert (taken.reason, taken.nodes, taken.by.pass_name) == (
        "",
        ("b", "a"),
        "TransOpSymmetryEliminationPass",
    )
    left = ask(
        TWICE, "ArithmeticSimplifyPass", optimization_switch="TransOpSymmetryEliminationPass:off"
    )
    assert left.fired and not left.taken


def test_what_still_matches_was_not_taken() -> None:
    """The Pad goes into the Conv, which is refused for its type before and after."""
    graph = """agraph (float16[1,1,8] x) => (float16[1,1,8] y)
        <float16[1,1,3] W = {1,1,1}, int64[6] pads = {0,0,1,0,0,1}> { [p] p = Pad (x, pads) [y] y = Conv (p, W) }"""
    answer = ask(graph, "Conv1dToConv2dPass")
    assert ask(graph, "PadConv2dFusionPass").fired and not answer.taken
    assert [reason.text for reason in answer.reasons] == ["Conv ‹y›: the elements are not float32"]


def test_the_nearest_misses_come_first_and_those_that_are_alike_together() -> None:
    roots = {"0": 2, "1": 1.43, "2": 1.43, "3": 1.43, "4": 2}
    blocks = "".join(BLOCK.replace("X", name) for name in roots).replace("Erf (d4)", "Abs (d4)")
    constants = ", ".join(f"float r{name} = {{{root}}}" for name, root in roots.items())
    outputs = ", ".join(f"float[N,4] y{name}" for name in roots)
    graph = f"""agraph ({outputs.replace(" y", " x")}) => ({outputs}, float[N,4] z)
        <float half = {{0.5}}, float one = {{1}}, {constants}> {{ {blocks} [z] z = Mul (x0, x0) }}"""
    reasons = ask(graph, "GeluFusionPass", 20).reasons
    wrong = "not 1.4142135623730951"
    assert [(reason.text, reason.fitting, reason.size, reason.more) for reason in reasons] == [
        (f"Div ‹d0›: second operand ‹r0› is 2.0, {wrong}", 5, 5, ()),
        (f"Div ‹d1›: second operand ‹r1› is 1.43, {wrong}", 5, 5, ("Mul ‹y2›", "Mul ‹y3›")),
        ("Add ‹a4›: first operand ‹e4› is made by Abs ‹e4›, not by Erf", 3, 5, ()),
    ]


def test_a_node_that_is_asked_for() -> None:
    onnx.save(parse(GELU), "in.onnx")
    answer = why("in.onnx", "GeluFusionPass", node="e")
    assert answer.node[0].startswith(
        "‹e› was part of rewrite 1, BiasGeluFusionPass, pattern Gelu, at y, "
    )
    assert len(answer.passes[0].taken) == 1
    relu = why("in.onnx", "ConvBatchnormFusionPass", node="e").passes[0]
    assert relu.notes == (
        "its patterns begin at BatchNormalization: the converted model has none of these",
    )
    with pytest.raises(UsageError, match='no node "dd"') as caught:
        why("in.onnx", "GeluFusionPass", node="dd")
    assert caught.value.hint == 'did you mean "d"?'
    with pytest.raises(UsageError, match='no node "QQQ"') as caught:
        why("in.onnx", "GeluFusionPass", node="QQQ")
    assert caught.value.hint.startswith("the nearest names are: ")


def test_only_the_places_of_a_node() -> None:
    blocks = [BLOCK.replace("X", name) for name in "01"]
    constants = "float half = {0.5}, float one = {1}, float r0 = {2}, float r1 = {3}"
    graph = f"""agraph (float[N,4] x0, float[N,4] x1) => (float[N,4] y0, float[N,4] y1)
        <{constants}> {{ {"".join(blocks)} }}"""
    (reason,) = ask(graph, "GeluFusionPass", 20, node="a1").reasons
    assert reason.text == "Div ‹d1›: second operand ‹r1› is 3.0, not 1.4142135623730951"


def test_a_node_that_is_gone_is_looked_at_in_the_given_model() -> None:
    answer = ask(TWICE, "IdempotentOpPass", node="b")
    assert [one.text for one in answer.reasons] == [
        "Relu ‹y›: first input ‹b› is made by Transpose ‹b›, not by Relu"
    ]
    assert answer.notes[0].startswith("this is so in the given model")


def test_a_pass_that_is_off_is_looked_at_as_if_it_were_on() -> None:
    answer = ask(
        "agraph (float[N,4] x) => (float[N,4] y) { [y] y = Gelu (x) }", "FastGeluFusionPass", 20
    )
    switch = '--optimization_switch "FastGeluFusionPass:on" switches it on, as assumed below'
    assert answer.state == f"off by default; {switch}" and answer.fired
    answer = ask(GELU, "GeluFusionPass", 20, optimization_switch="GeluFusionPass:off")
    assert answer.state.startswith("off; ") and answer.fired


def test_names() -> None:
    onnx.save(parse(GELU), "in.onnx")
    names = [answer.name for answer in why("in.onnx", "AlgebraicSimplificationPass").passes]
    assert names == ["UselessBinaryOpRemovePass", "ArithmeticSimplifyPass"]
    with pytest.raises(UsageError, match='did you mean "GeluFusionPass"') as caught:
        why("in.onnx", "GeluFusionPas")
    assert caught.value.code == "E10001"
    with pytest.raises(UsageError, match="exists only on Ascend"):
        why("in.onnx", "AAMatMulNzToNdFusionPass")


def test_passes_that_cannot_be_asked_for_near_misses_say_why() -> None:
    never = ask(GELU, "MatMulAllReduce").notes[0]
    assert never.startswith("it never matches: ONNX has no collective operators")
    assert "--enable_graph_kernel" in ask(GELU, "AutomaticUbFusion").notes[0]
    none = "its patterns begin at Concat: the converted model has none of these"
    assert ask(GELU, "ZConcatv2dFusionPass").notes == (none,)
    no_call = "FunctionCall: the search reports no candidate"
    assert ask(GELU, "FunctionInlinePass").notes == (no_call,)


def test_a_search_of_its_own_says_why_it_rejects_its_candidates() -> None:
    answer = ask(GELU, "PrunePass")
    assert [reason.text for reason in answer.reasons] == ["Gelu ‹y_Gelu›: its result is used"]
    assert not answer.notes
    constants = "<float one = {1}, float two = {2}>"
    graph = (
        f"agraph (float[4] x) => (float[4] y) {constants} {{ a = Add (x, one) y = Mul (a, two) }}"
    )
    (reason,) = ask(graph, "RemoveSameConstPass").reasons
    assert reason.text == (
        "constant ‹one›: no other constant of its type and shape has its elements"
    )
    assert reason.more == ("constant ‹two›",)


def test_a_function_hides_types_and_shapes() -> None:
    answer = ask(FUNCTION, "GeluFusionPass", 20)
    first = answer.reasons[0]
    assert (
        first.text == "Mul ‹h›: second operand ‹half› is a constant whose shape is not known here"
    )
    switch = '--optimization_switch "FunctionInlinePass:on"'
    hidden = (
        f'the function "fusionc.test.gelu", in which no types and shapes are known; with {switch}'
    )
    assert answer.notes == (
        f"graph {first.graph_id} is {hidden} its nodes move to where it is called",
    )
    assert ask(FUNCTION, "GeluFusionPass", 20, optimization_switch="FunctionInlinePass:on").fired


def test_a_pass_of_ones_own() -> None:
    Path("own.py").write_text(OWN)
    graph = """agraph (float[N,4] x) => (float[N,4] y) <float c = {3}> {
        [a] a = Relu (x) [b] b = Mul (a, c) [y] y = Relu (b) }"""
    (reason,) = ask(graph, "Own", custom_passes=["own.py"]).reasons
    assert reason.text == "Mul ‹b›: second operand ‹c› is 3.0, not 2.0"


def test_conditions_of_passes_of_ones_own() -> None:
    Path("own.py").write_text(CONDITIONS)
    graph = "agraph (float[N,4] x) => (float[N,4] y) { [a] a = Relu (x) [b] b = Exp (a) [y] y = Neg (b) }"
    texts = [
        ask(graph, name, custom_passes=["own.py"]).reasons[0].text
        for name in ("First", "Second", "Third", "Fourth")
    ]
    unmet = "a condition of the pattern does not hold"
    assert texts == [
        f"Relu ‹a›: {unmet}: m.x.rank == 3",
        f"Exp ‹b›: {unmet}: has rank three",
        f"Neg ‹y›: {unmet}: x has three axes",
        f"Neg ‹y›: {unmet}: a condition of its own",
    ]


def test_a_pass_of_ones_own_that_fails_where_the_conversion_does_not_try_it() -> None:
    Path("own.py").write_text(FAILING)
    graph = """agraph (float[N,4] x) => (float[N,4] y, float[N,4] z) {
        [a] a = Abs (x) [y] y = Neg (a) [b] b = Abs (x) [z] z = Exp (b) }"""
    (reason,) = ask(graph, "Own", custom_passes=["own.py"]).reasons
    assert reason.text == "Exp ‹z›: interior value ‹a› is used by Neg ‹y›"


def test_what_another_optimizer_fused() -> None:
    tail = "<float[4] g, float[4] o, float half = {0.5}>"
    graph = f"""agraph (float[B,S,4] x, float[B,S,4] k) => (float[B,S,4] y) {tail} {{
        [s] s = Add (x, k) [n] n = LayerNormalization (s, g, o) [t] t = Relu (n) [y] y = Mul (t, half) }}"""
    fused = "[n] n = com.microsoft.SkipLayerNormalization (x, k, g, o)"
    other = graph.replace("[s] s = Add (x, k) [n] n = LayerNormalization (s, g, o)", fused)
    onnx.save(parse(graph), "in.onnx")
    onnx.save(parse(other), "other.onnx")
    (one,) = why("in.onnx", expected="other.onnx").expected
    operator = one.operator
    assert (operator.operator, operator.converted, operator.expected) == (
        "SkipLayerNormalization",
        0,
        1,
    )
    assert operator.nodes == ("s", "n") and one.taken_by == ("ResidualSumPass",)
    (answer,) = one.passes
    assert answer.name == "AddLayerNormFusionPass" and answer.state.startswith("off by default; ")
    assert [taken.by.pass_name for taken in answer.taken] == ["ResidualSumPass"]
    on = "AddLayerNormFusionPass:on"
    assert not why("in.onnx", expected="other.onnx", optimization_switch=on).expected
    assert not why("in.onnx", expected="in.onnx").expected
    with pytest.raises(UsageError, match="neither a pass nor"):
        why("in.onnx")


CHAIN = """agraph (float[N,4] x, int64[2] s) => (float[N,4] y, float[P,Q] z, float[N,4] w) {
    [a] a = Exp (x) [b] b = Neg (a) [c] c = MatMul (b, m) [y] y = Sqrt (c)
    [d] d = Abs (x) [z] z = Reshape (d, s) [w] w = Sin (x) }"""
# areas without kernels, which need no compiler
KERNELS = {"enable_graph_kernel": True, "target": "onnx"}


def ask_of_areas(name: str, **options: object) -> PassAnswer:
    model = parse(CHAIN)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), "m"))
    onnx.save(model, "in.onnx")
    (answer,) = why("in.onnx", name, **{**KERNELS, **options}).passes
    return answer


def test_areas_that_are_made_and_operators_that_are_in_none() -> None:
    answer = ask_of_areas("TbeEltwiseFusionPass")
    assert [commit.nodes for commit in answer.fired] == [("a", "b")]
    texts = {reason.root: reason.text for reason in answer.reasons}
    assert texts["c"] == "MatMul: MatMul is not in the list of operators for clusters"
    assert texts["y"] == "Sqrt: a kernel could compute it, but no area with its neighbours was made"
    assert not any(reason.is_match or reason.is_near for reason in answer.reasons)
    assert [reason.root for reason in ask_of_areas("TbeEltwiseFusionPass", node="c").reasons] == [
        "c"
    ]


def test_why_a_product_is_in_no_area() -> None:
    """onnxruntime multiplies by packed weights, which pays for few rows; here the number is open."""
    model = parse("""agraph (float[N,M,64] x) => (float[N,M,64] y) <int8[64,64] w, float[64] s> {
        d = DequantizeLinear <axis = 1> (w, s) [p] p = MatMul (x, d) [y] y = Tanh (p) }""")
    onnx.save(model, "in.onnx")
    (answer,) = why("in.onnx", "BlockedMatMulFusionPass", enable_graph_kernel=True).passes
    (reason,) = answer.reasons
    told = "it may have few rows, for which onnxruntime multiplies by the packed weights"
    assert (reason.root, reason.text) == ("p", f"MatMul: {told}")
    report = fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True)
    assert any(f"no operators fit together (MatMul: {told})" in text for text in report.notices)


def test_areas_that_are_refused() -> None:
    (commit,) = ask_of_areas("TbeEltwiseFusionPass").fired
    assert commit.nodes == ("a", "b")
    fusionc.convert("in.onnx", output="out.onnx", verify=False, **KERNELS)
    (name,) = {function.name for function in onnx.load("out.onnx").functions}
    answer = ask_of_areas("TbeEltwiseFusionPass", graph_kernel_flags=f"--disable_areas={name}")
    (reason,) = answer.reasons
    assert not answer.fired and reason.is_match and not reason.would_fire and reason.root == "a"
    assert reason.text == "it is switched off by --disable_areas"


def test_areas_of_a_pass_that_is_off_are_looked_at_as_if_it_were_on() -> None:
    answer = ask_of_areas("TbeEltwiseFusionPass", optimization_switch="TbeEltwiseFusionPass:off")
    assert answer.state.startswith("off; ") and [commit.nodes for commit in answer.fired] == [
        ("a", "b")
    ]


@pytest.mark.parametrize("name", ["BlockedConvolutionFusionPass", "TbeReduceElemwiseFusionPass"])
def test_areas_of_which_there_are_none(name: str) -> None:
    answer = ask_of_areas(name)
    assert not answer.fired and not any(reason.is_match for reason in answer.reasons)
    if name.startswith("Blocked"):
        assert answer.notes == (
            f'no operator here could be in an area of this pass: "fusionc passes {name}" says which operators can be in such an area',
        )
