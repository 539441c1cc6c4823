"""--oo_level and its two companions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
from harness import operators, parse

import fusionc
from fusionc.passes import PASSES
from fusionc.rewrite.definition import Pass
from fusionc.switches import Levels, decide
from fusionc.switches.levels import AT_O1, CONSTANT_FOLDING, DEAD_CODE_ELIMINATION

NAMES = {p.name for p in PASSES}
ON = decide(PASSES).enabled


def test_the_names_are_passes() -> None:
    assert AT_O1 <= NAMES and CONSTANT_FOLDING | DEAD_CODE_ELIMINATION <= AT_O1 <= ON


def test_o3_is_the_default() -> None:
    assert decide(PASSES, levels=Levels("O3")) == decide(PASSES)


def test_o1_leaves_no_fusion_on() -> None:
    switches = decide(PASSES, levels=Levels("O1"))
    assert switches.enabled == AT_O1
    assert f"off by --oo_level O1: {len(ON - AT_O1)} passes" in switches.notices


@pytest.mark.parametrize(
    ("levels", "off"),
    [
        (Levels(constant_folding=False), CONSTANT_FOLDING),
        (Levels(dead_code_elimination=False), DEAD_CODE_ELIMINATION),
        (Levels("O1", constant_folding=False), (ON - AT_O1) | CONSTANT_FOLDING),
        (Levels("O1", False, False), ON - {"PrunePass"}),
    ],
)
def test_what_each_switches_off(levels: Levels, off: frozenset[str]) -> None:
    assert decide(PASSES, levels=levels).enabled == ON - off


def test_a_name_beats_a_level(registry: Sequence[Pass], tmp_path: Path) -> None:
    file = tmp_path / "cfg.json"
    file.write_text(
        '{"Switch": {"GraphFusion": {"ALL": "on", "SubFusionPass": "on", "PrunePass": "off"}}}'
    )
    low = Levels("O1")
    assert decide(registry, levels=low).enabled == {"PrunePass"}
    assert decide(registry, levels=low, switch_file=file).enabled == {"PrunePass", "SubFusionPass"}
    option = "AABiasaddConvFusion:on;SubFusionPass:off;PrunePass:off"
    assert decide(registry, levels=low, optimization_switch=option, switch_file=file).enabled == {
        "AABiasaddConvFusion"
    }


TEXT = """agraph (float[2,4] x) => (float[2,4] y) <float[4] k, float[4] l> {
    m = Add (k, l) c = Constant <value = bool {1}> ()
    b = If (c) <then_branch = t () => (float[2,4] p) { p = Relu (x) },
                else_branch = e () => (float[2,4] q) { q = Neg (x) }>
    r = Relu (b) y = Add (r, m)
}"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"Relu": 1, "Add": 1}),
        ({"oo_level": "O1"}, {"Relu": 2, "Add": 1}),
        ({"oo_level": "O1", "optimization_switch": "IdempotentOpPass:on"}, {"Relu": 1, "Add": 1}),
        ({"oo_level": "O1", "oo_constant_folding": False}, {"Relu": 2, "Add": 2}),
        (
            {"oo_level": "O1", "oo_dead_code_elimination": False},
            {"If": 1, "Relu": 2, "Neg": 1, "Add": 1},
        ),
    ],
)
def test_conversions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], expected: object
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parse(TEXT), "in.onnx")
    report = fusionc.convert("in.onnx", output="out.onnx", **options)
    assert operators(onnx.load("out.onnx")) == expected
    assert report.verification is not None and report.verification.startswith("equal in ")


def test_one_pass_is_not_passes() -> None:
    assert (
        "off by --oo_dead_code_elimination false: 1 pass"
        in decide(PASSES, levels=Levels("O1", True, False)).notices
    )
