"""What a branch quantizes and reduces is judged as if it were in the main graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import parse

from fusionc.runtime.runner import Runner
from fusionc.verify import verify
from fusionc.verify.taken_branches import take_branches

NESTED = """agraph (bool c, float[N] x) => (float[N] y) {{
    y = If (c) <then_branch = g () => (float[?] p) {{
        n = Not (c) p = If (n) <then_branch = k () => (float[?] q) {{ q = Neg (x) }},
                                else_branch = l () => (float[?] r) <float two = {{2}}> {{ r = Mul (x, two) }}>
    }}, else_branch = h () => (float[?] {}) {{ {} = Abs (x) }}> }}"""


@pytest.mark.parametrize(
    ("condition", "name", "ops"),
    [
        (True, "u", ["Not", "Mul", "Identity", "Identity"]),
        (False, "u", ["Abs", "Identity"]),
        (False, "y", ["If"]),  # the main graph has a value of that name
    ],
)
def test_the_branch_that_is_taken_replaces_its_if(
    condition: bool, name: str, ops: list[str]
) -> None:
    model = parse(NESTED.format(name, name))
    feeds = {"c": np.asarray(condition), "x": np.array([-1, 2], np.float32)}
    before = Runner(model.SerializeToString()).run(feeds) if name == "u" else None
    take_branches(model, Path(), feeds)
    assert [node.op_type for node in model.graph.node] == ops
    if before is not None:
        np.testing.assert_array_equal(Runner(model.SerializeToString()).run(feeds), before)


MEAN = """agraph (bool c, uint8[N,64,6,6] x) => (uint8[?,?,?,?] y)
    <float s = {{0.02}}, uint8 z = {{7}}, float t = {{0.01}}, uint8 w = {{9}}, int64[2] axes = {{2, 3}},
     float more = {{{}}}> {{
    y = If (c) <then_branch = g () => (uint8[?,?,?,?] p) {{ d = DequantizeLinear (x, s, z) {}
        p = QuantizeLinear (m, t, w) }}, else_branch = h () => (uint8[?,?,?,?] q) {{
        e = DequantizeLinear (x, s, z) l = ReduceMean (e, axes) q = QuantizeLinear (l, t, w) }}> }}"""
POOL = "m = GlobalAveragePool (d)"


@pytest.mark.parametrize(
    ("status", "more", "mean"),
    [
        ("equal", 0.0, POOL),  # sums in another order: 1 element in 18 is at a tie
        ("different", 0.002, "k = GlobalAveragePool (d) m = Add (k, more)"),
        ("different", 0.0, "k = GlobalMaxPool (d) l = GlobalAveragePool (d) m = Max (k, l)"),
        ("different", 1.001, "k = GlobalAveragePool (d) m = Mul (k, more)"),
    ],
)
def test_few_ties_of_a_branch_are_rounding(
    tmp_path: Path, status: str, more: float, mean: str
) -> None:
    for name, part in (("a", "m = ReduceMean (d, axes)"), ("b", mean)):
        onnx.save(parse(MEAN.format(more, part)), tmp_path / f"{name}.onnx")
    found = verify(tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert found.status == status, found.summary
