"""What a ready form is tied to: the build of onnxruntime, and what the processor has.

onnxruntime says neither in a model that it has optimized, and does not look at either when it loads
one: weights in the blocks of another processor would be read as if they were in its own, and the
answers would be wrong.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

# Of numpy's names: others come and go.
_VECTORS = ("SSE", "SSSE", "AVX", "FMA", "F16C", "NEON", "ASIMD", "SVE", "VSX", "VX", "LSX", "RVV")
# Of Linux, which numpy does not look for; onnxruntime packs integers in another way for them.
_MATRICES = {"AMX_TILE", "AMX_INT8", "AMX_BF16", "I8MM", "BF16", "SME", "SME2"}
_PROCESSOR = Path("/proc/cpuinfo")
_SHOWN = 3  # of these names


@dataclass(frozen=True)
class Machine:
    """A build of onnxruntime on a system, and the vector and matrix instructions of the
    processor.
    """

    onnxruntime: str
    build: str
    system: str
    instructions: tuple[str, ...]

    def difference(self, here: Machine) -> str:
        """What is not the same `here`, as the end of a sentence; empty where all is."""
        if self.onnxruntime != here.onnxruntime:
            return f"made with onnxruntime {self.onnxruntime}, and this is {here.onnxruntime}"
        if self.build != here.build:
            return f"made with another build of onnxruntime {self.onnxruntime}"
        if self.system != here.system:
            return f"made on {self.system}, and this is {here.system}"
        if lacking := [name for name in self.instructions if name not in here.instructions]:
            return f"made on a processor with {_listed(lacking)}, which this one does not have"
        if new := [name for name in here.instructions if name not in self.instructions]:
            return f"made on a processor without {_listed(new)}, which this one has"
        return ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (
        f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    )


def this_machine() -> Machine:
    """The one that this process runs on."""
    import onnxruntime

    return Machine(
        onnxruntime.__version__,
        onnxruntime.get_build_info(),
        f"{sys.platform} {platform.machine()}",
        tuple(sorted(_of_numpy() | _of_linux())),
    )


def _of_numpy() -> set[str]:
    has: dict[str, bool] = import_module("numpy._core._multiarray_umath").__cpu_features__
    return {name for name in has if has[name] and name.startswith(_VECTORS)}


def _of_linux() -> set[str]:
    with suppress(OSError):
        for line in _PROCESSOR.read_text().splitlines():
            name, _, words = line.partition(":")
            if name.strip() in ("flags", "Features"):
                return _MATRICES & set(words.upper().split())
    return set()
