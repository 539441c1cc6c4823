from __future__ import annotations

import math
from pathlib import Path

import pytest

from fusionc.report import Report
from fusionc.tune.configuration import Configuration, TunedChange
from fusionc.tune.confirmation import confirmation_of
from fusionc.tune.decisions import Worth
from fusionc.tune.tuned import Tuned


def test_what_is_saved_is_of_what_it_was_measured_beside() -> None:
    kernels = Worth(
        TunedChange("areas with kernels", "areas", kernels=True), "pays", tested=[math.log(0.5)] * 3
    )
    area = Worth(
        TunedChange("area a off", "areas", areas_off=frozenset({"a"})),
        "undecided",
        chosen=[math.log(1.2)] * 3,
    )
    last = confirmation_of(
        [{"original": [[0.020]], "default": [[0.010]], "tuned": [[0.005]]}] * 3, 0.95
    )
    found = Tuned(
        "",
        [kernels, area],
        last,
        Configuration(),
        Report(),
        Path(),
        None,
        Path(),
        [],
        ["again"],
        1.0,
        0.95,
        [],
    )
    assert found.added_seconds(kernels) == pytest.approx(-0.005) and found.added_seconds(
        area
    ) == pytest.approx(0.001)
    assert found.as_json()["again"] == ["again"] and found.as_json()["confidence"] == 0.95
    assert found.as_json()["changes"][1]["seconds"] == pytest.approx(0.001)
