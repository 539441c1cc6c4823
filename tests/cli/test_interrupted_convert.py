"""Signals and files in the way, as a user meets them: the exit code, one block, and all as it
was.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

WAITS = """
import os, time
import fusionc
from fusionc import op

fusionc.register_replacement(lambda x: op.Neg(op.Neg(x)), lambda x: op.Identity(x), name="Unneeded")
replace = os.replace

def slow(source, target, **options):
    if str(target).endswith("out.onnx"):
        print("here", flush=True)
        time.sleep({before})
    replace(source, target, **options)
    if str(target).endswith("out.onnx"):
        print("there", flush=True)
        time.sleep({after})

os.replace = slow
"""


def write_model(scale: int) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1024]) for name in "xy")
    weights = [numpy_helper.from_array(np.full(1024, scale, np.float32), "w")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10),
        "in.onnx",
    )


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    write_model(1)


def command(*words: str) -> list[str]:
    start = [
        sys.executable,
        "-m",
        "fusionc",
        "convert",
        "--model=in.onnx",
        "--output=out/out.onnx",
        "--no-verify",
    ]
    return [*start, "--external_weight=1", *words]


def convert(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), capture_output=True, text=True, check=False)


def there() -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() if path.is_file() else b""
        for path in sorted(Path("out").iterdir())
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("after", [False, True])
def test_a_signal_leaves_the_old_set_or_the_new_one(number: signal.Signals, after: bool) -> None:
    assert convert().returncode == 0
    old = there()
    write_model(2)
    exit_code, errors = interrupted(number, after)
    word, expected = {signal.SIGINT: ("interrupted", 130), signal.SIGTERM: ("terminated", 143)}[
        number
    ]
    assert errors.endswith(f"fusionc: {word}\n")
    assert exit_code == expected
    if not after:
        assert there() == old
    assert not any(name.startswith(".fusionc") for name in there())
    weights = onnx.load("out/out.onnx").graph.initializer[0]
    assert numpy_helper.to_array(weights)[0] == (2 if after else 1)


def interrupted(number: signal.Signals, after: bool) -> tuple[int, str]:
    """The exit code and errors of a conversion that gets a signal before its result is in place, or
    after.
    """
    Path("waits.py").write_text(WAITS.format(before=0 if after else 60, after=60 if after else 0))
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command("--custom_passes=waits.py"), **piped, text=True) as process:
        assert process.stdout is not None
        while (line := process.stdout.readline()) != ("there\n" if after else "here\n"):
            assert line
        process.send_signal(number)
        _, errors = process.communicate()
    return process.returncode, errors


def test_a_folder_where_weights_used_to_lie() -> None:
    Path("out/out.onnx.data").mkdir()
    Path("out/out.onnx").write_bytes(Path("in.onnx").read_bytes())
    assert convert().returncode == 0
    onnx.checker.check_model("out/out.onnx")
    assert Path("out/out.onnx.data").is_dir()


@pytest.mark.parametrize("kind", ["loop", "folder"])
def test_what_is_no_place_for_the_output(kind: str) -> None:
    Path("out/out.onnx").symlink_to("out.onnx") if kind == "loop" else Path("out/out.onnx").mkdir()
    done = convert()
    problem = "is a symbolic link that leads back to itself" if kind == "loop" else "is a folder"
    assert (
        done.returncode == 2
        and f"E10001: the output {problem}" in done.stderr
        and "Traceback" not in done.stderr
    )
    assert [path.name for path in Path("out").iterdir()] == ["out.onnx"]
