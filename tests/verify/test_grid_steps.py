"""Few elements of a grid may be on the next step, with all that comes of it, and nothing else may
differ.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import parse
from numpy.typing import NDArray
from onnx import numpy_helper

from fusionc.runtime.runner import Runner, closes_runners
from fusionc.verify.grid_steps import GridSteps, _steps_of
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.judge import Judge
from fusionc.verify.model_file import ModelFile

ROWS = 40
COLUMNS = 64
HEAD = f"agraph (float[N,{COLUMNS}] x) => ({{}}[N,M] y)"
PRODUCT = """m = Mul (x, moved) q, s, z = DynamicQuantizeLinear (m) i = MatMulInteger (q, w, z) f = Cast <to = 1> (i)
    g = Mul (f, s) y = {}"""
GRIDS = {
    "an output": ("uint8", "m = Mul (x, moved) y = QuantizeLinear (m, step, middle)"),
    "behind DynamicQuantizeLinear": ("float", PRODUCT.format("Mul (g, up)")),
    "and another grid": ("float", PRODUCT.format("Floor (g)")),
    "behind Quantize": (
        "float",
        "m = Mul (x, moved) q = QuantizeLinear (m, step, middle) "
        "d = DequantizeLinear (q, step, middle) y = MatMul (d, v)",
    ),
    "behind Round": (
        "float",
        "m = Mul (x, moved) d = Div (m, step) r = Round (d) y = Mul (r, step)",
    ),
    "behind Cast": (
        "float",
        (
            "m = Mul (x, moved) d = Div (m, step) r = Cast <to = 6> (d) f = Cast <to = 1> (r) y "
            "= MatMul (f, v)"
        ),
    ),
}


def model(kind: str, moved: NDArray[np.float64], behind: float = 0.0) -> onnx.ModelProto:
    dtype, body = GRIDS[kind]
    if behind:
        body = body.replace("y = ", "before = ") + " y = Add (before, wrong)"
    made = parse(f"{HEAD.format(dtype)} {{ {body} }}")
    rng = np.random.default_rng(0)
    wrong = np.zeros((ROWS, COLUMNS))
    wrong[3:7] = behind
    values = {
        "moved": moved.astype(np.float32),
        "w": rng.integers(-127, 128, (COLUMNS, COLUMNS)).astype(np.int8),
        "v": rng.normal(size=(COLUMNS, COLUMNS)).astype(np.float32),
        "up": np.array(0.01, np.float32),
        "step": np.array(0.0371, np.float32),
        "middle": np.array(128, np.uint8),
        "wrong": wrong.astype(np.float32),
    }
    made.graph.initializer.extend(
        numpy_helper.from_array(v, n) for n, v in values.items() if f"{n}" in body
    )
    return made


@closes_runners
def judged(
    tmp_path: Path,
    reference: onnx.ModelProto,
    candidate: onnx.ModelProto,
    x: NDArray[np.float32] | None = None,
) -> tuple[str, str]:
    """What the judge makes of one sample, and what is said of it."""
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, proto in zip(paths, (reference, candidate), strict=True):
        onnx.save(proto, path)
    x = X if x is None else x
    ours, theirs = map(Runner, paths)
    judge = Judge(paths[0], ours, grids=GridSteps(paths[0], ModelFile(paths[1])))
    outcome, _ = judge.outcome(
        Sample(label="x", feeds={"x": x}, outputs=ours.run({"x": x})), theirs.run({"x": x})
    )
    return outcome, judge.tally.summary(())


def moved(*where: tuple[int | slice, int | slice], by: float = 0.0085) -> NDArray[np.float64]:
    """What makes numbers larger, by less than a step."""
    values = np.ones((ROWS, COLUMNS))
    for place in where:
        values[place] += by
    return values


X = np.random.default_rng(1).uniform(-4, 4, size=(ROWS, COLUMNS)).astype(np.float32)
X[0, :2] = 4.5, -4.5  # stay the largest
FEW = [
    (int(at) // COLUMNS, int(at) % COLUMNS)
    for at in np.flatnonzero((np.abs(X) > 3) & (np.abs(X) < 3.9))[:5]
]


@pytest.mark.parametrize("kind", GRIDS)
def test_a_few_steps_are_excused_and_said(kind: str, tmp_path: Path) -> None:
    outcome, summary = judged(tmp_path, model(kind, moved()), model(kind, moved(*FEW)))
    assert outcome == "same"
    assert "quantized or rounded elements, which are on the next step" in summary


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize(
    "wrong", [moved((slice(None), 7)), moved(*FEW, by=0.1)], ids=["many", "two steps"]
)
def test_more_steps_are_not(kind: str, wrong: NDArray[np.float64], tmp_path: Path) -> None:
    assert judged(tmp_path, model(kind, moved()), model(kind, wrong))[0] == "different"


@pytest.mark.parametrize("kind", [kind for kind, (dtype, _) in GRIDS.items() if dtype == "float"])
def test_nor_is_what_is_wrong_besides(kind: str, tmp_path: Path) -> None:
    assert (
        judged(tmp_path, model(kind, moved()), model(kind, moved(*FEW), behind=30))[0]
        == "different"
    )


def test_steps_count_from_the_zero_point() -> None:
    """All elements move with it."""
    q = np.array([3, 7, 250, 128], np.uint8)
    zero = np.array(128, np.uint8)
    scale = np.array(0.1, np.float32)
    same = _steps_of([q, scale, zero], [q + np.uint8(1), scale, zero + np.uint8(1)])
    assert same is not None and same.elements == 0
    one = _steps_of([q, scale, zero], [q + np.array([0, 1, 0, 0], np.uint8), scale, zero])
    assert one is not None and (one.elements, one.size, one.farthest) == (1, 4, 1.0)
    assert _steps_of([q, scale, zero], [q, scale * np.float32(1.01), zero]) is None
    assert _steps_of([q], [q + np.uint8(2)]) is None and _steps_of([q], [q[:2]]) is None
    rounded = np.array([1, np.nan, np.inf], np.float32)
    same = _steps_of([rounded], [rounded])
    assert same is not None and same.elements == 0
    assert _steps_of([rounded], [np.array([1, 0, np.inf], np.float32)]) is None


FUSED = "y = com.microsoft.DynamicQuantizeMatMul ({}, w, scale)"
WRITTEN_OUT = """q, s, z = DynamicQuantizeLinear ({}) i = MatMulInteger (q, w, z) f = Cast <to = 1> (i) g = Mul (f, s)
    y = Mul (g, scale)"""


def inside(factor: float, name: str = "m", product: str = FUSED) -> onnx.ModelProto:
    """Numbers that lie half way between two steps of a quantization inside of the operator, times a
    factor.
    """
    body = f"{name} = Mul (x, factor) {product.format(name)}"
    made = parse(f"agraph (float[N,{COLUMNS}] x) => (float[N,M] y) {{ {body} }}")
    weights = {
        "w": np.random.default_rng(0).integers(-127, 128, (COLUMNS, COLUMNS)).astype(np.int8),
        "scale": np.array([0.01], np.float32),
        "factor": np.where(np.arange(COLUMNS) < 2, 1, factor).astype(np.float32),
    }
    made.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in weights.items())
    return made


@pytest.mark.parametrize("product", [FUSED, WRITTEN_OUT], ids=["fused", "written out"])
@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        (inside(1 - 1e-6), "same"),
        (inside(0.99), "different"),
        (inside(1 - 1e-6, "other"), "different"),
    ],
    ids=["last places", "wrong", "another name"],
)
def test_an_operator_with_a_grid_inside_reads_the_same_numbers(
    candidate: onnx.ModelProto, expected: str, product: str, tmp_path: Path
) -> None:
    scale = np.float32(9 / 255)
    half_steps = (np.random.default_rng(1).integers(-90, 90, (ROWS, COLUMNS)) + 0.5) * scale
    half_steps[:, :2] = 4.5, -4.5
    outcome, summary = judged(
        tmp_path, inside(1 + 1e-6, product=product), candidate, half_steps.astype(np.float32)
    )
    assert outcome == expected, summary
    assert ("inside of quantized operators" in summary) == (expected == "same")
