"""The switch files of CANN's documents load as they stand, and so do the presets."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from fusionc.passes import PASSES
from fusionc.passes.ascend_names import ASCEND_NAMES
from fusionc.rewrite.definition import Pass
from fusionc.switches import PRESETS, decide, preset
from fusionc.switches.decide import Switches

ROOT = Path(__file__).parents[2]
DOCUMENTED = {
    "some": '{ "Switch":{ "GraphFusion":{ "ConvToFullyConnectionFusionPass":"on", "SoftmaxFusionPass":"on", '
    '"ConvConcatFusionPass":"on", "MatMulBiasAddFusionPass":"on", "PoolingFusionPass":"on", '
    '"ZConcatv2dFusionPass":"on", "ZConcatExt2FusionPass":"on", "TfMergeSubFusionPass":"on" }, '
    '"UBFusion":{ "FusionVirtualOpSetSwitch":"on" } } }',
    "all off": '{ "Switch":{ "GraphFusion":{ "ALL":"off" }, "UBFusion":{ "ALL":"off" } } }',
    "all off but": '{ "Switch":{ "GraphFusion":{ "ALL":"off", "SoftmaxFusionPass":"on" }, '
    '"UBFusion":{ "ALL":"off", "FusionVirtualOpSetSwitch":"on" } } }',
    "all on but": '{ "Switch":{ "GraphFusion":{ "ALL":"on", "SoftmaxFusionPass":"off" }, '
    '"UBFusion":{ "ALL":"on", "FusionVirtualOpSetSwitch":"off" } } }',
    "before comparing dumps": "V100RequantFusionPass:off\nConvConcatFusionPass:off\nSplitConvConcatFusionPass:off\n"
    "TbeEltwiseQuantFusionPass:off\nTbeConvDequantVaddReluQuantFusionPass:off\nTbePool2dQuantFusionPass:off\n"
    "TbeCommonRules0FusionPass:off\nTbeCommonRules2FusionPass:off\n",
}


@pytest.mark.parametrize("name", ["fusion_switch.cfg", "fusion_switch", "融合.json"])
@pytest.mark.parametrize("text", DOCUMENTED.values(), ids=DOCUMENTED)
@pytest.mark.parametrize("passes", ["registry", "nothing"])
def test_a_documented_switch_file_loads(
    request: pytest.FixtureRequest, tmp_path: Path, text: str, name: str, passes: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    chosen: Sequence[Pass] = request.getfixturevalue("registry") if passes == "registry" else ()
    assert len(decide(chosen, switch_file=file).notices) <= 3


def test_the_default_is_complete_ordered_and_changes_nothing(
    registry: Sequence[Pass], tmp_path: Path
) -> None:
    text = preset("default", registry)
    assert list(json.loads(text)["Switch"]["GraphFusion"].items()) == [
        ("PrunePass", "on"),
        ("SoftmaxSmallOpFusionPass", "on"),
        ("MatMulBiasAddFusionPass", "on"),
        ("SubFusionPass", "off"),
        ("AABiasaddConvFusion", "on"),
    ]
    assert json.loads(text)["Switch"]["UBFusion"] == {
        "TbeConvElemwiseFusionPass": "on",
        "FastGeluFusionPass": "off",
    }
    assert text.endswith("}\n")
    file = tmp_path / "cfg.json"
    file.write_text(text)
    assert decide(registry, switch_file=file) == decide(registry)


def switches_of(name: str, folder: Path) -> Switches:
    file = folder / "cfg.json"
    file.write_text(preset(name, PASSES))
    return decide(PASSES, switch_file=file)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_in_its_file_and_says_nothing_needless(name: str, tmp_path: Path) -> None:
    assert preset(name, PASSES) == (ROOT / f"switch_configs/{name}.json").read_text()
    assert name == "all_off" or not switches_of(name, tmp_path).notices


def test_the_default_preset_is_the_default(tmp_path: Path) -> None:
    assert switches_of("default", tmp_path) == decide(PASSES)


def test_the_portable_preset_has_graph_fusion_alone(tmp_path: Path) -> None:
    enabled = switches_of("portable", tmp_path).enabled
    assert {p.kind for p in PASSES if p.name in enabled} == {"GraphFusion"}


def test_the_exact_preset_has_bitwise_passes_and_those_that_must_be_on(tmp_path: Path) -> None:
    enabled = switches_of("exact", tmp_path).enabled
    needed = {p.name for p in PASSES if p.default == "must"}
    assert needed <= enabled
    assert {p.numerics for p in PASSES if p.name in enabled - needed} == {"bitwise"}


def test_the_preset_without_passes(tmp_path: Path) -> None:
    switches = switches_of("all_off", tmp_path)
    assert not switches.enabled & {p.name for p in PASSES}
    [notice] = switches.notices  # in CANN, some passes would stay on
    assert "the model is written unchanged" in notice


@pytest.mark.parametrize(
    "name",
    [
        "TfTagNoConstFoldingFusionPass",
        "TfMergeWeightQuantFusionPass",
        "Conv2DQuantProcessFusionPass",
        "V200NotRequantFusionPass",
        "DeleteNoConstFolding",
        "FixPipeAbilityProcessPass",
        "ZSplitVDFusionPassV2",
        "SplitConvConcatFusionPass",
        "DynamicRNNGradDAlignFusionPass",
        "ConstantFoldingPass",
        "FusionVirtualOpSetSwitch",
        "inference_qbmm_allreduce_add_fusion",
    ],
)
def test_official_names_are_known(name: str) -> None:
    assert name in ASCEND_NAMES


def test_names_are_names() -> None:
    assert not [name for name in ASCEND_NAMES if not re.fullmatch(r"[A-Za-z]\w{4,}", name)]
    assert "ALL" not in ASCEND_NAMES
