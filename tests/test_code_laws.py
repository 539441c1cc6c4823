"""Laws of all code: simple functions, one assignment a statement, narrow lines, plain English."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from laws import statements
from radon.complexity import cc_visit
from radon.visitors import Class, Function

ROOT = Path(__file__).parent.parent
FOLDERS = ("fusionc", "tests", "benchmarks", "docs", "sample_models", "examples")
MOST_COMPLEX = 12  # cyclomatic complexity of a function, as radon counts it
COLUMNS = 100
# Phrases that have to be read twice, and what to write instead.
HEAVY = {
    r"\b(is|are) no\b(?! (longer|more))": "is not a, there is no → lacks, does not exist",
    r"\b(has|have|had) not\b(?! (been|yet))": "does not have, lacks",
    r"\b(which|that) there is not\b": "that does not exist",
    r"\bof wh(ich|om)\b": "whose, or two sentences",
    r"\bin front of\b": "before",
    r"\bbehind\b": "after",
    r"\bbesides?\b": "next to, in addition to",
    r"\bbut for\b": "except",
    r"\bnobody\b": "no + noun",
    r"\bthat which\b": "the + noun",
    r"\bnothing but\b": "only",
    r"\b(in|by|with|of) what\b": "the noun",
}
# A file with fewer of these words has no complex function, and is not parsed.
BRANCH = re.compile(r"\b(and|assert|case|else|elif|except|for|if|lambda|or|while|with)\b")
LINE_BREAK = re.compile(r"\s*\n\s*(# *)?")


def test_no_function_is_complex() -> None:
    """Split such a function into parts that have names of their own."""
    require_none(complex_functions, files(FOLDERS, "*.py"))


def test_no_tuple_is_assigned_to_a_tuple() -> None:
    """Two values that have nothing to do with each other are two statements; a swap is one."""
    require_none(tuple_assignments, files(FOLDERS, "*.py"))


def test_lines_of_c_are_narrow() -> None:
    """Ruff checks those of Python."""
    require_none(wide_lines, files(["fusionc"], "*.h"))


def test_english_is_read_once() -> None:
    """Reword docstrings and comments with such phrases."""
    require_none(heavy_phrases, files(["fusionc"], "*.py"))


def complex_functions(source: str) -> Iterator[str]:
    is_simple = len(BRANCH.findall(source)) < MOST_COMPLEX
    for function in () if is_simple else functions_of(source):
        if function.complexity > MOST_COMPLEX:
            yield f"{function.lineno}: {function.name} has complexity {function.complexity}"


def tuple_assignments(source: str) -> Iterator[str]:
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            targets = [target for target in node.targets if isinstance(target, ast.Tuple)]
            if not all(is_swap(target, node.value) for target in targets):
                yield f"{node.lineno}: {ast.unparse(node)}"


def wide_lines(source: str) -> Iterator[str]:
    for number, line in enumerate(source.splitlines(), 1):
        if len(line) > COLUMNS:
            yield f"{number}: {len(line)} columns"


def heavy_phrases(source: str) -> Iterator[str]:
    anything = LINE_BREAK.sub(" ", source)
    there = [phrase for phrase in HEAVY if re.search(phrase, anything, re.IGNORECASE)]
    text = " ".join(prose(source)) if there else ""
    for phrase in there:
        for match in re.finditer(phrase, text, re.IGNORECASE):
            around = text[max(match.start() - 30, 0) : match.end() + 30]
            yield f"“{match.group()}” in “…{around}…”; better: {HEAVY[phrase]}"


def functions_of(source: str) -> list[Function]:
    """All functions, including methods and functions in functions, each once."""
    functions = {}
    blocks = cc_visit(source)
    while blocks:
        block = blocks.pop()
        if isinstance(block, Class):
            blocks += [*block.methods, *block.inner_classes]
        else:
            functions[block.lineno, block.name] = block
            blocks += block.closures
    return [functions[place] for place in sorted(functions)]


def is_swap(target: ast.Tuple, value: ast.Tuple) -> bool:
    """Whether a later value reads an earlier target: two statements would not do the same."""
    for at, name in enumerate(map(ast.unparse, target.elts)):
        later = (ast.unparse(part) for one in value.elts[at + 1 :] for part in ast.walk(one))
        if name in later:
            return True
    return False


def prose(source: str) -> Iterator[str]:
    """Docstrings, without their line breaks, and comments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield " ".join((ast.get_docstring(node) or "").split())
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")


def files(folders: Iterable[str], pattern: str) -> list[Path]:
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob(pattern))]
    assert paths
    return paths


def require_none(law: Callable[[str], Iterator[str]], paths: Iterable[Path]) -> None:
    """Fail with all breaches of a law in these files."""
    breaches = [
        f"{path.relative_to(ROOT)}:{breach}"
        for path in paths
        for breach in law(path.read_text(encoding="utf-8"))
    ]
    if breaches:
        pytest.fail("\n".join(breaches), pytrace=False)


BRANCHES = "    if x: pass\n" * MOST_COMPLEX
LONG = f"def f(x):\n{BRANCHES}"  # its complexity is one more than its number of branches


@pytest.mark.parametrize(
    "law, broken, kept",
    [
        (complex_functions, LONG, LONG.removesuffix("    if x: pass\n")),
        (complex_functions, f"class A:\n  class B:\n   {LONG}", "class A: pass"),
        (complex_functions, f"def g():\n   {LONG}", "def g(): pass"),
        (complex_functions, f"def f(x): return [{'x and ' * 12} x for _ in x]", "x and x"),
        (tuple_assignments, "a, b = 1, 2", "a, b = f()"),
        (tuple_assignments, "a, b = a + 1, 2", "a, b = b, a + b"),
        (tuple_assignments, "x[0], x[1] = 1, x[2]", "x[0], x[1] = x[1], x[0]"),
        (wide_lines, "x" * (COLUMNS + 1), "x" * COLUMNS),
        (heavy_phrases, "# it has not a name", "# it has not been read"),
        (heavy_phrases, "# there is no name", "# there is no longer a name"),
        (heavy_phrases, "# the names\n# behind it", "behind = 1"),
        (heavy_phrases, 'def f():\n    """A name of\n    which."""', "x = 'A name of which.'"),
    ],
)
def test_a_law_finds_what_breaks_it(
    law: Callable[[str], Iterator[str]], broken: str, kept: str
) -> None:
    assert list(law(broken)) and not list(law(kept))
