"""The laws that every pass of the registry obeys."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from harness import Fires, Stays, load_tests_of, parse
from laws import for_each
from onnx import ModelProto

from fusionc import passes
from fusionc.passes import PASSES
from fusionc.passes.areas._area_pass import AreaPass
from fusionc.passes.by_operator import operators_of
from fusionc.rewrite import Pass
from fusionc.switches import PassNames, decide

FOLDER = Path(passes.__file__).parent
TESTS = Path(__file__).parent
SECTIONS = ["before", "after", "refuses", "algebra", "source"]
MODEL = {  # the questions that a pass may ask; the rest of the room reads, writes and changes models
    "fusionc.shapes.elements",
    "fusionc.model.disjoint_sets",
    "fusionc.model.functions",
    "fusionc.model.graph",
    "fusionc.model.operators",
    "fusionc.model.tensors",
    "fusionc.shapes.equality",
    "fusionc.shapes.expressions",
    "fusionc.protos",
    "fusionc.runtime.cpu_kernels",
    "fusionc.runtime.evaluate",
    "fusionc.runtime.processor",
}
OUTSIDE = {
    "builtins",
    "io",
    "os",
    "pathlib",
    "shutil",
    "socket",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "urllib",
}
FILES = sorted(FOLDER.glob("*/*.py"))
MODULES = [p for p in FILES if not p.stem.startswith("_") and p.parent.name != "_shared"]
HELPERS = [p for p in FILES if p not in MODULES and p.stem != "__init__"]
LONGEST = 300  # lines of a helper and its only user, which may then be two files
# Passes that look for no operator in particular.
ANY_OPERATOR = {
    "CommonSubexpressionEliminationPass",
    "ConstantFoldingPass",
    "FunctionInlinePass",
    "PrunePass",
    "RemoveSameConstPass",
    *(p.name for p in PASSES if isinstance(p, AreaPass)),
}
ORDERED_BY = re.compile(
    "^(a_tbe|aa|a|z|tbe)_"
)  # what CANN puts in front of a name, for its own order


def module_of(pass_: Pass) -> Path:
    return Path(importlib.import_module(type(pass_).__module__).__file__ or "")


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])", "_", name).lower()


def test_every_module_is_registered_once() -> None:
    assert sorted(map(module_of, PASSES)) == sorted(MODULES)


def test_every_test_file_belongs_to_a_pass() -> None:
    files = sorted(p.relative_to(TESTS) for p in TESTS.glob("*/*.py"))
    assert files == sorted(Path(p.parent.name, f"test_{p.name}") for p in MODULES)


def test_the_headings_of_the_registry_are_the_folders() -> None:
    folders = {p.parent.name for p in MODULES}
    heading = ""
    seen = set()
    for line in Path(passes.__file__).read_text().splitlines():
        if (comment := re.match(r"    # (\w+)", line)) and comment[1] in folders:
            heading = comment[1]
        elif found := re.match(r'    "(\w+)\.\w+",', line):
            assert found[1] == heading, f"{line.strip()} stands under {heading}"
            seen.add(heading)
    assert seen == folders


def tables_of(pass_: Pass) -> tuple[list[Stays], list[Fires]]:
    module = load_tests_of(pass_)
    return module.STAYS, getattr(module, "FIRES", [])


def operators_in(holder: Any) -> set[str]:
    """The operators of a model, a graph or a function, those of its subgraphs and functions included."""
    if isinstance(holder, ModelProto):
        return set().union(*map(operators_in, (holder.graph, *holder.functions)))
    found = {f"{node.domain}.{node.op_type}".removeprefix(".") for node in holder.node}
    return found.union(
        *(operators_in(a.g) for node in holder.node for a in node.attribute if a.HasField("g"))
    )


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(FOLDER.parents[1]).with_suffix("").parts)


@cache
def text_of(path: Path) -> str:
    return path.read_text()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


@cache
def users_of(helper: Path) -> set[Path]:
    return {p for p in FILES if f"from {module_name(helper)} import" in text_of(p)}


@for_each(HELPERS, Path.as_posix)
def test_a_helper_lies_where_it_is_used(helper: Path) -> None:
    """What several topics use lies in _shared, what several files of one topic use in that; what one file uses is part
    of that file, unless they are too long together."""
    users = users_of(helper)
    topics = {p.parent.name for p in users}
    if helper.parent.name == "_shared":
        assert len(topics) > 1, f"only {topics} use it"
        return
    assert topics == {helper.parent.name}
    lines = sum(len(p.read_text().splitlines()) for p in (helper, *users))
    assert len(users) > 1 or lines > LONGEST, f"only {users} uses it"


@for_each(HELPERS, Path.as_posix)
def test_what_a_helper_offers_has_several_users(helper: Path) -> None:
    """A function, class or constant that one file uses is part of that file. The helper itself counts as a user."""
    users = [imported(tree_of(p), module_name(helper)) for p in users_of(helper)]
    tree = tree_of(helper)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    signatures = set().union(*map(annotated, functions))
    for node in tree.body:
        others = set().union(*(loaded(other) for other in tree.body if other is not node))
        for name in defined(node):
            times = sum(name in names for names in users)
            is_told = times == len(users) == 1  # they are too long together
            assert times + (name in others) > 1 or is_told or name in signatures, (
                f"{name} has one user"
            )


@for_each(HELPERS, Path.as_posix)
def test_what_a_helper_offers_has_a_docstring(helper: Path) -> None:
    for node in tree_of(helper).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and defined(node):
            assert ast.get_docstring(node), f"{node.name} has no docstring"


def defined(node: ast.stmt) -> list[str]:
    """The public names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        names = [node.name]
    else:
        names = [
            n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        ]
    return [name for name in names if not name.startswith("_")]


@cache
def loaded(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def annotated(function: ast.FunctionDef) -> set[str]:
    """The names in the annotations of a public function."""
    if function.name.startswith("_"):
        return set()
    hints = [function.returns, *(argument.annotation for argument in function.args.args)]
    return {name for hint in hints if hint is not None for name in loaded(hint)}


@cache
def imported(tree: ast.Module, module: str) -> set[str]:
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module == module]
    return {alias.name for node in nodes for alias in node.names}


def test_names_and_aliases_are_unique() -> None:
    """An alias may stand for several passes, as the name of one it would be nobody's else."""
    names = {p.name for p in PASSES}
    assert len(names) == len(PASSES)
    for p in PASSES:
        assert len(set(p.aliases)) == len(p.aliases) and not names & set(p.aliases)


MINDSPORE = """
FlashAttentionFusionV1 FlashAttentionFusionV2 add_layer_norm_fusion add_layer_norm_v3_fusion add_layer_norm_ext_fusion
inference_swiglu_fusion inference_matmul_split_fusion shape_reshape add_rms_norm_quant_fusion rms_norm_quant_fusion
add_rms_norm_fusion add_cast_rms_norm_cast_fusion MatMulAllReduce split_concat_fusion matmul_elemwise_fusion
inference_qbmm_add_fusion inference_qbmm_allreduce_add_fusion
"""


@pytest.mark.parametrize("name", MINDSPORE.split())
def test_the_passes_of_mindspore_are_there(name: str) -> None:
    found = {p.name for p in PassNames(PASSES).find(name)}
    assert found and decide(PASSES, optimization_switch=f"{name}:on").enabled >= found


def test_pattern_fusion_is_what_torchair_has() -> None:
    assert [p.name for p in PASSES if p.is_pattern_fusion] == [
        "AddRmsNormDynamicQuantFusionPass",
        "AddRmsNormQuantFusionPass",
        "AddCastRmsNormCastFusionPass",
    ]


def name_of(pass_: Pass) -> str:
    return pass_.name


class TestPass:
    @for_each(PASSES, name_of)
    def test_the_module_is_named_after_the_class(self, pass_: Pass) -> None:
        assert module_of(pass_).stem == ORDERED_BY.sub(
            "", snake_case(pass_.name.removesuffix("Pass"))
        )

    @for_each(PASSES, name_of)
    def test_the_docstring_has_its_sections(self, pass_: Pass) -> None:
        assert pass_.summary.endswith(".")
        _, _, sections = pass_.documentation.partition("\n\n")
        lines = [line for line in sections.splitlines() if line]
        first_words = [line.split()[0] for line in lines if not line.startswith(" ")]
        assert [word for word in first_words if word != "never"] == SECTIONS

    @for_each(PASSES, name_of)
    def test_patterns_have_names_and_something_to_search(self, pass_: Pass) -> None:
        names = [pattern.name for pattern in pass_.patterns]
        assert bool(names) != bool(pass_.never_matches) and len(set(names)) == len(names)
        assert all(
            (pattern.formula is None) != (pattern.find is None) for pattern in pass_.patterns
        )

    @for_each(PASSES, name_of)
    def test_a_pass_that_never_matches_says_so(self, pass_: Pass) -> None:
        assert pass_.summary.startswith("Never matches: ") == bool(pass_.never_matches)
        assert pass_.default == "off" or not pass_.never_matches

    @for_each(PASSES, name_of)
    def test_approximate_passes_are_off(self, pass_: Pass) -> None:
        assert pass_.numerics != "approximate" or pass_.default == "off"

    @for_each(PASSES, name_of)
    def test_it_has_its_tables(self, pass_: Pass) -> None:
        is_never = bool(pass_.never_matches) or isinstance(pass_, AreaPass)
        stays, fires = tables_of(pass_)
        assert stays and bool(fires) != is_never

    @for_each(PASSES, name_of)
    def test_what_it_looks_for_is_there_where_it_fires(self, pass_: Pass) -> None:
        named = [operators_of(pattern) for pattern in pass_.patterns]
        assert all(named) != (pass_.name in ANY_OPERATOR) or not named
        for case in tables_of(pass_)[1] if all(named) else []:
            there = operators_in(parse(case.graph, case.opset, case.ir_version))
            assert any(names & there for names in named), case.name


@for_each([*HELPERS, *MODULES], Path.as_posix)
def test_it_imports_only_what_a_pass_may_use(path: Path) -> None:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            assert all(may_be_imported(alias.name) for alias in node.names), ast.unparse(node)
        if isinstance(node, ast.ImportFrom):
            assert may_be_imported(node.module or ""), ast.unparse(node)
            is_onnx = (node.module or "").split(".")[0] == "onnx"
            assert not is_onnx or all(a.name.endswith("Proto") for a in node.names), (
                f"of onnx, a pass needs the enumerations only: {ast.unparse(node)}"
            )


@for_each([*HELPERS, *MODULES], Path.as_posix)
def test_it_neither_reads_nor_writes(path: Path) -> None:
    names = [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.Name)]
    assert not {n.id for n in names} & {"open", "print", "input", "exec", "eval"}


def may_be_imported(name: str) -> bool:
    top = name.split(".")[0]
    if top == "fusionc":
        room = name.split(".")[1]
        return (
            room in {"exactness", "integer_groups", "operators", "passes", "rewrite"}
            or name in MODEL
        )
    return top in {"numpy", "ml_dtypes", "onnx"} or (
        top in sys.stdlib_module_names and top not in OUTSIDE
    )


@pytest.mark.parametrize(
    "name", ["onnxruntime", "click", "rich.table", "os.path", "fusionc.report", "fusionc.disk.save"]
)
def test_what_a_pass_may_not_import(name: str) -> None:
    assert not may_be_imported(name)
