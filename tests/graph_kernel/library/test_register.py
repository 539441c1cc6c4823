"""Kernels in a session of onnxruntime."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from areas import CHAIN, area_of, kernel_model
from harness import parse

import fusionc
from fusionc.graph_kernel.library.build_library import build

pytestmark = pytest.mark.usefixtures("needs_a_compiler")


REGISTERED_WHILE_RUNNING = """
import sys, threading, time
import numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = 1
options.register_custom_ops_library(sys.argv[2])
session = ort.InferenceSession(sys.argv[1], options)
end = time.monotonic() + 4
def run():
    while time.monotonic() < end:
        session.run(None, {"x": np.ones(3, np.float32), "y": np.ones(3, np.float32)})
threads = [threading.Thread(target=run) for _ in range(2)]
for thread in threads:
    thread.start()
while time.monotonic() < end:
    ort.SessionOptions().register_custom_ops_library(sys.argv[2])
"""


def test_a_library_may_be_registered_while_it_runs(tmp_path: Path) -> None:
    area = area_of(CHAIN)
    onnx.save(kernel_model(area), tmp_path / "out.onnx")
    call = [
        sys.executable,
        "-c",
        REGISTERED_WHILE_RUNNING,
        tmp_path / "out.onnx",
        build([area]).library,
    ]
    assert not subprocess.run([str(part) for part in call], check=False).returncode


@pytest.mark.parametrize("share", [0.01, 0.5, 0.999])
def test_a_library_that_is_cut_off(share: float, tmp_path: Path) -> None:
    """The system would end the process that reads what is not there."""
    area = area_of(CHAIN)
    onnx.save(kernel_model(area), tmp_path / "out.onnx")
    whole = build([area]).library.read_bytes()
    (tmp_path / "out.kernels.so").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(
        fusionc.FusioncError, match="the kernels cannot be loaded: the file is cut off"
    ):
        fusionc.register_kernels(ort.SessionOptions(), tmp_path / "out.onnx")
    with pytest.warns(UserWarning, match="Its areas run without kernels"):
        fusionc.session(tmp_path / "out.onnx")


def test_register_kernels(tmp_path: Path) -> None:
    area = area_of(CHAIN)
    model = tmp_path / "out.onnx"
    onnx.save(kernel_model(area), model)
    in_memory: Any = onnx.load(model)
    with pytest.raises(fusionc.UsageError, match="model is a ModelProto, not a path"):
        fusionc.register_kernels(ort.SessionOptions(), in_memory)
    with pytest.raises(
        fusionc.UsageError, match="has areas, but its kernels are not next to it"
    ) as missing:
        fusionc.register_kernels(ort.SessionOptions(), model)
    assert missing.value.code == "E10410" and "out.kernels.so" in missing.value.where
    (tmp_path / "out.kernels.so").write_bytes(b"\x7fELF of another machine")
    with pytest.raises(fusionc.FusioncError, match="another kind of machine"):
        fusionc.register_kernels(ort.SessionOptions(), model)
    built = build([area])
    assert built.library
    shutil.copyfile(built.library, tmp_path / "out.kernels.so")
    options = ort.SessionOptions()
    fusionc.register_kernels(options, model)
    got = ort.InferenceSession(model, options).run(
        None, {"x": np.ones(3, np.float32), "y": np.ones(3, np.float32)}
    )
    assert got[0].tolist() == [2, 2, 2]
    fusionc.register_kernels(options, model)  # again, which changes nothing
    ort.InferenceSession(model, options)
    shutil.copyfile(built.library, tmp_path / "other.kernels.so")
    with pytest.raises(
        fusionc.UsageError, match=r"kernels of another model already: out\.kernels\.so"
    ) as other:
        fusionc.register_kernels(options, tmp_path / "other.onnx")
    assert "SessionOptions for each model" in other.value.hint
    fusionc.register_kernels(ort.SessionOptions(), tmp_path / "other.onnx")


def test_a_model_without_areas_needs_no_kernels(tmp_path: Path) -> None:
    """So that one script deploys every result of a conversion, whether it made areas or not."""
    model = parse("agraph (float[N] x) => (float[N] y) { y = Relu (x) }")
    onnx.save(model, tmp_path / "in.onnx")
    report = fusionc.convert(
        tmp_path / "in.onnx", output=tmp_path / "out.onnx", enable_graph_kernel=True
    )
    assert report.kernels is None
    options = ort.SessionOptions()
    fusionc.register_kernels(options, tmp_path / "out.onnx")
    (y,) = ort.InferenceSession(tmp_path / "out.onnx", options).run(
        None, {"x": np.array([-1, 2], np.float32)}
    )
    assert y.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("none.onnx", "the model does not exist"),
        ("out.kernels.so", "this is a library of kernels, not a model"),
        (".", "the model is a folder"),
    ],
)
def test_what_is_no_model_to_register(
    path: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out.kernels.so").touch()
    with pytest.raises(fusionc.UsageError, match=problem) as caught:
        fusionc.register_kernels(ort.SessionOptions(), path)
    assert caught.value.where == path and caught.value.hint


def test_the_public_api_is_quick() -> None:
    code = "import sys, fusionc; fusionc.register_kernels; assert not {'onnx', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)
