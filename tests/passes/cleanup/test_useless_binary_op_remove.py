from harness import Fires, Stays, tables


def graph(
    node: str, constants: str, x: str = "float[N,4] x", more: str = "", opset_more: str = ""
) -> str:
    kind = x.partition("[")[0]
    first = "Not (x)" if kind == "bool" else "Abs (x)"
    last = "Not (b)" if kind == "bool" else "Abs (b)"
    out = ",".join("abcd"[: x.count(",") + 1])
    return f"agraph ({x}{more}) => ({kind}[{out}] y) <{constants}> {{ a = {first} b = {node} y = {last} }}"


NORM = "s = Pow (x, two) v = ReduceMean <keepdims = 1> (s) e = Add (v, eps) r = Sqrt (e) {} b = Mul (n, c)"


def norm(form: str) -> str:
    constants = "float two = {2}, float eps = {0.1}, float one = {1}, float[4] c = {1, 1, 1, 1}"
    return f"agraph (float[N,4] x) => (float[N,4] b) <{constants}> {{ {NORM.format(form)} }}"


LAYER_NORM = (
    norm("n = Div (d, r)")
    .replace("s = Pow (x, two)", "u = ReduceMean <axes = [-1]> (x) d = Sub (x, u) s = Pow (d, two)")
    .replace("b = Mul (n, c)", "t = Mul (n, c) b = Abs (t)")
)
RECOGNIZED = "onnxruntime recognizes normalizations by this scale, so it stays"
ENLARGES = "the constant may enlarge the result"
STAYS = [
    Stays("not quite one", graph("Mul (a, c)", "float c = {1.01}"), None),
    Stays("not everywhere", graph("Add (a, c)", "float[4] c = {0, 0, 0, 1}"), None),
    Stays("x + 0, which makes −0 to 0", graph("Add (a, c)", "float c = {0}"), None),
    Stays("x − −0, which makes −0 to 0", graph("Sub (a, c)", "float c = {-0.0}"), None),
    Stays("x + another negative number", graph("Add (a, c)", "float c = {-1}"), None),
    Stays("x − another positive number", graph("Sub (a, c)", "float c = {1}"), None),
    Stays("an empty constant", graph("Mul (a, c)", "float[0] c = {}", "float[1] x"), None),
    *[
        Stays(f"the scale of a normalization, {name}", norm(form), RECOGNIZED)
        for name, form in {
            "divided": "n = Div (x, r)",
            "times one over the root": "q = Div (one, r) n = Mul (x, q)",
            "times the reciprocal": "q = Reciprocal (r) n = Mul (q, x)",
        }.items()
    ],
    Stays(
        "the scale of a layer normalization that the opset lacks", LAYER_NORM, RECOGNIZED, opset=16
    ),
    Stays("0 − x", graph("Sub (c, a)", "float c = {0}"), None),
    Stays("1 / x", graph("Div (c, a)", "float c = {1}"), None),
    Stays("1 ^ x", graph("Pow (c, a)", "float c = {1}"), None),
    Stays("and false", graph("And (a, c)", "bool c = {0}", "bool[N] x"), None),
    Stays(
        "a constant that enlarges",
        graph("Mul (a, c)", "float[3,1] c = {1, 1, 1}", "float[1,4] x"),
        ENLARGES,
    ),
    Stays("a constant that may enlarge", graph("Mul (a, c)", "float[3,1] c = {1, 1, 1}"), ENLARGES),
    Stays(
        "a constant that raises the rank",
        graph("Sub (a, c)", "float[1,1,1] c = {0}").replace("[a,b] y", "[1,a,b] y"),
        ENLARGES,
    ),
    Stays("not a constant", graph("Mul (a, c)", "float d", more=", float c"), None),
    Stays(
        "Where true, and something is divided by it",
        graph("Where (c, a, z)", "bool c = {1}", more=", float[1,4] z")
        .replace("Abs (x", "Neg (x")
        .replace("Abs (b", "Reciprocal (b"),
        "a later division depends on the sign of a zero",
    ),
    Stays("Where of a mixed condition", graph("Where (c, a, x)", "bool[4] c = {1, 0, 1, 1}"), None),
    Stays(
        "Where that may enlarge",
        graph("Where (c, a, z)", "bool c = {1}", more=", float[M,4] z"),
        "the other operands may enlarge the result",
    ),
]

LEFT = ["Abs", "Abs"]
FIRES = [
    Fires("x + −0", graph("Add (a, c)", "float c = {-0.0}"), LEFT),
    Fires("−0 + x", graph("Add (c, a)", "float[1] c = {-0.0}"), LEFT),
    Fires(
        "x + zeros of integers",
        graph("Add (a, c)", "int64[1,4] c = {0, 0, 0, 0}", "int64[N,4] x"),
        LEFT,
    ),
    Fires("x − 0", graph("Sub (a, c)", "float c = {0}"), LEFT),
    Fires("x · 1", graph("Mul (a, c)", "float[4] c = {1, 1, 1, 1}"), LEFT),
    Fires(
        "the scale of a layer normalization",
        LAYER_NORM,
        ["ReduceMean", "Sub", "Pow", "ReduceMean", "Add", "Sqrt", "Div", "Abs"],
        opset=17,
    ),
    Fires("x / 1", graph("Div (a, c)", "float c = {1}"), LEFT),
    Fires("x ^ 1", graph("Pow (a, c)", "float c = {1}"), LEFT),
    Fires("integers", graph("Mul (a, c)", "int64 c = {1}", "int64[N,4] x"), LEFT),
    Fires("and true", graph("And (a, c)", "bool c = {1}", "bool[N] x"), ["Not", "Not"]),
    Fires("or false", graph("Or (c, a)", "bool c = {0}", "bool[N] x"), ["Not", "Not"]),
    Fires(
        "Where of two equal values",
        graph("Where (w, a, a)", "float unused", more=", bool[1,4] w"),
        LEFT,
    ),
    Fires("Where true", graph("Where (c, a, z)", "bool c = {1}", more=", float[1,4] z"), LEFT),
    Fires(
        "Where false",
        graph("Where (c, z, a)", "bool[1,4] c = {0, 0, 0, 0}", more=", float z"),
        LEFT,
    ),
]

test_stays, test_fires = tables(
    "UselessBinaryOpRemovePass", STAYS, FIRES, in_functions="less often"
)
