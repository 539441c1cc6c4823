"""C texts → a shared library, with the compiler of the machine or that of the optional extra."""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from threading import Lock

from fusionc.errors import FusioncError
from fusionc.runtime.cores import cores


class Contents(Enum):
    """What a C text has: bodies of loops and tables, functions of steps of blocked programs, or
    anything.
    """

    LOOPS = "loops"
    STEPS = "steps"
    ANYTHING = "anything"


# NaN, infinities, signs of zeros and the order of operations are kept. Only errno and traps, which
# nobody asks about, are given up: loops over conditions become vectors. A multiplication and an
# addition are fused
# where the text says so.
FLAGS = (
    "-std=c11", "-O3", "-fPIC", "-fvisibility=hidden", "-fopenmp-simd", "-fno-math-errno",
    "-fno-trapping-math", "-ffp-contract=off", "-fwrapv", "-w",
)  # fmt: skip
# What gcc need not do, by what a text has: kernels are as fast without it. Bodies of loops compile
# in half the time (benchmarks/compile_time.py). Their cost model is that of -O3, without which
# loops over
# rows of unknown strides are not made vectors. -fno-expensive-optimizations would save another
# eighth, but switches
# off what puts vzeroupper behind vectors, without which calls of the C library take up to fifty
# times as long,
# and what onnxruntime runs next takes longer.
_LESS = {
    Contents.ANYTHING: (),
    Contents.STEPS: ("-fira-region=one", "-fno-gcse", "-fno-schedule-insns2", "-fno-tree-vrp", "-fno-tree-pre"),
    Contents.LOOPS: (
        "-O2", "-fvect-cost-model=dynamic", "--param", "vect-epilogues-nomask=0", "-fira-region=one", "-fno-gcse",
        "-fno-schedule-insns2", "-fno-tree-vrp",
    ),
}  # fmt: skip

_LONGEST = 900.0  # seconds for one text; the longest seen took 30
_LONGEST_ANSWER = 60.0  # seconds for the compiler's version

# What every processor of the kind has: some distributions build their compiler for newer ones. A
# kernel chooses among the functions for those itself.
_OLDEST = ("-march=x86-64",) if platform.machine() in ("x86_64", "AMD64") else ()


@dataclass(frozen=True)
class Unit:
    """A C text that is compiled alone."""

    text: str
    contents: Contents = Contents.ANYTHING

    def flags(self, command: Sequence[str]) -> tuple[str, ...]:
        """What this compiler is told of this text, behind the flags for all."""
        less = _LESS[self.contents]
        return less if less and "Free Software Foundation" in version_of(tuple(command)) else ()


Tell = Callable[[int, int], None]  # of how many texts are compiled, and of how many


def quiet(done: int, of: int) -> None:
    """Tells nobody."""


class NoCompiler(FusioncError):
    """There is no C compiler, or not the one that is wanted."""

    def __init__(self, what: str = "no C compiler was found") -> None:
        super().__init__(
            f"{what}, so areas stay functions without kernels",
            hint=(
                "install one (cc, or `pip install ziglang`) or name one in the environment "
                "variable CC"
            ),
        )


class DoesNotCompile(Exception):
    """The compiler refuses a text; what it says."""


class CompilerHangs(FusioncError):
    """The compiler did not come to its end within the limit of one text."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(
            f"the C compiler {name} did not finish within {seconds:g} s, the limit for one text",
            hint="nothing was written; name another compiler in the environment variable CC, or leave "
            "out --enable_graph_kernel",
        )


def compiler() -> list[str]:
    """The command of the C compiler: $CC, else cc, else that of ziglang. Raises NoCompiler."""
    given = os.environ.get("CC", "")
    try:
        named = shlex.split(given)
    except ValueError:  # a quotation without its end
        named = [given]
    if named and shutil.which(named[0]):
        return named
    if named:
        raise NoCompiler(f"CC names {given!r}, which is no command that can be found")
    if found := shutil.which("cc"):
        return [found, *_OLDEST]
    if importlib.util.find_spec("ziglang"):
        # else it compiles for this machine alone
        return [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]
    raise NoCompiler


@cache
def version_of(command: tuple[str, ...]) -> str:
    """What a compiler says of itself; empty where it says nothing."""
    question = _Compiler([*command, "--version"], _LONGEST_ANSWER)
    try:
        return question.run()
    except DoesNotCompile:  # compiling will tell what is wrong
        return ""
    finally:
        question.end()


def compile_units(
    command: Sequence[str],
    flags: Sequence[str],
    units: Sequence[Unit],
    library: Path,
    kept: Mapping[Unit, Path] | None = None,
    tell: Tell = quiet,
) -> None:
    """Make one shared library of C texts, which is there at once and whole. They are compiled side
    by side, as many as this process has processors. `kept` says where the objects of some texts
    lie: they are used, or put there. `tell` is called with how many are done, and of how many.
    Raises DoesNotCompile, CompilerHangs, or OSError if it cannot be written.
    """
    places = kept or {}
    start = [*command, *flags]
    with tempfile.TemporaryDirectory(dir=library.parent, prefix="build-") as folder:
        # An object has the name of its source in it: that of one that is kept is the same whatever
        # it is linked with.
        sources = [
            Path(folder, places[u].stem + ".c" if u in places else f"kernels{k}.c")
            for k, u in enumerate(units)
        ]
        linked = sources
        built = Path(folder, "kernels.so")
        missing = [
            number
            for number, unit in enumerate(units)
            if unit not in places or not places[unit].is_file()
        ]
        for number in missing:
            sources[number].write_text(units[number].text)
        if len(units) > 1:
            linked = [source.with_suffix(".o") for source in sources]
            told = {k: units[k].flags(command) for k in missing}
            _run(
                [[*start, *told[k], "-c", "-o", str(linked[k]), str(sources[k])] for k in missing],
                tell,
            )
            for number, unit in enumerate(units):
                if unit in places and number in missing:
                    linked[number].chmod(0o700)
                    linked[number].replace(places[unit])
                linked[number] = places.get(unit, linked[number])
        own = units[0].flags(command) if linked is sources else []
        _run([[*start, *own, "-shared", "-o", str(built), *map(str, linked), "-lm"]])
        if not built.is_file():
            raise DoesNotCompile(_without_a_word(command[0]))
        # whatever the mask of the user allows: what others could write is not used
        built.chmod(0o700)
        built.replace(library)


def _run(commands: Sequence[Sequence[str]], tell: Tell = quiet) -> None:
    """Run the compiler several times, as many at once as this process has processors.

    Raises CompilerHangs, or DoesNotCompile: if several complain, with what the first of them says.
    None goes on running then, or when this is interrupted.
    """
    compilers = [_Compiler(command, _LONGEST) for command in commands]
    with ThreadPoolExecutor(cores()) as pool:
        try:
            for done, run in enumerate([pool.submit(compiler.run) for compiler in compilers]):
                tell(done, len(compilers))
                run.result()
        finally:
            for compiler in compilers:
                compiler.end()


class _Compiler:
    """A process of the compiler, started by one thread and perhaps ended by another one."""

    def __init__(self, command: Sequence[str], seconds: float) -> None:
        self._command = command
        self._seconds = seconds
        self._lock = Lock()
        self._process: subprocess.Popen[str] | None = None
        self._is_ended = False

    def run(self) -> str:
        """Start it, wait for it, and return what it prints. Raises DoesNotCompile,
        CompilerHangs.
        """
        name = self._command[0]
        with self._lock:
            if self._is_ended:
                return ""
            try:
                self._process = subprocess.Popen(
                    self._command,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    # a driver starts other programs, which are ended with it
                    start_new_session=True,
                )
            except OSError as error:
                raise DoesNotCompile(
                    f"the C compiler {name} cannot be run: {error.strerror}"
                ) from error
        try:
            said, complaint = self._process.communicate(timeout=self._seconds)
        except subprocess.TimeoutExpired as error:
            raise CompilerHangs(name, self._seconds) from error
        if self._process.returncode:
            raise DoesNotCompile(complaint.strip() or said.strip() or _without_a_word(name))
        return said

    def end(self) -> None:
        """Stop it, if it has not come to its end, or keep it from being started."""
        with self._lock:
            self._is_ended = True
            if self._process is not None and self._process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGTERM)


def _without_a_word(compiler: str) -> str:
    return f"the C compiler {compiler} failed without a word"
