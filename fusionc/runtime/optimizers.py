"""onnxruntime's own optimizers: their levels, and the names with which they can be switched off."""

from __future__ import annotations

LEVELS = ("disabled", "basic", "extended", "all")
DEFAULT_LEVELS = (
    "disabled",
    "all",
)  # the first level is the one at which verification judges; the second is onnxruntime's default
# the session configuration entry with the names of disabled optimizers, separated by semicolons
DISABLED = "optimization.disable_specified_optimizers"

# onnxruntime ignores unknown names without a warning, so names of other versions do no harm. The
# two rule-based transformers come last: they run some of the optimizers in this list as rules, and
# other rules.
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
