"""Facts about operators: a table with one row for each operator, which lists its traits.

A row is `Name: trait trait@0,1 …`. The numbers after "@" are the positions of the inputs that have
the trait. Other modules derive their sets of operators from this table. If such a set differs from
a trait on purpose, a comment at the set gives the reason. An operator without a row has no trait.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType

from fusionc.operators.domains import MICROSOFT, TRADITIONAL

Operator = tuple[str, str]  # domain and name
Places = tuple[int, ...] | None  # positions of inputs; None for all inputs


class Trait(StrEnum):
    """A property of an operator, or of the inputs whose positions follow "@" in its row."""

    # -- kinds of operators
    # each element depends on one element of the first input; other inputs are parameters
    UNARY = "unary"
    ACTIVATION = "activation"  # unary, and an activation function of networks
    # each element depends on one element of each input, broadcast to one shape
    BROADCASTS = "broadcasts"
    # the order of the operands does not matter, except for Max and Min of −0 and +0
    COMMUTATIVE = "commutative"
    # before opset 7, broadcasts only if the attribute `broadcast` is set, from the axis `axis` on
    LEGACY_AXIS = "legacy-axis"
    COMPARES = "compares"
    CASTS = "casts"
    DIVIDES = "divides"  # an integer division by 0 ends the process
    # returns elements of these inputs unchanged; other inputs may decide which ones it returns, and
    # at which positions
    MOVES = "moves"
    SELECTS = "selects"  # each output consists of elements of the first input only
    RESHAPES = "reshapes"  # keeps all elements in order
    READS_SHAPE = "reads-shape"  # the result depends only on the shape of the input
    REDUCES = "reduces"
    FINDS_INDEX = "finds-index"  # returns the index of the largest or smallest element
    KEEPS_ONE = "keeps-one"  # the reduction of a single number is that number
    KEEPS_WHOLE = "keeps-whole"  # the reduction of integers is an integer
    WINDOW_POOL = "window-pool"
    GLOBAL_POOL = "global-pool"
    CONVOLUTION = "convolution"
    MATRIX_PRODUCT = "matrix-product"
    # sums floating-point products of data and weights: linear in each of them
    WEIGHTED_SUMS = "weighted-sums"
    RECURRENT = "recurrent"
    ATTENTION = "attention"
    SOFTMAX = "softmax"
    NORM = "norm"
    ROW_NORM = "row-norm"  # normalizes each row separately, with a scale
    CONTROL = "control"  # runs subgraphs
    QUANTIZES = "quantizes"
    DEQUANTIZES = "dequantizes"
    RANDOM = "random"
    STATEFUL = "stateful"  # has a state, or draws random numbers internally

    # -- rounding and the last bit of numbers
    # the last bit of these inputs may change the result by a whole step, or to NaN
    JUMPS = "jumps"
    SORTS = "sorts"  # the order of nearly equal elements determines the whole result
    # the sign of a number near 0 in these inputs determines the result; for Pow, only with some
    # exponents
    SIGN_DECIDES = "sign-decides"
    # the sign of a zero in these inputs determines the result, as between ∞ and −∞; for Pow,
    # only with negative exponents
    ZERO_DECIDES = "zero-decides"
    # the result is NaN if a number in these inputs is negative; for Pow, only with fractional
    # exponents
    NO_NEGATIVE = "no-negative"
    # computes an angle, such as that of a quotient. If the numerator is near 0, its last bit may
    # decide between π and −π.
    TURNS = "turns"
    SUMS = "sums"  # if operands nearly cancel, their rounding errors remain
    ADDS_ELEMENTS = "adds-elements"  # like SUMS, for elements of the first input
    # subtracts elements of these inputs; whether the difference is 0 determines the result
    SUBTRACTS = "subtracts"
    # a few operations per element: numbers with few digits keep few digits
    SCALES = "scales"
    ARITHMETIC = "arithmetic"  # like SCALES, but the results have a few more digits
    # each element is a continuous function of one element of each input, or is a mean or sum of a
    # few elements
    CONTINUOUS = "continuous"
    KEEPS_ZERO = "keeps-zero"  # maps 0 to 0, perhaps with the other sign
    UNIFORM = "uniform"  # the result does not depend on the position of the element
    APPROXIMATED = "approximated"  # no standard defines its rounding, so kernels differ
    # the results are multiples of a step, and equivalent models have the same step
    GRID = "grid"
    WHOLE_LIMITS = "whole-limits"  # jumps at integers, not at halves
    GRID_INSIDE = "grid-inside"  # rounds its first input to multiples of a step before it computes
    NEVER_NEGATIVE = "never-negative"  # neither negative nor −0, for all operands
    AT_LEAST_ZERO = "at-least-zero"  # not negative, but perhaps −0
    KEEPS_SIGN = "keeps-sign"  # never negative if these inputs never are
    IDEMPOTENT = "idempotent"  # a second application changes nothing
    INVOLUTION = "involution"  # a second application restores the input

    # -- rewrites by onnxruntime when it loads a model
    # computed in integers if these inputs are dequantized and the result is quantized
    IN_INTEGERS = "in-integers"
    FLOAT_RESULT = "float-result"  # has an integer form with a floating-point result
    ON_INTEGERS = "on-integers"  # computes on integers itself, without dequantization
    # onnxruntime exchanges the operator with a QuantizeLinear or DequantizeLinear next to it
    PASSES_INTEGERS = "passes-integers"
    UNSIGNED = "unsigned"  # onnxruntime may make int8 constants in these inputs uint8
    JOINS_CONV = "joins-conv"  # becomes the activation of a FusedConv
    JOINS_GEMM = "joins-gemm"  # becomes the activation of a FusedGemm

    # -- the values of inputs
    COUNTS = "counts"  # sizes, counts or divisors: at least 1
    OFFSETS = "offsets"  # axes, positions in a short sequence, or offsets: 0 is always valid
    # the value of these inputs is returned, perhaps with another value added
    PASSES_VALUE = "passes-value"
    POSITIVE = "positive"  # variances, scales or probabilities: positive numbers


_STANDARD = """
Abs: unary scales uniform never-negative idempotent
Acos: unary jumps@0 approximated
Acosh: unary jumps@0 continuous approximated
Add: broadcasts commutative legacy-axis sums uniform keeps-sign@0,1 in-integers@0,1 passes-value@0,1
AffineGrid: continuous counts@1
And: broadcasts commutative legacy-axis uniform
ArgMax: finds-index jumps@0
ArgMin: finds-index jumps@0
Asin: unary jumps@0 approximated keeps-zero
Asinh: unary continuous keeps-zero approximated
Atan: unary turns@0 continuous keeps-zero approximated
Atanh: unary jumps@0 approximated keeps-zero
Attention: attention
AveragePool: window-pool continuous keeps-zero in-integers@0 adds-elements keeps-sign@0
BatchNormalization: norm arithmetic positive@4
Bernoulli: random jumps@0 positive@0
BitShift: broadcasts
BitwiseAnd: broadcasts commutative uniform
BitwiseNot: unary uniform involution
BitwiseOr: broadcasts commutative uniform
BitwiseXor: broadcasts commutative uniform
BlackmanWindow: counts@0
Cast: unary casts scales keeps-zero uniform passes-value@0 keeps-sign@0
CastLike: casts scales keeps-zero passes-value@0
Ceil: unary jumps@0 keeps-zero uniform grid whole-limits idempotent
Celu: unary activation continuous keeps-zero approximated
CenterCropPad: moves@0 counts@1
Clip: unary activation scales keeps-zero uniform joins-conv
Col2Im: continuous counts@1,2 adds-elements
Compress: moves@0 selects
Concat: moves keeps-sign in-integers
ConcatFromSequence: moves@0
ConstantOfShape: counts@0
Conv: convolution weighted-sums in-integers@0,1
ConvInteger: convolution
ConvTranspose: convolution weighted-sums
Cos: unary continuous approximated
Cosh: unary continuous approximated
CumSum: continuous keeps-zero offsets@1 adds-elements
DFT: counts@1
DepthToSpace: moves@0 selects
DequantizeLinear: dequantizes continuous uniform unsigned@0,2 positive@1
Div: broadcasts legacy-axis divides sign-decides@1 zero-decides@1 scales keeps-zero uniform counts@1
Dropout: moves@0 positive@1
DynamicQuantizeLinear: quantizes jumps@0 grid
Einsum: weighted-sums
Elu: unary activation continuous keeps-zero approximated joins-gemm
Equal: broadcasts commutative legacy-axis compares jumps uniform
Erf: unary continuous keeps-zero approximated
Exp: unary continuous approximated never-negative
Expand: moves@0 selects counts@1 keeps-sign@0
Flatten: moves@0 selects reshapes
Floor: unary jumps@0 keeps-zero uniform grid whole-limits idempotent
GRU: recurrent counts@4
Gather: moves@0 selects keeps-sign@0
GatherElements: moves@0 selects
GatherND: moves@0 selects
Gelu: unary activation continuous keeps-zero approximated
Gemm: matrix-product weighted-sums in-integers@0,1 float-result
GlobalAveragePool: global-pool continuous keeps-zero in-integers@0 adds-elements keeps-sign@0
GlobalLpPool: global-pool continuous keeps-zero
GlobalMaxPool: global-pool scales keeps-zero
Greater: broadcasts legacy-axis compares jumps uniform
GreaterOrEqual: broadcasts compares jumps uniform
GridSample: jumps@1
GroupNormalization: norm
HammingWindow: counts@0
HannWindow: counts@0
HardSigmoid: unary activation arithmetic at-least-zero joins-conv joins-gemm
HardSwish: unary activation arithmetic keeps-zero
Hardmax: jumps@0
Identity: moves@0 selects keeps-sign@0 passes-integers
If: control
InstanceNormalization: norm
IsInf: unary jumps@0 uniform
IsNaN: unary jumps@0 uniform
LSTM: recurrent counts@4
LayerNormalization: norm row-norm
LeakyRelu: unary activation scales keeps-zero uniform in-integers@0 joins-conv joins-gemm
Less: broadcasts legacy-axis compares jumps uniform
LessOrEqual: broadcasts compares jumps uniform
Log: unary sign-decides@0 no-negative@0 continuous approximated positive@0
LogSoftmax: softmax approximated
Loop: control counts@0
LpNormalization: sign-decides@0 continuous
LpPool: window-pool continuous keeps-zero
MatMul: matrix-product weighted-sums in-integers@0,1 float-result
MatMulInteger: matrix-product unsigned@1,3
Max: broadcasts commutative scales keeps-zero passes-value
MaxPool: window-pool scales keeps-zero passes-integers
MaxRoiPool: jumps@1 scales
MaxUnpool: moves@0 counts@2
Mean: broadcasts commutative sums uniform
MeanVarianceNormalization: subtracts@0
Min: broadcasts commutative scales keeps-zero passes-value
Mish: unary activation continuous keeps-zero approximated
Mod: broadcasts divides jumps uniform whole-limits counts@1
Mul: broadcasts commutative legacy-axis scales keeps-zero uniform keeps-sign@0,1 in-integers@0,1
Multinomial: random jumps@0
Neg: unary scales keeps-zero uniform involution
NonMaxSuppression: jumps sorts counts@2
NonZero: jumps@0 sorts
Not: unary uniform involution
OneHot: jumps@0 counts@1
Optional: moves@0
OptionalGetElement: moves@0
Or: broadcasts commutative legacy-axis uniform
PRelu: broadcasts scales keeps-zero uniform
Pad: moves@0,2 offsets@1,3
Pow: broadcasts legacy-axis sign-decides@0,1 zero-decides@0 no-negative@0 arithmetic approximated
QLinearConv: convolution on-integers unsigned@3,5
QLinearMatMul: matrix-product on-integers unsigned@3,5
QuantizeLinear: quantizes jumps@0,1 uniform grid unsigned@2 positive@1
RMSNormalization: norm row-norm
RNN: recurrent counts@4
RandomNormal: random
RandomNormalLike: random
RandomUniform: random
RandomUniformLike: random
Range: jumps counts@1,2
Reciprocal: unary sign-decides@0 zero-decides@0 arithmetic
ReduceL1: reduces keeps-whole continuous never-negative offsets@1
ReduceL2: reduces continuous never-negative offsets@1
ReduceLogSum: reduces sign-decides@0 no-negative@0 continuous offsets@1
ReduceLogSumExp: reduces continuous offsets@1
ReduceMax: reduces keeps-one keeps-whole scales keeps-zero offsets@1 passes-value@0
ReduceMean: reduces keeps-one continuous keeps-zero keeps-sign@0 offsets@1 adds-elements
ReduceMin: reduces keeps-one keeps-whole scales keeps-zero offsets@1 passes-value@0
ReduceProd: reduces keeps-one keeps-whole continuous keeps-zero offsets@1
ReduceSum: reduces keeps-one keeps-whole continuous keeps-zero keeps-sign@0 offsets@1 adds-elements
ReduceSumSquare: reduces keeps-whole continuous never-negative offsets@1
Relu: unary activation scales keeps-zero uniform at-least-zero idempotent joins-conv joins-gemm
Reshape: moves@0 selects reshapes keeps-sign@0 passes-integers
Resize: jumps@1,2 continuous counts@2,3
ReverseSequence: moves@0 selects counts@1
RoiAlign: jumps@1 continuous
Round: unary jumps@0 keeps-zero uniform grid idempotent
STFT: counts@1,3
Scan: control
Scatter: moves@0,2
ScatterElements: moves@0,2
ScatterND: moves@0,2
Selu: unary activation continuous keeps-zero approximated
SequenceAt: moves@0 offsets@1
SequenceConstruct: moves
SequenceErase: moves@0 offsets@1
SequenceInsert: moves@0,1 offsets@2
SequenceMap: control
Shape: reads-shape
Shrink: unary jumps@0 arithmetic
Sigmoid: unary activation continuous approximated never-negative in-integers@0 joins-conv joins-gemm
Sign: unary jumps@0 uniform idempotent
SimplifiedLayerNormalization: norm
Sin: unary continuous keeps-zero approximated
Sinh: unary continuous keeps-zero approximated
Size: reads-shape
Slice: moves@0 selects passes-integers counts@2,4 offsets@1,3 keeps-sign@0
Softmax: softmax approximated never-negative in-integers@0
Softplus: unary activation continuous approximated at-least-zero joins-gemm
Softsign: unary activation continuous keeps-zero joins-gemm
SpaceToDepth: moves@0 selects
Split: moves@0 selects counts@1
SplitToSequence: moves@0
Sqrt: unary sign-decides@0 no-negative@0 arithmetic keeps-zero uniform keeps-sign@0 positive@0
Squeeze: moves@0 selects reshapes keeps-sign@0 passes-integers offsets@1
Sub: broadcasts legacy-axis sums uniform passes-value@0
Sum: broadcasts commutative sums uniform keeps-sign
Swish: unary activation continuous approximated
Tan: unary continuous keeps-zero approximated
Tanh: unary activation continuous keeps-zero approximated joins-conv joins-gemm
ThresholdedRelu: unary activation jumps@0 arithmetic uniform
Tile: moves@0 selects counts@1
TopK: jumps@0 sorts counts@1
Transpose: moves@0 selects keeps-sign@0 passes-integers
Trilu: moves@0
Unique: jumps@0 sorts
Unsqueeze: moves@0 selects reshapes keeps-sign@0 passes-integers offsets@1
Upsample: jumps@1 continuous counts@1
Where: broadcasts moves@1,2 uniform in-integers@1,2
Xor: broadcasts commutative legacy-axis uniform
"""
_TRADITIONAL = """
ArrayFeatureExtractor: moves@0
Binarizer: jumps@0
FeatureVectorizer: moves
Imputer: moves@0
LabelEncoder: jumps@0
LinearClassifier: jumps@0
Normalizer: sign-decides@0 continuous
SVMClassifier: jumps@0
Scaler: continuous
TreeEnsemble: jumps@0
TreeEnsembleClassifier: jumps@0
TreeEnsembleRegressor: jumps@0
"""
_MICROSOFT = """
Attention: attention
BeamSearch: stateful
BiasDropout: stateful
BiasGelu: continuous
BitmaskBiasDropout: stateful
BitmaskDropout: stateful
CDist: subtracts@0,1 continuous
DequantizeLinear: dequantizes unsigned@0,2
DynamicQuantizeLSTM: jumps@0 grid-inside unsigned@1,2,9,11
DynamicQuantizeMatMul: matrix-product jumps@0 grid-inside float-result unsigned@1,3
FastGelu: continuous
FusedConv: convolution weighted-sums
FusedGemm: matrix-product weighted-sums
FusedMatMul: matrix-product weighted-sums
Gelu: unary activation continuous
GreedySearch: stateful
GridSample: jumps@1
GroupNorm: norm
GroupQueryAttention: attention
MatMulBnb4: matrix-product
MatMulIntegerToFloat: matrix-product float-result unsigned@1,5
MatMulNBits: matrix-product grid-inside
MultiHeadAttention: attention
PythonOp: stateful
QAttention: attention unsigned@1,7
QGemm: matrix-product on-integers unsigned@3,5
QLinearAdd: on-integers
QLinearGlobalAveragePool: on-integers
QuantizeLinear: quantizes jumps@0,1 unsigned@2
QuickGelu: unary activation continuous approximated
SampleOp: stateful
Sampling: stateful
SkipLayerNormalization: norm
SkipSimplifiedLayerNormalization: norm
TransposeMatMul: matrix-product
WhisperBeamSearch: stateful
"""


def _read(rows: str, domain: str) -> dict[Operator, Mapping[Trait, Places]]:
    pairs = (row.split(": ") for row in rows.strip().splitlines())
    return {(domain, name): dict(map(_trait, words.split())) for name, words in pairs}


def _trait(word: str) -> tuple[Trait, Places]:
    name, _, places = word.partition("@")
    return Trait(name), tuple(map(int, places.split(","))) if places else None


FACTS: Mapping[Operator, Mapping[Trait, Places]] = MappingProxyType(
    _read(_STANDARD, "") | _read(_TRADITIONAL, TRADITIONAL) | _read(_MICROSOFT, MICROSOFT)
)


@cache
def operators_with(*traits: Trait) -> frozenset[Operator]:
    """The operators that have at least one of these traits."""
    return frozenset(
        operator for operator, row in FACTS.items() if not row.keys().isdisjoint(traits)
    )


@cache
def names_with(*traits: Trait, domain: str = "") -> frozenset[str]:
    """The names of the operators of a domain that have at least one of these traits."""
    return frozenset(
        name for operator_domain, name in operators_with(*traits) if operator_domain == domain
    )


def holds_at(trait: Trait, operator: Operator, position: int) -> bool:
    """Whether an operator has a trait for the input at this position."""
    places = FACTS.get(operator, {}).get(trait, ())
    return places is None or position in places


def places_of(trait: Trait) -> dict[Operator, Places]:
    """Each operator with this trait, and the positions of the inputs that have it."""
    return {operator: row[trait] for operator, row in FACTS.items() if trait in row}
