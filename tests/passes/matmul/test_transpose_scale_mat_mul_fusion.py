from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    body: str = "p = MatMul (a, b) y = Mul (p, c)",
    c: str = "float c = {0.3}",
    a: str = "float[N,2,3] a",
    b: str = "float[N,3,4] b",
    y: str = "float[N,2,4] y",
) -> str:
    return f"agraph ({a}, {b}) => ({y}) <{c}> {{ {body} }}"


LEFT = {"body": "t = Transpose <perm = [0, 2, 1]> (a) y = MatMul (t, b)", "a": "float[N,3,2] a"}
RIGHT = {"body": "t = Transpose <perm = [0, 2, 1]> (b) y = MatMul (a, t)", "b": "float[N,4,3] b"}
EMPTY = "an axis may be empty, and the kernel divides by its length"


def batch(a: str, b: str, y: str = "[2,5,4] y", order: str = "[1, 0, 2]") -> str:
    return f"agraph (float{a}, float{b}) => (float{y}) {{ t = Transpose <perm = {order}> (a) y = MatMul (t, b) }}"


EXTREME = "the factor is zero, not finite, or of an extreme size"
ATTENTION = "onnxruntime looks for attention when it loads the model"
STAYS = [
    Stays(
        "a batch that may be empty beside a matrix",
        graph(LEFT["body"], a=LEFT["a"], b="float[3,4] b"),
        "a batch that may be empty is multiplied by one matrix",
    ),
    Stays("a vector of factors", graph(c="float[4] c"), "the factor is not a single number"),
    Stays(
        "a factor that raises the rank",
        graph(c="float[1,1,1,1] c = {2}", y="float[1,N,2,4] y"),
        "the factor may enlarge the value that it scales",
    ),
    Stays("zero", graph(c="float c = {0}"), EXTREME),
    Stays("divided by zero", graph("p = MatMul (a, b) y = Div (p, c)", c="float c = {0}"), EXTREME),
    Stays("infinite", graph(c="float c = {inf}"), EXTREME),
    Stays("NaN", graph(c="float c = {nan}"), EXTREME),
    Stays("very small", graph(c="float c = {1e-30}"), EXTREME),
    Stays("a divisor on top", graph("p = MatMul (a, b) y = Div (c, p)"), None),
    Stays(
        "a factor from outside",
        "agraph (float[N,3] a, float[3,4] b, float c) => (float[N,4] y) { p = MatMul (a, b) y = Mul (p, c) }",
        None,
    ),
    Stays(
        "double, inexact",
        graph().replace("float", "double"),
        "alpha is stored in float32, which cannot represent the factor",
    ),
    Stays(
        "integers",
        graph(c="int32 c = {3}").replace("float", "int32"),
        "no CPU kernel for FusedMatMul of int32",
    ),
    Stays(
        "another permutation",
        graph("t = Transpose <perm = [1, 0, 2]> (a) y = MatMul (t, b)", a="float[2,N,3] a"),
        EMPTY,
    ),
    Stays("all axes", graph("t = Transpose (a) y = MatMul (t, b)", a="float[3,2,N] a"), None),
    Stays(
        "no terms",
        graph(**{**RIGHT, "a": "float[N,2,K] a", "b": "float[N,4,K] b"}),
        "the summed axis may be empty",
    ),
    Stays(
        "no terms on the left",
        graph(**{**LEFT, "a": "float[N,0,2] a", "b": "float[N,0,4] b"}),
        "the summed axis may be empty",
    ),
    Stays(
        "beside a vector",
        "agraph (float[3,N] a, float[3] b) => (float[N] y) { t = Transpose (a) y = MatMul (t, b) }",
        "the rank is less than 2",
    ),
    Stays(
        "before a Softmax",
        graph("p = MatMul (a, b) q = Mul (p, c) s = Add (q, c) y = Softmax (s)"),
        ATTENTION,
    ),
    Stays("behind a Softmax", graph("s = Softmax (a) p = MatMul (s, b) y = Mul (p, c)"), ATTENTION),
    Stays(
        "quantized",
        "agraph (uint8[N,3] a, float[3,4] b) => (float[N,4] y) <float s = {0.1}, float c = {2}> { d = DequantizeLinear (a, s) p = MatMul (d, b) y = Mul (p, c) }",
        "onnxruntime has a product of the quantized elements",
    ),
    Stays(
        "weights of fewer bits",
        "agraph (float[N,3] a) => (float[N,4] y) <int8[3,4] w, float c = {2}> "
        "{ b = Cast <to = 1> (w) d = Mul (b, c) y = MatMul (a, d) }",
        "onnxruntime scales these weights when it loads the model",
    ),
    Stays(
        "the product is a graph output",
        graph(y="float[N,2,4] y, float[N,2,4] p"),
        "an interior value is a graph output",
    ),
    Stays(
        "a subgraph uses the product",
        seen_by_subgraph(graph(), "p", "float[N,2,4]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "the batch is transposed",
        "agraph (float[2,3,5] a, float[2,3,6] b) => (float[3,2,6] y) { t = Transpose <perm = [0, 2, 1]> (a) y = com.microsoft.FusedMatMul <transBatchA = 1> (t, b) }".replace(
            "float[2,3,5] a", "float[3,2,5] a"
        )
        .replace("float[2,3,6] b", "float[5,2,6] b")
        .replace("=> (float[3,2,6]", "=> (float[5,3,6]"),
        "the batch is transposed, too",
        valid=False,
    ),
    Stays(
        "two transposed batches in a row",
        "agraph (float[3,2,5] a, float[2,5,6] b) => (float[3,2,6] y) { t = Transpose <perm = [1, 0, 2]> (a) y = com.microsoft.FusedMatMul <transBatchA = 1> (t, b) }".replace(
            "float[2,5,6] b", "float[3,5,6] b"
        ),
        "the batch is transposed, too",
        valid=False,
    ),
    Stays("a batch that may be empty", batch("[N,2,3] a", "[2,3,4] b"), EMPTY),
    Stays("an empty axis", batch("[0,2,3] a", "[2,3,4] b", "[2,0,4] y"), EMPTY),
    Stays("columns that may be empty", batch("[5,2,3] a", "[2,3,N] b"), EMPTY),
    Stays("a batch and a matrix", batch("[5,2,3] a", "[3,4] b"), "the ranks differ"),
    Stays(
        "a batch before a Softmax",
        batch("[5,2,3] a", "[2,3,4] b", "[2,5,4] p")
        .replace("}", "y = Softmax (p) }")
        .replace("y = MatMul", "p = MatMul")
        .replace("[2,5,4] p", "[2,5,4] y"),
        ATTENTION,
    ),
    Stays("the last axis first", batch("[2,3,5] a", "[5,3,2] b", "[5,2,2] y", "[2, 0, 1]"), None),
]

FUSED = ["FusedMatMul"]
FIRES = [
    Fires(
        "float16, between Casts of onnxruntime",
        graph(c="float c = {14336}").replace("float", "float16"),  # the bits of 0.5
        ["FusedMatMul"],
    ),
    Fires("scaled", graph(), FUSED),
    Fires("scaled, commuted", graph("p = MatMul (a, b) y = Mul (c, p)"), FUSED),
    Fires("divided", graph("p = MatMul (a, b) y = Div (p, c)"), FUSED),
    Fires("rank 1", graph(c="float[1] c = {-2}"), FUSED),
    Fires("left scaled", graph("p = Mul (a, c) y = MatMul (p, b)"), FUSED),
    Fires("right divided", graph("p = Div (b, c) y = MatMul (a, p)"), FUSED),
    Fires("both scaled", graph("p = Mul (a, c) q = Mul (b, c) y = MatMul (p, q)"), FUSED, 2),
    Fires(
        "the factor scaled by itself",
        "agraph (float[1,N] b) => (float[1,N] y) <float[1,1] c = {-2}> { p = Mul (c, c) y = MatMul (p, b) }",
        FUSED,
    ),
    Fires("left transposed", graph(**LEFT), FUSED),
    Fires("right transposed", graph(**RIGHT), FUSED),
    Fires(
        "a matrix, transposed by default",
        "agraph (float[3,N] a, float[3,4] b) => (float[N,4] y) { t = Transpose (a) y = MatMul (t, b) }",
        FUSED,
    ),
    Fires(
        "one value twice",
        "agraph (float[N,3] a) => (float[N,N] y) { t = Transpose (a) y = MatMul (a, t) }",
        FUSED,
    ),
    Fires(
        "all of it",
        graph(
            "t = Transpose <perm = [0, 2, 1]> (b) s = Mul (t, c) p = MatMul (a, s) y = Div (p, c)",
            b="float[N,4,3] b",
        ),
        FUSED,
        3,
    ),
    Fires(
        "scaled below the transposition",
        graph(
            "s = Mul (b, c) t = Transpose <perm = [0, 2, 1]> (s) y = MatMul (a, t)",
            b="float[N,4,3] b",
        ),
        FUSED,
        2,
    ),
    Fires(
        "broadcast batches",
        graph(**{**RIGHT, "a": "float[2,N,5,3] a", "y": "float[2,N,5,4] y"}),
        FUSED,
    ),
    Fires("a transposed batch", batch("[5,2,3] a", "[2,3,4] b"), FUSED),
    Fires(
        "a transposed batch and columns", batch("[3,2,5] a", "[2,3,4] b", order="[1, 2, 0]"), FUSED
    ),
    Fires(
        "a transposed batch of the right",
        batch("[2,5,3] b", "[3,2,4] a").replace("MatMul (t, b)", "MatMul (b, t)"),
        FUSED,
    ),
    Fires(
        "a transposed batch and columns of the right",
        batch("[2,5,3] b", "[4,2,3] a", order="[1, 2, 0]").replace(
            "MatMul (t, b)", "MatMul (b, t)"
        ),
        FUSED,
    ),
    Fires(
        "a transposed batch of four axes",
        batch("[5,2,7,3] a", "[2,1,3,4] b", "[2,7,5,4] y", "[1, 2, 0, 3]"),
        FUSED,
    ),
    Fires(
        "both batches",
        batch("[5,2,3] a", "[3,2,4] b")
        .replace("MatMul (t, b)", "MatMul (t, u)")
        .replace("{ t", "{ u = Transpose <perm = [1, 0, 2]> (b) t"),
        FUSED,
        2,
    ),
    Fires(
        "a transposed batch, then transposed rows",
        batch("[3,2,5] a", "[2,3,4] b")
        .replace("y =", "s = Transpose <perm = [0, 2, 1]> (t) y =")
        .replace("MatMul (t", "MatMul (s"),
        FUSED,
        2,
    ),
    Fires(
        "a transposed batch in float16",
        batch("[5,2,3] a", "[2,3,4] b").replace("float", "float16"),
        FUSED,
    ),
    Fires("double", graph(c="float c = {0.25}").replace("float", "double"), FUSED),
    Fires("nothing to sum", graph(a="float[N,2,K] a", b="float[N,K,4] b"), FUSED, sizes={"K": 0}),
    Fires(
        "rows and columns that may be missing",
        graph(**{**RIGHT, "a": "float[N,M,3] a", "b": "float[N,L,3] b", "y": "float[N,M,L] y"}),
        FUSED,
    ),
    Fires(
        "vectors, scaled",
        "agraph (float[3] a, float[3,4] b) => (float[4] y) <float c = {0.3}> { p = MatMul (a, b) y = Mul (p, c) }",
        FUSED,
    ),
    Fires(
        "of onnxruntime already",
        graph(
            "p = com.microsoft.FusedMatMul <alpha = 0.5, transB = 1> (a, b) y = Mul (p, c)",
            b="float[N,4,3] b",
        ),
        FUSED,
    ),
    *[Fires(f"opset {opset}", graph(), FUSED, opset=opset) for opset in (7, 13, 22)],
]

test_stays, test_fires = tables(
    "TransposeScaleMatMulFusionPass", STAYS, FIRES, in_functions="never"
)
