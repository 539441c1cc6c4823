"""Whether models are measured beside each other, or one after the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import parse
from onnx import numpy_helper

from fusionc.bench import rounds
from fusionc.bench.deployed_model import DeployedModel
from fusionc.bench.intervals import log_ratio

LOOP = """g (float[9] x) => (float[9] y) <int64 n = {TURNS}, bool c = {1}> {
    y = Loop (n, c, x) <body = b (int64 i, bool k, float[9] a) => (bool l, float[9] z) {
        l = Identity (k)  z = Add (a, a) }> }"""


@pytest.mark.parametrize("name", ["a.onnx", "a[1].onnx"])
@pytest.mark.parametrize("location", ["a.onnx_data", "weights.bin"])
def test_weights_count_whatever_their_file_is_called(
    tmp_path: Path, name: str, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = parse("agraph (float[N] x) => (float[N] y) { y = Add (x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(1 << 18, np.float32), "w"))
    onnx.save(model, tmp_path / name, save_as_external_data=True, location=location)
    one = DeployedModel(tmp_path / name)
    for room, models, fits in (
        (None, 2, True),
        (7, 2, True),
        (5, 2, False),
        (5, 1, True),
        (2, 1, False),
    ):
        monkeypatch.setattr(
            rounds, "available", lambda room=room: None if room is None else room << 20
        )
        assert rounds._fit_into_memory({str(number): one for number in range(models)}) == fits


def test_models_that_do_not_fit_together_have_their_turns_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is so slow that it has fewer slices than the other."""
    models = {}
    for name, turns in (("quick", 1), ("slow", 300_000)):
        onnx.save(parse(LOOP.replace("TURNS", str(turns))), tmp_path / f"{name}.onnx")
        models[name] = DeployedModel(tmp_path / f"{name}.onnx")
    monkeypatch.setattr(rounds, "available", lambda: 1)
    feeds = {name: {"x": np.zeros(9, np.float32)} for name in models}
    found = rounds.measure_round(models, feeds, 0.02, 0)
    assert len(found["slow"].slices) < len(found["quick"].slices)
    assert log_ratio(found["slow"].slices, found["quick"].slices) > 3
