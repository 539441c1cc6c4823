"""Inputs that are axes, sizes or scales get values with which the model runs, and not only trivial
ones.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import parse

from fusionc.verify import verify
from fusionc.verify.inputs.random_inputs import Style, make_feeds
from fusionc.verify.inputs.value_ranges import value_ranges
from fusionc.verify.interface import required_inputs

X = "float[2,3,4] x"
IMAGE = "float[1,2,6,8] x"
# The model, and what the values of its second input must be.
CASES = {
    "axes of Unsqueeze": (f"({X}, int64[2] a) => (float[A,B,C,D,E] y) {{ y = Unsqueeze (x, a) }}", [0, 1]),
    "axes of Squeeze": ("(float[1,3,1] x, int64[2] a) => (float[A] y) { y = Squeeze (x, a) }", [0, 2]),
    "axes of Slice": (
        (f"({X}, int64[2] a, int64[2] s, int64[2] e) => (float[A,B,C] y) {{ y = Slice (x, s, "
            f"e, a) }}"),
        [0, 1],
    ),
    "axes of ReduceSum": (f"({X}, int64[2] a) => (float[A,B,C] y) {{ y = ReduceSum (x, a) }}", [0, 1]),
    "axes of Pad": (
        (f"({X}, int64[2] a, int64[4] p) => (float[A,B,C] y) <float v = {{0}}> {{ y = Pad (x, "
            f"p, v, a) }}"),
        [0, 1],
    ),
    "parts": (
        "(float[2,7] x, int64[3] n) => (float[2,A] y, float[2,B] z, float[2,C] w) "
        "{ y, z, w = Split <axis = 1> (x, n) }",
        [3, 2, 2],
    ),
    "a part of nothing": ("(float[0] x, int64[2] n) => (float[A] y, float[B] z) { y, z = Split (x, n) }", [0, 0]),
    "parts of a sequence": (
        f"({X}, int64[2] n) => (float[A,B,C] y) <int64 k = {{0}}> "
        "{ s = SplitToSequence <axis = 1> (x, n) y = SequenceAt (s, k) }",
        [2, 1],
    ),
    "scales": (
        f"({IMAGE}, float[4] k) => (float[A,B,C,D] y) <float[0] r> "
        '{ y = Resize <mode = "cubic"> (x, r, k) }',
        [1, 1, None, None],
    ),
    "sizes": (
        f"({IMAGE}, int64[4] n) => (float[A,B,C,D] y) <float[0] r, float[0] k> "
        '{ y = Resize <mode = "linear"> (x, r, k, n) }',
        [1, 2, None, None],
    ),
    "the size of a grid": (
        "(float[2,2,3] x, int64[4] n) => (float[A,B,C,D] y) { y = AffineGrid (x, n) }",
        [2, 2, 3, 4],
    ),
    "blocks": (
        "(float[1,20,6] x, int64[2] i, int64[2] k) => (float[A,B,C,D] y) "
        "{ y = Col2Im <strides = [2,1], pads = [0,1,0,1]> (x, i, k) }",
        None,
    ),
    "what was pooled": (
        "(float[1,1,2,2] x, int64[4] n) => (float[A,B,C,D] y) <int64[1,1,2,2] i = {5,7,13,15}> "
        "{ y = MaxUnpool <kernel_shape = [2,2], strides = [2,2]> (x, i, n) }",
        None,
    ),
    "a shape that is read in parts": (
        "(float[2,2,3] x, int64[4] n) => (float[A,B,C] y) <int64[1] z = {0}, int64[1] one = {1}, "
        "int64[2] r = {2,3}> "
        "{ b = Slice (n, z, one) c = ConstantOfShape (n) s = Concat <axis = 0> (b, r) y = Expand "
        "(x, s) }",
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_model_runs(name: str, tmp_path: Path) -> None:
    text, wanted = CASES[name]
    model = parse(f"agraph {text}", 20)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    found = verify(path, path)
    assert found.status == "equal", found.summary
    assert found.runs >= 4
    if wanted is not None:
        ports = required_inputs(model)
        values = make_feeds(ports, value_ranges(model, ports), {}, Style(), 0)[ports[1].name]
        assert all(
            value == want for value, want in zip(values, wanted, strict=True) if want is not None
        )


def test_scales_are_not_all_one() -> None:
    model = parse(f"agraph {CASES['scales'][0]}", 20)
    ports = required_inputs(model)
    drawn = [
        make_feeds(ports, value_ranges(model, ports), {}, Style(), seed)["k"] for seed in range(8)
    ]
    assert len(np.unique(drawn)) >= 3
