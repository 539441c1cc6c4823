"""One model of many, in the process that converts it: what is kept, what is made anew, where its
files go.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest
from harness import parse
from many_models import content, write_model, write_with_weights

from fusionc import api
from fusionc.attempt import surroundings
from fusionc.batch.conversion_task import ConversionTask
from fusionc.batch.convert_one import convert_one
from fusionc.errors import UsageError, VerificationError
from fusionc.report import Report


class WithPlugin:
    """Stands in for importlib.metadata, and knows one more package."""

    @staticmethod
    def entry_points(group: str) -> list[SimpleNamespace]:
        return (
            [SimpleNamespace(dist=SimpleNamespace(name="mine"))]
            if group == "fusionc.passes"
            else []
        )

    @staticmethod
    def version(name: str) -> str:
        return "9" if name == "mine" else metadata.version(name)


@pytest.fixture
def task(models: Path, monkeypatch: pytest.MonkeyPatch) -> ConversionTask:
    """The conversion of a model that has weights in a file, without verification."""
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", "")  # so that it is put back
    write_with_weights(models / "sub/weighty.onnx")
    switches = models.parent / "switches.json"
    switches.write_text("{}")
    arguments = {"fusion_switch_file": switches, "verify": False, "export_compile_stat": 1}
    return ConversionTask(
        models / "sub/weighty.onnx", "sub/w.onnx", models.parent / "out", arguments, "1", True
    )


def state(task: ConversionTask, **changed: Any) -> str:
    """What became of it in another run, with the result being there in any case."""
    answer = convert_one(replace(task, run=secrets.token_hex(), **changed))
    assert task.destination.is_file() and json.loads(json.dumps(answer))["output"] == str(
        task.destination
    )
    return str(answer["state"])


def test_the_same_is_kept(task: ConversionTask) -> None:
    assert state(task) == "converted"
    made = content(task.output)
    assert sorted(made) == ["sub/w.onnx", "sub/weights.bin"]
    places = {name: os.stat(task.output / name).st_ino for name in made}
    moved = task.source.rename(task.source.with_name("renamed.onnx"))
    assert state(task, source=moved) == "kept"
    assert {name: os.stat(task.output / name).st_ino for name in made} == places
    assert state(task, source=moved, keeps_results=False) == "converted"
    assert content(task.output) == made


def test_an_unverified_result_stays_one(task: ConversionTask) -> None:
    """Otherwise a second run with --resume would call it verified."""
    onnx.save(parse("g (float[2] x) => (float[2] y) { y = mine.Unknown (x) }"), task.source)
    arguments = {**task.arguments, "verify": True}
    assert state(task, arguments=arguments) == "unverified"
    assert state(task, arguments=arguments) == "unverified"
    refused = convert_one(replace(task, arguments={**arguments, "require_verification": True}))
    assert (refused["state"], refused["output"]) == ("unverified", None)


def test_a_run_makes_nothing_twice(task: ConversionTask) -> None:
    """Where a cluster loses a worker with its answer, it asks for the same again."""
    assert convert_one(task) == {**convert_one(replace(task, keeps_results=False))}
    assert len(list(task.records.glob("debug/plog/*.log"))) == 1


def write_other_weights(task: ConversionTask) -> None:
    task.source.with_name("weights.bin").write_bytes(bytes(4096))
    (task.output / "sub/weights.bin").unlink()


def turn_passes_off(task: ConversionTask) -> None:
    text = '{"Switch": {"GraphFusion": {"ALL": "off"}}}'
    task.arguments["fusion_switch_file"].write_text(text)


CHANGES: dict[str, Callable[[ConversionTask], object]] = {
    "model": lambda task: write_model(task.source),
    "weights": write_other_weights,
    "switches": turn_passes_off,
    "result": lambda task: write_model(task.destination),
    "weights of the result": lambda task: (task.output / "sub/weights.bin").unlink(),
    "record": lambda task: (task.records / "outcome.json").unlink(),
    "format": lambda task: (task.records / "outcome.json").write_text('{"outcome": {}}'),
}


@pytest.mark.parametrize("changed", CHANGES)
def test_what_has_changed_is_made_anew(task: ConversionTask, changed: str) -> None:
    assert state(task) == "converted"
    CHANGES[changed](task)
    assert state(task) == "converted"
    assert state(task) == "kept"


def test_with_another_option_it_is_made_anew(task: ConversionTask) -> None:
    assert state(task) == "converted"
    arguments = {**task.arguments, "external_weight": 0}
    assert state(task, arguments=arguments) == "converted"
    assert state(task, arguments=arguments) == "kept"


SURROUNDINGS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "version": lambda patch: patch.setattr(surroundings, "__version__", "9"),
    "flags": lambda patch: patch.setenv("MS_DEV_GRAPH_KERNEL_FLAGS", "--dump_as_text"),
    "compiler": lambda patch: patch.setenv("CC", "no such compiler"),
    "plugin": lambda patch: patch.setattr(surroundings, "metadata", WithPlugin),
}


@pytest.mark.parametrize("changed", SURROUNDINGS)
def test_in_other_surroundings_it_is_made_anew(
    task: ConversionTask, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert state(task) == "converted"
    SURROUNDINGS[changed](monkeypatch)
    assert state(task) == "converted"
    assert state(task) == "kept"


def test_what_has_failed_is_tried_again(task: ConversionTask) -> None:
    (task.source.with_name("weights.bin")).rename("weights")
    assert [convert_one(task)["state"] for _ in range(2)] == ["failed", "failed"]
    Path(task.source.parents[2], "weights").rename(task.source.with_name("weights.bin"))
    assert state(task) == "converted"


def test_pages_of_names_that_differ_in_their_ends_alone(task: ConversionTask) -> None:
    names = ("a.onnx", "a.ONNX", "a.onnx.onnx")
    tasks = [replace(task, name=name, arguments={"report": Path("pages")}) for name in names]
    assert len({one.own_arguments()["report"] for one in tasks}) == len(names)


def test_what_else_is_written_has_a_place_for_each(task: ConversionTask) -> None:
    written = {"dump_graph": Path("dumps").absolute(), "report": Path("pages").absolute()}
    (task.records / "debug/plog").mkdir(parents=True)
    (task.records / "debug/plog/plog-1_2.log").write_text("of an older conversion")
    assert state(task, arguments={**task.arguments, **written}) == "converted"
    assert (written["dump_graph"] / "sub/w.onnx/0000_input.onnx").is_file()
    assert (written["report"] / "sub/w.html").is_file()
    (log,) = task.records.glob("debug/plog/*.log")
    assert "effected_times=" in log.read_text() and (task.records / "fusion_result.json").is_file()


def test_records_that_cannot_be_written(task: ConversionTask) -> None:
    task.output.mkdir()
    (task.output / "fusionc_records").write_text("")
    answer = convert_one(task)
    assert (
        answer["state"] == "failed"
        and "the records of the model cannot be written: " in answer["error"]
    )


@pytest.mark.parametrize(
    ("error", "state", "told"),
    [
        (VerificationError("the outputs differ"), "different", "E19999: the outputs differ"),
        (UsageError("no such file", code="E10410"), "failed", "E10410: no such file"),
        (OSError(28, "No space left on device"), "failed", "No space left on device\n"),
        (
            ZeroDivisionError("by zero"),
            "failed",
            "to do: this is a defect of fusionc: convert this model alone with",
        ),
    ],
)
def test_what_goes_wrong_is_told(
    task: ConversionTask, monkeypatch: pytest.MonkeyPatch, error: Exception, state: str, told: str
) -> None:
    def convert(*_: object, **__: object) -> Report:
        raise error

    monkeypatch.setattr(api, "convert", convert)
    answer = convert_one(task)
    assert answer["state"] == state and told in answer["error"] and answer["output"] is None
    noted = json.loads((task.records / "outcome.json").read_text())["outcome"]
    assert noted["state"] == state and noted["error"] == answer["error"]


def test_a_model_that_is_newer_than_the_opset_for_all_keeps_its_own(task: ConversionTask) -> None:
    text = "agraph (float[N,4] x) => (float[N,4] y) { a = Relu (x)  y = Softmax (a) }"
    for opset, kept in ((17, 20), (20, 20), (23, 23)):
        onnx.save(parse(text, opset), task.source)
        answer = convert_one(replace(task, arguments={"target_opset": 20}, run=str(opset)))
        assert answer["state"] == "converted" and answer["verification"].startswith("equal")
        assert onnx.load(task.destination).opset_import[0].version == kept
        said = "the model's opset is already 23, and fusionc cannot lower it, so --target_opset 20 does not change it"
        assert list(answer["notices"]) == ([said] if opset == 23 else [])
        # nothing is logged where no pass matches
        assert not list(task.records.glob("debug/plog/*.log"))


def test_an_opset_that_cannot_be_is_an_error_for_newer_models_too(task: ConversionTask) -> None:
    answer = convert_one(replace(task, arguments={"target_opset": 999}))
    assert answer["state"] == "failed" and "runs models up to opset" in answer["error"]
