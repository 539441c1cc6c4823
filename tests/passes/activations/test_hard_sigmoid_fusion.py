from harness import Fires, Stays, tables

CONSTANTS = "float three = {3}, float six = {6}, float sixth = {0.16666667}, float zero = {0}, float one = {1}, float fifth = {0.2}, float half = {0.5}, float five = {5}"


def graph(body: str, constants: str = CONSTANTS, x: str = "float[N,4]", y: str = "") -> str:
    return f"agraph ({x} x) => ({x} y{y}) <{constants}> {{ {body} }}"


RELU6 = "a = Add (x, three) b = Clip (a, zero, six)"
STAYS = [
    Stays(
        "divided by a negative number",
        graph(
            "a = Add (x, three) b = Clip (a, zero, minus) y = Div (b, minus)",
            CONSTANTS + ", float minus = {-6}",
        ),
        "the limits are not 0 and 1",
    ),
    Stays(
        "a line divided by zero",
        graph("m = Div (x, zero) a = Add (m, half) y = Clip (a, zero, one)"),
        "division by zero",
    ),
    Stays(
        "a constant raises the rank",
        graph(
            "a = Add (x, v) y = Clip (a, zero, one)", CONSTANTS + ", float[1,1,1] v = {0.5}"
        ).replace("=> (float[N,4] y", "=> (float[1,N,4] y"),
        "the constant is not a single number",
    ),
    Stays(
        "another upper limit",
        graph("a = Add (x, three) b = Clip (a, zero, five) y = Div (b, six)"),
        "the limits are not 0 and 1",
    ),
    Stays(
        "a limit for each column",
        graph(f"{RELU6} y = Div (b, v)", constants=CONSTANTS + ", float[4] v"),
        ("the constant is not a single number", "the limits are not 0 and 1"),
    ),
    Stays(
        "the lower limit is not 0",
        graph("a = Add (x, three) b = Clip (a, half, six) y = Div (b, six)"),
        "the limits are not 0 and 1",
    ),
    Stays(
        "used elsewhere",
        graph(f"{RELU6} y = Div (b, six)", y=", float[N,4] b"),
        ("an interior value is a graph output", "the limits are not 0 and 1"),
    ),
    Stays(
        "double has no kernel",
        graph(f"{RELU6} y = Div (b, six)").replace("float", "double").replace("{6}", "{4}"),
        ("no CPU kernel for HardSigmoid of double", "the limits are not 0 and 1"),
    ),
    Stays(
        "a sixth of doubles",
        graph(f"{RELU6} y = Div (b, six)").replace("float", "double"),
        ("a number has more digits than an attribute can hold", "the limits are not 0 and 1"),
        target="onnx",
    ),
]

FIRES = [
    Fires("divided by 6", graph(f"{RELU6} y = Div (b, six)"), ["HardSigmoid"]),
    Fires("times a sixth", graph(f"{RELU6} y = Mul (sixth, b)"), ["HardSigmoid"]),
    Fires(
        "a line",
        graph("m = Mul (fifth, x) a = Add (half, m) y = Clip (a, zero, one)"),
        ["HardSigmoid"],
    ),
    Fires(
        "a line by division",
        graph("m = Div (x, five) a = Add (m, half) y = Clip (a, zero, one)"),
        ["HardSigmoid"],
    ),
    Fires(
        "hard swish, the product first",
        graph(f"{RELU6} p = Mul (x, b) y = Div (p, six)"),
        ["HardSigmoid", "Mul"],
    ),
    Fires(
        "hard swish, the product last",
        graph(f"{RELU6} s = Div (b, six) y = Mul (x, s)"),
        ["HardSigmoid", "Mul"],
    ),
    Fires(
        "opset 10",
        "agraph (float[N,4] x) => (float[N,4] y) <float three = {3}, float six = {6}> { a = Add (x, three) b = Clip <min = 0.0, max = 6.0> (a) y = Div (b, six) }",
        ["HardSigmoid"],
        opset=10,
    ),
]

test_stays, test_fires = tables("HardSigmoidFusionPass", STAYS, FIRES, in_functions="never")
