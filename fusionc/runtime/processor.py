"""The features of the processor on which this process runs."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


def linux_flags() -> frozenset[str]:
    """Linux's names of the processor's features, in upper case. Empty on other systems."""
    with suppress(OSError):
        for line in _CPUINFO.read_text().splitlines():
            name, _, words = line.partition(":")
            if name.strip() in ("flags", "Features"):
                return frozenset(words.upper().split())
    return frozenset()


@cache
def has_bfloat16() -> bool:
    """Whether kernels multiply numbers of bfloat16 here, with vectors or with tiles."""
    masked = "bf16" in os.environ.get("FUSIONC_KERNELS_WITHOUT", "")
    return not masked and "AVX512_BF16" in linux_flags()


@cache
def has_vnni() -> bool:
    """Whether the processor sums products of 8-bit integers in 32 bits. Without VNNI the sums may
    saturate at 16 bits.
    """
    return not linux_flags().isdisjoint(("AVX512_VNNI", "AVX_VNNI"))
