"""ATC's modes: 1 (JSON), 3 (check), 6 (information), and 0, which converts."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

START = "FUSIONC start working now, please wait for a moment."
SUCCESS = "FUSIONC run success, welcome to the next use."
FAILURE = "FUSIONC run failed"


def write_model(file: Path, op: str = "Relu") -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"])],
        "g",
        [value],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    file.write_bytes(helper.make_model(graph).SerializeToString())


def test_mode_6_shows_the_model(run: Any, fake_convert: Any, tmp_path: Path) -> None:
    write_model(tmp_path / "in.onnx")
    result = run("convert", "--model", "in.onnx", "--mode", "6", "--soc_version=x")
    lines = result.stdout.splitlines()
    assert (result.exit_code, lines[0], lines[-1]) == (0, START, SUCCESS)
    assert "input       x  float[2]" in lines and "operators   Relu 1" in lines
    assert "notice      --soc_version is accepted, but has no effect" in lines
    assert fake_convert.calls == [] and os.listdir(tmp_path) == ["in.onnx"]


def test_mode_1_writes_json(run: Any, fake_convert: Any, tmp_path: Path) -> None:
    write_model(tmp_path / "in.onnx")
    result = run("convert", "--model", "in.onnx", "--mode", "1", "--json", "out.json")
    assert result.exit_code == 0 and result.stdout.splitlines()[-1] == SUCCESS
    assert json.loads((tmp_path / "out.json").read_text())["graph"]["node"][0]["op_type"] == "Relu"
    assert fake_convert.calls == []


@pytest.mark.parametrize(
    "words", [["--mode=1", "--json=./in.json"], ["--mode=3", "--check_report=./in.json"]]
)
def test_the_model_is_never_written_over(
    run: Any, fake_convert: Any, tmp_path: Path, words: list[str]
) -> None:
    write_model(tmp_path / "in.json")
    before = (tmp_path / "in.json").read_bytes()
    result = run("convert", "--model", "in.json", *words)
    assert (
        result.exit_code == 2
        and f"{words[1].partition('=')[0]} names the model itself" in result.stderr
    )
    assert (tmp_path / "in.json").read_bytes() == before


def test_a_text_is_written_wholly_or_not_at_all(
    run: Any, fake_convert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(self: Path, content: bytes) -> int:
        with self.open("wb") as file:
            file.write(content[:9])
        raise OSError(errno.ENOSPC, "No space left on device")

    write_model(tmp_path / "in.onnx")
    (tmp_path / "out.json").write_text("old")
    monkeypatch.setattr(Path, "write_bytes", half)
    assert run("convert", "--model", "in.onnx", "--mode", "1", "--json", "out.json").exit_code == 1
    assert (
        sorted(os.listdir(tmp_path)) == ["in.onnx", "out.json"]
        and (tmp_path / "out.json").read_text() == "old"
    )


def test_json_without_mode_1_is_a_conversion(run: Any, fake_convert: Any, tmp_path: Path) -> None:
    assert run("convert", "--model", "in.onnx", "--json", "out.json").exit_code == 0
    assert len(fake_convert.calls) == 1 and not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("words", [["--mode=6"], ["--mode=1", "--json=out.json"]])
def test_a_missing_model_in_the_other_modes(run: Any, words: list[str]) -> None:
    result = run("convert", "--model=none.onnx", *words)
    assert result.exit_code == 2 and result.stdout.splitlines() == [START, FAILURE]
    assert result.stderr.startswith("E10410: the model does not exist\n  where: none.onnx\n")


def test_json_that_cannot_be_written(run: Any, tmp_path: Path) -> None:
    write_model(tmp_path / "in.onnx")
    result = run("convert", "--model=in.onnx", "--mode=1", "--json=none/out.json")
    assert result.exit_code == 2 and result.stderr.startswith(
        "E13004: the file cannot be written: "
    )
    assert "mkdir -p none)" in result.stderr
    assert "  where: none/out.json\n" in result.stderr


@pytest.mark.parametrize("words", [["--mode=6"], ["--mode=1", "--json=out.json"]])
@pytest.mark.parametrize("model", [["--om=in.onnx"], ["--om=in.onnx", "--model=in.onnx"]])
def test_the_model_as_atc_calls_it(
    run: Any, tmp_path: Path, words: list[str], model: list[str]
) -> None:
    write_model(tmp_path / "in.onnx")
    result = run("convert", *words, *model)
    assert result.exit_code == 0, result.stderr
    assert "operators   Relu 1" in result.stdout or (tmp_path / "out.json").exists()


@pytest.mark.parametrize("words", [["--mode=6"], ["--mode=1", "--json=out.json"]])
def test_a_model_that_atc_has_compiled(run: Any, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "in.om").write_bytes(b"IMOD" + bytes(100))
    result = run("convert", *words, "--om=in.om")
    assert (result.exit_code, os.listdir(tmp_path)) == (2, ["in.om"])
    assert result.stderr.splitlines() == [
        "E10001: the model is a compiled model of ATC",
        "  where: in.om",
        "  to do: give the ONNX model from which ATC compiled it",
    ]


@pytest.mark.parametrize(("words", "expected"), [([], []), (["--dump_mode=1"], ["y"])])
def test_json_with_shapes(run: Any, tmp_path: Path, words: list[str], expected: list[str]) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    out = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["y"], ["z"])]
    model = helper.make_model(helper.make_graph(nodes, "g", [value], [out]))
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString())
    assert run("convert", "--mode=1", "--om=in.onnx", "--json=out.json", *words).exit_code == 0
    graph = json.loads((tmp_path / "out.json").read_text())["graph"]
    assert [info["name"] for info in graph.get("value_info", [])] == expected


def test_mode_3_writes_what_it_found(run: Any, fake_convert: Any, tmp_path: Path) -> None:
    write_model(tmp_path / "in.onnx")
    result = run("convert", "--model=in.onnx", "--mode=3", "--soc_version=x", "--target=onnx")
    assert (result.exit_code, result.stdout.splitlines()[-1], fake_convert.calls) == (
        0,
        SUCCESS,
        [],
    )
    assert (
        "operators  1: 1 pass, 0 fail" in result.stdout
        and "--soc_version is accepted, but has no effect" in result.stdout
    )
    assert json.loads((tmp_path / "check_result.json").read_text()) == {
        "name": "g", "result": "success", "total": 1, "pass": 1, "fail": 0,
        "op": [{"name": "Relu:y", "type": "Relu", "result": "success"}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "file"), [([], "work/check_result.json"), (["--check_report=own.json"], "own.json")]
)
def test_mode_3_of_a_model_that_does_not_run(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], file: str
) -> None:
    monkeypatch.setenv("ASCEND_WORK_PATH", "work")
    (tmp_path / "work").mkdir()
    write_model(tmp_path / "in.onnx", "NoSuchOperator")
    result = run("convert", "--model=in.onnx", "--mode=3", "--target=onnx", *words)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (1, FAILURE)
    what, where, hint = result.stderr.splitlines()
    assert what == "E19010: the model fails the check: 1 of 1 operators do not run"
    assert (where, hint) == (
        f"  where: {file}",
        "  to do: the file says why; export the model again",
    )
    assert "NoSuchOperator:y" in result.stdout
    written = json.loads((tmp_path / file).read_text())
    (cause,) = written["op"][0]["cause"]
    assert written["fail"] == 1 and "cause" not in written
    assert cause["message"] in result.stdout


@pytest.mark.parametrize(
    ("mode", "words", "told"),
    [
        (
            "0",
            ["--json=j", "--soc_version=x", "--check_report=c"],
            "--soc_version, --json, --check_report",
        ),
        ("0", ["--output=o", "--target=onnx", "--framework=5"], ""),
        ("1", ["--json=j", "--dump_mode=1", "--output=o", "--no-verify"], "--output, --no-verify"),
        ("3", ["--check_report=c", "--target=onnx", "--log=info", "--dump_mode=1"], "--dump_mode"),
        ("6", ["--target=onnx", "--framework=5"], "--target"),
    ],
)
def test_an_option_of_another_mode_is_named(
    run: Any, fake_convert: Any, tmp_path: Path, mode: str, words: list[str], told: str
) -> None:
    write_model(tmp_path / "in.onnx")
    result = run("convert", "--model", "in.onnx", "--mode", mode, *words)
    notices = [line.split(None, 1)[1] for line in result.stdout.splitlines() if "no effect" in line]
    verbs = "are accepted, but have" if "," in told else "is accepted, but has"
    assert result.exit_code == 0 and notices == ([f"{told} {verbs} no effect"] if told else [])
