"""Inputs at ties: half steps of each Quantize and Round, computed back to the inputs, and all
numbers of 8 bits.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator

from fusionc.verify import Verification, verify
from fusionc.verify.inputs.random_inputs import Style, make_feeds
from fusionc.verify.inputs.value_ranges import value_ranges
from fusionc.verify.interface import required_inputs

HEAD = '<ir_version: 10, opset_import: ["": 21]>'
CONSTANTS = """float s = {0.3}, float r = {3.3333333}, uint8 z = {128}, float low = {-20}, float high = {20},
    float m = {0.7}, float b = {1.25},
    float[8] each = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}"""


def model(body: str, types: str = "(float[N,8] x) => (float y)") -> onnx.ModelProto:
    return parse_model(f"{HEAD} g {types} <{CONSTANTS}> {{ {body} }}")


def judged(
    right: str, wrong: str, tmp_path: Path, types: str = "(float[N,8] x) => (float y)"
) -> Verification:
    for name, body in (("a", right), ("b", wrong)):
        onnx.save(model(body, types), tmp_path / f"{name}.onnx")
    return verify(tmp_path / "a.onnx", tmp_path / "b.onnx")


def drawn(made: onnx.ModelProto, floats: str = "ties") -> np.ndarray:
    ports = required_inputs(made)
    return make_feeds(ports, value_ranges(made, ports), {"N": 100}, Style(floats=floats), 0)["x"]  # type: ignore


WAYS = {
    "Round": "g = Identity (x) y = Round (g)",
    "Quantize": "g = Div (x, s) q = QuantizeLinear (x, s, z) y = Cast <to = 1> (q)",
    "scaled": "a = Mul (x, m) c = Add (a, b) g = Div (c, s) y = Round (g)",
    "turned": "a = Sub (b, x) t = Transpose (a) g = Div (t, s) c = Clip (g, low, high) y = Round (c)",
    "each": "a = Mul (x, each) g = Div (a, s) y = Round (g)",
    "each step": "g = Div (x, each) q = QuantizeLinear <axis = -1> (x, each) y = Cast <to = 1> (q)",
}


@pytest.mark.parametrize("way", WAYS)
def test_most_numbers_lie_at_half_steps(way: str) -> None:
    made = model(WAYS[way])
    x = drawn(made)
    made.graph.output[0].name = "g"
    (steps,) = ReferenceEvaluator(made).run(None, {"x": x})
    apart = np.abs(steps - np.floor(steps) - 0.5)
    inside = np.abs(steps * 0.3) < 19.9 if way == "turned" else np.full(steps.shape, True)
    assert (
        (apart[inside] < 1e-4).all()
        and 0.1 < (apart[inside] == 0).mean() < 1
        and len(np.unique(x)) > 50
    )


def test_limits_of_floors_and_comparisons() -> None:
    x = drawn(
        model(
            "a = Div (x, s) f = Floor (a) c = Greater (x, b) d = Cast <to = 1> (c) y = Add (f, d)"
        )
    )
    whole = np.abs(x / 0.3 - np.rint(x / 0.3)) < 1e-4
    equal = np.abs(x - 1.25) < 1e-6
    assert (whole | equal).all() and whole.mean() > 0.3 and equal.mean() > 0.3


def test_where_no_grid_is_near_nothing_is_drawn_for_it() -> None:
    made = model("a = Exp (x) y = Round (a)")
    assert (drawn(made) == drawn(made, "normal")).all()
    assert not value_ranges(made, required_inputs(made))["x"].grids


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_images_have_all_numbers_of_8_bits(kind: str) -> None:
    made = model("y = Cast <to = 1> (x)", f"({kind}[N,8] x) => (float y)")
    assert len(np.unique(drawn(made))) == 256


PAIRS = [
    ("a = Div (x, s) y = Round (a)", "a = Mul (x, r) y = Round (a)"),
    ("a = Div (x, s) f = Floor (a) y = Mul (f, m)", "a = Mul (x, r) f = Floor (a) y = Mul (f, m)"),
    (
        "c = Clip (x, low, high) a = Div (c, s) y = Round (a)",
        "c = Clip (x, low, high) a = Mul (c, r) y = Round (a)",
    ),
]


@pytest.mark.parametrize(("right", "wrong"), PAIRS)
def test_a_reciprocal_in_front_of_a_grid_is_a_difference(
    right: str, wrong: str, tmp_path: Path
) -> None:
    assert judged(right, right, tmp_path).status == "equal"
    found = judged(right, wrong, tmp_path)
    assert found.status == "different" and found.differences[0].run.startswith("at ties"), found


def test_what_is_further_away_is_not_asked_to_be_exact(tmp_path: Path) -> None:
    """Behind Exp the grid is met by chance: that rounding is another one there decides single
    elements.
    """
    right = "e = Exp (x) a = Div (e, s) y = Round (a)"
    assert judged(right, right.replace("Div (e, s)", "Mul (e, r)"), tmp_path).status == "equal"


@pytest.mark.parametrize(
    ("body", "number"),
    [
        ("d = Mul (x, c) e = Div (x, c) f = Sub (c, e) y = Round (f)", np.inf),
        ("a = Add (x, c) b = Sub (a, c) y = Floor (b)", np.inf),
        ("d = Mul (x, zero) e = Mul (d, c) y = Round (e)", np.inf),
        ("e = Div (x, c) y = Floor (e)", 1e-310),
        ("y = Greater (x, c)", np.finfo(np.float64).max),
    ],
)
@pytest.mark.filterwarnings("error")
def test_numbers_beyond_all_bounds_warn_nobody(body: str, number: float) -> None:
    made = parse_model(f"{HEAD} g (double[N,8] x) => (double y) <double zero = {{0}}> {{ {body} }}")
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.array(number), "c"))
    assert len(drawn(made))
