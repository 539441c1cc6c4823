"""Which values go straight into an operator that decides by their last bit."""

from __future__ import annotations

import pytest
from harness import parse, with_function

from fusionc.exactness.decisions_ahead import (
    CANCELS,
    GRID,
    JUMP,
    NEGATIVE,
    SIGN,
    STEEP,
    STEP,
    TINY,
    ZERO,
    decider_of,
)
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
        ("a = Conv (x, z) y = Log (a)", "Log"),
        (
            "b = Constant <value_floats = [0.1, 0.2, 0.3, 0.4]> () a = Gemm (x, z, b) y = Log (a)",
            "",
        ),
        ("e = Constant <value_float = 3.0> () a = Pow (x, e) y = Log (a)", "Log"),
        ("e = Constant <value_float = 0.1> () a = Max (x, e) y = Log (a)", ""),
        ("e = Constant <value_float = 1e-5> () a = Max (x, e) y = Log (a)", "Log"),
        ("e = Constant <value_float = 1e-8> () a = Add (x, e) y = Log (a)", "Log"),
        (
            "e = Constant <value_float = 1e-6> () q = Mul (x, x) v = ReduceMean (q) a = Add (v, e) "
            "r = Sqrt (a) y = Div (z, r)",
            "",
        ),
        (
            "e = Constant <value_float = 1e-8> () q = Mul (x, x) v = ReduceMean (q) a = Add (v, e) "
            "r = Sqrt (a) y = Div (z, r)",
            "Sqrt",
        ),
        ("y = LayerNormalization (x, z)", ""),
        ("y = LayerNormalization <epsilon = 1e-12> (x, z)", "LayerNormalization"),
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


@pytest.mark.parametrize(
    ("body", "decider"),
    [
        ("y = Sqrt (x)", "Sqrt"),
        ("a = Transpose (x) b = Neg (a) y = Log (b)", "Log"),
        ("e = Constant <value_float = 0.5> () y = Pow (x, e)", "Pow"),
        ("e = Constant <value_float = -1.0> () y = Pow (x, e)", ""),
        ("y = ReduceLogSum (x)", "ReduceLogSum"),
        ("a = Tanh (x) y = Sqrt (a)", "Sqrt"),
        ("a = Mul (x, x) b = Mul (z, z) s = Add (a, b) y = Sqrt (s)", ""),
        ("a = Abs (x) y = Log (a)", ""),
        ("a = Relu (x) y = Sqrt (a)", ""),
        ("a = ReduceL2 (x) y = Log (a)", ""),
        ("y = Reciprocal (x)", ""),
        ("a = MatMul (x, z) y = Sqrt (a)", ""),  # near 0 only by chance
    ],
)
def test_whether_a_number_is_negative_decides_where_roots_are_taken(
    body: str, decider: str
) -> None:
    text = f"agraph (float[4,4] x, float[4,4] z) => (float y) {{ {body} }}"
    graph = typed_model(parse(text, 17), "", "onnxruntime-cpu").main
    assert decider_of(graph.values["x"], NEGATIVE) == decider


_C = "c = Constant <value_float = 0.1> ()"
_K = "k = Constant <value_float = 1e10> ()"


def kinds_of(body: str, *kinds: str) -> set[str]:
    text = f"""agraph (float[2,2] x, float[2,2] z, bool which) => (float y)
        <int64[2] square = {{2, 2}}, float t = {{0.2}},
        float[2,2] u = {{0, 1, -1, 1}}, float[2,2] w = {{0.5, 1, -1, 1}}> {{ {body} }}"""
    graph = typed_model(parse(text, 21), "", "onnxruntime-cpu").main
    return {kind for kind in kinds if decider_of(graph.values["x"], kind)}


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("a = Tanh (x) y = Reciprocal (a)", {ZERO}),
        ("a = Asinh (x) b = Elu (a) y = Div (z, b)", {ZERO}),
        ("a = ReduceL2 (x) y = Div (x, a)", {ZERO}),  # no terms of it cancel
        ("a = ReduceSum (x) y = Reciprocal (a)", {ZERO, CANCELS}),
        ("a = CumSum (x, t) y = Reciprocal (a)", {ZERO, CANCELS}),
        ("b = Abs (x) a = ReduceSum (b) y = Reciprocal (a)", {ZERO}),
        ("s = ReduceSum (x) a = Sub (z, s) y = Sqrt (a)", {ZERO, CANCELS}),
        (
            "m = ReduceMean (x) d = Sub (x, m) q = Mul (d, d) v = ReduceMean (q) r = Sqrt (v) "
            "y = Div (z, r)",
            {ZERO, CANCELS},
        ),
        (
            f"{_C} m = ReduceMean (x) d = Sub (x, m) q = Mul (d, d) v = ReduceMean (q) "
            "e = Add (v, c) r = Sqrt (e) y = Div (z, r)",
            set(),
        ),
        (f"{_C} a = ReduceL2 (x) b = Clip (a, c) y = Div (x, b)", set()),
        (f"{_C} a = ReduceL2 (x) b = Max (a, c) y = Div (x, b)", set()),
        (f"{_C} a = ReduceL2 (x) b = Add (a, c) y = Div (x, b)", set()),
        (f"{_C} b = Add (x, c) y = Div (x, b)", {ZERO, CANCELS}),  # x may be negative
        ("e = Constant <value_float = 4.0> () a = Pow (x, e) y = Reciprocal (a)", {ZERO}),
        ("a = MatMul (x, u) y = Sqrt (a)", {ZERO, CANCELS}),
        ("a = MatMul (x, w) y = Sqrt (a)", set()),
        ("y = MeanVarianceNormalization (x)", {CANCELS}),
        ("a = com.microsoft.CDist (x, z) y = Reciprocal (a)", {CANCELS}),
        (f"{_K} b = Sub (x, z) a = Mul (b, k) y = Tanh (a)", {CANCELS, ZERO}),
        (f"{_K} b = Sub (x, z) a = Mul (b, k) y = Clip (a, t)", {CANCELS, ZERO}),
        (f"{_C} b = Sub (x, z) a = Mul (b, c) y = Tanh (a)", set()),
        (f"{_K} b = Sub (x, z) a = Mul (b, k) y = Relu (a)", set()),
        ("b = Sub (x, z) y = HardSigmoid <alpha = 1e10> (b)", {CANCELS, ZERO}),
        ("b = Sub (x, z) y = HardSigmoid (b)", set()),
    ],
)
def test_the_sign_near_zero_decides_after_functions_that_keep_it(
    body: str, kinds: set[str]
) -> None:
    assert kinds_of(body, ZERO, CANCELS) == kinds


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("y = Floor (x)", {GRID, JUMP}),
        ("y = Cast <to = 7> (x)", {GRID, JUMP}),
        ("y = QuantizeLinear (x, t)", {STEP, JUMP}),
        ("y, s, p = DynamicQuantizeLinear (x)", {STEP, JUMP}),
        ("a = Relu (x) b = Transpose (a) y, i = TopK (b, square)", {GRID, JUMP}),
        (f"{_C} a = Mul (x, c) b = Add (a, c) y = Sign (b)", {GRID, JUMP}),
        ("a = Add (x, x) y = Sign (a)", {GRID, JUMP}),
        ("a = Add (x, z) y = Sign (a)", {JUMP}),
        ("a = Sigmoid (x) y = Greater (a, t)", {JUMP}),
        ("a = Relu (x) y = QuantizeLinear (a, t)", {STEP, JUMP}),
        ("a = MatMul (x, u) y = Floor (a)", {GRID, JUMP}),
        ("a = MatMul (x, w) y = Floor (a)", set()),
    ],
)
def test_a_grid_is_near_after_moves_and_factors(body: str, kinds: set[str]) -> None:
    assert kinds_of(body, GRID, STEP, JUMP) == kinds


@pytest.mark.parametrize("op", ["Tanh", "Erf", "Clip", "Softsign", "Exp"])
def test_a_curved_function_decides_about_steep_arguments(op: str) -> None:
    assert kinds_of(f"y = {op} (x)", STEEP) == {STEEP}


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("y = Cast <to = 8> (x)", {SIGN}),
        ("a = Erf (x) y = Reciprocal (a)", {SIGN}),
        ("a = ReduceMin (x) y = Reciprocal (a)", {SIGN}),
        ("a = Where (which, x, z) y = Cast <to = 8> (a)", {SIGN}),
        ("a = Exp (x) y = Cast <to = 8> (a)", set()),
        ("y = Cast <to = 10> (x)", set()),
    ],
)
def test_the_sign_of_a_zero_decides_about_text(body: str, kinds: set[str]) -> None:
    assert kinds_of(body, SIGN) == kinds
