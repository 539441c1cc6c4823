"""Operators that decide by the last bit of a number, and those that hand a last bit on to them.

On one side of a limit they give one result and on the other side another one: Round at every half,
a comparison where both are equal, a division where the divisor changes its sign. Numbers that a
quantization has made, or integers, lie on such limits again and again: half a step is a number like
any other there.
"""

from __future__ import annotations

from onnx import TensorProto

from fusionc.operators.domains import MICROSOFT, TRADITIONAL

FIRST = (0,)
ALL = None  # at any of its inputs

# The inputs at which a last bit moves the result by a whole step. NaN is such a step: Acos and its
# like end at a limit.
_JUMPS: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(
        ("Acos", "Acosh", "ArgMax", "ArgMin", "Asin", "Atanh", "Bernoulli", "Ceil"), FIRST
    ),
    **dict.fromkeys(
        ("DynamicQuantizeLinear", "Floor", "Hardmax", "IsInf", "IsNaN", "Multinomial"), FIRST
    ),
    **dict.fromkeys(
        ("NonZero", "OneHot", "Round", "Shrink", "Sign", "ThresholdedRelu", "TopK", "Unique"), FIRST
    ),
    **dict.fromkeys(
        ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mod", "Range"), ALL
    ),
    "NonMaxSuppression": ALL,
    "QuantizeLinear": (0, 1),
    "GridSample": (1,),
    "Resize": (1, 2),  # sizes are rounded down from scales, which are the second input at first
    "Upsample": (1,),
}
JUMPS: dict[tuple[str, str], tuple[int, ...] | None] = {
    **{("", name): places for name, places in _JUMPS.items()},
    **{(TRADITIONAL, name): FIRST for name in ("Binarizer", "LabelEncoder")},
    **{(TRADITIONAL, f"TreeEnsemble{kind}"): FIRST for kind in ("", "Classifier", "Regressor")},
    (MICROSOFT, "QuantizeLinear"): (0, 1),
    (MICROSOFT, "DynamicQuantizeLSTM"): FIRST,
    (MICROSOFT, "DynamicQuantizeMatMul"): FIRST,
}
# Where two elements are about as large, these put them in another order, with all that follows.
SORTS = frozenset({"NonMaxSuppression", "NonZero", "TopK", "Unique"})
# The inputs at which the sign of a number near 0 decides. A power does so but for exponents 1, 2, 3
# …
ZEROS: dict[tuple[str, str], tuple[int, ...]] = {
    ("", "Div"): (1,),
    **dict.fromkeys((("", "Reciprocal"), ("", "Log"), ("", "Sqrt"), ("", "Pow")), FIRST),
}

# The inputs at which the sign of a zero decides, as between ∞ and −∞. A power does so but for
# exponents of 0 and more.
DIVISORS: dict[tuple[str, str], tuple[int, ...]] = {
    ("", "Div"): (1,),
    **dict.fromkeys((("", "Reciprocal"), ("", "Pow")), FIRST),
}

# Behind a quotient this is an angle: where the numerator is 0, the last bit says whether it is π or
# −π.
TURNS: dict[tuple[str, str], tuple[int, ...]] = {("", "Atan"): FIRST}

# What hands elements on as they are: which ones, and where to, may depend on them.
MOVES = frozenset({
    "CenterCropPad", "Compress", "Concat", "ConcatFromSequence", "DepthToSpace", "Dropout", "Expand", "Flatten",
    "Gather", "GatherElements", "GatherND", "Identity", "Optional", "OptionalGetElement", "Pad", "Reshape",
    "ReverseSequence", "Scatter", "ScatterElements", "ScatterND", "SequenceAt", "SequenceConstruct", "SequenceErase",
    "SequenceInsert", "Slice", "SpaceToDepth", "Split", "SplitToSequence", "Squeeze", "Tile", "Transpose", "Trilu",
    "Unsqueeze", "Where",
})  # fmt: skip
# What adds: numbers that nearly cancel leave what they were rounded by.
SUMS = frozenset({"Add", "Mean", "Sub", "Sum"})
# Arithmetic with few operations for each element: numbers of few digits stay numbers of few digits.
_SCALES = SUMS | {
    "Abs", "Cast", "CastLike", "Clip", "Div", "GlobalMaxPool", "LeakyRelu", "Max", "MaxPool", "Min", "Mul", "Neg",
    "PRelu", "ReduceMax", "ReduceMin", "Relu",
}  # fmt: skip
STRAIGHT = MOVES | _SCALES
# What makes of a zero a zero with the same sign, or with the other one.
KEEPS_ZEROS = MOVES | {
    "Cast", "CastLike", "Ceil", "Clip", "Div", "Floor", "HardSwish", "LeakyRelu", "Max", "MaxPool", "Min", "Mul", "Neg",
    "PRelu", "Relu", "Round", "Sin", "Sqrt", "Tan", "Tanh",
}  # fmt: skip
ARITHMETIC = STRAIGHT | {
    "BatchNormalization", "HardSigmoid", "HardSwish", "Pow", "Reciprocal", "Shrink", "Sqrt", "ThresholdedRelu",
}  # fmt: skip
# What computes each element from one element of each input, or the mean and the sum of a few.
CONTINUOUS = ARITHMETIC | {
    "Acosh", "Asinh", "Atan", "AveragePool", "Celu", "Cos", "Cosh", "CumSum", "Elu", "Erf", "Exp",
    "Gelu", "GlobalAveragePool", "GlobalLpPool", "LpPool", "Log", "Mish", "ReduceL1", "ReduceL2", "ReduceMean",
    "ReduceProd", "ReduceSum", "ReduceSumSquare", "Resize", "Selu", "Sigmoid", "Sin", "Sinh", "Softplus", "Softsign",
    "Swish", "Tan", "Tanh", "Upsample",
}  # fmt: skip
# Operators of onnxruntime that do so: what passes made of such.
CONTINUOUS_OF_MICROSOFT = frozenset({"BiasGelu", "FastGelu", "Gelu", "QuickGelu"})
_FLOATS = frozenset({
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16,
})  # fmt: skip


def is_real(elem_type: int) -> bool:
    """Whether elements of a type are rounded from one operation to the next; types that are unknown
    may be such.
    """
    return elem_type in _FLOATS or elem_type == TensorProto.UNDEFINED
