"""Environments in which libraries take this machine for an older x86-64 processor, at this
machine's own speed.

    python benchmarks/older_processor.py        the processor that the libraries see, and what
                                                they compute

numpy, OpenBLAS and onnxruntime query the features of the processor and choose their code
accordingly. In such an environment, an audit library of the dynamic linker (older_processor.c)
answers these queries, in every process that inherits the environment. glibc's own choice is set by
its tunables. Nothing on disk is changed.

One thing is not simulated: if code uses an instruction without a query, and the older processor
lacks it, the instruction runs anyway.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx.parser
import onnxruntime
from numpy._core._multiarray_umath import __cpu_features__

# each level includes the earlier ones
LEVELS = {"SSE4.2": "SSE42", "AVX": "AVX", "AVX2": "AVX2", "AVX-512": "AVX512_SKX"}
_BITS = {  # features in the answers of CPUID, by glibc's names: the register and the bit
    "LEAF_1_C": {
        "SSE3": 0, "PCLMULQDQ": 1, "SSSE3": 9, "FMA": 12, "CX16": 13, "SSE4_1": 19, "SSE4_2": 20,
        "MOVBE": 22, "POPCNT": 23, "AES": 25, "XSAVE": 26, "OSXSAVE": 27, "AVX": 28, "F16C": 29,
    },
    "LEAF_7_B": {
        "BMI1": 3, "AVX2": 5, "BMI2": 8, "ERMS": 9, "AVX512F": 16, "AVX512DQ": 17, "ADX": 19,
        "AVX512CD": 28, "AVX512BW": 30, "AVX512VL": 31,
    },
    "LEAF_80000001_C": {"LAHF64_SAHF64": 0, "LZCNT": 5},
}  # fmt: skip
_LACK_ALL = ("FMA4", "RTM", "FSRM", "AVX_VNNI")  # other features by which glibc chooses
_PACKAGES = ("numpy", "numpy.libs", "onnx", "onnxruntime")
_COMPUTES = """<ir_version: 8, opset_import: ["" : 17]>
g (float[9, 300] x, float[300, 50] w, uint8[9, 300] u, int8[300, 50] i) =>
  (float[9, 50] a, float[9, 300] b, int32[9, 50] c) {
  a = MatMul (x, w)
  b = Softmax (x)
  c = MatMulInteger (u, i)
}"""


@dataclass(frozen=True)
class Model:
    """A processor: its name for compilers, its level, its family and model according to CPUID, and
    its features.
    """

    march: str
    level: str
    signature: int
    features: frozenset[str]


_NEHALEM = frozenset(["SSE3", "SSSE3", "CX16", "SSE4_1", "SSE4_2", "POPCNT", "LAHF64_SAHF64"])
_SANDY_BRIDGE = _NEHALEM | frozenset(["PCLMULQDQ", "AES", "XSAVE", "OSXSAVE", "AVX"])
_HASWELL = _SANDY_BRIDGE | frozenset(
    ["FMA", "MOVBE", "F16C", "BMI1", "AVX2", "BMI2", "ERMS", "LZCNT"]
)
_SKYLAKE = _HASWELL | frozenset(["ADX", "AVX512F", "AVX512DQ", "AVX512CD", "AVX512BW", "AVX512VL"])
MODELS = {
    "Nehalem": Model("nehalem", "SSE4.2", 0x106A5, _NEHALEM),
    "SandyBridge": Model("sandybridge", "AVX", 0x206A7, _SANDY_BRIDGE),
    "Haswell": Model("haswell", "AVX2", 0x306C3, _HASWELL),
    "Skylake-Server": Model("skylake-avx512", "AVX-512", 0x50654, _SKYLAKE),
}


def environment(name: str, folder: Path) -> Mapping[str, str]:
    """The environment variables that simulate a processor. A library is built into the folder for
    that.
    """
    model = MODELS[name]
    masks = {
        register: sum(1 << bit for feature, bit in bits.items() if feature in model.features)
        for register, bits in _BITS.items()
    }
    macros = [
        f"-D{key}={value:#x}u" for key, value in (*masks.items(), ("SIGNATURE", model.signature))
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "places.h").write_text(_places())
    library = folder / "older_processor.so"
    source = Path(__file__).with_suffix(".c")
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{folder}", *macros]
    subprocess.run(["gcc", *flags, "-o", library, source], check=True)
    lacks = [
        feature for bits in _BITS.values() for feature in bits if feature not in model.features
    ]
    tunables = "glibc.cpu.hwcaps=" + ",".join(f"-{feature}" for feature in (*lacks, *_LACK_ALL))
    return {"LD_AUDIT": str(library), "GLIBC_TUNABLES": tunables}


@cache
def _places() -> str:
    """The places of CPUID instructions in the libraries, as elements of a table in C."""
    found = []
    for package in _PACKAGES:
        for library in sorted((Path(np.__file__).resolve().parents[1] / package).rglob("*.so*")):
            if b"\x0f\xa2" in library.read_bytes():
                print(f"looking for CPUID in {library.name}", flush=True)
                command = ["objdump", "-d", "--no-show-raw-insn", library]
                code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                places = re.findall(r"^ *([0-9a-f]+):\tcpuid\b", code, re.MULTILINE)
                found += [f'{{"{library}", 0x{place}}},\n' for place in places]
    return "".join(found)


def level() -> str:
    """The highest level that this process sees."""
    return [name for name, feature in LEVELS.items() if __cpu_features__[feature]][-1]


def results() -> str:
    """A short form of the results that onnxruntime computes in this process. Each kernel adds
    numbers in its own order.
    """
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(_COMPUTES)
    feeds = {
        "x": rng.normal(size=(9, 300)).astype(np.float32),
        "w": rng.normal(size=(300, 50)).astype(np.float32),
        "u": rng.integers(0, 256, (9, 300), np.uint8),
        "i": rng.integers(-128, 128, (300, 50), np.int8),
    }
    outputs = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    return hashlib.sha256(b"".join(output.tobytes() for output in outputs)).hexdigest()[:8]


if __name__ == "__main__":
    print(level(), results())
