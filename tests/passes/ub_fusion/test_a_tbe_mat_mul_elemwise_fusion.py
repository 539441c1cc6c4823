from harness import Fires, Stays, tables


def graph(
    activation: str = "Relu (p)", product: str = "Gemm (a, B, c)", inputs: str = "float[M,3] a", y: str = "float[M,5] y"
) -> str:
    return f"agraph ({inputs}) => ({y}) <float[3,5] B, float[5] c> {{ p = {product} y = {activation} }}"


STAYS = [
    Stays("rank 3", graph(product="MatMul (a, B)", inputs="float[N,M,3] a", y="float[N,M,5] y"), "the rank is not 2"),
    Stays("no kernel for double", graph().replace("float[", "double["), "no CPU kernel for FusedGemm of double"),
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
]

FIRES = [
    *[
        Fires(f, graph(f"{f} (p)"), ["FusedGemm"])
        for f in ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "Elu", "Softplus", "Softsign")
    ],
    Fires("parameters", graph("HardSigmoid <alpha = 0.3, beta = 0.4> (p)"), ["FusedGemm"]),
    Fires("alpha of Elu", graph("Elu <alpha = 0.3> (p)"), ["FusedGemm"]),
    Fires("alpha of LeakyRelu", graph("LeakyRelu <alpha = 0.3> (p)"), ["FusedGemm"]),
    Fires("without c", graph(product="Gemm (a, B)"), ["FusedGemm"]),
    Fires(
        "alpha, beta, transposed",
        graph(product="Gemm <alpha = 0.5, beta = 2.0, transA = 1> (a, B, c)", inputs="float[3,M] a"),
        ["FusedGemm"],
    ),
    Fires("MatMul", graph(product="MatMul (a, B)"), ["FusedGemm"]),
]

test_stays, test_fires = tables("ATbeMatMulElemwiseFusionPass", STAYS, FIRES)
