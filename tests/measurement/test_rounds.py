"""Whether models are measured beside each other, or one after the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import parse
from onnx import numpy_helper

from fusionc.measurement import rounds
from fusionc.measurement.deployed_model import DeployedModel


@pytest.mark.parametrize("name", ["a.onnx", "a[1].onnx"])
@pytest.mark.parametrize("location", ["a.onnx_data", "weights.bin"])
def test_weights_count_whatever_their_file_is_called(
    tmp_path: Path, name: str, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = parse("agraph (float[N] x) => (float[N] y) { y = Add (x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(1 << 18, np.float32), "w"))
    onnx.save(model, tmp_path / name, save_as_external_data=True, location=location)
    one = DeployedModel(tmp_path / name)
    for room, models, fits in ((None, 2, True), (7, 2, True), (5, 2, False), (5, 1, True), (2, 1, False)):
        monkeypatch.setattr(rounds, "available", lambda room=room: None if room is None else room << 20)
        assert rounds._fit_into_memory({str(number): one for number in range(models)}) == fits
