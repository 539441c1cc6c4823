"""C text → a shared library, with the compiler of the machine or that of the optional extra."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from fusionc.errors import FusioncError

# NaN, infinities, signs of zeros and the order of operations are kept. Only errno and traps, which nobody asks about,
# are given up: loops over conditions become vectors. A multiplication and an addition are fused where the text says so.
FLAGS = (
    "-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-fopenmp-simd", "-fno-math-errno",
    "-fno-trapping-math", "-ffp-contract=off", "-fwrapv", "-w",
)  # fmt: skip


class NoCompiler(FusioncError):
    """There is no C compiler, or not the one that is wanted."""

    def __init__(self, what: str = "no C compiler was found") -> None:
        super().__init__(
            f"{what}, so areas stay functions without kernels",
            hint="install one (cc, or `pip install ziglang`) or name one in the environment variable CC",
        )


class DoesNotCompile(Exception):
    """The compiler refuses a text; what it says."""


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
        return [found]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]  # else it compiles for this machine alone
    raise NoCompiler


@cache
def version_of(command: tuple[str, ...]) -> str:
    """What a compiler says of itself; empty where it says nothing."""
    try:
        return subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:  # it is no program, which compiling will tell
        return ""


def compile_text(command: Sequence[str], flags: Sequence[str], text: str, library: Path) -> None:
    """Make the shared library of a C text, which is there at once and whole. Raises DoesNotCompile, or OSError where it
    cannot be written."""
    with tempfile.TemporaryDirectory(dir=library.parent, prefix="build-") as folder:
        source, built = Path(folder, "kernels.c"), Path(folder, "kernels.so")
        source.write_text(text)
        try:
            run = subprocess.run(
                [*command, *flags, "-o", str(built), str(source), "-lm"], capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise DoesNotCompile(f"the C compiler {command[0]} cannot be run: {error.strerror}") from error
        if run.returncode or not built.is_file():
            raise DoesNotCompile(
                run.stderr.strip() or run.stdout.strip() or f"the C compiler {command[0]} failed without a word"
            )
        built.chmod(0o700)  # whatever the mask of the user allows: what others could write is not used
        built.replace(library)
