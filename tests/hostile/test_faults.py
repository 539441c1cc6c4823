"""Faults of the system around a conversion: streams that are closed or full, signals while Python
starts and ends, a limit on files, too little memory, a folder that is gone.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner, Result
from harness import parse
from hostile_case import CONVERT, SIMPLE, Case, assert_outcome, contents, valid
from hostile_names import ESCAPE, PLACES

import fusionc.attempt.asked_model
from fusionc.cli import main

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "fusionc", *CONVERT, "--no-verify")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    valid(tmp_path)
    return tmp_path


def shell(redirection: str) -> subprocess.CompletedProcess[str]:
    words = " ".join(COMMAND)
    return subprocess.run(
        ["sh", "-c", f"{words} {redirection}"], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_streams_that_are_closed(redirection: str) -> None:
    done = shell(redirection)
    assert done.returncode == 0 and not done.stderr
    onnx.checker.check_model(onnx.load("o.onnx"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_an_output_that_is_full(folder: Path) -> None:
    before = contents(folder)
    done = shell("> /dev/full")
    assert done.returncode == 1 and contents(folder) == before
    assert done.stderr.startswith(
        "E13004: No space left on device\n  where: fusionc convert\n  to do: "
    )
    assert done.stderr.count("\n") == 3


# What is run while Python imports the command, while the command imports what is large, and while
# Python ends.
MOMENTS = {
    "the command is imported": (
        "click.py",
        "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    ),
    "the conversion is imported": (
        "onnx.py",
        "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    ),
    "a library makes another error of it": (
        "onnx.py",
        (
            "import os, signal\ntry: os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException: "
            "raise ImportError('no')"
        ),
    ),
    "Python ends": (
        "sitecustomize.py",
        "import atexit, os, signal; atexit.register(os.kill, os.getpid(), signal.SIGINT)",
    ),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_while(
    moment: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, text = MOMENTS[moment]
    stand_in = tmp_path_factory.mktemp("stand_in")
    (stand_in / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", f"{stand_in}{os.pathsep}{ROOT}")
    done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "fusionc: interrupted\n")
    assert Path("o.onnx").exists() == (moment == "Python ends")


def test_a_signal_that_is_ignored_stays_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Behind nohup, say."""
    name, text = MOMENTS["Python ends"]
    stand_in = tmp_path_factory.mktemp("stand_in")
    (stand_in / name).write_text(text)
    program = f"trap '' INT; PYTHONPATH={stand_in}{os.pathsep}{ROOT} {' '.join(COMMAND)}"
    done = subprocess.run(["sh", "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr


def test_files_that_may_not_become_large(folder: Path) -> None:
    before = contents(folder)
    done = subprocess.run(
        COMMAND,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)),
    )
    assert done.returncode == 1 and contents(folder) == before
    assert done.stderr.startswith("E13004: ") and "File too large" in done.stderr
    assert "\n  where: " in done.stderr and done.stderr.count("\n") == 3


def test_a_terminal_that_knows_ascii_only(monkeypatch: pytest.MonkeyPatch) -> None:
    model = parse(SIMPLE)
    PLACES["inner value"](model, f"Zürich{ESCAPE}")
    onnx.save(model, "m.onnx")
    for name, value in {
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONIOENCODING": "ascii",
    }.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run([*COMMAND, "--log", "debug"], capture_output=True, timeout=60)
    assert done.returncode == 0 and not done.stderr and b"\x1b" not in done.stdout


def test_a_current_folder_that_is_gone(tmp_path: Path) -> None:
    words = [word if not word.endswith(".onnx") else str(tmp_path / word) for word in COMMAND]
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", f"cd {gone} && rmdir {gone} && {' '.join(words)}"],
        capture_output=True,
        text=True,
    )
    assert (
        done.returncode in (0, 1) and "Traceback" not in done.stderr and "defect" not in done.stderr
    )
    assert not done.stderr if done.returncode == 0 else done.stderr.startswith("E")


def failing(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> Result:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(fusionc.attempt.asked_model, "load", fail)
    return CliRunner().invoke(main, list(CONVERT), prog_name="fusionc")


def test_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    found = failing(MemoryError(), monkeypatch)
    assert (
        found.exit_code == 1
        and "not enough memory" in found.stderr
        and "where: m.onnx" in found.stderr
    )


def test_what_nobody_foresaw_is_to_be_reported_only_where_the_model_loads(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = failing(KeyError("w"), monkeypatch)
    assert (
        found.exit_code == 1
        and "the conversion failed: KeyError: 'w'" in found.stderr
        and "report" in found.stderr
    )
    (folder / "m.onnx").write_bytes(b"\xff")
    found = failing(KeyError("w"), monkeypatch)
    assert found.stderr.startswith("E13005: the model is not valid: onnxruntime cannot load it: ")
    assert (
        "  the conversion failed: KeyError: 'w'\n" in found.stderr and "report" not in found.stderr
    )


def test_the_complaints_of_the_checker_are_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It rejects two initializers of one name, which onnxruntime runs."""
    model = parse(SIMPLE)
    model.graph.initializer.add().CopyFrom(model.graph.initializer[0])
    onnx.save(model, "m.onnx")
    found = failing(KeyError("w"), monkeypatch)
    assert (
        "the conversion failed: KeyError: 'w'" in found.stderr and "initializer" not in found.stderr
    )


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _replaced_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


# What reads the weights then: the nodes that bring it about, and the options.
READERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "nobody": ("i = Identity (x) y = MatMul (i, w)", ("--no-verify",)),
    "a copy beside the result": (
        "i = Identity (x) y = MatMul (i, w)",
        ("--no-verify", "--output", "new/o.onnx"),
    ),
    "a pass": ("a = Add (x, w) b = Add (a, v) y = Relu (b)", ("--no-verify",)),
    "folding": ("n = Neg (w) y = MatMul (x, n)", ("--no-verify",)),
    "the file of all weights": (
        "i = Identity (x) y = MatMul (i, w)",
        ("--no-verify", "--external_weight", "1"),
    ),
    "verification": ("i = Identity (x) y = MatMul (i, w)", ()),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("harm", [_cut, Path.unlink, _replaced_by_a_folder])
def test_weights_that_are_harmed_once_the_model_is_read(
    harm: Callable[[Path], None], reader: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, words = READERS[reader]
    weights = "<float[64,64] w, float[64,64] v>" if reader == "a pass" else "<float[64,64] w>"
    model = parse(f"agraph (float[64,64] x) => (float[64,64] y) {weights} {{ {nodes} }}")
    onnx.save(model, "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (folder / "new").mkdir()
    before: dict[str, object] = {}
    load = fusionc.attempt.asked_model.load

    def load_and_harm(*arguments: Any, **options: Any) -> Any:
        loaded = load(*arguments, **options)
        harm(folder / "w.bin")
        before.update(contents(folder))
        return loaded

    monkeypatch.setattr(fusionc.attempt.asked_model, "load", load_and_harm)
    off = ("--optimization_switch", "SubnormalToZeroPass:off")  # which looks into every weight
    found = CliRunner().invoke(main, [*CONVERT, *words, *off], prog_name="fusionc")
    code = "E13005" if reader == "a pass" else "E13003" if harm is _cut else "E10410"
    case = Case("", valid, (code,), 2 if code == "E10410" else 1)
    assert_outcome(case, folder, before, found.exit_code, found.stdout, found.stderr)
