from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    body: str = "p = MatMul (x, W) a, b = Split <axis = -1> (p, sizes)",
    more: str = "",
    y: str = "",
    W: str = "float[4,6] W",
) -> str:
    return f"agraph (float[N,3,4] x) => (float[N,3,2] a, float[N,3,4] b{y}) <{W}, int64[2] sizes = {{2, 4}}{more}> {{ {body} }}"


STAYS = [
    Stays("the product is a graph output", graph(y=", float[N,3,6] p"), "an interior value is a graph output"),
    Stays(
        "a subgraph uses the product",
        seen_by_subgraph(graph(), "p", "float[N,3,6]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "the weights are used elsewhere",
        "agraph (float[N,40] x) => (float[N,20] a, float[N,10] b, float[40,30] e) <float[40,30] W, int64[2] sizes = {20, 10}> "
        "{ p = MatMul (x, W) a, b = Split <axis = -1> (p, sizes) e = Neg (W) }",
        "large weights are used elsewhere",
    ),
    Stays(
        "another product of the same value",
        graph(
            "p = MatMul (x, W) a, b = Split <axis = -1> (p, sizes) e = MatMul (x, V)",
            ", float[4,5] V",
            ", float[N,3,5] e",
        ),
        "another product of the same value",
    ),
    Stays("any runtime", graph(), "for target onnx nothing is known to be gained", target="onnx"),
    Stays(
        "a bias", graph("q = MatMul (x, W) p = Add (q, B) a, b = Split <axis = -1> (p, sizes)", ", float[6] B"), None
    ),
    Stays(
        "another axis",
        "agraph (float[N,3,4] x) => (float[N,1,6] a, float[N,2,6] b) <float[4,6] W, int64[2] sizes = {1, 2}> { p = MatMul (x, W) a, b = Split <axis = 1> (p, sizes) }",
        None,
    ),
    Stays(
        "three pieces",
        "agraph (float[N,3,4] x) => (float[N,3,2] a, float[N,3,2] b, float[N,3,2] c) <float[4,6] W, int64[3] sizes = {2, 2, 2}> { p = MatMul (x, W) a, b, c = Split <axis = -1> (p, sizes) }",
        None,
    ),
    Stays(
        "weights from outside",
        "agraph (float[N,4] x, float[4,6] W) => (float[N,2] a, float[N,4] b) <int64[2] sizes = {2, 4}> { p = MatMul (x, W) a, b = Split <axis = -1> (p, sizes) }",
        None,
    ),
    Stays("a batch of weights", graph(W="float[1,4,6] W"), None),
]

FIRES = [
    Fires("two pieces", graph(), ["MatMul", "MatMul"]),
    Fires(
        "the axis from the front", graph("p = MatMul (x, W) a, b = Split <axis = 2> (p, sizes)"), ["MatMul", "MatMul"]
    ),
    Fires(
        "halves",
        "agraph (float[N,4] x) => (float[N,3] a, float[N,3] b) <float[4,6] W> { p = MatMul (x, W) a, b = Split <axis = 1, num_outputs = 2> (p) }",
        ["MatMul", "MatMul"],
    ),
    Fires(
        "sizes as an attribute",
        "agraph (float[N,4] x) => (float[N,2] a, float[N,4] b) <float[4,6] W> { p = MatMul (x, W) a, b = Split <axis = 1, split = [2, 4]> (p) }",
        ["MatMul", "MatMul"],
        opset=11,
    ),
    Fires(
        "a vector",
        "agraph (float[4] x) => (float[2] a, float[4] b) <float[4,6] W, int64[2] sizes = {2, 4}> { p = MatMul (x, W) a, b = Split (p, sizes) }",
        ["MatMul", "MatMul"],
    ),
    Fires(
        "used behind",
        "agraph (float[N,4] x) => (float[N,3] y) <float[4,6] W, int64[2] sizes = {3, 3}> { p = MatMul (x, W) a, b = Split <axis = 1> (p, sizes) y = Mul (a, b) }",
        ["MatMul", "MatMul", "Mul"],
    ),
    Fires("double", graph().replace("float", "double"), ["MatMul", "MatMul"]),
]

test_stays, test_fires = tables("InferenceMatmulSplitFusionPass", STAYS, FIRES)
