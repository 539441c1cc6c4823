"""docs/architecture.md has what there is, and nothing that is not; links in the documents lead
somewhere.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/architecture.md").read_text()
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
WORDS = [
    "tape",
    "packet",
    "area",
    "round",
    "numerics",
    "pattern",
    "matched",
    "effected",
    "refused",
    "target",
]


def documented() -> set[str]:
    """The paths in the tree of rooms."""
    tree = PAGE.partition("```text\nfusionc/\n")[2].partition("```")[0]
    found = set()
    above = list[str]()
    for indent, name in re.findall(r"^((?:  ){1,4})([\w.]+/?)  ", tree, re.MULTILINE):
        above[len(indent) // 2 - 1 :] = [name]
        found.add("".join(above))
    return found


def test_every_room_is_there_and_nothing_else() -> None:
    package = ROOT / "fusionc"
    folders = {
        f"{path.parent.relative_to(package).as_posix()}/" for path in package.rglob("*.py")
    } - {"./"}
    assert documented() == folders | {path.name for path in package.glob("*.py")} - {"__init__.py"}


@pytest.mark.parametrize("word", WORDS)
def test_the_words_are_explained(word: str) -> None:
    assert f"**{word}**" in PAGE.partition("## The words")[2]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_and_headings(document: Path) -> None:
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", document.read_text()):
        path = document.parent / target if target else document
        assert path.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.+)", path.read_text(), re.MULTILINE)
            assert heading in [
                re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles
            ], heading
