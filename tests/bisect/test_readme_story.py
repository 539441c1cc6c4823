"""The README's story from a wrong answer to the rewrite is what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from fusionc.cli import main

ROOT = Path(__file__).parents[2]


def test_the_story_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sample_models").symlink_to(ROOT / "sample_models")
    story = (
        (ROOT / "README.md")
        .read_text()
        .partition("#### From a wrong answer to the rewrite")[2]
        .partition("####")[0]
    )
    code, commands = re.search(
        "```python\n(# quick_relu.*?)```\n\n```sh\n(.*?)```", story, re.DOTALL
    ).groups()
    Path("quick_relu.py").write_text(code)
    results = []
    for command in commands.splitlines():
        results.append(CliRunner().invoke(main, shlex.split(command, comments=True)[1:]))
    assert [result.exit_code for result in results] == [3, 3, 3, 0]
    for line in re.findall("^    ([^…\n]+)", story, re.MULTILINE):
        assert line.strip() in results[1].output, results[1].output
    assert re.search(r"QuickRelu left relu_7 .* wrong with this rewrite", results[3].output)
