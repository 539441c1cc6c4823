"""Small models of every operator that has changed since opset 7: a model for each of its forms, with
the opsets of this form.
"""

from __future__ import annotations

from collections.abc import Iterator

NEWEST = 99
Model = tuple[
    str, str, int, int
]  # its name, its text, and the first and the last opset of this form
RANDOM_OR_OPTIONAL = [
    "Bernoulli",
    "Multinomial",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
]
# Models that cannot be raised to the newest opset, each with the reason and the newest possible
# opset.
REFUSED = {
    "Dropout, mask": ("the mask of Dropout is false before opset 12, and true from then on", 11),
    "GlobalLpPool": ("onnxruntime has no kernel for GlobalLpPool of opset 22", 21),
    "MaxRoiPool": ("onnxruntime has no kernel for MaxRoiPool of opset 22", 21),
    "MeanVarianceNormalization": (
        "onnx cannot raise the model from opset .*op_type:MeanVarianceNormalization",
        12,
    ),
    "Resize, up and down": ("Resize of opset 10 selects the nearest element in another way", 10),
    "RoiAlign": ("onnxruntime has no kernel for RoiAlign of opset 22", 21),
    "Scan, batched": ("Scan of opset 8 has a batch axis, newer versions do not", 8),
}

_UNARY = {
    7: "Abs Acos Asin Atan Ceil Cos Elu Exp Floor HardSigmoid Hardmax Identity LeakyRelu Log LogSoftmax LpNormalization "
    "Neg Reciprocal Relu Selu Sigmoid Sin Softmax Softplus Softsign Sqrt Tan Tanh",
    9: "Acosh Asinh Atanh Cosh Erf Shrink Sign Sinh",
    10: "ThresholdedRelu",
    11: "Round",
    12: "Celu",
    14: "HardSwish Trilu",
    18: "Mish",
    20: "Gelu",
}
_BINARY = {
    "Add": "float",
    "Sub": "float",
    "Mul": "float",
    "Div": "float",
    "PRelu": "float",
    "Pow": "float",
}
_COMPARISON = {"Greater": 7, "Less": 7, "Equal": 11, "GreaterOrEqual": 12, "LessOrEqual": 12}
_VARIADIC = ("Max", "Min", "Mean", "Sum")
_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
_X = "float[2,3,4] x"
_SAME = f"({_X}) => (float[2,3,4] y)"
_BODY = "body: graph = b (float[2] t, float[2] v) => (float[2] u, float[2] w) { u = Add (t, v) w = Softmax <axis = 0> (u) }"
_IMAGE = "float[1,4,6,6] x"

_OTHERS: list[Model] = [
    ("ArgMax", f"({_X}) => (int64[2,1,4] y) {{ y = ArgMax <axis = 1> (x) }}", 7, NEWEST),
    ("ArgMin", f"({_X}) => (int64[2,4] y) {{ y = ArgMin <axis = 1, keepdims = 0> (x) }}", 7, NEWEST),
    ("AveragePool", f"({_IMAGE}) => (float[1,4,3,3] y) {{ y = AveragePool <kernel_shape = [2,2], strides = [2,2]> (x) }}", 7, NEWEST),
    ("BatchNormalization", f"({_IMAGE}) => (float[1,4,6,6] y) <float[4] s, float[4] b, float[4] m, float[4] v> {{ y = BatchNormalization (x, s, b, m, v) }}", 7, NEWEST),
    ("BatchNormalization, spatial", f"({_IMAGE}) => (float[1,4,6,6] y) <float[4] s, float[4] b, float[4] m, float[4] v> {{ y = BatchNormalization <spatial = 1, epsilon = 0.01> (x, s, b, m, v) }}", 7, 8),
    ("BitShift", "(uint8[4] x) => (uint8[4] y) { y = BitShift <direction = \"LEFT\"> (x, x) }", 11, NEWEST),
    ("Cast", f"({_X}) => (int64[2,3,4] y) {{ y = Cast <to = 7> (x) }}", 7, NEWEST),
    ("CastLike", f"({_X}, int64[1] k) => (int64[2,3,4] y) {{ y = CastLike (x, k) }}", 15, NEWEST),
    ("Clip, attributes", f"{_SAME} {{ y = Clip <min = 0.1, max = 0.5> (x) }}", 7, 10),
    ("Clip, no bounds", f"{_SAME} {{ y = Clip (x) }}", 7, NEWEST),
    ("Clip", f"{_SAME} <float low = {{0.1}}> {{ y = Clip (x, low) }}", 11, NEWEST),
    ("Compress", f"({_X}) => (float[N] y) <bool[3] k = {{1,0,1}}> {{ y = Compress (x, k) }}", 9, NEWEST),
    ("Concat", f"({_X}) => (float[2,6,4] y) {{ y = Concat <axis = 1> (x, x) }}", 7, NEWEST),
    ("Constant", f"{_SAME} {{ k = Constant <value = float[1] {{2}}> () y = Mul (x, k) }}", 7, NEWEST),
    ("ConstantOfShape", "(int64[2] n) => (float[A,B] y) { y = ConstantOfShape <value = float[1] {2}> (n) }", 9, NEWEST),
    ("Conv", f"({_IMAGE}) => (float[1,2,4,4] y) <float[2,4,3,3] W> {{ y = Conv (x, W) }}", 7, NEWEST),
    ("ConvTranspose", f"({_IMAGE}) => (float[1,2,8,8] y) <float[4,2,3,3] W> {{ y = ConvTranspose (x, W) }}", 7, NEWEST),
    ("CumSum", f"{_SAME} <int64 k = {{1}}> {{ y = CumSum (x, k) }}", 11, NEWEST),
    ("DepthToSpace", f"({_IMAGE}) => (float[1,1,12,12] y) {{ y = DepthToSpace <blocksize = 2> (x) }}", 7, NEWEST),
    ("DepthToSpace, CRD", f"({_IMAGE}) => (float[1,1,12,12] y) {{ y = DepthToSpace <blocksize = 2, mode = \"CRD\"> (x) }}", 11, NEWEST),
    ("DequantizeLinear", "(uint8[2,3] x) => (float[2,3] y) <float s = {0.5}, uint8 z = {3}> { y = DequantizeLinear (x, s, z) }", 10, NEWEST),
    ("DFT", "(float[1,8,1] x) => (float[1,8,2] y) { y = DFT <axis = 1> (x) }", 17, 19),
    ("Dropout, ratio", f"{_SAME} {{ y = Dropout <ratio = 0.3> (x) }}", 7, 11),
    ("Dropout", f"{_SAME} <float r = {{0.3}}> {{ y = Dropout (x, r) }}", 12, NEWEST),
    ("DynamicQuantizeLinear", f"({_X}) => (uint8[2,3,4] y, float s, uint8 z) {{ y, s, z = DynamicQuantizeLinear (x) }}", 11, NEWEST),
    ("Einsum", f"({_X}) => (float[3,2,4] y) {{ y = Einsum <equation = \"abc->bac\"> (x) }}", 12, NEWEST),
    ("Expand", f"({_X}) => (float[5,2,3,4] y) <int64[4] n = {{5,2,3,4}}> {{ y = Expand (x, n) }}", 8, NEWEST),
    ("EyeLike", "(float[3,4] x) => (float[3,4] y) { y = EyeLike <k = 1> (x) }", 9, NEWEST),
    ("Flatten", f"({_X}) => (float[2,12] y) {{ y = Flatten (x) }}", 7, NEWEST),
    ("GRU", "(float[5,2,3] x) => (float[5,1,2,4] y) <float[1,12,3] W, float[1,12,4] R> { y = GRU <hidden_size = 4> (x, W, R) }", 7, NEWEST),
    ("Gather", f"({_X}) => (float[2,2,4] y) <int64[2] k = {{2,0}}> {{ y = Gather <axis = 1> (x, k) }}", 7, NEWEST),
    ("GatherElements", f"({_X}) => (float[2,1,4] y) <int64[2,1,4] k = {{0,1,2,0,1,2,0,1}}> {{ y = GatherElements <axis = 1> (x, k) }}", 11, NEWEST),
    ("GatherND", f"({_X}) => (float[1,4] y) <int64[1,2] k = {{1,2}}> {{ y = GatherND (x, k) }}", 11, NEWEST),
    ("Gemm", "(float[2,3] x) => (float[2,4] y) <float[3,4] W, float[4] b> { y = Gemm (x, W, b) }", 7, NEWEST),
    ("GlobalAveragePool", f"({_IMAGE}) => (float[1,4,1,1] y) {{ y = GlobalAveragePool (x) }}", 7, NEWEST),
    ("GlobalLpPool", f"({_IMAGE}) => (float[1,4,1,1] y) {{ y = GlobalLpPool (x) }}", 7, 21),
    ("GlobalMaxPool", f"({_IMAGE}) => (float[1,4,1,1] y) {{ y = GlobalMaxPool (x) }}", 7, NEWEST),
    ("GridSample", f"({_IMAGE}, float[1,3,3,2] g) => (float[1,4,3,3] y) {{ y = GridSample (x, g) }}", 16, NEWEST),
    ("GridSample, cubic", f"({_IMAGE}, float[1,3,3,2] g) => (float[1,4,3,3] y) {{ y = GridSample <mode = \"bicubic\"> (x, g) }}", 16, 19),
    ("GroupNormalization of groups", f"({_IMAGE}) => (float[1,4,6,6] y) <float[2] s, float[2] b> {{ y = GroupNormalization <num_groups = 2> (x, s, b) }}", 18, 20),
    ("GroupNormalization", f"({_IMAGE}) => (float[1,4,6,6] y) <float[4] s, float[4] b> {{ y = GroupNormalization <num_groups = 2> (x, s, b) }}", 21, NEWEST),
    ("If", f"({_X}, bool c) => (float[2,3,4] y) {{ y = If (c) <then_branch = t () => (float[2,3,4] p) {{ p = Softmax (x) }}, else_branch = e () => (float[2,3,4] r) {{ r = Clip (x) }}> }}", 7, NEWEST),
    ("InstanceNormalization", f"({_IMAGE}) => (float[1,4,6,6] y) <float[4] s, float[4] b> {{ y = InstanceNormalization (x, s, b) }}", 7, NEWEST),
    ("IsInf", f"({_X}) => (bool[2,3,4] y) {{ y = IsInf (x) }}", 10, NEWEST),
    ("IsNaN", f"({_X}) => (bool[2,3,4] y) {{ y = IsNaN (x) }}", 9, NEWEST),
    ("LRN", f"({_IMAGE}) => (float[1,4,6,6] y) {{ y = LRN <size = 3> (x) }}", 7, NEWEST),
    ("LSTM", "(float[5,2,3] x) => (float[5,1,2,4] y) <float[1,16,3] W, float[1,16,4] R> { y = LSTM <hidden_size = 4> (x, W, R) }", 7, NEWEST),
    ("LayerNormalization", f"{_SAME} <float[4] s> {{ y = LayerNormalization (x, s) }}", 17, NEWEST),
    ("Loop", f"({_X}) => (float[2,3,4] y) <int64 n = {{3}}, bool c = {{1}}> {{ y = Loop (n, c, x) <body = b (int64 i, bool d, float[2,3,4] v) => (bool d2, float[2,3,4] w) {{ d2 = Identity (d) w = Softmax (v) }}> }}", 7, NEWEST),
    ("LpPool", f"({_IMAGE}) => (float[1,4,5,5] y) {{ y = LpPool <kernel_shape = [2,2]> (x) }}", 7, NEWEST),
    ("MatMul", "(float[2,3] x) => (float[2,4] y) <float[3,4] W> { y = MatMul (x, W) }", 7, NEWEST),
    ("MaxPool", f"({_IMAGE}) => (float[1,4,5,5] y) {{ y = MaxPool <kernel_shape = [2,2]> (x) }}", 7, NEWEST),
    ("MaxPool, indices", f"({_IMAGE}) => (float[1,4,5,5] y, int64[1,4,5,5] z) {{ y, z = MaxPool <kernel_shape = [2,2]> (x) }}", 8, NEWEST),
    ("MaxRoiPool", f"({_IMAGE}) => (float[1,4,2,2] y) <float[1,5] r = {{0,0,0,3,3}}> {{ y = MaxRoiPool <pooled_shape = [2,2]> (x, r) }}", 7, 21),
    ("MeanVarianceNormalization", f"({_IMAGE}) => (float[1,4,6,6] y) {{ y = MeanVarianceNormalization (x) }}", 9, 12),
    ("Mod", "(int64[4] x) => (int64[4] y) <int64 k = {3}> { y = Mod (x, k) }", 10, NEWEST),
    ("NonMaxSuppression", "(float[1,6,4] b, float[1,1,6] s) => (int64[N,3] y) <int64 k = {3}> { y = NonMaxSuppression (b, s, k) }", 10, NEWEST),
    ("NonZero", f"({_X}) => (int64[3,N] y) {{ y = NonZero (x) }}", 9, NEWEST),
    ("NegativeLogLikelihoodLoss", "(float[3,5] x) => (float y) <int64[3] k = {1,0,4}> { y = NegativeLogLikelihoodLoss (x, k) }", 12, NEWEST),
    ("OneHot", "(int64[3] x) => (float[3,4] y) <int64 n = {4}, float[2] v = {0,1}> { y = OneHot (x, n, v) }", 9, NEWEST),
    ("Pad, attributes", f"({_X}) => (float[2,6,4] y) {{ y = Pad <pads = [0,1,0,0,2,0], value = 0.5> (x) }}", 7, 10),
    ("Pad", f"({_X}) => (float[2,6,4] y) <int64[6] p = {{0,1,0,0,2,0}}, float v = {{0.5}}> {{ y = Pad (x, p, v) }}", 11, NEWEST),
    ("QLinearConv", "(uint8[1,4,6,6] x) => (uint8[1,2,4,4] y) <float s = {0.5}, uint8 z = {3}, uint8[2,4,3,3] W> { y = QLinearConv (x, s, z, W, s, z, s, z) }", 10, NEWEST),
    ("QLinearMatMul", "(uint8[2,3] x) => (uint8[2,4] y) <float s = {0.5}, uint8 z = {3}, uint8[3,4] W> { y = QLinearMatMul (x, s, z, W, s, z, s, z) }", 10, NEWEST),
    ("QuantizeLinear", "(float[2,3] x) => (uint8[2,3] y) <float s = {0.5}, uint8 z = {3}> { y = QuantizeLinear (x, s, z) }", 10, NEWEST),
    ("RNN", "(float[5,2,3] x) => (float[5,1,2,4] y) <float[1,4,3] W, float[1,4,4] R> { y = RNN <hidden_size = 4> (x, W, R) }", 7, NEWEST),
    ("Range", "(int64 n) => (int64[N] y) <int64 z = {0}, int64 k = {2}> { y = Range (z, n, k) }", 11, NEWEST),
    ("Reshape", f"({_X}) => (float[6,4] y) <int64[2] n = {{-1,4}}> {{ y = Reshape (x, n) }}", 7, NEWEST),
    ("Resize, scales", f"({_IMAGE}) => (float[1,4,12,12] y) <float[4] k = {{1,1,2,2}}> {{ y = Resize (x, k) }}", 10, 10),
    ("Resize", f"({_IMAGE}) => (float[1,4,12,12] y) <float[0] r, float[4] k = {{1,1,2,2}}> {{ y = Resize (x, r, k) }}", 11, NEWEST),
    ("Resize, cubic", f"({_IMAGE}) => (float[1,4,9,9] y) <float[0] r, float[0] k, int64[4] n = {{1,4,9,9}}> {{ y = Resize <mode = \"cubic\"> (x, r, k, n) }}", 11, NEWEST),
    ("Resize, half a pixel", f"({_IMAGE}) => (float[1,4,9,9] y) <float[0] r, float[0] k, int64[4] n = {{1,4,9,9}}> {{ y = Resize <mode = \"linear\", coordinate_transformation_mode = \"tf_half_pixel_for_nn\"> (x, r, k, n) }}", 11, 12),
    ("ReverseSequence", "(float[4,3] x) => (float[4,3] y) <int64[3] n = {1,2,4}> { y = ReverseSequence (x, n) }", 10, NEWEST),
    ("RoiAlign", f"({_IMAGE}) => (float[1,4,1,1] y) <float[1,4] r = {{0,0,3,3}}, int64[1] k = {{0}}> {{ y = RoiAlign (x, r, k) }}", 10, 21),
    ("Scan, batched", f"(float[1,2] s, float[1,5,2] x) => (float[1,2] y, float[1,5,2] z) {{ y, z = Scan <num_scan_inputs: int = 1, {_BODY}> (\"\", s, x) }}", 8, 8),
    ("Scan", f"(float[2] s, float[5,2] x) => (float[2] y, float[5,2] z) {{ y, z = Scan <num_scan_inputs: int = 1, {_BODY}> (s, x) }}", 9, NEWEST),
    ("Scatter", f"{_SAME} <int64[2,1,4] k = {{0,1,2,0,1,2,0,1}}, float[2,1,4] v> {{ y = Scatter <axis = 1> (x, k, v) }}", 9, 10),
    ("ScatterElements", f"{_SAME} <int64[2,1,4] k = {{0,1,2,0,1,2,0,1}}, float[2,1,4] v> {{ y = ScatterElements <axis = 1> (x, k, v) }}", 11, NEWEST),
    ("ScatterND", f"{_SAME} <int64[1,1] k = {{1}}, float[1,3,4] v> {{ y = ScatterND (x, k, v) }}", 11, NEWEST),
    ("Shape", f"({_X}) => (int64[3] y) {{ y = Shape (x) }}", 7, NEWEST),
    ("Size", f"({_X}) => (int64 y) {{ y = Size (x) }}", 7, NEWEST),
    ("Slice, attributes", f"({_X}) => (float[2,2,3] y) {{ y = Slice <axes = [1,2], starts = [0,1], ends = [2,99]> (x) }}", 7, 9),
    ("Slice", f"({_X}) => (float[2,2,4] y) <int64[1] s = {{0}}, int64[1] e = {{2}}, int64[1] a = {{1}}> {{ y = Slice (x, s, e, a) }}", 10, NEWEST),
    ("Softmax, axis", f"{_SAME} {{ y = Softmax <axis = 1> (x) }}", 7, NEWEST),
    ("Softmax, last axis", f"{_SAME} {{ y = Softmax <axis = 2> (x) }}", 7, NEWEST),
    ("Softmax, dynamic", "(float[N,M,K] x) => (float[N,M,K] y) { y = Softmax (x) }", 7, NEWEST),
    ("Softmax, of another", f"{_SAME} {{ a = Relu (x) b = Softmax (a) c = LogSoftmax (b) y = Hardmax (c) }}", 7, NEWEST),
    ("SoftmaxCrossEntropyLoss", "(float[3,5] x) => (float y) <int64[3] k = {1,0,4}> { y = SoftmaxCrossEntropyLoss (x, k) }", 12, NEWEST),
    ("SpaceToDepth", f"({_IMAGE}) => (float[1,16,3,3] y) {{ y = SpaceToDepth <blocksize = 2> (x) }}", 7, NEWEST),
    ("Split, two", "(float[4,6] x) => (float[4,3] y, float[4,3] z) { y, z = Split <axis = 1> (x) }", 7, 17),
    ("Split, attribute", "(float[4,6] x) => (float[4,2] y, float[4,4] z) { y, z = Split <axis = 1, split = [2,4]> (x) }", 7, 12),
    ("Split, number", "(float[4,6] x) => (float[4,3] y, float[4,3] z) { y, z = Split <axis = 1, num_outputs = 2> (x) }", 18, NEWEST),
    ("Split", "(float[4,6] x) => (float[4,2] y, float[4,4] z) <int64[2] n = {2,4}> { y, z = Split <axis = 1> (x, n) }", 13, NEWEST),
    ("SplitToSequence", f"({_X}) => (float[2,1,4] y) <int64 k = {{1}}> {{ s = SplitToSequence <axis = 1> (x) y = SequenceAt (s, k) }}", 11, NEWEST),
    ("Squeeze, attribute", "(float[2,1,4] x) => (float[2,4] y) { y = Squeeze <axes = [1]> (x) }", 7, 12),
    ("Squeeze, all", "(float[2,1,4] x) => (float[2,4] y) { y = Squeeze (x) }", 7, NEWEST),
    ("Squeeze", "(float[2,1,4] x) => (float[2,4] y) <int64[1] a = {1}> { y = Squeeze (x, a) }", 13, NEWEST),
    ("Tile", "(float[2,3] x) => (float[2,6] y) <int64[2] n = {1,2}> { y = Tile (x, n) }", 7, NEWEST),
    ("TopK, attribute", f"({_X}) => (float[2,3,2] y, int64[2,3,2] z) {{ y, z = TopK <k = 2> (x) }}", 7, 9),
    ("TopK", f"({_X}) => (float[2,3,2] y, int64[2,3,2] z) <int64[1] k = {{2}}> {{ y, z = TopK (x, k) }}", 10, NEWEST),
    ("Transpose", f"({_X}) => (float[3,2,4] y) {{ y = Transpose <perm = [1,0,2]> (x) }}", 7, NEWEST),
    ("Unique", "(float[6] x) => (float[N] y) { y = Unique (x) }", 11, NEWEST),
    ("Unsqueeze, attribute", f"({_X}) => (float[2,1,3,4] y) {{ y = Unsqueeze <axes = [1]> (x) }}", 7, 12),
    ("Unsqueeze", f"({_X}) => (float[2,1,3,4] y) <int64[1] a = {{1}}> {{ y = Unsqueeze (x, a) }}", 13, NEWEST),
    ("Upsample, attribute", f"({_IMAGE}) => (float[1,4,12,12] y) {{ y = Upsample <scales = [1.0,1.0,2.0,2.0]> (x) }}", 7, 8),
    ("Upsample", f"({_IMAGE}) => (float[1,4,12,12] y) <float[4] k = {{1,1,2,2}}> {{ y = Upsample (x, k) }}", 9, 9),
    ("Where", f"({_X}, bool[3,1] c) => (float[2,3,4] y) {{ y = Where (c, x, x) }}", 9, NEWEST),
    ("Resize, linear scales", f"({_IMAGE}) => (float[1,4,12,12] y) <float[4] k = {{1,1,2,2}}> {{ y = Resize <mode = \"linear\"> (x, k) }}", 10, 10),
    ("Resize, linear", f"({_IMAGE}) => (float[1,4,12,12] y) <float[0] r, float[4] k = {{1,1,2,2}}> {{ y = Resize <mode = \"linear\", coordinate_transformation_mode = \"align_corners\"> (x, r, k) }}", 11, NEWEST),
    ("Resize, up", f"({_IMAGE}) => (float[1,4,9,9] y) <float[4] k = {{1,1,1.5,1.5}}> {{ y = Resize (x, k) }}", 10, 10),
    ("Resize, down", f"({_IMAGE}) => (float[1,4,3,3] y) <float[4] k = {{1,1,0.6,0.6}}> {{ y = Resize (x, k) }}", 10, 10),
    ("Resize, up and down", f"({_IMAGE}) => (float[1,4,9,3] y) <float[4] k = {{1,1,1.5,0.6}}> {{ y = Resize (x, k) }}", 10, 10),
    ("Upsample, linear attribute", f"({_IMAGE}) => (float[1,4,12,12] y) {{ y = Upsample <mode = \"linear\", scales = [1.0,1.0,2.0,2.0]> (x) }}", 7, 8),
    ("Upsample, linear", f"({_IMAGE}) => (float[1,4,12,12] y) <float[4] k = {{1,1,2,2}}> {{ y = Upsample <mode = \"linear\"> (x, k) }}", 9, 9),
    ("AveragePool, padded", f"({_IMAGE}) => (float[1,4,4,4] y) {{ y = AveragePool <kernel_shape = [2,2], strides = [2,2], pads = [1,1,1,1], count_include_pad = 1> (x) }}", 7, NEWEST),
    ("AveragePool, ceil_mode", f"({_IMAGE}) => (float[1,4,4,4] y) {{ y = AveragePool <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1], ceil_mode = 1, count_include_pad = 1> (x) }}", 10, NEWEST),
    ("MaxPool, ceil_mode", f"({_IMAGE}) => (float[1,4,3,3] y) {{ y = MaxPool <kernel_shape = [3,3], strides = [2,2], ceil_mode = 1> (x) }}", 10, NEWEST),
    ("MaxPool, same", f"({_IMAGE}) => (float[1,4,6,6] y) {{ y = MaxPool <kernel_shape = [3,3], auto_pad = \"SAME_UPPER\"> (x) }}", 7, NEWEST),
    ("LpPool, same", f"({_IMAGE}) => (float[1,4,6,6] y) {{ y = LpPool <kernel_shape = [3,3], p = 1, auto_pad = \"SAME_UPPER\"> (x) }}", 7, NEWEST),
    ("Cast, to text", "(int64[2,3] x) => (string[2,3] y) { y = Cast <to = 8> (x) }", 9, NEWEST),
    ("Clip, int64", "(int64[4] x) => (int64[4] y) <int64 low = {1}> { y = Clip (x, low) }", 12, NEWEST),
    ("DequantizeLinear, axis", "(uint8[2,3] x) => (float[2,3] y) <float[3] s, uint8[3] z = {3,1,2}> { y = DequantizeLinear <axis = 1> (x, s, z) }", 13, NEWEST),
    ("Dropout, mask", f"({_X}) => (float[2,3,4] y, bool[2,3,4] m) {{ y, m = Dropout <ratio = 0.3> (x) }}", 10, 11),
    ("Dropout, seen twice", f"({_X}) => (float[2,3,4] y) {{ a = Dropout <ratio = 0.3> (x) b = Dropout <ratio = 0.3> (a) y = Clip <min = 0.1, max = 0.5> (b) }}", 7, 10),
    ("Pad, reflect attributes", f"({_X}) => (float[2,6,4] y) {{ y = Pad <pads = [0,1,0,0,2,0], mode = \"reflect\"> (x) }}", 7, 10),
    ("Pad, edge", f"({_X}) => (float[2,6,4] y) <int64[6] p = {{0,1,0,0,2,0}}> {{ y = Pad <mode = \"edge\"> (x, p) }}", 11, NEWEST),
    ("ReduceMax, int32", "(int32[2,3] x) => (int32[2,1] y) { y = ReduceMax <axes = [1]> (x) }", 7, 17),
    ("ReduceSum, nothing", f"({_X}) => (float[2,3,4] y) <int64[0] a> {{ y = ReduceSum <noop_with_empty_axes = 1> (x, a) }}", 13, NEWEST),
    ("Reshape, allowzero", "(float[0,3] x) => (float[3,0] y) <int64[2] n = {3,0}> { y = Reshape <allowzero = 1> (x, n) }", 14, NEWEST),
    ("Shape, part", f"({_X}) => (int64[1] y) {{ y = Shape <start = 1, end = 2> (x) }}", 15, NEWEST),
    ("Gelu, tanh", f"{_SAME} {{ y = Gelu <approximate = \"tanh\"> (x) }}", 20, NEWEST),
    ("LogSoftmax, axis", f"{_SAME} {{ y = LogSoftmax <axis = 0> (x) }}", 7, NEWEST),
    ("Hardmax, axis", f"{_SAME} {{ y = Hardmax <axis = 2> (x) }}", 7, NEWEST),
    ("Softmax, in a Loop in an If", f"({_X}, bool c) => (float[2,3,4] y) <int64 n = {{2}}, bool d = {{1}}> {{ y = If (c) <then_branch = t () => (float[2,3,4] p) {{ p = Loop (n, d, x) <body = b (int64 i, bool g, float[2,3,4] v) => (bool h, float[2,3,4] w) {{ h = Identity (g) w = Softmax (v) }}> }}, else_branch = e () => (float[2,3,4] r) {{ r = Hardmax (x) }}> }}", 7, NEWEST),
    ("LSTM, all outputs", "(float[5,2,3] x, int32[2] n) => (float[5,2,2,4] y, float[2,2,4] h, float[2,2,4] c) <float[2,16,3] W, float[2,16,4] R, float[2,32] B> { y, h, c = LSTM <hidden_size = 4, direction = \"bidirectional\"> (x, W, R, B, n) }", 7, NEWEST),
    ("ScatterElements, add", f"{_SAME} <int64[2,1,4] k = {{0,0,1,0,1,2,0,1}}, float[2,1,4] v> {{ y = ScatterElements <axis = 1, reduction = \"add\"> (x, k, v) }}", 16, NEWEST),
    ("TopK, smallest", f"({_X}) => (float[2,2,4] y, int64[2,2,4] z) <int64[1] k = {{2}}> {{ y, z = TopK <axis = 1, largest = 0> (x, k) }}", 11, NEWEST),
    ("Attention", "(float[1,4,8] q) => (float[1,4,8] y) { y = Attention <q_num_heads = 2, kv_num_heads = 2> (q, q, q) }", 23, NEWEST),
    ("RMSNormalization", f"{_SAME} <float[4] s> {{ y = RMSNormalization (x, s) }}", 23, NEWEST),
    ("DFT, axis", "(float[1,8,1] x) => (float[1,8,2] y) <int64 a = {1}> { y = DFT (x, , a) }", 20, NEWEST),
    ("Det", "(float[2,3,3] x) => (float[2] y) { y = Det (x) }", 11, NEWEST),
    ("DeformConv", f"({_IMAGE}, float[1,18,4,4] o) => (float[1,2,4,4] y) <float[2,4,3,3] W> {{ y = DeformConv (x, W, o) }}", 19, NEWEST),
    ("MaxUnpool", "(float[1,1,2,2] x) => (float[1,1,4,4] y) <int64[1,1,2,2] k = {5,7,13,15}> { y = MaxUnpool <kernel_shape = [2,2], strides = [2,2]> (x, k) }", 9, NEWEST),
    ("STFT", "(float[1,16,1] x) => (float[1,3,8,2] y) <int64 s = {4}, float[8] w> { y = STFT (x, s, w) }", 17, NEWEST),
]  # fmt: skip


def models() -> Iterator[Model]:
    """Name, text without header, first and last opset."""
    for first, names in _UNARY.items():
        for op in names.split():
            shape = "float[3,4]" if op == "Trilu" else "float[2,3,4]"
            yield op, f"({shape} x) => ({shape} y) {{ y = {op} (x) }}", first, NEWEST
    for op in _BINARY:
        yield op, f"({_X}) => (float[2,3,4] y) <float[3,1] k> {{ y = {op} (x, k) }}", 7, NEWEST
    for op, first in _COMPARISON.items():
        yield op, f"({_X}) => (bool[2,3,4] y) <float[3,1] k> {{ y = {op} (x, k) }}", first, NEWEST
    for op in _VARIADIC:
        yield op, f"({_X}) => (float[2,3,4] y) <float[2,3,4] k> {{ y = {op} (x, k, x) }}", 7, NEWEST
    for op in (f"Reduce{kind}" for kind in _REDUCTIONS):
        yield f"{op}, all", f"({_X}) => (float y) {{ y = {op} <keepdims = 0> (x) }}", 7, NEWEST
        last = 12 if op == "ReduceSum" else 17
        yield (
            f"{op}, attribute",
            f"({_X}) => (float[2,1,4] y) {{ y = {op} <axes = [1]> (x) }}",
            7,
            last,
        )
        yield (
            op,
            f"({_X}) => (float[2,1,4] y) <int64[1] a = {{1}}> {{ y = {op} (x, a) }}",
            last + 1,
            NEWEST,
        )
    yield from _OTHERS
