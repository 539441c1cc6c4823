"""Many models, ended in the middle: nothing is left half written, no process stays, and the rest
can be done later.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from many_models import WAIT, content, is_running, planted, wait_until, write_model


def command(*words: str) -> list[str]:
    start = [
        sys.executable,
        "-m",
        "fusionc",
        "convert",
        "--model=models",
        "--output=out",
        "--no-verify",
        "--jobs=1",
    ]
    return [*start, "--custom_passes=planted.py", *words]


@pytest.mark.parametrize(
    ("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_what_is_done_stays_and_the_rest_can_be_done(
    models: Path, number: int, exit_code: int
) -> None:
    write_model(models / "slow.onnx", "Softsign")
    pids = models.parent / "pids"
    planted(models.parent, WAIT.format(pids=pids))
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command(), start_new_session=True, **pipes) as process:
        wait_until(lambda: pids.is_file() and len(pids.read_text().split()) == 2)
        processes = list(map(int, pids.read_text().split()))
        os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        errors = process.communicate()[1]
    assert process.returncode == exit_code
    if number == signal.SIGINT:
        hint = "fusionc: 1 of 3 models are done; the same command with --resume continues\nfusionc: interrupted\n"
        assert errors == hint and not any(map(is_running, processes))
    wait_until(lambda: not any(map(is_running, processes)))
    assert list(content(Path("out"))) == ["relu.onnx"]
    place = Path("out/relu.onnx").stat().st_ino
    Path("pids.go").touch()
    done = subprocess.run(command("--resume"), capture_output=True, text=True, check=True)
    assert done.stderr == "" and "models   3: 2 converted, 1 kept\n" in done.stdout
    assert list(content(Path("out"))) == ["relu.onnx", "slow.onnx", "sub/split.onnx"]
    assert Path("out/relu.onnx").stat().st_ino == place
