"""Limits of the system: the message names them, and nobody is told to install onnxruntime again."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import fusionc
import fusionc.attempt.attempt
from fusionc.errors import FusioncError
from fusionc.runtime import process
from fusionc.runtime.run_errors import Killed, OutOfMemory, RunError
from fusionc.runtime.system_limits import hint_for_limit

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "sample_models" / "matmul_bias.onnx"
COMMAND = [sys.executable, "-m", "fusionc", "convert", "--model", str(MODEL)]


def test_few_open_files_are_named(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*COMMAND, "--output", str(tmp_path / "out.onnx"), "--log", "null"],
        capture_output=True, text=True, timeout=60, cwd=tmp_path, env=environment,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8)),
    )  # fmt: skip
    assert done.returncode == 1 and "Too many open files" in done.stderr, done.stderr
    assert (
        "at most 8 files open at once: allow more, for example with ulimit -n 1024" in done.stderr
    )
    assert "install" not in done.stderr and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("number", "hint"),
    [(errno.EMFILE, "ulimit -n"), (errno.ENFILE, "fs.file-max"), (errno.EAGAIN, "ulimit -u")],
)
def test_a_process_that_cannot_be_started_leaves_no_file_open(
    monkeypatch: pytest.MonkeyPatch, number: int, hint: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("subprocess.Popen", fail)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FusioncError, match="cannot be started") as caught:
        process.Process()
    assert hint in caught.value.hint and "install" not in caught.value.hint
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    "said",
    [
        "ImportError: libonnxruntime.so: failed to map segment: Cannot allocate memory",
        "ImportError: libonnxruntime.so: failed to map segment from shared object",
        "OpenBLAS error: Memory allocation still failed after 10 retries, giving up.",
        "MemoryError",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        str(Killed()),
    ],
)
def test_memory_that_ran_out_is_named(said: str) -> None:
    assert hint_for_limit(said).startswith("free some memory")


def test_a_process_that_finds_no_memory_when_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "onnxruntime"
    package.mkdir()
    (package / "__init__.py").write_text("raise MemoryError")
    monkeypatch.syspath_prepend(tmp_path)
    process.start().end()
    with pytest.raises(FusioncError, match="cannot be started: MemoryError") as caught:
        process.start().ask("close", (0,), None)
    assert caught.value.hint.startswith("free some memory") and "install" not in caught.value.hint


@pytest.mark.parametrize("error", [OutOfMemory("bad allocation"), Killed()])
def test_a_conversion_that_memory_ends_says_so(
    in_a_folder_of_its_own: None, monkeypatch: pytest.MonkeyPatch, error: RunError
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(fusionc.attempt.attempt, "typed_model", fail)
    with pytest.raises(FusioncError, match="there is not enough memory for this model") as caught:
        fusionc.convert(MODEL, output="out.onnx")
    assert caught.value.hint.startswith("free some memory") and "not valid" not in str(caught.value)


def test_a_model_that_memory_keeps_from_loading_is_not_said_to_be_wrong(
    in_a_folder_of_its_own: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("of fusionc")

    monkeypatch.setattr(fusionc.attempt.attempt, "typed_model", fail)
    monkeypatch.setattr("fusionc.attempt.failures.fault_of_loading", lambda _: str(Killed()))
    with pytest.raises(
        FusioncError, match=r"onnxruntime cannot load the model: the process .* is killed"
    ) as caught:
        fusionc.convert(MODEL, output="out.onnx")
    assert caught.value.hint.startswith("free some memory") and "not valid" not in str(caught.value)


def test_what_is_about_no_limit_has_no_hint() -> None:
    assert hint_for_limit("ImportError: a library is missing") == ""
    assert (
        hint_for_limit("lib.so: failed to map segment from shared object: Operation not permitted")
        == ""
    )
    assert hint_for_limit(os.strerror(errno.EAGAIN)) == ""  # of a file that is locked, say
