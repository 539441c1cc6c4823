from harness import Fires, Stays, operators, optimize, parse, pass_of, seen_by_subgraph, tables

WEIGHTS = "float[4,3,3,3] W, float[4] B, float[4] s, float[4] o, float[4] m, float[4] v"


def batchnorm_of(
    conv: str, weights: str = WEIGHTS, x: str = "float[N,3,8,8] x", bn: str = "BatchNormalization"
) -> str:
    rank = x.count(",")
    return f"""agraph ({x}) => (float[{",".join("abcdef"[: rank + 1])}] y) <{weights}> {{
        c = {conv}
        y = {bn} (c, s, o, m, v)
    }}"""


STATISTICS = "float[4] s, float[4] o, float[4] m, float[4] v"
SHARED = f"""agraph (float[N,3,8,8] x) => (float[N,4,6,6] y, float[N,4,6,6] z) <float[4,3,3,3] W, {STATISTICS}> {{
    c = Conv (x, W)
    y = BatchNormalization (c, s, o, m, v)
    z = Relu (c)
}}"""
OUTPUT = SHARED.replace("float[N,4,6,6] z", "float[N,4,6,6] c").replace("z = Relu (c)", "")
FROM_INPUT = (
    SHARED.replace("x) =>", "x, float[4] s) =>")
    .replace("W, float[4] s", "W")
    .replace("z = Relu (c)", "z = Neg (y)")
)

STAYS = [
    Stays(
        "a bias that is none",
        batchnorm_of("Conv (x, W, W)"),
        "the bias does not have exactly one number for each channel",
        valid=False,
    ),
    Stays(
        "a variance of zero without epsilon",
        batchnorm_of("Conv (x, W)", bn="BatchNormalization <epsilon = 0.0>").replace(
            "] v", "] v = {0,1,1,1}"
        ),
        "the factor is not finite",
    ),
    Stays("the convolution is used elsewhere", SHARED, "an interior value is used elsewhere"),
    Stays("the convolution is a graph output", OUTPUT, "an interior value is a graph output"),
    Stays("a statistic comes from outside", FROM_INPUT, None),
    Stays(
        "training mode",
        batchnorm_of("Conv (x, W)").replace(
            "y = BatchNormalization (c, s, o, m, v)",
            "y, rm, rv = BatchNormalization <training_mode = 1> (c, s, o, m, v)",
        ),
        "the BatchNormalization is in training mode",
    ),
    Stays(
        "the BatchNormalization has statistics for each activation",
        batchnorm_of(
            "Conv (x, W)",
            "float[4,3,3,3] W, float[4,6,6] s, float[4,6,6] o, float[4,6,6] m, float[4,6,6] v",
            bn="BatchNormalization <spatial = 0>",
        ),
        "the BatchNormalization has statistics for each activation",
        opset=7,
    ),
    Stays(
        "weights that float16 cannot hold",
        batchnorm_of(
            "Conv (x, W)",
            "float16[1,1,1,1] W = {31743}, float16[1] s = {31743}, float16[1] o, float16[1] m, float16[1] v",
            "float16[N,1,2,2] x",
        ).replace("(float[", "(float16["),
        "a constant would overflow in float16",
    ),
    Stays(
        "a subgraph uses the convolution",
        seen_by_subgraph(batchnorm_of("Conv (x, W)"), "c", "float[N,4,6,6]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "more than one output before opset 14",
        batchnorm_of("Conv (x, W)").replace("y = Batch", "y, m1, v1, m2, v2 = Batch"),
        "the BatchNormalization is in training mode",
        opset=9,
    ),
    Stays(
        "a default that the caller may override",
        "agraph (float[N,3,8,8] x, float[4] v = {1,2,3,4}) => (float[N,4,6,6] y) "
        "<float[4,3,3,3] W, float[4] s, float[4] o, float[4] m> "
        "{ c = Conv (x, W) y = BatchNormalization (c, s, o, m, v) }",
        None,
    ),
    Stays(
        "a bias from outside",
        "agraph (float[N,3,8,8] x, float[4] B) => (float[N,4,6,6] y) "
        "<float[4,3,3,3] W, float[4] s, float[4] o, float[4] m, float[4] v> "
        "{ c = Conv (x, W, B) y = BatchNormalization (c, s, o, m, v) }",
        None,
    ),
    Stays(
        "a variance below zero",
        batchnorm_of("Conv (x, W)").replace("] v", "] v = {1,1,-1,1}"),
        "the factor is not finite",
    ),
    Stays(  # 31743 are the bits of 65504, the largest number, and 2 those of 1.2e-7
        "weights that would vanish in float16",
        batchnorm_of("Conv (x, W)")
        .replace("float[", "float16[")
        .replace("] v", "] v = {31743,31743,31743,31743}")
        .replace("] s", "] s = {2,2,2,2}"),
        "the scaled weights are too small for their type",
    ),
    Stays(
        "an activation between them",
        batchnorm_of("Conv (x, W) d = Relu (c)").replace("(c, s", "(d, s"),
        None,
    ),
    Stays(
        "training mode, the statistics left out",
        batchnorm_of("Conv (x, W)", bn="BatchNormalization <training_mode = 1>"),
        "the BatchNormalization is in training mode",
        valid=False,
    ),
    Stays(
        "no is_test before opset 7",
        batchnorm_of("Conv (x, W)"),
        "the BatchNormalization is in training mode",
        opset=6,
    ),
    Stays(
        "statistics of another number of channels",
        batchnorm_of("Conv (x, W)").replace("float[4] m", "float[1] m"),
        "the statistics do not have exactly one number for each channel",
        valid=False,
    ),
]

FIRES = [
    Fires("without bias", batchnorm_of("Conv (x, W)"), ["Conv"]),
    Fires("with bias", batchnorm_of("Conv (x, W, B)"), ["Conv"]),
    Fires(
        "its own epsilon",
        batchnorm_of("Conv (x, W)", bn="BatchNormalization <epsilon = 0.5>"),
        ["Conv"],
    ),
    Fires(
        "1-D",
        batchnorm_of("Conv (x, W)", WEIGHTS.replace("4,3,3,3", "4,3,3"), "float[N,3,8] x"),
        ["Conv"],
    ),
    Fires(
        "3-D",
        batchnorm_of("Conv (x, W)", WEIGHTS.replace("4,3,3,3", "4,3,3,3,3"), "float[N,3,5,5,5] x"),
        ["Conv"],
    ),
    Fires(
        "grouped", batchnorm_of("Conv <group = 2> (x, W)", WEIGHTS, "float[N,6,8,8] x"), ["Conv"]
    ),
    Fires(
        "depthwise",
        batchnorm_of(
            "Conv <group = 4> (x, W)", WEIGHTS.replace("4,3,", "4,1,"), "float[N,4,8,8] x"
        ),
        ["Conv"],
    ),
    Fires(
        "float16",
        batchnorm_of("Conv (x, W)").replace("float[", "float16["),
        ["Conv"],
    ),
    Fires("opset 9, IR version 3", batchnorm_of("Conv (x, W)"), ["Conv"], opset=9, ir_version=3),
    Fires(
        "weights too large to be stored",
        """agraph (float[N,3,8,8] x) => (float[N,4,6,6] y)
           <int64[4] shape = {4,3,3,3}, float[4] s, float[4] o, float[4] m, float[4] v> {
            W = ConstantOfShape <value = float[1] {0.25}> (shape)
            c = Conv (x, W)
            y = BatchNormalization (c, s, o, m, v)
        }""",
        ["ConstantOfShape", "Mul", "Conv"],
    ),
    Fires(
        "training mode written out as 0",
        batchnorm_of("Conv (x, W)", bn="BatchNormalization <training_mode = 0>"),
        ["Conv"],
    ),
    Fires(
        "statistics wider than the weights",
        batchnorm_of(
            "Conv (x, W, B)",
            WEIGHTS.replace("float[4,", "float16[4,").replace("float[4] B", "float16[4] B"),
            "float16[N,3,8,8] x",
        ).replace("(float[", "(float16["),
        ["Conv"],
    ),
    Fires(
        "strides, pads and dilations",
        batchnorm_of("Conv <strides = [2, 1], pads = [1, 0, 2, 1], dilations = [1, 2]> (x, W, B)"),
        ["Conv"],
    ),
    Fires("auto_pad", batchnorm_of('Conv <auto_pad = "SAME_LOWER"> (x, W)'), ["Conv"]),
    Fires(
        "unknown height and width",
        batchnorm_of("Conv (x, W)", x="float[N,3,H,K] x"),
        ["Conv"],
        sizes={"H": 5, "K": 4},
    ),
    *[
        Fires(f"opset {opset}", batchnorm_of("Conv (x, W)"), ["Conv"], opset=opset)
        for opset in (7, 13, 14, 22)
    ],
]

test_stays, test_fires = tables("ConvBatchnormFusionPass", STAYS, FIRES, in_functions="never")


def test_is_test_before_opset_7() -> None:
    """onnxruntime has no kernel that old, so nothing is run."""
    model = parse(batchnorm_of("Conv (x, W)", bn="BatchNormalization <is_test = 1>"), opset=6)
    result, _ = optimize(model, [pass_of("ConvBatchnormFusionPass")])
    assert operators(result) == {"Conv": 1}
