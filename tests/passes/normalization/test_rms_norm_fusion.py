from harness import Fires, Stays, tables

FORMS = {
    "divided by the root": "r = Sqrt (e) n = Div (x, r)",
    "times the reciprocal": "r = Sqrt (e) q = Reciprocal (r) n = Mul (q, x)",
    "times one over the root": "r = Sqrt (e) q = Div (one, r) n = Mul (x, q)",
    "times a power": "q = Pow (e, minus) n = Mul (x, q)",
}


def graph(
    form: str = FORMS["times the reciprocal"],
    square: str = "s = Pow (x, two)",
    tail: str = "y = Mul (n, g)",
    g: str = "float[4]",
    ax: str = "{-1}",
    y: str = "",
    x: str = "float[N,S,4]",
) -> str:
    constants = f"{g} g, int64[1] ax = {ax}, float two = {{2}}, float one = {{1}}, float minus = {{-0.5}}, float eps = {{0.00001}}"
    return f"agraph ({x} x) => ({x} y{y}) <{constants}> {{ {square} v = ReduceMean (s, ax) e = Add (v, eps) {form} {tail} }}"


HALF = """agraph (float16[N,S,4] h) => (float16[N,S,4] y) <float16[4] g, int64[1] ax = {-1}, float two = {2}, float eps = {0.00001}> {
    x = Cast <to = 1> (h) s = Pow (x, two) v = ReduceMean (s, ax) e = Add (v, eps) r = Sqrt (e) q = Reciprocal (r)
    n = Mul (x, q) c = Cast <to = 10> (n) TAIL }"""

STAYS = [
    Stays(
        "a scale for each row",
        graph(x="float[2,3,4]", g="float[3,4]"),
        "scale or offset does not have the shape of the normalized axes",
        opset=23,
    ),
    Stays("opset 22", graph(), "opset 22 has no RMSNormalization", opset=22),
    Stays("another axis", graph(ax="{1}"), "the reduced axes are not the last ones", opset=23),
    Stays("a cube", graph().replace("two = {2}", "two = {3}"), None, opset=23),
    Stays("the mean of something else", graph(square="w = Neg (x) s = Mul (w, w)"), None, opset=23),
    Stays(
        "double",
        graph().replace("float", "double"),
        "the elements are not float32 or float16",
        opset=23,
    ),
    Stays(
        "the root is used elsewhere",
        graph(tail="y = Mul (n, g) z = Neg (r)", y=", float[N,S,1] z"),
        "an interior value is used elsewhere",
        opset=23,
    ),
]

RMS = ["RMSNormalization"]
FIRES = [
    *[Fires(name, graph(form), RMS, opset=23) for name, form in FORMS.items()],
    Fires("the square as a product", graph(square="s = Mul (x, x)"), RMS, opset=23),
    Fires("commuted", graph(tail="y = Mul (g, n)"), RMS, opset=23),
    Fires("plain", graph(tail="y = Identity (n)"), [*RMS, "Identity"], opset=23),
    Fires(
        "two axes",
        graph(x="float[N,3,4]", g="float[3,4]").replace(
            "int64[1] ax = {-1}", "int64[2] ax = {-1, 1}"
        ),
        RMS,
        opset=23,
    ),
    Fires(
        "float16 by way of float32",
        HALF.replace("TAIL", "y = Mul (g, c)"),
        RMS,
        opset=23,
        edge_values=False,
    ),
    Fires(
        "float16 by way of float32, plain",
        HALF.replace("TAIL", "y = Neg (c)"),
        [*RMS, "Neg"],
        opset=23,
        edge_values=False,
    ),
]

test_stays, test_fires = tables("RmsNormFusionPass", STAYS, FIRES, in_functions="never")
