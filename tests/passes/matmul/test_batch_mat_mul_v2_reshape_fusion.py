from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    product: str = "p = Gemm (f, W, B)",
    x: str = "float[4,M,5] x",
    y: str = "float[4,M,6] y",
    constants: str = "float[5,6] W, float[6] B",
    flat: str = "{-1, 5}",
    shape: str = "{4, -1, 6}",
) -> str:
    length = shape.count(",") + 1
    return f"""agraph ({x}) => ({y}) <{constants}, int64[2] k = {flat}, int64[{length}] s = {shape}> {{
        f = Reshape (x, k)
        {product}
        y = Reshape (p, s)
    }}"""


COMPUTED = """agraph (float[N,M,5] x) => (float[N,M,6] y) <float[5,6] W, float[6] B, int64[2] k = {-1, 5}, int64[1] six = {6}> {
    f = Reshape (x, k)
    p = Gemm (f, W, B)
    d = Shape <start = 0, end = 2> (x)
    s = Concat <axis = 0> (d, six)
    y = Reshape (p, s)
}"""
QUANTIZED = "int8[5,6] W, float t = {0.5}, float[6] B"
KEPT = "the Reshapes do not only flatten leading axes"
STAYS = [
    Stays(
        "large weights are transposed and used elsewhere",
        graph(
            "p = Gemm <transB = 1> (f, W, B) z = Gemm <transB = 1> (w, W)",
            x="float[4,M,600] x, float[2,600] w",
            y="float[4,M,500] y, float[2,500] z",
            constants="float[500,600] W, float[500] B",
            flat="{-1, 600}",
            shape="{4, -1, 500}",
        ),
        "large weights are used elsewhere: the model would grow",
    ),
    Stays(
        "used elsewhere",
        graph("p = Gemm (f, W, B) z = Relu (p)", y="float[4,M,6] y, float[K,6] z"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "the rows are a graph output",
        graph(y="float[4,M,6] y, float[K,5] f"),
        "an interior value is a graph output",
    ),
    Stays(
        "a subgraph uses the product",
        seen_by_subgraph(graph(), "p", "float[K,6]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "nothing to multiply, of which there are any number of rows",
        """agraph (float[2,N,0] x) => (float[2,3,4] y) <float[0,4] W = {}, int64[2] f = {6,0}, int64[3] s = {2,3,4}> {
        a = Reshape <allowzero = 1> (x, f) p = MatMul (a, W) y = Reshape (p, s) }""",
        "the weights are empty, so the number of rows is undetermined",
    ),
    Stays("rows that are cut elsewhere", graph(x="float[4,M,10] x", y="float[4,K,6] y"), KEPT),
    Stays(
        "other leading dimensions",
        graph(x="float[4,6,5] x", y="float[6,4,6] y", shape="{6, -1, 6}"),
        KEPT,
    ),
    Stays("another rank", graph(y="float[2,2,M,6] y", shape="{2, 2, -1, 6}"), KEPT),
    Stays("columns that are cut", graph(y="float[4,M,3] y", shape="{4, -1, 3}"), KEPT),
    Stays(
        "a transposed operand",
        graph(
            "p = Gemm <transA = 1> (f, W, B)",
            x="float[4,5,5] x",
            y="float[5,1,6] y",
            constants="float[20,6] W, float[6] B",
            shape="{5, 1, 6}",
        ),
        "the weights are not a matrix, or the Gemm transposes its first operand",
    ),
    Stays(
        "a bias for each row",
        graph(x="float[4,2,5] x", y="float[4,2,6] y", constants="float[5,6] W, float[8,1] B"),
        "the bias has neither one number nor one number for each column",
    ),
    Stays(
        "integers",
        graph("p = MatMul (f, W)").replace("float", "int32"),
        "the elements are not floating-point numbers",
    ),
    *[
        Stays(
            f"dequantized weights, {attribute}",
            graph(
                f"w = DequantizeLinear (W, t) p = Gemm <{attribute}> (f, w, B)",
                constants=QUANTIZED.replace("5,6", "6,5" if "trans" in attribute else "5,6"),
            ),
            "dequantized weights would have to be transposed or scaled",
        )
        for attribute in ("transB = 1", "alpha = 0.5")
    ],
    Stays(
        "weights from outside", graph("p = Gemm (f, V, B)", x="float[4,M,5] x, float[5,6] V"), None
    ),
    Stays("an activation between", graph("q = Gemm (f, W, B) p = Relu (q)"), None),
    Stays(
        "two symbols that are exchanged",
        COMPUTED.replace("[N,M,6]", "[M,N,6]").replace(
            "d = Shape <start = 0, end = 2> (x)",
            "a = Shape <start = 0, end = 1> (x) b = Shape <start = 1, end = 2> (x) d = Concat <axis = 0> (b, a)",
        ),
        KEPT,
    ),
]

FIRES = [
    Fires("Gemm", graph(), ["MatMul", "Add"]),
    Fires("with a computed shape", COMPUTED, ["MatMul", "Add"], zero_sizes=False),
    Fires("Gemm without a bias", graph("p = Gemm (f, W)"), ["MatMul"]),
    Fires(
        "Gemm with all attributes",
        graph(
            "p = Gemm <alpha = 0.5, beta = 2.0, transB = 1> (f, W, B)",
            constants="float[6,5] W, float[6] B",
        ),
        ["MatMul", "Add"],
    ),
    Fires("a Gemm that leaves out its bias", graph("p = Gemm <beta = 0.0> (f, W, B)"), ["MatMul"]),
    Fires(
        "weights transposed",
        graph("p = Gemm <transB = 1> (f, W, B)", constants="float[6,5] W, float[6] B"),
        ["MatMul", "Add"],
    ),
    Fires(
        "weights scaled",
        graph("p = Gemm <alpha = 0.5> (f, W, B)", constants="float[5,6] W, float[1,6] B"),
        ["MatMul", "Add"],
    ),
    Fires(
        "a bias of one number", graph(constants="float[5,6] W, float B = {0.5}"), ["MatMul", "Add"]
    ),
    Fires("MatMul", graph("p = MatMul (f, W)"), ["MatMul"]),
    Fires("MatMul and an addend", graph("q = MatMul (f, W) p = Add (B, q)"), ["MatMul", "Add"]),
    Fires(
        "known dimensions",
        graph(x="float[4,2,5] x", y="float[4,2,6] y", flat="{8, 5}", shape="{4, 2, 6}"),
        ["MatMul", "Add"],
    ),
    Fires(
        "rank 4",
        graph(x="float[2,M,3,5] x", y="float[2,M,3,6] y", shape="{2, -1, 3, 6}"),
        ["MatMul", "Add"],
    ),
    Fires(
        "dequantized weights",
        graph("w = DequantizeLinear (W, t) p = Gemm (f, w, B)", constants=QUANTIZED),
        ["DequantizeLinear", "MatMul", "Add"],
    ),
    Fires(
        "weights that are dequantized for each column",
        graph(
            "w = DequantizeLinear <axis = 1> (W, t, z) p = MatMul (f, w)",
            constants="uint8[5,6] W, float[6] t, uint8[6] z",
        ),
        ["DequantizeLinear", "MatMul"],
    ),
    *[Fires(f"opset {opset}", graph(), ["MatMul", "Add"], opset=opset) for opset in (9, 11, 13)],
]

test_stays, test_fires = tables(
    "BatchMatMulV2ReshapeFusionPass", STAYS, FIRES, in_functions="never"
)
