from harness import Fires, Stays, tables


def graph(
    body: str,
    narrow: str = "float",
    wide: int = 11,
    back: int = 1,
    y: str = "",
    constants: str = "int64[2] s = {4, -1}",
) -> str:
    return f"agraph ({narrow}[N,4] x) => ({narrow}[A,B] y{y}) <{constants}> {{ a = Cast <to = {wide}> (x) {body} y = Cast <to = {back}> (b) }}"


STAYS = [
    Stays(
        "bfloat16, which Expand does not take here",
        "agraph (bfloat16[N,1] x) => (bfloat16[N,4] y) <int64[2] s = {1, 4}> "
        "{ a = Cast <to = 1> (x) b = Expand (a, s) y = Cast <to = 16> (b) }",
        "no CPU kernel for Expand of these elements",
    ),
    Stays(
        "by way of a narrower type",
        graph("b = Relu (a)", wide=10),
        "the Casts do not go to a wider type and back",
    ),
    Stays(
        "to another type",
        graph("b = Relu (a)", back=10).replace("=> (float[", "=> (float16["),
        "the Casts do not go to a wider type and back",
    ),
    Stays("an operator that rounds", graph("b = Sqrt (a)"), None),
    Stays(
        "integers that wrap around",
        graph("b = Neg (a)", "int32", 7, 6),
        "the elements are not floating-point numbers",
    ),
    Stays(
        "the wide value is used elsewhere",
        graph("b = Relu (a)", y=", double[N,4] a"),
        "an interior value is a graph output",
    ),
]

FIRES = [
    Fires("Relu", graph("b = Relu (a)"), ["Relu"]),
    Fires("Transpose", graph("b = Transpose <perm = [1, 0]> (a)"), ["Transpose"]),
    Fires("Reshape", graph("b = Reshape (a, s)"), ["Reshape"], zero_sizes=False),
    Fires(
        "integers that only move",
        graph("b = Transpose <perm = [1, 0]> (a)", "int32", 7, 6),
        ["Transpose"],
    ),
    Fires("float16", graph("b = Abs (a)", "float16", 1, 10), ["Abs"]),
]

test_stays, test_fires = tables("CastReluCastFusionPass", STAYS, FIRES)
