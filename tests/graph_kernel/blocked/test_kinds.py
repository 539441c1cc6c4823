"""Each kind of steps is complete: a file, its header, and the functions that it names."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from fusionc.graph_kernel.blocked import kinds
from fusionc.graph_kernel.blocked.kinds import kind_files, step_kinds
from fusionc.graph_kernel.blocked.step_kind import StepFunctions, StepKind
from fusionc.graph_kernel.c.blocked_kinds import program_types
from fusionc.graph_kernel.c.blocked_text import families, running_text, width_texts

OF_WIDTHS = ("task", "pack", "derive_weights", "scratch")


def test_each_file_has_a_header() -> None:
    folder = Path(kinds.__file__).parent
    assert sorted(path.stem for path in folder.glob("*.h")) == list(kind_files())


def test_the_place_of_a_kind_is_its_number() -> None:
    names = [kind.enumerator() for kind in step_kinds()]
    written = re.search(r"enum \{ (.*), GB_KINDS \};", program_types())
    assert written and written[1].split(", ") == [f"GB_{name}" for name in names]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("kind", step_kinds(), ids=lambda kind: kind.enumerator())
def test_its_functions_are_defined(kind: type[StepKind]) -> None:
    widths = "".join(width_texts(families()))
    once = running_text(families())
    for field in fields(StepFunctions):
        name = getattr(kind.functions, field.name)
        if not name:
            continue
        is_of_width = field.name in OF_WIDTHS
        written = rf"\bGB\({name}\)\([^;]*?\) \{{" if is_of_width else rf"\bgb_{name}\([^;]*?\) \{{"
        assert re.search(written, widths if is_of_width else once), name
