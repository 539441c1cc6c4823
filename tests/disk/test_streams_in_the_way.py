"""A pipe or a device where something is to be written: it is written into, or the command ends
before any work.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

import fusionc
from fusionc.bisect.findings_folder import FindingsFolder
from fusionc.cli import main
from fusionc.disk.small_files import replace_text, write_where_told
from fusionc.options import options_of
from fusionc.report.fusion_result import write_fusion_result
from fusionc.report.graph_dump import GraphDump
from fusionc.tune.deliver import require_places
from fusionc.tune.tuning_journal import TuningJournal

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")
MODEL = Path(__file__).parents[2] / "sample_models" / "matmul_bias.onnx"


def is_pipe(path: str) -> bool:
    return stat.S_ISFIFO(os.lstat(path).st_mode)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("pipe", "--output names a pipe"),
        ("pipe.onnx", "--output names a pipe"),
        ("named", "--output names a pipe"),
        ("link", "--output names a pipe"),
        ("/dev/full", "--output names a device"),
        ("/dev/null", "--output names a device"),
        ("/dev/stdout", "--output names a "),
    ],
)
@pytest.mark.parametrize("command", ["convert", "bisect"])
def test_an_output_that_is_no_file_is_refused_before_any_work(
    command: str, given: str, what: str
) -> None:
    for name in ("pipe", "pipe.onnx", "named.onnx"):
        os.mkfifo(name)
    Path("link").symlink_to("pipe")
    words = [
        command,
        "--model",
        "no.onnx",
        "--output",
        given,
        *(["--limit", "1"] if command == "bisect" else []),
    ]
    Path("no.onnx").write_bytes(b"no model: whoever reads it fails in another way")
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2 and what in done.output, done.output
    assert "the name of a file; another program can then read" in done.output
    assert is_pipe("pipe") and is_pipe("pipe.onnx") and is_pipe("named.onnx")
    assert not Path(f"{given}.onnx").exists() or given in ("pipe", "named")


def test_the_name_of_an_open_file_is_no_output() -> None:
    with (
        open("opened", "wb") as file,
        pytest.raises(fusionc.UsageError, match="a program has opened"),
    ):
        fusionc.convert(MODEL, output=f"/proc/self/fd/{file.fileno()}")


def read_meanwhile(pipe: str) -> tuple[threading.Thread, list[str]]:
    read = list[str]()
    reader = threading.Thread(
        target=lambda: read.append(Path(pipe).read_text(encoding="utf-8")), daemon=True
    )
    reader.start()
    return reader, read


@pytest.mark.parametrize(
    "words",
    [
        ["convert", "--model", str(MODEL), "--mode", "1", "--json", "pipe"],
        ["convert", "--model", str(MODEL), "--mode", "3", "--check_report", "pipe"],
        ["switch_file", "--output", "pipe"],
    ],
    ids=lambda words: words[-2],
)
def test_text_goes_into_a_pipe(words: list[str]) -> None:
    os.mkfifo("pipe")
    reader, read = read_meanwhile("pipe")
    done = CliRunner().invoke(main, words)
    reader.join(10)
    assert done.exit_code == 0, done.output
    assert json.loads(read[0]) and is_pipe("pipe")


def test_text_goes_into_a_device() -> None:
    write_where_told(Path("/dev/null"), "text")
    with pytest.raises(OSError, match="No space left"):
        write_where_told(Path("/dev/full"), "text" * 10_000)
    assert stat.S_ISCHR(os.lstat("/dev/full").st_mode)


def test_a_pipe_where_fusionc_chooses_the_name_stays() -> None:
    os.mkfifo("fusion_result.json")
    report = fusionc.convert(MODEL, output="out.onnx", verify=False, export_compile_stat=1)
    assert any(
        "fusion_result.json is not written: the path is a pipe" in notice
        for notice in report.notices
    )
    notices = list[str]()
    # nothing matched: a file would be removed
    assert write_fusion_result([], 1, notices) is None and notices
    with pytest.raises(FileExistsError):
        replace_text(Path("fusion_result.json"), "")
    assert is_pipe("fusion_result.json")


def test_a_pipe_among_the_files_of_a_search_or_a_dump() -> None:
    os.mkfifo("1_Pass.onnx")
    with pytest.raises(fusionc.UsageError, match="did not write"):
        FindingsFolder(Path(), [])
    os.rename("1_Pass.onnx", "switches.json")
    with pytest.raises(fusionc.UsageError, match="did not write"):
        FindingsFolder(Path(), [])
    os.rename("switches.json", "0000_input.txt")
    with pytest.raises(fusionc.FusioncError, match="cannot be dumped: the path is a pipe"):
        GraphDump(Path()).write(onnx.load(MODEL), "input")


@pytest.mark.parametrize("ending", ["switches.json", "tune.svg"])
def test_a_pipe_among_the_files_of_a_tuning(ending: str) -> None:
    os.mkfifo(f"out.{ending}")
    options = options_of(MODEL, output="out.onnx")
    with pytest.raises(fusionc.FusioncError, match="was not written by a tuning"):
        require_places(options)
    os.mkfifo("out.tune.jsonl")
    with pytest.raises(fusionc.FusioncError, match="would replace a file"):
        TuningJournal(Path("out.tune.jsonl"), "me")


def test_a_model_in_a_pipe_is_refused() -> None:
    os.mkfifo("pipe.onnx")
    result = CliRunner().invoke(main, ["pipe.onnx"])
    assert result.exit_code == 2 and "the model is a pipe" in result.stderr
    assert "save the model to a file first" in result.stderr


@pytest.mark.parametrize("words", [["convert"], ["inspect"], ["verify", str(MODEL)]])
def test_a_model_that_a_program_has_opened_is_refused(words: list[str]) -> None:
    with MODEL.open("rb") as file:
        result = CliRunner().invoke(main, [*words, f"/proc/self/fd/{file.fileno()}"])
    assert result.exit_code == 2 and "but a model may consist of several files" in result.stderr
    assert "save the model to a file first" in result.stderr
