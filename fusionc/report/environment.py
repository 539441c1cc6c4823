"""Environment variables under fusionc's names, or else under Ascend's names."""

from __future__ import annotations

import os
import re


def variable(name: str) -> str:
    """The value of FUSIONC_<name>, or else of ASCEND_<name>, or else ""."""
    return os.environ.get(f"FUSIONC_{name}") or os.environ.get(f"ASCEND_{name}") or ""


def checked(name: str, pattern: str, right: str, notices: list[str]) -> str:
    """The value of a variable in lower case, if it matches the regular expression `pattern`. If it
    does not, the result is "", and a notice is added to `notices`; `right` describes valid values.
    """
    value = variable(name)
    if not value or re.fullmatch(pattern, value.lower()):
        return value.lower()
    owner = "FUSIONC" if os.environ.get(f"FUSIONC_{name}") else "ASCEND"
    notices.append(f'{owner}_{name} is "{value}", so its default is used: give {right}')
    return ""
