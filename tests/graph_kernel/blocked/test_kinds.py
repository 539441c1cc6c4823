"""Each kind of steps is complete: a file, its header, and the functions that it names."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from fusionc.graph_kernel.blocked import kinds
from fusionc.graph_kernel.blocked.kinds import kind_files, step_kinds
from fusionc.graph_kernel.blocked.step_kind import StepFunctions, StepKind, StepSizes
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
    once = running_text()
    for field in fields(StepFunctions):
        name = getattr(kind.functions, field.name)
        if not name:
            continue
        is_of_width = field.name in OF_WIDTHS
        written = rf"\bGB\({name}\)\([^;]*?\) \{{" if is_of_width else rf"\bgb_{name}\([^;]*?\) \{{"
        assert re.search(written, widths if is_of_width else once), name


@pytest.mark.parametrize("kind", step_kinds(), ids=lambda kind: kind.enumerator())
def test_a_time_of_products_is_of_a_kind_that_counts_them(kind: type[StepKind]) -> None:
    once = running_text()
    name = kind.functions.nanoseconds
    body = once.partition(f" gb_{name}(")[2].partition("\n}\n")[0] if name else ""
    counts = kind.products is not StepKind.products
    assert counts or "gb_products(c)" not in body
    assert not counts or re.search(rf"\[GB_{kind.enumerator()}\] = .*\.products = gb_\w+", once)


def test_python_and_c_count_the_same_products() -> None:
    sizes = StepSizes(made=24.0, taps=9, phases=4, channels_in=6, channels_out=3, group=2, keys=5)
    in_c = {
        "gb_made(c)": "24.0",
        "gb_taps(c->step)": "9",
        "c->step->stride[0]": "2",
        "c->step->stride[1]": "2",
        "(double)c->in.channels": "6",
        "(double)c->out.channels": "3",
        "c->step->group": "2",
        "(double)c->keys": "5",
    }
    once = running_text()
    functions = {kind.products for kind in step_kinds()} - {StepKind.products}
    assert len(functions) > 2
    for count in functions:
        name = count.__qualname__.replace(".", "_")
        text = once.partition(f"double gb_{name}(const gb_call *c) {{\n  return ")[2]
        expression = text.partition(";")[0]
        for member, number in in_c.items():
            expression = expression.replace(member, number)
        assert re.fullmatch(r"[\d.*/+() ]+", expression)
        assert eval(expression) == pytest.approx(count(sizes))
