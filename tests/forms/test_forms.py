"""The forms in which real exporters write what the passes look for.

Each text file in this folder has graphs by one exporter, each with the pass that should fire on it.
A form fires, or the pass is refused with a reason, or unfused.txt has the form. The first word of a
reason there is "already" if the exporter did it, "taken" if another pass does it, "off" if it needs
another pass that is off by default, or "missed".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import ALL_VARIATIONS, optimize, parse

from fusionc.passes import PASSES

FOLDER = Path(__file__).parent
UNFUSED = FOLDER / "unfused.txt"
FEWEST = 300
MOST_MISSED = 0.05
TRIED = 1 if ALL_VARIATIONS else 6  # one of so many forms is tried


@dataclass(frozen=True)
class Form:
    exporter: str
    pass_name: str
    name: str
    opset: int
    graph: str

    @property
    def key(self) -> str:
        return f"{self.exporter} | {self.pass_name} | {self.name}"


def forms_of(file: Path) -> Iterator[Form]:
    for part in re.split(r"^== ", file.read_text(), flags=re.MULTILINE)[1:]:
        header, graph = part.split("\n", 1)
        pass_name, name, opset = header.split(" | ")
        yield Form(file.stem, pass_name, name, int(opset), graph)


def outcome_of(form: Form) -> str:
    """What becomes of a form: `fires`, `refused: …` or nothing. A pass that is off by default is switched on."""
    passes = [p for p in PASSES if p.default != "off" or p.name == form.pass_name]
    _, counts = optimize(parse(form.graph, form.opset), passes)
    own = [count for count in counts if count.pass_name == form.pass_name]
    if any(count.effected for count in own):
        return "fires"
    return next((f"refused: {reason}" for count in own for reason in count.refused), "")


FORMS = [form for file in sorted(FOLDER.glob("[!u]*.txt")) for form in forms_of(file)]
REASONS = dict(line.rsplit(" | ", 1) for line in UNFUSED.read_text().splitlines())


@pytest.mark.parametrize("form", FORMS[::TRIED], ids=lambda form: form.key)
def test_form_fires_or_has_a_reason(form: Form) -> None:
    assert (outcome_of(form) == "") == (form.key in REASONS), "mend the pass, or unfused.txt"


def test_few_forms_are_missed() -> None:
    keys = {form.key for form in FORMS}
    missed = [key for key, reason in REASONS.items() if reason.startswith("missed")]
    assert len(keys) >= FEWEST
    assert set(REASONS) <= keys
    assert len(missed) <= MOST_MISSED * len(keys)
