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
    """Whether generated kernels multiply in bfloat16 on this processor: with its tile instructions,
    or with its vector instructions if these are faster than float32. The C function gb_chosen in
    graph_kernel/c/blocked_instructions.h must decide in the same way.
    """
    masked = os.environ.get("FUSIONC_KERNELS_WITHOUT", "")
    has_tiles = "AMX_BF16" in linux_flags() and "amx" not in masked
    has_vectors = "AVX512_BF16" in linux_flags() and "bf16" not in masked
    return has_vectors and (has_tiles or "AuthenticAMD" in _CPUINFO.read_text())


@cache
def has_vnni() -> bool:
    """Whether the processor has VNNI instructions, which sum products of 8-bit integers in 32 bits.
    Without VNNI the sums may saturate at 16 bits.
    """
    return not linux_flags().isdisjoint(("AVX512_VNNI", "AVX_VNNI"))
