"""Describe when and on which machine something was measured."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2"}  # the widest first


def machine(one_thread: bool, processes: int, packages: Sequence[str] = ("onnxruntime",)) -> str:
    """The date, the processor and its vectors, the kind of time that was measured, and the versions
    of the installed packages.
    """
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.is_file() else []
    known = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)
    }
    flags = known.get("flags", "").split()
    processor = [
        known.get("model name") or platform.processor(),
        *(_VECTORS[f] for f in _VECTORS if f in flags),
    ][:2]
    time = (
        "processor time of one thread"
        if one_thread
        else f"wall time, {os.cpu_count()} threads that spin in a run"
    )
    versions = [f"{name} {found}" for name in packages if (found := _version(name))]
    where = f"{date.today()}, {' with '.join(processor)}"
    return f"{where}, {time}, {processes} processes; {', '.join(versions)}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
