"""Programs without onnxruntime: with vectors of each width that the processor has, and optionally
under sanitizers. The texts that programs have in common are compiled once for all tests.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import standalone
from networks import Array
from onnx import helper

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c import compile
from fusionc.graph_kernel.c.compile import Contents
from fusionc.graph_kernel.c.source import units

SANITIZERS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
PAYS_HERE = "|| !gb_pays_strassen()"
PAYS_EVERYWHERE = "|| (0 && !gb_pays_strassen())"
_REPLACED = {
    "gb_widths[gk_best_body()]": "gb_widths[chosen_width]",
    "sysconf(_SC_NPROCESSORS_ONLN)": "4",
    "GB_TASK_NS = 4000": "GB_TASK_NS = 1",  # so that small images have many tasks, too
    "GB_PAIRS = 2": "GB_PAIRS = 0",  # and chains
    # and products are computed by Strassen's algorithm, on every processor
    "GB_LEAST_GROUPS = 4": "GB_LEAST_GROUPS = 0",
    PAYS_HERE: PAYS_EVERYWHERE,
    "|| gb_pays_narrow_vectors()": "|| 1",
}
# On processors without vectors of 16 floats, the compiler emulates these with shorter vectors. The
# steps are the same.
_MADE_OF_16 = (
    "({ GB(vec) p = (%s), q = (%s), made; "
    "for (int i = 0; i < 16; ++i) made[i] = %s; (void)q; made; })"
)
_EMULATED = {
    "avx512f,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512": "sse2",
    "avx512f,avx512dq,avx512vl,avx2,fma": "sse2",
    "((GB(vec))gb_madd_16(a, b, c))": "((a) * (b) + (c))",
    "((GB(vec))gb_max_16(a, b))": _MADE_OF_16 % ("a", "b", "p[i] > q[i] ? p[i] : q[i]"),
    "((GB(vec))gb_min_16(a, b))": _MADE_OF_16 % ("a", "b", "p[i] < q[i] ? p[i] : q[i]"),
    "((GB(vec))gb_permute_16(x, k))": _MADE_OF_16 % ("x", "x", "p[(k)[i] & 15]"),
    "#if GB_V > 4 && defined(__x86_64__)": "#if GB_V == 8 && defined(__x86_64__)",
}
# the same for steps of bytes, which only some programs have
_EMULATED_OF_BYTES = {
    "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,prefer-vector-width=512": "sse2",
    "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma": "sse2",
    "#define GB_HAS_INTRINSICS 1": "#define GB_HAS_INTRINSICS 0",
}


@dataclass(frozen=True)
class Processor:
    """A kind of processor: the compiler for it, the command that runs its programs here, and the
    numbers of its vector widths.
    """

    compiler: Sequence[str]
    runner: Sequence[str]
    widths: Sequence[int]


def native() -> Processor:
    return Processor(compile.compiler(), (), widths())


ARM64 = Processor(("aarch64-linux-gnu-gcc", "-static"), ("qemu-aarch64",), (0,))


def _replaced(texts: Sequence[str], is_512_emulated: bool) -> list[str]:
    """The C texts of a library, changed for a standalone program."""
    replacements = dict(_REPLACED)
    if is_512_emulated:
        replacements |= _EMULATED | _EMULATED_OF_BYTES
    for what in replacements:
        count = sum(text.count(what) for text in texts)
        assert count == 1 if what in _REPLACED else count or what in _EMULATED_OF_BYTES, what
    changed = list(texts)
    for what, by in replacements.items():
        changed = [text.replace(what, by) for text in changed]
    return changed


def _texts(areas: Sequence[Area], is_512_emulated: bool) -> list[str]:
    """The C texts of a program. main() is in the text that runs kernels, whose functions it calls."""
    made = units(areas)
    texts = _replaced([unit.text for unit in made], is_512_emulated)
    running = texts.index(next(text for text in texts if "chosen_width" in text))
    assert made[running].contents is Contents.RUNTIME
    main = Path(__file__).parent / "standalone_program.c"
    texts[running] = standalone.hosted(f"static int chosen_width;\n{texts[running]}", main)
    return texts


def _folder_of_objects(folder: Path) -> Path:
    """A folder for all workers of these tests, if `folder` is one that pytest has made for a test."""
    parent = folder.parent
    if parent.name.startswith("popen-"):  # of a worker
        return parent.parent / "objects"
    return (parent if parent.name.startswith("pytest-") else folder) / "objects"


def _compiled(command: Sequence[str], text: str, folder: Path) -> Path:
    """The object of a text."""
    key = hashlib.sha256("\0".join([*command, text]).encode()).hexdigest()[:32]
    kept = folder / f"{key}.o"
    if not kept.is_file():
        with TemporaryDirectory(dir=folder) as own:
            source = Path(own, "text.c")
            source.write_text(text)
            _run([*command, "-c", "-o", f"{own}/text.o", str(source)])
            Path(own, "text.o").replace(kept)
    return kept


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


class Standalone:
    """An executable with the programs of areas."""

    def __init__(
        self,
        areas: Sequence[Area],
        folder: Path,
        flags: Sequence[str] = (),
        processor: Processor | None = None,
    ) -> None:
        processor = processor or native()
        self.numbers = {
            name: number for number, name in enumerate(dict.fromkeys(area.name for area in areas))
        }
        texts = _texts(areas, is_512_emulated=2 in processor.widths and not has_512())
        if "-O0" in flags:  # forced inlining takes half of the compiler's time
            texts = [text.replace("always_inline, ", "") for text in texts]
        program = folder / "programs"
        self._command = [*processor.runner, str(program)]
        own = [flag for flag in compile.FLAGS if flag not in ("-shared", "-fPIC")]
        command = [*processor.compiler, *own, *flags]
        objects = _folder_of_objects(folder)
        objects.mkdir(exist_ok=True)
        parts = [str(_compiled(command, text, objects)) for text in texts]
        _run([*command, "-o", str(program), *parts, "-lm", "-pthread"])

    def run(
        self, area: Area, tensors: Sequence[Array], width: int = 0, without: str = "amx bf16"
    ) -> list[Array]:
        """The outputs of an area for these inputs. `without` names instructions for narrow numbers
        that are not used. If the program fails, raises AssertionError with its output.
        """
        given = {
            name: np.asarray(t, helper.tensor_dtype_to_np_dtype(area.values[name].dtype))
            for name, t in zip(area.inputs, tensors, strict=True)
        }
        call = standalone.call(self.numbers[area.name], area, given)
        done = subprocess.run(
            [*self._command, str(width)],
            input=call,
            capture_output=True,
            check=False,
            env={**os.environ, "FUSIONC_KERNELS_WITHOUT": without},
        )
        assert not done.returncode, (
            f"exit code {done.returncode}: {done.stderr.decode(errors='replace')[:1500]}"
        )
        return standalone.outputs(area, done.stdout)


def widths() -> list[int]:
    """The numbers of the widths that can be run here. The widest one is emulated if the processor
    does not have it.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return [0]
    return [0, 1, 2] if {"avx2", "fma"} <= instructions() else [0, 2]


def has_512() -> bool:
    """Whether the processor has vectors of 16 floats. Emulated vectors round products before they
    add them.
    """
    return {"avx512f", "avx512dq", "avx512vl"} <= instructions()


@cache
def instructions() -> frozenset[str]:
    known = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    return frozenset(known.partition("flags")[2].partition("\n")[0].split())
