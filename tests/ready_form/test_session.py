"""`fusionc.session` uses a ready form where it fits, and says why where it does not."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from harness import parse

import fusionc
from fusionc.graph_kernel.library.location import _DOMAIN
from fusionc.model.operators import KERNELS
from fusionc.ready_form import session as module
from fusionc.ready_form.machine import Machine, this_machine

FEEDS = {
    "x": np.random.default_rng(0).standard_normal((2, 3, 8, 8), np.float32),
    "at": np.arange(5),
}
AREA = """g (float[N,8] x, float[8] g) => (float[N,8] y) <float[8] c> {
    a = Mul (x, c)  b = Exp (a)  s = Add (b, x)  n = LayerNormalization (s, g)  t = Tanh (n)  y = Sub (t, x) }"""


@pytest.fixture
def folder(converted: Path, tmp_path: Path) -> Path:
    """A copy of what was written, its times as well."""
    return Path(shutil.copytree(converted, tmp_path / "copy"))


def is_ready(session: ort.InferenceSession) -> bool:
    return ".ready." in Path(session._model_path).name


def falls_back(model: Path, match: str) -> ort.InferenceSession:
    with pytest.warns(UserWarning, match=match):
        session = fusionc.session(model)
    assert not is_ready(session)
    return session


def test_it_is_used_and_gives_the_same_to_the_bit(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = fusionc.session(folder / "out.onnx")
    assert is_ready(session)
    wanted = ort.InferenceSession(folder / "out.onnx").run(None, FEEDS)
    assert [output.tobytes() for output in session.run(None, FEEDS)] == [
        output.tobytes() for output in wanted
    ]


@pytest.mark.usefixtures("needs_a_compiler")
def test_kernels_that_are_missing_are_said_to_be(tmp_path: Path) -> None:
    onnx.save(parse(AREA), tmp_path / "in.onnx")
    report = fusionc.convert(
        tmp_path / "in.onnx", output=tmp_path / "out.onnx", enable_graph_kernel=True, log="null"
    )
    assert report.kernels is not None and _DOMAIN.decode() == KERNELS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fusionc.session(tmp_path / "in.onnx")
        fusionc.session(tmp_path / "out.onnx")
    report.kernels.unlink()
    with pytest.warns(
        UserWarning, match=r"there is no out.kernels.so next to it. Its areas run without kernels"
    ):
        fusionc.session(tmp_path / "out.onnx")


def test_a_copy_is_read_once_and_used(folder: Path) -> None:
    for path in folder.iterdir():
        os.utime(path, (0, 0))
    assert is_ready(fusionc.session(folder / "out.onnx"))


@pytest.mark.parametrize(
    "change, match",
    [
        ({"onnxruntime": "1.99.0"}, "made with onnxruntime .*, and this is 1.99.0"),
        ({"build": "mine"}, "another build of onnxruntime"),
        ({"system": "plan9 mips"}, "and this is plan9 mips"),
        ({"instructions": ()}, "made on a processor with .* more, which this one does not have"),
        (
            {"instructions": (*this_machine().instructions, "AVX1024")},
            "made on a processor without AVX1024, which this one has",
        ),
    ],
)
def test_another_machine_takes_the_model_as_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], match: str
) -> None:
    here: Machine = replace(this_machine(), **change)
    monkeypatch.setattr(module, "this_machine", lambda: here)
    outputs = falls_back(folder / "out.onnx", match).run(None, FEEDS)
    assert (
        outputs[0].tobytes()
        == ort.InferenceSession(folder / "out.onnx").run(None, FEEDS)[0].tobytes()
    )


def flip(path: Path) -> None:
    """Another byte in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def replace_text(folder: Path, old: str, new: str) -> None:
    path = folder / "out.session.json"
    path.write_text(path.read_text().replace(old, new))


def only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


@pytest.mark.parametrize(
    "change, match",
    [
        (lambda folder: flip(only(folder, "out.*.data")), "or was changed: out.onnx..*.data"),
        (lambda folder: os.truncate(only(folder, "out.*.data"), 5000), "or was changed"),
        (lambda folder: only(folder, "out.*.data").unlink(), "that is missing"),
        (
            lambda folder: flip(only(folder, "out.*.ready.onnx")),
            "or was changed: out..*.ready.onnx",
        ),
        (lambda folder: only(folder, "out.*.ready.onnx").unlink(), "that is missing"),
        (
            lambda folder: shutil.copy(folder / "in.onnx", folder / "out.onnx"),
            "belongs to another model",
        ),
        (lambda folder: (folder / "out.session.json").write_text("{"), "cannot be read"),
        (lambda folder: (folder / "out.session.json").write_text('{"model": 1}'), "model is 1"),
        (lambda folder: replace_text(folder, '"bytes": ', '"bytes": "1", "was": '), 'bytes is "1"'),
        (
            lambda folder: replace_text(folder, '"name": "out.', '"name": "../out.'),
            "belongs to another model",
        ),
        (
            lambda folder: replace_text(folder, '"instructions": [', '"instructions": 1, "was": ['),
            "instructions is 1",
        ),
        (lambda folder: (folder / "out.session.json").write_text("[]"), "not a JSON object"),
        (
            lambda folder: (folder / "out.session.json").write_text("[" * 100_000),
            "nested too deeply",
        ),
        (lambda folder: (folder / "out.session.json").write_bytes(b"\xff\xfe"), "cannot be read"),
        (lambda folder: (folder / "out.kernels.so").touch(), "made for other kernels"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*areas run without kernels")
def test_what_was_changed_is_not_used(
    folder: Path, change: Callable[[Path], None], match: str
) -> None:
    change(folder)
    assert falls_back(folder / "out.onnx", match).run(None, FEEDS)[0].shape == (2, 40)


def test_weights_in_files_of_the_original_may_change(folder: Path) -> None:
    model = onnx.load(folder / "in.onnx")
    onnx.save(
        model,
        folder / "of.onnx",
        save_as_external_data=True,
        location="of.data",
        size_threshold=1000,
    )
    fusionc.convert(folder / "of.onnx", output=folder / "to.onnx", ready=True, log="null")
    assert is_ready(fusionc.session(folder / "to.onnx"))
    flip(folder / "of.data")
    found = falls_back(folder / "to.onnx", "made with other weights: of.data is not").run(
        None, FEEDS
    )
    wanted = ort.InferenceSession(folder / "to.onnx").run(None, FEEDS)
    assert [output.tobytes() for output in found] == [output.tobytes() for output in wanted]


def test_what_onnxruntime_cannot_load_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "empty.onnx").touch()
    monkeypatch.setattr(module, "ready_model", lambda *_: folder / "empty.onnx")
    falls_back(folder / "out.onnx", "cannot be loaded")


def test_options_are_used_and_stay_as_they_are(folder: Path) -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = fusionc.session(folder / "out.onnx", options)
    assert is_ready(session) and session.get_session_options().intra_op_num_threads == 1
    assert options.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert not is_ready(fusionc.session(folder / "out.onnx", options))


def test_a_model_without_a_ready_form(converted: Path) -> None:
    assert not is_ready(fusionc.session(converted / "in.onnx"))
    for missing, problem in (
        (converted / "none.onnx", "does not exist"),
        (converted, "is a folder"),
    ):
        with pytest.raises(fusionc.UsageError, match=problem):
            fusionc.session(missing)


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.filterwarnings("ignore:.*areas run without kernels")
def test_with_kernels(tmp_path: Path) -> None:
    onnx.save(parse(AREA), tmp_path / "in.onnx")
    model = tmp_path / "out.onnx"
    fusionc.convert(
        tmp_path / "in.onnx", output=model, ready=True, enable_graph_kernel=True, log="null"
    )
    feeds = {"x": np.ones((3, 8), np.float32), "g": np.ones(8, np.float32)}
    options = ort.SessionOptions()
    fusionc.register_kernels(options, model)
    (wanted,) = ort.InferenceSession(model, options).run(None, feeds)
    session = fusionc.session(model)
    assert is_ready(session) and session.run(None, feeds)[0].tobytes() == wanted.tobytes()
    (tmp_path / "out.kernels.so").unlink()
    np.testing.assert_allclose(
        falls_back(model, "other kernels").run(None, feeds)[0], wanted, rtol=1e-5
    )


def test_a_model_in_memory_is_no_path() -> None:
    model: Any = parse(AREA)
    with pytest.raises(fusionc.UsageError, match="model is a ModelProto, not a path"):
        fusionc.session(model)


def test_providers_are_those_that_are_asked_for(folder: Path) -> None:
    assert is_ready(fusionc.session(folder / "out.onnx", providers=["CPUExecutionProvider"]))
    with_options = [("CPUExecutionProvider", {"use_arena": "0"})]
    assert not is_ready(fusionc.session(folder / "out.onnx", None, with_options))


@pytest.mark.parametrize("options", [["CPUExecutionProvider"], "cpu", {"threads": 2}])
def test_what_are_no_session_options(folder: Path, options: Any) -> None:
    for call in (
        lambda: fusionc.session(folder / "out.onnx", options),
        lambda: fusionc.register_kernels(options, folder),
    ):
        with pytest.raises(fusionc.UsageError, match="SessionOptions, not"):
            call()
