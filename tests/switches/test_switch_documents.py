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


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_does_what_it_is_for_and_says_nothing_needless(name: str, tmp_path: Path) -> None:
    file = tmp_path / "cfg.json"
    file.write_text(preset(name, PASSES))
    assert file.read_text() == (ROOT / f"switch_configs/{name}.json").read_text()
    switches = decide(PASSES, switch_file=file)
    enabled = [p for p in PASSES if p.name in switches.enabled]
    match name:
        case "default":
            assert switches == decide(PASSES)
        case "portable":
            assert {p.kind for p in enabled} == {"GraphFusion"}
        case "exact":
            assert {p.numerics for p in enabled if p.default != "must"} == {"bitwise"}
            assert {p.name for p in PASSES if p.default == "must"} <= switches.enabled
        case _:
            assert not enabled
            [notice] = switches.notices  # in CANN, some passes would stay on
            assert "the model is written as it was read" in notice
    assert name == "all_off" or not switches.notices


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
