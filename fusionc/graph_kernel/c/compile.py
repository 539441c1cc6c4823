"""Compile C texts to a shared library, with the machine's C compiler or that of the package
ziglang.
"""

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
    """The contents of a C text."""

    LOOPS = "loops"  # bodies of loops, and tables
    STEPS = "steps"  # functions of steps of blocked programs
    RUNTIME = "runtime"  # functions that run kernels
    ANYTHING = "anything"


# With these flags, kernels keep NaN, infinities, signs of zeros, and the order of operations. They
# lose only errno and traps, which they do not use; without those, loops with conditions become
# vector instructions. A multiplication and an addition are fused only if the text says so.
FLAGS = (
    "-std=c11", "-O3", "-fPIC", "-fvisibility=hidden", "-fopenmp-simd", "-fno-math-errno",
    "-fno-trapping-math", "-ffp-contract=off", "-fwrapv", "-w",
)  # fmt: skip
# Flags that skip optimizations of gcc. Kernels are as fast without these optimizations, and the
# bodies of loops compile in half the time (benchmarks/compile_time.py). The cost model is that of
# -O3, because -O2's does not vectorize loops over rows of unknown strides.
# -fno-expensive-optimizations would save another eighth, but gcc would no longer write vzeroupper
# after vectors. Then calls of the C library would take up to fifty times as long, and onnxruntime's
# next operator would be slower.
_LESS = {
    Contents.ANYTHING: (),
    Contents.RUNTIME: (),
    Contents.STEPS: (
        "-fira-region=one", "-fno-gcse", "-fno-schedule-insns2", "-fno-tree-vrp", "-fno-tree-pre",
    ),
    Contents.LOOPS: (
        "-O2", "-fvect-cost-model=dynamic", "--param", "vect-epilogues-nomask=0",
        "-fira-region=one", "-fno-gcse", "-fno-schedule-insns2", "-fno-tree-vrp",
    ),
}  # fmt: skip

_LONGEST = 900.0  # the limit for compiling one text, in seconds; the longest so far took 30
_LONGEST_ANSWER = 60.0  # the limit for printing the compiler's version, in seconds

# Use only instructions that every x86-64 processor has: by default, the compilers of some
# distributions use instructions of newer processors. Kernels have separate functions for newer
# processors, and choose among them at run time.
_OLDEST = ("-march=x86-64",) if platform.machine() in ("x86_64", "AMD64") else ()


@dataclass(frozen=True)
class Unit:
    """A C text that is compiled alone."""

    text: str
    contents: Contents = Contents.ANYTHING

    def flags(self, command: Sequence[str]) -> tuple[str, ...]:
        """The flags for this text, in addition to those for all texts. Only gcc gets any."""
        less = _LESS[self.contents]
        return less if less and "Free Software Foundation" in version_of(tuple(command)) else ()


Tell = Callable[[int, int], None]  # called with the number of compiled texts and that of all texts


def quiet(done: int, of: int) -> None:
    """Ignore the progress."""


class NoCompiler(FusioncError):
    """No C compiler was found."""

    def __init__(self, what: str = "no C compiler was found") -> None:
        super().__init__(
            f"{what}, so areas stay functions without kernels",
            hint=(
                "install a compiler (cc, or `pip install ziglang`), or name one in the environment "
                "variable CC"
            ),
        )


class DoesNotCompile(Exception):
    """The compiler refuses a text, with this message."""


class CompilerHangs(FusioncError):
    """The compiler did not finish within the limit for one text."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(
            f"the C compiler {name} did not finish within {seconds:g} s, the limit for one text",
            hint="nothing was written; name another compiler in the environment variable CC, or "
            "leave out --enable_graph_kernel",
        )


def compiler() -> list[str]:
    """The command of the C compiler: $CC, otherwise cc, otherwise that of ziglang.

    Raises NoCompiler if $CC names a missing command, or if none of the three is there.
    """
    given = os.environ.get("CC", "")
    try:
        named = shlex.split(given)
    except ValueError:  # a quotation mark is not closed
        named = [given]
    if named and shutil.which(named[0]):
        return named
    if named:
        raise NoCompiler(f"CC names {given!r}, a command that cannot be found")
    if found := shutil.which("cc"):
        return [found, *_OLDEST]
    if importlib.util.find_spec("ziglang"):
        # By default, ziglang compiles only for the processor of this machine.
        return [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]
    raise NoCompiler


@cache
def version_of(command: tuple[str, ...]) -> str:
    """The version that a compiler prints. Empty if the compiler fails. Raises CompilerHangs."""
    question = _Compiler([*command, "--version"], _LONGEST_ANSWER)
    try:
        return question.run()
    except DoesNotCompile:  # compiling a text will show what is wrong
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
    """Build one shared library from C texts, and move it to `library` in one step.

    The texts are compiled in parallel: as many at once as this process has processors. `kept` says
    for some texts where their objects (compiled texts) are kept. An object that exists there is
    used, and a missing one is compiled and moved there. `tell` is called with the number of
    finished texts and the number of all texts. Raises DoesNotCompile, CompilerHangs, or OSError if
    the library cannot be written.
    """
    start = [*command, *flags]
    with tempfile.TemporaryDirectory(dir=library.parent, prefix="build-") as folder:
        built = Path(folder, "kernels.so")
        jobs = [_Job(k, unit, Path(folder), (kept or {}).get(unit)) for k, unit in enumerate(units)]
        missing = [job for job in jobs if job.is_missing]
        for job in missing:
            job.source.write_text(job.unit.text)
        if len(jobs) > 1:
            _run([[*start, *job.unit.flags(command), *job.arguments] for job in missing], tell)
            linked = [str(job.kept_object()) for job in jobs]
        else:
            linked = [*units[0].flags(command), str(jobs[0].source)]
        _run([[*start, "-shared", "-o", str(built), *linked, "-lm"]])
        if not built.is_file():
            raise DoesNotCompile(_silent_failure(command[0]))
        # Whatever the umask is: a library that others can write would not be used.
        built.chmod(0o700)
        built.replace(library)


class _Job:
    """The compilation of one text. `kept` is the path where its object is kept, or None."""

    def __init__(self, number: int, unit: Unit, folder: Path, kept: Path | None) -> None:
        self.unit = unit
        # An object contains the name of its source, so the name of a kept object must not depend
        # on the texts that it is linked with.
        name = f"kernels{number}" if kept is None else kept.stem
        self.source = folder / f"{name}.c"
        self._object = self.source.with_suffix(".o")
        self._kept = kept
        self.is_missing = kept is None or not kept.is_file()

    @property
    def arguments(self) -> list[str]:
        """The last arguments of the compiler's command."""
        return ["-c", "-o", str(self._object), str(self.source)]

    def kept_object(self) -> Path:
        """Move the object to the path where it is kept, if there is one. Return where it is."""
        if self._kept is None:
            return self._object
        if self.is_missing:
            self._object.chmod(0o700)
            self._object.replace(self._kept)
        return self._kept


def _run(commands: Sequence[Sequence[str]], tell: Tell = quiet) -> None:
    """Run the compiler several times: as many at once as this process has processors.

    Raises CompilerHangs, or DoesNotCompile with the message of the first command that fails. In
    these cases, and on an interrupt, all compilers are stopped.
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
    """A process of the compiler. One thread starts it, and another thread may end it."""

    def __init__(self, command: Sequence[str], seconds: float) -> None:
        self._command = command
        self._seconds = seconds
        self._lock = Lock()
        self._process: subprocess.Popen[str] | None = None
        self._is_ended = False

    def run(self) -> str:
        """Start the process, wait for it, and return its output. Raises DoesNotCompile or
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
                    # The compiler starts other programs. In a session of their own, all can be
                    # ended.
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
            raise DoesNotCompile(complaint.strip() or said.strip() or _silent_failure(name))
        return said

    def end(self) -> None:
        """Stop the process and all that it has started. If it is not running yet, it never will."""
        with self._lock:
            self._is_ended = True
            if self._process is not None and self._process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGTERM)


def _silent_failure(compiler: str) -> str:
    return f"the C compiler {compiler} failed without a message"
