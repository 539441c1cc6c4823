from harness import Fires, Stays, tables

STEPS = range(4)
SQUEEZED = " ".join(f"p{t} = Squeeze (s{t}, axis)" for t in STEPS)
SPLIT = "s0, s1, s2, s3 = Split <axis = 0, num_outputs = 4> (x) " + SQUEEZED
SLICED = " ".join(f"s{t} = Slice (x, k{t}, k{t + 1}, axis)" for t in STEPS) + " " + SQUEEZED
GATHERED = " ".join(f"p{t} = Gather <axis = 0> (x, i{t})" for t in STEPS)
PRODUCT = "g{t} = Gemm (p{t}, W, b)"
NUMBERS = (
    "int64[1] axis = {0}, "
    + ", ".join(f"int64[1] k{t} = {{{t}}}" for t in range(5))
    + ", int64 i0 = {0}, int64 i1 = {1}, int64 i2 = {-2}, int64 i3 = {3}"
)


def graph(
    pieces: str = SPLIT,
    product: str = PRODUCT,
    x: str = "float[4,2,8] x",
    weights: str = "float[8,6] W, float[6] b",
    y: str = "float[?,?] y",
    more: str = "",
    steps: int = 4,
) -> str:
    """A recurrence without weights of its own: every step adds the product of a piece to what there was."""
    products = " ".join(product.format(t=t) for t in range(steps))
    sums = " ".join(f"h{t} = Tanh ({'g0' if not t else f'a{t}'})" if not t else f"a{t} = Add (g{t}, h{t - 1}) h{t} = Tanh (a{t})" for t in range(steps))  # fmt: skip
    return f"agraph ({x}{more}) => ({y}) <{NUMBERS}, {weights}> {{ {pieces} {products} {sums} y = Identity (h{steps - 1}) }}"  # fmt: skip


def recurrence(*front: str, steps: int = 4) -> list[str]:
    return [*front, "Tanh", *["Add", "Tanh"] * (steps - 1), "Identity"]


TWO = "p0, p1 = Split <axis = 0, num_outputs = 2> (x)"
STAYS = [
    Stays("an open axis", graph(GATHERED, x="float[T,2,8] x"), None),
    Stays("an open batch", graph(x="float[4,B,8] x"), "the sizes are unknown"),
    Stays("many rows", graph(x="float[4,9,8] x"), "a product has more than 8 rows"),
    Stays("some pieces", graph(GATHERED, x="float[5,2,8] x").replace("{-2}", "{2}"), "the products do not read the whole value"),
    Stays(
        "a piece twice",
        graph(GATHERED.replace("i3", "i2").replace("p3 = Gather", "n = Neg (x) p3 = Gather"), "g{t} = MatMul (p{t}, W)"),
        "the pieces overlap",
    ),
    Stays("two, small", graph(TWO, "g{t} = MatMul (p{t}, W)", "float[2,8] x", steps=2), "the weights are small, and the products are few"),
    Stays("an addend with rows", graph(weights="float[8,6] W, float[2,6] b"), "each row may have an addend of its own"),
    Stays("scaled", graph(product="g{t} = Gemm <alpha = 0.5> (p{t}, W, b)"), "the products are scaled"),
    Stays("transposed", graph(product="g{t} = Gemm <transA = 1> (p{t}, W)", x="float[4,8,2] x"), "the pieces are transposed"),
    Stays(
        "weights from outside, transposed",
        graph(product="g{t} = Gemm <transB = 1> (p{t}, V, b)", more=", float[6,8] V"),
        "the weights that Gemm transposes are not constant",
    ),
    Stays(
        "large weights, transposed, that are used elsewhere",
        graph(product="g{t} = Gemm <transB = 1> (p{t}, V)", weights="float[200,8] V", more=", float[8] v").replace("y) <", "y, float[200] n) <").replace("{ s0", "{ n = MatMul (V, v) s0"),
        "large weights are used elsewhere: the model would grow",
    ),
    Stays(
        "other weights",
        graph(product="W{t} = Mul (W, two) g{t} = MatMul (p{t}, W{t})", weights="float[8,6] W, float two = {2}"),
        None,
    ),
    Stays(
        "pieces of the last axis",
        graph(SPLIT.replace("axis = 0", "axis = 2").replace("axis)", "last)"), x="float[8,8,4] x", weights="float[8,6] W, float[6] b, int64[1] last = {2}"),
        None,
    ),
    Stays("integers", graph(product="g{t} = MatMul (p{t}, W)", x="int32[4,2,8] x", weights="int32[8,6] W", y="int32[?,?] y").replace("Tanh", "Abs"), "the elements are not floating-point numbers"),
    Stays("wide results", graph(x="float[4,8,8] x", weights="float[8,32769] W, float[32769] b"), "the results of all products are large"),
]  # fmt: skip
FIRES = [
    Fires("a Split and Squeeze", graph(), recurrence("MatMul", "Add", "Split", *["Squeeze"] * 4)),
    Fires(
        "Slice and Squeeze", graph(SLICED), recurrence("MatMul", "Add", *["Slice", "Squeeze"] * 4)
    ),
    Fires("Gather", graph(GATHERED), recurrence("MatMul", "Add", *["Gather"] * 4)),
    Fires(
        "the second axis",
        graph(GATHERED.replace("axis = 0", "axis = -2"), x="float[2,4,8] x"),
        recurrence("MatMul", "Add", *["Gather"] * 4),
    ),
    Fires(
        "no addend",
        graph(product="g{t} = MatMul (p{t}, W)"),
        recurrence("MatMul", "Split", *["Squeeze"] * 4),
    ),
    Fires(
        "transposed weights",
        graph(product="g{t} = Gemm <transB = 1> (p{t}, W, b)", weights="float[6,8] W, float[6] b"),
        recurrence("MatMul", "Add", "Split", *["Squeeze"] * 4),
    ),
    Fires(
        "rows of a matrix, scaled",
        graph(
            "p0, p1, p2, p3 = Split <axis = 0, num_outputs = 4> (x)",
            "g{t} = Gemm <alpha = 0.5, transB = 1> (p{t}, W, b)",
            "float[8,8] x",
            "float[6,8] W, float[6] b",
        ),
        recurrence("Gemm", "Split"),
    ),
    Fires(
        "vectors",
        graph(GATHERED, "g{t} = MatMul (p{t}, W)", "float[4,8] x", y="float[?] y"),
        recurrence("MatMul", *["Gather"] * 4),
    ),
    Fires(
        "two of large weights",
        graph(TWO, "g{t} = MatMul (p{t}, W)", "float[2,8] x", "float[8,8192] W", steps=2),
        recurrence("MatMul", "Split", steps=2),
    ),
    Fires(
        "pieces of several rows, of which one is used elsewhere",
        graph(
            "p0, p1, p2, p3 = Split <axis = 0, num_outputs = 4> (x) n = Neg (p0)", x="float[8,8] x"
        ).replace("y) <", "y, float[?,?] n) <"),
        ["Split", "Neg", "Gemm", "Split", *recurrence()],
    ),
    Fires("opset 11", graph(GATHERED), recurrence("MatMul", "Add", *["Gather"] * 4), opset=11),
    Fires(
        "float16",
        graph(GATHERED).replace("float", "float16"),
        recurrence("MatMul", "Add", *["Gather"] * 4),
    ),
]

test_stays, test_fires = tables("SameWeightsMatMulPass", STAYS, FIRES, in_functions="never")
