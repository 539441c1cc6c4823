from harness import Fires, Stays, tables


def graph(body: str, c: str, x: str = "float[N,4] x", y: str = "") -> str:
    kind, _, rest = x.partition("[")
    return f"agraph ({x}) => ({y or kind + '[' + rest.replace(' x', ' y')}) <{c}> {{ {body} }}"


POW = "y = Pow (x, c)"
SQUARES = "a = Mul (x, x) y = Pow (a, c)"
NORM = "s = Pow (x, two) m = {} <keepdims = 1> (s, k) a = Add (m, e) y = Pow (a, c)"
NORM_CONSTANTS = "float two = {2}, int64[1] k = {-1}, float e = {1e-5}, float c = {-0.5}"
ENLARGES = "the constant may enlarge the result"
NEGATIVE = "x may be negative"

STAYS = [
    Stays(
        "squares of integers, of several exponents",
        graph(POW, "int64[4] c = {2, 2, 2, 2}", "int64[N,4] x"),
        "onnxruntime may compute this power in double",
    ),
    Stays(
        "the cube of one integer",
        graph(POW, "int64 c = {3}", "int64[1,1] x"),
        "onnxruntime may compute this power in double",
    ),
    Stays(
        "the third power of who knows how much",
        graph(POW, "float c = {3}"),
        "with so many elements, two multiplications may take longer",
    ),
    Stays(
        "the third power of much",
        graph(POW, "float c = {3}", "float[512,1024] x"),
        "with so many elements, two multiplications may take longer",
    ),
    Stays(
        "onnxruntime recognizes normalizations by this square, so it stays",
        graph(
            "s = Pow (x, c) y = ReduceMean (s, k)",
            "float c = {2}, int64[1] k = {-1}",
            y="float[N,1] y",
        ),
        "onnxruntime recognizes normalizations by this square, so it stays",
    ),
    Stays("another power", graph(POW, "float c = {2.5}"), None),
    Stays("not quite two", graph(POW, "float c = {2.0000002}"), None),
    Stays("different powers", graph(POW, "float[4] c = {2, 2, 2, 3}"), None),
    Stays("two to the x", graph("y = Pow (c, x)", "float c = {2}"), None),
    Stays(
        "a power from outside",
        "agraph (float[N] x, float c) => (float[N] y) { y = Pow (x, c) }",
        None,
    ),
    Stays("no exponents", graph(POW, "float[0] c = {}", "float[1] x", "float[0] y"), None),
    Stays(
        "a power that enlarges",
        graph(POW, "float[3,1] c = {2, 2, 2}", "float[1,4] x", "float[3,4] y"),
        ENLARGES,
    ),
    Stays(
        "a power that may enlarge",
        graph(POW, "float[4] c = {2, 2, 2, 2}", "float[N,M] x"),
        ENLARGES,
    ),
    Stays(
        "a power of another rank",
        graph(POW, "float[1,1] c = {-1}", "float[4] x", "float[1,4] y"),
        ENLARGES,
    ),
    Stays(
        "the inverse of integers",
        graph(POW, "float c = {-1}", "int32[N] x"),
        "the elements are not floating-point numbers",
    ),
    Stays(
        "the root of integers",
        graph(POW, "float c = {0.5}", "int32[N] x"),
        "the elements are not floating-point numbers",
    ),
    Stays("the root of anything", graph(POW, "float c = {0.5}"), NEGATIVE),
    Stays("the inverse root of anything", graph(POW, "float c = {-0.5}"), NEGATIVE),
    Stays(
        "the root of a sum with a negative number",
        graph("s = Mul (x, x) a = Add (s, e) y = Pow (a, c)", "float c = {0.5}, float e = {-1}"),
        NEGATIVE,
    ),
    Stays(
        "the root of fifth powers",
        graph("s = Pow (x, e) y = Pow (s, c)", "float c = {0.5}, float e = {5}"),
        NEGATIVE,
    ),
    Stays(
        "the root of a difference",
        graph("s = Abs (x) a = Sub (s, x) y = Pow (a, c)", "float c = {0.5}"),
        NEGATIVE,
    ),
    Stays(
        "the root of a product",
        graph("s = Abs (x) a = Mul (s, x) y = Pow (a, c)", "float c = {0.5}"),
        NEGATIVE,
    ),
]

FIRES = [
    Fires("a square", graph(POW, "float c = {2}"), ["Mul"]),
    Fires("exponent of rank 1", graph(POW, "float[1] c = {2}"), ["Mul"]),
    Fires("exponents that are all two", graph(POW, "float[4] c = {2, 2, 2, 2}"), ["Mul"]),
    Fires("an integer exponent", graph(POW, "int64 c = {2}"), ["Mul"]),
    Fires("a double exponent", graph(POW, "double c = {2}"), ["Mul"]),
    Fires("of integers", graph(POW, "int32 c = {2}", "int32[N,4] x"), ["Mul"]),
    Fires(
        "of integers with a float exponent", graph(POW, "float c = {2}", "int64[N,4] x"), ["Mul"]
    ),
    Fires("of doubles", graph(POW, "double c = {2}", "double[N,4] x"), ["Mul"]),
    Fires("of halves", graph(POW, "float16 c = {16384}", "float16[N,4] x"), ["Mul"]),
    Fires("a cube", graph(POW, "float c = {3}", "float[3,4] x"), ["Mul", "Mul"]),
    Fires("a cube of integers", graph(POW, "int64 c = {3}", "int32[3,4] x"), ["Mul", "Mul"]),
    Fires("an inverse", graph(POW, "float c = {-1}"), ["Reciprocal"]),
    Fires("an inverse by an integer", graph(POW, "int32[1] c = {-1}"), ["Reciprocal"]),
    Fires("a root", graph(SQUARES, "float c = {0.5}"), ["Mul", "Sqrt"]),
    Fires(
        "a root of absolute values",
        graph("a = Abs (x) y = Pow (a, c)", "float[1] c = {0.5}"),
        ["Abs", "Sqrt"],
    ),
    Fires(
        "an inverse root",
        graph("a = Exp (x) y = Pow (a, c)", "float c = {-0.5}"),
        ["Exp", "Sqrt", "Div"],
    ),
    Fires(
        "the norm of rows",
        graph(NORM.format("ReduceSum"), NORM_CONSTANTS, y="float[N,1] y"),
        ["Mul", "ReduceSum", "Add", "Sqrt", "Div"],
        effected=2,
    ),
    Fires(
        "RMS normalization",
        graph(NORM.format("ReduceMean"), NORM_CONSTANTS, y="float[N,1] y"),
        ["Pow", "ReduceMean", "Add", "Sqrt", "Div"],
    ),
    *[
        Fires(f"opset {opset}", graph(SQUARES, "float c = {0.5}"), ["Mul", "Sqrt"], opset=opset)
        for opset in (7, 9, 12, 15)
    ],
]

test_stays, test_fires = tables("PowToMulPass", STAYS, FIRES, in_functions="less often")
