"""Change fusionc at one place at a time, and find out whether the tests of the changed room notice
it.

    make mutants                                                    # .venv-mutants, 25 places of
                                                                    # each room, seed 0
    .venv-mutants/bin/python benchmarks/mutants.py --rooms verify --count 100 --seed 3

cosmic-ray makes the changes (another comparison, another number, `and` instead of `or`, …). The
places are a random sample of all places that it finds, without annotations. The change is written
to a copy of the tree, and the tests run there, in a process that is forked after the large
libraries were loaded: a mutant takes seconds. Each survivor is printed as a line for a reader:
either a test is missing, or the change has no effect. benchmarks/mutants.md has the answers for
survivors that were examined.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

for name in ("numpy", "ml_dtypes", "onnx", "onnx_graphsurgeon", "onnxruntime"):
    importlib.import_module(name)  # imported here, so that each mutant does not have to

ROOT = Path(__file__).parents[1]
# the folder, and the tests that run for it, quick ones first; a test file with the module's own
# name comes before these
ROOMS = {
    "model": ("fusionc/model", [
        "tests/model", "tests/rewrite/test_engine.py", "tests/passes/test_small_models.py",
        "tests/traps", "tests/conversion",
    ]),
    "shapes": ("fusionc/shapes", [
        "tests/shapes", "tests/rewrite/test_engine.py", "tests/passes/test_small_models.py",
        "tests/traps", "tests/conversion",
    ]),
    "rewrite": ("fusionc/rewrite", [
        "tests/rewrite/test_engine.py", "tests/rewrite/test_pattern_language.py",
        "tests/passes/test_small_models.py", "tests/traps",
        "tests/passes/cleanup/test_switch_dead_branch_elimination.py",
        "tests/passes/cleanup/test_identity.py", "tests/conversion",
    ]),
    "verify": ("fusionc/verify", ["tests/verify", "tests/conversion"]),
    "lower": ("fusionc/graph_kernel/lower", ["tests/graph_kernel/lower/test_data_movement.py",
                                             "tests/graph_kernel/lower/test_shape_operator.py",
                                             "tests/graph_kernel/c", "tests/graph_kernel/lower"]),
    "c": ("fusionc/graph_kernel/c", ["tests/graph_kernel/c", "tests/graph_kernel/lower"]),
    "library": ("fusionc/graph_kernel/library", ["tests/graph_kernel/library"]),
}  # fmt: skip
COPIED = (
    "fusionc",
    "tests",
    "sample_models",
    "switch_configs",
    "docs",
    "benchmarks",
    "pyproject.toml",
    "README.md",
)
# | in annotations and unions of types is not an operator, and decorators and caught exceptions are
# not numbers.
LEFT_OUT = ("BitOr", "RemoveDecorator", "ExceptionReplacer", "Variable", "_Is", "Is_", "IsNot_")

Place = tuple[Path, tuple[int, int]]
Change = tuple[str, int]  # an operator of cosmic-ray, and the index of its occurrence in the file


def places_of(path: Path) -> dict[Place, list[Change]]:
    """The possible changes of a file, by place."""
    source = path.read_text()
    tree = get_ast(source)
    skipped = annotations(source)
    found: dict[Place, list[Change]] = defaultdict(list)
    for name in operator_names():
        if any(part in name for part in LEFT_OUT):
            continue
        operator = get_operator(name)()
        positions = [
            position for node in ast_nodes(tree) for position in operator.mutation_positions(node)
        ]
        for occurrence, (start, _) in enumerate(positions):
            if not any(first <= start < last for first, last in skipped):
                found[path, start].append((name, occurrence))
    return found


def annotations(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The places of type annotations, which are never evaluated."""
    nodes = list(ast.walk(ast.parse(source)))
    types = [getattr(node, field, None) for node in nodes for field in ("annotation", "returns")]
    return [
        ((t.lineno, t.col_offset), (t.end_lineno or 0, t.end_col_offset or 0))
        for t in types
        if t is not None
    ]


def mutant(path: Path, change: Change) -> tuple[str, str]:
    """The changed text of a file, and the lines that differ."""
    source = path.read_text()
    text = mutate_code(source, get_operator(change[0])(), change[1]) or source
    lines = difflib.unified_diff(source.splitlines(), text.splitlines(), n=0, lineterm="")
    return text, " → ".join(
        line[1:].strip() for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")
    )


def tests_of(room: str, path: Path) -> list[str]:
    own = sorted(
        str(found.relative_to(ROOT)) for found in (ROOT / "tests").rglob(f"test_{path.stem}.py")
    )
    return [*own, *(name for name in ROOMS[room][1] if (ROOT / name).exists())]


def verdict(tree: Path, tests: list[str], limit: float) -> str:
    """The outcome of the tests in this copy of the tree: killed, survived, or over the time limit
    in seconds.
    """
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(tree)
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        sys.path.insert(0, str(tree))
        os.environ["PYTHONPATH"] = str(tree)
        code = next(
            (c for name in tests if (c := pytest.main(["-xq", "-p", "no:cacheprovider", name]))), 0
        )
        os._exit(int(code != 0))
    end = time.monotonic() + limit
    done = 0
    try:
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return "survived" if status == 0 else "killed"
            time.sleep(0.05)
        return "too slow"
    finally:  # also after Ctrl-C
        if not done:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rooms", nargs="+", choices=list(ROOMS), default=list(ROOMS))
    parser.add_argument("--files", nargs="+", help="only files of these names, such as compare.py")
    parser.add_argument("--count", type=int, default=25, help="places of each room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=600, help="seconds for one mutant")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in COPIED:
            source = ROOT / name
            shutil.copytree(source, tree / name) if source.is_dir() else shutil.copy(
                source, tree / name
            )
        for room in options.rooms:
            if verdict(tree, ROOMS[room][1], 4 * options.limit) != "survived":
                sys.exit(f"the tests of {room} fail, or take too long, without any change")
            run_room(room, options, tree)


def run_room(room: str, options: argparse.Namespace, tree: Path) -> None:
    files = [
        p
        for p in sorted((ROOT / ROOMS[room][0]).rglob("*.py"))
        if not options.files or p.name in options.files
    ]
    found = {place: changes for path in files for place, changes in places_of(path).items()}
    rng = random.Random(options.seed)
    sample = rng.sample(sorted(found), min(options.count, len(found)))
    counts: Counter[str] = Counter()
    for path, (line, column) in sample:
        change = rng.choice(found[path, (line, column)])
        text, difference = mutant(path, change)
        copy = tree / path.relative_to(ROOT)
        copy.write_text(text)
        found_out = verdict(tree, tests_of(room, path), options.limit)
        shutil.copy(path, copy)
        counts[found_out] += 1
        if found_out != "killed":
            print(f"{found_out}: {path.relative_to(ROOT)}:{line}: {difference}", flush=True)
    print(f"{room}: {len(found)} places, of which {dict(counts)}", flush=True)


if __name__ == "__main__":
    main()
