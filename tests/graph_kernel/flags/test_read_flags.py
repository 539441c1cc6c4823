"""graph_kernel_flags, rule by rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from areas import area_of

from fusionc.graph_kernel.c.source import reason_against
from fusionc.graph_kernel.flag_warnings import (
    needless_lists,
    unknown_operators,
    unknown_patterns,
    unknown_rules,
)
from fusionc.graph_kernel.flags.file_of_flags import VARIABLE
from fusionc.graph_kernel.flags.flag_table import EFFECTIVE, WITHOUT_EFFECT, Flags
from fusionc.graph_kernel.flags.read_flags import ReadFlags, read_flags
from fusionc.graph_kernel.flags.stages import STAGE_PASSES
from fusionc.graph_kernel.select.operator_kinds import COMPUTED, EXPAND
from fusionc.graph_kernel.select.split.split_patterns import PATTERNS
from fusionc.graph_kernel.select.split.stitch import STITCH
from fusionc.operators.facts import Trait, names_with
from fusionc.passes import PASSES

PAGE = Path(__file__).parents[3] / "docs" / "graph_kernel.md"

VALID = [  # text, what it changes
    ("", {}),
    ("--opt_level=1", {"opt_level": 1}),
    ("--opt_level=0", {"opt_level": 0}),
    ("  --opt_level=1   --dump_as_text ", {"opt_level": 1, "dump_as_text": True}),
    ("--dump_as_text=true", {"dump_as_text": True}),
    ("--dump_as_text=True", {"dump_as_text": True}),
    ("--dump_as_text=on", {"dump_as_text": True}),
    ("--dump_as_text=1", {"dump_as_text": True}),
    ("--exact_precision_mode=false", {"exact_precision_mode": False}),
    ("--exact_precision_mode=False", {"exact_precision_mode": False}),
    ("--exact_precision_mode=off", {"exact_precision_mode": False}),
    ("--exact_precision_mode=0", {"exact_precision_mode": False}),
    ("--composite_op_limit_size=-1", {"composite_op_limit_size": -1}),
    ("--enable_expand_ops=Square", {"enable_expand_ops": ("Pow",)}),
    ("--enable_cluster_ops=MatMul,,Add,", {"enable_cluster_ops": ("MatMul", "Add")}),
]
WRONG = [  # text, what it changes nevertheless, what the warning says
    ("opt_level=1", {}, '"opt_level=1" is invalid'),
    ("-opt_level=1", {}, '"-opt_level=1" is invalid'),
    ("--opt_level=", {}, '"--opt_level=" is invalid'),
    ("--opt_level=1=2", {}, '"--opt_level=1=2" is invalid'),
    ("--=1", {}, '"--=1" is invalid'),
    ("--\topt_level=1", {}, "Unknown flag: \topt_level"),
    ("--opt_level=1 --opt_level=3", {"opt_level": 1}, '"--opt_level" is repeated'),
    ("--opt_level=4", {"opt_level": 3, "enable_stitch_fusion": True}, "opt_level 4 is above 3"),
    (
        "--opt_level=-1",
        {},
        'the value "-1" of the flag "--opt_level" is invalid; its default is used',
    ),
    ("--opt_level=2.5", {}, 'the value "2.5" of the flag "--opt_level"'),
    ("--opt_level=2x", {}, 'the value "2x" of the flag "--opt_level"'),
    ("--opt_level", {}, 'the value "" of the flag "--opt_level"'),
    ("--opt_level=99999999999", {}, 'the value "99999999999" of the flag "--opt_level"'),
    ("--opt_level=" + "9" * 5000, {}, '999" of the flag "--opt_level"'),
    ("--opt_level=\N{ARABIC-INDIC DIGIT ONE}", {}, 'of the flag "--opt_level"'),
    ("--dump_as_text=yes", {}, 'the value "yes" of the flag "--dump_as_text"'),
    ("--enable_pass", {}, 'the value "" of the flag "--enable_pass"'),
    ("--disable_pass=,", {}, 'the value "," of the flag "--disable_pass"'),
    ("--no_such_flag=1 --dump_as_text", {"dump_as_text": True}, "Unknown flag: no_such_flag"),
    ("--path=no_such_file.json --dump_as_text", {}, '"no_such_file.json" cannot be read'),
    ("--cpu_refer_thread_num=x", {}, 'the value "x" of the flag "--cpu_refer_thread_num"'),
]


def changed(flags: Flags) -> dict[str, object]:
    default = vars(Flags(opt_level=2))
    return {key: value for key, value in vars(flags).items() if value != default[key]}


def read(text: str | None, is_enabled: bool | None = True) -> ReadFlags:
    return read_flags(text, is_enabled=is_enabled)


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.mark.parametrize(("text", "expected"), VALID)
def test_what_is_right(text: str, expected: dict[str, object]) -> None:
    found = read(text)
    assert changed(found.flags) == expected and not found.warnings and not found.notices


@pytest.mark.parametrize(("text", "expected", "warning"), WRONG)
def test_what_is_wrong_is_a_warning(text: str, expected: dict[str, object], warning: str) -> None:
    found = read(text)
    assert changed(found.flags) == expected
    assert any(warning in line for line in found.warnings)


def test_the_tables_hold_every_flag_once() -> None:
    assert set(EFFECTIVE) == set(vars(Flags())) and not set(EFFECTIVE) & set(WITHOUT_EFFECT)


def test_unknown_flags_get_one_warning_each_and_one_for_all() -> None:
    warnings = read("--a --b=1").warnings
    assert warnings[:2] == ("Unknown flag: a", "Unknown flag: b") and len(warnings) == 3


def test_a_misspelt_flag_gets_its_nearest_name() -> None:
    assert "did you mean opt_level?" in read("--opt_levl=3").warnings[1]


def test_flags_that_cannot_be_read_switch_nothing_on() -> None:
    found = read("opt_level=3", is_enabled=None)
    assert not found.flags.is_on and found.notices == (
        "graph kernel fusion stays off, because no flag could be read",
    )


def test_a_file_stands_for_all_flags(tmp_path: Path) -> None:
    file = tmp_path / "flags.json"
    file.write_text(
        json.dumps({"enable_expand_ops": "Square", "opt_level": "1", "dump_as_text": ""})
    )
    found = read(f"--disable_pass=X --path={file} --disable_expand_ops=Y")
    assert changed(found.flags) == {
        "enable_expand_ops": ("Pow",),
        "opt_level": 1,
        "dump_as_text": True,
    }
    assert not found.warnings


@pytest.mark.parametrize("content", ["{", "[]", '{"opt_level": 1}'])
def test_a_wrong_file_is_a_warning(tmp_path: Path, content: str) -> None:
    file = tmp_path / "flags.json"
    file.write_text(content)
    found = read(f"--dump_as_text --path={file}")
    assert changed(found.flags) == {} and len(found.warnings) == 1


def test_when_it_is_on() -> None:
    assert not read(None, is_enabled=None).flags.is_on
    assert read(None, is_enabled=True).flags.opt_level == 2
    assert read("--dump_as_text", is_enabled=None).flags.opt_level == 2
    assert not read("--opt_level=0", is_enabled=True).flags.is_on


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("--disable_pass=add_rms_norm_fusion", False),
        (
            (
                "--enable_pass=ConvBatchnormFusionPass,fusion_group.shape_reshape "
                "--disable_pass=backend_fusion.A"
            ),
            False,
        ),
        ("--unknown=1", False),
        ("--disable_pass=2.4", True),
        ("--disable_pass=shape_reshape,highlevelopt1.arithmetic_simplify", True),
        ("--disable_pass=shape_reshape --disable_cluster_ops=Exp", True),
    ],
)
def test_switching_passes_does_not_switch_graph_kernels_on(
    monkeypatch: pytest.MonkeyPatch, flag: str, expected: bool
) -> None:
    assert read(flag, is_enabled=None).flags.is_on is expected
    monkeypatch.setenv(VARIABLE, flag)
    assert (
        read(None, is_enabled=None).flags.is_on is expected
        and read(None, is_enabled=True).flags.is_on
    )


def test_who_says_no_means_it_unless_a_level_is_given() -> None:
    found = read("--dump_as_text", is_enabled=False)
    assert not found.flags.is_on
    assert found.notices == ("graph kernel fusion is switched off, so its flags have no effect",)
    assert read("--opt_level=1", is_enabled=False).flags.opt_level == 1


def test_stitch_belongs_to_level_3() -> None:
    assert [read(f"--opt_level={level}").flags.enable_stitch_fusion for level in range(4)] == [
        False,
        False,
        False,
        True,
    ]
    assert read("--opt_level=1 --enable_stitch_fusion").flags.enable_stitch_fusion
    assert not read("--opt_level=3 --enable_stitch_fusion=false").flags.enable_stitch_fusion


@pytest.mark.parametrize("value", ["", "--opt_level=1"])
def test_the_environment_wins_where_it_is_set(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(VARIABLE, value)
    found = read("--opt_level=3 --dump_as_text")
    assert found.raw == value and not found.flags.dump_as_text
    assert "--graph_kernel_flags is not used" in found.notices[0]


def test_an_environment_that_switches_it_off_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "--opt_level=0")
    assert any(f"{VARIABLE} sets opt_level to 0" in notice for notice in read(None).notices)
    assert not read(None, is_enabled=None).notices


def test_flags_of_a_chip_are_named() -> None:
    found = read("--enable_low_precision --reduce_fuse_depth=3")
    assert not found.warnings and "enable_low_precision, reduce_fuse_depth" in found.notices[0]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (Flags(), "AB"),
        (Flags(enable_cluster_ops=("C",)), "ABC"),
        (Flags(disable_cluster_ops=("A",)), "B"),
        (Flags(enable_cluster_ops=("C",), disable_cluster_ops=("C", "B")), "A"),
        (
            Flags(
                enable_cluster_ops_only=("X",),
                enable_cluster_ops=("C",),
                disable_cluster_ops=("X",),
            ),
            "X",
        ),
    ],
)
def test_lists_of_operators(flags: Flags, expected: str) -> None:
    assert flags.clusters("AB") == set(expected)


@pytest.mark.parametrize(
    "names",
    ["enable_expand_ops=Selu", "disable_cluster_ops=Exp,Upsample,own.Thing,com.microsoft.Gelu"],
)
def test_operators_that_there_are(names: str) -> None:
    assert not unknown_operators(read(f"--{names}").flags)


@pytest.mark.parametrize("which", [key for key in EFFECTIVE if "_ops" in key])
def test_an_operator_that_there_is_not_is_a_warning(which: str) -> None:
    assert unknown_operators(read(f"--{which}=Exp,Ex,exp,Zzz").flags) == [
        f'the flag "--{which}": ONNX has no operator "Ex"; did you mean "Exp"?',
        f'the flag "--{which}": ONNX has no operator "exp"; did you mean "Exp"?',
        f'the flag "--{which}": ONNX has no operator "Zzz"',
    ]


def test_only_what_a_kernel_computes_may_be_in_areas_anyway() -> None:
    """MindSpore's list has operators that areas without kernels may have."""
    flags = read("--enable_cluster_ops=ACos,AcoshExt,Asin,AsinhExt,Atan,BitShift,Shrink").flags
    impossible, anyway = needless_lists(flags, has_kernels=True)
    assert impossible.startswith("no kernel computes BitShift, so")
    assert anyway.startswith(
        "--enable_cluster_ops: Acos, Acosh, Asin, Asinh, Atan, Shrink may be in areas"
    )
    unary = names_with(Trait.UNARY) & COMPUTED - EXPAND
    for op in unary - {"Cast", "BitwiseNot", "Not", "IsInf", "IsNaN"}:
        area = area_of(f"g (float[N] x) => (float[N] y) {{ a = {op} (x) y = Neg (a) }}")
        assert reason_against(area) is None, op


def test_what_is_added_to_no_use_says_why() -> None:
    flags = read(
        "--enable_cluster_ops=Det,MatMul,RotaryEmbedding,Add --enable_expand_ops=Square,Exp,Selu"
    ).flags
    kernels = "no kernel computes Det, RotaryEmbedding, so"
    anyway = "--enable_cluster_ops: MatMul, Add may be"
    basic = "does not define Exp by"
    found = needless_lists(flags, has_kernels=True)
    assert [part in text for part, text in zip((kernels, basic, anyway), found, strict=True)] == [
        True
    ] * 3
    assert "--target onnx" in found[0]
    without = needless_lists(flags, has_kernels=False)  # no blocked areas, which have products
    assert (
        not any(kernels in text for text in without)
        and "--enable_cluster_ops: Add may be" in without[1]
    )
    assert not needless_lists(
        read("--enable_cluster_ops_only=Conv,FastGeLU,Relu").flags, has_kernels=True
    )
    assert not needless_lists(
        Flags(disable_cluster_ops=("Add", "MatMul"), disable_expand_ops=("Exp",)), has_kernels=True
    )


@pytest.mark.parametrize(
    ("flags", "name", "expected"),
    [
        (Flags(), "reshape", True),
        (Flags(disable_fusion_pattern=("reshape",)), "isolate_reshape", False),
        (
            Flags(disable_fusion_pattern=("elemwise_broadcast_fwd",)),
            "elemwise_broadcast_fwd_width",
            False,
        ),
        (
            Flags(disable_fusion_pattern=("elemwise_broadcast_fwd",)),
            "elemwise_broadcast_bwd_width",
            True,
        ),
        (Flags(enable_fusion_pattern_only=("elemwise",)), "reduce_fwd_depth", False),
        (
            Flags(enable_fusion_pattern_only=("reduce",), disable_fusion_pattern=("reduce",)),
            "reduce_fwd_depth",
            True,
        ),
    ],
)
def test_patterns_are_named_by_parts(flags: Flags, name: str, expected: bool) -> None:
    assert flags.has_pattern(name) is expected


def test_rules_are_named_exactly() -> None:
    assert not Flags(disable_simplify_exprs=("1.1",)).has_rule("1.1")
    assert Flags(disable_simplify_exprs=("1.1",)).has_rule("1.10")
    assert not Flags(enable_simplify_exprs_only=("1.1",), disable_simplify_exprs=("1.1",)).has_rule(
        "1.10"
    )
    assert Flags(enable_simplify_exprs_only=("1.1",), disable_simplify_exprs=("1.1",)).has_rule(
        "1.1"
    )


@pytest.mark.parametrize("which", ["enable_fusion_pattern_only", "disable_fusion_pattern"])
def test_a_part_of_no_pattern_is_a_warning(which: str) -> None:
    (warning,) = unknown_patterns(read(f"--{which}=reduce,stitch,Reduce").flags)
    assert warning.startswith(
        f'the flag "--{which}": no split pattern has "Reduce" in its name; the patterns are reshape, '
    )


@pytest.mark.parametrize("which", ["enable_simplify_exprs_only", "disable_simplify_exprs"])
def test_a_rule_that_there_is_not_is_a_warning(which: str) -> None:
    registry = {p.name: p for p in PASSES}
    inexact = registry["ArithmeticInexactPass"].patterns[0].name
    (warning,) = unknown_rules(registry, read(f"--{which}=1.3,{inexact},1.99").flags)
    assert warning.startswith(
        f'the flag "--{which}": there is no rule "1.99"; the rules are the patterns that "fusionc passes Arithmetic'
    )


def test_the_page_lists_everything() -> None:
    """Flags with their defaults, stage passes and split patterns, in their order."""
    rows = [
        line.split("|")[1:-1]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ")
    ]
    cells = [[cell.strip(" `") for cell in row] for row in rows]
    defaults = {
        key: "" if value == () else str(value).lower()
        for key, value in vars(Flags(opt_level=2)).items()
    }
    assert {row[0]: row[1] for row in cells if row[0] in EFFECTIVE} == defaults
    stages = [[*p.names, str(p.level)] for p in STAGE_PASSES]
    assert [row[:3] for row in cells if row[0] in {names[0] for names in stages}] == stages
    patterns = [pattern.name for pattern in (*PATTERNS, STITCH)]
    assert [row[0] for row in cells if row[0] in patterns] == patterns
