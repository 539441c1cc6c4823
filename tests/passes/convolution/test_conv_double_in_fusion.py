from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    activation: str = "Relu (s)",
    conv: str = "Conv (x, W, B)",
    add: str = "Add (c, z)",
    x: str = "float[N,3,8] x",
    z: str = "float[N,4,6] z",
    W: str = "float[4,3,3] W",
    y: str = "float[N,4,6] y",
    more: str = "",
) -> str:
    return f"agraph ({x}, {z}) => ({y}) <{W}, float[4] B{more}> {{ c = {conv} s = {add} y = {activation} }}"


IMAGE = {
    "x": "float[N,3,8,8] x",
    "z": "float[N,4,6,6] z",
    "W": "float[4,3,3,3] W",
    "y": "float[N,4,6,6] y",
}
UNKNOWN = "the addend is not known to have the shape of the convolution"
STAYS = [
    Stays("an addend that is broadcast", graph(z="float[N,4,1] z"), UNKNOWN),
    Stays("an addend that enlarges", graph(z="float[2,N,4,6] z", y="float[2,N,4,6] y"), UNKNOWN),
    Stays("another symbol", graph(z="float[M,4,6] z", y="float[K,4,6] y"), UNKNOWN),
    Stays("a scalar", graph(z="float z"), UNKNOWN),
    Stays(
        "no kernel for double",
        graph().replace("float[", "double["),
        "no CPU kernel for FusedConv of double",
    ),
    Stays("no activation", graph("Erf (s)"), None),
    Stays(
        "the sum is a graph output",
        graph(y="float[N,4,6] y, float[N,4,6] s"),
        "an interior value is a graph output",
    ),
    Stays(
        "a subgraph uses the sum",
        seen_by_subgraph(graph(), "s", "float[N,4,6]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "bounds that are computed",
        graph("Clip (s, lo)", more=", float one = {1}").replace("y = ", "lo = Neg (one) y = "),
        "the bound is not constant",
    ),
]

FIRES = [
    *[
        Fires(f, graph(f"{f} (s)"), ["FusedConv"])
        for f in ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid")
    ],
    Fires("an image", graph(**IMAGE), ["FusedConv"]),
    Fires(
        "an image, Clip", graph("Clip <min = 0.0, max = 6.0> (s)", **IMAGE), ["FusedConv"], opset=9
    ),
    Fires("commuted", graph(add="Add (z, c)"), ["FusedConv"]),
    Fires("without bias", graph(conv="Conv (x, W)"), ["FusedConv"]),
    Fires("parameters", graph("HardSigmoid <alpha = 0.3, beta = 0.4> (s)"), ["FusedConv"]),
    Fires(
        "Clip", graph("Clip (s, lo, hi)", more=", float lo = {0}, float hi = {6}"), ["FusedConv"]
    ),
    Fires("Clip of opset 6", graph("Clip <min = 0.0, max = 6.0> (s)"), ["FusedConv"], opset=9),
    Fires(
        "strides and pads",
        graph(
            conv="Conv <pads = [1, 1], strides = [2]> (x, W)",
            z="float[N,4,4] z",
            y="float[N,4,4] y",
        ),
        ["FusedConv"],
    ),
    Fires(
        "3-D",
        graph(
            x="float[N,3,4,4,4] x",
            z="float[N,4,3,3,3] z",
            W="float[4,3,2,2,2] W",
            y="float[N,4,3,3,3] y",
        ),
        ["FusedConv"],
    ),
    Fires(
        "groups",
        graph(
            conv="Conv <group = 3> (x, W)",
            W="float[6,1,3] W",
            z="float[N,6,6] z",
            y="float[N,6,6] y",
        ),
        ["FusedConv"],
    ),
    Fires(
        "an image, weights from outside",
        "agraph (float[N,3,6,6] x, float[4,3,3,3] W, float[N,4,4,4] z) => (float[N,4,4,4] y) "
        "{ c = Conv (x, W) s = Add (c, z) y = Relu (s) }",
        ["FusedConv"],
    ),
    Fires(
        "two convolutions",
        "agraph (float[N,3,8] x) => (float[N,4,6] y) <float[4,3,3] W, float[4,3,3] V> "
        "{ c = Conv (x, W) d = Conv (x, V) s = Add (c, d) y = Relu (s) }",
        ["Conv", "FusedConv"],
    ),
    *[Fires(f"opset {opset}", graph(), ["FusedConv"], opset=opset) for opset in (7, 11, 13, 22)],
]

test_stays, test_fires = tables("TbeConvDoubleInFusionPass", STAYS, FIRES, in_functions="never")
