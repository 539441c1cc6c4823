"""What the README says of `fusionc why` is what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from fusionc.cli import main

ROOT = Path(__file__).parents[2]


def test_the_commands_of_the_readme_print_these_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sample_models").symlink_to(ROOT / "sample_models")
    section = (
        (ROOT / "README.md")
        .read_text()
        .partition("### Why a pass does not fire")[2]
        .partition("\n### ")[0]
    )
    (commands,) = re.findall("```sh\n(.*?)```", section, re.DOTALL)
    results = [
        CliRunner().invoke(main, shlex.split(command, comments=True)[1:], prog_name="fusionc")
        for command in commands.splitlines()
    ]
    assert [result.exit_code for result in results] == [0] * len(results)
    printed = " ".join("".join(result.stdout for result in results).split())
    lines = re.findall("^    ([^…\n]+)", section, re.MULTILINE)
    assert len(lines) == 5
    for line in lines:
        assert " ".join(line.split()) in printed, printed
