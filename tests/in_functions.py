"""How often a pass takes effect inside a model-local function, compared with the main graph, and
why less often.
"""

from __future__ import annotations

from collections.abc import Collection

# A function has no types: each of its calls may have others. So nothing is known there of types,
# ranks and shapes. These passes ask for them everywhere, so that they never take effect.
_ALWAYS_ASK = """
DimensionComputePass ConstantFoldingPass GeluFusionPass InstanceNormFusionPass LayerNormFusionPass
RmsNormFusionPass GroupNormFusionPass ClipFusionPass HardSigmoidFusionPass SoftplusFusionPass EluSeluCeluFusionPass
DepthToSpaceFusionPass EinsumPass PadConv2dFusionPass ConvBatchnormFusionPass Conv2DTransposeBatchnormFusionPass
ConvScaleFusionPass Conv2DSqueezeBiasaddFusionPass AABiasaddConvFusion AConv2dMulFusion BatchnormConvFusionPass
BatchNormToScalePass ConvToFullyConnectionFusionPass ConvConcatFusionPass SameInputConv2dPass
MatMulReshapeBiasAddFusionPass BatchMatMulV2ReshapeFusionPass MatMulBiasAddFusionPass GemmScaleFusionPass
MatMulReassociationPass SameInputMatMulPass CastReluCastFusionPass ZSplitVDFusionPassV2 UpstreamGatherPass
Dim1TransposeToSqueezePass ShapeReshapePass RotaryEmbeddingFusionPass FlashAttentionFusionV2 FlashAttentionFusionV1
AReduceSumFusionPass SubFusionPass ArithmeticInexactPass RotaryEmbeddingUbFusionPass GroupQueryAttentionFusionPass
MultiHeadAttentionFusionPass RepeatedMatMulUbFusionPass AddRmsNormDynamicQuantFusionPass AddRmsNormQuantFusionPass
RmsNormQuantFusionPass AddCastRmsNormCastFusionPass AddRmsNormFusionPass EmbedLayerNormFusionPass
AddLayerNormFusionPass ResidualSumPass SqueezeExciteScalePass TbeConvDoubleInFusionPass TbeConvElemwiseFusionPass
InferenceQbmmAddFusionPass ATbeMatMulElemwiseFusionPass FastGeluFusionPass BiasGeluFusionPass
InferenceSwigluFusionPass QuickGeluFusionPass TransposeScaleMatMulFusionPass StftToConvPass DftToMatMulPass
RankQuestionPass SoftmaxReshapePass FewChannelsConvPass QuotientSimplifyPass ExpandEliminationPass ScaleShiftToConvPass
ConvSplitPass SqueezeExciteResidualPass RmsNormUbFusionPass FlatBatchEliminationPass
UnpackTransposePass ShapeOfInputPass ImageTransposePass SameWeightsMatMulPass QuantizedActivationPass GroupedConvIntegerPass
"""
# These ask for them in some of their cases.
_SOMETIMES_ASK = """
CastRemovePass SequenceEliminationPass
NoUseReshapeRemovePass UnchangedTransposeRemovePass UselessBinaryOpRemovePass SoftmaxSmallOpFusionPass
StableSoftmaxFusionPass L2NormFusionPass SwishFusionPass SpaceToDepthFusionPass PoolingFusionPass
Conv1x1ReassociationPass BatchMatMulFusionPass StridedSliceMergePass ZConcatv2dFusionPass ZConcatExt2FusionPass
ZSplitVDFusionPass SplitConcatFusionPass GatherFusionPass TransOpSymmetryEliminationPass ArithmeticSimplifyPass
ConstantReassociationPass PowToMulPass InferenceMatmulSplitFusionPass Conv1dToConv2dPass
QuantizedSignednessPass DynamicConvSignednessPass
"""
NEVER = {
    **dict.fromkeys(_ALWAYS_ASK.split(), "it needs types or shapes"),
    "RemoveSameConstPass": "it merges initializers: in a function constants are nodes, which are no business of it",
}
LESS_OFTEN = {
    **dict.fromkeys(_SOMETIMES_ASK.split(), "in some cases it needs types or shapes"),
    "SubnormalToZeroPass": "nobody knows what is done with the results of a function",
}
ONCE_MORE = {"FunctionInlinePass": "it inlines the function that the case is in, too"}


def times_inside(pass_name: str, times: int) -> Collection[int]:
    """How often a pass may take effect inside a function that does so `times` times in the main
    graph.
    """
    if pass_name in NEVER:
        return (0,)
    if pass_name in LESS_OFTEN:
        return range(times + 1)
    return (times + (pass_name in ONCE_MORE),)
