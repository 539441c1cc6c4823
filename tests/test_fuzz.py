"""A few of the models that benchmarks/fuzz.py glues together; run that for thousands."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import fuzz

from fusionc.errors import FusioncError

RUNS, CHUNK = 96, 12
cached_snippets = cache(fuzz.snippets)


@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_glued_models_keep_their_numbers(first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path / "log"))  # which fuzz sets, too
    rewrites = 0
    for number in range(first, first + CHUNK):
        plan = fuzz.Plan(0, number, cached_snippets())
        try:
            _ = plan.raised
        except FusioncError:
            plan.target_opset = None
        assert plan.examine() is None, f"python benchmarks/fuzz.py --seed 0 --only {number}"
        rewrites += sum(plan.counts.values())
    assert rewrites > CHUNK


def test_the_same_number_is_the_same_model() -> None:
    stock = cached_snippets()
    for number in range(3):
        assert fuzz.Plan(7, number, stock).model == fuzz.Plan(7, number, stock).model


def test_a_wrong_rewrite_is_found_named_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzzer is no use if it finds nothing: let one pass be wrong."""
    guilty = next(p for p in fuzz.PASSES if p.name == "ConvBatchnormFusionPass")
    right = type(guilty).rewrite

    def wrong(self: object, m: object, new: object) -> object:
        result = right(self, m, new)
        return new.Mul(result, new.const(fuzz.np.float32(1.01)))  # type: ignore[attr-defined]

    monkeypatch.setattr(type(guilty), "rewrite", wrong)
    stock = {guilty.name: cached_snippets()[guilty.name]}
    for number in range(20):
        plan = fuzz.Plan(0, number, stock)
        if guilty in plan.passes and plan.target_opset is None and not plan.through_files:
            if plan.examine() is None:
                continue
            assert plan.guilty().startswith(guilty.name)
            assert len(plan.smaller().graph.node) <= 3
            return
    raise AssertionError("not found in 20 runs")
