from __future__ import annotations

import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from harness import parse

import fusionc
from fusionc.bench.deployed_model import DeployedModel, deployed
from fusionc.ready_form import tuned_settings as module
from fusionc.ready_form.check_ready import check_ready
from fusionc.ready_form.machine import this_machine
from fusionc.ready_form.session_file import read_session_file, session_file_of
from fusionc.ready_form.tuned_settings import NotTuned, tuned_settings, tuned_text
from fusionc.runtime.session_settings import SPINNING, SessionSettings

TUNED = SessionSettings(1, False, False, ("GeluFusionL2",), False)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "out.onnx"
    onnx.save(parse("g (float[2] x) => (float[2] y) { y = Relu (x) }"), path)
    session_file_of(path).write_text(tuned_text(path, TUNED))
    return path


def test_a_session_has_them(model: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options = fusionc.session(model).get_session_options()
    assert (
        options.intra_op_num_threads == 1
        and not options.enable_cpu_mem_arena
        and not options.enable_mem_reuse
    )
    assert options.get_session_config_entry(SPINNING) == "0"


def test_what_does_not_load_is_not_said_of_a_form_that_there_is_not(model: Path) -> None:
    session_file_of(model).write_text(tuned_text(model, TUNED))
    model.write_bytes(b"no model")
    with (
        warnings.catch_warnings(record=True) as told,
        pytest.raises(Exception, match="INVALID_PROTOBUF"),
    ):
        warnings.simplefilter("always")
        fusionc.session(model)
    assert not any("ready form" in str(one.message) for one in told)


def test_a_conversion_over_the_model_says_that_they_are_gone(model: Path) -> None:
    source = model.with_name("in.onnx")
    onnx.save(parse("g (float[2] x) => (float[2] y) { z = Relu (x)  y = Relu (z) }"), source)
    told = [
        notice
        for notice in fusionc.convert(source, output=model).notices
        if "fusionc tune" in notice
    ]
    assert not session_file_of(model).exists()
    assert told == [
        "out.session.json was removed: its settings were measured with the replaced result. "
        "`fusionc tune` finds settings for the new result"
    ]
    assert not any(
        "fusionc tune" in notice for notice in fusionc.convert(source, output=model).notices
    )


def test_bench_opens_the_model_with_them(model: Path) -> None:
    assert deployed(model, False) == (DeployedModel(model, settings=TUNED), [])


def test_the_file_reads_as_it_was_written(model: Path) -> None:
    known = read_session_file(session_file_of(model))
    assert known.ready is None and known.tuned is not None and known.tuned.settings == TUNED
    assert check_ready(model, {}, None) is None


@pytest.mark.parametrize(
    "name, here, why",
    [
        ("cores", lambda: 999, "processors, and this has 999"),
        ("this_machine", lambda: replace(this_machine(), onnxruntime="9.9"), r"and this is 9\.9"),
    ],
)
def test_elsewhere_they_do_not_hold(
    model: Path, monkeypatch: pytest.MonkeyPatch, name: str, here: Any, why: str
) -> None:
    monkeypatch.setattr(module, name, here)
    with pytest.raises(NotTuned, match=why):
        tuned_settings(model)
    with pytest.warns(UserWarning, match="it runs with onnxruntime's defaults"):
        assert fusionc.session(model).get_session_options().intra_op_num_threads == 0
    assert "are not used: they were" in deployed(model, False)[1][0]


def test_they_are_those_of_one_model(model: Path) -> None:
    other = shutil.copy(model, model.with_name("other.onnx"))
    shutil.copy(session_file_of(model), session_file_of(Path(other)))
    with pytest.raises(NotTuned, match="belong to another model"):
        tuned_settings(Path(other))
