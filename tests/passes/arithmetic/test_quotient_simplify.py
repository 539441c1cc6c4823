from harness import Fires, Stays, tables


def graph(
    body: str,
    a: str = "float[N,3] a",
    b: str = "float[N,3] b",
    y: str = "float[N,3] y",
    constants: str = "float one = {1}, float k = {3}, float[3] q = {2, -4, 8}",
    more: str = "",
) -> str:
    return f"agraph ({a}, {b}) => ({y}{more}) <{constants}> {{ {body} }}"


TIMES = "r = Div (one, a) y = Mul (r, b)"
OVER = "r = Div (one, a) y = Div (b, r)"
NO_FLOATS = "the elements are not floating-point numbers"
MORE = "the result may need more divisions"
INTEGERS = {
    "a": "int64[N,3] a",
    "b": "int64[N,3] b",
    "y": "int64[N,3] y",
    "constants": "int64 one = {1}, int64 k = {3}",
}
STAYS = [
    Stays(
        "infinite between",
        graph("r = Div (k, a) y = Mul (r, e)", constants="float k = {1e30}, float e = {1e-30}"),
        "the first constant alone may make a number infinite",
    ),
    Stays("another number over a", graph("r = Div (k, a) y = Mul (r, b)"), None),
    Stays("the other way round", graph("r = Div (a, one) y = Mul (r, b)"), None),
    Stays("a column of inverses", graph(TIMES, a="float[N,1] a"), MORE),
    Stays("a single inverse", graph(TIMES, a="float a"), MORE),
    Stays("b of a higher rank", graph(TIMES, b="float[1,N,3] b", y="float[1,N,3] y"), MORE),
    Stays("sizes that may differ", graph(TIMES, a="float[M,3] a", y="float[p,3] y"), MORE),
    Stays("integers", graph(TIMES, **INTEGERS), NO_FLOATS),
    Stays("division by an inverse of integers", graph(OVER, **INTEGERS), NO_FLOATS),
    Stays(
        "the inverse is used",
        graph(TIMES, more=", float[N,3] r"),
        "an interior value is a graph output",
    ),
    Stays(
        "constants that overflow",
        graph("r = Div (k, a) y = Mul (r, l)", constants="float k = {1.0e30}, float l = {1.0e30}"),
        "a constant would overflow in float32",
    ),
    Stays(
        "constants that vanish",
        graph(
            "r = Div (k, a) y = Mul (r, l)", constants="float k = {1.0e-30}, float l = {1.0e-30}"
        ),
        "a constant would be too small for its type",
    ),
    Stays(
        "over a zero",
        graph("r = Div (k, a) y = Div (r, l)", constants="float k = {3}, float l = {0}"),
        "a constant would not be finite",
    ),
    Stays("integers over integers", graph("r = Div (k, a) y = Div (r, k)", **INTEGERS), NO_FLOATS),
    Stays(
        "constants that grow",
        graph(
            "r = Div (q, a) y = Mul (r, t)",
            y="float[3,3] y",
            a="float[3,3] a",
            constants="float[3] q = {1,2,3}, float[3,1] t = {1,2,3}",
        ),
        "the constants together would become larger",
    ),
    Stays(
        "a one of a higher rank",
        graph(TIMES, y="float[1,N,3] y", constants="float[1,1,1] one = {1}"),
        "the shape would change",
    ),
]
FIRES = [
    Fires("an inverse times b", graph(TIMES), ["Div"]),
    Fires("b times a Reciprocal", graph("r = Reciprocal (a) y = Mul (b, r)"), ["Div"]),
    Fires("b is a row", graph(TIMES, b="float[3] b"), ["Div"]),
    Fires("b is a constant", graph("r = Reciprocal (a) y = Mul (q, r)"), ["Div"]),
    Fires(
        "both are inverses",
        graph("r = Reciprocal (a) s = Reciprocal (b) y = Mul (r, s)"),
        ["Reciprocal", "Div"],
    ),
    Fires(
        "float16",
        graph(TIMES, constants="float one = {15360}").replace("float", "float16"),
        ["Div"],
    ),
    Fires("float64", graph(TIMES).replace("float", "double"), ["Div"]),
    Fires("constants over a", graph("r = Div (k, a) y = Mul (r, q)"), ["Div"]),
    Fires("constants over a, divided", graph("r = Div (q, a) y = Div (r, k)"), ["Div"]),
    Fires("divided by an inverse", graph(OVER), ["Mul"]),
    Fires("divided by inverses of a column", graph(OVER, a="float[N,1] a"), ["Mul"]),
    Fires("divided by a Reciprocal", graph("r = Reciprocal (a) y = Div (b, r)"), ["Mul"]),
    Fires("the inverse of a quotient", graph("r = Div (a, b) y = Reciprocal (r)"), ["Div"]),
    Fires("one over a quotient", graph("r = Div (a, b) y = Div (one, r)", b="float b"), ["Div"]),
]

test_stays, test_fires = tables("QuotientSimplifyPass", STAYS, FIRES, in_functions="never")
