"""Whether models are measured in turn, or one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from harness import parse
from onnx import numpy_helper

from fusionc.bench import rounds
from fusionc.bench.deployed_model import DeployedModel
from fusionc.bench.intervals import log_ratio


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
    """A slow model has fewer slices than a quick one. Both run on a simulated clock."""
    clock = [0.0]
    alive = set[str]()

    class SimulatedProcess:
        """Takes 1 ms or 1 s for each run of the model that it loads."""

        def begins(self) -> bool:
            return True

        def ask(self, request: str, arguments: tuple[Any, ...], _limit: float | None) -> Any:
            if request == "measure_load":
                self.name = Path(arguments[0]).stem
                alive.add(self.name)
                assert len(alive) == 1
                return 0.5, 10, 20
            (seconds,) = arguments
            times = [{"quick": 1e-3, "slow": 1.0}[self.name]] * (10 if self.name == "quick" else 1)
            clock[0] += max(seconds, sum(times))
            return times, 30

        def end(self) -> None:
            alive.discard(self.name)

    models = {}
    for name in ("quick", "slow"):
        onnx.save(
            parse("g (float[9] x) => (float[9] y) { y = Neg (x) }"), tmp_path / f"{name}.onnx"
        )
        models[name] = DeployedModel(tmp_path / f"{name}.onnx")
    monkeypatch.setattr(rounds, "available", lambda: 1)
    monkeypatch.setattr(rounds, "Process", SimulatedProcess)
    monkeypatch.setattr(rounds, "perf_counter", lambda: clock[0])
    feeds = {name: {"x": np.zeros(9, np.float32)} for name in models}
    measured = rounds.measure_round(models, feeds, 0.2, 0)
    assert len(measured["slow"].slices) == 3
    assert len(measured["quick"].slices) == 20
    assert measured["quick"].imported == 10
    assert measured["quick"].loaded == 20
    assert measured["quick"].peak == 30
    logarithm = log_ratio(measured["slow"].slices, measured["quick"].slices)
    assert logarithm == pytest.approx(np.log(1000))
