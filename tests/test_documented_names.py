"""Every name that the documents of CANN, MindSpore and TorchAir print, as people will bring them."""

from __future__ import annotations

import pytest

from fusionc.graph_kernel.flags import Flags
from fusionc.graph_kernel.stages import complaints, switched
from fusionc.passes import PASSES
from fusionc.switches import PassNames, decide

NAMES = PassNames(PASSES)
DEFAULT = decide(PASSES).enabled

# "Graph fusion and UB fusion": the samples of switch files and of log lines
CANN = """
ConvToFullyConnectionFusionPass SoftmaxFusionPass ConvConcatFusionPass MatMulBiasAddFusionPass PoolingFusionPass
ZConcatv2dFusionPass ZConcatExt2FusionPass TfMergeSubFusionPass FusionVirtualOpSetSwitch ZSplitVDFusionPassV2
ZSplitVDFusionPass SplitConvConcatFusionPass
"""
CHIP = """
TfTagNoConstFoldingFusionPass TfMergeWeightQuantFusionPass Conv2DQuantProcessFusionPass V200NotRequantFusionPass
DeleteNoConstFolding FixPipeAbilityProcessPass
"""
# "Custom fusion": its appendix 3, and the pass that its text switches on and off
MINDSPORE = """
FlashAttentionFusionV1 FlashAttentionFusionV2 add_layer_norm_fusion add_layer_norm_v3_fusion add_layer_norm_ext_fusion
inference_swiglu_fusion inference_matmul_split_fusion shape_reshape add_rms_norm_quant_fusion rms_norm_quant_fusion
add_rms_norm_fusion add_cast_rms_norm_cast_fusion MatMulAllReduce split_concat_fusion matmul_elemwise_fusion
inference_qbmm_add_fusion inference_qbmm_allreduce_add_fusion transpose_matmul_fusion
"""
# "FX pattern fusion": the operators of its table that a pass makes
TORCHAIR = "npu_add_rms_norm_dynamic_quant npu_add_rms_norm_cast"

# Documented names of passes whose work one of another name does here
SWITCHES = {
    "TbeDepthwiseConvElemwiseFusionPass": "TbeConvElemwiseFusionPass",
    "TbeConv3dElemwisePass": "TbeConvElemwiseFusionPass TbeConvDoubleInFusionPass",
    "TbeBatchMatmulElementWiseFusionPass": "ATbeMatMulElemwiseFusionPass TransposeScaleMatMulFusionPass",
    "TbeFullyconnectionElemwiseDequantFusionPass": "ATbeMatMulElemwiseFusionPass",
    "TbeDynamicElemwiseReduceFusionPass": "TbeReduceElemwiseFusionPass",
    "TbeDynamicElemwiseBroadcastFusionPass": "TbeEltwiseFusionPass",
    "TbeEltwiseCastFusionPass": "TbeEltwiseFusionPass",
    "StridedSliceDToSplitFusionPass": "ZSplitVDFusionPassV2",
    "AddLayerNormV3FusionPass": "AddLayerNormFusionPass",
    "AddRmsNormFusionGraphPass": "AddRmsNormFusionPass",
    "AlgebraicSimplificationPass": "UselessBinaryOpRemovePass ArithmeticSimplifyPass",
    "ReshapeRemovePass": "NoUseReshapeRemovePass",
    "ConstantFuseSamePass": "RemoveSameConstPass",
    "UnusedConstPass": "PrunePass",
    "AReduceMeanFusionPass": "AReduceSumFusionPass",
    "BatchMatMulTransposeFusionPass": "BatchMatMulFusionPass TransposeScaleMatMulFusionPass",
    "Conv2DbpInputBiasAddFusionPass": "AABiasaddConvFusion",
    "npu_add_rms_norm_cast": "AddRmsNormDynamicQuantFusionPass",
    "matmul_elemwise_fusion": "ATbeMatMulElemwiseFusionPass BiasGeluFusionPass MatMulBiasAddFusionPass",
    "transpose_matmul_fusion": "BatchMatMulFusionPass TransposeScaleMatMulFusionPass",
}


@pytest.mark.parametrize("name", f"{CANN} {MINDSPORE} {TORCHAIR}".split())
def test_a_name_of_the_documents_is_a_pass_or_another_name_of_one(name: str) -> None:
    assert NAMES.find(name) and not NAMES.is_ascend_only(name)
    assert not complaints(PASSES, Flags(enable_pass=(name,), disable_pass=(f"fusion_group.{name}",)))


@pytest.mark.parametrize("name", CHIP.split())
def test_a_name_that_only_a_chip_has_is_known(name: str) -> None:
    assert NAMES.is_ascend_only(name)
    assert decide(PASSES, optimization_switch=f"{name}:off").notices == (f"Ascend only: no effect here: {name}",)


@pytest.mark.parametrize(("name", "passes"), SWITCHES.items())
def test_a_documented_name_switches_off_what_does_its_work(name: str, passes: str) -> None:
    doers = frozenset(passes.split())
    on = ";".join(f"{doer}:on" for doer in doers)
    enabled = decide(PASSES, optimization_switch=on).enabled
    assert doers <= enabled
    switches = decide(PASSES, optimization_switch=f"{name}:off")
    assert switches.enabled == DEFAULT - doers
    assert not any("Ascend only" in notice for notice in switches.notices)
    assert switched(PASSES, enabled, Flags(disable_pass=(name,))) == enabled - doers
    assert switched(PASSES, enabled - doers, Flags(enable_pass=(name,))) == enabled


def test_the_switches_that_vllm_documents_are_taken() -> None:
    """Two passes of CANN that are one here."""
    option = "AddRmsNormDynamicQuantFusionPass:off;MultiAddRmsNormDynamicQuantFusionPass:off"
    switches = decide(PASSES, optimization_switch=option)
    assert switches.enabled == DEFAULT - {"AddRmsNormDynamicQuantFusionPass"} and not switches.notices
