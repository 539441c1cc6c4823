from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    move: str = "Squeeze (a, k)",
    k: str = "int64[1] k = {3}",
    add: str = "Add (s, c)",
    c: str = "float[4,1] c",
    x: str = "float[N,3,6,3] x",
    conv: str = "Conv (x, W, B)",
    W: str = "float[4,3,3,3] W",
    out: str = "d,e,f",
) -> str:
    return f"agraph ({x}) => (float[{out}] y) <{W}, float[4] B, {k}, {c}> {{ a = {conv} s = {move} y = {add} }}"


WRONG = "the constant has neither one number nor one number for each channel"
UNKNOWN = "the axes are not constant"
RESHAPE = "the Reshape is not known to keep the channels"
STAYS = [
    Stays("along the height", graph(c="float[4] c"), WRONG),
    Stays("along another axis", graph(c="float[4,4] c"), WRONG),
    Stays("a rank too high", graph(c="float[1,1,4,1] c", out="1,d,e,f"), WRONG),
    Stays(
        "the channels are squeezed",
        graph(
            k="int64[2] k = {1,3}", W="float[1,3,3,3] W", conv="Conv (x, W)", c="float c", out="d,e"
        ),
        "the channels are squeezed",
    ),
    Stays("axes from outside", graph(k="int64 unused", x="float[N,3,6,3] x, int64[1] k"), UNKNOWN),
    Stays("no axes, an unknown batch", graph("Squeeze (a)"), UNKNOWN),
    Stays(
        "a Reshape of the batch into the channels",
        graph("Reshape (a, k)", "int64[3] k = {1,-1,4}", c="float c"),
        RESHAPE,
    ),
    Stays(
        "a Reshape of channels and height",
        graph("Reshape (a, k)", "int64[3] k = {0,16,1}", c="float c"),
        RESHAPE,
    ),
    Stays(
        "a Reshape of unknown images",
        graph("Reshape (a, k)", "int64[3] k = {-1,4,9}", x="float[N,3,H,K] x", c="float c"),
        RESHAPE,
    ),
    Stays("a Flatten of images", graph("Flatten (a)", c="float c", out="d,e"), RESHAPE),
    Stays("from outside", graph(add="Add (s, w)", x="float[N,3,6,3] x, float[4,1] w"), None),
    Stays(
        "a bias from outside", graph(conv="Conv (x, W, w)", x="float[N,3,6,3] x, float[4] w"), None
    ),
    Stays("c minus", graph(add="Sub (c, s)"), None),
    Stays(
        "used elsewhere",
        graph().replace("] y)", "] y, float[N,4,4] z)").replace("y = ", "z = Neg (s) y = "),
        "an interior value is used elsewhere",
    ),
    Stays(
        "the Conv is a graph output",
        graph().replace("] y)", "] y, float[N,4,4,1] a)"),
        "an interior value is a graph output",
    ),
    Stays(
        "a subgraph uses the Squeeze",
        seen_by_subgraph(graph(), "s", "float[N,4,4]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "float16 would overflow",
        graph(c="float[1] c = {31743}")
        .replace("float[4] B", "float[4] B = {31743,1,1,1}")
        .replace("float[", "float16["),
        "a constant would overflow in float16",
    ),
]

SQUEEZED = ["Conv", "Squeeze"]
FIRES = [
    Fires("Squeeze", graph(), SQUEEZED),
    Fires("commuted, a negative axis", graph(k="int64[1] k = {-1}", add="Add (c, s)"), SQUEEZED),
    Fires("subtracted", graph(add="Sub (s, c)"), SQUEEZED),
    Fires(
        "weights from outside",
        graph(x="float[N,3,6,3] x, float[4,3,3,3] V", conv="Conv (x, V)"),
        SQUEEZED,
    ),
    Fires("no bias", graph(conv="Conv (x, W)"), SQUEEZED),
    Fires("a scalar", graph(c="float c"), SQUEEZED),
    Fires(
        "the batch, too", graph(k="int64[2] k = {3,0}", x="float[1,3,6,3] x", out="d,e"), SQUEEZED
    ),
    Fires(
        "the batch alone",
        graph(k="int64[1] k = {0}", x="float[1,3,6,6] x", c="float[4,1,1] c"),
        SQUEEZED,
    ),
    Fires(
        "height and width",
        graph(k="int64[2] k = {2,3}", x="float[N,3,3,3] x", c="float[4] c", out="d,e"),
        SQUEEZED,
    ),
    Fires("no axes", graph("Squeeze (a)", x="float[2,3,6,3] x"), SQUEEZED),
    Fires(
        "axes as an attribute",
        graph("Squeeze <axes = [3]> (a)", "int64 unused"),
        SQUEEZED,
        opset=11,
    ),
    Fires("Reshape", graph("Reshape (a, k)", "int64[3] k = {0,4,-1}"), ["Conv", "Reshape"]),
    Fires(
        "Reshape of unknown images",
        graph("Reshape (a, k)", "int64[3] k = {0,4,-1}", x="float[N,3,H,K] x"),
        ["Conv", "Reshape"],
        sizes={"H": 4, "K": 5},
    ),
    Fires(
        "Reshape, the batch computed",
        graph("Reshape (a, k)", "int64[4] k = {-1,4,2,2}", c="float[4,1,1] c", out="d,e,f,g"),
        ["Conv", "Reshape"],
    ),
    Fires(
        "Flatten",
        graph("Flatten (a)", x="float[N,3,3,3] x", c="float[4] c", out="d,e"),
        ["Conv", "Flatten"],
    ),
    Fires(
        "ConvTranspose",
        graph(conv="ConvTranspose (x, W, B)", W="float[3,4,3,1] W", x="float[N,3,4,1] x"),
        ["ConvTranspose", "Squeeze"],
    ),
    Fires("float16", graph().replace("float[", "float16["), SQUEEZED),
    Fires(
        "opset 9, IR version 3",
        graph("Squeeze <axes = [3]> (a)", "int64[1] unused"),
        SQUEEZED,
        opset=9,
        ir_version=3,
    ),
    Fires("opset 22", graph(), SQUEEZED, opset=22),
]

test_stays, test_fires = tables(
    "Conv2DSqueezeBiasaddFusionPass", STAYS, FIRES, in_functions="never"
)
