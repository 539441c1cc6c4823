"""Environment variables: fusionc's own names, and Ascend's if only those are set."""

from __future__ import annotations

import os
import re


def variable(name: str) -> str:
    """The value of FUSIONC_<name>, else of ASCEND_<name>, else ""."""
    return os.environ.get(f"FUSIONC_{name}") or os.environ.get(f"ASCEND_{name}") or ""


def checked(name: str, pattern: str, right: str, notices: list[str]) -> str:
    """The value of a variable in small letters, if it matches; else "", and a notice that says what
    is `right`.
    """
    value = variable(name)
    if not value or re.fullmatch(pattern, value.lower()):
        return value.lower()
    owner = "FUSIONC" if os.environ.get(f"FUSIONC_{name}") else "ASCEND"
    notices.append(f'{owner}_{name} is "{value}", its default is used: give {right}')
    return ""
