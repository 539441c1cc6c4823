"""What comes of the rounding of a function in the middle of a model."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import parse

from fusionc.verify import verify
from fusionc.verify.inner_rounding import InnerRounding

GELU = """agraph (float[N] x) => (float[N] y)
    <float one = {{1}}, float half = {{0.5}}, float five = {{-5.2}}, float root = {{1.4142135}}> {{
    t = Tanh (x) u = Add (t, five) d = Div (u, root) e = Erf (d) {}
    p = Add (f, one) q = Mul (u, p) y = Mul (q, half) }}"""


def saved(path: Path, body: str) -> Path:
    onnx.save(parse(GELU.format(body)), path)
    return path


def test_the_last_place_of_a_function_decides_what_cancels(tmp_path: Path) -> None:
    """1 + erf(-3.7) is a few units in the last place of 1: each draw gives it another one."""
    path = saved(tmp_path / "a.onnx", "f = Identity (e)")
    feeds = {"x": np.linspace(-1, 1, 50, dtype=np.float32)}
    values = {bytes(np.asarray(outputs[0])) for outputs in InnerRounding(path).draws(feeds)}
    assert len(values) > 2


FORMS = {
    "the next number": ("equal", "s = Mul (e, nearly)"),
    "many places": ("different", "s = Mul (e, about)"),
    "another number": ("different", "s = Mul (e, half)"),
}


@pytest.mark.parametrize(("status", "other"), FORMS.values(), ids=FORMS)
def test_the_next_number_is_no_difference(tmp_path: Path, status: str, other: str) -> None:
    """In one element of a hundred, as a kernel that is less than 1 unit in the last place off has
    it.
    """
    numbers = "nearly = Constant <value = float {0.9999999}> () about = Constant <value = float {0.9999}> ()"
    place = "k = Constant <value = float {0.99}> () g = Greater (t, k) f = Where (g, s, e)"
    found = verify(
        saved(tmp_path / "a.onnx", "f = Identity (e)"),
        saved(tmp_path / "b.onnx", f"{numbers} {other} {place}"),
    )
    assert found.status == status, found.summary


GATED = """agraph (float[N,8] x) => (float[N,8] y) <float one = {{1}}, float far = {{{}}}, float most = {{0.4}}> {{
    t = Tanh (x) u = Mul (t, most) z = Add (u, far) e = Exp (z) p = Add (e, one) {} y = Mul (s, x) }}"""


@pytest.mark.parametrize(
    ("status", "far", "other"),
    [
        ("impossible", -16.9, "s = Div (e, p)"),
        ("different", -16.9, "s = Identity (t)"),
        ("equal", -9.0, "s = Div (e, p)"),
        ("different", -9.0, "h = Add (e, e) s = Div (h, p)"),
    ],
)
def test_sigmoid_near_0_is_as_exact_as_beside_a_half(
    tmp_path: Path, status: str, far: float, other: str
) -> None:
    """onnxruntime's has one other value between 0 and 6e-8: an output that is multiplied by that
    decides nothing.
    """
    for name, body in (("a", "s = Sigmoid (z)"), ("b", other)):
        onnx.save(parse(GATED.format(far, body)), tmp_path / f"{name}.onnx")
    found = verify(tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert found.status == status, found.summary


INSIDE = {
    "an activation of a fused operator": """y = com.microsoft.FusedConv <activation = "Sigmoid"> (x, w)""",
    "a gate": "X, y, c = LSTM <hidden_size = 1> (x, r, r)",
    "a branch": """y = If (yes) <then_branch = t () => (float[A,B,C] p) { p = Erf (x) },
        else_branch = e () => (float[A,B,C] p) { p = Exp (x) }>""",
    "a body": """z = Loop (one, "") <body = b (int64 i, bool c) => (bool d, float[A,B,C] p) {
        d = Identity (c) p = Erf (x) }> y = Squeeze (z, zero)""",
}


@pytest.mark.parametrize("body", INSIDE.values(), ids=INSIDE)
def test_a_function_inside_of_an_operator_or_a_graph_is_moved(tmp_path: Path, body: str) -> None:
    model = parse(f"""agraph (float[N,1,1] x, bool yes) => (float[A,B,C] y) <int64 one = {{1}},
        int64[1] zero = {{0}}, float[1,1,1] w = {{1}}, float[1,4,1] r = {{1, 1, 1, 1}}> {{ {body} }}""")
    onnx.save(model, tmp_path / "a.onnx")
    x = np.linspace(-14, 1, 8, dtype=np.float32).reshape(8, 1, 1)
    feeds = {"x": x, "yes": np.array(True)}
    draws = list(InnerRounding(tmp_path / "a.onnx").draws(feeds))
    assert len({bytes(np.asarray(outputs[0])) for outputs in draws}) > 1


NORMALIZED = """agraph (float[N,8] x) => (float[N,8] y) <float part = {{0.1}}, float three = {{3}},
    float nearly = {{0.9995}}, float[8] one = {{1, 1, 1, 1, 1, 1, 1, 1}}> {{
    s = Mul (x, part) u = Add (s, three) h = Cast <to = 10> (u) t = Tanh (h) m = Cast <to = 10> (nearly) {}
    c = Cast <to = 1> (f) y = LayerNormalization (c, one) }}"""


@pytest.mark.parametrize(
    ("status", "other"),
    [
        ("impossible", "n = Mul (t, m) k = Greater (x, part) f = Where (k, n, t)"),
        ("different", "f = Identity (h)"),
    ],
)
def test_a_normalization_of_nearly_equal_numbers_amplifies_their_last_places(
    tmp_path: Path, status: str, other: str
) -> None:
    """A factor that they have in common would change nothing."""
    for name, body in (("a", "f = Identity (t)"), ("b", other)):
        onnx.save(parse(NORMALIZED.format(body), opset=18), tmp_path / f"{name}.onnx")
    found = verify(tmp_path / "a.onnx", tmp_path / "b.onnx", nonfinite=False)
    assert found.status == status, found.summary


WRITTEN_OUT = """agraph (float[N,8] x) => (float[N,8] y) <float one = {{1}}, float far = {{{}}}, float most = {{0.4}}> {{
    t = Tanh (x) u = Mul (t, most) z = Add (u, far) n = Neg (z) e = Exp (n) g = Exp (z)
    p = Add (e, one) q = Add (one, g) {} }}"""
WRITINGS = {
    "1 / (1 + exp)": ("y = Div (one, p)", "y = Sigmoid (z)"),
    "its inverse": ("y = Reciprocal (p)", "y = Sigmoid (z)"),
    "x / (1 + exp)": ("y = Div (z, p)", "s = Sigmoid (z) y = Mul (z, s)"),
    "exp / (1 + exp)": ("y = Div (g, q)", "y = Sigmoid (z)"),
    "a Constant": (
        "c = Constant <value_float = 1.0> () d = Add (c, e) y = Div (z, d)",
        "s = Sigmoid (z) y = Mul (z, s)",
    ),
}


@pytest.mark.parametrize(
    ("written", "far"), list(zip(WRITINGS, cycle([-30.0, -17.0]), strict=False))
)
def test_a_sigmoid_that_is_written_out_is_one(tmp_path: Path, written: str, far: float) -> None:
    """It keeps digits that onnxruntime's Sigmoid lacks: an output that is nothing else decides nothing."""
    for name, body in zip("ab", WRITINGS[written], strict=True):
        onnx.save(parse(WRITTEN_OUT.format(far, body)), tmp_path / f"{name}.onnx")
    found = verify(tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert found.status != "different", found.summary


@pytest.mark.parametrize(("written", "far"), list(zip(WRITINGS, cycle([-9.0, 0.0]), strict=False)))
def test_a_sigmoid_that_is_written_out_decides_where_it_has_digits(
    tmp_path: Path, written: str, far: float
) -> None:
    right, other = WRITINGS[written]
    wrong = other.replace("s = Sigmoid (z)", "s = Sigmoid (n)").replace(
        "y = Sigmoid (z)", "y = Sigmoid (n)"
    )
    for name, body in (("a", right), ("b", other), ("c", wrong)):
        onnx.save(parse(WRITTEN_OUT.format(far, body)), tmp_path / f"{name}.onnx")
    assert verify(tmp_path / "a.onnx", tmp_path / "b.onnx").status == "equal"
    assert verify(tmp_path / "a.onnx", tmp_path / "c.onnx").status == "different"


PRODUCTS = """agraph (float[2,400] x) => (float[2,400] y) <float twenty = {{20}}, int64[1] half = {{200}}, int64[1] zero = {{0}},
    int64[1] last = {{400}}, int64[1] one = {{1}}, float almost = {{1.001}}> {{
    t = Tanh (x) a = Add (t, twenty) k = Constant <value = float[400,1] {{{weights}}}> () {body}
    m = ReduceMax <keepdims = 0> (p) s = Sin (m) y = Mul (x, s) }}"""
HALVES = """a1 = Slice (a, zero, half, one) a2 = Slice (a, half, last, one) k1 = Slice (k, zero, half, zero)
    k2 = Slice (k, half, last, zero) p1 = MatMul (a1, k1) p2 = MatMul (a2, k2) {}"""


@pytest.mark.parametrize(
    ("status", "body"),
    [
        ("different", "q = MatMul (a, k) p = Mul (q, almost)"),
        ("equal", HALVES.format("p = Add (p1, p2)")),
        ("different", HALVES.format("p = Add (p1, p1)")),
    ],
)
def test_another_order_of_a_sum_of_products_gives_the_next_number(
    tmp_path: Path, status: str, body: str
) -> None:
    """Hundreds of terms that are each moved by a unit in the last place move their sum by less than
    one. A sine of it shows that unit.
    """
    rng = np.random.default_rng(0)
    weights = ", ".join(map(str, rng.uniform(0.5, 1.5, 400).astype(np.float32)))
    for name, text in (("a", "p = MatMul (a, k)"), ("b", body)):
        onnx.save(parse(PRODUCTS.format(weights=weights, body=text)), tmp_path / f"{name}.onnx")
    found = verify(tmp_path / "a.onnx", tmp_path / "b.onnx", nonfinite=False)
    assert found.status == status, found.summary
