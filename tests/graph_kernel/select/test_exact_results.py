"""Areas stay out of operators whose last bit decides a later result."""

from __future__ import annotations

import pytest
from fused import fuse
from harness import parse

from fusionc.graph_kernel.select.exact_results import decided_by_last_bit
from fusionc.shapes.inference import typed_model

HEAD = (
    "agraph (float[N,4] x, float[N,4] z) => (y)"
    " <float c = {0.7}, float one = {1}, float q = {0.1}, float e = {1e-6}, float f = {1e-3}>"
)

STAYS = {
    "rounded logarithm": ("a = Log (x) b = Div (a, c) y = Floor (b)", {"Log"}),
    "rounded": ("a = Sigmoid (x) b = Add (a, c) y = Round (b)", {"Sigmoid"}),
    "doubled": ("a = Tanh (x) b = Add (a, a) y = Floor (b)", {"Tanh"}),
    "compared": ("a = Exp (x) b = Greater (a, c) y = Where (b, x, z)", {"Exp"}),
    "complement": ("a = Sigmoid (x) b = Sub (one, a) y = Log (b)", {"Sigmoid"}),
    "complement of a square": (
        "a = Tanh (x) b = Mul (a, a) d = Sub (one, b) y = Log (d)",
        {"Tanh"},
    ),
    "a small epsilon": ("a = Sigmoid (x) b = Add (a, e) y = Log (b)", {"Sigmoid"}),
    "vanishing": ("a = Sigmoid (x) b = Add (a, a) y = Log (b)", {"Sigmoid"}),
}
FIRES = {
    "no decision": "a = Sigmoid (x) b = Add (a, z) y = Relu (b)",
    "quantized": "a = Sigmoid (x) b = Mul (a, x) y = QuantizeLinear (b, q)",
    "an epsilon": "a = Sigmoid (x) b = Add (a, f) y = Log (b)",
    "Softmax, written out": "a = Exp (x) b = ReduceSum (a) y = Div (a, b)",
    "a root": "a = Tanh (x) b = Sub (a, z) d = Abs (b) y = Sqrt (d)",
    "a sum far from the grid": "a = Tanh (x) b = Add (a, z) y = Round (b)",
}


@pytest.mark.parametrize("name", STAYS)
def test_an_area_stays_out(name: str) -> None:
    body, operators = STAYS[name]
    model = parse(f"{HEAD} {{ {body} }}", 21)
    graph = typed_model(model, "", "onnx").main
    assert {node.op for node in decided_by_last_bit(graph)} == operators
    result, fused = fuse(model)
    inside = {node.op_type for function in result.functions for node in function.node}
    assert not operators & inside
    reasons = {n.reason for outside in fused.outside for n in outside()}
    (operator,) = operators
    assert f"{operator}: the last bit of its result decides a later result" in reasons


@pytest.mark.parametrize("name", FIRES)
def test_an_area_is_made(name: str) -> None:
    model = parse(f"{HEAD} {{ {FIRES[name]} }}", 21)
    assert not decided_by_last_bit(typed_model(model, "", "onnx").main)
