from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    inner: str = "Conv <pads = [1, 1, 1, 1]> (x, V, A)",
    outer: str = "Conv (a, W, B)",
    V: str = "float[8,3,3,3] V, float[8] A",
    W: str = "float[4,8,1,1] W, float[4] B",
    x: str = "float[N,3,6,6] x",
) -> str:
    out = ",".join("defgh"[: x.split(" x")[0].count(",") + 1])
    return f"agraph ({x}) => (float[{out}] y) <{V}, {W}> {{ a = {inner} y = {outer} }}"


FIRST = {
    "inner": "Conv (x, V)",
    "V": "float[8,3,1,1] V, float[8] A",
    "W": "float[2,8,3,3] W, float[2] B",
}
MORE = "the product of the weights has as many elements as both weights, or more"
GROUPS = "one of the convolutions has groups"
STAYS = [
    Stays(
        "a bottleneck",
        graph(V="float[2,3,3,3] V, float[2] A", W="float[8,2,1,1] W, float[8] B"),
        MORE,
    ),
    Stays(
        "large weights are used elsewhere",
        graph(
            inner="Conv (x, V, A) z = Conv (w, V)",
            V="float[512,3,30,30] V, float[512] A",
            W="float[4,512,1,1] W, float[4] B",
            x="float[N,3,32,32] x, float[N,3,30,30] w",
        ).replace("y)", "y, float[N,512,1,1] z)"),
        "large weights are used elsewhere: the model would grow",
    ),
    Stays("neither is pointwise", graph(W="float[4,8,2,2] W, float[4] B"), None),
    Stays("strides of the second", graph(outer="Conv <strides = [2, 2]> (a, W, B)"), None),
    Stays("pads of the second", graph(outer="Conv <pads = [1, 1, 1, 1]> (a, W, B)"), None),
    Stays(
        "computed padding of the second",
        graph(outer='Conv <auto_pad = "SAME_UPPER"> (a, W, B)'),
        None,
    ),
    Stays(
        "groups of the second",
        graph(outer="Conv <group = 2> (a, W, B)", W="float[4,4,1,1] W, float[4] B"),
        GROUPS,
    ),
    Stays(
        "groups of the first",
        graph(
            inner="Conv <group = 3> (x, V)", V="float[9,1,3,3] V", W="float[4,9,1,1] W, float[4] B"
        ),
        GROUPS,
    ),
    Stays(
        "an activation between",
        graph(inner="Conv (x, V, A) b = Relu (a)", outer="Conv (b, W, B)"),
        None,
    ),
    Stays(
        "a bias before padding",
        graph(**{**FIRST, "inner": "Conv (x, V, A)"}, outer="Conv <pads = [1, 1, 1, 1]> (a, W)"),
        "padding would get the addend, too, and no longer be zero",
    ),
    Stays(
        "weights from outside", graph(V="float[8] A", x="float[N,3,6,6] x, float[8,3,3,3] V"), None
    ),
    Stays(
        "the first is used elsewhere",
        graph().replace("] y)", "] y, float[N,8,6,6] z)").replace("y = ", "z = Neg (a) y = "),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a subgraph uses the first",
        seen_by_subgraph(graph(), "a", "float[N,8,6,6]"),
        "an interior value is used elsewhere",
    ),
]

FIRES = [
    Fires("the second is pointwise", graph(), ["Conv"]),
    Fires("no bias", graph("Conv (x, V)", "Conv (a, W)"), ["Conv"]),
    Fires("a bias of the first", graph(outer="Conv (a, W)"), ["Conv"]),
    Fires("a bias of the second", graph("Conv (x, V)"), ["Conv"]),
    Fires(
        "strides and dilations of the first",
        graph("Conv <strides = [2, 1], dilations = [1, 2]> (x, V, A)"),
        ["Conv"],
    ),
    Fires(
        "the first is pointwise",
        graph(**FIRST, outer="Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (a, W, B)"),
        ["Conv"],
    ),
    Fires(
        "the first is pointwise and has a bias",
        graph(**{**FIRST, "inner": "Conv (x, V, A)"}),
        ["Conv"],
    ),
    Fires("both are", graph("Conv (x, V, A)", V="float[8,3,1,1] V, float[8] A"), ["Conv"]),
    Fires(
        "1-D",
        graph(
            "Conv (x, V, A)",
            V="float[8,3,3] V, float[8] A",
            W="float[4,8,1] W, float[4] B",
            x="float[N,3,K] x",
        ),
        ["Conv"],
        sizes={"K": 5},
    ),
    Fires(
        "three",
        graph(outer="Conv (a, W, B) b = Neg (y0)")
        .replace("b = Neg (y0)", "")
        .replace("y = Conv (a, W, B)", "b = Conv (a, W, B) y = Conv (b, U)")
        .replace("float[4] B", "float[4] B, float[2,4,1,1] U"),
        ["Conv"],
        2,
    ),
    Fires("opset 9, IR version 3", graph(), ["Conv"], opset=9, ir_version=3),
    Fires("opset 22", graph(), ["Conv"], opset=22),
    Fires("float16", graph().replace("float[", "float16["), ["Conv"]),
]

test_stays, test_fires = tables("Conv1x1ReassociationPass", STAYS, FIRES, in_functions="less often")
