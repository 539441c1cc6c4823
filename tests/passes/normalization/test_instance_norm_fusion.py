from harness import Fires, Stays, tables


def graph(
    square: str = "s = Mul (d, d)",
    tail: str = "a = Mul (n, g) y = Add (a, b)",
    ax: str = "{2, 3}",
    g: str = "float[3,1,1]",
    b: str = "float[3,1,1]",
    x: str = "float[N,3,4,5]",
    n: str = "r = Sqrt (e) n = Div (d, r)",
    y: str = "",
) -> str:
    constants = f"{g} g, {b} b, int64[2] ax = {ax}, float two = {{2}}, float eps = {{0.00001}}"
    return f"agraph ({x} x) => ({x} y{y}) <{constants}> {{ u = ReduceMean (x, ax) d = Sub (x, u) {square} v = ReduceMean (s, ax) e = Add (v, eps) {n} {tail} }}"


STAYS = [
    Stays(
        "an image of unknown size", graph(x="float[N,3,H,W]"), "the size of the image is unknown"
    ),
    Stays(
        "one number for each row",
        graph(x="float[2,3,3,4]", g="float[3,1]", b="float[3,1]"),
        "the constant does not have exactly one number for each channel",
    ),
    Stays(
        "layer normalization of rank 3",
        graph(x="float[2,3,4]", g="float[4]", b="float[4]").replace(
            "int64[2] ax = {2, 3}", "int64[1] ax = {-1}"
        ),
        "the constant does not have exactly one number for each channel",
    ),
    Stays(
        "the channels too",
        graph(ax="{1, 3}"),
        "the reductions are not over all axes after the channels",
    ),
    Stays(
        "unknown channels",
        graph(x="float[N,C,4,5]", g="float", b="float"),
        "the number of channels is unknown",
    ),
    Stays("double", graph().replace("float", "double"), "the elements are not float32"),
    Stays(
        "the deviation is used elsewhere",
        graph(tail="a = Mul (n, g) y = Add (a, b) z = Neg (r)", y=", float[N,3,1,1] z"),
        "an interior value is used elsewhere",
    ),
]

IN = ["InstanceNormalization"]
FIRES = [
    Fires("scale and offset", graph(), IN),
    Fires(
        "rank 4 constants, commuted",
        graph(g="float[1,3,1,1]", b="float[1,3,1,1]", tail="a = Mul (g, n) y = Add (b, a)"),
        IN,
    ),
    Fires("plain", graph(tail="y = Identity (n)"), [*IN, "Identity"]),
    Fires("from the end", graph(ax="{-1, -2}", square="s = Pow (d, two)"), IN),
    Fires("times the reciprocal", graph(n="r = Sqrt (e) q = Reciprocal (r) n = Mul (d, q)"), IN),
    Fires(
        "opset 17",
        graph()
        .replace("(x, ax)", "<AX> (x)")
        .replace("(s, ax)", "<AX> (s)")
        .replace("<AX>", "<axes = [2, 3]>"),
        IN,
        opset=17,
    ),
]

test_stays, test_fires = tables("InstanceNormFusionPass", STAYS, FIRES, in_functions="never")
