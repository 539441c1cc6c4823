"""Quantized models are judged from one quantization to the next: a step that the last bit decides is
legal, whatever follows makes of it, and what is wrong in between is found.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from harness import parse
from numpy.typing import NDArray
from onnx import numpy_helper

from fusionc.runtime.runner import Runner, closes_runners
from fusionc.verify import Verification, verify
from fusionc.verify.compare import Mismatch
from fusionc.verify.excuses import Excused
from fusionc.verify.grid_steps import GridSteps, Stepped
from fusionc.verify.inputs.sample import Sample
from fusionc.verify.judge import Judge
from fusionc.verify.model_file import ModelFile
from fusionc.verify.sample_runs import SampleRuns

ROWS = 64
WIDTH = 32
# Two quantizations; after the second, a step decides between large numbers. Inputs go through a
# product, so that no quantization reads them directly.
MODEL = f"""agraph (float[{ROWS},{WIDTH}] x) => (float[{ROWS},{WIDTH}] y) {{{{
    c = MatMul (x, unit) {{scaling}} {{first}} v = DequantizeLinear (w, step_w, zero_w) p = MatMul (d, v) {{bias}}
    r = Relu (b) {{second}} l = Mul (e, large) s = Softmax (l) y = Add (s, e) }}}}"""
RIGHT = {
    "scaling": "m = Mul (c, both)",
    "first": "q = QuantizeLinear (m, step, zero) d = DequantizeLinear (q, step, zero)",
    "bias": "b = Add (p, shift)",
    "second": "t = QuantizeLinear (r, step2, zero2) e = DequantizeLinear (t, step2, zero2)",
}
OTHER_ORDER = {"scaling": "n = Mul (c, one) m = Mul (n, other)"}
SIGNED = {
    "first": "q8 = QuantizeLinear (m, step, zero8) d = DequantizeLinear (q8, step, zero8)",
    "second": "t8 = QuantizeLinear (r, step2, low8) e = DequantizeLinear (t8, step2, low8)",
}
ONE = np.float32(0.7)
OTHER = np.float32(1.1)
STEP = np.float32(4 / 127)
CONSTANTS: dict[str, NDArray[np.generic]] = {
    "unit": np.eye(WIDTH, dtype=np.float32),
    "one": ONE,
    "other": OTHER,
    "both": ONE * OTHER,
    "step": STEP,
    "wider": np.float32(1.02) * STEP,
    "zero": np.uint8(128),
    "next": np.uint8(129),
    "zero8": np.int8(0),
    "w": np.random.default_rng(0).integers(-127, 128, (WIDTH, WIDTH)).astype(np.int8),
    "step_w": np.float32(0.01),
    "zero_w": np.int8(0),
    "shift": np.linspace(-1, 1, WIDTH).astype(np.float32),
    "step2": np.float32(0.13),
    "zero2": np.uint8(0),
    "one2": np.uint8(1),
    "low8": np.int8(-128),
    "large": np.float32(300),
}


def model(**parts: str) -> onnx.ModelProto:
    made = parse(MODEL.format(**RIGHT | parts))
    read = {name for node in made.graph.node for name in node.input}
    kept = {name: np.asarray(value) for name, value in CONSTANTS.items() if name in read}
    made.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in kept.items())
    return made


def inputs() -> NDArray[np.float32]:
    """Random numbers; of six, the order of two products decides to which step they go."""
    x = np.random.default_rng(1).uniform(-4, 4, (ROWS, WIDTH)).astype(np.float32)
    both = ONE * OTHER
    ties = ((np.arange(-100, 100) + 0.5) * STEP / both).astype(np.float32)
    near = np.concatenate([ties * (1 + k * np.finfo(np.float32).eps) for k in (-1, 0, 1)])
    near = near.astype(np.float32)
    moved = near[np.rint(near * both / STEP) != np.rint(near * ONE * OTHER / STEP)]
    assert moved.size >= 2
    x[3, 5] = moved[0]
    x[40, 7] = moved[-1]
    return x


def verified(tmp_path: Path, levels: tuple[str, ...] = ("all",), **parts: str) -> Verification:
    onnx.save(model(), tmp_path / "a.onnx")
    onnx.save(model(**parts), tmp_path / "b.onnx")
    np.savez(tmp_path / "x.npz", x=inputs())
    return verify(
        tmp_path / "a.onnx", tmp_path / "b.onnx", inputs=tmp_path / "x.npz", levels=levels
    )


@pytest.mark.parametrize("parts", [OTHER_ORDER, OTHER_ORDER | SIGNED], ids=["uint8", "int8"])
def test_a_step_that_is_amplified_is_legal(tmp_path: Path, parts: dict[str, str]) -> None:
    found = verified(tmp_path, **parts)
    assert found.status == "equal", found.summary
    assert "quantized or rounded elements, which are on the next step" in found.summary
    assert "at level all, in " in found.summary and "left out" not in found.summary, found.summary


PLANTED = {
    "a scale off by 2 %": {"first": RIGHT["first"].replace("(m, step", "(m, wider")},
    "both scales off by 2 %": {"first": RIGHT["first"].replace("step", "wider")},
    "a zero point off by one": {
        "first": RIGHT["first"].replace("(q, step, zero)", "(q, step, next)")
    },
    "the other zero point off by one": {
        "second": RIGHT["second"].replace("(r, step2, zero2)", "(r, step2, one2)")
    },
    "a lost bias": {"bias": "b = Identity (p)"},
    "half of a bias": {"bias": "h = Mul (shift, one) b = Add (p, h)"},
    "a lost Relu": {
        "bias": "b = Add (p, shift)",
        "second": RIGHT["second"].replace("(r, step2, zero2)", "(b, step2, one2)"),
    },
}


@pytest.mark.parametrize("shifted", [{}, SIGNED], ids=["uint8", "int8"])
@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_what_is_wrong_is_found(
    tmp_path: Path, planted: dict[str, str], shifted: dict[str, str]
) -> None:
    found = verified(tmp_path, **OTHER_ORDER | shifted | planted)
    assert found.status == "different", found.summary


def test_integers_with_another_zero_point_are_compared_as_the_references(tmp_path: Path) -> None:
    for name, parts in (("a", {}), ("b", OTHER_ORDER | SIGNED)):
        onnx.save(model(**parts), tmp_path / f"{name}.onnx")
    candidate = Runner(tmp_path / "b.onnx")
    feeds = {"x": inputs()}
    outputs = candidate.run(feeds)
    candidate.close()
    stepped = GridSteps(tmp_path / "a.onnx", ModelFile(tmp_path / "b.onnx")).stepped(feeds, outputs)
    assert stepped is not None
    assert (stepped.steps["q"].elements, stepped.steps["t"].elements) == (2, 0)


@pytest.mark.parametrize("is_step", [True, False])
def test_a_step_behind_a_quantization_that_an_input_meets_is_legal_at_its_ties(
    is_step: bool,
) -> None:
    """Only what is between the input and its quantization must not round differently."""
    style = SimpleNamespace(floats="ties")
    sample = SimpleNamespace(style=style, edge=False, label="at ties", feeds={})
    runs = object.__new__(SampleRuns)
    runs.judge = SimpleNamespace(
        names=["y"],
        mismatches=lambda *_: {"y": Mismatch("another number")},
        are_steps=lambda *_: is_step,
    )
    runs.search = SimpleNamespace(ties=[sample])
    runs.is_strict = runs._is_alike = True
    runs._undecided = set()
    pairs = [([np.zeros(100, np.float32)], [np.ones(100, np.float32)])]
    assert bool(runs._differences_on_ties(pairs)) != is_step


@closes_runners
@pytest.mark.parametrize(
    ("own", "is_legal"), [(0, True), (30, False), (None, False)], ids=["few", "many", "farther"]
)
def test_there_may_be_as_many_steps_as_the_reference_takes_at_the_level(
    own: int | None, is_legal: bool, tmp_path: Path
) -> None:
    """onnxruntime's softmax of integers takes one step more in a hundredth of all elements."""
    onnx.save(model(), tmp_path / "a.onnx")
    runner = Runner(tmp_path / "a.onnx")
    feeds = {"x": inputs()}
    sample = Sample(label="x", feeds=feeds, outputs=runner.run(feeds))
    other = [sample.outputs[0] + np.float32(1)]

    def stepped(number: int | None) -> Stepped | None:
        return None if number is None else Stepped(other, {"q": Excused(number, 1000, number, 1.0)})

    same_level = SimpleNamespace(stepped=lambda *_: stepped(own))
    grids = SimpleNamespace(stepped=lambda *_: stepped(20), at_one_level=lambda: same_level)
    judge = Judge(tmp_path / "a.onnx", runner, grids=grids)
    for _ in range(3):
        assert judge.outcome(sample, other)[0] == ("same" if is_legal else "different")
    if is_legal:
        assert "60 of 3,000 quantized or rounded elements" in judge.tally.summary(())


def test_the_reference_may_run_at_the_level_of_the_candidate(tmp_path: Path) -> None:
    grids = GridSteps(tmp_path / "a.onnx", ModelFile(tmp_path / "b.onnx"))
    assert grids.at_one_level() is None
    one = grids.at("all").at_one_level()
    assert one is not None and one.own_level == "all" and one.at_one_level() is None
