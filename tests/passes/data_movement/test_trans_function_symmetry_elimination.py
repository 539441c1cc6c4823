from harness import Fires, Stays, tables

TURN = "Transpose <perm = [1, 2, 0]>"
BACK = "Transpose <perm = [2, 0, 1]>"
FLOOR = "the result of the later Floor depends on the last bit"
TWO = "float[2,3,N] x, float[2,3,N] w"


def sunk(
    body: str,
    x: str = "float[2,3,N] x",
    y: str = "float[A,B,C] y",
    constants: str = "float k = {2}",
) -> str:
    return f"agraph ({x}) => ({y}) <{constants}> {{ {body} }}"


STAYS = [
    Stays("arithmetic alone", sunk(f"a = {TURN} (x) b = Mul (k, a) c = Sqrt (b) y = {BACK} (c)"), None),
    Stays("nothing between them", sunk(f"a = {TURN} (x) y = {BACK} (a)"), None),
    Stays("no Transpose less", sunk(f"a = {TURN} (x) b = Exp (a) y = {TURN} (b)", y="float[A,B,C] y, float[D,E,F] a"), None),
    Stays("used between them", sunk(f"a = {TURN} (x) b = Exp (a) y = {BACK} (b)", y="float[A,B,C] y, float[D,E,F] b"), "an interior value is a graph output"),
    Stays("not elementwise", sunk(f"a = {TURN} (x) b = Softmax (a) c = Exp (b) y = {BACK} (c)"), None),
    Stays("integers", sunk(f"a = {TURN} (x) b = Max (k, a) y = {BACK} (b)", "int64[2,3,N] x", "int64[A,B,C] y", "int64 k = {2}"), None),
    Stays("a power that is rounded to integers", sunk(f"a = {TURN} (x) b = Pow (a, k) c = Floor (b) y = {BACK} (c)"), FLOOR),
    Stays("a power that is rounded to integers behind", sunk(f"a = {TURN} (x) b = Pow (a, k) c = {BACK} (b) y = Floor (c)"), FLOOR),
]  # fmt: skip

FIRES = [
    Fires("Log", sunk(f"a = {TURN} (x) b = Log (a) y = {BACK} (b)"), ["Log"]),
    Fires("Pow, further", sunk(f"a = {TURN} (x) b = Pow (a, k) y = {TURN} (b)"), ["Pow", "Transpose"]),
    Fires("Swish", sunk(f"a = {TURN} (x) b = Sigmoid (a) c = Mul (a, b) y = {BACK} (c)"), ["Sigmoid", "Mul"]),
    Fires("the larger of two", sunk(f"a = {TURN} (x) b = {TURN} (w) y = Max (a, b)", TWO), ["Max", "Transpose"]),
    Fires("the first one stays", sunk(f"a = {TURN} (x) b = Tanh (a) y = {BACK} (b)", y="float[A,B,C] y, float[D,E,F] a"), ["Transpose", "Tanh"]),
]  # fmt: skip

test_stays, test_fires = tables("TransFunctionSymmetryEliminationPass", STAYS, FIRES)
