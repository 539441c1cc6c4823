from harness import Fires, Stays, seen_by_subgraph, tables

WEIGHTS = "float[3,4,3,3] W, float[4] B, float[4] s, float[4] o, float[4] m, float[4] v"


def batchnorm_of(
    conv: str, weights: str = WEIGHTS, x: str = "float[N,3,8,8] x", bn: str = "BatchNormalization"
) -> str:
    rank = x.count(",")
    return f"""agraph ({x}) => (float[{",".join("abcdef"[: rank + 1])}] y) <{weights}> {{
        c = {conv}
        y = {bn} (c, s, o, m, v)
    }}"""


STAYS = [
    Stays(
        "training mode",
        batchnorm_of("ConvTranspose (x, W)").replace(
            "y = BatchNormalization (c, s, o, m, v)",
            "y, rm, rv = BatchNormalization <training_mode = 1> (c, s, o, m, v)",
        ),
        "the BatchNormalization is in training mode",
    ),
    Stays(
        "a variance of zero without epsilon",
        batchnorm_of("ConvTranspose (x, W)", bn="BatchNormalization <epsilon = 0.0>").replace(
            "] v", "] v = {0,1,1,1}"
        ),
        "the factor is not finite",
    ),
    Stays(
        "the convolution is used elsewhere",
        batchnorm_of("ConvTranspose (x, W)")
        .replace("y = B", "z = Relu (c) y = B")
        .replace("] y)", "] y, float[N,4,10,10] z)"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a subgraph uses the convolution",
        seen_by_subgraph(batchnorm_of("ConvTranspose (x, W)"), "c", "float[N,4,10,10]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a statistic comes from outside",
        batchnorm_of("ConvTranspose (x, W)")
        .replace("x) =>", "x, float[4] s) =>")
        .replace(", float[4] s,", ","),
        None,
    ),
    Stays(
        "an ordinary convolution",
        batchnorm_of("Conv (x, W)", WEIGHTS.replace("3,4,3,3", "4,3,3,3")),
        None,
    ),
]

FIRES = [
    Fires(
        "ConvTranspose",
        batchnorm_of("ConvTranspose (x, W, B)"),
        ["ConvTranspose"],
    ),
    Fires(
        "grouped ConvTranspose",
        batchnorm_of(
            "ConvTranspose <group = 2> (x, W)",
            WEIGHTS.replace("3,4,3,3", "6,2,3,3"),
            "float[N,6,5,5] x",
        ),
        ["ConvTranspose"],
    ),
    Fires(
        "ConvTranspose with places that no kernel reaches",
        batchnorm_of(
            "ConvTranspose <strides = [3, 3], output_padding = [1, 2], pads = [1, 0, 0, 1]> (x, W)",
            WEIGHTS.replace("3,4,3,3", "3,4,2,2"),
        ),
        ["ConvTranspose"],
    ),
    Fires(
        "depthwise ConvTranspose",
        batchnorm_of(
            "ConvTranspose <group = 4> (x, W, B)",
            WEIGHTS.replace("3,4,3,3", "4,1,3,3"),
            "float[N,4,5,5] x",
        ),
        ["ConvTranspose"],
    ),
    Fires(
        "1-D ConvTranspose",
        batchnorm_of("ConvTranspose (x, W)", WEIGHTS.replace("3,4,3,3", "3,4,3"), "float[N,3,5] x"),
        ["ConvTranspose"],
    ),
]

test_stays, test_fires = tables(
    "Conv2DTransposeBatchnormFusionPass", STAYS, FIRES, in_functions="never"
)
