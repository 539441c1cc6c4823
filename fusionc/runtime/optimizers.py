"""onnxruntime's own optimizers: the levels at which they run, and the names by which each can be
switched off.
"""

from __future__ import annotations

LEVELS = ("disabled", "basic", "extended", "all")
DEFAULT_LEVELS = ("disabled", "all")  # to judge a model, and as it is deployed
DISABLED = (
    # an entry of the session's configuration: names, with semicolons
    "optimization.disable_specified_optimizers"
)

# Whatever else is there is ignored without a word, so names of other versions do no harm. Rules
# come before the transformers that run them, which are for rules that have no name here.
_NAMES = """
EliminateIdentity EliminateSlice UnsqueezeElimination EliminateDropout ExpandElimination
CastElimination CastChainElimination PreShapeNodeElimination NoopElimination DivMulFusion
FuseReluClip GemmSumFusion GemmTransposeFusion NotWhereFusion ConvAddFusion ConvMulFusion
ConvBNFusion Pad_Fusion MatMul_BatchNormalization_Fusion LabelEncoderFusion ClipQuantRewrite
ReluQuantRewrite DoubleQDQPairsRemover ConstantSharing CommonSubexpressionElimination
ConstantFolding MatMulAddFusion ReshapeFusion FreeDimensionOverrideTransformer
SliceConcatToSpaceToDepthFusion GeluFusionL1 LayerNormFusionL1 QDQPropagationTransformer
WeightBiasQuantization EnsureUniqueDQForNodeUnit WhereDummyDq TransposeOptimizer
TransposeOptimizer_CPUExecutionProvider QDQS8ToU8Transformer Avx2WeightS8ToU8Transformer
QDQSelectorActionTransformer GemmActivationFusion MatMulIntegerToFloatFusion
DynamicQuantizeMatMulFusion ConvActivationFusion GeluFusionL2 LayerNormFusionL2
SimplifiedLayerNormFusion AttentionFusion EmbedLayerNormFusion GatherSliceToSplitFusion
GatherToSliceFusion MatmulTransposeFusion BiasGeluFusion GroupQueryAttentionFusion
GroupQueryAttentionPreNormFusion SkipLayerNormFusion BiasSkipLayerNormFusion FastGeluFusion
QuickGeluFusion BiasSoftmaxFusion BiasDropoutFusion MatMulScaleFusion MatMulActivationFusion
MatMulNBitsFusion DQMatMulNBitsFusion MatMulNBitsMlpFusion MatMulNBitsQkvFusion ConstantFoldingDQ
QDQFinalCleanupTransformer NchwcTransformer NhwcTransformer ConvAddActivationFusion
FuseFp16InitializerToFp32NodeTransformer GqaValueLayoutTransformer Level1_RuleBasedTransformer
Level2_RuleBasedTransformer
"""
OPTIMIZERS = tuple(_NAMES.split())
