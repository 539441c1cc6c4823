from harness import Fires, Stays, tables


def graph(body: str, constants: str = "float one = {1}, float alpha = {1.7}") -> str:
    return f"agraph (float[N,4] x) => (float[N,4] y) <{constants}> {{ {body} }}"


POWER = "n = Neg (x) e = Exp (n) a = Add (e, one)"
STAYS = [
    Stays(
        "an alpha that raises the rank",
        graph("w = Mul (x, v) s = Sigmoid (w) y = Mul (x, s)", "float[1,1,1] v").replace(
            "=> (float[N,4] y", "=> (float[1,N,4] y"
        ),
        "the constant is not a single number",
        opset=24,
        target="onnx",
    ),
    Stays(
        "no kernel",
        graph("s = Sigmoid (x) y = Mul (x, s)"),
        "no CPU kernel for Swish of float",
        opset=24,
    ),
    Stays("opset 23", graph("s = Sigmoid (x) y = Mul (x, s)"), "opset 23 has no Swish", opset=23),
    Stays(
        "of something else",
        graph("w = Neg (x) s = Sigmoid (w) y = Mul (x, s)"),
        None,
        opset=24,
        target="onnx",
    ),
    Stays(
        "an alpha for each column",
        graph("w = Mul (x, v) s = Sigmoid (w) y = Mul (x, s)", "float[4] v"),
        "the constant is not a single number",
        opset=24,
        target="onnx",
    ),
    Stays(
        "an alpha that no float32 is",
        graph("w = Mul (x, alpha) s = Sigmoid (w) y = Mul (x, s)", "double alpha = {1.7}").replace(
            "float[", "double["
        ),
        "a number has more digits than an attribute can hold",
        opset=24,
        target="onnx",
    ),
    Stays("the exponential of x", graph("e = Exp (x) a = Add (e, one) y = Div (one, a)"), None),
    *[
        Stays(
            f"{name} of it",
            graph(f"{POWER} {body}"),
            f"the later {name} needs the digits of small numbers",
        )
        for name, body in {
            "Log": "s = Div (one, a) y = Log (s)",
            "Div": "s = Div (x, a) b = Abs (s) y = Div (one, b)",
            "LpNormalization": "s = Reciprocal (a) y = LpNormalization (s)",
            "Reciprocal": "s = Reciprocal (a) u = Tanh (s) v = Add (u, x) y = Reciprocal (v)",
            "Sqrt": "s = Reciprocal (a) b = Add (s, alpha) c = Sub (b, alpha) y = Sqrt (c)",
        }.items()
    ],
    Stays(
        "a logarithm of it and of a small epsilon",
        graph(
            f"{POWER} s = Div (one, a) b = Add (s, e0) y = Log (b)",
            "float one = {1}, float e0 = {1e-8}",
        ),
        "the later Log needs the digits of small numbers",
    ),
    Stays(
        "normalized with a small epsilon",
        graph(
            f"{POWER} s = Div (one, a) y = LayerNormalization <epsilon = 1e-12> (s, w)",
            "float one = {1}, float[4] w",
        ),
        "the later LayerNormalization needs the digits of small numbers",
        opset=17,
    ),
    Stays(
        "rounded",
        graph(f"{POWER} s = Div (one, a) m = Mul (s, alpha) y = Floor (m)"),
        "the result of the later Floor depends on the last bit",
    ),
    Stays("another addend", graph(f"{POWER} y = Reciprocal (a)", "float one = {1.01}"), None),
]

FIRES = [
    Fires(
        "normalized with an epsilon",
        graph(
            f"{POWER} s = Div (one, a) y = LayerNormalization (s, w)", "float one = {1}, float[4] w"
        ),
        ["Sigmoid", "LayerNormalization"],
        opset=17,
    ),
    Fires("Sigmoid written out", graph(f"{POWER} y = Div (one, a)"), ["Sigmoid"]),
    Fires(
        "Sigmoid by Reciprocal",
        graph(f"{POWER} y = Reciprocal (a)").replace("(e, one)", "(one, e)"),
        ["Sigmoid"],
    ),
    Fires("x over a power", graph(f"{POWER} y = Div (x, a)"), ["Sigmoid", "Mul"]),
    Fires(
        "Swish",
        graph("s = Sigmoid (x) y = Mul (s, x)"),
        ["Swish"],
        opset=24,
        target="onnx",
        ir_version=11,
    ),
    Fires(
        "Swish with alpha",
        graph("w = Mul (alpha, x) s = Sigmoid (w) y = Mul (x, s)"),
        ["Swish"],
        opset=24,
        target="onnx",
        ir_version=11,
    ),
]

test_stays, test_fires = tables("SwishFusionPass", STAYS, FIRES, in_functions="less often")
