"""Which type of floats an output is as precise as."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from harness import parse, with_function

from fusionc.verify.precision import least_precise
from fusionc.verify.verification import verify

HALF = "to = 10"
FLOAT = "to = 1"
DOUBLE = "to = 11"
BRAIN = "to = 16"
IN_HALF = f"h = Cast <{HALF}> (x) e = Exp (h)"


@pytest.mark.parametrize(
    ("kinds", "body", "precision"),
    [
        ("float float", "y = Exp (x)", ""),
        ("float16 float", f"e = Exp (x) y = Cast <{FLOAT}> (e)", "float16"),
        (
            "float16 float",
            f"e = Exp (x) i = Identity (e) c = Cast <{FLOAT}> (i) y = Relu (c)",
            "float16",
        ),
        ("float16 float", f"y = Cast <{FLOAT}> (x)", ""),
        ("float16 float", f"t = Transpose (x) c = Cast <{FLOAT}> (t) y = Exp (c)", "float32"),
        ("float float", f"{IN_HALF} y = Cast <{FLOAT}> (e)", "float16"),
        (
            "float float",
            f"h = Cast <{BRAIN}> (x) c = Cast <{FLOAT}> (h) y = Add (x, c)",
            "bfloat16",
        ),
        ("float double", f"e = Exp (x) y = Cast <{DOUBLE}> (e)", "float32"),
        ("double double", "y = Exp (x)", "float64"),
        ("float float", f"c = Cast <{FLOAT}> (w) y = Add (x, c)", "float32"),
        ("float float", f"k = Exp (w) c = Cast <{FLOAT}> (k) y = Add (x, c)", "float32"),
        (
            "float float",
            f"{IN_HALF} a = ArgMax <axis = 1> (e) c = Cast <{FLOAT}> (a) y = Add (x, c)",
            "float32",
        ),
        ("float float", f"{IN_HALF} g = Greater (e, h) y = Where (g, x, x)", ""),
        ("float float", f"{IN_HALF} u = own.Unknown (e) y = Cast <{FLOAT}> (u)", "float16"),
        (
            "float float",
            "d = ReduceMax <keepdims = 0> (w) b = Cast <to = 9> (d) "
            f"y = If (b) <then_branch = a () => (float[N,4] p) {{ {IN_HALF} p = Cast <{FLOAT}> "
            f"(e) }}, "
            "else_branch = b () => (float[N,4] q) { q = Exp (x) }>",
            "float16",
        ),
    ],
)
def test_what_is_computed_on_the_way_counts(kinds: str, body: str, precision: str) -> None:
    """What is constant, or an input, is exact, and so is an integer that comes of half
    precision.
    """
    read, made = kinds.split()
    model = parse(
        f"agraph ({read}[N,4] x) => ({made}[N,4] y) <float16[4] w = {{1, 2, 3, 4}}> {{ {body} }}"
    )
    assert least_precise(model).get("y", "") in (
        precision,
        "float32" if precision == "" else precision,
    )


def test_functions_are_looked_into() -> None:
    text = "agraph (float[N,4] x) => (float[N,4] y) { y = my.inner (x) }"
    model = with_function(text, "inner", f"{IN_HALF} y = Cast <{FLOAT}> (e)")
    assert least_precise(model) == {"y": "float16"}


CHAIN = "agraph (float16[N,600] x) => (float[N,600] y) {{ a = Exp (x) {} y = Cast <to = 1> ({}) }}"


def test_a_right_rewrite_in_half_precision_is_right(tmp_path: Path) -> None:
    """onnxruntime rounds to float16 between two nodes, or does not where nothing is between
    them.
    """
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx", tmp_path / "c.onnx"]
    texts = CHAIN.format("b = Identity (a) c = Identity (b)", "c"), CHAIN.format("", "a")
    wrong = "k = Constant <value_float = 1.02> () h = Cast <to = 10> (k) b = Mul (a, h)"
    for path, text in zip(paths, (*texts, CHAIN.format(wrong, "b")), strict=True):
        onnx.save(parse(text), path)
    assert verify(*paths[:2]).status == "equal"
    assert verify(paths[0], paths[2]).status == "different"
