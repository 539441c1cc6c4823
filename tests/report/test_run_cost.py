"""What a run costs, counted by hand."""

from __future__ import annotations

import pytest
from harness import parse

from fusionc.report.run_cost import run_cost
from fusionc.report.table import cost_text
from fusionc.shapes.inference import typed_model

WEIGHTS = "<float[4,5] w, float[5,5] v>"


@pytest.mark.parametrize(
    ("text", "macs", "weights", "values"),
    [
        # x and a, then a and b, then b and y; b is a view of a
        (
            f"g (float[2,4] x) => (float[2,5] y) {WEIGHTS} {{ a = MatMul (x, w) b = Identity (a) "
            "y = MatMul (b, v) }",
            2 * 5 * 4 + 2 * 5 * 5,
            4 * (4 * 5 + 5 * 5),
            4 * 2 * (5 + 5),
        ),
        # x lives until the last node
        ("g (float[8] x) => (float[8] y) { a = Exp (x) y = Add (a, x) }", 0, 0, 4 * 3 * 8),
        (
            "g (float[1,4,8,8] x) => (float[1,4,8,8] y) <float[4,4,1,1] w> { y = Conv (x, w) }",
            4 * 8 * 8 * 4,
            4 * 16,
            4 * 2 * 256,
        ),
        ("g (float[2] x) => (float[2] x2, float[2] y) { x2 = Exp (x) y = Exp (x2) }", 0, 0, 16),
    ],
)
def test_cost(text: str, macs: int, weights: int, values: int) -> None:
    cost = run_cost(typed_model(parse(text), ""))
    assert (cost.macs, cost.weight_bytes, cost.value_bytes, cost.unknown) == (
        macs,
        weights,
        values,
        0,
    )


def test_what_a_branch_reads_lives_until_the_branch_has_run() -> None:
    text = """g (bool c, float[8] x) => (float[8] y) {
        a = Exp (x)
        b = Exp (x)
        d = Exp (b)
        y = If (c) <then_branch = t () => (float[8] p) { p = Add (a, d) },
                    else_branch = e () => (float[8] q) { q = Identity (d) }>
    }"""
    cost = run_cost(typed_model(parse(text), ""))
    assert cost.value_bytes >= 1 + 4 * 3 * 8  # a, d and y at the same time, and c


def test_open_sizes_are_told() -> None:
    text = f"g (float[N,4] x) => (float[N,5] y) {WEIGHTS} {{ y = MatMul (x, w) }}"
    cost = run_cost(typed_model(parse(text), ""))
    assert cost_text(cost) == (
        "20 MACs, 180 B of weights, 36 B for values (with 1 for each open size)"
    )
    unknown = "g (float[N] x) => (float y) <float[4,5] w> { z = NonZero (x) y = MatMul (z, w) }"
    assert cost_text(run_cost(typed_model(parse(unknown), ""))).startswith("at least 0 MACs")
    sized = run_cost(typed_model(parse(text.replace("N", "1000000")), ""))
    assert cost_text(sized) == "20.0 million MACs, 180 B of weights, 34.3 MiB for values"
