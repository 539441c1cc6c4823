from harness import Fires, Stays, tables


def graph(
    nodes: str = "p = Mul (x, s) y = Add (x, p)",
    s: str = "float[N,3,1,1] s",
    x: str = "float[N,3,H,W] x",
    y: str = "float[N,3,H,W] y",
) -> str:
    return f"agraph ({x}, {s}) => ({y}) {{ {nodes} }}"


IN_BLOCKS = """agraph (float[2,4,5,5] x) => (float[2,6,5,5] y)
    <float[16,4,1,1] V, float[16,16,1,1] U, float[6,16,1,1] W> {
    c = Conv (x, V) g = GlobalAveragePool (c) u = Conv (g, U) s = Sigmoid (u) p = Mul (c, s) r = Add (c, p)
    y = Conv (r, W) }"""

OLD = "before opset 8 operators may align their operands in another way"

STAYS = [
    Stays("opset 7", graph(), OLD, opset=7),
    Stays("another image", graph("p = Mul (x, s) z = Neg (x) y = Add (z, p)"), None),
    Stays("one factor for all", graph(s="float s"), None),
    Stays("a factor for each pixel", graph(s="float[N,3,H,W] s"), None),
    Stays(
        "factors for other images",
        graph(s="float[M,3,1,1] s", x="float[1,3,H,W] x", y="float[M,3,H,W] y"),
        None,
    ),
    Stays("images of one pixel", graph(x="float[N,3,1,1] x", y="float[N,3,1,1] y"), None),
    Stays("sequences", graph(x="float[N,3,L] x", s="float[N,3,1] s", y="float[N,3,L] y"), None),
    Stays(
        "integers", graph().replace("float", "int32"), "the elements are not floating-point numbers"
    ),
    Stays(
        "in the blocked layout", IN_BLOCKS, "onnxruntime computes the product in its blocked layout"
    ),
    Stays(
        "the product is used elsewhere",
        graph(y="float[N,3,H,W] y, float[N,3,H,W] p"),
        "an interior value is a graph output",
    ),
]

FIRES = [
    Fires("the image first", graph(), ["Add", "Mul"], edge_values=False),
    Fires(
        "the factors first",
        graph("p = Mul (s, x) y = Add (p, x)"),
        ["Add", "Mul"],
        edge_values=False,
    ),
    Fires("double", graph().replace("float", "double"), ["Add", "Mul"], edge_values=False),
    Fires("float16", graph().replace("float", "float16"), ["Add", "Mul"], edge_values=False),
    Fires("any runtime", graph(), ["Add", "Mul"], edge_values=False, target="onnx"),
    Fires(
        "an unknown batch",
        IN_BLOCKS.replace("[2,", "[N,"),
        ["Conv", "GlobalAveragePool", "Conv", "Sigmoid", "Add", "Mul", "Conv"],
        edge_values=False,
    ),
    *[Fires(f"opset {o}", graph(), ["Add", "Mul"], edge_values=False, opset=o) for o in (8, 22)],
]

test_stays, test_fires = tables("SqueezeExciteResidualPass", STAYS, FIRES, in_functions="never")
