"""The record of a conversion: the file outcome.json next to the log of the model.

It contains the outcome, a hash of everything that the result depends on, and hashes of the files of
the result. `--resume` keeps a result if it was made from the same model with the same options and
versions, and if its files are unchanged.
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
from fusionc.options.option_table import PLACES
from fusionc.ready_form.session_file import read_session_file

_FILE = "outcome.json"


@dataclass(frozen=True)
class Record:
    """The record of one conversion."""

    outcome: Outcome
    made_of: str  # the hash of everything that the result depends on (see `ingredients_of`)
    run: str  # identifies the call of `convert_many`
    files: Mapping[str, str]  # the hash of each file, by path relative to the folder of the result

    def is_whole(self, folder: Path) -> bool:
        """Whether the result exists and its files are unchanged."""
        return self.outcome.is_right and all(
            content_if_any(folder / name) == content for name, content in self.files.items()
        )


def ingredients_of(task: ConversionTask) -> str:
    """The hash of everything that a result depends on: the model with its weights, the options with
    the files that they name, and the `surroundings` (versions and similar facts).
    """
    around = surroundings(
        task.arguments.get("graph_kernel_flags"), task.arguments.get("custom_passes", ())
    )
    return ingredients(task.source, {**task.arguments, **around}, PLACES)


def read_record(task: ConversionTask) -> Record | None:
    """The record of an earlier conversion. `None` if it does not exist or cannot be read."""
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
    """Record the outcome of a model. Raises OSError."""
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
    """Create the folder for records, and remove the records of an earlier conversion. Raises
    OSError.
    """
    task.records.mkdir(parents=True, exist_ok=True)
    old = (task.records / name for name in (_FILE, "fusion_result.json"))
    for file in (*old, *task.records.glob("debug/plog/plog-*.log")):
        file.unlink(missing_ok=True)


def _result_files(model: Path) -> Iterator[Path]:
    """The files of a result that was just written: model, weights, kernels, ready form."""
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
