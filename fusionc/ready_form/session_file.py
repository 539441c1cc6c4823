"""The session file `out.session.json`. `fusionc.session` reads it when it opens `out.onnx` in the
same folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from fusionc.disk.content import content_of
from fusionc.errors import FusioncError, quote
from fusionc.ready_form.machine import Machine
from fusionc.runtime.session_settings import SessionSettings, settings_of

_MAKER = "fusionc"
_Part = TypeVar("_Part")


@dataclass(frozen=True)
class FileIdentity:
    """The identity of a file in the folder of the model: its name, and a hash of its content. If
    its size and time of modification are unchanged, the content is not read again.
    """

    name: str
    bytes: int
    modified: int  # nanoseconds since 1970
    sha256: str  # of the content

    def fits(self, folder: Path) -> bool:
        """Whether the folder has this file with the same content. The file is read only if its size
        is the same and its time of modification differs.
        """
        path = folder / self.name
        if Path(self.name).is_absolute() or ".." in path.parts[len(folder.parts) :]:
            return False
        try:
            status = path.stat()
            if status.st_size != self.bytes:
                return False
            return status.st_mtime_ns == self.modified or content_of(path) == self.sha256
        except OSError:
            return False


@dataclass(frozen=True)
class ReadyForm:
    """The files that onnxruntime loads instead of the model, and the machine for which they are
    valid.
    """

    model: FileIdentity
    weights: FileIdentity | None  # None if all weights are in the model file
    kernels: str  # the hash of the library of kernels; empty without kernels
    machine: Machine


@dataclass(frozen=True)
class TunedSettings:
    """Session settings that were measured to be faster, and the machine for which they are
    valid.
    """

    settings: SessionSettings
    machine: Machine
    processors: int  # the number of cores that the measuring process could use


@dataclass(frozen=True)
class SessionFile:
    """The content of a session file."""

    model: FileIdentity  # the model to which the session file belongs
    # the data files of the model that fusionc did not write; the names of data files that fusionc
    # writes already contain the hash of their content
    weights: tuple[FileIdentity, ...]
    ready: ReadyForm | None
    tuned: TunedSettings | None = None

    def is_about(self, model: Path) -> bool:
        """Whether the model at this path is unchanged and belongs to this session file."""
        return self.model.name == model.name and self.model.fits(model.parent)

    def text(self) -> str:
        """The content as JSON."""
        return json.dumps({"made_by": _MAKER, **asdict(self)}, indent=2, ensure_ascii=False) + "\n"


def session_file_of(model: Path) -> Path:
    """The path of a model's session file: out.onnx → out.session.json."""
    return model.with_name(model.name.removesuffix(".onnx") + ".session.json")


def read_session_file(path: Path) -> SessionFile:
    """Read a session file. Raises ValueError if it is damaged or is not a session file, and OSError
    if it does not exist.
    """
    content = _content(path)
    return SessionFile(
        _identity(content, "model"),
        tuple(_identity({"weights": file}, "weights") for file in _part(content, "weights", list)),
        None if content.get("ready") is None else _ready(_part(content, "ready", dict)),
        None if content.get("tuned") is None else _tuned(_part(content, "tuned", dict)),
    )


def _ready(content: Mapping[str, Any]) -> ReadyForm:
    weights = None if content.get("weights") is None else _identity(content, "weights")
    return ReadyForm(
        _identity(content, "model"), weights, _part(content, "kernels", str), _machine(content)
    )


def _tuned(content: Mapping[str, Any]) -> TunedSettings:
    settings = settings_of(_part(content, "settings", dict))
    return TunedSettings(settings, _machine(content), _part(content, "processors", int))


def _machine(content: Mapping[str, Any]) -> Machine:
    machine = _part(content, "machine", dict)
    build = _part(machine, "build", str)
    system = _part(machine, "system", str)
    instructions = tuple(map(str, _part(machine, "instructions", list)))
    return Machine(_part(machine, "onnxruntime", str), build, system, instructions)


def _identity(content: Mapping[str, Any], name: str) -> FileIdentity:
    file = _part(content, name, dict)
    return FileIdentity(
        _part(file, "name", str),
        _part(file, "bytes", int),
        _part(file, "modified", int),
        _part(file, "sha256", str),
    )


def _part(content: Mapping[str, Any], name: str, kind: type[_Part]) -> _Part:
    """An entry of a JSON object. Raises ValueError if it is missing or has another type."""
    value = content.get(name)
    if not isinstance(value, kind):
        raise ValueError(f"{name} is {quote(value)}")
    return value


def is_session_file(path: Path) -> bool:
    """Whether a file is a session file that fusionc wrote."""
    try:
        return path.is_file() and not path.is_symlink() and _content(path).get("made_by") == _MAKER
    except (OSError, ValueError):
        return False


def lost_settings_notices(place: Path) -> list[str]:
    """A notice if a new result is about to replace a session file with tuned settings. Empty if the
    file at `place` does not have tuned settings.
    """
    with suppress(OSError, ValueError):
        if is_session_file(place) and read_session_file(place).tuned is not None:
            return [
                f"{place.name} was removed: its settings were measured with the replaced result. "
                "`fusionc tune` finds settings for the new result"
            ]
    return []


def require_session_place(model: Path) -> None:
    """Raise FusioncError if a file that fusionc did not write is at the path of a model's session
    file.
    """
    place = session_file_of(model)
    if place.exists() and not is_session_file(place):
        raise FusioncError(
            "the session file of the result would overwrite a file that fusionc did not write",
            where=str(place),
            hint="move it away, or give another --output",
            code="E13004",
        )


def identity_of(file: Path, name: str) -> FileIdentity:
    """The identity of a file that is about to be renamed to `name`."""
    status = file.stat()
    return FileIdentity(name, status.st_size, status.st_mtime_ns, content_of(file))


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    return content
