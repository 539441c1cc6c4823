from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    body: str, a: str = "float[3,M] a", b: str = "float[3,N] b", y: str = "float[M,N] y"
) -> str:
    return f"agraph ({a}, {b}) => ({y}) {{ {body} }}"


T = "t = Transpose (a)"
SWAP = "<perm = [0, 2, 1]>"
BATCH = {"a": "float[B,3,M] a", "b": "float[B,N,3] b", "y": "float[B,M,N] y"}
OTHER = "agraph (float[3,M] a, float[3,N] b) => (float[M,N] y, float[M,3] z) { t = Transpose (a) y = Gemm (t, b) z = Neg (t) }"

TURNED = "agraph (float[M,3] a, float[3,N] b{}) => (float[N,M] y) {} {{ g = Gemm {} y = Transpose <perm = [1, 0]> (g) }}"

STAYS = [
    *(
        Stays(
            f"dequantized weights, {product}",
            f"agraph (float[M,3] a) => (float[M,2] y) <int8[2,3] W = {{1, 2, 3, 4, 5, 6}}, float s = {{0.1}}> "
            f"{{ w = DequantizeLinear (W, s) t = Transpose <perm = [1, 0]> (w) y = {product} (a, t) }}",
            "onnxruntime transposes dequantized weights once when it loads the model, but a product does so in each run",
        )
        for product in ("MatMul", "Gemm")
    ),
    Stays(
        "of a Gemm with weights and an addend",
        "agraph (float[M,3] a) => (float[2,M] y) <float[3,2] b = {1, 2, 3, 4, 5, 6}, float[2] c = {1, 2}> "
        "{ g = Gemm (a, b, c) y = Transpose <perm = [1, 0]> (g) }",
        "onnxruntime packs constant weights once at load if they are the second operand, but in "
        "each run if they are the first",
    ),
    Stays(
        "of a Gemm, the addend no constant",
        TURNED.format(", float[N] c", "", "(a, b, c)"),
        "the addend is not a constant that can be transposed",
    ),
    Stays(
        "of a Gemm with an addend, opset 6",
        TURNED.format("", "<float[N] c>", "<broadcast = 1> (a, b, c)").replace("N", "2"),
        "before opset 7 the addend of a Gemm is broadcast in another way",
        opset=6,
    ),
    Stays(
        "of a Gemm, a large addend that is used elsewhere",
        "agraph (float[M,3] a, float[3,1025] b) => (float[1025,M] y, float[1025] z) <float[1025] c> "
        "{ g = Gemm (a, b, c) y = Transpose <perm = [1, 0]> (g) z = Neg (c) }",
        "the addend is not a constant that can be transposed",
    ),
    Stays(
        "of a Gemm, no exchange",
        TURNED.format("", "", "(a, b)").replace("1, 0", "0, 1").replace("N,M", "M,N"),
        None,
    ),
    Stays(
        "of a Gemm that is used elsewhere",
        TURNED.format("", "", "(a, b)")
        .replace("[N,M] y", "[N,M] y, float[M,N] z")
        .replace("(g)", "(g) z = Neg (g)"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "transposed twice",
        "agraph (float[2,M,3] a, float[2,N,3] b) => (float[2,M,N] y) { s = Transpose <perm = [0,2,1]> (a) "
        "t = Transpose <perm = [0,2,1]> (s) u = Transpose <perm = [0,2,1]> (b) y = MatMul (t, u) }",
        "a Transpose of a Transpose must be simplified first",
    ),
    Stays("used elsewhere", OTHER.replace("Gemm", "MatMul"), "an interior value is used elsewhere"),
    Stays(
        "a graph output",
        graph(T + " y = MatMul (t, b)", y="float[M,N] y, float[M,3] t"),
        "an interior value is a graph output",
    ),
    Stays(
        "a subgraph uses it",
        seen_by_subgraph(graph(T + " y = MatMul (t, b)"), "t", "float[M,3]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "rank 3, one operand",
        graph(
            f"t = Transpose {SWAP} (a) y = MatMul (t, b)",
            "float[B,3,M] a",
            "float[B,3,N] b",
            "float[B,M,N] y",
        ),
        None,
    ),
    Stays(
        "integers",
        graph(T + " y = MatMul (t, b)").replace("float", "int32"),
        "the elements are not floating-point numbers",
    ),
    Stays(
        "another permutation, both",
        graph(
            "t = Transpose <perm = [1, 2, 0]> (a) u = Transpose <perm = [1, 2, 0]> (b) y = MatMul (t, u)",
            "float[M,B,3] a".replace("M,B,3", "3,B,M"),
            "float[N,B,3] b",
            "float[B,M,N] y",
        ),
        None,
    ),
    Stays(
        "both, of different ranks",
        graph(
            f"t = Transpose {SWAP} (a) u = Transpose (b) y = MatMul (t, u)",
            "float[B,3,M] a",
            "float[N,3] b",
            "float[B,M,N] y",
        ),
        "the ranks differ",
    ),
    Stays(
        "of unknown rank",
        "agraph (float[3,M] a, float[K] b, int64[L] s) => (float[M,N] y) { t = Transpose (a) r = Reshape (b, s) y = MatMul (t, r) }",
        "the rank is unknown",
    ),
    Stays("nothing is transposed", graph("y = MatMul (a, b)", "float[M,3] a"), None),
    Stays("a Gemm of nothing transposed", graph("y = Gemm <transA = 1> (a, b)"), None),
]

FIRES = [
    Fires("the first operand of a Gemm, used elsewhere", OTHER, ["Transpose", "Gemm", "Neg"]),
    Fires(
        "an operand that is a graph output",
        "agraph (float[M,3] a, float[N,3] b) => (float[M,N] y, float[3,M] t) "
        "{ t = Transpose (a) u = Transpose (b) y = Gemm <transA = 1> (t, u) }",
        ["Transpose", "Gemm"],
    ),
    Fires("of a Gemm", TURNED.format("", "", "<alpha = 3.0> (a, b)"), ["Gemm"]),
    Fires(
        "of a Gemm, default perm",
        TURNED.format("", "", "(a, b)").replace("<perm = [1, 0]>", ""),
        ["Gemm"],
    ),
    Fires(
        "of a Gemm, one operand transposed",
        TURNED.format("", "", "<transB = 1> (a, b)").replace("[3,N]", "[N,3]"),
        ["Gemm"],
    ),
    Fires(
        "of a Gemm, both operands transposed",
        TURNED.format("", "", "<transA = 1, transB = 1> (a, b)")
        .replace("[3,N]", "[N,3]")
        .replace("[M,3]", "[3,M]"),
        ["Gemm"],
    ),
    *(
        Fires(
            f"of a Gemm with {name}",
            TURNED.format("", f"<float{shape} c = {{{values}}}>", "<beta = 0.5> (a, b, c)")
            .replace("N]", "2]")
            .replace("[N", "[2")
            .replace("M", "4"),
            ["Gemm"],
        )
        for name, shape, values in [
            ("a row", "[2]", "1, 2"),
            ("a column", "[4,1]", "1, 2, 3, 4"),
            ("a matrix", "[4,2]", "1, 2, 3, 4, 5, 6, 7, 8"),
            ("a number", "", "1"),
        ]
    ),
    Fires("the first operand of a Gemm", graph(T + " y = Gemm (t, b)"), ["Gemm"]),
    Fires("with perm", graph("t = Transpose <perm = [1, 0]> (a) y = Gemm (t, b)"), ["Gemm"]),
    Fires(
        "that is transposed already",
        graph(T + " y = Gemm <transA = 1, alpha = 0.5> (t, b)", "float[M,3] a"),
        ["Gemm"],
    ),
    Fires(
        "the second operand",
        graph("t = Transpose (b) y = Gemm (a, t)", "float[M,3] a", "float[N,3] b"),
        ["Gemm"],
    ),
    Fires(
        "both operands",
        graph("t = Transpose (b) u = Transpose (a) y = Gemm (u, t)", b="float[N,3] b"),
        ["Gemm"],
    ),
    Fires(
        "with an addend",
        "agraph (float[3,M] a, float[3,5] b) => (float[M,5] y) <float[5] c> { t = Transpose (a) y = Gemm <beta = 0.5> (t, b, c) }",
        ["Gemm"],
    ),
    Fires(
        "a Transpose that does nothing",
        graph("t = Transpose <perm = [0, 1]> (a) y = Gemm (t, b)", "float[M,3] a"),
        ["Gemm"],
    ),
    Fires("the first operand of a MatMul", graph(T + " y = MatMul (t, b)"), ["Gemm"]),
    Fires(
        "the second operand of a MatMul",
        graph("t = Transpose (b) y = MatMul (a, t)", "float[M,3] a", "float[N,3] b"),
        ["Gemm"],
    ),
    Fires(
        "both operands of a MatMul",
        graph("t = Transpose (b) u = Transpose (a) y = MatMul (u, t)", b="float[N,3] b"),
        ["Gemm"],
    ),
    Fires(
        "both, of rank 3",
        graph(f"t = Transpose {SWAP} (a) u = Transpose {SWAP} (b) y = MatMul (t, u)", **BATCH),
        ["MatMul", "Transpose"],
    ),
    Fires(
        "both, and the result",
        graph(
            f"t = Transpose {SWAP} (a) u = Transpose {SWAP} (b) m = MatMul (t, u) y = Transpose {SWAP} (m)",
            **BATCH | {"y": "float[B,N,M] y"},
        ),
        ["MatMul"],
    ),
    Fires(
        "one value twice",
        "agraph (float[3,3] a) => (float[3,3] y) { t = Transpose (a) y = MatMul (a, t) }",
        ["Gemm"],
    ),
    Fires("double", graph(T + " y = MatMul (t, b)").replace("float", "double"), ["Gemm"]),
    *[
        Fires(
            f"opset {opset}",
            graph(T + " y = Gemm (t, b, c)").replace(") =>", ", float[1] c) =>"),
            ["Gemm"],
            opset=opset,
        )
        for opset in (7, 9, 11, 13)
    ],
]

test_stays, test_fires = tables("BatchMatMulFusionPass", STAYS, FIRES, in_functions="less often")
