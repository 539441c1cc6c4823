"""No pass rounds in another way what goes straight into an operator that decides by the last
bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from harness import optimize, parse, session

from fusionc.passes import PASSES

ON = [pass_ for pass_ in PASSES if pass_.default != "off"]
HALF_STEPS = np.arange(-400, 400, dtype=np.float32) + np.float32(0.5)
BYTES = np.arange(256, dtype=np.uint8)
# Chains in front of a grid, and numbers that lie on its limits.
CHAINS: dict[str, tuple[str, Any]] = {
    "quotient at half steps": (
        "agraph (float[N] x) => (float[N] y) <float s = {0.05}> { a = Div (x, s) y = Round (a) }",
        HALF_STEPS * np.float32(0.05),
    ),
    "quotient, quantized": (
        """agraph (float[N] x) => (uint8[N] y) <float s = {0.3}, float q = {0.02}, uint8 z = {128}>
        { a = Div (x, s) y = QuantizeLinear (a, q, z) }""",
        HALF_STEPS * np.float32(0.006),
    ),
    "an image, normalized and quantized": (
        """agraph (uint8[N] x) => (int8[N] y) <float c = {255}, float d = {0.007843138}>
        { f = Cast <to = 1> (x) a = Div (f, c) b = Div (a, d) r = Round (b) y = Cast <to = 3> (r)
        }""",
        BYTES,
    ),
    "addends": (
        """agraph (uint8[N] x) => (float[N] y) <float c = {0.1}, float d = {0.3}, float e = {0.2}>
        { f = Cast <to = 1> (x) m = Mul (f, e) a = Add (m, c) b = Add (a, d) y = Floor (b) }""",
        BYTES,
    ),
    "a mean between": (
        """agraph (int8[N] x) => (uint8[N] y)
        <float s = {0.023529412}, int8 z = {-18}, float c = {0.2}, uint8 q = {174}, int64[1] axis =
        {1}>
        { f = DequantizeLinear (x, s, z) a = Div (f, c) b = Unsqueeze (a, axis) t = Concat <axis =
        1> (b, b)
          p = ReduceMean <keepdims = 0> (t, axis) y = QuantizeLinear (p, s, q) }""",
        BYTES.view(np.int8),
    ),
    "compared": (
        "agraph (uint8[N] x) => (bool[N] y) <float s = {49}, float t = {3}>"
        " { f = Cast <to = 1> (x) a = Div (f, s) y = GreaterOrEqual (a, t) }",
        BYTES,
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_integers_stay_bit_for_bit(name: str) -> None:
    text, x = CHAINS[name]
    model = parse(text, 21)
    result, counts = optimize(model, ON)
    before, after = (session(m).run(None, {"x": x})[0] for m in (model, result))
    np.testing.assert_array_equal(after, before)
    assert any("depends on the last bit" in reason for count in counts for reason in count.refused)


def refused(model: onnx.ModelProto) -> set[str]:
    _, counts = optimize(model, ON)
    return {
        c.pass_name for c in counts for reason in c.refused if "depends on the last bit" in reason
    }


REFUSED = {
    "RealDiv2MulsFusionPass": "a = Div (x, c)",
    "ConstantReassociationPass": "b = Mul (x, c) a = Mul (b, d)",
    "QuotientSimplifyPass": "o = Reciprocal (x) b = Abs (x) a = Mul (o, b)",
    "PowToMulPass": "e = Constant <value_float = 3.0> () a = Pow (x, e)",
    "HardSigmoidFusionPass": """t = Constant <value_float = 3.0> () l = Constant <value_float =
        0.0> ()
        s = Constant <value_float = 6.0> () b = Add (x, t) k = Clip (b, l, s) a = Div (k, s)""",
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("decides", ["y = Round (a)", "r = Reshape (a, n) y = Ceil (r)"])
def test_what_rounds_is_refused(name: str, decides: str) -> None:
    text = (
        "agraph (float[8] x) => (float y) <float c = {0.7}, float d = {0.3}, int64[2] n = {4, 2}>"
    )
    assert name in refused(parse(f"{text} {{ {REFUSED[name]} {decides} }}", 21))


def test_what_is_exact_takes_effect() -> None:
    """A power of two; a product of matrices and a bias, of which nothing lies on a limit but by
    chance.
    """
    power = "agraph (float[8] x) => (float[8] y) <float c = {4}> { a = Div (x, c) y = Round (a) }"
    product = """agraph (float[2,3] x) => (uint8[2,3] y) <float[3,3] w, float[3] b, float s = {0.1}>
        { p = MatMul (x, w) a = Add (p, b) y = QuantizeLinear (a, s) }"""
    for text, operators in ((power, ["Mul", "Round"]), (product, ["Gemm", "QuantizeLinear"])):
        result, _ = optimize(parse(text, 21), ON)
        assert [node.op_type for node in result.graph.node] == operators


def test_a_normalization_is_folded_in_a_quantized_model() -> None:
    """It moves a few elements to the next step. That is why it needs no verification at ties."""
    text = """agraph (float[1,2,512,512] x) => (uint8[1,3,512,512] y)
        <float[3,2,1,1] w, float[3] g, float[3] b, float[3] m, float[3] v, float s = {0.1}> {
        c = Conv (x, w) n = BatchNormalization (c, g, b, m, v) r = Relu (n) y = QuantizeLinear (r,
        s) }"""
    model = parse(text, 21)
    result, _ = optimize(model, ON)
    assert "BatchNormalization" not in [node.op_type for node in result.graph.node]
    x = np.random.default_rng(0).normal(0, 3, (1, 2, 512, 512)).astype(np.float32)
    before, after = (session(m).run(None, {"x": x})[0].astype(int) for m in (model, result))
    assert np.abs(after - before).max() <= 1
    assert np.count_nonzero(after != before) < before.size / 10_000


def test_a_sum_that_cancels_stays_in_front_of_a_division() -> None:
    """(x + 0.3) − 0.1 is 0 at another x than x + 0.2: of 1/0 and a quotient of rounding nothing is
    alike.
    """
    text = """agraph (float[8] x) => (float[8] y) <float c = {0.3}, float d = {0.1}>
        { a = Add (x, c) b = Sub (a, d) y = Reciprocal (b) }"""
    assert refused(parse(text, 21)) == {"ConstantReassociationPass"}


@pytest.mark.parametrize("angle", ["a = Atan (q)", "t = Transpose (q) n = Neg (t) a = Atan (n)"])
def test_products_of_which_a_quotient_is_an_angle_keep_their_noise(angle: str) -> None:
    """What is 0 in a Fourier transform written as products is noise, whose sign turns an angle
    round.
    """
    body = (
        f"p = MatMul (x, c) im = Mul (p, k) re = MatMul (x, d) q = Div (im, re) {angle} y "
        f"= Mul (a, k)"
    )
    text = (
        f"agraph (float[2,3] x) => (float y) <float[3,3] c, float[3,3] d, float k = "
        f"{{0.3}}> {{ {body} }}"
    )
    assert {"GemmScaleFusionPass"} <= refused(parse(text, 21))
    plain = text.replace("Atan", "Exp")
    assert not refused(parse(plain, 21))


def test_a_normalization_on_its_own_is_arithmetic() -> None:
    text = """agraph (float[4,2] x) => (float y) <float[2] g = {0.3, 0.7}, float[2] v = {0.02,
        0.1}, float c = {0.7}>
        { a = Add (x, c) b = BatchNormalization (a, g, g, g, v) y = Round (b) }"""
    assert refused(parse(text, 21)) == {"BatchNormToScalePass"}


INTEGERS = np.random.default_rng(0).integers(-8, 8, (64, 16)).astype(np.float32)
TERNARY = np.random.default_rng(1).integers(-1, 2, (16, 8)).astype(np.float32)
SCALED = {
    "BatchNormalization": "a = BatchNormalization (p, g, b, m, v)",
    "Mul": "a = Mul (p, c)",
    "Div": "a = Div (p, d)",
}
GRIDS = {
    "Sign": "y = Sign (a)",
    "Greater": "y = Greater (a, t)",
    "Floor": "y = Floor (a)",
    "ArgMax": "y = ArgMax <axis = 1> (a)",
    "clipped": "k = Relu (a) y = Round (k)",
    "shifted": "k = Add (a, h) y = Floor (k)",
    "QuantizeLinear": "y = QuantizeLinear (a, q, z)",
}


def scaled_product(scale: str, grid: str, weights: np.ndarray = TERNARY) -> onnx.ModelProto:
    """Products of integers that are scaled before they meet a grid."""
    model = parse(
        f"""agraph (float[64,16] x) => (y) <float c = {{0.3}}, float d = {{10}}, float t = {{0}},
        float h = {{0.5}}, float q = {{0.2}}, uint8 z = {{128}}> {{
        p = MatMul (x, w) {scale} {grid} }}""",
        21,
    )
    scales = np.linspace(0.3, 2.7, 8, dtype=np.float32)
    zeros = np.zeros(8, np.float32)
    numbers = {"w": weights, "g": scales, "b": zeros, "m": zeros, "v": scales + 1}
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in numbers.items()]
    model.graph.initializer.extend(initializers)
    return model


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("scale", SCALED)
def test_a_scale_is_not_folded_into_products_before_a_grid(scale: str, grid: str) -> None:
    model = scaled_product(SCALED[scale], GRIDS[grid])
    result, _ = optimize(model, ON)
    operators = [node.op_type for node in result.graph.node]
    before, after = (session(m).run(None, {"x": INTEGERS})[0] for m in (model, result))
    np.testing.assert_array_equal(after, before)
    assert scale in operators


TRAINED = np.random.default_rng(2).standard_normal((16, 8)).astype(np.float32)


@pytest.mark.parametrize(
    ("scale", "grid", "is_folded"),
    [
        ("BatchNormalization", "QuantizeLinear", True),
        ("BatchNormalization", "Sign", False),
        ("BatchNormalization", "ArgMax", False),
        ("Mul", "QuantizeLinear", False),
        ("Div", "Floor", False),
    ],
)
def test_only_a_normalization_is_folded_into_trained_weights_before_a_quantization(
    scale: str, grid: str, is_folded: bool
) -> None:
    result, _ = optimize(scaled_product(SCALED[scale], GRIDS[grid], TRAINED), ON)
    operators = [node.op_type for node in result.graph.node]
    assert (scale not in operators) is is_folded


NEAR_ZERO = {
    "logarithm": "y = Log (a)",
    "fused activation": "e = MatMul (a, u) k = Relu (e) y = Sqrt (k)",
    "odd function": "k = Erf (a) y = Sign (k)",
    "tie": "k = Softsign (a) y = ArgMax <axis = 1> (k)",
    "steep": "k = Mul (a, l) y = Clip (k, r, o)",
    "one more normalization": "k = BatchNormalization (a, g, b, m, v) y = Reciprocal (k)",
}


@pytest.mark.parametrize("body", NEAR_ZERO)
@pytest.mark.parametrize("scale", SCALED)
def test_a_scale_is_not_folded_into_sums_that_may_be_zero(scale: str, body: str) -> None:
    """Weights that are integers may have sums that are exactly 0."""
    model = scaled_product(SCALED[scale], NEAR_ZERO[body])
    more = {"u": np.eye(8, dtype=np.float32), "l": np.float32(1e6), "o": np.float32(1)}
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in more.items()]
    model.graph.initializer.extend(initializers)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(-1), "r"))
    result, _ = optimize(model, ON)
    before, after = (session(m).run(None, {"x": INTEGERS})[0] for m in (model, result))
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)


def test_a_power_of_two_is_folded_into_products_before_a_grid() -> None:
    result, _ = optimize(
        scaled_product("e = Constant <value_float = 0.25> () a = Mul (p, e)", GRIDS["Floor"]), ON
    )
    assert [node.op_type for node in result.graph.node] == ["MatMul", "Floor"]


STRAIGHT_TO_ZERO = {
    "no epsilon": "m = ReduceMean <axes = [1]> (p) q = Sub (p, m) a = Mul (q, q)"
    " v = ReduceMean <axes = [1]> (a) s = Sqrt (v) y = Div (q, s)",
    "rest": "s = ReduceSum (p, axis) q = Sub (one, s) y = Sqrt (q)",
    "function": "q = Sub (p, one) s = Tanh (q) y = Reciprocal (s)",
    "length": "q = Sub (p, one) s = ReduceL2 <axes = [1]> (q) y = Div (q, s)",
    "step": "q = Sub (p, one) s = Mul (q, k) y = Clip (s, least, one)",
    "power": "q = Sub (p, one) s = Pow (q, four) y = Reciprocal (s)",
}


def quotients(body: str) -> onnx.ModelProto:
    return parse(
        f"""agraph (float[N,3] x) => (float y) <float c = {{41}}, float one = {{1}}, float k =
        {{1e10}}, float least = {{-1}}, float two = {{2}}, float four = {{4}}, int64[1] axis = {{1}},
        float e = {{1e-6}}>
        {{ p = Div (x, c) {body} }}""",
        17,
    )


@pytest.mark.parametrize("body", STRAIGHT_TO_ZERO)
def test_a_quotient_stays_before_differences_that_are_zero(body: str) -> None:
    model = quotients(STRAIGHT_TO_ZERO[body])
    result, _ = optimize(model, ON)
    assert "Div" in {node.op_type for node in result.graph.node if "c" in node.input}


@pytest.mark.parametrize(
    "body",
    [
        "m = ReduceMean <axes = [1]> (p) q = Sub (p, m) a = Mul (q, q)"
        " v = ReduceMean <axes = [1]> (a) f = Add (v, e) s = Sqrt (f) y = Div (q, s)",
        "s = ReduceL2 <axes = [1]> (p) f = Max (s, e) y = Div (p, f)",
        "q = Sub (p, one) s = Mul (q, two) y = Clip (s, least, one)",
    ],
)
def test_a_quotient_becomes_a_product_before_an_epsilon(body: str) -> None:
    result, _ = optimize(quotients(body), ON)
    assert not [n for n in result.graph.node if n.op_type == "Div" and "c" in n.input]
