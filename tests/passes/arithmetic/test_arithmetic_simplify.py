from harness import Fires, Stays, tables


def graph(
    body: str,
    constants: str = "float c = {3}",
    x: str = "float[N,4] x",
    y: str = "",
    more: str = "",
) -> str:
    """A model that ends with an operator that no rule knows, so that x itself may be the result."""
    return f"agraph ({x}{more}) => ({y or x.replace(' x', ' y')}) <{constants}> {{ {body} }}"


def ints(
    body: str, constants: str = "int64 c = {3}", y: str = "int64[N,4] y", more: str = ""
) -> str:
    return graph(body, constants, "int64[N,4] x", y, more)


ENLARGES = "the constant may enlarge the result"
ANY_POWER = "it is not known that onnxruntime computes this power as a product"
BOOL = "bool[N,4] y"
TWO = ", int64[N,4] z"

STAYS = [
    Stays("x + 1", graph("a = Add (x, c) y = Abs (a)", "float c = {1}"), None),
    Stays(
        "x + 0, which makes −0 to 0",
        graph("a = Add (x, c) y = Reciprocal (a)", "float c = {0}"),
        None,
    ),
    Stays(
        "x + 0 of a Relu, which may be −0",
        graph("r = Relu (x) y = Add (r, c)", "float c = {0}"),
        None,
    ),
    Stays("0 − x", graph("a = Sub (c, x) y = Abs (a)", "float c = {0}"), None),
    Stays("1 / x", graph("a = Div (c, x) y = Abs (a)", "float c = {1}"), None),
    Stays("x ^ 3", graph("y = Pow (x, c)"), None),
    Stays("x ^ −1", graph("y = Pow (x, c)", "float c = {-1}"), None),
    Stays(
        "a zero that enlarges",
        graph("y = Add (x, c)", "float[3,1,1] c = {-0.0, -0.0, -0.0}", y="float[3,N,4] y"),
        ENLARGES,
    ),
    Stays(
        "a one that may enlarge",
        graph("y = Mul (x, c)", "float[4] c = {1, 1, 1, 1}", "float[N,M] x"),
        ENLARGES,
    ),
    Stays(
        "a square of another rank",
        graph("y = Pow (x, c)", "float[1,1,1] c = {2}", y="float[1,N,4] y"),
        ENLARGES,
    ),
    *[
        Stays(f"a square {what}", graph("y = Pow (x, c)", constant, x), ANY_POWER)
        for what, constant, x in (
            ("of single numbers in a row", "float c = {2}", "float[N,512,1] x"),
            ("of rows of unknown length", "float c = {2}", "float[N] x"),
            ("of a scalar", "float c = {2}", "float x"),
            ("with an exponent for each", "float[4] c = {2, 2, 2, 2}", "float[N,4] x"),
        )
    ],
    Stays(
        "a choice of −0",
        graph("a = Where (w, x, x) y = Abs (a)", more=", bool[1,4] w"),
        "onnxruntime's Where turns −0 into 0",
    ),
    Stays(
        "a sum of one −0", graph("y = ReduceSum (x, k)", "int64[1] k = {1}", "float[N,1] x"), None
    ),
    Stays("x + (−x) of floating-point numbers", graph("n = Neg (x) y = Add (x, n)"), None),
    Stays("x + (−z)", ints("n = Neg (z) y = Add (x, n)", more=TWO), None),
    Stays(
        "a large constant that stays",
        graph("a = Sub (x, c) y = Mul (a, c)", "float[2048] c", "float[N,2048] x"),
        "a large constant is used elsewhere",
    ),
    Stays(
        "ones that scale a normalization",
        graph(
            "s = Pow (x, two) m = ReduceMean <keepdims = 1> (s) e = Add (m, two) r = Sqrt (e) n = Div (x, r) y = Mul (n, c)",
            "float[4] c = {1, 1, 1, 1}, float two = {2}",
        ),
        (
            "onnxruntime recognizes normalizations by this square, so it stays",
            "onnxruntime recognizes normalizations by this scale, so it stays",
        ),
    ),
    Stays(
        "Where of two values",
        graph("y = Where (c, x, z)", "bool c = {1}", more=", float[N,4] z"),
        None,
    ),
    Stays(
        "Where that may enlarge",
        graph("y = Where (w, x, x)", more=", bool[M,4] w", y="float[A,4] y"),
        "the condition may enlarge the result",
    ),
    Stays(
        "the negative is used elsewhere",
        graph("n = Neg (x) y = Mul (n, c) z = Abs (n)", y="float[N,4] y, float[N,4] z"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "the sum of negatives",
        graph(
            "n = Neg (x) y = ReduceSum <keepdims = 0> (n, k)", "int64[1] k = {1}", y="float[N] y"
        ),
        None,
    ),
    Stays(
        "a sum of sums",
        graph(
            "a = ReduceSum (x, k) y = ReduceSum (a, l)",
            "int64[1] k = {1}, int64[1] l = {0}",
            y="float[1,1] y",
        ),
        None,
    ),
    Stays(
        "Not of a comparison",
        graph("a = Greater (x, z) y = Not (a)", y=BOOL, more=", float[N,4] z"),
        None,
    ),
    Stays("Not of Equal", ints("a = Equal (x, z) y = Not (a)", y=BOOL, more=TWO), None),
    Stays(
        "Not of a comparison before opset 12",
        ints("a = Greater (x, z) y = Not (a)", y=BOOL, more=TWO),
        "opset 11 has no LessOrEqual",
        opset=11,
    ),
    Stays(
        "a Reshape that copies",
        graph(
            "a = Reshape (x, k) y = Reshape (a, l)",
            "int64[2] k = {-1, 1}, int64[2] l = {0, -1}",
            y="float[p,q] y",
        ),
        "the second shape may copy dimensions of the first",
    ),
    Stays(
        "Slice that reverses",
        graph(
            "a = Slice (x, s, e, k, t) y = Abs (a)",
            "int64[1] s = {-1}, int64[1] e = {-9}, int64[1] k = {1}, int64[1] t = {-1}",
        ),
        None,
    ),
    Stays(
        "a Reduce of more than one element",
        graph("y = ReduceMax (x, k)", "int64[1] k = {1}", y="float[N,1] y"),
        None,
    ),
    Stays("a Cast to another type", graph("y = Cast <to = 11> (x)", y="double[N,4] y"), None),
]

ABS = ["Abs"]
FIRES = [
    Fires("1.0", graph("a = Add (x, c) y = Abs (a)", "float c = {-0.0}"), ABS),
    Fires(
        "1.0, commuted",
        graph("a = Add (c, x) y = Abs (a)", "float[4] c = {-0.0, -0.0, -0.0, -0.0}"),
        ABS,
    ),
    Fires("1.0, integers", ints("a = Add (x, c) y = Abs (a)", "int64 c = {0}"), ABS),
    Fires("1.0, of squares", graph("s = Mul (x, x) y = Add (s, c)", "float c = {0}"), ["Mul"]),
    Fires("1.1", ints("n = Neg (x) y = Add (x, n)"), ["Shape", "ConstantOfShape"]),
    Fires(
        "1.1, commuted",
        ints("n = Neg (x) y = Add (n, x)").replace("N,4", "3,4"),
        ["ConstantOfShape"],
    ),
    Fires("1.2", graph("a = Sub (x, c) y = Abs (a)", "float c = {0}"), ABS),
    Fires("1.2, of squares", graph("s = Mul (x, x) y = Sub (s, c)", "float c = {-0.0}"), ["Mul"]),
    Fires("1.3, a zero", graph("y = Sub (x, c)", "float c = {-0.0}"), ["Add"]),
    Fires("1.3", graph("y = Sub (x, c)"), ["Add"]),
    Fires("1.3, a row", graph("y = Sub (x, c)", "float[4] c"), ["Add"]),
    Fires(
        "1.3, what enlarges", graph("y = Sub (x, c)", "float[3,1,1] c", y="float[3,N,4] y"), ["Add"]
    ),
    Fires("1.3, unsigned", graph("y = Sub (x, c)", "uint8 c = {3}", "uint8[N] x"), ["Add"]),
    Fires(
        "1.3, the smallest integer",
        graph("y = Sub (x, c)", "int32 c = {-2147483648}", "int32[N] x"),
        ["Add"],
    ),
    Fires("1.3, half", graph("y = Sub (x, c)", "float16 c = {18176}", "float16[N] x"), ["Add"]),
    Fires("1.3, opset 7", graph("y = Sub (x, c)"), ["Add"], opset=7),
    Fires("1.4", graph("a = Pow (x, c) y = Abs (a)", "int64 c = {1}"), ABS),
    Fires("1.5", graph("y = Pow (x, c)", "float c = {2}"), ["Mul"]),
    Fires("1.5, integers", ints("y = Pow (x, c)", "float[1] c = {2}"), ["Mul"]),
    Fires("1.7", ints("a = Where (w, x, x) y = Abs (a)", more=", bool[1,4] w"), ABS),
    Fires("1.7, never −0", graph("e = Exp (x) y = Where (w, e, e)", more=", bool[1,4] w"), ["Exp"]),
    Fires("1.8", graph("a = Neg (x) b = Neg (a) y = Abs (b)"), ABS),
    Fires("1.9", graph("a = Mul (c, x) y = Abs (a)", "float[1] c = {1}"), ABS),
    Fires("1.10", graph("a = Neg (x) y = Mul (a, c)"), ["Mul"]),
    Fires(
        "1.10, commuted",
        graph("a = Neg (x) y = Mul (c, a)", "double[4] c", "double[N,4] x"),
        ["Mul"],
    ),
    Fires("1.10, integers", ints("a = Neg (x) y = Mul (a, c)"), ["Mul"]),
    Fires("1.12", graph("a = Div (x, c) y = Abs (a)", "float[1,4] c = {1, 1, 1, 1}"), ABS),
    Fires(
        "1.13",
        ints(
            "a = ReduceSum (x, k) y = ReduceSum (a, l)",
            "int64[1] k = {1}, int64[1] l = {0}",
            "int64[1,1] y",
        ),
        ["ReduceSum"],
    ),
    Fires(
        "1.14",
        ints(
            "a = ReduceMin (x, k) y = ReduceMin (a, l)",
            "int64[1] k = {1}, int64[1] l = {0}",
            "int64[1,1] y",
        ),
        ["ReduceMin"],
    ),
    Fires(
        "1.15",
        ints(
            "a = ReduceMax <keepdims = 0> (x, k) y = ReduceMax <keepdims = 0> (a, l)",
            "int64[1] k = {0}, int64[1] l = {0}",
            y="int64 y",
        ),
        ["ReduceMax"],
        zero_sizes=False,
    ),
    Fires(
        "1.33, two of a single number",  # 1.14 leaves them: without axes there is no Reduce to write
        graph("n = Neg (x) a = ReduceMin (n) y = ReduceMin (a)", "int64 c = {3}", "int64 x"),
        ["Neg"],
        effected=2,
        opset=13,
    ),
    Fires(
        "1.16",
        ints("n = Neg (x) y = ReduceSum <keepdims = 0> (n, k)", "int64[1] k = {1}", "int64[N] y"),
        ["ReduceSum", "Neg"],
    ),
    Fires(
        "1.16, opset 11",
        ints("n = Neg (x) y = ReduceSum <axes = [1]> (n)", y="int64[N,1] y"),
        ["ReduceSum", "Neg"],
        opset=11,
    ),
    Fires("1.21", graph("a = Transpose (x) b = Transpose (a) y = Abs (b)"), ABS),
    Fires(
        "1.21, of rank 3",
        graph(
            "a = Transpose <perm = [1, 2, 0]> (x) b = Transpose <perm = [2, 0, 1]> (a) y = Abs (b)",
            x="float[N,M,4] x",
        ),
        ABS,
    ),
    Fires(
        "1.23",
        graph(
            "a = Reshape (x, k) y = Reshape (a, l)",
            "int64[3] k = {2, -1, 2}, int64[1] l = {-1}",
            y="float[M] y",
        ),
        ["Reshape"],
    ),
    Fires(
        "1.25",
        graph(
            "a = Slice (x, s, e, k) y = Abs (a)",
            "int64[1] s = {0}, int64[1] e = {4}, int64[1] k = {1}",
        ),
        ABS,
    ),
    *[
        Fires(f"1.{26 + i}", ints(f"a = {name} (x, z) y = Not (a)", y=BOOL, more=TWO), [opposite])
        for i, (name, opposite) in enumerate(
            (
                ("Greater", "LessOrEqual"),
                ("LessOrEqual", "Greater"),
                ("GreaterOrEqual", "Less"),
                ("Less", "GreaterOrEqual"),
            )
        )
    ],
    Fires(
        "1.26, what enlarges",
        ints("a = Greater (x, z) y = Not (a)", y="bool[M,N,4] y", more=", int64[M,1,4] z"),
        ["LessOrEqual"],
    ),
    *[
        Fires(
            f"1.{32 + i}",
            graph(
                f"e = Exp (x) a = {name} <keepdims = 0> (e, k) y = Abs (a)",
                "int64[1] k = {1}",
                "float[N,1,3] x",
                "float[N,3] y",
            ),
            ["Exp", "Squeeze", "Abs"],
        )
        for i, name in enumerate(("ReduceSum", "ReduceMin", "ReduceMax"))
    ],
    Fires("1.35", graph("a = Cast <to = 1> (x) y = Abs (a)"), ABS),
    Fires(
        "1.37",
        graph(
            "a = Transpose <perm = [1, 2, 0]> (x) y = Transpose <perm = [1, 0, 2]> (a)",
            x="float[N,M,4] x",
            y="float[4,M,N] y",
        ),
        ["Transpose"],
    ),
]

test_stays, test_fires = tables("ArithmeticSimplifyPass", STAYS, FIRES, in_functions="less often")
