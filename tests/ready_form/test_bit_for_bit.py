"""What counts as another result: everything but the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from harness import parse

from fusionc.ready_form.bit_for_bit import bit_for_bit

TEXT = "g (float[N,8] x) => (float[N,8] y, int64[2] s) { y = Mul (x, x)  s = Shape (x) }"


def saved(text: str, path: Path) -> Path:
    onnx.save(parse(text), path)
    return path


@pytest.mark.parametrize(
    "other, is_same",
    [
        (TEXT, True),
        (TEXT.replace("Mul (x, x)", "Pow (x, two)").replace("{", "<float two = {2}> {"), True),
        (
            TEXT.replace("Mul (x, x)", "Add (t, e)").replace(
                "{", "<float e = {1e-6}> { t = Mul (x, x)"
            ),
            False,
        ),
        (TEXT.replace("s = Shape (x)", "n = Shape (x) s = Neg (n)"), False),
        (TEXT.replace("Mul (x, x)", "MatMul (x, x)"), False),
    ],
)
def test_only_the_same_bits_are_the_same(other: str, is_same: bool, tmp_path: Path) -> None:
    model = saved(TEXT, tmp_path / "a.onnx")
    ready = saved(other, tmp_path / "b.onnx")
    runs, different = bit_for_bit(model, ready, None, {"x": (3, 8)}, None)
    assert bool(different) != is_same and (runs > 4 or not is_same)


def test_the_given_inputs_count(tmp_path: Path) -> None:
    model = saved(TEXT, tmp_path / "a.onnx")
    clipped = TEXT.replace("Mul (x, x)", "Mul (c, c)").replace(
        "{", "<float most = {1000}> { c = Min (x, most)"
    )
    ready = saved(clipped, tmp_path / "b.onnx")
    values: dict[str, Any] = {"x": np.full((1, 8), 2000, np.float32)}
    np.savez(tmp_path / "given.npz", **values)
    _, different = bit_for_bit(model, ready, None, {}, tmp_path / "given.npz")
    assert "given.npz" in different


def test_what_is_not_the_same_twice_is_no_difference(tmp_path: Path) -> None:
    random = "g (float[N,8] x) => (float[N,8] y) {{ {} y = Add (r, x) }}"
    model = saved(random.format("r = RandomNormalLike (x)"), tmp_path / "a.onnx")
    other = saved(random.format("n = Neg (x) r = RandomNormalLike (n)"), tmp_path / "b.onnx")
    runs, different = bit_for_bit(model, other, None, {}, None)
    assert not different and runs == 0
