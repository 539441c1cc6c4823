from harness import Fires, Stays, tables


def graph(
    body: str,
    constants: str = "float low = {-1}, float high = {2}, float six = {6}, float zero = {0}",
    x: str = "float[N,4]",
    y: str = "",
) -> str:
    return f"agraph ({x} x) => ({x} y{y}) <{constants}> {{ {body} }}"


STAYS = [
    Stays("Abs of a value that may be negative", graph("a = Tanh (x) y = Abs (a)"), None),
    Stays(
        "the sign of a zero decides",
        graph("a = Relu (x) b = Abs (a) y = Reciprocal (b)"),
        "a later division depends on the sign of a zero",
    ),
    Stays(
        "another number in place of the limit",
        graph("b = Greater (x, six) y = Where (b, high, x)"),
        "the replacement is not the limit",
    ),
    Stays(
        "the smaller ones are kept, and NaN is replaced",
        graph("b = Less (x, six) y = Where (b, x, six)"),
        None,
    ),
    Stays(
        "a limit that enlarges the result",
        graph(
            "b = Greater (x, six) y = Where (b, six, x)", "float[2,1,1] six = {6, 6}", "float[4]"
        ),
        "a limit is not a single number",
        valid=False,
    ),
    Stays(
        "double, which Clip of an old opset does not take here",
        graph(
            "a = Min (x, high) y = Max (a, low)",
            "double low = {-1}, double high = {2}",
            "double[N,4]",
        ),
        "no CPU kernel for Clip of double",
        opset=8,
    ),
    Stays(
        "limits of more digits than an attribute has",
        graph(
            "a = Min (x, high) y = Max (a, low)",
            "double low = {0.1}, double high = {0.7}",
            "double[N,4]",
        ),
        "a number has more digits than an attribute can hold",
        opset=8,
        target="onnx",
    ),
    Stays(
        "the lower limit is above",
        graph("a = Clip (x, six, high) y = Relu (a)"),
        "a lower limit is above the upper one",
    ),
    Stays("one Min alone", graph("y = Min (x, high)"), None),
    Stays(
        "a limit for each column",
        graph("a = Min (x, v) y = Max (a, low)", constants="float[4] v, float low = {-1}"),
        "a limit is not a single number",
    ),
    Stays(
        "a constant raises the rank",
        graph(
            "a = Min (x, v) y = Max (a, low)", constants="float[1,1,1] v, float low = {-1}"
        ).replace("=> (float[N,4] y", "=> (float[1,N,4] y"),
        "the constant may enlarge the result",
    ),
    Stays(
        "the inner value is used elsewhere",
        graph("a = Min (x, high) y = Max (a, low)", y=", float[N,4] a"),
        "an interior value is a graph output",
    ),
    Stays(
        "NaN",
        graph("a = Min (x, v) y = Max (a, low)", constants="float v = {nan}, float low = {-1}"),
        "a limit is NaN",
    ),
    *(
        Stays(
            f"a limit of 0, then {name}",
            graph(body),
            "a later division depends on the sign of a zero",
        )
        for name, body in {
            "Div": "a = Max (x, zero) y = Div (high, a)",
            "Reciprocal": "a = Max (x, zero) y = Reciprocal (a)",
            "Pow": "a = Max (x, zero) b = Min (a, six) y = Pow (b, low)",
        }.items()
    ),
    Stays(
        "opset 5",
        graph("a = Min (x, high) y = Relu (a)"),
        "before opset 6, Clip has a different form",
        opset=5,
    ),
    Stays(
        "limits that are computed",
        "agraph (float[N] x, float l) => (float[N] y) { a = Clip (x, l) y = Relu (a) }",
        "a limit is not constant",
    ),
]

# Nothing has folded them: which operand is the limit must not be guessed.
CONSTANT = (
    "agraph (float[N] x) => (float y, float[N] z) "
    "<float two = {{2}}, float five = {{-5}}, float six = {{-6}}, float zero = {{0}}> {{ {} z = Neg (x) }}"
)
FIRES = [
    Fires("Abs of Relu", graph("a = Relu (x) b = Abs (a) y = Neg (b)"), ["Relu", "Neg"]),
    Fires("6 where x is larger", graph("b = Greater (x, six) y = Where (b, six, x)"), ["Clip"]),
    Fires("2 where 2 is less", graph("b = LessOrEqual (high, x) y = Where (b, high, x)"), ["Clip"]),
    Fires("a lower limit", graph("b = Less (x, low) y = Where (b, low, x)"), ["Clip"]),
    Fires(
        "0 where 0 is at least x",
        graph("b = GreaterOrEqual (zero, x) y = Where (b, zero, x)"),
        ["Relu"],
    ),
    Fires("Min of Max", graph("a = Max (x, low) y = Min (a, high)"), ["Clip"]),
    Fires("Max of Min", graph("a = Min (high, x) y = Max (low, a)"), ["Clip"]),
    Fires("Relu, then 6", graph("a = Relu (x) y = Min (a, six)"), ["Clip"]),
    Fires("Clip, then Relu", graph("a = Clip (x, low, high) y = Relu (a)"), ["Clip"]),
    Fires("Clip below zero only, then Relu", graph("a = Clip (x, low) y = Relu (a)"), ["Clip"]),
    Fires("no upper limit", graph("a = Max (x, low) y = Relu (a)"), ["Relu"]),
    Fires("no upper limit, infinity stays", graph("a = Max (x, low) y = Max (a, high)"), ["Clip"]),
    Fires("Clip of Clip", graph("a = Clip (x, low, six) y = Clip (a, , high)"), ["Clip"]),
    Fires("limits that do not meet", graph("a = Clip (x, , low) y = Relu (a)"), ["Clip"]),
    Fires("Max with zero", graph("y = Max (x, zero)"), ["Relu"]),
    Fires("Max of a constant and zero", CONSTANT.format("y = Max (five, zero)"), ["Relu", "Neg"]),
    Fires(
        "Max and Min of constants",
        CONSTANT.format("a = Max (six, five) y = Min (two, a)"),
        ["Clip", "Neg"],
    ),
    Fires(
        "three in a row",
        graph("a = Relu (x) b = Min (a, six) y = Max (b, low)"),
        ["Clip"],
        effected=2,
    ),
    Fires(
        "opset 10",
        "agraph (float[N,4] x) => (float[N,4] y) { a = Clip <min = -1.0, max = 3.0> (x) y = Relu (a) }",
        ["Clip"],
        opset=10,
    ),
    Fires(
        "opset 6, open",
        "agraph (float[N,4] x) => (float[N,4] y) { a = Clip <max = 3.0> (x) y = Clip <max = 2.0> (a) }",
        ["Clip"],
        opset=6,
    ),
    Fires(
        "integers",
        "agraph (int64[N,4] x) => (int64[N,4] y) <int64 one = {1}, int64[1] two = {2}> { a = Max (x, one) y = Min (a, two) }",
        ["Clip"],
    ),
    Fires(
        "one element of rank 1",
        graph("a = Max (x, v) y = Min (a, six)", constants="float[1] v = {-1}, float six = {6}"),
        ["Clip"],
    ),
]

test_stays, test_fires = tables("ClipFusionPass", STAYS, FIRES, in_functions="less often")
