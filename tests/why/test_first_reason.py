"""Planted near-misses: a form that a pass takes, with one thing in it that does not fit. That is
the first reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from harness import parse, pass_of

from fusionc.shapes.inference import typed_model
from fusionc.why.nearest import reasons_of
from fusionc.why.pass_places import places_of


@dataclass(frozen=True)
class Form:
    """A graph on which a pass takes effect, as ONNX text."""

    pass_name: str
    graph: str
    opset: int = 18


GELU = Form(
    "GeluFusionPass",
    """agraph (float[N,4] x) => (float[N,4] y) <float half = {0.5}, float one = {1}, float root = {1.41421356}> {
    [d] d = Div (x, root) [e] e = Erf (d) [a] a = Add (e, one) [h] h = Mul (x, half) [y] y = Mul (h, a) }""",
    20,
)
LAYER_NORM = Form(
    "LayerNormFusionPass",
    """agraph (float[N,S,4] x) => (float[N,S,4] y)
    <float[4] g, float[4] b, int64[1] ax = {-1}, float two = {2}, float eps = {0.00001}> {
    [u] u = ReduceMean (x, ax) [d] d = Sub (x, u) [s] s = Pow (d, two) [v] v = ReduceMean (s, ax) [e] e = Add (v, eps)
    [r] r = Sqrt (e) [n] n = Div (d, r) [a] a = Mul (n, g) [y] y = Add (a, b) }""",
)
SOFTMAX = Form(
    "SoftmaxSmallOpFusionPass",
    """agraph (float[N,4] x) => (float[N,4] y) <int64[1] ax = {-1}> {
    [m] m = ReduceMax (x, ax) [d] d = Sub (x, m) [e] e = Exp (d) [s] s = ReduceSum (e, ax) [y] y = Div (e, s) }""",
)
CONV_BN = Form(
    "ConvBatchnormFusionPass",
    """agraph (float[N,3,6,6] x) => (float[N,4,4,4] y)
    <float[4,3,3,3] W, float[4] B, float[4] s, float[4] o, float[4] m, float[4] v> {
    [c] c = Conv (x, W, B) [y] y = BatchNormalization (c, s, o, m, v) }""",
)
MATMUL_ADD = Form(
    "MatMulBiasAddFusionPass",
    """agraph (float[N,3] x) => (float[N,4] y) <float[3,4] W, float[4] B> {
    [p] p = MatMul (x, W) [y] y = Add (p, B) }""",
)
ATTENTION = Form(
    "FlashAttentionFusionV1",
    """agraph (float[B,2,3,4] q, float[B,2,5,4] k, float[B,2,5,4] v, bool[B,1,3,5] b) => (float[B,2,3,4] y)
    <float c = {0.5}, float zero = {0}, float far = {-10000}> {
    [m] m = Where (b, zero, far) [t] t = Transpose <perm = [0, 1, 3, 2]> (k) [s] s = MatMul (q, t) [z] z = Mul (s, c)
    [a] a = Add (z, m) [p] p = Softmax <axis = -1> (a) [y] y = MatMul (p, v) }""",
    23,
)
SPLIT_CONV = Form(
    "ASplitConv2dConcatPass",
    """agraph (float[N,6,5,5] x) => (float[N,a,b,c] y)
    <float[4,3,3,3] W1, float[4] B1, float[4,3,3,3] W2, float[4] B2> {
    [i] p, q = Split <axis = 1, num_outputs = 2> (x) [s] s = Conv (p, W1, B1) [t] t = Conv (q, W2, B2)
    [y] y = Concat <axis = 1> (s, t) }""",
)
CONV_CONCAT = Form(
    "ConvConcatFusionPass",
    """agraph (float[N,3,6,6] x) => (float[d,e,f,g] y) <float[4,3,3,3] V, float[4] A, float[2,3,3,3] W> {
    [a] a = Conv (x, V, A) [b] b = Conv (x, W) [y] y = Concat <axis = 1> (a, b) }""",
)
SKIP_NORM = Form(
    "AddLayerNormFusionPass",
    """agraph (float[B,S,4] x, float[B,S,4] k) => (float[a,b,c] y, float[d,e,f] z) <float[4] g, float[4] o> {
    [s] s = Add (x, k) [y] y = LayerNormalization (s, g, o) [z] z = Neg (s) }""",
)
SHUFFLE = Form(
    "DepthToSpaceFusionPass",
    """agraph (float[2,12,4,5] x) => (float[A,B,C,D] y) <int64[6] s = {2, 3, 2, 2, 4, 5}, int64[4] t = {2, 3, 8, 10}> {
    [a] a = Reshape (x, s) [b] b = Transpose <perm = [0, 1, 4, 2, 5, 3]> (a) [y] y = Reshape (b, t) }""",
)
ROTARY = Form(
    "RotaryEmbeddingFusionPass",
    """agraph (float[B,2,S,4] x, float[1,S,2] f) => (float[B,2,S,4] y) <int64[1] one = {1}, int64[2] two = {2, 2}> {
    [ff] ff = Concat <axis = -1> (f, f) [c3] c3 = Cos (ff) [s3] s3 = Sin (ff) [c] c = Unsqueeze (c3, one)
    [w] w = Unsqueeze (s3, one) [i] l, h = Split <axis = 3> (x, two) [n] n = Neg (h)
    [r] r = Concat <axis = -1> (n, l) [a] a = Mul (x, c) [b] b = Mul (r, w) [y] y = Add (a, b) }""",
    23,
)
GROUPED = Form(
    "GroupQueryAttentionFusionPass",
    """agraph (float[B,S,32] q, float[B,S,16] k, float[B,S,16] v) => (float[B,S,32] y)
    <float c = {0.5}, int64[1] two = {2}, int64[4] heads = {0, 0, 4, 8}, int64[4] few = {0, 0, 2, 8},
    int64[5] wide = {1, 1, 2, 1, 1}, int64[4] back = {0, 4, -1, 8}, int64[3] merged = {0, 0, 32}> {
    [r] r = Reshape (q, heads) [a] a = Transpose <perm = [0, 2, 1, 3]> (r) [u] u = Reshape (k, few)
    [i] i = Transpose <perm = [0, 2, 1, 3]> (u) [i1] i1 = Unsqueeze (i, two) [i2] i2 = Expand (i1, wide)
    [i3] i3 = Reshape (i2, back) [b] b = Transpose <perm = [0, 1, 3, 2]> (i3) [w] w = Reshape (v, few)
    [j] j = Transpose <perm = [0, 2, 1, 3]> (w) [j1] j1 = Unsqueeze (j, two) [j2] j2 = Expand (j1, wide)
    [d] d = Reshape (j2, back) [s] s = MatMul (a, b) [z] z = Mul (s, c) [p] p = Softmax <axis = -1> (z)
    [o] o = MatMul (p, d) [h] h = Transpose <perm = [0, 2, 1, 3]> (o) [y] y = Reshape (h, merged) }""",
)
BIAS_GELU = Form(
    "BiasGeluFusionPass",
    """agraph (float[N,4] u) => (float[N,4] y)
    <float half = {0.5}, float one = {1}, float root = {1.41421356}, float[4] b> {
    [x] x = Add (u, b) [d] d = Div (x, root) [e] e = Erf (d) [a] a = Add (e, one) [h] h = Mul (a, x)
    [y] y = Mul (h, half) }""",
)
SIGMOID = Form(
    "SwishFusionPass",
    """agraph (float[N,4] x) => (float[N,4] y) <float one = {1}> {
    [n] n = Neg (x) [e] e = Exp (n) [a] a = Add (e, one) [y] y = Div (one, a) }""",
)
L2 = Form(
    "L2NormFusionPass",
    """agraph (float[N,4] x) => (float[N,4] y) <int64[1] ax = {-1}, float two = {2}> {
    [s] s = Pow (x, two) [t] t = ReduceSum (s, ax) [r] r = Sqrt (t) [y] y = Div (x, r) }""",
)
FAST_GELU = Form(
    "FastGeluFusionPass", "agraph (float[N,4] x) => (float[N,4] y) { [y] y = Gelu (x) }", 20
)
CONV_RELU = Form(
    "TbeConvElemwiseFusionPass",
    """agraph (float[N,3,6,6] x, bool w) => (float[a,b,c,d] z) <float[4,3,3,3] W> {
    z = If (w) <then_branch = one () => (float[a,b,c,d] y) { [c] c = Conv (x, W) [y] y = Relu (c) },
    else_branch = two () => (float[a,b,c,d] y) { y = Conv (x, W) }> }""",
)
CAST = Form(
    "CastRemovePass",
    "agraph (float[N,4] x) => (float[N,4] y) { [c] c = Cast <to = 1> (x) [y] y = Neg (c) }",
)
SPLITS = Form(
    "ZSplitVDFusionPass",
    """agraph (float[6,4] x) => (float[2,4] y, float[a,4] p, float[b,4] q) <int64[2] s = {2, 4}, int64[2] t = {1, 3}> {
    [o] y, w = Split <axis = 0> (x, s) [i] p, q = Split <axis = 0> (w, t) }""",
)
SLICES = Form(
    "ZSplitVDFusionPassV2",
    """agraph (float[6,4] x) => (float[a,4] y, float[b,4] z)
    <int64[1] zero = {0}, int64[1] two = {2}, int64[1] six = {6}, int64[1] three = {3}> {
    [y] y = Slice (x, zero, two, zero) [z] z = Slice (x, two, six, zero) }""",
)
GATHER = Form(
    "UpstreamGatherPass",
    """agraph (float[8,128,256] x) => (float[8,256] y) <float[256] c, int64 first = {0}> {
    [a] a = Add (x, c) [e] e = Exp (a) [y] y = Gather <axis = 1> (e, first) }""",
)
PRODUCT_SPLIT = Form(
    "InferenceMatmulSplitFusionPass",
    """agraph (float[N,3] x) => (float[N,2] y, float[N,2] z) <float[3,4] W> {
    [p] p = MatMul (x, W) [y] y, z = Split <axis = 1, num_outputs = 2> (p) }""",
)
TURNED = Form(
    "TransOpSymmetryEliminationPass",
    """agraph (float[2,3,4] x) => (float[2,3,4] y) { [a] a = Transpose <perm = [1, 0, 2]> (x) [e] e = Neg (a)
    [y] y = Transpose <perm = [1, 0, 2]> (e) }""",
)
FORMS = (
    SPLITS, SLICES, GATHER, PRODUCT_SPLIT, TURNED,
    GELU, LAYER_NORM, SOFTMAX, CONV_BN, MATMUL_ADD, ATTENTION, SPLIT_CONV, CONV_CONCAT, SKIP_NORM, SHUFFLE, ROTARY,
    GROUPED, BIAS_GELU, SIGMOID, L2, FAST_GELU, CONV_RELU, CAST,
)  # fmt: skip


FUNCTION = """
<domain: "fusionc.test", opset_import: ["" : 18]> f <to> (x) => (y) { [c] c = Cast <to: int = @to> (x) y = Neg (c) }"""


@dataclass(frozen=True)
class Miss:
    """A form with `old` replaced by `new`, and the first reason why it does not fit."""

    form: Form
    old: str
    new: str
    reason: str
    opset: int = 0


UNMET = "a condition of the pattern does not hold"
MISSES = [
    # a constant of another value, and what is no constant
    Miss(
        GELU,
        "root = {1.41421356}",
        "root = {1.43}",
        "Div ‹d›: second operand ‹root› is 1.43, not 1.4142135623730951",
    ),
    Miss(
        GELU, "half = {0.5}", "half = {0.505}", "Mul ‹h›: second operand ‹half› is 0.505, not 0.5"
    ),
    Miss(GELU, "one = {1}", "one = {2}", "Add ‹a›: second operand ‹one› is 2.0, not 1.0"),
    Miss(
        GELU,
        "float half = {0.5}",
        "float[2] half = {0.5, 0.5}",
        "Mul ‹h›: second operand ‹half› has the shape [2], not the one element 0.5",
    ),
    Miss(
        GELU,
        "(float[N,4] x)",
        "(float[N,4] x, float root)",
        "Div ‹d›: second operand ‹root› is not a constant: it is an input of the graph",
    ),
    Miss(
        GELU,
        "Mul (x, half)",
        "Mul (x, x)",
        "Mul ‹h›: second operand ‹x› is not a constant: it is an input of the graph",
    ),
    Miss(LAYER_NORM, "two = {2}", "two = {3}", "Pow ‹s›: second operand ‹two› is 3.0, not 2.0"),
    Miss(
        CONV_BN,
        "(float[N,3,6,6] x)",
        "(float[N,3,6,6] x, float[4] m)",
        "BatchNormalization ‹y›: fourth input ‹m› is not a constant: it is an input of the graph",
    ),
    Miss(
        CONV_BN,
        "(float[N,3,6,6] x)",
        "(float[N,3,6,6] x, float[4] B)",
        "Conv ‹c›: third input ‹B› is not a constant: it is an input of the graph",
    ),
    Miss(
        SIGMOID,
        "Add (e, one)",
        "Add (e, x)",
        "Add ‹a›: second operand ‹x› is not a constant: it is an input of the graph",
    ),
    # another operator, or none
    Miss(GELU, "Erf (d)", "Tanh (d)", "Add ‹a›: first operand ‹e› is made by Tanh ‹e›, not by Erf"),
    Miss(
        GELU,
        "Add (e, one)",
        "Sub (e, one)",
        "Mul ‹y›: second operand ‹a› is made by Sub ‹a›, not by Add",
    ),
    Miss(
        LAYER_NORM,
        "Sqrt (e)",
        "Abs (e)",
        "Div ‹n›: second operand ‹r› is made by Abs ‹r›, not by Sqrt",
    ),
    Miss(
        SOFTMAX, "Exp (d)", "Abs (d)", "Div ‹y›: first operand ‹e› is made by Abs ‹e›, not by Exp"
    ),
    Miss(
        SOFTMAX,
        "e = Exp (d)",
        "e = Exp (x)",
        "Exp ‹e›: first input ‹x› is an input of the graph, not made by Sub",
    ),
    Miss(
        CONV_BN,
        "BatchNormalization (c,",
        "BatchNormalization (x,",
        "BatchNormalization ‹y›: first input ‹x› is an input of the graph, not made by Conv",
    ),
    Miss(
        CONV_BN,
        "[y] y = BatchNormalization (c,",
        "[k] k = Relu (c) [y] y = BatchNormalization (k,",
        "BatchNormalization ‹y›: first input ‹k› is made by Relu ‹k›, not by Conv",
    ),
    Miss(
        ATTENTION,
        "Softmax <axis = -1> (a)",
        "Sigmoid (a)",
        "MatMul ‹y›: first operand ‹p› is made by Sigmoid ‹p›, not by Where or Softmax",
    ),
    Miss(SIGMOID, "Neg (x)", "Abs (x)", "Exp ‹e›: first input ‹n› is made by Abs ‹n›, not by Neg"),
    # another value, or another node, than in the other place
    Miss(
        GELU,
        "Mul (x, half)",
        "Mul (e, half)",
        "Div ‹d›: first operand ‹x› is not ‹e›: the pattern has the same value in both places",
    ),
    Miss(
        LAYER_NORM,
        "Sub (x, u)",
        "Sub (u, x)",
        "Sub ‹d›: second operand ‹x› is an input of the graph, not made by ReduceMean or GlobalAveragePool",
    ),
    Miss(
        SOFTMAX,
        "[m] m = ReduceMax (x, ax)",
        "[w] w = Neg (x) [m] m = ReduceMax (w, ax)",
        "ReduceMax ‹m›: first input ‹w› is not ‹x›: the pattern has the same value in both places",
    ),
    Miss(
        ROTARY,
        "Mul (x, c)",
        "Mul (r, c)",
        "Split ‹i›: first input ‹x› is not ‹r›: the pattern has the same value in both places",
    ),
    Miss(
        L2,
        "Div (x, r)",
        "Div (s, r)",
        "Pow ‹s›: first operand ‹x› is not ‹s›: the pattern has the same value in both places",
    ),
    # attributes, numbers of inputs, outputs of an operator
    Miss(
        SHUFFLE,
        "perm = [0, 1, 4, 2, 5, 3]",
        "perm = [0, 1, 4, 3, 5, 2]",
        "Transpose ‹b›: attribute perm is [0, 1, 4, 3, 5, 2], not [0, 3, 4, 1, 5, 2]",
    ),
    Miss(
        FAST_GELU,
        "Gelu (x)",
        'Gelu <approximate = "tanh"> (x)',
        'Gelu ‹y›: attribute approximate is "tanh", not "none"',
    ),
    Miss(ROTARY, "(n, l)", "(n, l, l)", "Concat ‹r›: has 3 inputs, not 2"),
    Miss(
        ROTARY,
        "Neg (h)",
        "Neg (l)",
        "Neg ‹n›: first input ‹l› is the first output of Split ‹i›, not the second",
    ),
    Miss(
        SKIP_NORM,
        "s = Add (x, k)",
        "s = Mul (x, k)",
        "LayerNormalization ‹y›: first input ‹s› is made by Mul ‹s›, not by Add",
    ),
    # in subgraphs and functions
    Miss(
        CONV_RELU,
        "z = If (w) <then_branch = one () => (float[a,b,c,d] y) { [c] c = Conv (x, W)",
        "[c] c = Conv (x, W) z = If (w) <then_branch = one () => (float[a,b,c,d] y) {",
        "Relu ‹y›: first input ‹c› is made outside of this subgraph, by Conv ‹c›",
    ),
    Miss(
        CAST,
        "c = Cast <to = 1> (x) [y] y = Neg (c) }",
        "y = fusionc.test.f <to = 1> (x) }" + FUNCTION,
        "Cast ‹c›: its attributes are parameters of the function that holds it",
    ),
    # one of several inputs
    Miss(
        SPLIT_CONV,
        "t = Conv (q, W2, B2)",
        "t = Relu (q)",
        "Concat ‹y›: second input ‹t› is made by Relu ‹t›, not by Conv",
    ),
    Miss(
        SPLIT_CONV,
        "(float[N,6,5,5] x)",
        "(float[N,6,5,5] x, float[4,3,3,3] W2)",
        "Conv ‹t›: second input ‹W2› is not a constant: it is an input of the graph",
    ),
    Miss(
        CONV_CONCAT,
        "b = Conv (x, W)",
        "b = MaxPool <kernel_shape = [3, 3]> (x)",
        "Concat ‹y›: second input ‹b› is made by MaxPool ‹b›, not by Conv",
    ),
    Miss(
        SPLIT_CONV,
        "[s] s = Conv (p,",
        "[j] k, j = Split <axis = 1, num_outputs = 2> (x) [s] s = Conv (k,",
        (
            "Conv ‹t›: first input ‹q› is made by Split ‹i›: the pattern has one and the same "
            "Split in several places"
        ),
    ),
    # a condition of the pattern besides its formula
    Miss(
        SPLIT_CONV,
        "s = Conv (p,",
        "s = Conv (q,",
        f"Concat ‹y›: {UNMET}: one Conv reads each output of the Split, in order",
    ),
    Miss(
        CONV_CONCAT,
        "b = Conv (x, W)",
        "z = Neg (x) [b] b = Conv (z, W)",
        f"Concat ‹y›: {UNMET}: the Convs read one value and differ only in their weights",
    ),
    Miss(
        CONV_CONCAT,
        "(float[N,3,6,6] x)",
        "(float[N,3,6,6] x, float[2,3,3,3] W)",
        f"Concat ‹y›: {UNMET}: the Convs are ungrouped and have constant weights",
    ),
    Miss(
        GROUPED,
        "j2 = Expand",
        "j2 = Mul",
        f"Reshape ‹y›: {UNMET}: several heads of the query share a key: Unsqueeze, Expand "
        "and Reshape repeat key and value, or the heads of a single query are in groups",
    ),
    # of several patterns, the one that gets furthest
    Miss(
        BIAS_GELU,
        "[h] h = Mul (a, x)",
        "[t] t = Tan (x) [h] h = Mul (a, t)",
        "Mul ‹h›: second operand ‹t› is made by Tan ‹t›, not by Add",
    ),
    # candidates of passes that search by themselves
    Miss(
        SPLITS,
        "Split <axis = 0> (w, t)",
        "Split <axis = 0> (x, t)",
        "Split ‹o›: the input is not an output of a Split",
    ),
    Miss(
        SPLITS,
        "p, q = Split <axis = 0>",
        "p, q = Split <axis = 1>",
        "Split ‹o›: the axes of the two operators differ",
    ),
    Miss(
        SLICES,
        "(x, two, six, zero)",
        "(x, three, six, zero)",
        "Slice ‹y›: the Slices of the value overlap or leave a gap",
    ),
    Miss(
        SLICES,
        "Slice (x, two, six, zero)",
        "Neg (x)",
        "Slice ‹y›: no other Slice cuts the same value along the same axis",
    ),
    Miss(
        GATHER,
        "[e] e = Exp (a)",
        "[e] e = CumSum (a, first)",
        "Gather ‹y›: CumSum is not known to compute each row of its result from one row of its inputs",
    ),
    Miss(
        GATHER,
        "(float[8,256] y)",
        "(float[8,256] y, float[8,128,256] e)",
        "Gather ‹y›: its input is an output of the graph",
    ),
    Miss(GATHER, "[y] y =", "[z] z = Neg (e) [y] y =", "Gather ‹y›: its input is used elsewhere"),
    Miss(
        GATHER,
        "(float[8,128,256] x)",
        "(float[8,1,256] x)",
        "Gather ‹y›: the number of selected rows is 0, or more than half of all rows",
    ),
    Miss(
        PRODUCT_SPLIT,
        "MatMul (x, W)",
        "Gelu (x)",
        "Split ‹y›: its input is neither a product nor the sum of a product and a constant",
    ),
    Miss(PRODUCT_SPLIT, "axis = 1", "axis = 0", "Split ‹y›: the sizes of the pieces are unknown"),
    # interior values
    Miss(
        GELU,
        "(float[N,4] y)",
        "(float[N,4] y, float[N,4] e)",
        "Mul ‹y›: interior value ‹e› is an output of the graph",
    ),
    Miss(
        GELU,
        "[y] y =",
        "[k] k = Relu (a) [y] y =",
        "Mul ‹y›: interior value ‹a› is used by Relu ‹k›",
    ),
    Miss(
        CONV_BN,
        "(float[N,4,4,4] y)",
        "(float[N,4,4,4] y, float[N,4,4,4] c)",
        "BatchNormalization ‹y›: interior value ‹c› is an output of the graph",
    ),
    Miss(
        MATMUL_ADD,
        "[y] y = Add (p, B)",
        "[k] k = Relu (p) [l] l = Tanh (p) [y] y = Add (p, B)",
        "Add ‹y›: interior value ‹p› is used by Relu ‹k› and 1 more",
    ),
    # what the rewrite and the engine refuse, and the opset
    Miss(
        GELU, "", "", "Mul ‹y›: opset 17 has no Gelu: 17 < 20, --target_opset 20 would do", opset=17
    ),
    Miss(
        ATTENTION,
        "",
        "",
        "MatMul ‹y›: opset 22 has no Attention: 22 < 23, --target_opset 23 would do",
        opset=22,
    ),
    Miss(ATTENTION, "axis = -1", "axis = 1", "MatMul ‹y›: Softmax is not over the keys"),
    Miss(
        SHUFFLE,
        "{2, 3, 8, 10}",
        "{2, 3, 10, 8}",
        "Reshape ‹y›: the shapes are not known to be those of blocks",
    ),
    Miss(
        MATMUL_ADD,
        "float[4] B",
        "float[1,1,4] B",
        "Add ‹y›: the addend does not fit into the product",
    ),
    Miss(GELU, "float one", "float[1,1,1] one", "Mul ‹y›: the shape would change"),
    Miss(
        SKIP_NORM,
        "float[B,S,4] k",
        "float[4] k",
        "LayerNormalization ‹y›: the shapes are not known to be equal",
    ),
]


def first_reason(form: Form, graph: str, opset: int) -> str:
    """What is said first of a graph, which says the names of nodes in brackets, of a pass that does
    not fire there.
    """
    model = typed_model(parse(graph, opset), ".")
    reasons = reasons_of(list(places_of(model, pass_of(form.pass_name))))
    return reasons[0].text


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.pass_name)
def test_the_form_itself_fires(form: Form) -> None:
    places = list(
        places_of(typed_model(parse(form.graph, form.opset), "."), pass_of(form.pass_name))
    )
    assert "" in [place.reason for place in places]


@pytest.mark.parametrize(
    "miss", MISSES, ids=lambda miss: f"{miss.form.pass_name}: {miss.new or miss.opset}"
)
def test_what_does_not_fit_is_the_first_reason(miss: Miss) -> None:
    assert miss.old in miss.form.graph
    graph = miss.form.graph.replace(miss.old, miss.new)
    assert first_reason(miss.form, graph, miss.opset or miss.form.opset) == miss.reason
