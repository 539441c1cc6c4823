"""From areas to a library: built, kept in the cache, and what can go wrong there."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from areas import CHAIN, NORM, area_of

from fusionc.errors import FusioncError
from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c import compile as compile_module
from fusionc.graph_kernel.c import source as source_module
from fusionc.graph_kernel.c.compile import Contents, DoesNotCompile, Unit
from fusionc.graph_kernel.library import cache
from fusionc.graph_kernel.library.build_library import build, compiled
from fusionc.graph_kernel.library.kernel_library import KernelLibrary

pytestmark = pytest.mark.usefixtures("needs_a_compiler")


def test_an_area_that_does_not_compile_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = build.__globals__["units"]

    def broken(areas: list[Area]) -> list[Unit]:
        *others, last = real(areas)
        return (
            [*others, Unit(last.text + "#error bad\n")]
            if any(a.name == "bad" for a in areas)
            else [*others, last]
        )

    monkeypatch.setitem(build.__globals__, "units", broken)
    built = build([area_of(CHAIN, name="good"), area_of(NORM, name="bad")])
    assert list(built.failed) == ["bad"] and "#error" in built.failed["bad"]
    assert built.library


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    built = compiled([Unit("int three(void) { return 3; }\n")])
    assert built.is_file() and compiled([Unit("int three(void) { return 3; }\n")]) == built


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_text(self: Path, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(Path, "write_text", write_text)
    with pytest.raises(
        FusioncError, match="the cache of kernels cannot be written: No space left"
    ) as caught:
        compiled([Unit("int four(void) { return 4; }\n")])
    assert caught.value.where == str(cache.cache_folder())


def test_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = compiled([Unit("int one(void) { return 1; }\n")])
    file = first.stat().st_ino
    assert (
        compiled([Unit("int one(void) { return 1; }\n")]) == first and first.stat().st_ino == file
    )
    assert compiled([Unit("int one(void) { return 2; }\n")]) != first
    with pytest.raises(DoesNotCompile, match="error"):
        compiled([Unit("int one(void) { return }\n")])
    assert sorted(p.suffix for p in first.parent.iterdir()) == [".so", ".so"], (
        "nothing temporary is left"
    )


def test_what_several_need_at_once_is_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Libraries that share an object wait for each other, and so do those that are the same."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shared = Unit("int one(void) { return 1; }\n", Contents.RUNTIME)
    libraries = [[shared, Unit(f"int two(void) {{ return {k // 2}; }}\n")] for k in range(4)]
    sources = list[str]()
    real = compile_module._Compiler.run

    def run(self: compile_module._Compiler) -> str:
        sources.extend(word for word in self._command if word.endswith(".c"))
        return real(self)

    monkeypatch.setattr(compile_module._Compiler, "run", run)
    with ThreadPoolExecutor(len(libraries)) as pool:
        built = list(pool.map(compiled, libraries))
    assert len(set(built)) == 2 and len(sources) == 3
    assert {path.suffix for path in tmp_path.rglob("*.*")} == {".o", ".so"}


def test_the_cache_forgets_what_was_not_wanted_for_longest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache, "_MOST", 2)
    texts = [f"int one(void) {{ return {k}; }}\n" for k in range(3)]
    first = compiled([Unit(texts[0])])
    second = compiled([Unit(texts[1])])
    os.utime(first, (1, 1))
    os.utime(second, (2, 2))
    compiled([Unit(texts[0])])
    third = compiled([Unit(texts[2])])
    assert set(third.parent.iterdir()) == {first, third}


def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which does not count
    monkeypatch.setattr(Path, "home", home)
    assert cache.cache_folder().is_dir() and cache.cache_folder().is_absolute()


def test_it_is_told_how_far_the_compiler_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(source_module, "_UNIT", 1)
    told = list[str]()
    areas = [area_of(CHAIN, name="chain"), area_of(NORM, name="norm")]
    assert not KernelLibrary("onnxruntime-cpu", told.append).build(areas)
    assert told[0] == f"compiling kernels: part 1 of {len(told)}" and len(told) > len(areas)
    told.clear()
    assert not KernelLibrary("onnxruntime-cpu", told.append).build(areas)
    assert not told  # they are in the cache
