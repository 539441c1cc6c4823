"""When a ready form is written, when it goes, and when a conversion does without it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import onnx
import pytest
from harness import parse

import fusionc
from fusionc.errors import UsageError
from fusionc.ready_form import ready_form
from fusionc.ready_form.ready_files import ReadyFiles

SMALL = "g (float[N,8] x) => (float[N,8] y) <float[8,8] w> { m = MatMul (x, w)  y = Relu (m) }"


def written(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("out."))


def convert(folder: Path, **options: Any) -> fusionc.Report:
    return fusionc.convert(folder / "in.onnx", output=folder / "out.onnx", log="null", **options)


def test_the_same_again_is_the_same_and_other_weights_replace_it(
    converted: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(converted, tmp_path / "copy"))
    before = written(folder)
    convert(folder, ready=True)
    assert written(folder) == before
    known = json.loads((folder / "out.session.json").read_text())
    for file in (known["model"], known["ready"]["model"], known["ready"]["weights"]):
        # so that nobody reads it to be sure
        assert (folder / file["name"]).stat().st_mtime_ns == file["modified"]
    onnx.save(parse(SMALL), folder / "in.onnx")
    convert(folder, ready=True)
    (form,) = folder.glob("out.*.ready.onnx")
    # its weights are small
    assert written(folder) == sorted([form.name, "out.onnx", "out.session.json"])
    convert(folder)
    assert written(folder) == ["out.onnx"]


def test_weights_of_the_model_may_lie_in_a_file_as_well(converted: Path, tmp_path: Path) -> None:
    shutil.copy(converted / "in.onnx", tmp_path)
    convert(tmp_path, ready=True, external_weight=1)
    assert len(list(tmp_path.glob("out.onnx.*.data"))) == 2
    assert ".ready." in fusionc.session(tmp_path / "out.onnx")._model_path


def test_weights_that_stay_in_the_file_of_the_model(converted: Path, tmp_path: Path) -> None:
    proto = onnx.load(converted / "in.onnx")
    onnx.save(
        proto,
        tmp_path / "in.onnx",
        save_as_external_data=True,
        location="in.data",
        size_threshold=1000,
    )
    convert(tmp_path, ready=True)
    assert ".ready." in fusionc.session(tmp_path / "out.onnx")._model_path
    assert len(written(tmp_path)) == 4 and (tmp_path / "in.data").exists()


@pytest.mark.parametrize(
    "options", [{"output_type": "FP16"}, {"out_nodes": "m"}, {"verify": False}], ids=str
)
def test_it_is_made_of_the_result_as_it_is_written(tmp_path: Path, options: dict[str, Any]) -> None:
    onnx.save(parse(SMALL), tmp_path / "in.onnx")
    report = convert(tmp_path, ready=True, **options)
    assert any(
        ("not verified" if "verify" in options else "to the bit") in notice
        for notice in report.notices
    )
    session = fusionc.session(tmp_path / "out.onnx")
    proto = onnx.load(tmp_path / "out.onnx")
    assert ".ready." in session._model_path
    assert [output.name for output in session.get_outputs()] == [
        output.name for output in proto.graph.output
    ]


def test_one_that_computes_something_else_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(parse(SMALL), tmp_path / "in.onnx")
    onnx.save(parse(SMALL.replace("Relu", "Neg")), tmp_path / "other.onnx")
    wrong = ReadyFiles(tmp_path / "other.onnx", None)
    monkeypatch.setattr(ready_form, "write_ready_files", lambda *_: wrong)
    report = convert(tmp_path, ready=True)
    assert report.ready is None and written(tmp_path) == ["out.onnx"]
    assert any(
        "not kept: its results differ from those of the model: seed 0" in notice
        for notice in report.notices
    )


def test_a_model_that_onnxruntime_does_not_know(tmp_path: Path) -> None:
    model = parse(SMALL)
    model.graph.node[1].domain = "somebody"
    model.opset_import.add(domain="somebody", version=1)
    onnx.save(model, tmp_path / "in.onnx")
    report = convert(tmp_path, ready=True)
    assert report.ready is None and written(tmp_path) == ["out.onnx"]
    assert any("no ready form was made" in notice for notice in report.notices)


def test_random_numbers_are_no_difference(tmp_path: Path) -> None:
    onnx.save(
        parse("g (float[N,8] x) => (float[N,8] y) { r = RandomNormalLike (x)  y = Add (r, x) }"),
        tmp_path / "in.onnx",
    )
    assert convert(tmp_path, ready=True).ready is not None


def test_something_else_at_the_place_of_the_session_file_stays(tmp_path: Path) -> None:
    onnx.save(parse(SMALL), tmp_path / "in.onnx")
    (tmp_path / "out.session.json").write_text('{"mine": 1}')
    with pytest.raises(fusionc.FusioncError, match="session file of the result would overwrite"):
        convert(tmp_path, ready=True)
    assert written(tmp_path) == ["out.session.json"]
    convert(tmp_path)
    assert (tmp_path / "out.session.json").read_text() == '{"mine": 1}'


def test_in_memory_there_is_no_place_for_it(tmp_path: Path) -> None:
    with pytest.raises(fusionc.UsageError, match="the ready form cannot be written"):
        fusionc.optimize(parse(SMALL), ready=True)
    fusionc.optimize(parse(SMALL), ready=True, output=tmp_path / "out.onnx")
    assert ".ready." in fusionc.session(tmp_path / "out.onnx")._model_path


def test_given_inputs_on_which_only_the_optimized_model_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def does_not_run(*_: object) -> tuple[int, str]:
        raise UsageError("the model does not run on the inputs", hint="give others", code="E10001")

    onnx.save(parse(SMALL), tmp_path / "in.onnx")
    monkeypatch.setattr(ready_form, "bit_for_bit", does_not_run)
    report = convert(tmp_path, ready=True)
    assert report.ready is None and written(tmp_path) == ["out.onnx"]
    assert "no ready form was made: the model does not run on the inputs" in report.notices
