"""Environment variables: fusionc's own names, and Ascend's where only those are set."""

from __future__ import annotations

import os


def variable(name: str) -> str:
    """The value of FUSIONC_<name>, else of ASCEND_<name>, else ""."""
    return os.environ.get(f"FUSIONC_{name}") or os.environ.get(f"ASCEND_{name}") or ""
