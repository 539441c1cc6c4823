from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    conv: str = "Conv (n, W, B)",
    W: str = "float[4,3,3,3] W",
    x: str = "float[N,3,6,6] x",
    bn: str = "BatchNormalization (x, s, o, m, v)",
    statistics: str = "float[3] s, float[3] o, float[3] m, float[3] v",
) -> str:
    out = ",".join("abcde"[: x.split(" x")[0].count(",") + 1])
    return f"agraph ({x}) => (float[{out}] y) <{W}, float[4] B, {statistics}> {{ n = {bn} y = {conv} }}"


ZERO = "float[3] s, float[3] o = {0,0,0}, float[3] m = {0,0,0}, float[3] v"
PADDED = "padding would get the addend, too, and no longer be zero"
STAYS = [
    Stays("padding", graph("Conv <pads = [0, 0, 0, 1]> (n, W, B)"), PADDED),
    Stays("computed padding", graph('Conv <auto_pad = "SAME_LOWER"> (n, W, B)'), PADDED),
    Stays(
        "training mode",
        graph()
        .replace("n = Batch", "n, p, q = Batch")
        .replace("ation (", "ation <training_mode = 1> ("),
        "the BatchNormalization is in training mode",
    ),
    Stays(
        "a variance below zero",
        graph(statistics="float[3] s, float[3] o, float[3] m, float[3] v = {1,-1,1}"),
        "the factor is not finite",
    ),
    Stays(
        "an infinite offset",
        graph(statistics="float[3] s, float[3] o = {1,inf,1}, float[3] m, float[3] v"),
        "the addend is not finite",
    ),
    Stays(
        "a bias from outside",
        graph(x="float[N,3,6,6] x, float[4] A").replace("W, B)", "W, A)"),
        None,
    ),
    Stays(
        "weights from outside",
        graph(x="float[N,3,6,6] x, float[4,3,3,3] V").replace("(n, W", "(n, V"),
        None,
    ),
    Stays(
        "a statistic from outside",
        graph(x="float[N,3,6,6] x, float[3] t").replace("x, s", "x, t"),
        None,
    ),
    Stays(
        "used elsewhere",
        graph().replace("] y)", "] y, float[N,3,6,6] z)").replace("y = ", "z = Neg (n) y = "),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a graph output",
        graph().replace("] y)", "] y, float[N,3,6,6] n)"),
        "an interior value is a graph output",
    ),
    Stays(
        "a subgraph uses it",
        seen_by_subgraph(graph(), "n", "float[N,3,6,6]"),
        "an interior value is used elsewhere",
    ),
    Stays("a transposed convolution", graph("ConvTranspose (n, W)", "float[3,4,3,3] W"), None),
    Stays(
        "float16 would overflow",
        graph(
            W="float[4,3,3,3] W",
            statistics="float[3] s = {31743,31743,31743}, float[3] o, float[3] m, float[3] v",
        ).replace("float[", "float16["),
        "a constant would overflow in float16",
    ),
    Stays(
        "the BatchNormalization has statistics for each activation",
        graph(
            statistics="float[3,6,6] s, float[3,6,6] o, float[3,6,6] m, float[3,6,6] v",
            bn="BatchNormalization <spatial = 0> (x, s, o, m, v)",
        ),
        "the BatchNormalization has statistics for each activation",
        opset=7,
    ),
]

FIRES = [
    Fires("a bias", graph(), ["Conv"]),
    Fires("no bias", graph("Conv (n, W)"), ["Conv"]),
    Fires(
        "strides and dilations, VALID",
        graph('Conv <auto_pad = "VALID", strides = [2, 1], dilations = [1, 2]> (n, W, B)'),
        ["Conv"],
    ),
    Fires("pads of zero", graph("Conv <pads = [0, 0, 0, 0]> (n, W, B)"), ["Conv"]),
    Fires(
        "padding, nothing added",
        graph("Conv <pads = [1, 1, 1, 1]> (n, W, B)", statistics=ZERO),
        ["Conv"],
    ),
    Fires(
        "padding, nothing added, no bias",
        graph('Conv <auto_pad = "SAME_UPPER"> (n, W)', statistics=ZERO),
        ["Conv"],
    ),
    Fires(
        "groups",
        graph("Conv <group = 2> (n, W, B)", x="float[N,6,6,6] x").replace("float[3]", "float[6]"),
        ["Conv"],
    ),
    Fires("depthwise", graph("Conv <group = 3> (n, W)", "float[6,1,3,3] W"), ["Conv"]),
    Fires(
        "pointwise, epsilon",
        graph(
            "Conv (n, W)",
            "float[4,3,1,1] W",
            bn="BatchNormalization <epsilon = 0.1> (x, s, o, m, v)",
        ),
        ["Conv"],
    ),
    Fires("1-D", graph(W="float[4,3,2] W", x="float[N,3,K] x"), ["Conv"], sizes={"K": 5}),
    Fires("3-D", graph(W="float[4,3,2,2,2] W", x="float[N,3,4,4,4] x"), ["Conv"]),
    Fires(
        "unknown height and width",
        graph(x="float[N,C,H,K] x"),
        ["Conv"],
        sizes={"C": 3, "H": 3, "K": 4},
    ),
    Fires("opset 7, IR version 3", graph(), ["Conv"], opset=7, ir_version=3),
    Fires("opset 22", graph(), ["Conv"], opset=22),
    Fires("float16", graph().replace("float[", "float16["), ["Conv"]),
]

test_stays, test_fires = tables("BatchnormConvFusionPass", STAYS, FIRES, in_functions="never")
