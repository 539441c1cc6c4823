"""The operator types of Ascend IR (the graphs that ATC, the compiler for Ascend processors, works
on), and the ONNX operators that ATC turns into them. Configuration files of ATC name the types of
Ascend IR.
"""

from __future__ import annotations

from collections.abc import Iterator

from fusionc.errors import Typos
from fusionc.operators.facts import FACTS

# Each line: ONNX operators, a colon, and the types of Ascend IR that they become. A type with the
# name of the ONNX operator is left out.
_ROWS = """
Add: AddV2 Adds BiasAdd Axpy
ArgMax: ArgMaxV2 ArgMaxD ArgMaxWithValue
ArgMin: ArgMinD ArgMinWithValue
AveragePool: AvgPool AvgPoolV2 AvgPool3D AvgPool3DD
BatchNormalization: BatchNorm BatchNorm3D BNInfer BNInference BNInferenceD BNTrainingReduce
Clip: ClipByValue ClipByValueV2 Relu6
Concat: ConcatD ConcatV2 ConcatV2D
ConstantOfShape: Fill FillD
Conv: Conv2D Conv3D Conv2DCompress DepthwiseConv2D Convolution
ConvTranspose: Conv2DTranspose Conv2DTransposeD Conv3DTranspose Conv3DTransposeD Deconvolution
CumSum: Cumsum CumsumD
Div: RealDiv DivNoNan FloorDiv
Equal: ApproximateEqual
Expand: ExpandD BroadcastTo BroadcastToD
Flatten: FlattenV2
GRU: DynamicGRUV2 CommonGRU
Gather: GatherD GatherV2 GatherV2D
GatherND: GatherNd
Gelu FastGelu: GeluV2
Gemm MatMul FusedGemm FusedMatMul: GEMM MatMulV2 MatMulV3 Matmul FullyConnection
Greater: GreaterD
GreaterOrEqual: GreaterEqual
GridSample: GridSampler2D GridSampler3D ImageGridSample
GroupNormalization: GroupNorm GroupNormV2 GroupNormSilu
InstanceNormalization: InstanceNorm InstanceNormV2
LSTM: DynamicRNN DynamicRNNV2 CommonLSTM BasicLSTMCell
LayerNormalization: LayerNorm LayerNormV3 LayerNormV4
LessOrEqual: LessEqual
LogSoftmax: LogSoftmaxV2
LpNormalization: L2Normalize
MatMul FusedMatMul: BatchMatMul BatchMatMulV2 BatchMatMulV3 TransposeBatchMatMul
Max: Maximum
MaxPool: MaxPoolV2 MaxPoolV3 MaxPool3D MaxPoolWithArgmaxV2
Min: Minimum
Mod: FloorMod TruncateMod
Mul: Muls
Neg: Negative
OneHot: OneHotD
Pad: PadD PadV2 PadV3 PadV3D MirrorPad
Pow: Power
RMSNormalization SimplifiedLayerNormalization: RmsNorm
RNN: CommonRNN
Range: RangeD
Reciprocal: Inv
ReduceL1 ReduceL2: LpNorm LpNormV2 LpNormReduce
ReduceLogSum: ReduceLogSumD
ReduceLogSumExp: LogSumExp
ReduceMax: ReduceMaxD
ReduceMean: ReduceMeanD ReduceMeanWithCount
ReduceMin: ReduceMinD
ReduceProd: ReduceProdD
ReduceSum: ReduceSumD
ReduceSumSquare: SquareSumV1 SquareSumV2
Resize: ResizeD ResizeBilinearV2 ResizeNearestNeighborV2 ResizeBicubic UpsampleNearest
RoiAlign: ROIAlign
ScatterND: ScatterNdUpdate TensorScatterUpdate
Slice: SliceD SliceV2 StridedSlice StridedSliceD StridedSliceV2
Softmax: SoftmaxV2 SoftmaxV2WithDropOutDoMaskV3D
Softplus: SoftplusV2
Split: SplitD SplitV SplitVD
Squeeze: SqueezeV2 SqueezeV3
Sum: AddN AccumulateNV2
Tile: TileD
TopK: TopKV2 TopKD
Transpose: TransposeD Permute
Trilu: Tril Triu
Unsqueeze: UnsqueezeV2 UnsqueezeV3 ExpandDims
Where: Select SelectV2
"""


def _types() -> Iterator[tuple[str, tuple[str, ...]]]:
    for name in {name for _, name in FACTS}:
        yield name, (name,)
    for row in _ROWS.strip().splitlines():
        operators, _, types = row.partition(": ")
        for type_ in types.split():
            yield type_, tuple(operators.split())


# ONNX operators by the type of Ascend IR, and by the name of the ONNX operator itself
_OPERATORS = dict(_types())
_TYPOS = Typos(_OPERATORS)


def onnx_operators(type_: str) -> tuple[str, ...]:
    """The ONNX operators of a type of Ascend IR; the name itself if no such type is known, because
    it may be an operator of the model.
    """
    return _OPERATORS.get(type_, (type_,))


def known_types() -> list[str]:
    """All types of Ascend IR and operators of ONNX that have a meaning here."""
    return sorted(_OPERATORS)


def is_misspelt(type_: str) -> bool:
    """Whether an unknown type differs from a known one in at most two letters."""
    return type_ not in _OPERATORS and type_ in _TYPOS
