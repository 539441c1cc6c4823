"""outcome.json beside the log of a model: what became of it, of what it was made, and the files that it consists of.

`--resume` keeps a result that was made of the same bytes, with the same options, by the same versions, as long as its
files are as they were written.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto

from fusionc.batch.conversion_task import ConversionTask, versions
from fusionc.batch.outcome import Outcome, outcome_of
from fusionc.disk.external_data import external_entries
from fusionc.disk.small_files import replace_text
from fusionc.graph_kernel.flags.read_flags import VARIABLE
from fusionc.protos import tensors_of
from fusionc.ready.session_file import content_of, read_session_file

_FILE = "outcome.json"
_WRITTEN = ("dump_graph", "report")  # the arguments that are paths of what is written, not read


@dataclass(frozen=True)
class Record:
    """What is noted down of one conversion: `made_of` is the hash of all that it depends on, `run` the command that
    asked, `files` have hashes by their paths beside the result."""

    outcome: Outcome
    made_of: str
    run: str
    files: Mapping[str, str]

    def is_whole(self, folder: Path) -> bool:
        """Whether there is a result, and its files are as they were written."""
        return self.outcome.is_right and all(_hash(folder / name) == content for name, content in self.files.items())


def ingredients(task: ConversionTask) -> str:
    """A hash of all that a result depends on: the model with its weights, the options with their files, versions."""
    hashed = hashlib.sha256()
    options = {"versions": versions(), "arguments": task.arguments, VARIABLE: os.environ.get(VARIABLE)}
    hashed.update(json.dumps(options, sort_keys=True, default=str).encode())
    for name, value in sorted(task.arguments.items()):
        for path in _paths(value) if name not in _WRITTEN else ():
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                hashed.update(f"{file.name} {_hash(file)}".encode())
    for file in _files_of(task.source):
        hashed.update(_hash(file).encode())
    return hashed.hexdigest()


def read_record(task: ConversionTask) -> Record | None:
    """What is noted down of an earlier conversion, if it can be read."""
    try:
        content = json.loads((task.records / _FILE).read_bytes())
        return Record(outcome_of(content["outcome"]), content["made_of"], content["run"], dict(content["files"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def write_record(task: ConversionTask, outcome: Outcome, made_of: str) -> None:
    """Note down what became of the model. Raises OSError."""
    files = _result_files(task.destination) if outcome.is_right else ()
    folder = task.destination.parent
    record = Record(outcome, made_of, task.run, {os.path.relpath(file, folder): _hash(file) for file in files})
    replace_text(task.records / _FILE, json.dumps(asdict(record), indent=2) + "\n")


def clear_records(task: ConversionTask) -> None:
    """Make the folder of the records, without those of an earlier conversion. Raises OSError."""
    task.records.mkdir(parents=True, exist_ok=True)
    old = (task.records / name for name in (_FILE, "fusion_result.json"))
    for file in (*old, *task.records.glob("debug/plog/plog-*.log")):
        file.unlink(missing_ok=True)


def _result_files(model: Path) -> Iterator[Path]:
    """The files of a result that was just published: model, weights, kernels, ready form."""
    yield from _files_of(model)
    stem = model.name.removesuffix(".onnx")
    session = model.with_name(f"{stem}.session.json")
    for file in (model.with_name(f"{stem}.kernels.so"), session):
        if file.is_file():
            yield file
    with suppress(OSError, ValueError):
        ready = read_session_file(session).ready
        parts = (ready.model, ready.weights) if ready is not None else ()
        yield from (model.with_name(part.name) for part in parts if part is not None)


def _files_of(model: Path) -> list[Path]:
    """A model file and those of its weights; the file alone where it cannot be read, which the conversion explains."""
    try:
        proto = onnx.load(os.fspath(model), format="protobuf", load_external_data=False)
    except Exception:  # protobuf's own have no common base
        return [model]
    external = [tensor for tensor in tensors_of(proto) if tensor.data_location == TensorProto.EXTERNAL]
    locations = {external_entries(tensor).get("location", "") for tensor in external}
    return [model, *(model.parent / location for location in sorted(locations))]


def _paths(value: Any) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    elif isinstance(value, tuple):
        yield from (part for part in value if isinstance(part, Path))


def _hash(file: Path) -> str:
    """The hash of what a file holds, or "" where nobody can read it."""
    try:
        return content_of(file)
    except (OSError, ValueError):  # ValueError: no name of a file
        return ""
