"""A room imports from the rooms below it, never upwards and never sideways."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from laws import for_each, statements

ROOT = Path(__file__).parent.parent / "fusionc"
FLOORS = (
    ("version", "errors", "operators", "protos"),
    ("model",),
    ("disk", "exactness", "integer_groups", "shapes", "runtime"),
    ("rewrite",),
    # Rooms in a room, which others see as one. What ties them together may look at verification and
    # the log, they may not.
    ("graph_kernel.area",),
    ("graph_kernel.lower",),
    ("graph_kernel.blocked",),
    ("graph_kernel.c",),
    ("graph_kernel.library",),
    ("graph_kernel.flags",),
    ("graph_kernel.select",),
    ("passes", "verify"),
    ("report",),
    ("custom", "graph_kernel", "inspect", "requested", "switches"),
    ("check_rewrites", "diff", "options", "ready_form"),
    ("attempt", "bench"),
    ("bisect", "why"),
    ("conversion",),
    ("tune",),
    ("api",),
    ("batch", "in_memory"),
    ("__init__",),
    ("cli",),
    ("__main__",),
)
HEIGHT = {name: height for height, names in enumerate(FLOORS) for name in names}
MOST_ROOMS = 36  # files and folders at the top of fusionc/
ENGINE = 3200  # lines of code


def room(module: str, seen_from: str = "") -> str:
    """The room of a module, or the one in that room, where those who ask are in that room, too."""
    parts = module.split(".")[1:]
    inner = ".".join(parts[:2])
    return inner if inner in HEIGHT and seen_from.split(".")[0] == parts[0] else "".join(parts[:1])


MODULES = sorted(ROOT.rglob("*.py"))


@for_each(MODULES, Path.as_posix)
def test_imports_go_down(path: Path) -> None:
    top = path.relative_to(ROOT).with_suffix("").parts[0]
    own = room(module_name(path), seen_from=top) or top
    names = own_names_imported(path)
    for other in (room(name, seen_from=own) or "__init__" for name in names):
        assert other == own or HEIGHT[other] < HEIGHT[own], f"{own} must not import {other}"
    if own == "cli":
        graph_code = {name for name in names if room(name) in ("model", "rewrite")}
        assert graph_code <= {"fusionc.rewrite.definition"}, "the command line has no graph code"


def own_names_imported(path: Path) -> list[str]:
    """What a file imports of fusionc."""
    names = list[str]()
    for node in statements(tree_of(path)):
        assert not isinstance(node, ast.ImportFrom) or not node.level, "imports are absolute"
        names += [name for name in imported_names(node) if name.partition(".")[0] == "fusionc"]
    return names


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside of functions count, too. Who imports nothing that is left is taken away until
    nobody can be.
    """
    left = {module_name(path): set(imported_modules(path)) for path in MODULES}
    while free := {module for module, imported in left.items() if not imported & left.keys()}:
        left = {module: imported for module, imported in left.items() if module not in free}
    while ends := left.keys() - set().union(*left.values()):  # those above a circle
        left = {module: imported for module, imported in left.items() if module not in ends}
    assert not left


def test_no_file_name_and_no_public_class_name_is_there_twice() -> None:
    names = [path.name for path in MODULES if path.name != "__init__.py"]
    for path in MODULES:
        classes = [
            node.name for node in statements(tree_of(path)) if isinstance(node, ast.ClassDef)
        ]
        names += [name for name in classes if not name.startswith("_")]
    assert not {name for name, times in Counter(names).items() if times > 1}


def test_the_check_uses_nothing_of_what_it_checks() -> None:
    allowed = ("verify", "runtime", "disk", "errors", "operators", "protos")
    allowed += ("model.functions", "model.operators", "model.tensors")
    for path in (ROOT / "verify").rglob("*.py"):
        own = {module.removeprefix("fusionc.") for module in imported_modules(path)}
        assert {module for module in own if not module.startswith(allowed)} == set(), path


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


@cache
def known_modules() -> frozenset[str]:
    return frozenset(map(module_name, MODULES))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported_modules(path: Path) -> Iterator[str]:
    """The modules of fusionc that a module imports, at its top or inside functions."""
    for node in statements(tree_of(path)):
        yield from {*imported_names(node)} & known_modules()


def imported_names(node: ast.AST) -> Iterator[str]:
    """The modules that a node of a syntax tree imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            module = f"{node.module}.{alias.name}"
            yield module if module in known_modules() else node.module or ""


def test_the_rooms_at_the_top_can_be_overlooked() -> None:
    entries = [path.name for path in ROOT.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= MOST_ROOMS, sorted(entries)


def test_the_engine_stays_small() -> None:
    """Lines of code, without comments and docstrings.

    What reads protos alone and the table of onnx-graphsurgeon's calls are everybody's.
    """
    rooms = ("model", "shapes", "rewrite", "switches")
    engine = {path for name in rooms for path in (ROOT / name).rglob("*.py")}
    engine -= {ROOT / "model/functions.py", ROOT / "model/graphsurgeon.py"}
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
