"""Read graph_kernel_flags, a string like "--opt_level=2 --disable_cluster_ops=Exp,Log", by
MindSpore's rules.

Blanks separate the flags. `--key` alone means `--key=true`. If a flag is repeated, the first one
counts. `--path=flags.json` replaces the whole string by the flags in that file. An invalid flag
causes a warning, never an error, and its default is used.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fusionc.errors import nearest
from fusionc.graph_kernel.flags.file_of_flags import VARIABLE
from fusionc.graph_kernel.flags.flag_table import (
    EFFECTIVE,
    MANAGERS,
    WITHOUT_EFFECT,
    Flags,
    FlagType,
)
from fusionc.graph_kernel.flags.operator_names import onnx_names

HIGHEST_LEVEL = 3
_TRUE = ("", "true", "True", "on", "1")
_FALSE = ("false", "False", "off", "0")
_INT_BITS = 64
_UINT_BITS = 32
_LISTS_OF_OPERATORS = ("_ops", "_ops_only")


@dataclass(frozen=True)
class ReadFlags:
    """Flags as they were read, with messages about them."""

    flags: Flags
    raw: str  # the string that was read
    warnings: tuple[str, ...]  # flags that are unknown or invalid
    notices: tuple[str, ...]  # valid flags that change nothing

    @property
    def source(self) -> str:
        """Where the flags come from."""
        is_variable = os.environ.get(VARIABLE) is not None
        return f"the environment variable {VARIABLE}" if is_variable else "--graph_kernel_flags"


def read_flags(option: str | None, *, is_enabled: bool | None) -> ReadFlags:
    """The flags of the environment variable if it is set; otherwise those of `option`.

    If no flag sets the level, `is_enabled` decides: level 2 if it is true, 0 if it is false. If
    `is_enabled` is None, the level is 2 if any flag concerns graph kernel fusion itself, and 0
    otherwise. A flag that only switches passes of the registry does not concern it.
    """
    variable = os.environ.get(VARIABLE)
    raw = (option if variable is None else variable) or ""
    written, warnings = _pairs(raw)
    reader = _Reader(warnings)
    is_asked_for = any(_asks_for_graph_kernels(key, value) for key, value in written.items())
    runs = is_asked_for if is_enabled is None else is_enabled
    flags = reader.flags(written, default_level=2 if runs else 0)
    notices = [
        *_notices_of_ineffective(reader.ineffective),
        *_notices_of_off(flags, is_enabled, is_asked_for, could_read=bool(written) or not warnings),
        *_notices_of_variable(flags, is_enabled, option),
    ]
    return ReadFlags(flags, raw, tuple(warnings), tuple(notices))


def _notices_of_ineffective(names: Sequence[str]) -> Iterator[str]:
    if names:
        yield f"graph kernel flags without effect here: {', '.join(names)}"


def _notices_of_off(
    flags: Flags, is_enabled: bool | None, is_asked_for: bool, could_read: bool
) -> Iterator[str]:
    """A notice if flags are set, but graph kernel fusion does not run."""
    if not could_read and is_enabled is None:
        yield "graph kernel fusion stays off, because no flag could be read"
    if is_enabled is False and is_asked_for and not flags.is_on:
        yield "graph kernel fusion is switched off, so its flags have no effect"


def _notices_of_variable(
    flags: Flags, is_enabled: bool | None, option: str | None
) -> Iterator[str]:
    """Notices that the environment variable overrides options."""
    if os.environ.get(VARIABLE) is None:
        return
    if option is not None:
        yield f"the environment variable {VARIABLE} is set, so --graph_kernel_flags is not used"
    if is_enabled and not flags.is_on:
        yield (
            f"the environment variable {VARIABLE} sets opt_level to 0, so graph kernel fusion "
            "stays off"
        )


def _asks_for_graph_kernels(key: str, value: str) -> bool:
    """Whether a flag concerns graph kernel fusion itself, and not only a pass of the registry,
    which also runs without graph kernel fusion.
    """
    if key not in ("enable_pass", "disable_pass"):
        return key in EFFECTIVE or key in WITHOUT_EFFECT
    managers = (entry.partition(".")[0] for entry in value.split(",") if "." in entry)
    return any(manager not in MANAGERS for manager in managers)


def _pairs(text: str) -> tuple[dict[str, str], list[str]]:
    """The flags as key → text, and warnings about them."""
    written: dict[str, str] = {}
    warnings: list[str] = []
    for token in filter(None, text.split(" ")):
        match = re.fullmatch(r"--([^=]+)(?:=([^=]+))?", token)
        if match is None:
            warnings.append(
                f'the flag "{token}" is invalid. The format is "--key=value", with blanks between '
                "flags"
            )
            continue
        key = match[1]
        value = match[2] or ""
        if key == "path":
            return _pairs_of_file(Path(value), warnings), warnings
        if key in written:
            warnings.append(f'the flag "--{key}" is repeated; the first one counts')
        written.setdefault(key, value)
    return written, warnings


def _pairs_of_file(path: Path, warnings: list[str]) -> dict[str, str]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        warnings.append(f'the file of flags "{path}" cannot be read: {reason}')
        return {}
    if not isinstance(content, dict):
        warnings.append(f'the file of flags "{path}" is not a JSON object')
        return {}
    for key, value in content.items():
        if not isinstance(value, str):
            warnings.append(f'the value of "{key}" in "{path}" is not a string')
    return {key: value for key, value in content.items() if isinstance(value, str)}


class _Reader:
    """Turns the text of flags into values."""

    def __init__(self, warnings: list[str]) -> None:
        self._warnings = warnings
        self.ineffective: list[str] = []  # known flags in the text that have no effect here

    def flags(self, written: Mapping[str, str], *, default_level: int) -> Flags:
        """All flags. A missing or invalid flag has its default."""
        values: dict[str, Any] = {"opt_level": default_level}
        unknown = []
        for key, text in written.items():
            flag_type = EFFECTIVE.get(key) or WITHOUT_EFFECT.get(key)
            if flag_type is None:
                unknown.append(key)
                continue
            value = self._value(key, text, flag_type)
            if key in WITHOUT_EFFECT:
                self.ineffective.append(key)
            elif value is not None:
                values[key] = value
        self._warnings += [f"Unknown flag: {key}" for key in unknown]
        if unknown:
            known = [field.name for field in fields(Flags)]
            near = dict.fromkeys(filter(None, (nearest(key, known) for key in unknown)))
            advice = f"did you mean {', '.join(near)}? The flags" if near else "the flags"
            self._warnings.append(
                f"unknown graph kernel flags have no effect; {advice} that have an effect: "
                f"{', '.join(known)}"
            )
        if values["opt_level"] > HIGHEST_LEVEL:
            self._warnings.append(
                f"opt_level {values['opt_level']} is above {HIGHEST_LEVEL}, the highest level, "
                "which is used"
            )
            values["opt_level"] = HIGHEST_LEVEL
        values.setdefault("enable_stitch_fusion", values["opt_level"] == HIGHEST_LEVEL)
        return Flags(**values)

    def _value(self, key: str, text: str, flag_type: FlagType) -> Any:
        value: Any = None
        if flag_type == "bool" and text in _TRUE + _FALSE:
            value = text in _TRUE
        elif flag_type in ("int", "uint"):
            value = _number(text, flag_type)
        elif flag_type in ("text", "list"):
            items = tuple(filter(None, text.split(",")))
            value = (text if flag_type == "text" else items) if items else None
        if value and key.endswith(_LISTS_OF_OPERATORS):
            value = tuple(
                dict.fromkeys(operator for name in value for operator in onnx_names(name))
            )
        if value is None:
            self._warnings.append(
                f'the value "{text}" of the flag "--{key}" is invalid; its default is used'
            )
        return value


def _number(text: str, flag_type: FlagType) -> int | None:
    if not re.fullmatch(r"\+?[0-9]{1,40}" if flag_type == "uint" else r"[+-]?[0-9]{1,40}", text):
        return None
    number = int(text)
    bits = _UINT_BITS if flag_type == "uint" else _INT_BITS - 1
    return number if abs(number) < 2**bits else None
