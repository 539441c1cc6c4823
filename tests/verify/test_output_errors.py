"""The table of how far each output is off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from harness import parse

import fusionc
from fusionc.cli import main
from fusionc.verify import verify
from fusionc.verify.compare import Yardstick, compare
from fusionc.verify.output_errors import ErrorTable, OutputErrors


def row(*pairs: tuple[Any, Any]) -> OutputErrors:
    table = ErrorTable("disabled")
    for number, (ours, theirs) in enumerate(pairs):
        table.add(["y"], f"sample {number}", [ours], [theirs])
    (found,) = table.rows()
    return found


def test_the_largest_errors_of_all_samples_and_where() -> None:
    one = np.float32([[1, 2], [4, -8]])
    other = np.float32([[1, 2], [5, -8]])
    found = row((one, one), (one, other), (one, np.float32([[1.5, 2], [4, -8]])))
    assert (found.output, found.level, found.samples) == ("y", "disabled", 3)
    assert found.max_abs == 1 and found.worst == "sample 1: [1, 0]" and found.max_rel == 0.5
    assert found.cosine == pytest.approx(89 / np.sqrt(85 * 94))


def test_equal_bits_have_no_place() -> None:
    assert row((np.float32([1]), np.float32([1]))) == OutputErrors(
        "y", "disabled", 1, 0.0, 0.0, 1.0, ""
    )


def test_tiny_elements_have_no_relative_error() -> None:
    found = row((np.float32([1e-9, 100]), np.float32([1e-6, 101])))
    assert found.max_rel == pytest.approx(0.01) and found.max_abs == 1


@pytest.mark.parametrize(
    ("ours", "theirs", "max_abs", "worst"),
    [
        (np.array([1, 5]), np.array([1, 2]), 3, "sample 0: [1]"),
        (np.array([True, True]), np.array([True, False]), 1, "sample 0: [1]"),
        (np.array(["a", "b"], object), np.array(["a", "c"], object), 1, "sample 0: [1]"),
        (np.complex64([1j]), np.complex64([2j]), 1, "sample 0: [0, 1]"),
        (np.ones(2, ml_dtypes.bfloat16), np.array([1, 3], ml_dtypes.bfloat16), 2, "sample 0: [1]"),
        (np.float32([np.nan, np.inf, 1]), np.float32([np.nan, np.inf, 2]), 1, "sample 0: [2]"),
        (np.float32(1), np.float32(2), 1, "sample 0: []"),
        ([np.zeros(2), np.zeros(2)], [np.zeros(2), np.ones(2)], 1, "sample 0: element 1 [0]"),
        ({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 3.0}, 1, "sample 0: element 1 []"),
        (np.float32([3e38]), np.float32([-3e38]), 6e38, "sample 0: [0]"),
        (np.zeros(3), np.zeros(4), 0, ""),  # which is a difference without a number
        (None, None, 0, ""),
        (np.zeros((0, 3)), np.zeros((0, 3)), 0, ""),
    ],
    ids=str,
)
def test_values_of_every_kind(ours: Any, theirs: Any, max_abs: float, worst: str) -> None:
    found = row((ours, theirs))
    assert (
        found.max_abs == pytest.approx(max_abs) and found.worst == worst and -1 <= found.cosine <= 1
    )


SCALED = "agraph (float[N,3] x) => (float[N,3] y) <float by = {{{}}}> {{ y = Mul (x, by) }}"


@pytest.fixture(autouse=True)
def _two_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, factor in {"a": 1, "b": 1.00001, "c": 1.5}.items():
        onnx.save(parse(SCALED.format(factor)), f"{name}.onnx")


def test_a_verification_has_a_row_for_each_output_and_level() -> None:
    rows = verify(Path("a.onnx"), Path("b.onnx")).outputs
    assert [(r.output, r.level, r.samples) for r in rows] == [("y", "disabled", 3), ("y", "all", 3)]
    assert all(0.5e-5 < r.max_rel < 2e-5 for r in rows)
    (wrong,) = verify(Path("a.onnx"), Path("c.onnx")).outputs
    assert wrong.samples == 1 and wrong.max_rel == pytest.approx(0.5)


def test_it_is_shown_by_verify_and_convert() -> None:
    shown = CliRunner().invoke(main, ["verify", "a.onnx", "b.onnx"]).stdout.splitlines()
    assert shown[0] == "equal in 7 runs" and shown[2].startswith("output  optimizers  ")
    assert shown[3].startswith("y       off               3  ")
    assert shown[4].startswith("y       on                3  ")
    assert shown[5] == (
        "(equal runs on special inputs, such as zeros, large numbers and NaN, are not listed)"
    )
    assert "\ny       on  " in CliRunner().invoke(main, ["convert", "--model", "a.onnx"]).stdout
    assert fusionc.convert("a.onnx").outputs[0].max_abs == 0
    assert not fusionc.convert("a.onnx", verify=False).outputs


@pytest.mark.parametrize(
    ("numerics", "accepted", "refused"),
    [("bitwise", 0.5e-5, 3e-5), ("rounding", 5e-5, 3e-4), ("approximate", 5e-3, 0.0100001)],
)
def test_what_rewrites_claim_decides_how_near_results_are(
    numerics: Any, accepted: float, refused: float
) -> None:
    y = np.float32([1e-3, 1])
    assert compare(y, y + np.float32([accepted, 0]), Yardstick(numerics)) is None
    assert compare(y, y + np.float32([refused, 0]), Yardstick(numerics)) is not None
    assert compare(y, y * np.float32(1.01), Yardstick(numerics)) is not None


def test_types_without_room_keep_their_tolerance() -> None:
    y = np.float16([1, 1])
    assert compare(y, np.nextafter(y, np.float16(2)), Yardstick("bitwise")) is None
