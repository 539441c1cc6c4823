"""Every name that the documents of CANN, MindSpore and TorchAir print, as people will bring
them.
"""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import onnx.defs
import pytest
from harness import parse
from laws import for_each

import fusionc
from fusionc.graph_kernel.flag_warnings import unknown_operators, unknown_passes, unknown_patterns
from fusionc.graph_kernel.flags.flag_table import EFFECTIVE, Flags
from fusionc.graph_kernel.flags.operator_names import why_not_in_onnx
from fusionc.graph_kernel.flags.read_flags import read_flags
from fusionc.graph_kernel.flags.stages import switched
from fusionc.passes import PASSES
from fusionc.switches import PassNames, decide

# "Custom fusion": its appendices 1 and 2, the operators that are expanded and clustered
OPERATORS = """
Adam AdamApplyOneWithDecayAssign Addcmul AddN BiasAdd BiasAddGrad FillV2 GeLU Gelu FastGelu FastGeluGrad FastGeLU
FastGeLUGrad SiLU SiLUGrad GeLUGrad RsqrtGrad SqrtGrad Square Tile ClipByNormNoDivSum FusedMulAdd Sigmoid SigmoidGrad
SigmoidCrossEntropyWithLogits SigmoidCrossEntropyWithLogitsGrad SquaredDifference TanhGrad OnesLike ZerosLike ReduceMean
LogSoftmaxGrad ReLU ReluGrad AssignAdd LambApplyOptimizerAssign LambApplyWeightAssign AdamApplyOneWithDecay ExpandDims
Squeeze SoftmaxGradExt ApplyMomentum LeakyReLUExt EluExt SoftplusExt SoftplusGradExt RepeatInterleaveInt HShrink
HSigmoid HSwish BinaryCrossEntropy Erf Tanh Cosh Sinh ClampScalar DivMod BCEWithLogitsLoss AcoshExt AsinhExt MeanExt
Erfc AdamWeightDecay BatchMatMul Dropout DropoutGrad MaximumGrad MinimumGrad LayerNorm LayerNormGrad LogSoftmax MatMul
ArgMaxWithValue ArgMinWithValue Slice Softmax SoftmaxCrossEntropyWithLogits EqualCount SquareSumAll IdentityMath
StandardNormal Softplus SoftplusGrad
Abs Add BroadcastTo Cast Exp Log Maximum Minimum Mul Neg Pow Div RealDiv Reciprocal Rsqrt Sqrt Sub Equal NotEqual
Greater GreaterEqual Less LessEqual LogicalAnd LogicalOr LogicalNot Select Assign ReduceSum IsFinite Reshape Transpose
Floor Ceil Trunc Round ACos Acosh ArgMax Argmin Asin Asinh Atan Atan2 Cos Expm1 FloorDiv FloorMod IsInf IsNan Mod
ReduceMax ReduceMin Sign Sin StridedSlice CumSum OneHot
"""
# Its appendix 4, the split patterns, and its flags
PATTERNS = """
elemwise_broadcast_fwd_depth elemwise_broadcast_fwd_width elemwise_broadcast_bwd_depth elemwise_broadcast_bwd_width
reduce_fwd_depth reduce_fwd_width reshape slice elemany_addn matmul_depth
"""
FLAGS = """
opt_level enable_expand_ops disable_expand_ops enable_expand_ops_only enable_cluster_ops disable_cluster_ops
enable_cluster_ops_only enable_packet_ops_only disable_packet_ops disable_fusion_pattern enable_fusion_pattern_only
enable_pass disable_pass dump_as_text enable_debug_mode
"""

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
TORCHAIR = """
npu_add_rms_norm_dynamic_quant npu_add_rms_norm_cast npu_transpose_batchmatmul npu_add_rms_norm_quant
"""

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
    "npu_add_rms_norm_cast": "AddCastRmsNormCastFusionPass",
    "npu_add_rms_norm_quant": "AddRmsNormQuantFusionPass",
    "npu_transpose_batchmatmul": "TransposeScaleMatMulFusionPass",
    "matmul_elemwise_fusion": "ATbeMatMulElemwiseFusionPass BiasGeluFusionPass MatMulBiasAddFusionPass",
    "transpose_matmul_fusion": "BatchMatMulFusionPass TransposeScaleMatMulFusionPass",
}


@for_each(f"{CANN} {MINDSPORE} {TORCHAIR}".split(), str)
def test_a_name_of_the_documents_is_a_pass_or_another_name_of_one(name: str) -> None:
    assert NAMES.find(name) and not NAMES.is_ascend_only(name)
    assert not unknown_passes(
        PASSES, Flags(enable_pass=(name,), disable_pass=(f"fusion_group.{name}",))
    )


@for_each(CHIP.split(), str)
def test_a_name_that_only_a_chip_has_is_known(name: str) -> None:
    assert NAMES.is_ascend_only(name)
    assert decide(PASSES, optimization_switch=f"{name}:off").notices == (
        f"only for Ascend chips, no effect in fusionc: {name}",
    )


@for_each(SWITCHES, str)
def test_a_documented_name_switches_off_what_does_its_work(name: str) -> None:
    doers = frozenset(SWITCHES[name].split())
    on = ";".join(f"{doer}:on" for doer in doers)
    enabled = decide(PASSES, optimization_switch=on).enabled
    assert doers <= enabled
    switches = decide(PASSES, optimization_switch=f"{name}:off")
    assert switches.enabled == DEFAULT - doers
    assert not any("only for Ascend" in notice for notice in switches.notices)
    assert switched(PASSES, enabled, Flags(disable_pass=(name,))) == enabled - doers
    assert switched(PASSES, enabled - doers, Flags(enable_pass=(name,))) == enabled


@for_each(sorted(set(OPERATORS.split())), str)
def test_an_operator_of_the_documents_is_one_of_onnx_or_has_a_reason(name: str) -> None:
    flags = read_flags(f"--disable_cluster_ops={name}", is_enabled=True).flags
    operators = flags.disable_cluster_ops
    reason = why_not_in_onnx(name)
    if reason is None:
        assert all(
            onnx.defs.has(*operator.rpartition(".")[::-2]) or "microsoft" in operator
            for operator in operators
        )
        assert not unknown_operators(flags)
    else:
        assert operators == (name,) and not onnx.defs.has(name)
        assert unknown_operators(flags) == [
            f'the flag "--disable_cluster_ops": ONNX has no operator "{name}": {reason}'
        ]


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("RealDiv", "Div"), ("Maximum", "Max"), ("Minimum", "Min"), ("Select", "Where"), ("LogicalNot", "Not"),
        ("BroadcastTo", "Expand"), ("ReLU", "Relu"), ("GeLU", "Gelu com.microsoft.Gelu"), ("AddN", "Sum"),
        ("StridedSlice", "Slice"), ("Rsqrt", "Reciprocal Sqrt"), ("Square", "Pow"), ("LayerNorm", "LayerNormalization"),
        ("Exp", "Exp"), ("own.Thing", "own.Thing"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("flag", [key for key in EFFECTIVE if "_ops" in key])
def test_an_operator_of_mindspore_in_any_list(flag: str, name: str, operators: str) -> None:
    assert getattr(read_flags(f"--{flag}={name}", is_enabled=True).flags, flag) == tuple(
        operators.split()
    )


@for_each(PATTERNS.split(), str)
def test_a_split_pattern_of_the_documents_is_there(name: str) -> None:
    assert not unknown_patterns(Flags(disable_fusion_pattern=(name,)))


@for_each(FLAGS.split(), str)
def test_a_flag_of_the_documents_has_an_effect(name: str) -> None:
    assert name in EFFECTIVE


@pytest.mark.parametrize(
    "text", ["--enable_expand_ops=Square --enable_cluster_ops=MatMul,Add", "--opt_level=3"]
)
def test_the_flags_of_the_examples_are_read_without_a_warning(text: str) -> None:
    read = read_flags(text, is_enabled=None)
    assert read.flags.is_on and not read.warnings and not unknown_operators(read.flags)


def test_the_switches_that_vllm_documents_are_taken() -> None:
    """Two passes of CANN that are one here."""
    option = "AddRmsNormDynamicQuantFusionPass:off;MultiAddRmsNormDynamicQuantFusionPass:off"
    switches = decide(PASSES, optimization_switch=option)
    assert (
        switches.enabled == DEFAULT - {"AddRmsNormDynamicQuantFusionPass"} and not switches.notices
    )


ONES = ", ".join(["1"] * 36)
IMAGE = f"agraph (float[1,4,8,8] x) => (float[N,C,H,W] y) <float[4,1,3,3] w = {{{ONES}}}> {{"
PLANE = """agraph (float[4,6] x) => (float[N,M] y) <float one = {1}, float[6] c = {1, 2, 3, 4, 5, 6},
    float[6] d = {1, 2, 3, 4, 5, 6}, float[6,2] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[2] b = {1, 2},
    int64[2] s = {4, 6}, int64[1] zero = {0}, int64[1] three = {3}, int64[1] six = {6}, int64[1] axis = {1}> {"""
WORK = [  # a documented name, a model, and what stays of it where the name is off
    ("AlgebraicSimplificationPass", f"{PLANE} a = Mul (x, one)  y = Neg (a) }}", "Mul Neg"),
    ("ReshapeRemovePass", f"{PLANE} a = Neg (x)  e = Reshape (a, s)  y = Exp (e) }}", "Neg Reshape Exp"),
    ("AddNPass", f"{PLANE} a = Sum (x)  y = Neg (a) }}", "Sum Neg"),
    ("StridedSliceDToSplitFusionPass", f"{PLANE} a = Slice (x, zero, three, axis)  e = Slice (x, three, six, axis)  "
     "f = Exp (a)  g = Neg (e)  y = Mul (f, g) }", "Slice Slice Exp Neg Mul"),
    ("matmul_elemwise_fusion", f"{PLANE} a = MatMul (x, w)  e = Add (a, b)  y = Relu (e) }}", "MatMul Add Relu"),
    ("TbeDepthwiseConvElemwiseFusionPass", f"{IMAGE} a = Conv <group = 4> (x, w)  y = Relu (a) }}", "Conv Relu"),
    ("TbeConv3dElemwisePass", f"{IMAGE} a = Conv <group = 4> (x, w)  y = Sigmoid (a) }}", "Conv Sigmoid"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "kept"), WORK, ids=[name for name, *_ in WORK])
def test_what_a_documented_name_is_off_for_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, text: str, kept: str
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parse(text, opset=18), "in.onnx")

    def operators(**options: str) -> list[str]:
        fusionc.convert("in.onnx", output="out.onnx", verify=False, **options)
        return sorted(node.op_type for node in onnx.load("out.onnx").graph.node)

    assert operators() != sorted(kept.split())
    assert operators(optimization_switch=f"{name}:off") == sorted(kept.split())
    assert operators(graph_kernel_flags=f"--disable_pass={name}") == sorted(kept.split())
    Path("cfg.json").write_text(json.dumps({"Switch": {"GraphFusion": {name: "off"}}}))
    assert operators(fusion_switch_file="cfg.json") == sorted(kept.split())


def test_equal_constants_stay_where_their_documented_name_is_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(
        parse(f"{PLANE} a = Exp (x)  e = Mul (a, c)  f = Sin (e)  y = Mul (f, d) }}", opset=18),
        "in.onnx",
    )
    for name, expected in (("", 1), ("ConstantFuseSamePass:off", 2)):
        fusionc.convert(
            "in.onnx", output="out.onnx", verify=False, optimization_switch=name or None
        )
        assert len(onnx.load("out.onnx").graph.initializer) == expected


def test_the_first_flash_attention_is_the_one_with_a_mask() -> None:
    """As in MindSpore, whose users switch it off by that name."""
    summaries = [NAMES.find(f"FlashAttentionFusionV{number}")[0].summary for number in (1, 2)]
    assert summaries[0].startswith("Attention with a mask ") and summaries[1].startswith(
        "Attention without a mask "
    )
