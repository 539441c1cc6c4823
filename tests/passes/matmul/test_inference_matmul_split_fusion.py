import pytest
from harness import Fires, Stays, effected, optimize, parse, pass_of, seen_by_subgraph, tables


def graph(
    body: str = "p = MatMul (x, W) a, b = Split <axis = -1> (p, sizes)",
    more: str = "",
    y: str = "",
    W: str = "float[4,6] W",
) -> str:
    return f"agraph (float[N,3,4] x) => (float[N,3,2] a, float[N,3,4] b{y}) <{W}, int64[2] sizes = {{2, 4}}{more}> {{ {body} }}"


def rows(body: str, pieces: int = 3) -> str:
    """Of a matrix x, with constants for Gemm."""
    names = [f"a{i}" for i in range(pieces)]
    outputs = ", ".join(f"float[5,?] {name}" for name in names)
    values = f"float[4,12] W, float[12,4] T, float[12] B, float[5,12] E, int64[{pieces}] sizes = {{{', '.join(['1'] * (pieces - 1))}, {13 - pieces}}}"
    return f"agraph (float[5,4] x) => ({outputs}) <{values}> {{ {body} {', '.join(names)} = Split <axis = 1> (p, sizes) }}"


BIASED = "q = MatMul (x, W) p = Add (q, B) a, b = Split <axis = -1> (p, sizes)"
STAYS = [
    Stays(
        "the product is a graph output",
        graph(y=", float[N,3,6] p"),
        "an interior value is a graph output",
    ),
    Stays(
        "a subgraph uses the product",
        seen_by_subgraph(graph(), "p", "float[N,3,6]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "the weights are used elsewhere",
        "agraph (float[N,40] x) => (float[N,20] a, float[N,10] b, float[40,30] e) <float[40,30] W, int64[2] sizes = {20, 10}> "
        "{ p = MatMul (x, W) a, b = Split <axis = -1> (p, sizes) e = Neg (W) }",
        "large weights are used elsewhere: the model would grow",
    ),
    Stays("any runtime", graph(), "for target onnx no gain is known", target="onnx"),
    Stays(
        "a bias for each row",
        graph(
            "q = MatMul (x, W) p = Add (q, B) a, b = Split <axis = -1> (p, sizes)", ", float[4,6] B"
        ).replace("[N,3,", "[N,4,"),
        None,
    ),
    Stays("one number as bias", graph(BIASED, ", float[1] B"), None),
    Stays(
        "a bias from outside",
        graph(BIASED).replace("(float[N,3,4] x)", "(float[N,3,4] x, float[6] B)"),
        None,
    ),
    Stays("a bias for each element of Gemm", rows("p = Gemm (x, W, E)"), None),
    Stays(
        "the product has two sums",
        graph(BIASED + " e = Neg (q)", ", float[6] B", ", float[N,3,6] e"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "one piece",
        "agraph (float[N,4] x) => (float[N,6] a) <float[4,6] W, int64[1] sizes = {6}> { p = MatMul (x, W) a = Split <axis = 1> (p, sizes) }",
        None,
    ),
    Stays(
        "the sum of two products",
        "agraph (float[N,4] x) => (float[N,2] a, float[N,4] b) <float[4,6] W, float[4,6] V, int64[2] sizes = {2, 4}> { p = MatMul (x, W) q = MatMul (x, V) s = Add (p, q) a, b = Split <axis = 1> (s, sizes) }",
        None,
    ),
    Stays(
        "another axis",
        "agraph (float[N,3,4] x) => (float[N,1,6] a, float[N,2,6] b) <float[4,6] W, int64[2] sizes = {1, 2}> { p = MatMul (x, W) a, b = Split <axis = 1> (p, sizes) }",
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
        "the axis from the front",
        graph("p = MatMul (x, W) a, b = Split <axis = 2> (p, sizes)"),
        ["MatMul", "MatMul"],
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
    Fires("three pieces", rows("p = MatMul (x, W)"), ["MatMul"] * 3),
    Fires("twelve pieces", rows("p = MatMul (x, W)", 12), ["MatMul"] * 12),
    Fires("a bias", graph(BIASED, ", float[6] B"), ["MatMul", "Add"] * 2),
    Fires(
        "a bias, commuted",
        graph(BIASED.replace("(q, B)", "(B, q)"), ", float[6] B"),
        ["MatMul", "Add"] * 2,
    ),
    Fires("Gemm", rows("p = Gemm <alpha = 0.5, beta = 2.0> (x, W, B)"), ["Gemm"] * 3),
    Fires("Gemm without a bias", rows("p = Gemm (x, W)"), ["Gemm"] * 3),
    Fires("Gemm of transposed weights", rows("p = Gemm <transB = 1> (x, T, B)", 5), ["Gemm"] * 5),
    Fires(
        "an empty piece",
        "agraph (float[N,4] x) => (float[N,6] a, float[N,0] b, float[N,0] c) <float[4,6] W, int64[3] sizes = {6, 0, 0}> { p = MatMul (x, W) a, b, c = Split <axis = 1> (p, sizes) }",
        ["MatMul"] * 3,
    ),
    Fires(
        "another product of the same value",
        graph(
            "p = MatMul (x, W) a, b = Split <axis = -1> (p, sizes) e = MatMul (x, V)",
            ", float[4,5] V",
            ", float[N,3,5] e",
        ),
        ["MatMul"] * 3,
    ),
    Fires("double", graph().replace("float", "double"), ["MatMul", "MatMul"]),
]


@pytest.mark.parametrize("ir_version", [8, 10])
@pytest.mark.parametrize("body", ["p = MatMul (x, W)", "p = Gemm (x, W, B)"])
def test_its_products_stay_apart(body: str, ir_version: int) -> None:
    """SameInputMatMulPass makes one product of several, but not of these, here and in a second conversion."""
    both = [pass_of("SameInputMatMulPass"), pass_of("InferenceMatmulSplitFusionPass")]
    result, counts = optimize(parse(rows(body), 18, ir_version), both)
    assert (effected(counts), len(result.graph.node)) == (1, 3)
    again, counts = optimize(result, both)
    assert effected(counts) == 0 and again == result


test_stays, test_fires = tables(
    "InferenceMatmulSplitFusionPass", STAYS, FIRES, in_functions="less often"
)
