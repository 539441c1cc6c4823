from typing import Any

from harness import Fires, Stays, tables

ERF = "d = Div (x, root) e = Erf (d) a = Add (e, one)"
TANH = (
    "p = Pow (x, three) q = Mul (c, p) s = Add (x, q) i = Mul (k, s) t = Tanh (i) a = Add (one, t)"
)
PRODUCT = "h = Mul (x, half) y = Mul (h, a)"
CONSTANTS = "float half = {0.5}, float one = {1}, float two = {2}, float three = {3}, float root = {1.41421356}, float inverse = {0.70710678}, float c = {0.044715}, float k = {0.7978845608}"


def graph(inner: str = ERF, product: str = PRODUCT, y: str = "", constants: str = CONSTANTS) -> str:
    return f"agraph (float[N,3,4] x) => (float[N,3,4] y{y}) <{constants}> {{ {inner} {product} }}"


STAYS = [
    Stays("opset 19", graph(), "opset 19 has no Gelu", opset=19),
    Stays("another root", graph(constants=CONSTANTS.replace("1.41421356", "1.43")), None, opset=20),
    Stays(
        "another cubic term",
        graph(TANH, constants=CONSTANTS.replace("0.044715", "0.0452")),
        None,
        opset=20,
    ),
    Stays(
        "another factor",
        graph(constants=CONSTANTS.replace("half = {0.5}", "half = {0.505}")),
        None,
        opset=20,
    ),
    Stays(
        "the error function of something else",
        graph("w = Neg (x) d = Div (w, root) e = Erf (d) a = Add (e, one)"),
        None,
        opset=20,
    ),
    Stays(
        "the sum is used elsewhere",
        graph(y=", float[N,3,4] a"),
        "an interior value is a graph output",
        opset=20,
    ),
    Stays(
        "a constant raises the rank",
        graph(constants=CONSTANTS.replace("float one", "float[1,1,1,1] one")).replace(
            "=> (float[N,3,4] y", "=> (float[1,N,3,4] y"
        ),
        "the shape would change",
        opset=20,
    ),
    Stays(
        "double has no kernel",
        graph(constants=CONSTANTS.replace("float ", "double ")).replace("float[", "double["),
        None,
        opset=20,
    ),
]


def fires(name: str, inner: str = ERF, product: str = PRODUCT, **options: Any) -> Fires:
    return Fires(name, graph(inner, product), ["Gelu"], opset=20, **options)


def tanh(inner: str) -> str:
    return f"{inner} t = Tanh (i) a = Add (t, one)"


FIRES = [
    fires("half of x first"),
    fires("half last", product="h = Mul (a, x) y = Mul (h, half)"),
    fires("half of the sum", product="h = Mul (half, a) y = Mul (x, h)"),
    fires("halved by division", product="h = Mul (x, a) y = Div (h, two)"),
    fires("times the inverse root", "d = Mul (inverse, x) e = Erf (d) a = Add (one, e)"),
    fires(
        "half of the error function",
        "d = Div (x, root) e = Erf (d) f = Mul (e, half) a = Add (f, half)",
        "y = Mul (x, a)",
    ),
    fires("tanh, Pow", TANH),
    fires(
        "tanh, products",
        tanh("p = Mul (x, x) p3 = Mul (p, x) q = Mul (p3, c) s = Add (q, x) i = Mul (s, k)"),
    ),
    fires(
        "tanh, the cubic term first",
        tanh("p = Mul (x, x) cx = Mul (c, x) q = Mul (cx, p) s = Add (x, q) i = Mul (s, k)"),
    ),
    fires(
        "tanh, x factored out",
        tanh("w = Mul (x, k) cx = Mul (c, x) q = Mul (cx, x) o = Add (one, q) i = Mul (w, o)"),
        "h = Mul (half, x) y = Mul (a, h)",
    ),
    fires(
        "tanh, square as Pow, factored out",
        tanh("p = Pow (x, two) q = Mul (p, c) o = Add (q, one) w = Mul (o, k) i = Mul (x, w)"),
    ),
    Fires(
        "float16 constants of rank 1 stay exact enough",
        graph(constants=CONSTANTS.replace("float half", "float[1] half")),
        ["Gelu"],
        opset=20,
    ),
]

test_stays, test_fires = tables("GeluFusionPass", STAYS, FIRES, in_functions="never")
