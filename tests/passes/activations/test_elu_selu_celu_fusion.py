from harness import Fires, Stays, tables

CONSTANTS = (
    "float zero = {0}, float one = {1}, float minus = {-1}, float a = {1.5}, float c = {1.05}"
)


def graph(body: str, constants: str = CONSTANTS) -> str:
    return f"agraph (float[N,4] x) => (float[N,4] y) <{constants}> {{ {body} }}"


BELOW = "e = Exp (x) s = Sub (e, one) b = Mul (a, s)"
CELU = "q = Div (x, a) e = Exp (q) s = Sub (e, one) b = Mul (s, a) n = Min (b, zero) p = Relu (x) y = Add (p, n)"
STAYS = [
    Stays(
        "a factor that raises the rank",
        graph("e = Elu (x) y = Mul (e, v)", "float[1,1,1] v").replace(
            "=> (float[N,4] y", "=> (float[1,N,4] y"
        ),
        "the constant is not a single number",
    ),
    Stays(
        "the branches the other way round",
        graph(f"{BELOW} p = Greater (x, zero) y = Where (p, b, x)"),
        None,
    ),
    Stays("another threshold", graph(f"{BELOW} p = Greater (x, one) y = Where (p, x, b)"), None),
    Stays(
        "an alpha for each column",
        graph(
            f"{BELOW} p = Greater (x, zero) y = Where (p, x, b)",
            CONSTANTS.replace("float a = {1.5}", "float[4] a"),
        ),
        "the constant is not a single number",
    ),
    Stays(
        "a negative alpha beside Min",
        graph(
            f"{BELOW} n = Min (b, zero) p = Relu (x) y = Add (p, n)",
            CONSTANTS.replace("{1.5}", "{-1.5}"),
        ),
        "alpha is not positive",
    ),
    Stays(
        "an alpha that is no number beside Min",
        graph(
            f"{BELOW} n = Min (b, zero) p = Relu (x) y = Add (p, n)",
            CONSTANTS.replace("{1.5}", "{nan}"),
        ),
        "alpha is not positive",
    ),
    *(
        Stays(
            f"Selu, alpha {alpha}",
            graph(f"e = Elu <alpha = {alpha}> (x) y = Mul (c, e)"),
            "alpha is not positive",
        )
        for alpha in ("-1.5", "0.0")
    ),
    Stays(
        "another divisor",
        graph(CELU.replace("(x, a)", "(x, c)")),
        "alpha is not the same positive number in both places",
    ),
    Stays(
        "a constant for each column",
        graph("e = Elu (x) y = Mul (e, v)", "float[4] v"),
        "the constant is not a single number",
    ),
    Stays(
        "used elsewhere",
        graph(f"{BELOW} p = Greater (x, zero) y = Where (p, x, b)").replace(
            "float[N,4] y)", "float[N,4] y, float[N,4] s)"
        ),
        "an interior value is a graph output",
    ),
]

FIRES = [
    Fires("Where, greater", graph(f"{BELOW} p = Greater (x, zero) y = Where (p, x, b)"), ["Elu"]),
    Fires("Where, less", graph(f"{BELOW} p = LessOrEqual (x, zero) y = Where (p, b, x)"), ["Elu"]),
    Fires(
        "without alpha, −1 added",
        graph("e = Exp (x) b = Add (e, minus) p = GreaterOrEqual (x, zero) y = Where (p, x, b)"),
        ["Elu"],
    ),
    Fires("beside Min", graph(f"{BELOW} n = Min (zero, b) p = Relu (x) y = Add (n, p)"), ["Elu"]),
    Fires("Selu", graph("e = Elu <alpha = 1.67326> (x) y = Mul (c, e)"), ["Selu"]),
    Fires("Celu", graph(CELU), ["Celu"]),
]

test_stays, test_fires = tables("EluSeluCeluFusionPass", STAYS, FIRES, in_functions="never")
