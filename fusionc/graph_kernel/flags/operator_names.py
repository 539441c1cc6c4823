"""MindSpore's names of operators, which flags may use, and ONNX's operators for them.

The names are those in MindSpore's lists of operators to expand and to cluster. One name may mean
several operators of ONNX.
"""

from __future__ import annotations

import onnx.defs

from fusionc.model.operators import MICROSOFT

_TABLE = f"""
ACos Acos
AcoshExt Acosh
Adam ai.onnx.preview.training.Adam
Addcmul Add Mul
AddN Sum
ApplyMomentum ai.onnx.preview.training.Momentum
ArgMaxWithValue ArgMax
ArgMinWithValue ArgMin
Argmin ArgMin
AsinhExt Asinh
BatchMatMul MatMul
BiasAdd Add
BroadcastTo Expand
ClampScalar Clip
DivMod Div
EluExt Elu
EqualCount Equal ReduceSum
Erfc Erf Sub
Expm1 Exp Sub
ExpandDims Unsqueeze
FastGelu {MICROSOFT}.FastGelu
FastGeLU {MICROSOFT}.FastGelu
FillV2 ConstantOfShape
FloorDiv Div Floor
FloorMod Mod
FusedMulAdd Add Mul
GeLU Gelu {MICROSOFT}.Gelu
GreaterEqual GreaterOrEqual
HShrink Shrink
HSigmoid HardSigmoid
HSwish HardSwish
IdentityMath Identity
IsFinite IsInf IsNaN
IsNan IsNaN
LayerNorm LayerNormalization
LeakyReLUExt LeakyRelu
LessEqual LessOrEqual
LogicalAnd And
LogicalNot Not
LogicalOr Or
Maximum Max
MeanExt ReduceMean
Minimum Min
NotEqual Equal Not
OnesLike ConstantOfShape
RealDiv Div
ReLU Relu
Rsqrt Reciprocal Sqrt
Select Where
SiLU Swish {MICROSOFT}.QuickGelu
SoftmaxCrossEntropyWithLogits SoftmaxCrossEntropyLoss
SoftplusExt Softplus
Square Pow
SquaredDifference Mul Sub
SquareSumAll ReduceSumSquare
StandardNormal RandomNormal RandomNormalLike
StridedSlice Slice
ZerosLike ConstantOfShape
"""
_IN_ONNX = {
    name: tuple(operators) for name, *operators in map(str.split, _TABLE.strip().splitlines())
}

_TRAINING = """
AdamApplyOneWithDecay AdamApplyOneWithDecayAssign AdamWeightDecay BCEWithLogitsLoss BiasAddGrad
BinaryCrossEntropy ClipByNormNoDivSum DropoutGrad FastGeluGrad FastGeLUGrad GeLUGrad
LambApplyOptimizerAssign LambApplyWeightAssign LayerNormGrad LogSoftmaxGrad MaximumGrad MinimumGrad
ReluGrad RsqrtGrad SigmoidCrossEntropyWithLogits SigmoidCrossEntropyWithLogitsGrad SigmoidGrad
SiLUGrad SoftmaxGradExt SoftplusGrad SoftplusGradExt SqrtGrad TanhGrad
"""
_NOT_IN_ONNX = (
    dict.fromkeys(_TRAINING.split(), "it belongs to training")
    | dict.fromkeys(("Assign", "AssignAdd"), "no model for inference assigns to its parameters")
    | {
        "Atan2": "exporters write it with Atan, Div and Where, in many ways",
        "RepeatInterleaveInt": "exporters write it with Expand and Reshape, in many ways",
        "Trunc": "exporters write it with Cast, Floor or Sign, in many ways",
    }
)


def onnx_names(name: str) -> tuple[str, ...]:
    """The ONNX operators that an entry of a list means. An ONNX name means itself, and so does an
    unknown name.
    """
    return (name,) if onnx.defs.has(name) else _IN_ONNX.get(name, (name,))


def why_not_in_onnx(name: str) -> str | None:
    """The reason why a MindSpore name does not mean an operator of ONNX. `None` for other names."""
    return _NOT_IN_ONNX.get(name)
