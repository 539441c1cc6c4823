"""A library has the functions of the steps that its programs have, and no others."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Collection
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from kernels_run import run_kernel
from machine_code import needs_x86_code, vector_functions
from networks import MICROSOFT, Found, Network, difference, only_area, wanted

from fusionc.graph_kernel.blocked.make_program import program_of
from fusionc.graph_kernel.c.blocked_kinds import width_lists
from fusionc.graph_kernel.c.blocked_text import families, families_of, width_texts
from fusionc.graph_kernel.c.compile import Contents, compiler
from fusionc.graph_kernel.c.headers import header
from fusionc.graph_kernel.c.source import units
from fusionc.graph_kernel.library.build_library import build

pytestmark = pytest.mark.long

_SETS = [
    set(some) for count in range(len(families()) + 1) for some in combinations(families(), count)
]


def _convolution(channels: int = 16, group: int = 1) -> Found:
    n = Network()
    x = n.input(1, channels, 7, 7)
    return only_area(
        n.model(n.op("Relu", n.conv(x, channels, channels, 3 if group > 1 else 1, group=group)))
    )


def _winograd() -> Found:
    n = Network()
    return only_area(n.model(n.op("Relu", n.conv(n.input(1, 64, 24, 24), 64, 64))))


def _attention() -> Found:
    n = Network()
    rows = n.input(2, 5, 32)
    parts = [n.product(rows, 32, 32) for _ in range(3)]
    made = n.op("MultiHeadAttention", *parts, domain=MICROSOFT, num_heads=2)
    return only_area(n.model(n.product(made, 32, 32)))


def _product(channels: int = 32) -> Found:
    n = Network()
    return only_area(
        n.model(n.op("Relu", n.product(n.input(1, 400, channels), channels, channels)))
    )


@pytest.mark.parametrize(
    ("make", "needed"),
    [
        (_convolution, set()),
        (partial(_convolution, group=16), {"by_lane"}),
        (partial(_convolution, channels=32, group=4), {"by_lane"}),
        (_winograd, {"winograd"}),
        (_attention, {"attention"}),
        (_product, set()),
        (partial(_product, 1024), {"strassen"}),
    ],
)
def test_the_families_of_a_program(make: Callable[[], Found], needed: set[str]) -> None:
    found = make()
    assert families_of(program_of(found.area).program) == needed
    texts = {unit.text for unit in units([found.area]) if unit.contents is Contents.STEPS}
    assert texts == set(width_texts(needed))
    # of all programs there are three
    assert len(texts) == len(width_texts(())) // 3 * (3 + len(needed))


def test_programs_of_all_families_share_the_text_that_runs_them() -> None:
    """It takes the compiler 1.5 s. The tables of functions, which depend on families, take 0.15."""
    (one, *others), (tables, *other_tables) = (
        [
            units([found.area])[position].text
            for found in (_convolution(), _attention(), _winograd())
        ]
        for position in (-2, -3)
    )
    assert all(other == one for other in others)
    assert all(other != tables for other in other_tables)


@pytest.mark.parametrize("needed", _SETS, ids=lambda some: "+".join(sorted(some)) or "none")
def test_what_is_named_is_defined(needed: Collection[str]) -> None:
    """Else the library would not load: each text is compiled without the others."""
    has = {"GB_HAS_STRASSEN": "strassen" in needed}
    named = set(re.findall(r"= GB\((\w+)\)", width_lists(needed)))
    is_taken = True
    for line in header("blocked_width.h").splitlines():
        if line.startswith("#"):
            is_taken = has[line.split()[1]] if line.startswith("#if ") else True
        elif is_taken:
            named.update(re.findall(r"= GB\((\w+)\)", line))
    defined = set(re.findall(r"^static .*? GB\((\w+)\)\(.*\{", header("blocked_width.h"), re.M))
    defined |= set(
        re.findall(
            r"^(?!static|GK_INLINE)\w.*? \*?GB\((\w+)\)\(.*\{",
            "\n".join(width_texts(needed)),
            re.M,
        )
    )
    assert named <= defined
    assert len(named) > 12


@pytest.mark.usefixtures("needs_a_compiler")
def test_texts_call_what_they_declare(tmp_path: Path) -> None:
    """Else it would be looked for when the library is loaded."""
    texts = width_texts(families())
    file = tmp_path / "text.c"
    for text in texts[: len(texts) // 4]:  # of the widest vectors
        file.write_text(text)
        refused = "-Werror=implicit-function-declaration"
        command = [*compiler(), "-std=c11", "-fsyntax-only", "-fopenmp-simd", refused, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr


@pytest.mark.usefixtures("needs_a_compiler")
def test_a_library_without_any_of_them() -> None:
    found = _product()
    tensors = [
        np.random.default_rng(0).standard_normal((1, 400, 32)).astype(np.float32),
        *found.constants.values(),
    ]
    library = build([found.area]).library
    (made,) = run_kernel(found, tensors, library)
    (plain,) = wanted(found.area, tensors)
    assert library and not difference(plain, made)


@needs_x86_code
@pytest.mark.usefixtures("needs_a_compiler")
def test_steps_leave_no_upper_halves_of_registers_behind() -> None:
    """gcc's own pass sees to it."""
    found = [_convolution(group=16), _winograd(), _attention(), _product(1024)]
    library = build([one.area for one in found]).library
    assert library is not None
    functions = vector_functions(library)
    assert len(functions) > 100
    for name, instructions in functions.items():
        assert any(line.startswith("vzeroupper") for line in instructions), name
