"""The machine for which a ready form (a model as onnxruntime has optimized it) is valid: a build of
onnxruntime and a kind of processor.

onnxruntime does not record its build and the processor in an optimized model, and does not check
them when it loads the model. If weights were packed for another processor, onnxruntime would
misread them and compute wrong results.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

from fusionc.runtime.processor import linux_flags

# The prefixes of numpy's names of instruction sets. Other names change from version to version.
_VECTORS = ("SSE", "SSSE", "AVX", "FMA", "F16C", "NEON", "ASIMD", "SVE", "VSX", "VX", "LSX", "RVV")
# Linux's names of instruction sets that numpy does not detect and that change how onnxruntime packs
# integers.
_MATRICES = frozenset(("AMX_TILE", "AMX_INT8", "AMX_BF16", "I8MM", "BF16", "SME", "SME2"))
_MAX_NAMES = 3  # the number of names that a message shows


@dataclass(frozen=True)
class Machine:
    """A build of onnxruntime, and the properties of a machine that decide how it packs weights."""

    onnxruntime: str  # the version
    build: str  # onnxruntime's description of its build: commit, compiler, flags
    system: str  # the operating system and architecture: "linux x86_64"
    instructions: tuple[str, ...]  # the names of vector and matrix instruction sets, sorted

    def difference(self, here: Machine) -> str:
        """The first difference from the machine `here`, as the end of a sentence. Empty if the
        machines are equal.
        """
        if self.onnxruntime != here.onnxruntime:
            return f"made with onnxruntime {self.onnxruntime}, and this is {here.onnxruntime}"
        if self.build != here.build:
            return f"made with another build of onnxruntime {self.onnxruntime}"
        if self.system != here.system:
            return f"made on {self.system}, and this is {here.system}"
        if missing := [name for name in self.instructions if name not in here.instructions]:
            return f"made on a processor with {_listed(missing)}, which this one does not have"
        if new := [name for name in here.instructions if name not in self.instructions]:
            return f"made on a processor without {_listed(new)}, which this one has"
        return ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_NAMES]) + (
        f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    )


def this_machine() -> Machine:
    """The machine that this process runs on."""
    import onnxruntime

    return Machine(
        onnxruntime.__version__,
        onnxruntime.get_build_info(),
        f"{sys.platform} {platform.machine()}",
        tuple(sorted(_numpy_features() | _matrix_features())),
    )


def _numpy_features() -> set[str]:
    features: dict[str, bool] = import_module("numpy._core._multiarray_umath").__cpu_features__
    return {name for name in features if features[name] and name.startswith(_VECTORS)}


def _matrix_features() -> frozenset[str]:
    """The matrix instruction sets that Linux reports. Empty on other systems."""
    return _MATRICES & linux_flags()
