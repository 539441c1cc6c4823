"""From areas to a library that onnxruntime loads: its interface, the compiler, the cache, what can go wrong."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from areas import area_of, differences, kernel_model, plain_model, session

import fusionc
from fusionc.errors import FusioncError
from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c.compile import DoesNotCompile, NoCompiler, compiler
from fusionc.graph_kernel.c.source import kernel_of, reason_against, source
from fusionc.graph_kernel.library import cache
from fusionc.graph_kernel.library.build_library import build, compiled
from fusionc.graph_kernel.select.time_estimate import seconds_saved

pytestmark = pytest.mark.usefixtures("needs_a_compiler")

CHAIN = "g (float[N] x, float[M] y) => (float[K] z) { a = Add(x, y) z = Mul(a, x) }"
NORM = "g (float[N,C] x, float[C] s) => (float[N,C] z) { z = LayerNormalization(x, s) }"


def test_every_entry_of_the_interface() -> None:
    """Status, domain, operator, inputs, outputs, shapes and threads: all are used in these two runs."""
    area = area_of(CHAIN)
    built = build([area])
    kernel = session(kernel_model(area), built.library)
    large = {name: np.random.default_rng(0).standard_normal(3_000_000).astype(np.float32) for name in ("x", "y")}
    assert not differences([(large["x"] + large["y"]) * large["x"]], kernel.run(None, large))
    with pytest.raises(Exception, match="sizes cannot be broadcast"):
        kernel.run(None, {"x": np.zeros(3, np.float32), "y": np.zeros(4, np.float32)})


def test_sizes_that_contradict_the_area_are_an_error() -> None:
    area = area_of(NORM)
    kernel = session(kernel_model(area), build([area]).library)
    with pytest.raises(Exception, match="sizes differ that must be equal"):
        kernel.run(None, {"x": np.zeros((2, 3), np.float32), "s": np.zeros(4, np.float32)})
    with pytest.raises(Exception, match=r"[Rr]ank"):
        kernel.run(None, {"x": np.zeros((2, 3, 4), np.float32), "s": np.zeros(4, np.float32)})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(float[4] z) <int64 i = {5}> { a = Neg(x) z = Gather(a, i) }", "Gather beyond the end"),
        ("(float[4] z) <int64 i = {-4}> { a = Neg(x) z = Gather(a, i) }", "Gather beyond the end"),
        ("(float[4] z) <int64[1] s = {0}> { a = Neg(x) z = Squeeze(a, s) }", "Squeeze of a size that is not 1"),
        ("(float[2,4] z) <int64[2] s = {2, 4}> { a = Reshape(x, s) z = Neg(a) }", "cannot change the number"),
        ("(float[?,4] z) { a = Neg(x) y, v, w, u, z = Split <num_outputs = 5>(a) }", "more parts than there are"),
        ("(float[?,4] z) <int64[2] s = {1, 4}> { a = Neg(x) y, z = Split(a, s) }", "parts of Split are not the whole"),
    ],
)
def test_sizes_that_an_operator_cannot_take_are_an_error(text: str, message: str) -> None:
    area = area_of(f"g (float[N,4] x) => {text}")
    kernel = session(kernel_model(area), build([area]).library)
    with pytest.raises(Exception, match=message):
        kernel.run(None, {"x": np.zeros((3, 4), np.float32)})


@pytest.mark.parametrize("n, m", [(5, 5), (1, 5), (5, 1), (1, 1), (0, 1), (0, 0)])
def test_an_unknown_size_may_broadcast(n: int, m: int) -> None:
    area = area_of(CHAIN)
    built = build([area])
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal(n).astype(np.float32), "y": rng.standard_normal(m).astype(np.float32)}
    wanted = session(plain_model(area)).run(None, feeds)
    assert not differences(wanted, session(kernel_model(area), built.library).run(None, feeds))


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_long_doubles_are_what_they_were(op: str) -> None:
    """A kernel that uses MMX registers makes the long doubles of the process NaN."""
    area = area_of(f"g (int32[N,M] x) => (int32[1,M] z) <int64[1] a = {{0}}> {{ y = Neg(x) z = {op}(y, a) }}")
    kernel = session(kernel_model(area), build([area]).library)
    numbers = np.arange(5, dtype=np.longdouble)
    kernel.run(None, {"x": np.zeros((3, 5), np.int32)})
    assert (numbers / 3 + numbers * numbers).sum() > 33


def test_equal_areas_share_a_kernel() -> None:
    one, other = area_of(CHAIN, name="one"), area_of(CHAIN.replace("a =", "b =").replace("(a,", "(b,"), name="other")
    assert kernel_of(one).function == kernel_of(other).function
    assert source([one, other, one]).count("_plan(const") == 1
    with pytest.raises(ValueError, match="two different areas"):
        source([one, area_of(NORM, name="one")])


def test_what_no_kernel_computes_is_refused_in_words() -> None:
    area = area_of("g (float[N,4] x, float[4,4] y) => (float[N,4] z) { z = MatMul(x, y) }", name="product")
    assert reason_against(area) == "no kernel computes MatMul"
    built = build([area, area_of(CHAIN, name="chain")])
    assert built.failed == {"product": "no kernel computes MatMul"}
    assert built.library and built.library.is_file()
    assert build([area]).library is None


@pytest.mark.parametrize("end", [2**31 - 1, 2**63 - 1])
def test_a_slice_backwards_to_the_largest_end_is_refused(end: int) -> None:
    """By the standard it is empty, in onnxruntime it goes on to the front."""
    numbers = f"int64[1] s = {{-1}}, int64[1] e = {{{end}}}, int64[1] a = {{0}}, int64[1] t = {{-1}}"
    area = area_of(f"g (float[N] x) => (float[M] z) <{numbers}> {{ y = Slice(x, s, e, a, t) z = Neg(y) }}")
    assert reason_against(area) == "onnxruntime reads the end of a Slice backwards in a way of its own"


def test_what_an_area_saves() -> None:
    def chain(count: int) -> str:
        calls = " ".join(f"v{k + 1} = Neg(v{k})" for k in range(count))
        return f"g (float[N] v0) => (float[N] v{count}) {{ {calls} }}"

    short, long = area_of(chain(2)), area_of(chain(8))
    assert seconds_saved(long, {"N": 1000}) > seconds_saved(short, {"N": 1000}) > 0
    assert seconds_saved(long, {"N": 1_000_000}) > 10 * seconds_saved(long, {"N": 1000})


@pytest.mark.parametrize(
    "text",
    [
        "g (float[N] x, float[3] c) => (float[3] z) { a = Exp(x) b = Add(a, c) z = Tanh(b) }",
        "g (float[N] x) => (float[1,5] z) <float[1,5] c = {1, 2, 3, 4, 5}> { a = Exp(x) b = Add(a, c) z = Tanh(b) }",
        "g (float[N,M] x) => (float[N,4] z) <int64[2] s = {4, 6}> { a = Exp(x) p, z = Split <axis = 1>(a, s) }",
        "g (float[N,4] x) => (float[4] z) <int64 i = {100}> { a = Exp(x) z = Gather(a, i) }",
        "g (float[N,4] x) => (float[4] z) <int64 i = {-100}> { a = Exp(x) z = Gather(a, i) }",
        "g (float[N,M] x) => (float[M] z) <int64[1] s = {0}> { a = Exp(x) z = Squeeze(a, s) }",
        "g (float[N,M] x, float[N,3] y) => (float[K,M] z) { a = Exp(x) z = Concat <axis = 0>(a, y) }",
        "g (float[N] x, float[M] y, float[3] c) => (float[3] z) { a = Add(x, c) b = Add(y, c) z = Mul(a, b) }",
    ],
)
def test_what_an_area_saves_whose_symbols_stand_for_few_numbers(text: str) -> None:
    assert seconds_saved(area_of(text), {}) > 0


def test_an_area_that_does_not_compile_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = build.__globals__["source"]

    def broken(areas: list[Area]) -> str:
        text: str = real(areas)
        return text + "#error bad\n" if any(a.name == "bad" for a in areas) else text

    monkeypatch.setitem(build.__globals__, "source", broken)
    built = build([area_of(CHAIN, name="good"), area_of(NORM, name="bad")])
    assert list(built.failed) == ["bad"] and "#error" in built.failed["bad"]
    assert built.library


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    built = compiled("int three(void) { return 3; }\n")
    assert built.is_file() and compiled("int three(void) { return 3; }\n") == built


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_text(self: Path, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(Path, "write_text", write_text)
    with pytest.raises(FusioncError, match="the cache of kernels cannot be written: No space left") as caught:
        compiled("int four(void) { return 4; }\n")
    assert caught.value.where == str(cache.cache_folder())


def test_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = compiled("int one(void) { return 1; }\n")
    file = first.stat().st_ino
    assert compiled("int one(void) { return 1; }\n") == first and first.stat().st_ino == file
    assert compiled("int one(void) { return 2; }\n") != first
    with pytest.raises(DoesNotCompile, match="error"):
        compiled("int one(void) { return }\n")
    assert sorted(p.suffix for p in first.parent.iterdir()) == [".so", ".so"], "nothing temporary is left"


def test_the_cache_forgets_what_was_not_wanted_for_longest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache, "_MOST", 2)
    texts = [f"int one(void) {{ return {k}; }}\n" for k in range(3)]
    first, second = compiled(texts[0]), compiled(texts[1])
    os.utime(first, (1, 1))
    os.utime(second, (2, 2))
    compiled(texts[0])
    third = compiled(texts[2])
    assert set(third.parent.iterdir()) == {first, third}


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoCompiler, match="no C compiler") as caught:
        compiler()
    assert "pip install ziglang" in caught.value.hint


@pytest.mark.parametrize("named", ["no-such-compiler -O1", "'cc"])
def test_a_compiler_that_is_named_and_not_there(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("CC", named)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: "ziglang")
    with pytest.raises(NoCompiler, match=f"CC names {named!r}, which is no command that can be found"):
        compiler()


@pytest.mark.parametrize(
    "script, reason",
    [("#!/bin/sh\nexit 0\n", "the C compiler .*program failed without a word"), ("\1 no program", "cannot be run")],
)
def test_a_compiler_that_is_none(script: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    program = tmp_path / "program"
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.setenv("CC", str(program))
    with pytest.raises(DoesNotCompile, match=reason):
        compiled("int one(void) { return 1; }\n")


def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which does not count
    monkeypatch.setattr(Path, "home", home)
    assert cache.cache_folder().is_dir() and cache.cache_folder().is_absolute()


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
    call = [sys.executable, "-c", REGISTERED_WHILE_RUNNING, tmp_path / "out.onnx", build([area]).library]
    assert not subprocess.run([str(part) for part in call], check=False).returncode


def test_register_kernels(tmp_path: Path) -> None:
    area = area_of(CHAIN)
    model = tmp_path / "out.onnx"
    onnx.save(kernel_model(area), model)
    with pytest.raises(fusionc.UsageError, match="no kernels beside it") as missing:
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
    got = ort.InferenceSession(model, options).run(None, {"x": np.ones(3, np.float32), "y": np.ones(3, np.float32)})
    assert got[0].tolist() == [2, 2, 2]
    fusionc.register_kernels(options, model)  # again, which changes nothing
    ort.InferenceSession(model, options)
    shutil.copyfile(built.library, tmp_path / "other.kernels.so")
    with pytest.raises(fusionc.UsageError, match=r"kernels of another model already: out\.kernels\.so") as other:
        fusionc.register_kernels(options, tmp_path / "other.onnx")
    assert "SessionOptions for each model" in other.value.hint
    fusionc.register_kernels(ort.SessionOptions(), tmp_path / "other.onnx")


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("none.onnx", "the model does not exist"),
        ("out.kernels.so", "this is a library of kernels, not a model"),
        (".", "the model is a folder"),
    ],
)
def test_what_is_no_model_to_register(path: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out.kernels.so").touch()
    with pytest.raises(fusionc.UsageError, match=problem) as caught:
        fusionc.register_kernels(ort.SessionOptions(), path)
    assert caught.value.where == path and caught.value.hint


def test_the_public_api_is_quick() -> None:
    code = "import sys, fusionc; fusionc.register_kernels; assert not {'onnx', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)
