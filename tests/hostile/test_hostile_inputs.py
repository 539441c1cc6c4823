"""Every hostile input and fault of the tables: its exit code, one clear block, nothing written,
nothing left.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import hostile_files
import hostile_flags
import hostile_models
import hostile_names
import hostile_passes
import hostile_runs
import hostile_switches
import hostile_tensors
import pytest
from click.testing import CliRunner
from hostile_case import Case, assert_outcome, contents

from fusionc.cli import main
from fusionc.custom import watchdog

CASES = [
    case
    for topic in (
        hostile_models,
        hostile_names,
        hostile_tensors,
        hostile_files,
        hostile_switches,
        hostile_flags,
        hostile_passes,
        hostile_runs,
    )
    for case in topic.CASES
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_hostile(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    temporary = tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    case.make(folder)
    before = contents(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    if (
        "did not end within" in case.says
    ):  # only what never ends may be cut short: a busy machine is slow
        monkeypatch.setattr(watchdog, "SECONDS", 0.5)
    for name, value in case.environment.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(main, list(case.words), prog_name="fusionc")
    assert_outcome(case, folder, before, result.exit_code, result.stdout, result.stderr)
    assert not list(temporary.iterdir())


def test_there_are_enough() -> None:
    assert len(CASES) >= 150 and len({case.name for case in CASES}) == len(CASES)
