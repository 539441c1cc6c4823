from __future__ import annotations

from harness import Fires, Stays, tables

AFTER = "m = Conv <pads = [1, 1, 1, 1]> (b, M) k = Concat <axis = 1> (a, b, m) y = Conv (k, K)"
ONES = "float[32,3,1,1] W, float[32] B, float[16,16,3,3] M, float[5,48,1,1] K, int64[2] parts = {16, 16}"


def graph(
    activation: str = "f = Relu (c)",
    split: str = "a, b = Split <axis = 1> (f, parts)",
    after: str = AFTER,
    conv: str = "c = Conv (x, W, B)",
    weights: str = ONES,
    y: str = "float[N,5,h,w] y",
    more: str = "",
) -> str:
    return f"agraph (float[N,3,6,6] x{more}) => ({y}) <{weights}> {{ {conv} {activation} {split} {after} }}"


FOUR = "a, b, p, q = Split <axis = 1> (f, parts)"
AFTER_FOUR = "k = Concat <axis = 1> (b, a, q, p) y = Conv (k, K)"
OF_FOUR = "float[64,3,1,1] W, float[64] B, float[5,64,1,1] K, int64[4] parts = {16, 16, 16, 16}"

STAYS = [
    Stays("any runtime", graph(), "for target onnx no gain is known", target="onnx"),
    Stays(
        "half blocks",
        graph(
            weights=ONES.replace("{16, 16}", "{24, 8}")
            .replace("16,16,", "8,8,")
            .replace("48", "40")
        ),
        None,
    ),
    Stays(
        "another axis",
        graph(
            split="a, b = Split <axis = 2> (f, half)",
            after="y = Concat <axis = 1> (a, b)",
            weights=ONES + ", int64[2] half = {3, 3}",
            y="float[N,64,h,w] y",
        ),
        None,
    ),
    Stays("the parts are results", graph(after="", y="float[N,16,h,w] a, float[N,16,h,w] b"), None),
    Stays(
        "one part is for the plain layout",
        graph(after="y = Conv (a, M) z = Softplus (b)", y="float[N,16,h,w] y, float[N,16,h,w] z"),
        None,
    ),
    Stays("an activation in the plain layout", graph("f = Softplus (c)"), None),
    Stays(
        "groups",
        graph(
            conv="c = Conv <group = 32> (z, W, B)",
            weights=ONES.replace("32,3,1,1", "32,1,1,1"),
            more=", float[N,32,6,6] z",
        ),
        None,
    ),
    Stays("double", graph().replace("float", "double"), None),
    Stays(
        "weights from outside",
        graph(weights=ONES.replace("float[32,3,1,1] W, ", ""), more=", float[32,3,1,1] W"),
        None,
    ),
    Stays(
        "sizes from outside", graph(weights=ONES.split(", int64")[0], more=", int64[2] parts"), None
    ),
    Stays(
        "used elsewhere",
        graph(y="float[N,5,h,w] y, float[N,32,h,w] f"),
        "an interior value is a graph output",
    ),
    Stays(
        "four parts of larger windows",
        graph(split=FOUR, after=AFTER_FOUR, weights=OF_FOUR.replace("3,1,1", "3,3,3")),
        None,
    ),
    Stays(
        "five parts",
        graph(
            split="a, b, p, q, r = Split <axis = 1> (f, parts)",
            after=AFTER_FOUR.replace("q, p", "q, p, r"),
            weights=OF_FOUR.replace("[64", "[80")
            .replace("5,64", "5,80")
            .replace("[4] parts = {", "[5] parts = {16, "),
        ),
        None,
    ),
]

BEHIND = ["Conv", "Concat", "Conv"]
FIRES = [
    Fires("an activation", graph(), ["Conv", "Relu", "Conv", "Relu", *BEHIND]),
    Fires("none", graph("", "a, b = Split <axis = 1> (c, parts)"), ["Conv", "Conv", *BEHIND]),
    Fires("no bias", graph(conv="c = Conv (x, W)"), ["Conv", "Relu", "Conv", "Relu", *BEHIND]),
    Fires(
        "SiLU",
        graph("g = Sigmoid (c) f = Mul (c, g)"),
        ["Conv", "Sigmoid", "Mul", "Conv", "Sigmoid", "Mul", *BEHIND],
    ),
    Fires(
        "the gate first",
        graph("g = HardSigmoid <alpha = 0.3> (c) f = Mul (g, c)"),
        ["Conv", "HardSigmoid", "Mul", "Conv", "HardSigmoid", "Mul", *BEHIND],
    ),
    Fires(
        "one of onnxruntime's",
        graph("f = com.microsoft.QuickGelu <alpha = 1.0> (c)"),
        ["Conv", "QuickGelu", "Conv", "QuickGelu", *BEHIND],
    ),
    Fires(
        "limits",
        graph("f = Clip (c, low)", weights=ONES + ", float low"),
        ["Conv", "Clip", "Conv", "Clip", *BEHIND],
    ),
    Fires(
        "equal parts",
        graph(split="a, b = Split <axis = 1, num_outputs = 2> (f)"),
        ["Conv", "Relu", "Conv", "Relu", *BEHIND],
    ),
    Fires(
        "parts of two sizes",
        graph(
            weights=ONES.replace("32", "48").replace("{16, 16}", "{32, 16}").replace("5,48", "5,64")
        ),
        ["Conv", "Relu", "Conv", "Relu", *BEHIND],
    ),
    Fires(
        "larger windows",
        graph(
            conv="c = Conv <pads = [1, 1, 1, 1]> (x, W, B)", weights=ONES.replace("3,1,1", "3,3,3")
        ),
        ["Conv", "Relu", "Conv", "Relu", *BEHIND],
    ),
    Fires(
        "four parts",
        graph(split=FOUR, after=AFTER_FOUR, weights=OF_FOUR),
        [*["Conv", "Relu"] * 4, "Concat", "Conv"],
    ),
    Fires(
        "a residual sum",
        graph(after=AFTER.replace("k = ", "r = Add (b, m) k = ").replace("b, m) y", "b, r) y")),
        ["Conv", "Relu", "Conv", "Relu", "Conv", "Add", "Concat", "Conv"],
    ),
    Fires(
        "an old opset",
        graph(split="a, b = Split <axis = 1, split = [16, 16]> (f)"),
        ["Conv", "Relu", "Conv", "Relu", *BEHIND],
        opset=11,
    ),
]

test_stays, test_fires = tables("ConvSplitPass", STAYS, FIRES, in_functions="never")
