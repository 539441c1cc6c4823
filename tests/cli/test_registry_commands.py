"""`fusionc passes`, `fusionc switch_file` and `fusionc --version`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fusionc.rewrite.definition import Pass, Pattern, UBFusionPass


class ZLastFusionPass(Pass):
    """Runs first, whatever its name.

    before   A(x)
    after    B(x)
    """

    numerics = "rounding"
    default = "must"
    aliases: ClassVar[tuple[str, ...]] = ("z_last", "both")
    patterns: ClassVar[tuple[Pattern, ...]] = (Pattern("one", operators=("Slice",)), Pattern("two"))


class ASecondFusionPass(UBFusionPass):
    """Does [little] :smile:."""

    default = "off"
    aliases: ClassVar[tuple[str, ...]] = ("both",)


@pytest.fixture(autouse=True)
def registry(stand_in: Callable[..., None]) -> None:
    stand_in(
        "fusionc.custom.loading",
        load_passes=lambda files=(): (ZLastFusionPass(), ASecondFusionPass()),
    )


def test_the_list_is_in_execution_order(run: Any) -> None:
    result = run("passes")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "pass               kind         default  numerics  what it does",
        "ZLastFusionPass    GraphFusion  must     rounding  Runs first, whatever its name.",
        "ASecondFusionPass  UBFusion     off      bitwise   Does [little] :smile:.",
        "",
        "other name  stands for",
        "both        ZLastFusionPass, ASecondFusionPass",
        "z_last      ZLastFusionPass",
    ]


def test_a_name_that_stands_for_several_passes(run: Any) -> None:
    lines = run("passes", "both").stdout.splitlines()
    assert lines[:3] == [
        "both stands for 2 passes: ZLastFusionPass, ASecondFusionPass",
        "",
        "ZLastFusionPass",
    ]
    assert "ASecondFusionPass" in lines and "Does [little] :smile:." in lines


@pytest.mark.parametrize("name", ["ZLastFusionPass", "z_last"])
def test_one_pass_in_full(run: Any, name: str) -> None:
    assert run("passes", name).stdout.splitlines() == [
        "ZLastFusionPass",
        "kind      GraphFusion",
        "default   must",
        "numerics  rounding",
        "aliases   z_last, both",
        "patterns  one, two",
        "",
        "Runs first, whatever its name.",
        "",
        "before   A(x)",
        "after    B(x)",
    ]


def test_a_pass_without_patterns(run: Any) -> None:
    assert run("passes", "ASecondFusionPass").stdout.splitlines()[4:6] == [
        "aliases   both",
        "patterns  none",
    ]


def test_an_unknown_pass_names_the_nearest(run: Any) -> None:
    result = run("passes", "ZlastFusonpass")
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith(
        'E10001: "ZlastFusonpass" is not a pass; did you mean "ZLastFusionPass"?\n'
    )


def test_the_passes_that_look_for_an_operator(run: Any) -> None:
    assert run("passes", "--operator", "Slice").stdout.splitlines() == [
        "pass             kind         default  patterns  what it does",
        "ZLastFusionPass  GraphFusion  must     one       Runs first, whatever its name.",
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("zlastfusionpass", ["ZLastFusionPass"]),
        ("Z_LAST", ["ZLastFusionPass"]),
        ("last", ["ZLastFusionPass"]),
        ("fusion", ["ZLastFusionPass", "ASecondFusionPass"]),
        ("both", ["ZLastFusionPass", "ASecondFusionPass"]),
    ],
)
def test_a_part_of_a_name_finds_passes(run: Any, name: str, expected: list[str]) -> None:
    answer = json.loads(run("passes", name, "--json").stdout)
    assert [p["name"] for p in answer] == expected
    shown = run("passes", name)
    assert shown.exit_code == 0 and all(p in shown.stdout for p in expected)


def test_json_of_passes(run: Any) -> None:
    first, second = json.loads(run("passes", "--json").stdout)
    assert first["name"] == "ZLastFusionPass" and first["patterns"] == ["one", "two"]
    assert first["aliases"] == ["z_last", "both"] and "before" in first["documentation"]
    assert (second["kind"], second["default"]) == ("UBFusion", "off")
    listed = json.loads(run("passes", "--operator", "Slice", "--json").stdout)
    assert [p["name"] for p in listed] == ["ZLastFusionPass"]
    assert json.loads(run("passes", "--operator", "Hardmax", "--json").stdout) == []
    assert run("passes", "nothing", "--json").exit_code == 2


def test_an_operator_that_no_pass_looks_for(run: Any) -> None:
    result = run("passes", "--operator", "Hardmax")
    assert result.exit_code == 0 and result.stdout == "No pass has Hardmax in a pattern.\n"


def test_an_unknown_operator_names_the_nearest(run: Any) -> None:
    result = run("passes", "--operator", "slise")
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith('E10001: "slise" is not an operator\n')
    assert 'did you mean "Slice"?' in result.stderr


def test_a_name_and_an_operator(run: Any) -> None:
    assert run("passes", "z_last", "--operator", "Slice").exit_code == 2


def test_a_name_of_ascend(run: Any) -> None:
    result = run("passes", "TfMergeSubFusionPass")
    assert result.exit_code == 0 and result.stdout.startswith(
        "TfMergeSubFusionPass is a pass for Ascend chips: "
    )


@pytest.mark.parametrize("command", ["switch_file", "switch-file"])
def test_the_switch_file_on_stdout(run: Any, command: str) -> None:
    result = run(command)
    assert json.loads(result.stdout) == {
        "Switch": {
            "GraphFusion": {"ZLastFusionPass": "on"},
            "UBFusion": {"ASecondFusionPass": "off"},
        }
    }


def test_the_switch_file_of_a_preset(run: Any) -> None:
    off = {"ALL": "off"}
    assert json.loads(run("switch_file", "--preset", "all_off").stdout) == {
        "Switch": {"GraphFusion": off, "UBFusion": off}
    }
    assert json.loads(run("switch_file", "--preset=exact").stdout) == {
        "Switch": {"GraphFusion": off | {"ZLastFusionPass": "on"}, "UBFusion": off}
    }
    result = run("switch_file", "--preset", "fast")
    assert result.exit_code == 2 and "'default', 'portable', 'exact', 'all_off'" in result.stderr


def test_the_switch_file_in_a_file(run: Any, tmp_path: Path) -> None:
    text = run("switch_file").stdout
    result = run("switch_file", "-output", "cfg.json")
    assert result.exit_code == 0 and "--fusion_switch_file cfg.json" in result.stdout
    assert (tmp_path / "cfg.json").read_bytes() == text.encode()


def test_an_edited_switch_file_stays(run: Any, tmp_path: Path) -> None:
    assert run("switch_file", "--output", "cfg.json").exit_code == 0
    # nobody's work is lost
    assert run("switch_file", "--preset", "exact", "--output", "cfg.json").exit_code == 0
    edited = (tmp_path / "cfg.json").read_text().replace('"off"', '"on"', 1)
    (tmp_path / "cfg.json").write_text(edited)
    result = run("switch_file", "--output", "cfg.json")
    assert (result.exit_code, (tmp_path / "cfg.json").read_text()) == (2, edited)
    assert "is not an unedited preset" in result.stderr


def test_a_switch_file_that_cannot_be_written(run: Any) -> None:
    result = run("switch_file", "--output", "none/cfg.json")
    assert result.exit_code == 2 and result.stderr.startswith(
        "E13004: the file cannot be written: "
    )
    assert "  where: none/cfg.json\n" in result.stderr


def test_version(run: Any) -> None:
    result = run("--version")
    assert result.exit_code == 0 and result.stdout.startswith("fusionc ")
    assert f"onnx {version('onnx')}, onnxruntime {version('onnxruntime')}" in result.stdout


def test_help_documents_the_exit_codes(run: Any) -> None:
    for words in (["--help"], ["convert", "--help"], ["verify", "--help"]):
        text = run(*words).stdout
        assert "Exit codes:" in text and "\n    3  " in text


def test_help_is_a_command_too(run: Any) -> None:
    assert run("help").stdout == run("--help").stdout
    assert run("help", "convert").stdout == run("convert", "--help").stdout
    assert run("help", "switch_file").stdout == run("switch_file", "--help").stdout
    assert run("help", "convrt").exit_code == 2 and "did you mean" in run("help", "convrt").stderr


def test_a_short_option_shows_the_versions(run: Any) -> None:
    assert run("-V").stdout == run("--version").stdout != ""


def test_an_unknown_command(run: Any) -> None:
    result = run("optimise")
    assert (
        result.exit_code == 2
        and "No such command 'optimise'" in result.stderr
        and "mean" not in result.stderr
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("convrt", "convert"),
        ("Verify", "verify"),
        ("pass", "passes"),
        ("switch", "switch_file"),
        ("con", "convert"),
    ],
)
def test_a_misspelt_command_names_the_nearest(run: Any, written: str, meant: str) -> None:
    result = run(written, "--model", "in.onnx")
    assert (
        result.exit_code == 2
        and f"No such command '{written}'; did you mean {meant}?" in result.stderr
    )


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["simplify", "in.onnx", "o.onnx"], "'simplify'; write: fusionc in.onnx o.onnx"),
        (["slim", "--output=o.onnx", "in.onnx"], "'slim'; write: fusionc in.onnx"),
        (["why", "--expected", "o.onnx"], "Missing option '--model'."),
        (["inspect", "in.onnx", "o.onnx"], "Got unexpected extra argument (o.onnx)."),
        (["tune", "a.onnx", "b.onnx", "c.onnx"], "Got unexpected extra argument (c.onnx)."),
        (["bisect", "--model=a.onnx", "b.onnx"], "Got unexpected extra argument (b.onnx)."),
    ],
)
def test_a_model_without_its_option(run: Any, words: list[str], hint: str) -> None:
    result = run(*words)
    assert result.exit_code == 2 and result.stderr.endswith(f"{hint}\n")


@pytest.mark.parametrize("command", ["passes", "switch_file"])
def test_a_defect_can_be_reported(run: Any, stand_in: Callable[..., None], command: str) -> None:
    stand_in("fusionc.custom.loading")
    plain = run(command)
    debug = run(command, "--log", "debug")
    assert plain.exit_code == debug.exit_code == 1
    assert (
        plain.stderr.startswith("E19999: Internal Error! ImportError: ")
        and "Traceback" not in plain.stderr
    )
    assert "Traceback" in debug.stderr


def test_a_terminal_without_unicode_gets_everything() -> None:
    program = """
import fusionc.passes
from fusionc.cli import main
from fusionc.rewrite.definition import Pass
AnyPass = type("AnyPass", (Pass,), {"__doc__": "x − x → 0"})
fusionc.passes.PASSES = (AnyPass(),)
main(["passes"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONIOENCODING": "ascii:strict"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("x \\u2212 x \\u2192 0\n")
