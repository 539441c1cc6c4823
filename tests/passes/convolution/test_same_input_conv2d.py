from harness import Fires, Stays, tables


def graph(
    body: str = "a = Conv (x, V, A) b = Conv (x, W)",
    y: str = "float[N,4,c,d] a, float[N,2,c,d] b",
    weights: str = "float[4,3,3,3] V, float[4] A, float[2,3,3,3] W, float[2] B, float[5,3,3,3] U",
    x: str = "float[N,3,6,6] x",
) -> str:
    return f"agraph ({x}) => ({y}) <{weights}> {{ {body} }}"


STAYS = [
    Stays(
        "of different values",
        graph("a = Conv (x, V, A) b = Conv (w, W)", x="float[N,3,6,6] x, float[N,3,6,6] w"),
        None,
    ),
    Stays(
        "large weights are used elsewhere",
        graph(
            "a = Conv (x, V, A) b = Conv (x, W) w = Conv (z, V)",
            "float[N,65,2,2] a, float[N,2,2,2] b, float[N,65,1,1] w",
            "float[65,64,8,8] V, float[65] A, float[2,64,8,8] W",
            "float[N,64,9,9] x, float[N,64,8,8] z",
        ),
        "large weights are used elsewhere: the model would grow",
    ),
    Stays(
        "different strides",
        graph(
            "a = Conv (x, V, A) b = Conv <strides = [2, 2]> (x, W)",
            y="float[N,4,c,d] a, float[N,2,e,f] b",
        ),
        None,
    ),
    Stays(
        "different kernels",
        graph(
            "a = Conv <pads = [1, 1, 1, 1]> (x, V) b = Conv (x, W)",
            weights="float[4,3,3,3] V, float[2,3,1,1] W",
        ),
        None,
    ),
    Stays(
        "groups",
        graph(
            "a = Conv <group = 3> (x, V) b = Conv <group = 3> (x, W)",
            "float[N,3,c,d] a, float[N,6,c,d] b",
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
    Stays("one", graph("a = Conv (x, V, A) b = Neg (a)", "float[N,4,c,d] b"), None),
]

FIRES = [
    Fires("two", graph(), ["Conv", "Split"]),
    Fires("no bias", graph("a = Conv (x, V) b = Conv (x, W)"), ["Conv", "Split"]),
    Fires(
        "three, strides and pads",
        graph(
            "a = C (x, V) b = C (x, W, B) c = C (x, U)".replace(
                "C (", "Conv <strides = [2, 2], pads = [1, 0, 1, 2]> ("
            ),
            "float[N,4,c,d] a, float[N,2,c,d] b, float[N,5,c,d] c",
        ),
        ["Conv", "Split"],
    ),
    Fires(
        "the same activation",
        graph("c = Conv (x, V, A) d = Conv (x, W) a = Relu (c) b = Relu (d)"),
        ["Conv", "Relu", "Split"],
    ),
    Fires(
        "different activations",
        graph("c = Conv (x, V, A) d = Conv (x, W) a = Relu (c) b = Tanh (d)"),
        ["Conv", "Split", "Relu", "Tanh"],
    ),
    Fires(
        "one activation",
        graph("c = Conv (x, V, A) b = Conv (x, W) a = Relu (c)"),
        ["Conv", "Split", "Relu"],
    ),
    Fires(
        "a Conv that is used twice",
        graph(
            "c = Conv (x, V, A) d = Conv (x, W) a = Relu (c) b = Relu (d) e = Neg (c)",
            "float[N,4,c,d] a, float[N,2,c,d] b, float[N,4,c,d] e",
        ),
        ["Conv", "Split", "Relu", "Relu", "Neg"],
    ),
    Fires(
        "one after the other",
        graph(
            "p = Conv (x, V) q = Conv (x, W) r = Concat <axis = 1> (q, p) a = Conv (r, S) b = Conv (r, T)",
            "float[N,2,c,d] a, float[N,1,c,d] b",
            "float[4,3,1,1] V, float[2,3,1,1] W, float[2,6,1,1] S, float[1,6,1,1] T",
        ),
        ["Conv", "Split", "Concat", "Conv", "Split"],
        2,
    ),
    Fires(
        "1-D",
        graph(
            y="float[N,4,c] a, float[N,2,c] b",
            weights="float[4,3,2] V, float[4] A, float[2,3,2] W",
            x="float[N,3,K] x",
        ),
        ["Conv", "Split"],
        sizes={"K": 5},
    ),
    Fires("opset 11", graph(), ["Conv", "Split"], opset=11),
    Fires("opset 7, IR version 3", graph(), ["Conv", "Split"], opset=7, ir_version=3),
    Fires("opset 22", graph(), ["Conv", "Split"], opset=22),
]

test_stays, test_fires = tables("SameInputConv2dPass", STAYS, FIRES, in_functions="never")
