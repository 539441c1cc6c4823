from harness import Fires, Stays, tables

GRAPH = "agraph ({kind}[N,3] x) => ({kind}[N,3] y{more}) {{ a = {last} (x) b = {f} (a) c = {g} (b) y = {last} (c) {end} }}"


def graph(
    f: str, g: str, kind: str = "float", last: str = "Exp", more: str = "", end: str = ""
) -> str:
    return GRAPH.format(f=f, g=g, kind=kind, last=last, more=more, end=end)


STAYS = [
    Stays("two different ones", graph("Relu", "Abs"), None),
    Stays("Sin is neither", graph("Sin", "Sin"), None),
    Stays(
        "used in between",
        graph("Neg", "Neg", more=", float[N,3] z", end="z = Abs (b)"),
        "an interior value is used elsewhere",
    ),
]

FIRES = [
    *[
        Fires(f, graph(f, f), ["Exp", f, "Exp"])
        for f in ("Relu", "Abs", "Ceil", "Floor", "Round", "Sign")
    ],
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
