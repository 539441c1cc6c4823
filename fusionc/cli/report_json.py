"""`fusionc convert --report_json FILE`: the report of a conversion as JSON, for scripts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fusionc.cli.exit_codes import EXIT_UNVERIFIED
from fusionc.cli.files import FilePath, write_text
from fusionc.disk.paths import require_unread
from fusionc.errors import FusioncError, UsageError
from fusionc.version import __version__

if TYPE_CHECKING:
    from fusionc.batch.summary import Summary
    from fusionc.report import Report

report_json_option = click.option(
    "--report_json",
    type=FilePath(),
    metavar="FILE",
    help="Write everything that convert reports to FILE, as JSON. If the conversion fails, the "
    "file has the error. For many models, the file has what summary.json has.",
)


@dataclass
class ReportFile:
    """The file of --report_json, and what to write into it."""

    path: Path | None  # None without --report_json
    content: Mapping[str, Any] = field(default_factory=dict)
    exit_code: int = 0

    def describe(self, done: Report | Summary) -> None:
        """Note a conversion, or the conversions of many models."""
        if self.path is not None:
            self.content = done.as_json()
            self.exit_code = EXIT_UNVERIFIED if done.unverified else 0

    def fail(self, error: FusioncError) -> None:
        """Note the error that ends the command."""
        self.content = {**self.content, "error": error.as_json()}
        self.exit_code = error.exit_code

    def write(self) -> None:
        """Write the file."""
        if self.path is not None:
            content = {"fusionc": __version__, "exit_code": self.exit_code, **self.content}
            write_text(self.path, json.dumps(content, indent=2) + "\n")


@contextmanager
def report_file(path: Path | None, models: Iterable[Path]) -> Iterator[ReportFile]:
    """A context manager that writes the file when it is left. Raises UsageError when it is entered
    if the path is that of a model, or if its folder does not exist.
    """
    if path is not None:
        require_unread(path, "--report_json", dict.fromkeys(models, "the model itself"))
        if not path.parent.is_dir():
            what = "the folder of --report_json does not exist"
            raise UsageError(what, where=str(path), hint="make the folder first", code="E10001")
    file = ReportFile(path)
    try:
        yield file
    except FusioncError as error:
        file.fail(error)
        file.write()
        raise
    file.write()
