from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    body: str = "a = Conv (x, V, A) b = Conv (x, W) y = Concat <axis = 1> (a, b)",
    weights: str = "float[4,3,3,3] V, float[4] A, float[2,3,3,3] W, float[2] B",
    x: str = "float[N,3,6,6] x",
    y: str = "",
) -> str:
    out = ",".join("defgh"[: x.split(" x")[0].count(",") + 1])
    return f"agraph ({x}) => (float[{out}] y{y}) <{weights}> {{ {body} }}"


PADDED = "Conv <pads = [1, 1, 1, 1]>"
STAYS = [
    Stays(
        "of different values",
        graph(x="float[N,3,6,6] x, float[N,3,6,6] w").replace("(x, W)", "(w, W)"),
        None,
    ),
    Stays(
        "another axis",
        graph(weights="float[2,3,3,3] V, float[2] A, float[2,3,3,3] W").replace(
            "axis = 1", "axis = 2"
        ),
        "the axis is not that of the channels",
    ),
    Stays(
        "large weights are used elsewhere",
        graph(
            "a = Conv (x, V, A) b = Conv (x, W) w = Conv (z, V) y = Concat <axis = 1> (a, b)",
            "float[65,64,8,8] V, float[65] A, float[2,64,8,8] W",
            "float[N,64,9,9] x, float[N,64,8,8] z",
            y=", float[N,65,1,1] w",
        ),
        "large weights are used elsewhere: the model would grow",
    ),
    Stays(
        "other pads",
        graph(
            f"a = {PADDED} (x, V) b = {PADDED.replace('1, 1, 1, 1', '2, 1, 0, 1')} (x, W) y = Concat <axis = 1> (a, b)"
        ),
        None,
    ),
    Stays(
        "another kernel",
        graph(
            f"a = {PADDED} (x, V) b = Conv (x, U) y = Concat <axis = 1> (a, b)",
            "float[4,3,3,3] V, float[2,3,1,1] U",
        ),
        None,
    ),
    Stays(
        "groups",
        graph(
            "a = Conv <group = 3> (x, V) b = Conv <group = 3> (x, W) y = Concat <axis = 1> (a, b)",
            "float[3,1,3,3] V, float[6,1,3,3] W",
        ),
        None,
    ),
    Stays(
        "weights from outside",
        graph(x="float[N,3,6,6] x, float[2,3,3,3] W", weights="float[4,3,3,3] V, float[4] A"),
        None,
    ),
    Stays(
        "a bias from outside",
        graph(x="float[N,3,6,6] x, float[4] A", weights="float[4,3,3,3] V, float[2,3,3,3] W"),
        None,
    ),
    Stays("one Conv twice", graph("a = Conv (x, V, A) y = Concat <axis = 1> (a, a)"), None),
    Stays("one Conv", graph("a = Conv (x, V, A) y = Concat <axis = 1> (a)"), None),
    Stays(
        "something else, too",
        graph("a = Conv (x, V, A) b = Conv (x, W) y = Concat <axis = 1> (a, b, x)").replace(
            "= Conv", f"= {PADDED}"
        ),
        None,
    ),
    Stays(
        "different activations",
        graph(
            "a = Conv (x, V, A) b = Conv (x, W) c = Relu (a) d = Tanh (b) y = Concat <axis = 1> (c, d)"
        ),
        None,
    ),
    Stays(
        "different bounds",
        graph(
            "a = Conv (x, V) b = Conv (x, W) c = Clip (a, l, h) d = Clip (b, l, g) y = Concat <axis = 1> (c, d)",
            "float[4,3,3,3] V, float[2,3,3,3] W, float l = {0}, float h = {6}, float g = {3}",
        ),
        None,
    ),
    Stays(
        "one activation",
        graph("a = Conv (x, V, A) b = Conv (x, W) c = Relu (a) y = Concat <axis = 1> (c, b)"),
        None,
    ),
    Stays(
        "a Conv is used elsewhere",
        graph(
            "a = Conv (x, V, A) b = Conv (x, W) y = Concat <axis = 1> (a, b) z = Neg (a)",
            y=", float[N,4,4,4] z",
        ),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a Conv is a graph output",
        graph(y=", float[N,4,4,4] a"),
        "an interior value is a graph output",
    ),
    Stays(
        "a subgraph uses a Conv",
        seen_by_subgraph(graph(), "a", "float[N,4,4,4]"),
        "an interior value is used elsewhere",
    ),
]

FIRES = [
    Fires("two", graph(), ["Conv"]),
    Fires(
        "the second has the bias",
        graph("a = Conv (x, V) b = Conv (x, W, B) y = Concat <axis = 1> (a, b)"),
        ["Conv"],
    ),
    Fires(
        "no bias, a negative axis",
        graph("a = Conv (x, V) b = Conv (x, W) y = Concat <axis = -3> (a, b)"),
        ["Conv"],
    ),
    Fires(
        "three, one value of weights twice",
        graph(
            "a = Conv (x, V, A) b = Conv (x, W, B) c = Conv (x, V) y = Concat <axis = 1> (a, b, c)"
        ),
        ["Conv"],
    ),
    Fires(
        "attributes written out or not",
        graph(
            'a = Conv <pads = [0, 0, 0, 0], strides = [1, 1], kernel_shape = [3, 3]> (x, V) b = Conv <auto_pad = "VALID", group = 1> (x, W) y = Concat <axis = 1> (a, b)'
        ),
        ["Conv"],
    ),
    Fires(
        "strides, pads, dilations",
        graph(
            "a = C (x, V) b = C (x, W) y = Concat <axis = 1> (a, b)".replace(
                " C ", " Conv <strides = [2, 1], pads = [1, 0, 2, 1], dilations = [1, 2]> "
            )
        ),
        ["Conv"],
    ),
    Fires(
        "computed padding",
        graph(
            "a = C (x, V) b = C (x, W) y = Concat <axis = 1> (a, b)".replace(
                " C ", ' Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> '
            )
        ),
        ["Conv"],
    ),
    Fires(
        "behind activations",
        graph(
            "a = Conv (x, V, A) b = Conv (x, W) c = Relu (a) d = Relu (b) y = Concat <axis = 1> (c, d)"
        ),
        ["Conv", "Relu"],
    ),
    Fires(
        "behind activations with an attribute",
        graph(
            "a = Conv (x, V, A) b = Conv (x, W) c = LeakyRelu <alpha = 0.2> (a) d = LeakyRelu <alpha = 0.2> (b) y = Concat <axis = 1> (c, d)"
        ),
        ["Conv", "LeakyRelu"],
    ),
    Fires(
        "behind Clip",
        graph(
            "a = Conv (x, V) b = Conv (x, W) c = Clip (a, l, h) d = Clip (b, m, h) y = Concat <axis = 1> (c, d)",
            "float[4,3,3,3] V, float[2,3,3,3] W, float l = {0}, float m = {0}, float h = {6}",
        ),
        ["Conv", "Clip"],
    ),
    Fires(
        "1-D",
        graph(weights="float[4,3,2] V, float[4] A, float[2,3,2] W", x="float[N,3,K] x"),
        ["Conv"],
        sizes={"K": 5},
    ),
    Fires(
        "unknown height and width", graph(x="float[N,3,H,K] x"), ["Conv"], sizes={"H": 3, "K": 5}
    ),
    Fires("float16", graph().replace("float[", "float16["), ["Conv"]),
    Fires("opset 9, IR version 3", graph(), ["Conv"], opset=9, ir_version=3),
    Fires("opset 22", graph(), ["Conv"], opset=22),
]

test_stays, test_fires = tables("ConvConcatFusionPass", STAYS, FIRES, in_functions="never")
