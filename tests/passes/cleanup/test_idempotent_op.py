from harness import Fires, Stays, tables

GRAPH = "agraph ({kind}[N,3] x) => ({kind}[N,3] y{more}) {{ a = {last} (x) b = {f} (a) c = {g} (b) y = {last} (c) {end} }}"


def graph(
    f: str, g: str, kind: str = "float", last: str = "Exp", more: str = "", end: str = ""
) -> str:
    return GRAPH.format(f=f, g=g, kind=kind, last=last, more=more, end=end)


STAYS = [
    Stays("Abs of a value that may be negative", graph("Tanh", "Abs"), None),
    Stays(
        "the sign of a zero decides",
        "agraph (float[N,3] x) => (float[N,3] y) { a = Relu (x) b = Abs (a) y = Reciprocal (b) }",
        "a later division depends on the sign of a zero",
    ),
    Stays("two different ones", graph("Ceil", "Sign"), None),
    Stays("Sin is neither", graph("Sin", "Sin"), None),
    Stays(
        "used in between",
        graph("Neg", "Neg", more=", float[N,3] z", end="z = Abs (b)"),
        "an interior value is used elsewhere",
    ),
]

FIRES = [
    *[
        Fires(f, graph(f, f, last="Sin"), ["Sin", f, "Sin"])
        for f in ("Relu", "Abs", "Ceil", "Floor", "Round", "Sign")
    ],
    Fires("Abs of Relu", graph("Relu", "Abs", last="Sin"), ["Sin", "Relu", "Sin"]),
    Fires("Relu of Abs", graph("Abs", "Relu", last="Sin"), ["Sin", "Abs", "Sin"]),
    Fires("Relu of Sigmoid", graph("Sigmoid", "Relu", last="Neg"), ["Neg", "Sigmoid", "Neg"]),
    Fires("Neg", graph("Neg", "Neg"), ["Exp", "Exp"]),
    Fires("Not", graph("Not", "Not", "bool", "Identity"), ["Identity", "Identity"]),
    Fires(
        "from input to output",
        "agraph (float[N] x) => (float[N] y) { a = Neg (x) y = Neg (a) }",
        ["Identity"],
    ),
    Fires(
        "three",
        "agraph (float[N] x) => (float[N] y) { a = Relu (x) b = Relu (a) y = Relu (b) }",
        ["Relu"],
        2,
    ),
]

test_stays, test_fires = tables("IdempotentOpPass", STAYS, FIRES)
