from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    activation: str = "Relu (p)",
    product: str = "Gemm (a, B, c)",
    inputs: str = "float[M,3] a",
    y: str = "float[M,5] y",
) -> str:
    return f"agraph ({inputs}) => ({y}) <float[3,5] B, float[5] c> {{ p = {product} y = {activation} }}"


STAYS = [
    Stays(
        "rank 3",
        graph(product="MatMul (a, B)", inputs="float[N,M,3] a", y="float[N,M,5] y"),
        "the rank is not 2",
    ),
    Stays(
        "no kernel for double",
        graph().replace("float[", "double["),
        "no CPU kernel for FusedGemm of double",
    ),
    Stays(
        "used elsewhere",
        graph("Mul (p, s)").replace("y = Mul", "s = Sigmoid (p) y = Mul"),
        "an interior value is used elsewhere",
    ),
    Stays("an activation without a kernel", graph("Erf (p)"), None),
    Stays(
        "unknown rank",
        "agraph (float[M,3] a, int64[K] s) => (float[M,5] y) <float[3,5] B> "
        "{ r = Reshape (a, s) p = MatMul (r, B) y = Relu (p) }",
        "the rank is unknown",
    ),
    Stays(
        "a subgraph uses the product",
        seen_by_subgraph(graph(), "p", "float[M,5]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "the product is a graph output",
        graph(y="float[M,5] y, float[M,5] p"),
        "an interior value is a graph output",
    ),
    Stays(
        "rank 1",
        graph(product="MatMul (a, B)", inputs="float[3] a", y="float[5] y"),
        "the rank is not 2",
    ),
    Stays(
        "before opset 7",
        graph(product="Gemm <broadcast = 1> (a, B, c)"),
        "before opset 7 Gemm does not broadcast",
        opset=6,
    ),
    Stays(
        "a product of integers",
        graph("Abs (p)", product="MatMul (a, B)").replace("float[", "int32["),
        None,
    ),
    Stays(
        "an addend between them", graph("Relu (q)", product="MatMul (a, B) q = Add (p, c)"), None
    ),
    Stays(
        "a batch of second operands",
        "agraph (float[M,3] a, float[N,3,5] b) => (float[N,M,5] y) { p = MatMul (a, b) y = Relu (p) }",
        "the rank is not 2",
    ),
    Stays(
        "unknown rank of the second operand",
        "agraph (float[M,3] a, float[K] b, int64[L] s) => (float[M,5] y) "
        "{ r = Reshape (b, s) p = MatMul (a, r) y = Relu (p) }",
        "the rank is unknown",
    ),
]

FIRES = [
    Fires(
        "float16, between Casts of onnxruntime",
        graph().replace("float[", "float16["),
        ["FusedGemm"],
    ),
    *[
        Fires(f, graph(f"{f} (p)"), ["FusedGemm"])
        for f in (
            "Relu",
            "LeakyRelu",
            "Sigmoid",
            "Tanh",
            "HardSigmoid",
            "Elu",
            "Softplus",
            "Softsign",
        )
    ],
    Fires("parameters", graph("HardSigmoid <alpha = 0.3, beta = 0.4> (p)"), ["FusedGemm"]),
    Fires("alpha of Elu", graph("Elu <alpha = 0.3> (p)"), ["FusedGemm"]),
    Fires("alpha of LeakyRelu", graph("LeakyRelu <alpha = 0.3> (p)"), ["FusedGemm"]),
    Fires("without c", graph(product="Gemm (a, B)"), ["FusedGemm"]),
    Fires(
        "alpha, beta, transposed",
        graph(
            product="Gemm <alpha = 0.5, beta = 2.0, transA = 1> (a, B, c)", inputs="float[3,M] a"
        ),
        ["FusedGemm"],
    ),
    Fires("MatMul", graph(product="MatMul (a, B)"), ["FusedGemm"]),
    Fires(
        "transposed weights",
        graph(product="Gemm <transB = 1, alpha = -1.5> (a, D, c) ").replace("[3,5] B", "[5,3] D"),
        ["FusedGemm"],
    ),
    Fires("beta of 0", graph("Tanh (p)", "Gemm <beta = 0.0> (a, B, c)"), ["FusedGemm"]),
    Fires(
        "a scalar",
        graph("Sigmoid (p)", "Gemm (a, B, d)", inputs="float[M,3] a, float d"),
        ["FusedGemm"],
    ),
    Fires(
        "a column",
        graph("Elu (p)", "Gemm (a, B, d)", inputs="float[M,3] a, float[M,1] d"),
        ["FusedGemm"],
    ),
    Fires(
        "a matrix",
        graph("Softplus (p)", "Gemm (a, B, d)", inputs="float[M,3] a, float[M,5] d"),
        ["FusedGemm"],
    ),
    Fires(
        "nothing to sum",
        "agraph (float[M,K] a, float[K,5] b, float[5] c) => (float[M,5] y) { p = Gemm (a, b, c) y = Softsign (p) }",
        ["FusedGemm"],
        sizes={"K": 0},
    ),
    Fires(
        "one value twice",
        "agraph (float[3,3] a) => (float[3,3] y) { p = Gemm <transB = 1> (a, a, a) y = Relu (p) }",
        ["FusedGemm"],
    ),
    Fires("LeakyRelu that turns the sign", graph("LeakyRelu <alpha = -0.5> (p)"), ["FusedGemm"]),
    Fires(
        "one activation after the other",
        graph("Tanh (q)", "Gemm (a, B, c) q = Relu (p)"),
        ["FusedGemm", "Tanh"],
    ),
    Fires("opset 7, IR version 3", graph("Softplus (p)"), ["FusedGemm"], opset=7, ir_version=3),
    *[
        Fires(f"opset {opset}", graph("Elu (p)"), ["FusedGemm"], opset=opset)
        for opset in (9, 11, 13, 22)
    ],
]

test_stays, test_fires = tables("ATbeMatMulElemwiseFusionPass", STAYS, FIRES, in_functions="never")
