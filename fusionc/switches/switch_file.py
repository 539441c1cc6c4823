"""Reading a switch file: JSON as CANN documents it, or the older text form of one `Pass:on` or `Pass:off` a line.

    {"Switch": {"GraphFusion": {"ALL": "off", "SoftmaxFusionPass": "on"}, "UBFusion": {"ALL": "off"}}}

Every mistake is collected with its position, so that a file is corrected in one go. Whether a name is a pass is not
asked here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fusionc.errors import UsageError
from fusionc.switches.json_members import Member, members
from fusionc.switches.names import nearest, quote

SECTIONS = ("GraphFusion", "UBFusion")
# CANN reads these two as well; they order passes and exempt them from --oo_level, which fusionc has not.
_WITHOUT_EFFECT = ("Priority", "ExceptionalPassOfO1Level")


@dataclass(frozen=True)
class Entry:
    """One switch as it was written, at the offset `at`. The text form knows no sections: `section` is None."""

    section: str | None
    key: str
    on: bool
    at: int


@dataclass
class SwitchFile:
    """What a switch file says, and what is wrong with it: sentences, each for the offset that it is about."""

    path: Path
    text: str
    entries: list[Entry] = field(default_factory=list)
    without_effect: list[str] = field(default_factory=list)
    mistakes: list[tuple[int, str]] = field(default_factory=list)

    def line(self, at: int) -> int:
        return self.text.count("\n", 0, at) + 1

    def located_mistakes(self) -> list[str]:
        """One line for each mistake, in the order of the file: `path:line:column: sentence`."""
        return [
            f"{self.path}:{self.line(at)}:{at - self.text.rfind(chr(10), 0, at)}: {sentence}"
            for at, sentence in sorted(self.mistakes)
        ]


def read(path: Path) -> SwitchFile:
    """Read a switch file of either form.

    Raises UsageError E21001 if it cannot be opened; everything else that is wrong is in `mistakes`.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"the switch file {path} cannot be opened: {error.strerror}",
            where="--fusion_switch_file",
            hint='check the path; "fusionc switch_file --output FILE" writes a complete switch file',
            code="E21001",
        ) from error
    try:
        file = SwitchFile(path, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        file = SwitchFile(path, error.object[: error.start].decode())
        complaint = f"byte 0x{error.object[error.start]:02x} is not UTF-8; save the file as UTF-8"
        file.mistakes.append((len(file.text), complaint))
        return file
    content = file.text.lstrip()
    if not content:
        file.mistakes.append((0, 'the file is empty; the least that is allowed is "{}"'))
    elif content[0] in "{[" or content.startswith(("//", "/*", "#")):  # JSON has no comments: an error that says so
        _read_json(file)
    else:
        _read_lines(file)
    return file


def switch_value(value: object) -> bool | None:
    """True for "on", False for "off", None for everything else."""
    return {"on": True, "off": False}.get(value) if isinstance(value, str) else None


def value_complaint(key: str, value: object) -> str:
    """Why `value` is not a switch value."""
    detail = ""
    if not isinstance(value, str):
        detail = ", in quotes"
    elif switch_value(value.strip()) is not None:
        detail = ", without blanks"
    elif switch_value(value.strip().lower()) is not None:
        detail = ", in lower case"
    return f'{quote(key)} is {quote(value)}; allowed are exactly "on" and "off"{detail}'


def _read_json(file: SwitchFile) -> None:
    try:
        top = json.loads(file.text)
    except json.JSONDecodeError as error:
        comment = " (JSON has no comments)" if file.text[error.pos : error.pos + 1] in ("/", "#") else ""
        file.mistakes.append((error.pos, f"not valid JSON: {error.msg}{comment}"))
        return
    except (ValueError, RecursionError) as error:
        file.mistakes.append((0, f"not valid JSON: {error}"))
        return
    if not isinstance(top, dict):
        file.mistakes.append((0, 'the file must be an object: {"Switch": {…}}'))
        return
    for member in _members(file, 0):
        if member.key == "Switch":
            _read_sections(file, member)
        elif member.key in _WITHOUT_EFFECT:
            file.without_effect.append(member.key)
        elif member.key in SECTIONS:
            file.mistakes.append((member.key_at, f'{quote(member.key)} belongs inside "Switch"'))
        else:
            near = nearest(member.key, (*_WITHOUT_EFFECT, "Switch"))
            advice = f"did you mean {quote(near)}?" if near else 'switches belong inside "Switch"'
            file.mistakes.append((member.key_at, f"{quote(member.key)} is not a key of a switch file; {advice}"))


def _read_sections(file: SwitchFile, switch: Member) -> None:
    if not isinstance(switch.value, dict):
        complaint = '"Switch" must be an object: {"GraphFusion": {…}, "UBFusion": {…}}'
        file.mistakes.append((switch.value_at, complaint))
        return
    for section in _members(file, switch.value_at):
        if section.key not in SECTIONS:
            near = nearest(section.key, SECTIONS)
            advice = f"did you mean {quote(near)}?" if near else 'allowed are "GraphFusion" and "UBFusion"'
            file.mistakes.append((section.key_at, f'{quote(section.key)} is not a section of "Switch"; {advice}'))
        elif not isinstance(section.value, dict):
            file.mistakes.append((section.value_at, f'{quote(section.key)} must be an object: {{"ALL": "on"}}'))
        else:
            for entry in _members(file, section.value_at):
                on = switch_value(entry.value)
                if on is None:
                    file.mistakes.append((entry.value_at, value_complaint(entry.key, entry.value)))
                else:
                    file.entries.append(Entry(section.key, entry.key, on, entry.key_at))


def _members(file: SwitchFile, start: int) -> Iterator[Member]:
    """The members of the object that opens at `start`; a key that was there before is a mistake and left out."""
    first_at: dict[str, int] = {}
    for member in members(file.text, start):
        if member.key in first_at:
            file.mistakes.append((member.key_at, _twice(file, member.key, first_at[member.key])))
        else:
            first_at[member.key] = member.key_at
            yield member


def _read_lines(file: SwitchFile) -> None:
    first_at: dict[str, int] = {}
    at = 0
    for line in file.text.splitlines(keepends=True):
        key, colon, value = (part.strip() for part in line.partition(":"))
        on = switch_value(value)
        if not key or not colon:
            if line.strip():
                complaint = "is neither PassName:on nor PassName:off (and JSON begins with {)"
                file.mistakes.append((at, f"{quote(line.strip())} {complaint}"))
        elif key in first_at:
            file.mistakes.append((at, _twice(file, key, first_at[key])))
        elif on is None:
            file.mistakes.append((at, value_complaint(key, value)))
        else:
            first_at[key] = at
            file.entries.append(Entry(None, key, on, at))
        at += len(line)


def _twice(file: SwitchFile, key: str, first_at: int) -> str:
    return f"{quote(key)} is given twice, first in line {file.line(first_at)}"
