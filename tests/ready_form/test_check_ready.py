"""`fusionc verify` runs the ready form of the candidate as well."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

from fusionc.cli import main
from fusionc.ready_form import check_ready as module
from fusionc.ready_form.check_ready import check_ready
from fusionc.ready_form.session_file import identity_of


@pytest.fixture
def folder(converted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(converted, tmp_path / "copy"))


def verify(folder: Path) -> tuple[int, str]:
    words = [
        "verify",
        str(folder / "in.onnx"),
        str(folder / "out.onnx"),
        "--runtime_level=disabled",
    ]
    result = CliRunner().invoke(main, words)
    return result.exit_code, result.stdout.splitlines()[-1]


def with_other_weights(folder: Path) -> None:
    """A ready form of which the session file says that all is as it was written, and which computes
    something else.
    """
    (weights,) = folder.glob("out.onnx.*.data")
    (form,) = folder.glob("out.*.ready.onnx")
    (w,) = [
        t
        for t in onnx.load(form, load_external_data=False).graph.initializer
        if list(t.dims) == [1024, 40]
    ]
    begin = int(next(entry.value for entry in w.external_data if entry.key == "offset"))
    content = bytearray(weights.read_bytes())
    content[begin : begin + 4096] = bytes(4096)
    weights.write_bytes(content)
    known = json.loads((folder / "out.session.json").read_text())
    known["ready"]["weights"] = asdict(identity_of(weights, weights.name))
    (folder / "out.session.json").write_text(json.dumps(known))


def test_a_right_one_and_a_wrong_one(folder: Path) -> None:
    code, last = verify(folder)
    assert code == 0 and last.startswith("its ready form gives the same bits in ")
    with_other_weights(folder)
    code, last = verify(folder)
    assert code == 3 and last.startswith(
        "its ready form is wrong: its results differ from those of the model: seed 0"
    )


def test_one_that_is_not_used_here(folder: Path) -> None:
    (data,) = folder.glob("out.onnx.*.data")
    os.truncate(data, 4096)
    code, last = verify(folder)
    assert code == 0 and last.startswith(
        "its ready form is not used on this machine: it needs a file that is missing"
    )


def test_kernels_of_others_are_not_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "out.kernels.so").write_bytes(b"another's")
    monkeypatch.setattr(module, "ready_model", lambda *_: folder / "out.onnx")
    found = check_ready(folder / "out.onnx", {}, None)
    assert found.is_right and "was not compiled by this user's fusionc" in found.summary
