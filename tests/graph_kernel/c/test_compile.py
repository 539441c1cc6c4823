"""The compiler: which one it is, and what is said where there is none."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import time
from pathlib import Path

import pytest

from fusionc.graph_kernel.c import compile
from fusionc.graph_kernel.c.compile import (
    CompilerHangs,
    Contents,
    DoesNotCompile,
    NoCompiler,
    Unit,
    compile_units,
    compiler,
)
from fusionc.graph_kernel.library.build_library import compiled

pytestmark = pytest.mark.usefixtures("needs_a_compiler")


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoCompiler, match="no C compiler") as caught:
        compiler()
    assert "pip install ziglang" in caught.value.hint


def test_what_cc_makes_by_itself_runs_on_any_x86_64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever processor its distribution is made for; who names a compiler has said what it shall
    do.
    """
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    assert compiler() == ["/bin/cc", *(["-march=x86-64"] if platform.machine() == "x86_64" else [])]
    monkeypatch.setenv("CC", "cc -march=native")
    assert compiler() == ["cc", "-march=native"]


@pytest.mark.parametrize("named", ["no-such-compiler -O1", "'cc"])
def test_a_compiler_that_is_named_and_not_there(
    monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("CC", named)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: "ziglang")
    with pytest.raises(NoCompiler, match=f"CC names {named!r}, a command that cannot be found"):
        compiler()


@pytest.mark.parametrize(
    "script, reason",
    [
        ("#!/bin/sh\nexit 0\n", "the C compiler .*program failed without a message"),
        ("\1 no program", "cannot be run"),
    ],
)
def test_a_compiler_that_is_none(
    script: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    program = tmp_path / "program"
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.setenv("CC", str(program))
    with pytest.raises(DoesNotCompile, match=reason):
        compiled([Unit("int one(void) { return 1; }\n")])


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that never comes to its end, as one behind a licence server that does not
    answer.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nsleep 300 &\necho $! > pid\nwait\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CC", str(program))
    monkeypatch.setattr(compile, "_LONGEST", 0.3)
    monkeypatch.setattr(compile, "_LONGEST_ANSWER", 0.3)
    return program


def test_a_compiler_that_hangs_is_ended_and_named(hanging: Path) -> None:
    with pytest.raises(
        CompilerHangs, match=r"the C compiler .*program did not finish within 0\.3 s"
    ) as caught:
        compiled([Unit("int hangs(void) { return 1; }\n")])
    assert "CC" in caught.value.hint and "--enable_graph_kernel" in caught.value.hint
    sleeper = int(Path("pid").read_text())
    while Path(f"/proc/{sleeper}/stat").exists():  # the whole group is ended
        if Path(f"/proc/{sleeper}/stat").read_text().split(") ")[1][0] == "Z":
            break
        time.sleep(0.01)
    assert not list((hanging.parent / "cache").rglob("*.so"))


def test_what_is_wrong_with_one_text_ends_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_text(
        '#!/bin/sh\nfor last; do :; done\ngrep -q slow "$last" && sleep 60\necho wrong >&2\nexit 1\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(compile, "cores", lambda: 3)
    folder = tmp_path / "folder"
    folder.mkdir()
    begin = time.monotonic()
    with pytest.raises(DoesNotCompile, match="wrong"):
        units = [Unit("int one;"), Unit("int slow;"), Unit("int slower;")]
        compile_units([str(program)], [], units, folder / "library.so")
    assert time.monotonic() - begin < 30 and not list(folder.iterdir())


def test_the_library_is_the_same_on_any_number_of_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = [tmp_path / "one", tmp_path / "three"]
    for library, processors in zip(libraries, (1, 3), strict=True):
        monkeypatch.setattr(compile, "cores", lambda processors=processors: processors)
        units = [Unit(f"int number{k}(void) {{ return {k}; }}\n") for k in range(4)]
        compile_units(compiler(), compile.FLAGS, units, library)
    one, three = (library.read_bytes() for library in libraries)
    assert one == three


@pytest.mark.parametrize(
    ("says", "contents", "level"),
    [
        ("cc 12.2.0, a copyright of the Free Software Foundation, Inc.", Contents.LOOPS, "-O2"),
        ("cc 12.2.0, a copyright of the Free Software Foundation, Inc.", Contents.STEPS, "-O3"),
        ("cc 12.2.0, a copyright of the Free Software Foundation, Inc.", Contents.ANYTHING, "-O3"),
        ("clang version 20.1.2", Contents.LOOPS, "-O3"),  # it has other flags
    ],
)
def test_gcc_does_less_for_loops(says: str, contents: Contents, level: str, tmp_path: Path) -> None:
    program = tmp_path / "program"
    calls = tmp_path / "calls"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "{says}" && exit\necho "$@" >> {calls}\n'
        'while [ "$1" != -o ]; do shift; done\ntouch "$2"\n'
    )
    program.chmod(0o755)
    units = [Unit("int one;", contents), Unit("int two;")]
    compile_units([str(program)], compile.FLAGS, units, tmp_path / "library.so")
    # the linker comes last
    lines = sorted(calls.read_text().splitlines(), key=lambda line: "-shared" in line)
    levels = [[flag for flag in line.split() if flag.startswith("-O")][-1] for line in lines]
    assert sorted(levels[:2]) == sorted([level, "-O3"]) and levels[2:] == ["-O3"]
    calls.unlink()
    compile_units([str(program)], compile.FLAGS, units[:1], tmp_path / "library.so")
    (line,) = calls.read_text().splitlines()
    assert [flag for flag in line.split() if flag.startswith("-O")][-1] == level, (
        "a text alone is compiled alike"
    )
    is_less = contents is Contents.STEPS and "Foundation" in says
    assert ("-fno-tree-pre" in line.split()) == is_less
