from harness import Fires, Stays, tables

SHAPE = "float[N,4]"


def graph(
    body: str,
    constants: str = "float k = {3}, float q = {0.3}",
    y: str = f"{SHAPE} y",
    kind: str = "float",
) -> str:
    """a, b, c and d are positive, and made by an operator that no rule knows."""
    inputs = ", ".join(f"{SHAPE} {name}" for name in ("x", "z", "u", "v"))
    made = " ".join(
        f"{b} = Sigmoid ({a})"
        for a, b in zip("xzuv", "abcd", strict=True)
        if f" {b}" in body.replace("(", " ")
    )
    return f"agraph ({inputs}) => ({y}) <{constants}> {{ {made} {body} }}".replace("float", kind)


def left(body: str, *operators: str) -> list[str]:
    """These operators and what makes a, b, c and d; "a" says that a is not needed any more."""
    made = sum(f" {b}" in body.replace("(", " ") for b in "abcd") - operators.count("a")
    return ["Sigmoid"] * made + [operator for operator in operators if operator != "a"]


GONE = "the removed value may have enlarged the result"
STAYS = [
    Stays("no common factor", graph("e = Mul (a, b) f = Mul (c, d) y = Add (e, f)"), None),
    Stays(
        "used elsewhere",
        graph(
            "e = Mul (a, b) f = Mul (a, c) y = Add (e, f) w = Neg (e)", y=f"{SHAPE} y, {SHAPE} w"
        ),
        "an interior value is used elsewhere",
    ),
    Stays("another inverse", graph("e = Add (a, b) f = Neg (c) y = Add (e, f)"), None),
    Stays(
        "an inverse pair that gives the shape",
        "agraph (float[3,4] x, float[1,4] z) => (float[3,4] y) { e = Add (x, z) f = Neg (x) y = Add (e, f) }",
        GONE,
    ),
    Stays(
        "an inverse pair in sums that gives the shape",
        "agraph (float[3,4] x, float[4] z) => (float[3,4] y) { e = Add (x, z) f = Neg (x) g = Add (f, z) y = Add (e, g) }",
        GONE,
    ),
    Stays(
        "integers",
        "agraph (int32[N] x, int32[N] z, int32[N] w) => (int32[N] y) { e = Div (x, z) y = Div (e, w) }",
        "the elements are not floating-point numbers",
    ),
    Stays(
        "the logarithm of a power of another type",
        "agraph (float[N] x, int64[N] z) => (float[N] y) { e = Pow (x, z) y = Log (e) }",
        "the exponent has another type than the base",
    ),
    Stays(
        "a power of another type",
        "agraph (float[N] x, int64[N] z) => (float[N] y) { e = Exp (x) y = Pow (e, z) }",
        "the exponent has another type than the base",
    ),
    Stays(
        "roots of two values",
        graph("e = Sqrt (a) f = Sqrt (b) g = Mul (c, e) y = Mul (g, f)"),
        None,
    ),
    Stays(
        "constants too large",
        graph("e = Mul (a, k) f = Mul (b, q) y = Mul (e, f)", "float k = {1e30}, float q = {1e30}"),
        "a constant would overflow in float32",
    ),
    Stays(
        "an exponent without a sign",
        graph("e = Pow (b, k) y = Div (a, e)", "uint32 k = {2}"),
        "the exponent is unsigned",
    ),
    Stays(
        "a sum of rows with factors",
        graph(
            "e = Mul (a, k) y = ReduceSum <keepdims = 0> (e, i)",
            "float[4] k, int64[1] i = {1}",
            "float[N] y",
        ),
        "the scale is not a single number",
    ),
    Stays(
        "a factor that raises the rank",
        graph(
            "e = Mul (a, k) y = ReduceSum (e, i)",
            "float[1,1,1] k, int64[1] i = {1}",
            "float[1,1,4] y",
        ),
        "the constant may enlarge the result",
    ),
    Stays(
        "a constant divided in a sum",
        graph(
            "e = Div (k, a) y = ReduceSum (e, i)", "float k = {3}, int64[1] i = {1}", "float[N,1] y"
        ),
        None,
    ),
]

R = "Reciprocal"
CASES = [
    ("2.0", "e = Mul (a, b) f = Mul (c, a) y = Add (e, f)", ["Add", "Mul"]),
    ("2.2", "e = Add (b, a) f = Neg (a) g = Add (f, e) y = Tanh (g)", ["a", "Tanh"]),
    ("2.3", "e = Add (a, b) f = Neg (a) g = Add (c, f) y = Add (e, g)", ["a", "Add"]),
    ("2.4", "e = Mul (a, b) f = Mul (c, a) y = Sub (e, f)", ["Sub", "Mul"]),
    ("2.6", "e = Exp (a) f = Log (e) y = Tanh (f)", ["Tanh"]),
    ("2.7", "e = Pow (a, b) y = Log (e)", ["Abs", "Log", "Mul"]),
    ("2.8", "e = Sqrt (a) y = Log (e)", ["Log", "Mul"]),
    ("2.9", "e = Sqrt (a) f = Reciprocal (e) y = Log (f)", ["Log", "Mul"]),
    ("2.10", "e = Exp (a) y = Pow (e, b)", ["Mul", "Exp"]),
    ("2.11", "e = Mul (a, a) y = Sqrt (e)", ["Abs"]),
    ("2.12", "e = Pow (a, m) f = Sqrt (e) y = Reciprocal (f)", ["Abs"]),
    ("2.13", "e = Div (o, a) f = Sqrt (e) y = Div (o, f)", ["Sqrt"]),
    ("2.14", "e = Reciprocal (a) f = Sqrt (e) y = Reciprocal (f)", ["Sqrt"]),
    ("2.15", "e = Mul (a, k) f = Mul (q, b) y = Mul (e, f)", ["Mul", "Mul"]),
    ("2.17", "e = Exp (a) f = Exp (b) y = Mul (e, f)", ["Add", "Exp"]),
    ("2.18", "e = Exp (a) f = Mul (c, e) g = Exp (b) y = Mul (g, f)", ["Add", "Exp", "Mul"]),
    (
        "2.19",
        "e = Exp (a) f = Mul (c, e) g = Exp (b) h = Mul (g, d) y = Mul (f, h)",
        ["Add", "Exp", "Mul", "Mul"],
    ),
    ("2.20", "e = Sqrt (a) f = Mul (e, e) y = Tanh (f)", ["Tanh"]),
    ("2.21", "e = Sqrt (b) f = Mul (a, e) g = Mul (e, c) y = Mul (f, g)", ["Mul", "Mul"]),
    ("2.22", "e = Sqrt (b) f = Mul (a, e) y = Mul (e, f)", ["Mul"]),
    ("2.23", "e = Sqrt (a) f = Sqrt (b) y = Mul (e, f)", ["Mul", "Sqrt"]),
    ("2.24", "e = Sqrt (a) f = Reciprocal (e) y = Mul (f, f)", [R]),
    ("2.25", "e = Sqrt (b) f = Reciprocal (e) g = Mul (a, f) y = Mul (g, f)", ["Div"]),
    (
        "2.26",
        "e = Sqrt (b) f = Reciprocal (e) g = Mul (a, f) h = Mul (c, f) y = Mul (g, h)",
        ["Mul", "Div"],
    ),
    (
        "2.27",
        "e = Sqrt (a) f = Reciprocal (e) g = Sqrt (b) h = Reciprocal (g) y = Mul (f, h)",
        ["Mul", "Sqrt", R],
    ),
    ("2.28", "e = Sqrt (a) f = Div (o, e) y = Mul (a, f)", ["Sqrt"]),
    ("2.29", "e = Abs (x) f = Abs (z) y = Mul (e, f)", ["Mul", "Abs"]),
    ("2.30", "e = Abs (x) f = Mul (c, e) g = Abs (z) y = Mul (f, g)", ["Mul", "Abs", "Mul"]),
    (
        "2.31",
        "e = Abs (x) f = Mul (c, e) g = Abs (z) h = Mul (g, d) y = Mul (f, h)",
        ["Mul", "Abs", "Mul", "Mul"],
    ),
    ("2.32", "e = Exp (a) f = Exp (b) y = Div (e, f)", ["Sub", "Exp"]),
    ("2.34", "e = Pow (b, k) y = Div (a, e)", ["Pow", "Mul"]),
    ("2.35", "e = Sqrt (a) y = Div (a, e)", ["Sqrt"]),
    ("2.37", "e = Sqrt (b) f = Reciprocal (e) y = Div (a, f)", ["Sqrt", "Mul"]),
    ("2.39", "e = Div (a, b) f = Div (c, d) y = Div (e, f)", ["Mul", "Mul", "Div"]),
    ("2.40", "e = Neg (a) y = Div (e, k)", ["Div"]),
    ("2.41", "e = Div (a, b) y = Div (e, c)", ["Mul", "Div"]),
    ("2.42", "e = Div (b, c) y = Div (a, e)", ["Mul", "Div"]),
    ("2.43", "e = Div (a, k) y = ReduceSum (e, i)", ["ReduceSum", "Div"]),
    ("2.44", "e = Mul (k, a) y = ReduceSum (e, i)", ["ReduceSum", "Mul"]),
]
CONSTANTS = "float k = {3}, float q = {0.3}, float o = {1}, float m = {-2}, int64[1] i = {0}"


def model(body: str, kind: str = "float") -> str:
    return graph(body, CONSTANTS, "float[1,4] y" if "ReduceSum" in body else f"{SHAPE} y", kind)


FIRES = [
    *[Fires(rule, model(body), left(body, *ops), edge_values=False) for rule, body, ops in CASES],
    Fires(
        "double", model(CASES[0][1], "double"), left(CASES[0][1], *CASES[0][2]), edge_values=False
    ),
    *[
        Fires(
            f"opset {o}",
            model(CASES[3][1]).replace(", int64[1] i = {0}", ""),
            left(CASES[3][1], *CASES[3][2]),
            opset=o,
            edge_values=False,
        )
        for o in (7, 13)
    ],
    Fires(
        "dropped dimensions",
        graph(
            "e = Mul (a, k) y = ReduceSum <keepdims = 0> (e, i)",
            "float[1,1] k = {3}, int64[1] i = {1}",
            "float[N] y",
        ),
        ["Sigmoid", "ReduceSum", "Mul"],
        edge_values=False,
    ),
]

test_stays, test_fires = tables("ArithmeticInexactPass", STAYS, FIRES, in_functions="never")
