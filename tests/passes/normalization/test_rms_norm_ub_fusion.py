from pathlib import Path

import onnx
import onnxruntime
import pytest
from harness import Fires, Stays, optimize, parse, pass_of, tables

FORMS = {
    "times the reciprocal": "r = Sqrt (e) q = Reciprocal (r) n = Mul (x, q) y = Mul (n, g)",
    "commuted": "r = Sqrt (e) q = Reciprocal (r) n = Mul (q, x) y = Mul (g, n)",
    "times a power": "q = Pow (e, minus) n = Mul (x, q) y = Mul (n, g)",
    "the scale on x, divided": "r = Sqrt (e) n = Mul (x, g) y = Div (n, r)",
    "the scale on x, times the reciprocal": "r = Sqrt (e) q = Reciprocal (r) n = Mul (g, x) y = Mul (n, q)",
    "the scale on x, times one over the root": "r = Sqrt (e) q = Div (one, r) n = Mul (x, g) y = Mul (q, n)",
    "times one over the root": "r = Sqrt (e) q = Div (one, r) n = Mul (x, q) y = Mul (g, n)",
}
KNOWN = "r = Sqrt (e) n = Div (x, r) y = Mul (n, g)"


def graph(
    form: str = FORMS["times the reciprocal"],
    square: str = "s = Pow (x, two)",
    g: str = "float[4]",
    ax: str = "{-1}",
    x: str = "float[N,S,4]",
    more: str = "",
) -> str:
    constants = f"{g} g, int64[1] ax = {ax}, float two = {{2}}, float one = {{1}}, float minus = {{-0.5}}, float eps = {{0.00001}}"
    return f"agraph ({x} x) => ({x} y{more}) <{constants}> {{ {square} v = ReduceMean (s, ax) e = Add (v, eps) {form} }}"


NO_SCALE = "the scale does not have exactly one number for each element of the last axis"
STAYS = [
    Stays("divided", graph(KNOWN), None),
    Stays("opset 23", graph(), None, opset=23),
    Stays("target onnx", graph(), "for target onnx no gain is known", target="onnx"),
    Stays("double", graph().replace("float", "double"), "the elements are not float32"),
    Stays("another axis", graph(ax="{1}"), "the reduced axes are not the last ones"),
    Stays("a scale for each row", graph(x="float[2,3,4]", g="float[3,4]"), NO_SCALE),
    Stays("one scale", graph(g="float[1]"), NO_SCALE),
    Stays(
        "two axes",
        graph(x="float[N,3,4]", g="float[3,4]").replace(
            "int64[1] ax = {-1}", "int64[2] ax = {-1, 1}"
        ),
        "the normalization covers more than the last axis",
    ),
    Stays(
        "without a scale",
        graph(FORMS["times the reciprocal"].replace("y = Mul (n, g)", "y = Neg (n)")),
        None,
    ),
    Stays(
        "the root is used elsewhere",
        graph(FORMS["times the reciprocal"] + " z = Neg (r)", more=", float[N,S,1] z"),
        "an interior value is used elsewhere",
    ),
]

KNOWN_FORM = ["Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"]
FIRES = [
    *[Fires(name, graph(form), KNOWN_FORM) for name, form in FORMS.items()],
    Fires("the square as a product", graph(KNOWN, "s = Mul (x, x)"), KNOWN_FORM),
    Fires("opset 12", graph().replace("ReduceMean (s, ax)", "ReduceMean <axes = [2]> (s)"), KNOWN_FORM, opset=12),
    Fires("rank 2", graph(x="float[N,4]"), KNOWN_FORM),
]  # fmt: skip

test_stays, test_fires = tables("RmsNormUbFusionPass", STAYS, FIRES, in_functions="never")


@pytest.mark.parametrize("case", FIRES, ids=[case.name for case in FIRES])
def test_onnxruntime_makes_one_operator_of_it(case: Fires, tmp_path: Path) -> None:
    result, _ = optimize(
        parse(case.graph, case.opset, case.ir_version), [pass_of("RmsNormUbFusionPass")]
    )
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "run.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(
        result.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    assert [node.op_type for node in onnx.load(tmp_path / "run.onnx").graph.node] == [
        "SimplifiedLayerNormalization"
    ]
