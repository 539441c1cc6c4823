"""Read switches from a JSON file as CANN (Ascend's toolkit) documents it, from a file in the older
text form, or from --optimization_switch.

    {"Switch": {"GraphFusion": {"ALL": "off", "SoftmaxFusionPass": "on"}, "UBFusion": {}}}

In the text form each line is `Pass:on` or `Pass:off`; in the option, semicolons separate the
switches. All mistakes are collected with their positions and reported together. Whether a name is
the name of a pass is not checked here, but in decide.py.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fusionc.errors import SHOWN, UsageError, advice, quote

_decode = json.JSONDecoder().raw_decode
_blanks = re.compile(r"[ \t\r\n]*")
ALL = "ALL"
OPTION = "--optimization_switch"
SECTIONS = ("GraphFusion", "UBFusion")
# Two keys that CANN reads and fusionc ignores: the first orders passes, the second exempts passes
# from --oo_level.
_WITHOUT_EFFECT = ("Priority", "ExceptionalPassOfO1Level")


@dataclass(frozen=True)
class Entry:
    """One switch as it was written."""

    section: str | None  # None in the text form and in the option, which have no sections
    key: str
    on: bool
    at: int  # the offset of the switch in the text


@dataclass(frozen=True)
class _Member:
    """One `"key": value` of an object."""

    key: str
    key_at: int  # offset
    value: Any
    value_at: int  # offset


@dataclass
class WrittenSwitches:
    """The contents of a switch file or of --optimization_switch, and the mistakes in them."""

    path: Path | None  # None for the option
    text: str
    entries: list[Entry] = field(default_factory=list)
    without_effect: list[str] = field(default_factory=list)  # keys that fusionc ignores
    # for each mistake its offset and a sentence
    mistakes: list[tuple[int, str]] = field(default_factory=list)

    def complain(self, at: int, sentence: str) -> None:
        """Note a mistake at an offset."""
        self.mistakes.append((at, sentence))

    def line(self, at: int) -> int:
        """The number of the line at an offset. The first line has the number 1."""
        return bisect_left(self._ends, at) + 1

    @cached_property
    def _ends(self) -> list[int]:
        return [line_end.start() for line_end in re.finditer("\n", self.text)]

    def advice(self, name: str, candidates: Sequence[str], otherwise: str) -> str:
        """Advice for a wrong name: the question whether the user meant the most similar candidate,
        or else `otherwise`. The search for this candidate is slow, so it is made only for mistakes
        that will be shown.
        """
        return advice(name, candidates if len(self.mistakes) < SHOWN else (), otherwise)

    def refuse_mistakes(self) -> None:
        """Raise UsageError if there are mistakes, with a line for each in the order of the text.
        The code is E21002 for a file and E10001 for the option.
        """
        if not self.mistakes:
            return
        source = "the switch file"
        where = f"--fusion_switch_file {self.path}"
        code = "E21002"
        hint = (
            'correct the file; "fusionc passes" lists the names of passes, and "fusionc '
            'switch_file" prints a complete switch file'
        )
        if self.path is None:
            source = OPTION
            where = f"{OPTION}, --enable or --disable"
            code = "E10001"
            hint = 'write "P:on;Q:off", or --enable P; "fusionc passes" lists the names'
        lines = [f"{self._place(at)}: {sentence}" for at, sentence in sorted(self.mistakes)]
        what, details = (
            (lines[0], []) if len(lines) == 1 else (f"{len(lines)} mistakes in {source}", lines)
        )
        raise UsageError(what, where=where, hint=hint, code=code, details=details)

    def _place(self, at: int) -> str:
        if self.path is None:
            return OPTION
        line = self.line(at)
        return f"{self.path}:{line}:{at - (self._ends[line - 2] if line > 1 else -1)}"


def read_option(text: str) -> WrittenSwitches:
    """Read the value of --optimization_switch."""
    option = WrittenSwitches(None, text)
    _read_pairs(option, r"[^;]+", "")
    for entry in option.entries:
        if entry.key == ALL:
            option.complain(entry.at, f'"{ALL}" is allowed only in a switch file')
    if not option.entries and not option.mistakes:
        option.complain(0, f"{quote(text)} names no pass")
    return option


def read_file(path: Path) -> WrittenSwitches:
    """Read a switch file, in JSON or in the text form.

    Raises UsageError E21001 if the file cannot be opened. All other mistakes are collected in
    `mistakes`.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        what = f"the switch file {path} cannot be opened: {error.strerror}"
        hint = 'check the path; "fusionc switch_file --output FILE" writes a complete switch file'
        raise UsageError(what, where="--fusion_switch_file", hint=hint, code="E21001") from error
    try:
        file = WrittenSwitches(path, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        file = WrittenSwitches(path, error.object[: error.start].decode())
        complaint = f"byte 0x{error.object[error.start]:02x} is not UTF-8; save the file as UTF-8"
        file.complain(len(file.text), complaint)
        return file
    content = file.text.lstrip()
    if not content:
        file.complain(0, 'the file is empty; the smallest valid file is "{}"')
    elif content.startswith(("{", "[", "//", "/*", "#")):
        # A text that begins with a comment is read as JSON, because the error then says that JSON
        # has no comments.
        _read_json(file)
    else:
        _read_pairs(file, r"[^\r\n]+", " (and JSON begins with {)")
    return file


def switch_value(value: object) -> bool | None:
    """True for "on", False for "off", None for everything else."""
    return {"on": True, "off": False}.get(value) if isinstance(value, str) else None


def value_complaint(key: str, value: object) -> str:
    """The message that `value` is neither "on" nor "off"."""
    detail = ""
    if not isinstance(value, str):
        detail = ", in quotes"
    elif switch_value(value.strip()) is not None:
        detail = ", without blanks"
    elif switch_value(value.strip().lower()) is not None:
        detail = ", in lower case"
    return f'{quote(key)} is {quote(value)}; allowed are exactly "on" and "off"{detail}'


def _read_json(file: WrittenSwitches) -> None:
    try:
        top = json.loads(file.text)
    except json.JSONDecodeError as error:
        is_comment = file.text[error.pos : error.pos + 1] in ("/", "#")
        comment = " (JSON has no comments)" if is_comment else ""
        file.complain(error.pos, f"not valid JSON: {error.msg}{comment}")
        return
    except (ValueError, RecursionError) as error:
        file.complain(0, f"not valid JSON: {error}")
        return
    if not isinstance(top, dict):
        file.complain(0, 'the file must be an object: {"Switch": {…}}')
        return
    for member in _members(file, 0):
        if member.key == "Switch":
            _read_sections(file, member)
        elif member.key in _WITHOUT_EFFECT:
            file.without_effect.append(member.key)
        elif member.key in SECTIONS:
            file.complain(member.key_at, f'{quote(member.key)} belongs inside "Switch"')
        else:
            hint = file.advice(
                member.key, (*_WITHOUT_EFFECT, "Switch"), 'switches belong inside "Switch"'
            )
            file.complain(
                member.key_at, f"{quote(member.key)} is not a key of a switch file; {hint}"
            )


def _read_sections(file: WrittenSwitches, switch: _Member) -> None:
    if not isinstance(switch.value, dict):
        form = '{"GraphFusion": {…}, "UBFusion": {…}}'
        file.complain(switch.value_at, f'"Switch" must be an object: {form}')
        return
    for section in _members(file, switch.value_at):
        if section.key not in SECTIONS:
            hint = file.advice(section.key, SECTIONS, 'allowed are "GraphFusion" and "UBFusion"')
            complaint = f'{quote(section.key)} is not a section of "Switch"; {hint}'
            file.complain(section.key_at, complaint)
        elif not isinstance(section.value, dict):
            complaint = f'{quote(section.key)} must be an object: {{"ALL": "on"}}'
            file.complain(section.value_at, complaint)
        else:
            for entry in _members(file, section.value_at):
                on = switch_value(entry.value)
                if on is None:
                    file.complain(entry.value_at, value_complaint(entry.key, entry.value))
                else:
                    file.entries.append(Entry(section.key, entry.key, on, entry.key_at))


def _members(file: WrittenSwitches, start: int) -> Iterator[_Member]:
    """The members of the JSON object that begins at `start` or after the blanks there. The text
    must be valid JSON. If a key is repeated, the repetition is noted as a mistake and left out.
    """
    text = file.text
    first_at: dict[str, int] = {}
    at = _skip(text, _skip(text, start) + 1)
    while text[at] != "}":
        key, key_end = _decode(text, at)
        value_at = _skip(text, _skip(text, key_end) + 1)
        value, value_end = _decode(text, value_at)
        if _is_new(file, key, at, first_at):
            yield _Member(key, at, value, value_at)
        at = _skip(text, value_end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    blanks = _blanks.match(text, at)
    return blanks.end() if blanks else at


def _read_pairs(source: WrittenSwitches, each: str, hint: str) -> None:
    """Read `Pass:on` and `Pass:off` from the parts of the text that match the regular expression
    `each`.
    """
    first_at: dict[str, int] = {}
    for part in re.finditer(each, source.text):
        key, colon, value = (piece.strip() for piece in part.group().partition(":"))
        on = switch_value(value)
        at = part.start()
        if not key or not colon:
            if text := part.group().strip():
                source.complain(at, f"{quote(text)} is neither PassName:on nor PassName:off{hint}")
        elif on is None:
            source.complain(at, value_complaint(key, value))
        elif _is_new(source, key, at, first_at):
            source.entries.append(Entry(None, key, on, at))


def _is_new(source: WrittenSwitches, key: str, at: int, first_at: dict[str, int]) -> bool:
    """Whether a key occurs for the first time. A repeated key is noted as a mistake."""
    if first_at.setdefault(key, at) == at:
        return True
    place = "" if source.path is None else f", first in line {source.line(first_at[key])}"
    source.complain(at, f"{quote(key)} is given twice{place}")
    return False
