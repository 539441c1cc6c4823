"""Kernels damaged on the disk, in the cache or beside a model: what is noticed, and what comes of
it.

Each row is damage × place. The kernels are made again, or an error names the file; the result is
never wrong, and a model is never left with a library that does not load.
"""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from harness import parse
from models_with_areas import GATE

import fusionc
from fusionc.graph_kernel.c.compile import Contents, Unit
from fusionc.graph_kernel.library.build_library import compiled
from fusionc.graph_kernel.library.cache import cache_folder

pytestmark = pytest.mark.usefixtures("needs_a_compiler")


def cut(share: float) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        whole = file.read_bytes()
        file.write_bytes(whole[: int(share * len(whole))])

    return damage


def cut_by_64_bytes(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-64])


def flip_a_byte(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 3] ^= 0xFF
    file.write_bytes(whole)


def append(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"more")


def replace_by_another(file: Path) -> None:
    file.write_bytes(b"int main;")


VISIBLE = '__attribute__((visibility("default")))'
DAMAGE = {
    "cut by 64 bytes": cut_by_64_bytes,
    "cut in half": cut(0.5),
    "empty": cut(0),
    "a byte flipped": flip_a_byte,
    "longer": append,
    "another file": replace_by_another,
    "gone": Path.unlink,
}


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with in.onnx, what one conversion made of it, and the cache with its kernels."""
    folder = tmp_path_factory.mktemp("converted")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        onnx.save(parse(GATE), "in.onnx")
        fusionc.convert("in.onnx", output="first.onnx", enable_graph_kernel=True, verify=False)
    return folder


@pytest.fixture
def kernels(converted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache, in which lie the kernels of one conversion of in.onnx, in a copy of its folder."""
    shutil.copytree(converted, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fusionc" / "kernels"


def outputs(model: str) -> np.ndarray:
    options = ort.SessionOptions()
    fusionc.register_kernels(options, model)
    session = ort.InferenceSession(model, options)
    x = np.linspace(-3, 3, 16, dtype=np.float32).reshape(2, 8)
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("verify", [True, False], ids=["verified", "not verified"])
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_library_in_the_cache_is_made_again(
    kernels: Path, damage: Callable[[Path], None], verify: bool
) -> None:
    (library,) = kernels.glob("*.so")
    good = library.read_bytes()
    damage(library)
    report = fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True, verify=verify)
    assert report.kernels == Path("out.kernels.so") and Path("out.kernels.so").read_bytes() == good
    assert [file.read_bytes() for file in kernels.glob("*.so")] == [good]
    assert outputs("out.onnx").tobytes() == outputs("first.onnx").tobytes()


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_library_beside_a_model_is_not_passed_on(
    kernels: Path, damage: Callable[[Path], None]
) -> None:
    """Its areas run without kernels; converted from the original, the model gets them again."""
    good = Path("first.kernels.so").read_bytes()
    damage(Path("first.kernels.so"))
    report = fusionc.convert("first.onnx", output="second.onnx")
    assert report.kernels is None and not Path("second.kernels.so").exists()
    assert report.verification is not None and report.verification.startswith("equal")
    if Path("first.kernels.so").exists():
        assert any("first.kernels.so was not compiled by" in notice for notice in report.notices)
        Path("first.kernels.so").unlink()
    fusionc.convert("in.onnx", output="first.onnx", enable_graph_kernel=True)
    assert Path("first.kernels.so").read_bytes() == good


@pytest.mark.parametrize(
    "damage", ["cut by 64 bytes", "cut in half", "empty", "another file", "gone"]
)
def test_a_damaged_library_is_not_registered(kernels: Path, damage: str) -> None:
    """A byte flipped in machine code is not seen: that needs a signature, which a model has no
    place for.
    """
    DAMAGE[damage](Path("first.kernels.so"))
    with pytest.raises(fusionc.FusioncError, match="kernels") as caught:
        fusionc.register_kernels(ort.SessionOptions(), "first.onnx")
    assert caught.value.where == "first.kernels.so" and caught.value.hint
    with pytest.warns(UserWarning, match="areas run without kernels"):
        fusionc.session("first.onnx")


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_object_in_the_cache_is_compiled_again(
    damage: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Libraries share the compiled parts that lie there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shared = Unit(f"{VISIBLE} int two(void) {{ return 2; }}\n", Contents.STEPS)
    compiled([Unit("int one(void) { return 1; }\n"), shared])
    (part,) = cache_folder().glob("*.o")
    good = part.read_bytes()
    damage(part)
    library = compiled([Unit("int three(void) { return 3; }\n"), shared])
    assert [file.read_bytes() for file in cache_folder().glob("*.o")] == [good]
    assert ctypes.CDLL(str(library)).two() == 2
