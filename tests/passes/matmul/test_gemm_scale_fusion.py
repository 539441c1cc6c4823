from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    body: str,
    x: str = "float[M,3] x",
    y: str = "float[M,4] y",
    constants: str = "float[3,4] W, float[4] B, float[4] c, float s = {0.3}",
) -> str:
    return f"agraph ({x}) => ({y}) <{constants}> {{ {body} }}"


GEMM = "g = Gemm (x, W, B)"
MATMUL = "p = MatMul (x, W)"
BIASED = "p = MatMul (x, W) g = Add (p, B)"
RANK_3 = {"x": "float[N,M,3] x", "y": "float[N,M,4] y"}
HEADS = {
    "x": "float[N,M,3] x",
    "y": "float[N,2,M,2] y",
    "constants": "float[3,4] W, float[4] B, float s = {0.3}",
}
SPLIT = BIASED + " k = Constant <value = int64[4] {0, 0, 2, 2}> () r = Reshape (g, k)"
STATISTICS = "float[3,4] W, float[4] B, float[4] s, float[4] o, float[4] m, float[4] v"
COLUMN = "the constant has neither one number nor one number for each column"
ENLARGES = "the constant may enlarge the value that it is combined with"

STAYS = [
    Stays(
        "one number for each row behind a Transpose",
        graph(
            BIASED + " t = Transpose <perm = [1, 0]> (g) y = Mul (t, d)",
            y="float[4,3] y",
            x="float[3,3] x",
            constants="float[3,4] W, float[4] B, float[3] d",
        ),
        COLUMN,
    ),
    Stays(
        "statistics of rows, as the bias raises the rank",
        graph(
            "p = MatMul (x, W) g = Add (p, B) y = BatchNormalization (g, s, o, m, v)",
            y="float[1,4,4] y",
            x="float[4,3] x",
            constants=STATISTICS.replace("float[4] B", "float[1,1,4] B"),
        ),
        "the rank is not 2",
    ),
    Stays(
        "an opset whose Add does not broadcast by itself",
        graph("p = MatMul (x, W) g = Add <broadcast = 1> (p, B) y = Mul <broadcast = 1> (g, c)"),
        None,
        opset=6,
        ir_version=3,
        target="onnx",
    ),
    Stays(
        "behind a Transpose it raises the rank",
        graph(
            BIASED + " t = Transpose <perm = [1, 0]> (g) y = Mul (t, d)",
            y="float[1,4,M] y",
            constants="float[3,4] W, float[4] B, float[1,4,1] d",
        ),
        "the constant after a Reshape is not a single number",
    ),
    Stays(
        "several numbers behind a Reshape",
        graph(
            SPLIT + " y = Mul (r, d)", **{**HEADS, "constants": HEADS["constants"] + ", float[2] d"}
        ),
        "the constant after a Reshape is not a single number",
    ),
    Stays(
        "a number behind a Reshape raises the rank",
        graph(
            SPLIT + " y = Mul (r, d)",
            **{
                **HEADS,
                "y": "float[1,N,2,M,2] y",
                "constants": HEADS["constants"] + ", float[1,1,1,1,1] d",
            },
        ),
        "the constant after a Reshape is not a single number",
    ),
    Stays(
        "integers in front of the product",
        graph("i = Mul (x, s) y = MatMul (i, W)", constants="float[3,4] W, float s = {2}").replace(
            "float", "int32"
        ),
        "the elements are not floating-point numbers",
    ),
    Stays(
        "a vector for weights, scaled before",
        graph(
            "i = Mul (x, s) y = MatMul (i, W)",
            y="float[M] y",
            constants="float[3] W, float s = {2}",
        ),
        "the weights are a vector",
    ),
    Stays(
        "used elsewhere",
        graph(GEMM + " y = Mul (g, c) z = Relu (g)", y="float[M,4] y, float[M,4] z"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a subgraph uses the product",
        seen_by_subgraph(graph(GEMM + " y = Mul (g, c)"), "g", "float[M,4]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a graph output",
        graph(GEMM + " y = Mul (g, c)", y="float[M,4] y, float[M,4] g"),
        "an interior value is a graph output",
    ),
    Stays(
        "a factor from outside", graph(GEMM + " y = Mul (g, f)", x="float[M,3] x, float[4] f"), None
    ),
    Stays(
        "weights from outside",
        graph("g = Gemm (x, V) y = Mul (g, c)", x="float[M,3] x, float[3,4] V"),
        None,
    ),
    Stays(
        "a factor for each row",
        graph(
            GEMM + " y = Mul (g, d)",
            x="float[4,3] x",
            y="float[4,4] y",
            constants="float[3,4] W, float[4] B, float[4,1] d",
        ),
        COLUMN,
    ),
    Stays(
        "a factor of another rank",
        graph(
            GEMM + " y = Mul (g, d)",
            y="float[1,M,4] y",
            constants="float[3,4] W, float[4] B, float[1,1,4] d",
        ),
        ENLARGES,
    ),
    Stays(
        "a factor that enlarges one column",
        graph("g = Gemm (x, W) y = Mul (g, c)", constants="float[3,1] W, float[4] c"),
        COLUMN,
    ),
    Stays("divided by the product", graph(GEMM + " y = Div (c, g)"), None),
    Stays(
        "divided by zero",
        graph(GEMM + " y = Div (g, z)", constants="float[3,4] W, float[4] B, float z = {0}"),
        "the factor is not finite",
    ),
    Stays(
        "integers",
        "agraph (int32[M,3] x) => (int32[M,4] y) <int32[3,4] W, int32[4] c> { p = MatMul (x, W) y = Mul (p, c) }",
        "the elements are not floating-point numbers",
    ),
    Stays(
        "weights that float16 cannot hold",
        graph("p = MatMul (x, W) y = Mul (p, d)", constants="float[3,4] W, float d = {60000}")
        .replace("float", "float16")
        .replace("float16[3,4] W", "float16[1,4] W = {60000, 1, 1, 1}")
        .replace("[M,3]", "[M,1]"),
        "a constant would overflow in float16",
    ),
    Stays(
        "weights too small for float16",
        graph("p = MatMul (x, W) y = Mul (p, d)", constants="float[3,4] W, float d = {2}").replace(
            "float", "float16"
        ),
        "the scaled weights are too small for their type",
    ),
    Stays(
        "a bias that would become larger",
        graph(
            "p = MatMul (x, W) g = Add (p, D) y = Mul (g, c)",
            x="float[5,3] x",
            y="float[5,4] y",
            constants="float[3,4] W, float[5,1] D, float[4] c",
        ),
        "the bias would become larger",
    ),
    Stays(
        "weights that are a vector",
        graph(
            "p = MatMul (x, w) y = Mul (p, s)",
            y="float[M] y",
            constants="float[3] w, float s = {0.3}",
        ),
        "the weights are a vector",
    ),
    Stays(
        "a column factor behind a Reshape",
        graph(
            SPLIT + " y = Mul (r, d)",
            x="float[N,M,3] x",
            y="float[N,M,2,2] y",
            constants="float[3,4] W, float[4] B, float[2] d",
        ),
        "the constant after a Reshape is not a single number",
    ),
    Stays("another activation between", graph(GEMM + " a = Relu (g) y = Mul (a, c)"), None),
    Stays(
        "a column of x that is broadcast",
        graph(
            "z = Mul (x, d) y = MatMul (z, W)",
            x="float[M,1] x",
            constants="float[3,4] W, float[3] d",
        ),
        "the constant has neither one number nor one number for each row of the weights",
    ),
    Stays(
        "a factor that gives x its rank",
        graph(
            "z = Mul (x, d) y = MatMul (z, W)",
            x="float[3] x",
            y="float[1,4] y",
            constants="float[3,4] W, float[1,3] d",
        ),
        ENLARGES,
    ),
    Stays(
        "a factor for each row of x",
        graph(
            "z = Mul (x, d) y = MatMul (z, W)",
            x="float[2,3] x",
            y="float[2,4] y",
            constants="float[3,4] W, float[2,1] d",
        ),
        COLUMN,
    ),
    Stays(
        "rows of a transposed operand",
        graph(
            "z = Mul (x, d) y = Gemm <transA = 1> (z, W)",
            x="float[3,3] x",
            y="float[3,4] y",
            constants="float[3,4] W, float[3] d",
        ),
        "the constant has neither one number nor one number for each row of the weights",
    ),
    Stays(
        "batch normalization of rank 3",
        graph(
            "p = MatMul (x, W) y = BatchNormalization (p, s, o, m, v)",
            x="float[N,4,3] x",
            y="float[N,4,4] y",
            constants=STATISTICS,
        ),
        "the rank is not 2",
    ),
    Stays(
        "the BatchNormalization is in training mode",
        graph(
            GEMM + " y, r, q = BatchNormalization <training_mode = 1> (g, s, o, m, v)",
            constants=STATISTICS,
        ),
        "the BatchNormalization is in training mode",
    ),
    Stays(
        "a Gemm that leaves out its bias, normalized",
        graph(
            "g = Gemm <beta = 0.0> (x, W, B) y = BatchNormalization (g, s, o, m, v)",
            constants=STATISTICS,
        ),
        "the Gemm ignores its bias",
    ),
    Stays(
        "two factors for rows",
        "agraph (float[2,3] a, float[3,M] b) => (float[2,M] y) <float[3] c, float[3,1] d> { p = Mul (a, c) q = Mul (b, d) y = MatMul (p, q) }",
        "the scales are not two single numbers",
    ),
    Stays(
        "half of Gelu",
        "agraph (float[N,3] x) => (float[N,4] y) <float[3,4] W, float one = {1}, float half = {0.5}, float r = {1.4142135}> "
        "{ d = Div (x, r) e = Erf (d) a = Add (e, one) p = Mul (x, a) g = Mul (p, half) y = MatMul (g, W) }",
        "onnxruntime recognizes Gelu by this factor, so it stays",
    ),
    Stays(
        "the scale of a normalization",
        "agraph (float[N,3] x) => (float[N,4] y) <float[3,4] W, float[3] c, float two = {2}, float eps = {0.1}> { s = Pow (x, two) "
        "m = ReduceMean <keepdims = 1> (s) e = Add (m, eps) r = Sqrt (e) q = Reciprocal (r) n = Mul (x, q) g = Mul (c, n) y = MatMul (g, W) }",
        "onnxruntime recognizes normalizations by this scale, so it stays",
    ),
    Stays(
        "a factor that keeps a result in range",
        "agraph (float[2,3] a, float[3,M] b) => (float[2,M] y) <float c = {2}, float d = {0.5}> { p = Mul (a, c) q = Mul (b, d) y = MatMul (p, q) }",
        "a scale above 1 or below 1/64 may keep intermediate results in the range of their type",
    ),
    Stays(
        "factors that are too small",
        "agraph (float[2,3] a, float[3,M] b) => (float[2,M] y) <float c = {0.01}, float d = {0.5}> { p = Mul (a, c) q = Mul (b, d) y = MatMul (p, q) }",
        "a scale above 1 or below 1/64 may keep intermediate results in the range of their type",
    ),
    Stays(
        "two factors, one of a higher rank",
        "agraph (float[2,3] a, float[3,M] b) => (float[1,2,M] y) <float[1,1,1] c = {0.5}, float d = {0.5}> { p = Mul (a, c) q = Mul (b, d) y = MatMul (p, q) }",
        ENLARGES,
    ),
]

FIRES = [
    Fires("Gemm", graph(GEMM + " y = Mul (g, c)"), ["Gemm"]),
    Fires("commuted", graph(GEMM + " y = Mul (c, g)"), ["Gemm"]),
    Fires("a scalar", graph(GEMM + " y = Mul (g, s)"), ["Gemm"]),
    Fires(
        "a row",
        graph(GEMM + " y = Mul (g, d)", constants="float[3,4] W, float[4] B, float[1,4] d"),
        ["Gemm"],
    ),
    Fires("divided", graph(GEMM + " y = Div (g, c)"), ["Gemm"]),
    Fires(
        "Gemm with all attributes",
        graph(
            "g = Gemm <alpha = 0.5, beta = 2.0, transA = 1, transB = 1> (x, W, B) y = Mul (g, c)",
            x="float[3,M] x",
            constants="float[4,3] W, float[4] B, float[4] c",
        ),
        ["Gemm"],
    ),
    Fires("Gemm without a bias", graph("g = Gemm (x, W) y = Mul (g, c)"), ["Gemm"]),
    Fires(
        "a bias of one number",
        graph(GEMM + " y = Mul (g, c)", constants="float[3,4] W, float B = {0.5}, float[4] c"),
        ["Gemm"],
    ),
    Fires("MatMul", graph(MATMUL + " y = Mul (p, c)", **RANK_3), ["MatMul"]),
    Fires(
        "MatMul of a vector",
        graph(MATMUL + " y = Mul (p, c)", x="float[3] x", y="float[4] y"),
        ["MatMul"],
    ),
    Fires(
        "a batch of weights",
        graph(
            MATMUL + " y = Mul (p, c)",
            x="float[2,M,3] x",
            y="float[2,M,4] y",
            constants="float[2,3,4] W, float[4] c",
        ),
        ["MatMul"],
    ),
    Fires("MatMul and a bias", graph(BIASED + " y = Mul (g, c)", **RANK_3), ["MatMul", "Add"]),
    Fires(
        "the bias first",
        graph("p = MatMul (x, W) g = Add (B, p) y = Div (g, s)", **RANK_3),
        ["MatMul", "Add"],
    ),
    Fires(
        "one number for each channel behind a Transpose",
        graph(
            BIASED + " t = Transpose <perm = [0, 3, 1, 2]> (g) y = Mul (t, d)",
            x="float[N,2,5,3] x",
            y="float[N,4,2,5] y",
            constants="float[3,4] W, float[4] B, float[4,1,1] d",
        ),
        ["MatMul", "Add", "Transpose"],
    ),
    Fires(
        "behind two Transposes",
        graph(BIASED + " u = Transpose (g) t = Transpose <perm = [1, 0]> (u) y = Mul (t, c)"),
        ["MatMul", "Add", "Transpose", "Transpose"],
    ),
    Fires(
        "behind Reshape and Transpose",
        graph(SPLIT + " t = Transpose <perm = [0, 2, 1, 3]> (r) y = Mul (t, s)", **HEADS),
        ["Constant", "MatMul", "Add", "Reshape", "Transpose"],
    ),
    Fires(
        "behind Unsqueeze",
        graph(
            BIASED + " k = Constant <value = int64[1] {1}> () u = Unsqueeze (g, k) y = Div (u, s)",
            y="float[M,1,4] y",
        ),
        ["Constant", "MatMul", "Add", "Unsqueeze"],
    ),
    Fires(
        "before the product",
        graph("z = Mul (x, d) y = MatMul (z, W)", constants="float[3,4] W, float[3] d"),
        ["MatMul"],
    ),
    Fires("a scalar before a Gemm", graph("z = Mul (s, x) y = Gemm (z, W, B)"), ["Gemm"]),
    Fires(
        "before a Gemm that transposes",
        graph(
            "z = Mul (x, d) y = Gemm <transB = 1> (z, W, B)",
            constants="float[4,3] W, float[4] B, float[3] d",
        ),
        ["Gemm"],
    ),
    Fires(
        "a scalar before a Gemm that transposes x",
        graph("z = Mul (x, s) y = Gemm <transA = 1> (z, W)", x="float[3,M] x"),
        ["Gemm"],
    ),
    Fires(
        "batch normalization",
        graph(GEMM + " y = BatchNormalization (g, s, o, m, v)", constants=STATISTICS),
        ["Gemm"],
    ),
    Fires(
        "batch normalization with a beta",
        graph(
            "g = Gemm <beta = 0.5> (x, W, B) y = BatchNormalization (g, s, o, m, v)",
            constants=STATISTICS,
        ),
        ["Gemm"],
    ),
    Fires(
        "batch normalization of a MatMul",
        graph(MATMUL + " y = BatchNormalization (p, s, o, m, v)", constants=STATISTICS),
        ["MatMul", "Add"],
    ),
    Fires(
        "attention that scales both operands",
        "agraph (float[N,3,4] a, float[N,4,3] b) => (float[N,3,3] y) <float s = {0.35}> { p = Mul (a, s) q = Mul (b, s) y = MatMul (p, q) }",
        ["Mul", "MatMul"],
    ),
    Fires(
        "two factors of one element",
        "agraph (float[2,3] a, float[3,M] b) => (float[2,M] y) <float[1] c = {0.5}, float[1,1] d = {0.9}> { p = Mul (c, a) q = Mul (b, d) y = MatMul (p, q) }",
        ["Mul", "MatMul"],
    ),
    Fires("double", graph(GEMM + " y = Mul (g, c)").replace("float", "double"), ["Gemm"]),
    *[
        Fires(f"opset {opset}", graph(GEMM + " y = Mul (g, c)"), ["Gemm"], opset=opset)
        for opset in (7, 9, 11, 13)
    ],
]

test_stays, test_fires = tables("GemmScaleFusionPass", STAYS, FIRES, in_functions="never")
