from harness import Fires, Stays, tables

WEIGHTS = "float[18,4,3,3] W, float[18] B, float[5,18,3,3] V, float[5] A, float[18,1,3,3] D, float[7,18,1,1] P"


def graph(
    middle: str = "f = Relu (c)",
    last: str = "y = Conv (f, V, A)",
    first: str = "c = Conv (x, W, B)",
    weights: str = WEIGHTS,
    y: str = "float[N,5,h,w] y",
    more: str = "",
) -> str:
    return f"agraph (float[N,4,12,12] x{more}) => ({y}) <{weights}> {{ {first} {middle} {last} }}"


STAYS = [
    Stays("any runtime", graph(), "for target onnx no gain is known", target="onnx"),
    Stays("whole blocks", graph(weights=WEIGHTS.replace("18", "16")), None),
    Stays("parts of blocks", graph(weights=WEIGHTS.replace("18", "20")), None),
    Stays("windows of one pixel", graph(last="y = Conv (f, P)", y="float[N,7,h,w] y"), None),
    Stays("an output", graph(y="float[N,5,h,w] y, float[N,18,h2,w2] f"), None),
    Stays(
        "another reader",
        graph(last="y = Conv (f, V) z = Softmax (f)", y="float[N,5,h,w] y, float[N,18,h2,w2] z"),
        None,
    ),
    Stays("a sum with another value", graph("f = Add (c, z)", more=", float[N,18,10,10] z"), None),
    Stays("what is infinite at 0", graph("f = Reciprocal (c)"), None),
    Stays(
        "groups behind",
        graph(
            last="y = Conv <group = 2> (f, G)",
            weights=WEIGHTS + ", float[6,9,3,3] G",
            y="float[N,6,h,w] y",
        ),
        None,
    ),
    Stays(
        "groups",
        graph(first="c = Conv <group = 2> (x, G)", weights=WEIGHTS + ", float[18,2,3,3] G"),
        None,
    ),
    Stays(
        "weights from outside",
        graph(weights=WEIGHTS.replace("float[5,18,3,3] V, ", ""), more=", float[5,18,3,3] V"),
        None,
    ),
    Stays("double", graph().replace("float", "double"), "the elements are not float32"),
]

FIRES = [
    Fires("an activation", graph(), ["Conv", "Relu", "Conv"], edge_values=False),
    Fires(
        "no bias",
        graph(first="c = Conv (x, W)", last="y = Conv (f, V)"),
        ["Conv", "Relu", "Conv"],
        edge_values=False,
    ),
    Fires("nothing between", graph("", "y = Conv (c, V)"), ["Conv", "Conv"], edge_values=False),
    Fires(
        "what is not 0 at 0",
        graph("f = Sigmoid (c)"),
        ["Conv", "Sigmoid", "Conv"],
        edge_values=False,
    ),
    Fires(
        "SiLU",
        graph("g = Sigmoid (c) f = Mul (c, g)"),
        ["Conv", "Sigmoid", "Mul", "Conv"],
        edge_values=False,
    ),
    Fires(
        "a pool",
        graph("f = MaxPool <kernel_shape = [2, 2]> (c)"),
        ["Conv", "MaxPool", "Conv"],
        edge_values=False,
    ),
    Fires(
        "a depthwise convolution",
        graph(
            "d = Conv <group = 18, pads = [1, 1, 1, 1]> (c, D, B) f = Relu (d)",
            "y = Conv (f, P)",
            y="float[N,7,h,w] y",
        ),
        ["Conv", "Conv", "Relu", "Conv"],
        edge_values=False,
    ),
    Fires(
        "two readers",
        graph(last="y = Conv (f, V) z = Conv (f, P)", y="float[N,5,h,w] y, float[N,7,h2,w2] z"),
        ["Conv", "Relu", "Conv", "Conv"],
        edge_values=False,
    ),
    Fires(
        "one behind the other",
        graph(last="g = Conv (f, M) y = Conv (g, V)", weights=WEIGHTS + ", float[18,18,3,3] M"),
        ["Conv", "Relu", "Conv", "Conv"],
        2,
        edge_values=False,
    ),
]

test_stays, test_fires = tables("PadChannelsPass", STAYS, FIRES)
