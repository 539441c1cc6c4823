from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    flat: str = "Flatten (a)",
    conv: str = "Conv (x, W, B)",
    x: str = "float[8,3,4,5] x",
    W: str = "float[4,3,4,5] W",
    more: str = "int64[1] unused",
    out: str = "d,e",
) -> str:
    return f"agraph ({x}) => (float[{out}] y) <{W}, float[4] B, {more}> {{ a = {conv} y = {flat} }}"


STAYS = [
    Stays("a smaller kernel", graph(W="float[4,3,4,4] W"), None),
    Stays("pads", graph(conv="Conv <pads = [0, 0, 1, 0]> (x, W, B)"), None),
    Stays(
        "computed padding",
        graph(conv='Conv <auto_pad = "SAME_UPPER", strides = [4, 5]> (x, W, B)'),
        None,
    ),
    Stays("groups", graph(conv="Conv <group = 2> (x, W, B)", x="float[8,6,4,5] x"), None),
    Stays("unknown height", graph(x="float[8,3,H,5] x"), None),
    Stays("not flattened", graph("Relu (a)", out="d,e,f,g"), None),
    Stays("one axis squeezed", graph("Squeeze (a, k)", more="int64[1] k = {2}", out="d,e,f"), None),
    Stays(
        "flattened to one axis", graph("Reshape (a, k)", more="int64[1] k = {-1}", out="d"), None
    ),
    Stays(
        "weights from outside",
        graph(x="float[8,3,4,5] x, float[4,3,4,5] V", conv="Conv (x, V, B)"),
        None,
    ),
    Stays(
        "one image",
        graph(x="float[1,3,4,5] x"),
        "the batch has few images",
    ),
    Stays(
        "an unknown number of images",
        graph(x="float[N,3,4,5] x"),
        "the number of images is unknown",
    ),
    Stays(
        "used elsewhere",
        graph().replace("] y)", "] y, float[8,4,1,1] z)").replace("y = ", "z = Neg (a) y = "),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a subgraph uses the Conv",
        seen_by_subgraph(graph(), "a", "float[8,4,1,1]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "large weights are used elsewhere",
        graph(x="float[8,3,300,300] x, float[8,3,301,300] z", W="float[4,3,300,300] W")
        .replace("] y)", "] y, float[8,4,2,1] w)")
        .replace("y = ", "w = Conv (z, W) y = "),
        "large weights are used elsewhere: the model would grow",
    ),
    Stays(
        "opset 6",
        graph(),
        "before opset 7 Gemm does not broadcast its bias",
        opset=6,
        ir_version=3,
    ),
]

FULL = ["Flatten", "Gemm"]
FIRES = [
    Fires("Flatten", graph(), FULL),
    Fires("no bias, strides", graph(conv="Conv <strides = [4, 5]> (x, W)"), FULL),
    Fires("VALID", graph(conv='Conv <auto_pad = "VALID"> (x, W, B)'), FULL),
    Fires("Reshape", graph("Reshape (a, k)", more="int64[2] k = {-1,4}"), FULL),
    Fires("Squeeze", graph("Squeeze (a, k)", more="int64[2] k = {-1,-2}"), FULL),
    Fires("pointwise", graph(W="float[4,3,1,1] W", x="float[8,3,1,1] x"), FULL),
    Fires(
        "a bias from outside", graph(conv="Conv (x, W, A)", x="float[8,3,4,5] x, float[4] A"), FULL
    ),
    Fires("1-D", graph(W="float[4,3,5] W", x="float[8,3,5] x"), FULL),
    Fires("no bias, opset 9, IR version 3", graph(conv="Conv (x, W)"), FULL, opset=9, ir_version=3),
    Fires("opset 22", graph(), FULL, opset=22),
    Fires("float16", graph().replace("float[", "float16["), FULL),
]

test_stays, test_fires = tables(
    "ConvToFullyConnectionFusionPass", STAYS, FIRES, in_functions="never"
)
