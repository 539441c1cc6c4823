"""Where, when and with what something was measured."""

from __future__ import annotations

import platform
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("onnxruntime", "openvino", "onnxsim", "onnxslim", "onnxscript", "onnxoptimizer")
_VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2"}  # the widest first


def machine(one_thread: bool, processes: int) -> str:
    """The date, the processor and its vectors, what was measured of its time, and the packages that are installed."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.is_file() else []
    known = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = known.get("flags", "").split()
    processor = [known.get("model name") or platform.processor(), *(_VECTORS[f] for f in _VECTORS if f in flags)][:2]
    time = "processor time of one thread" if one_thread else "wall time, all processors"
    versions = [f"{name} {found}" for name in _PACKAGES if (found := _version(name))]
    return f"{date.today()}, {' with '.join(processor)}, {time}, {processes} processes; {', '.join(versions)}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
