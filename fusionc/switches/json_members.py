"""Where things are in a JSON text. Python's json module finds errors but forgets positions and duplicate keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_decode = json.JSONDecoder().raw_decode
_blanks = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True)
class Member:
    """One `"key": value` of an object, with the offsets where key and value begin."""

    key: str
    key_at: int
    value: Any
    value_at: int


def members(text: str, start: int) -> Iterator[Member]:
    """Every member of the object that opens at or after `start`, duplicates included. The text must be valid JSON."""
    at = _skip(text, _skip(text, start) + 1)
    while text[at] != "}":
        key, key_end = _decode(text, at)
        value_at = _skip(text, _skip(text, key_end) + 1)
        value, value_end = _decode(text, value_at)
        yield Member(key, at, value, value_at)
        at = _skip(text, value_end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _blanks.match(text, at)
    return found.end() if found else at
