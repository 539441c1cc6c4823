from harness import Fires, Stays, tables


def graph(inner: str, outer: str, y: str = "float[a,b] y", more: str = "", body: str = "") -> str:
    return f"agraph (float[2,3] p, float[2,3] q, float[2,3] r{more}) => ({y}) {{ {body} i = {inner} y = {outer} }}"


STAYS = [
    Stays("another axis", graph("Concat <axis = 1> (p, q)", "Concat <axis = 0> (i, i)"), "the axes differ"),
    Stays(
        "used elsewhere",
        graph("Concat <axis = 1> (p, q)", "Concat <axis = 1> (i, r) z = Neg (i)", "float[a,b] y, float[c,d] z"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a graph output",
        graph("Concat <axis = 1> (p, q)", "Concat <axis = 1> (i, r)", "float[a,b] y, float[2,6] i"),
        "an interior value is a graph output",
    ),
    Stays(
        "axes that only the rank makes equal",
        "agraph (float[2,3] p, int64[K] s) => (float[a,b] y) "
        "{ u = Reshape (p, s) i = Concat <axis = 1> (u, u) y = Concat <axis = -1> (i, u) }",
        "the axes differ",
    ),
]

FIRES = [
    Fires("first", graph("Concat <axis = 1> (p, q)", "Concat <axis = 1> (i, r)"), ["Concat"]),
    Fires("last", graph("Concat <axis = 0> (p, q)", "Concat <axis = 0> (r, i)"), ["Concat"]),
    Fires("negative axis", graph("Concat <axis = -1> (p, q)", "Concat <axis = 1> (r, i)"), ["Concat"]),
    Fires("twice the same", graph("Concat <axis = 1> (p, q)", "Concat <axis = 1> (i, r, i)"), ["Concat"]),
    Fires(
        "three deep",
        graph("Concat <axis = 1> (p, q) j = Concat <axis = 1> (i, r)", "Concat <axis = 1> (p, j)"),
        ["Concat"],
        2,
    ),
    Fires(
        "two inner ones",
        graph("Concat <axis = 1> (p, q) j = Concat <axis = 1> (q, r)", "Concat <axis = 1> (j, i)"),
        ["Concat"],
        2,
    ),
    Fires(
        "sizes 0",
        "agraph (float[2,0] p, float[2,3] q) => (float[2,6] y) "
        "{ i = Concat <axis = 1> (p, q) y = Concat <axis = 1> (i, q) }",
        ["Concat"],
    ),
    Fires(
        "strings", graph("Concat <axis = 1> (p, q)", "Concat <axis = 1> (i, r)").replace("float[", "int64["), ["Concat"]
    ),
]

test_stays, test_fires = tables("ZConcatv2dFusionPass", STAYS, FIRES)
