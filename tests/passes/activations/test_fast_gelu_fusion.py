"""Arguments are 0 or ±8, where both formulas agree: what they differ by elsewhere is not the matter of this table."""

from harness import Fires, Stays, tables

ERF = "d = Div (x, root) e = Erf (d) a = Add (e, one) h = Mul (x, half) y = Mul (h, a)"
GELU = "y = Gelu (x)"
CONSTANTS = "float[4] zero = {0, 0, 0, 0}, float eight = {8}, float half = {0.5}, float one = {1}, float root = {1.41421356}"


def graph(body: str = ERF, add: str = "x = Mul (s, eight)", y: str = "float[N,4] y") -> str:
    return f"agraph (float[N,4] u) => ({y}) <{CONSTANTS}> {{ s = Sign (u) {add} {body} }}"


BIAS = "v = Mul (s, eight) x = Add (v, zero)"
STAYS = [
    Stays("with tanh", graph('y = Gelu <approximate = "tanh"> (x)'), None, opset=20),
    Stays(
        "no kernel for double",
        graph(GELU).replace("float[", "double[").replace("float ", "double "),
        "no CPU kernel for FastGelu of double",
        opset=20,
    ),
    Stays(
        "an inner value is a graph output",
        graph(y="float[N,4] y, float[N,4] e"),
        "an interior value is a graph output",
    ),
    Stays("another root", graph().replace("1.41421356", "1.43"), None),
]

FIRES = [
    Fires("Erf", graph(), ["Sign", "Mul", "FastGelu"]),
    Fires("Gelu", graph(GELU), ["Sign", "Mul", "FastGelu"], opset=20),
    Fires("Gelu of onnxruntime", graph("y = com.microsoft.Gelu (x)"), ["Sign", "Mul", "FastGelu"]),
    Fires("a bias", graph(add=BIAS), ["Sign", "Mul", "FastGelu"]),
    Fires("a bias, Gelu", graph(GELU, add=BIAS), ["Sign", "Mul", "FastGelu"], opset=20),
    Fires("BiasGelu", graph("y = com.microsoft.BiasGelu (x, zero)"), ["Sign", "Mul", "FastGelu"]),
    Fires("opset 9", graph(), ["Sign", "Mul", "FastGelu"], opset=9),
    Fires(
        "an addend for each row",
        graph(add="v = Mul (s, eight) x = Add (v, v)"),
        ["Sign", "Mul", "Add", "FastGelu"],
    ),
]

test_stays, test_fires = tables("FastGeluFusionPass", STAYS, FIRES, in_functions="never")
