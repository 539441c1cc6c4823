"""Limits of the system: the message names them, and nobody is told to install onnxruntime again."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from fusionc.errors import FusioncError
from fusionc.runtime import process
from fusionc.runtime.system_limits import hint_for_limit

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "fusionc", "convert", "--model", str(ROOT / "sample_models" / "matmul_bias.onnx")]


def test_few_open_files_are_named(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*COMMAND, "--output", str(tmp_path / "out.onnx"), "--log", "null"],
        capture_output=True, text=True, timeout=60, cwd=tmp_path, env=environment,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8)),
    )  # fmt: skip
    assert done.returncode == 1 and "Too many open files" in done.stderr, done.stderr
    assert "at most 8 files open at once: allow more, with ulimit -n 1024" in done.stderr
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


def test_what_is_about_no_limit_has_no_hint() -> None:
    assert hint_for_limit("ImportError: a library is missing") == ""
    assert hint_for_limit(os.strerror(errno.EAGAIN)) == ""  # of a file that is locked, say
