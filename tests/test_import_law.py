"""A room imports from the rooms below it, never upwards and never sideways."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "fusionc"
HEIGHT = {
    "__main__": 8, "cli": 7, "conversion": 6, "job": 5, "requested": 4, "precheck": 4, "custom": 4, "areas": 4,
    "passes": 3, "graph_kernel": 3, "verify": 3, "report": 3, "switches": 4, "target_opset": 3,
    "rewrite": 2, "shapes": 1, "disk": 1, "runtime": 1, "reduction_order": 0, "model": 0, "arguments": 0, "errors": -1,
}  # fmt: skip
ENGINE = 3183  # lines of code
SMALL = 500  # lines; a longer module is more than one room


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


MODULES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down(path: Path) -> None:
    own = path.relative_to(ROOT).with_suffix("").parts[0]
    if own == "__init__":
        return  # the public API: names from all rooms, imported when they are used
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            names = [node.module or ""]
        else:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        for other in (room(name) for name in names if name.startswith("fusionc.")):
            assert other == own or HEIGHT[other] < HEIGHT[own], f"{own} must not import {other}"
        if own == "cli":
            graph_code = [n for n in names if room(n) in ("model", "rewrite") and n != "fusionc.rewrite.definition"]
            assert not graph_code, "the command line has no graph code"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_is_one_room(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= SMALL


def test_the_engine_stays_small() -> None:
    """Lines of code, without comments and docstrings, of what every pass depends on."""
    engine = [p for name in ("model", "shapes", "rewrite", "switches") for p in (ROOT / name).rglob("*.py")]
    assert sum(map(code_lines, engine)) <= ENGINE


def code_lines(path: Path) -> int:
    source = path.read_text()
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {line for t in tokens if t.type not in skipped for line in range(t.start[0], t.end[0] + 1)}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)
