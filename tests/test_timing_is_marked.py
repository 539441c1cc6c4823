"""What a clock says depends on what else runs: tests that judge it are marked, and no part of make
test.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from laws import for_each

TESTS = Path(__file__).parent
CLOCKS = {"perf_counter", "perf_counter_ns", "process_time", "thread_time", "seconds_per_node"}


def names_in(node: ast.AST) -> set[str]:
    inner = list(ast.walk(node))
    return {n.id for n in inner if isinstance(n, ast.Name)} | {
        n.attr for n in inner if isinstance(n, ast.Attribute)
    }


@for_each(sorted(TESTS.rglob("test_*.py")), Path.as_posix)
def test_what_measures_time_is_marked(path: Path) -> None:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            is_marked = any("timing" in names_in(decorator) for decorator in node.decorator_list)
            assert is_marked == bool(CLOCKS & names_in(node)), node.name


def test_make_test_leaves_them_out() -> None:
    makefile = (TESTS.parent / "Makefile").read_text()
    (recipe,) = [line for line in makefile.splitlines() if "pytest -n 2" in line]
    arguments = [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "not timing",
        "--collect-only",
        "-q",
        str(TESTS / "rewrite"),
    ]
    assert '-m "not timing and not long"' in recipe
    listed = subprocess.run(
        arguments, capture_output=True, text=True, check=True, cwd=TESTS.parent
    ).stdout
    assert "test_linear_time" not in listed and "test_engine" in listed
