"""`out.session.json`: what `fusionc.session("out.onnx")` should know of the model that lies beside
it.
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
    """A file in the folder of the model: by its content, and by what can be seen of that without
    reading it.
    """

    name: str
    bytes: int
    modified: int  # nanoseconds since 1970
    sha256: str

    def fits(self, folder: Path) -> bool:
        """Whether the file is still there and the same. It is read only where it was written or
        copied since.
        """
        path = folder / self.name
        try:
            status = path.stat()
            if (
                Path(self.name).is_absolute()
                or ".." in path.parts[len(folder.parts) :]
                or status.st_size != self.bytes
            ):
                return False
            return status.st_mtime_ns == self.modified or content_of(path) == self.sha256
        except OSError:
            return False


@dataclass(frozen=True)
class ReadyForm:
    """Files that onnxruntime loads fast in place of the model, and where. `kernels` is the content
    of their library.
    """

    model: FileIdentity
    weights: FileIdentity | None
    kernels: str
    machine: Machine


@dataclass(frozen=True)
class TunedSettings:
    """Settings that were measured to pay, and where: on a machine with so many processors."""

    settings: SessionSettings
    machine: Machine
    processors: int


@dataclass(frozen=True)
class SessionFile:
    """What the file holds: the model that it is about, with weights that lie in files of others,
    its ready form and the settings of its sessions, where it has these.

    The weights that fusionc writes are in files that are named after their content, and are not
    among these.
    """

    model: FileIdentity
    weights: tuple[FileIdentity, ...]
    ready: ReadyForm | None
    tuned: TunedSettings | None = None

    def text(self) -> str:
        """As JSON."""
        return json.dumps({"made_by": _MAKER, **asdict(self)}, indent=2, ensure_ascii=False) + "\n"


def session_file_of(model: Path) -> Path:
    """Where it lies: out.onnx → out.session.json."""
    return model.with_name(model.name.removesuffix(".onnx") + ".session.json")


def read_session_file(path: Path) -> SessionFile:
    """What the file holds. Raises ValueError where it is damaged or not one of these, OSError where
    it is not there.
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
    value = content.get(name)
    if not isinstance(value, kind):
        raise ValueError(f"{name} is {quote(value)}")
    return value


def is_session_file(path: Path) -> bool:
    """Whether fusionc made a file."""
    try:
        return path.is_file() and not path.is_symlink() and _content(path).get("made_by") == _MAKER
    except (OSError, ValueError):
        return False


def of_lost_settings(place: Path) -> list[str]:
    """What is said of a session file that is about to go, with the settings that a tuning has found
    for the result that goes, too.
    """
    with suppress(OSError, ValueError):
        if is_session_file(place) and read_session_file(place).tuned is not None:
            gone = (
                "is gone with the result that was there: its settings were measured with that one"
            )
            return [f"{place.name} {gone}. `fusionc tune` finds those of the new one"]
    return []


def require_session_place(model: Path) -> None:
    """Raise FusioncError where something lies at the place of a model's session file that fusionc
    did not make.
    """
    place = session_file_of(model)
    if place.exists() and not is_session_file(place):
        raise FusioncError(
            (
                "the session file of the result would be written over something that fusionc did "
                "not make"
            ),
            where=str(place),
            hint="move it away, or give another --output",
            code="E13004",
        )


def identity_of(file: Path, name: str) -> FileIdentity:
    """That of a file which is about to get a name."""
    status = file.stat()
    return FileIdentity(name, status.st_size, status.st_mtime_ns, content_of(file))


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")
    return content
