from harness import Fires, Stays, tables


def graph(
    concat: str,
    split: str = "p, q = Split <axis = 1, num_outputs = 2> (r)",
    x: str = "float[N,4] x",
    more: str = "",
    y: str = "",
) -> str:
    out = ",".join("abcdef"[: x.count(",") + 1])
    return f"agraph ({x}) => (float[{out}] y{y}) {{ r = Relu (x) {split} z = {concat} y = Neg (z) {more} }}"


STAYS = [
    Stays("another order", graph("Concat <axis = 1> (q, p)"), None),
    Stays("a piece twice", graph("Concat <axis = 1> (p, q, q)"), None),
    Stays(
        "not all pieces",
        graph("Concat <axis = 1> (p, q)", "p, q, s = Split <axis = 1, num_outputs = 3> (r)", "float[N,6] x"),
        None,
    ),
    Stays(
        "a piece is used elsewhere",
        graph("Concat <axis = 1> (p, q)", more="w = Abs (p)", y=", float[N,2] w"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "another axis, unequal pieces",
        graph("Concat <axis = 0> (p, q)", "p, q = Split <axis = 1, num_outputs = 2> (r)", "float[N,4] x")
        .replace("num_outputs = 2> (r)", "num_outputs = 2> (r)")
        .replace("float[N,4] x", "float[N,M] x"),
        "the pieces are not known to be equal",
    ),
    Stays(
        "another axis, two unknown dimensions",
        graph("Concat <axis = 1> (p, q)", "p, q = Split <axis = 2, num_outputs = 2> (r)", "float[N,M,4] x"),
        "more than one dimension is unknown",
    ),
]

MOVED = ["Relu", "Reshape", "Transpose", "Reshape", "Neg"]
FIRES = [
    Fires("the same axis", graph("Concat <axis = 1> (p, q)"), ["Relu", "Neg"]),
    Fires("a negative axis", graph("Concat <axis = -1> (p, q)"), ["Relu", "Neg"]),
    Fires(
        "unequal pieces of the same axis",
        graph("Concat <axis = 1> (p, q)", "p, q = Split <axis = 1, num_outputs = 2> (r)", "float[N,5] x"),
        ["Relu", "Neg"],
    ),
    Fires("the batch", graph("Concat <axis = 0> (p, q)"), MOVED),
    Fires("to a later axis", graph("Concat <axis = 2> (p, q)", x="float[N,4,3] x"), MOVED),
    Fires(
        "to an earlier axis",
        graph("Concat <axis = 1> (p, q)", "p, q = Split <axis = 3, num_outputs = 2> (r)", "float[N,3,5,4] x"),
        MOVED,
    ),
    Fires(
        "three pieces, opset 11",
        graph("Concat <axis = 2> (p, q, s)", "p, q, s = Split <axis = 1> (r)", "float[N,6,3] x"),
        MOVED,
        opset=11,
    ),
    Fires(
        "from and to the unknown dimension",
        graph("Concat <axis = 0> (p, q)", "p, q = Split <axis = 2, num_outputs = 2> (r)", "float[N,3,4] x"),
        MOVED,
    ),
]

test_stays, test_fires = tables("SplitConcatFusionPass", STAYS, FIRES)
