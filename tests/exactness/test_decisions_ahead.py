"""Which values go straight into an operator that decides by their last bit."""

from __future__ import annotations

import pytest
from harness import parse, with_function

from fusionc.exactness.decisions_ahead import CANCELS, JUMP, SIGN, TINY, ZERO, decider_of
from fusionc.shapes.inference import typed_model


def deciders(text: str, opset: int = 21, value: str = "x") -> dict[str, str]:
    graph = typed_model(parse(text, opset), "", "onnxruntime-cpu").main
    return {kind: decider_of(graph.values[value], kind) for kind in (JUMP, CANCELS, ZERO)}


def one(body: str, result: str = "float y", opset: int = 21) -> dict[str, str]:
    return deciders(
        f"agraph (float[4,4] x, bool which, int64 n, float[4,4] z) => ({result}) {{ {body} }}",
        opset,
    )


JUMPS = {
    "Round": "y = Round (x)",
    "Floor": "y = Floor (x)",
    "Ceil": "y = Ceil (x)",
    "Sign": "y = Sign (x)",
    "Cast": "y = Cast <to = 3> (x)",
    "QuantizeLinear": "s = Constant <value_float = 0.1> () y = QuantizeLinear (x, s)",
    "DynamicQuantizeLinear": "y, s, p = DynamicQuantizeLinear (x)",
    "Equal": "y = Equal (z, x)",
    "GreaterOrEqual": "y = GreaterOrEqual (x, z)",
    "ArgMax": "y = ArgMax (x)",
    "TopK": "k = Constant <value_ints = [1]> () y, i = TopK (x, k)",
    "Mod": "y = Mod <fmod = 1> (x, z)",
    "IsNaN": "y = IsNaN (x)",
    "Acos": "y = Acos (x)",
}


@pytest.mark.parametrize("op", JUMPS)
def test_the_last_bit_decides_in(op: str) -> None:
    assert one(JUMPS[op])[JUMP] == op


@pytest.mark.parametrize(
    "way",
    [
        "a = Transpose (x)",
        "a = Identity (x)",
        "a = Relu (x)",
        "a = Mul (x, z)",
        "a = Concat <axis = 0> (z, x)",
        "a = Where (which, z, x)",
        "b = Sqrt (x) a = Neg (b)",
        "a = ReduceMean (x)",
        "s = Sigmoid (x) a = Cast <to = 10> (s)",
        "a = com.microsoft.Gelu (x)",
        "a = If (which) <then_branch = t () => (float[4,4] c) { c = Neg (x) }, "
        "else_branch = e () => (float[4,4] d) { d = Identity (z) }>",
        "a, b = If (which) <then_branch = t () => (float[4,4] c, float[4,4] c2) { c = Neg (x) c2 "
        "= Neg (z) }, "
        "else_branch = e () => (float[4,4] d, float[4,4] d2) { d = Identity (z) d2 = Neg (z) }>",
        "a = Loop (n, which, x) <body = l (int64 i, bool go, float[4,4] v) => (bool stop, "
        "float[4,4] w) "
        "{ stop = Identity (go) w = Neg (v) }>",
        "a = Scan <num_scan_inputs = 1, body = s (float[4] v) => (float[4] w) { w = Abs (v) }> (x)",
    ],
)
def test_it_decides_behind_what_moves_and_reckons(way: str) -> None:
    assert one(f"{way} y = Floor (a)")[JUMP] == "Floor"


@pytest.mark.parametrize(
    "way",
    [
        "a = MatMul (x, z)",
        "a = Softmax (x)",
        "b = Cast <to = 6> (z) a = Cast <to = 1> (b)",
        "b, a = If (which) <then_branch = t () => (float[4,4] c, float[4,4] c2) { c = Neg (x) c2 "
        "= Neg (z) }, "
        "else_branch = e () => (float[4,4] d, float[4,4] d2) { d = Identity (z) d2 = Neg (z) }>",
    ],
)
def test_it_does_not_decide_behind_products_nor_beside(way: str) -> None:
    assert one(f"{way} y = Floor (a)")[JUMP] == ""


def test_a_subgraph_decides_by_what_is_around_it() -> None:
    body = """y = If (which) <then_branch = t () => (float[4,4] c) { b = Neg (x) c = Round (b) },
        else_branch = e () => (float[4,4] d) { d = Identity (z) }>"""
    assert one(body)[JUMP] == "Round"


def test_a_loop_decides_by_what_it_carries_to_its_next_iteration() -> None:
    body = """a, y = Loop (n, which, x, z) <body = l (int64 i, bool go, float[4,4] v, float[4,4] u)
        => (bool stop, float[4,4] w, float[4,4] r) { stop = Identity (go) w = Neg (u) r = Round (v)
        }>"""
    graph = typed_model(
        parse(
            f"agraph (float[4,4] x, bool which, int64 n, float[4,4] z) => (float y) {{ {body} }}",
            21,
        ),
        "",
        "onnx",
    ).main
    assert decider_of(graph.values["x"]) == "Round"  # in the first iteration
    assert decider_of(graph.values["z"]) == "Round"  # in the second


@pytest.mark.parametrize(
    ("caller", "inside"),
    [
        ("b = my.F (x) y = Identity (b)", "y = Round (x)"),
        ("b = my.F (x) y = Round (b)", "y = Neg (x)"),
    ],
)
def test_functions_are_looked_into(caller: str, inside: str) -> None:
    model = with_function(f"agraph (float[4] x) => (float y) {{ {caller} }}", "F", inside)
    assert decider_of(typed_model(model, "", "onnx").main.values["x"]) == "Round"


def test_nothing_decides_in_an_ordinary_network() -> None:
    assert set(one("a = MatMul (x, z) b = Add (a, z) y = Relu (b)").values()) == {""}


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("y = Div (z, x)", {ZERO}),
        ("a = Neg (x) y = Log (a)", {ZERO}),
        ("y = Sqrt (x)", {ZERO}),
        ("a = Add (x, z) y = Div (z, a)", {ZERO, CANCELS}),
        ("a = Sub (x, z) y = Reciprocal (a)", {ZERO, CANCELS}),
        ("s = Mul (z, z) b = Abs (x) a = Add (b, s) y = Sqrt (a)", {ZERO}),  # nothing of it cancels
        ("b = Exp (x) a = Add (b, z) y = Div (z, a)", set()),  # Exp ends the way
        ("e = Constant <value_float = 2.0> () y = Pow (x, e)", set()),
        ("e = Constant <value_float = 0.5> () y = Pow (x, e)", {ZERO}),
        ("y = Div (x, z)", set()),
    ],
)
def test_the_sign_near_zero_decides(body: str, kinds: set[str]) -> None:
    assert {kind for kind, found in one(body).items() if found} == kinds


@pytest.mark.parametrize(
    ("body", "decider"),
    [
        ("s = ReduceSum (x) y = Div (x, s)", "Div"),
        ("m = ReduceMean (x) y = Log (m)", "Log"),
        ("a = Abs (x) n = ReduceL2 (a) y = Reciprocal (n)", "Reciprocal"),
        ("t = Tanh (x) y = Reciprocal (t)", "Reciprocal"),
        ("y = ReduceLogSum (x)", "ReduceLogSum"),
        ("y = LpNormalization (x)", "LpNormalization"),
        ("y = Pow (z, x)", "Pow"),
        ("e = Exp (x) s = ReduceSum (e) y = Div (e, s)", ""),
        ("s = ReduceSum (x) e = Constant <value_float = 0.1> () a = Add (s, e) y = Div (x, a)", ""),
        ("m = ReduceMean (x) a = Add (m, z) y = Log (a)", "Log"),
        ("a = MatMul (x, z) y = Log (a)", "Log"),
    ],
)
def test_the_digits_of_tiny_numbers_decide(body: str, decider: str) -> None:
    text = f"agraph (float[4,4] x, float[4,4] z) => (float y) {{ {body} }}"
    graph = typed_model(parse(text, 18), "", "onnx").main
    assert decider_of(graph.values["x"], TINY) == decider


def test_integers_are_not_rounded() -> None:
    text = "agraph (int32[4] x, int32[4] z) => (bool y) { a = Mul (x, z) y = Greater (a, z) }"
    assert deciders(text)[JUMP] == ""


@pytest.mark.parametrize(
    ("body", "decider"),
    [
        ("y = Div (z, x)", "Div"),
        ("y = Div (x, z)", ""),
        ("a = Sqrt (x) y = Reciprocal (a)", "Reciprocal"),
        ("a = Log (x) b = Neg (x) y = Div (a, b)", "Div"),  # that Log reads it, too, hides nothing
        ("a = Transpose (x) b = Max (a, z) y = Div (z, b)", "Div"),
        ("a = Abs (x) y = Div (z, a)", ""),  # of 0 and of −0 it is 0
        ("a = Add (x, z) y = Div (z, a)", ""),
        ("e = Constant <value_float = 2.0> () y = Pow (x, e)", ""),
        ("e = Constant <value_float = -2.0> () y = Pow (x, e)", "Pow"),
        ("y = Pow (x, z)", "Pow"),
    ],
)
def test_the_sign_of_a_zero_decides_where_it_divides(body: str, decider: str) -> None:
    text = f"agraph (float[4,4] x, float[4,4] z) => (float y) {{ {body} }}"
    graph = typed_model(parse(text, 21), "", "onnxruntime-cpu").main
    assert decider_of(graph.values["x"], SIGN) == decider
