"""The reference runs beside its caller, in the same process of onnxruntime: nobody waits for it or
is hurt by it.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from dangerous import ENDLESS, PLAIN, SPLIT, saved

from fusionc.runtime.process import step_limit
from fusionc.runtime.run_errors import Overdue
from fusionc.runtime.runner import Runner
from fusionc.verify import verification, verify
from fusionc.verify.reference_ahead import reference_ahead

FEEDS = {"x": np.array([1, 2], np.int64)}


def test_it_is_what_verification_would_have_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = saved(PLAIN, tmp_path / "model.onnx")
    plain = verify(model, model)
    with reference_ahead(model, None, None) as ahead:
        monkeypatch.setattr(verification, "Reference", None)  # it is not opened once more
        assert verify(model, model, ahead=ahead) == plain
        assert verify(model, model, ahead=ahead) == plain  # what it has computed is kept


def test_another_model_is_another_reference(tmp_path: Path) -> None:
    model = saved(PLAIN, tmp_path / "model.onnx")
    other = saved(PLAIN, tmp_path / "other.onnx")
    with reference_ahead(model, None, None) as ahead:
        assert ahead.take(other) is None
        assert ahead.take(model) is not None


def test_samples_that_are_not_kept_are_taken_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fusionc.verify.reference.MOST_KEPT", 0)
    model = saved(PLAIN, tmp_path / "model.onnx")
    with reference_ahead(model, None, None) as ahead:
        found = verify(model, model, ahead=ahead)
        assert ahead.take(model) is None
        assert verify(model, model, ahead=ahead) == found == verify(model, model)


def test_who_leaves_does_not_wait_for_it(tmp_path: Path) -> None:
    begin = time.monotonic()
    with reference_ahead(saved(ENDLESS, tmp_path / "model.onnx"), None, None):
        time.sleep(1)  # it runs now
    assert time.monotonic() - begin < 20
    assert Runner(saved(PLAIN, tmp_path / "model.onnx")).run(FEEDS)


@pytest.mark.parametrize("text, is_kept", [(SPLIT, False), (ENDLESS, True)])
def test_who_asks_meanwhile_gets_an_answer(text: str, is_kept: bool, tmp_path: Path) -> None:
    """Although the process ends in between. A crash is tried again alone, what takes too long is
    not.
    """
    plain = Runner(saved(PLAIN, tmp_path / "plain.onnx"))
    wanted = plain.run(FEEDS)[0]
    with step_limit(2), reference_ahead(saved(text, tmp_path / "model.onnx"), None, None) as ahead:
        for _ in range(30):
            np.testing.assert_array_equal(plain.run(FEEDS)[0], wanted)
            time.sleep(0.1)
        assert (ahead.take(tmp_path / "model.onnx") is not None) == is_kept


def test_what_takes_too_long_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = saved(ENDLESS, tmp_path / "model.onnx")
    monkeypatch.setattr(verification, "Reference", None)  # it is not opened once more
    with step_limit(2), reference_ahead(model, None, None) as ahead:
        found = verify(model, model, ahead=ahead)
    assert found.status == "impossible" and "longer than 2 s" in found.summary


def test_loading_that_takes_too_long_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = list[object]()

    def opens(*arguments: object) -> None:
        opened.append(arguments)
        raise Overdue("it takes longer than 3 s")

    monkeypatch.setattr("fusionc.verify.reference_ahead.Reference", opens)
    monkeypatch.setattr(verification, "Reference", opens)
    model = saved(PLAIN, tmp_path / "model.onnx")
    with reference_ahead(model, None, None) as ahead:
        found = verify(model, model, ahead=ahead)
    assert found.status == "impossible" and "longer than 3 s" in found.summary and len(opened) == 1


def test_one_that_cannot_be_opened_is_none(tmp_path: Path) -> None:
    with reference_ahead(tmp_path / "there_is_none.onnx", None, None) as ahead:
        assert ahead.take(tmp_path / "there_is_none.onnx") is None
