"""outcome.json beside the log of a model: what became of it, of what it was made, and the files
that it consists of.

`--resume` keeps a result that was made of the same bytes, with the same options, by the same
versions, as long as its files are as they were written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from fusionc.attempt.surroundings import surroundings
from fusionc.batch.conversion_task import ConversionTask
from fusionc.batch.outcome import Outcome, outcome_of
from fusionc.disk.content import content_if_any
from fusionc.disk.ingredients import files_of_model, ingredients
from fusionc.disk.small_files import replace_text
from fusionc.ready_form.session_file import read_session_file

_FILE = "outcome.json"
_WRITTEN = ("dump_graph", "report")  # the arguments that are paths of what is written, not read


@dataclass(frozen=True)
class Record:
    """What is noted down of one conversion: `made_of` is the hash of all that it depends on, `run`
    the command that asked, `files` have hashes by their paths beside the result.
    """

    outcome: Outcome
    made_of: str
    run: str
    files: Mapping[str, str]

    def is_whole(self, folder: Path) -> bool:
        """Whether there is a result, and its files are as they were written."""
        return self.outcome.is_right and all(
            content_if_any(folder / name) == content for name, content in self.files.items()
        )


def ingredients_of(task: ConversionTask) -> str:
    """A hash of all that a result depends on: the model with its weights, the options with their
    files, and what `surroundings` has.
    """
    around = surroundings(
        task.arguments.get("graph_kernel_flags"), task.arguments.get("custom_passes", ())
    )
    return ingredients(task.source, {**task.arguments, **around}, _WRITTEN)


def read_record(task: ConversionTask) -> Record | None:
    """What is noted down of an earlier conversion, if it can be read."""
    try:
        content = json.loads((task.records / _FILE).read_bytes())
        return Record(
            outcome_of(content["outcome"]),
            content["made_of"],
            content["run"],
            dict(content["files"]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def write_record(task: ConversionTask, outcome: Outcome, made_of: str) -> None:
    """Note down what became of the model. Raises OSError."""
    files = _result_files(task.destination) if outcome.is_right else ()
    folder = task.destination.parent
    record = Record(
        outcome,
        made_of,
        task.run,
        {os.path.relpath(file, folder): content_if_any(file) for file in files},
    )
    replace_text(task.records / _FILE, json.dumps(asdict(record), indent=2) + "\n")


def clear_records(task: ConversionTask) -> None:
    """Make the folder of the records, without those of an earlier conversion. Raises OSError."""
    task.records.mkdir(parents=True, exist_ok=True)
    old = (task.records / name for name in (_FILE, "fusion_result.json"))
    for file in (*old, *task.records.glob("debug/plog/plog-*.log")):
        file.unlink(missing_ok=True)


def _result_files(model: Path) -> Iterator[Path]:
    """The files of a result that was just published: model, weights, kernels, ready form."""
    yield from files_of_model(model)
    stem = model.name.removesuffix(".onnx")
    session = model.with_name(f"{stem}.session.json")
    for file in (model.with_name(f"{stem}.kernels.so"), session):
        if file.is_file():
            yield file
    with suppress(OSError, ValueError):
        ready = read_session_file(session).ready
        parts = (ready.model, ready.weights) if ready is not None else ()
        yield from (model.with_name(part.name) for part in parts if part is not None)
