from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    add: str = "Add (p, c)",
    inputs: str = "float[M,3] a",
    c: str = "float[5] c",
    y: str = "float[M,5] y",
) -> str:
    return f"agraph ({inputs}) => ({y}) <float[3,5] B, {c}> {{ p = MatMul (a, B) y = {add} }}"


UNFIT = "the addend does not fit into the product"
STAYS = [
    Stays(
        "a Gemm that has an addend",
        "agraph (float[2,3] x, float[2,4] c) => (float[2,4] y) <float[3,4] W, float[4] b> { g = Gemm (x, W, b) y = Add (g, c) }",
        None,
    ),
    Stays(
        "an addend that enlarges a Gemm",
        "agraph (float[1,3] x, float[2,4] c) => (float[2,4] y) <float[3,4] W> { g = Gemm (x, W) y = Add (g, c) }",
        "the addend does not fit into the product",
    ),
    Stays("rank 3", graph(inputs="float[N,M,3] a", y="float[N,M,5] y"), "the rank is not 2"),
    Stays("rank 1", graph(inputs="float[3] a", y="float[5] y"), "the rank is not 2"),
    Stays("an addend of rank 3", graph(c="float[1,1,5] c", y="float[1,M,5] y"), UNFIT),
    Stays(
        "an addend that enlarges",
        "agraph (float[1,3] a) => (float[4,5] y) <float[3,5] B, float[4,5] c> { p = MatMul (a, B) y = Add (p, c) }",
        UNFIT,
    ),
    Stays(
        "integers",
        graph().replace("float[", "int32["),
        "the elements are not floating-point numbers",
    ),
    Stays(
        "used elsewhere",
        "agraph (float[M,3] a) => (float[M,5] y, float[M,5] z) <float[3,5] B, float[5] c> "
        "{ p = MatMul (a, B) y = Add (p, c) z = Relu (p) }",
        "an interior value is used elsewhere",
    ),
    Stays(
        "unknown rank",
        "agraph (float[M,3] a, int64[K] shape) => (float[M,5] y) <float[3,5] B, float[5] c> "
        "{ r = Reshape (a, shape) p = MatMul (r, B) y = Add (p, c) }",
        "the rank is unknown",
    ),
    Stays(
        "opset 6",
        "agraph (float[2,3] a) => (float[2,5] y) <float[3,5] B, float[2,5] c> { p = MatMul (a, B) y = Add (p, c) }",
        "before opset 7 Gemm does not broadcast",
        opset=6,
    ),
    Stays(
        "a subgraph uses the product",
        seen_by_subgraph(graph(), "p", "float[M,5]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a graph output",
        graph(y="float[M,5] y, float[M,5] p"),
        "an interior value is a graph output",
    ),
    Stays(
        "the product twice",
        graph("Add (p, p)"),
        "the replacement would use a value that it removes",
    ),
    Stays(
        "an addend made of the product",
        graph("Add (p, q)").replace("y = ", "q = Relu (p) y = "),
        "an interior value is used elsewhere",
    ),
    Stays(
        "an addend of unknown rank",
        graph("Add (p, r)", inputs="float[M,3] a, int64[K] s", c="float[5] c").replace(
            "y = ", "r = Reshape (c, s) y = "
        ),
        UNFIT,
    ),
    Stays(
        "an addend of another symbol",
        graph(inputs="float[M,3] a, float[K,5] c", c="float[1] d"),
        UNFIT,
    ),
    Stays(
        "an addend with another symbol in the rows",
        "agraph (float[M,3] a, float[3,K] b, float[L] c) => (float[M,N] y) { p = MatMul (a, b) y = Add (p, c) }",
        UNFIT,
    ),
    Stays(
        "bfloat16",
        graph().replace("float[", "bfloat16["),
        "the elements are not floating-point numbers",
        opset=22,
    ),
    Stays(
        "a batch of one matrix",
        "agraph (float[M,3] a) => (float[1,M,5] y) <float[1,3,5] B, float[5] c> { p = MatMul (a, B) y = Add (p, c) }",
        "the rank is not 2",
    ),
    Stays("subtracted", graph("Sub (p, c)"), None),
    Stays(
        "unknown rank of the second operand",
        "agraph (float[M,3] a, float[K] b, int64[L] s) => (float[M,5] y) <float[5] c> "
        "{ r = Reshape (b, s) p = MatMul (a, r) y = Add (p, c) }",
        "the rank is unknown",
    ),
]

FIRES = [
    Fires(
        "Gemm and a residual",
        "agraph (float[N,3] x, float[N,4] c) => (float[N,4] y) <float[3,4] W> { g = Gemm <alpha = 0.5, beta = 3.0> (x, W) y = Sum (c, g) }",
        ["Gemm"],
    ),
    Fires(
        "a transposed Gemm",
        "agraph (float[N,3] x) => (float[N,4] y) <float[4,3] W, float[4] c> { g = Gemm <transB = 1> (x, W) y = Add (g, c) }",
        ["Gemm"],
    ),
    Fires(
        "MatMul in a Sum",
        "agraph (float[N,3] x) => (float[N,4] y) <float[3,4] W, float[4] c> { g = MatMul (x, W) y = Sum (g, c) }",
        ["Gemm"],
    ),
    Fires("a vector", graph(), ["Gemm"]),
    Fires("commuted", graph("Add (c, p)"), ["Gemm"]),
    Fires("a row", graph(c="float[1,5] c"), ["Gemm"]),
    Fires("a scalar", graph(c="float c = {0.5}"), ["Gemm"]),
    Fires("one element", graph(c="float[1] c = {0.5}"), ["Gemm"]),
    Fires(
        "a column from outside",
        graph(inputs="float[M,3] a, float[M,1] c", c="float[1] d"),
        ["Gemm"],
    ),
    Fires(
        "a matrix from outside",
        graph(inputs="float[M,3] a, float[M,5] c", c="float[1] d"),
        ["Gemm"],
    ),
    Fires(
        "both operands from outside",
        "agraph (float[M,3] a, float[3,K] b) => (float[M,K] y) <float[1,1] c = {2}> "
        "{ p = MatMul (a, b) y = Add (p, c) }",
        ["Gemm"],
    ),
    Fires("double", graph().replace("float[", "double["), ["Gemm"]),
    Fires(
        "the sum of a product with itself in it",
        "agraph (float[M,3] a) => (float[M,3] y) <float[3,3] B> { p = MatMul (a, B) y = Add (p, a) }",
        ["Gemm"],
    ),
    Fires("opset 7", graph(), ["Gemm"], opset=7),
    Fires(
        "two products",
        graph("Add (p, q)", c="float[3,5] c").replace("y = ", "q = MatMul (a, c) y = "),
        ["MatMul", "Gemm"],
    ),
    Fires(
        "a column for each row",
        graph(inputs="float[4,3] a", c="float[4,1] c", y="float[4,5] y"),
        ["Gemm"],
    ),
    Fires("one row", graph(inputs="float[1,3] a", c="float[1,1] c", y="float[1,5] y"), ["Gemm"]),
    Fires(
        "nothing to sum",
        "agraph (float[M,K] a, float[K,5] b, float[5] c) => (float[M,5] y) { p = MatMul (a, b) y = Add (p, c) }",
        ["Gemm"],
        sizes={"K": 0},
    ),
    Fires("float16", graph().replace("float[", "float16["), ["Gemm"]),
    Fires(
        "both operands one value",
        "agraph (float[3,3] a) => (float[3,3] y) { p = MatMul (a, a) y = Add (a, p) }",
        ["Gemm"],
    ),
    Fires(
        "followed by another addend",
        graph("Add (q, c)").replace("y = ", "q = Add (p, c) y = "),
        ["Gemm", "Add"],
    ),
    Fires("opset 9, IR version 3", graph(), ["Gemm"], opset=9, ir_version=3),
    *[Fires(f"opset {opset}", graph(), ["Gemm"], opset=opset) for opset in (11, 13, 22)],
]

test_stays, test_fires = tables("MatMulBiasAddFusionPass", STAYS, FIRES, in_functions="never")
