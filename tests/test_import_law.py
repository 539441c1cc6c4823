"""A room imports from the rooms below it, never upwards and never sideways."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "fusionc"
HEIGHT = {
    "__main__": 11, "cli": 10, "api": 9, "conversion": 8, "save_if_right": 7.5, "bisect": 7, "onlookers": 7,
    "verdict": 6.5, "job": 6, "surroundings": 5, "options": 5, "check_rewrites": 5, "diff": 5, "report_page": 4,
    "requested": 4, "precheck": 4, "custom": 4, "graph_kernel": 4, "switches": 4, "failures": 4, "report": 3.5,
    "passes": 3, "verify": 3, "target_opset": 3, "rewrite": 2, "shapes": 1, "disk": 1, "runtime": 1, "model": 0,
    "exactness": 1.5, "errors": -1, "graphsurgeon": -1, "operators": -1, "protos": -1,
    "node_origin": -1, "in_memory": 9.5, "batch": 9.5, "ready_form": 5, "inspect": 5, "why": 7,
    "bench": 6, "tune": 8.5, "loadable": 6.5, "functions": 0.5, "integer_groups": 1.5,
}  # fmt: skip
# Rooms in a room, which others see as one. What ties them together may look at verification and the
# log, they may not.
KERNEL_ROOMS = ("area", "lower", "blocked", "c", "library", "flags", "select")
HEIGHT |= {f"graph_kernel.{name}": 2 + k / 10 for k, name in enumerate(KERNEL_ROOMS, 1)}
ENGINE = 3200  # lines of code


def room(module: str, seen_from: str = "") -> str:
    """The room of a module, or the one in that room, where those who ask are in that room, too."""
    parts = module.split(".")[1:]
    inner = ".".join(parts[:2])
    return inner if inner in HEIGHT and seen_from.split(".")[0] == parts[0] else "".join(parts[:1])


MODULES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down(path: Path) -> None:
    top = path.relative_to(ROOT).with_suffix("").parts[0]
    if top == "__init__":
        return  # the public API: names from all rooms, imported when they are used
    own = room(module_name(path), seen_from=top)
    names = names_imported(path)
    for other in (room(name, seen_from=own) for name in names if name.startswith("fusionc.")):
        assert other == own or HEIGHT[other] < HEIGHT[own], f"{own} must not import {other}"
    if own == "cli":
        graph_code = [name for name in names if room(name) in ("model", "rewrite")]
        assert set(graph_code) <= {"fusionc.rewrite.definition"}, (
            "the command line has no graph code"
        )


def names_imported(path: Path) -> list[str]:
    """The modules that a file names in its imports."""
    names = list[str]()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            names.append(node.module or "")
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return names


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside of functions count, too. Who imports nothing that is left is taken away until
    nobody can be.
    """
    left = {
        module_name(path): set(imported_modules(path))
        for path in MODULES
        if path != ROOT / "__init__.py"
    }
    while free := {module for module, imported in left.items() if not imported & left.keys()}:
        left = {module: imported for module, imported in left.items() if module not in free}
    while ends := left.keys() - set().union(*left.values()):  # those above a circle
        left = {module: imported for module, imported in left.items() if module not in ends}
    assert not left


def test_no_file_name_and_no_public_class_name_is_there_twice() -> None:
    names = [path.name for path in MODULES if path.name != "__init__.py"]
    for path in MODULES:
        classes = [node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]
        names += [name for name in classes if not name.startswith("_")]
    assert not {name for name, times in Counter(names).items() if times > 1}


def test_the_check_uses_nothing_of_what_it_checks() -> None:
    allowed = (
        "verify",
        "runtime",
        "disk",
        "errors",
        "model.operators",
        "model.tensors",
        "protos",
        "node_origin",
    )
    # which knows nothing of graphs
    allowed += ("operators", "functions", "shapes.polynomials")
    for path in (ROOT / "verify").rglob("*.py"):
        own = {module.removeprefix("fusionc.") for module in imported_modules(path)}
        assert {module for module in own if not module.startswith(allowed)} == set(), path


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


@cache
def known_modules() -> frozenset[str]:
    return frozenset(module_name(path) for path in MODULES) - {"fusionc"}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported_modules(path: Path) -> Iterator[str]:
    """The modules of fusionc that a module imports, but for the public API, which imports nothing
    until it is used.
    """
    known = known_modules()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                yield from {module if module in known else node.module or ""} & known
        elif isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & known


def test_the_engine_stays_small() -> None:
    """Lines of code, without comments and docstrings.

    What reads protos alone (protos.py) and words errors (errors.py) is below these rooms, and
    everybody's.
    """
    engine = [
        p
        for name in ("model", "shapes", "rewrite", "switches")
        for p in (ROOT / name).rglob("*.py")
    ]
    assert sum(map(code_lines, engine)) <= ENGINE


def code_lines(path: Path) -> int:
    source = path.read_text()
    skipped = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {
        line for t in tokens if t.type not in skipped for line in range(t.start[0], t.end[0] + 1)
    }
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)
