"""Every command and every Python block of README.md and docs/ runs, or its page says why not.

A comment `<!-- not run: reason -->` above a fenced block excludes it. `# exit code N` at the end of
a command says how it ends, if not with 0. A `text` block shows lines of the output of the commands
above it; `…` stands for what is left out. A Python block that begins with `# name.py` is a file.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fusionc.cli import main
from fusionc.custom import replacement
from fusionc.errors import CODES

ROOT = Path(__file__).parents[1]
GENERATED = {"passes.md", "graphsurgeon.md", "errors.md", "cli.md"}
# Their blocks are pieces of a pass, which tests/custom puts together.
IN_PIECES = {"writing_a_pass.md", "architecture.md"}
PAGES = [ROOT / "README.md"] + [
    path for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in GENERATED | IN_PIECES
]
FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>.+?) -->\n+)?^```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
SHELL_ALONE = re.compile("set -")


@dataclass
class Block:
    language: str
    text: str
    reason: str | None


def blocks(page: Path) -> list[Block]:
    return [
        Block(found["language"], found["text"], found["reason"])
        for found in FENCE.finditer(page.read_text(encoding="utf-8"))
    ]


def commands(text: str) -> Iterator[tuple[str, int]]:
    """Each command of a shell block with its exit code."""
    for line in text.replace("\\\n", " ").splitlines():
        command, _, comment = line.partition(" # ") if " # " in line else (line, "", "")
        command = command.partition("  #")[0].strip()
        code = re.search(r"exit code (\d+)", comment)
        if command and not command.startswith("#"):
            yield command, int(code[1]) if code else 0


def run(command: str, exit_code: int) -> str:
    """What a command prints; pipes into grep and tee, and files, are imitated."""
    if SHELL_ALONE.match(command):
        return ""
    if command.startswith("grep "):
        words = shlex.split(command)
        assert words[1] in Path(words[2]).read_text(), command
        return ""
    command, _, file = command.partition(" > ")
    command, *others = command.split(" | ")
    words = shlex.split(command)
    assert words[0] == "fusionc", f"{command}: run it, or say above the block why not"
    result = CliRunner().invoke(main, words[1:], prog_name="fusionc")
    assert result.exit_code == exit_code, f"{command}: {result.output}"
    for other in others:
        tool, argument = shlex.split(other)
        if tool == "tee":
            Path(argument).write_text(result.stdout)
        else:
            assert tool == "grep" and argument in result.stdout, other
    if file:
        Path(file.strip()).write_text(result.stdout)
    return result.output


def assert_shown(text: str, printed: str) -> None:
    printed = " ".join(printed.split())
    for line in text.splitlines():
        for part in line.split("…"):
            assert " ".join(part.split()) in printed, line


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the models, files and data that the pages name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path / "log"))
    monkeypatch.setattr(replacement, "REGISTERED", [])
    samples = ROOT / "sample_models"
    for name in ("sample_models", "switch_configs", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copy(samples / "transformer_block.onnx", "in.onnx")
    shutil.copy(ROOT / "switch_configs/default.json", "cfg.json")
    shutil.copytree(samples, "models", ignore=shutil.ignore_patterns("make.py", "control_flow*"))
    inputs = {
        "x": np.random.default_rng(0).normal(size=(2, 8, 32)).astype(np.float32),
        "mask": np.zeros((2, 1, 1, 8), np.float32),
    }
    np.savez("data.npz", **inputs)
    Path("samples").mkdir()
    np.savez("samples/first.npz", **inputs)
    result = CliRunner().invoke(
        main, ["convert", "--model", "in.onnx", "--output", "out.onnx", "--no-verify"]
    )
    assert result.exit_code == 0, result.output
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
@pytest.mark.usefixtures("workplace", "needs_a_compiler")
def test_what_a_page_shows_happens(page: Path) -> None:
    printed = ""
    for block in blocks(page):
        if block.reason:
            continue
        if block.language == "sh":
            printed = "".join(run(*command) for command in commands(block.text))
        elif block.language == "text":
            assert_shown(block.text, printed)
        elif block.language == "python" and (name := re.match(r"# (\w+\.py)", block.text)):
            Path(name[1]).write_text(block.text)
        elif block.language == "python":
            exec(compile(block.text, page.name, "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    """To a file of the repository, and to a heading of it."""
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        if "://" in name:
            continue
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), target
        headings = (
            re.findall("^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            if anchor
            else []
        )
        anchors = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
        assert not anchor or anchor in anchors, target


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert not [
        path.name
        for path in (ROOT / "docs").glob("*.md")
        if path.name != "index.md" and f"({path.name})" not in index
    ]


def test_every_code_of_an_error_is_explained() -> None:
    used = {
        code
        for path in (ROOT / "fusionc").rglob("*.py")
        if path.name != "errors.py"
        for code in re.findall(r"\bE[12]\d{4}\b", path.read_text(encoding="utf-8"))
    }
    assert used | {"E19999"} == set(CODES)


def test_the_notebook_runs(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code cells, one after the other, in a folder next to the sample models."""
    notebook = json.loads((ROOT / "examples/first_steps.ipynb").read_text(encoding="utf-8"))
    (workplace / "notebooks").mkdir()
    monkeypatch.chdir(workplace / "notebooks")
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert names["report"].verification.startswith("equal") and names["y"].shape == (2, 8, 32)
    assert names["other"].nodes_after > names["report"].nodes_after


def test_the_action_runs_the_commands_of_fusionc(workplace: Path) -> None:
    """What its steps run, with the values of its inputs in place of their names."""
    action = (ROOT / ".github/actions/convert/action.yml").read_text(encoding="utf-8")
    lines = [line.strip() for line in action.splitlines() if line.strip().startswith("fusionc ")]
    values = {'"$MODEL"': "in.onnx", '"$OUTPUT"': "acted.onnx", "$OPTIONS": "", ">>": ">"}
    for line in lines:
        for name, value in values.items():
            line = line.replace(name, value)
        run(line.replace('"$GITHUB_STEP_SUMMARY"', "summary.md"), 0)
    assert "| LayerNormalization | 0 | 2 | +2 |" in (workplace / "summary.md").read_text()
