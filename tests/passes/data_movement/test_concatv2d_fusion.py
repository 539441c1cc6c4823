from harness import Fires, Stays, seen_by_subgraph, tables


def graph(inner: str, outer: str, y: str = "float[a,b] y", more: str = "", body: str = "") -> str:
    return f"agraph (float[2,3] p, float[2,3] q, float[2,3] r{more}) => ({y}) {{ {body} i = {inner} y = {outer} }}"


STAYS = [
    Stays(
        "another axis",
        graph("Concat <axis = 1> (p, q)", "Concat <axis = 0> (i, i)"),
        "the axes of the two operators differ",
    ),
    Stays(
        "used elsewhere",
        graph(
            "Concat <axis = 1> (p, q)",
            "Concat <axis = 1> (i, r) z = Neg (i)",
            "float[a,b] y, float[c,d] z",
        ),
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
        "the axes of the two operators differ",
    ),
    Stays(
        "a subgraph uses the inner one",
        seen_by_subgraph(
            graph("Concat <axis = 1> (p, q)", "Concat <axis = 1> (i, r)"), "i", "float[2,6]"
        ),
        "an interior value is used elsewhere",
    ),
    Stays(
        "the inner one is outside of the subgraph",
        """agraph (float[2,3] p, bool c) => (float[2,9] y) {
            i = Concat <axis = 1> (p, p)
            y = If (c) <then_branch = t () => (float[2,9] u) { u = Concat <axis = 1> (i, p) },
                        else_branch = e () => (float[2,9] v) { v = Concat <axis = 1> (p, i) }>
        }""",
        None,
    ),
    Stays(
        "pieces that would double and double again",
        graph(f"Concat <axis = 1> ({', '.join('pq' * 17)})", "Concat <axis = 1> (i, i)"),
        "an inner Concat is used elsewhere, or too often",
    ),
    Stays(
        "something between them",
        graph("Concat <axis = 1> (p, q) j = Neg (i)", "Concat <axis = 1> (j, r)"),
        None,
    ),
    Stays(
        "a sequence",
        graph("SequenceConstruct (p, q)", "ConcatFromSequence <axis = 1> (i)"),
        None,
    ),
    Stays(
        "axes from the back of an unknown rank",
        "agraph (float[2,3] p, int64[K] s) => (float[a,b] y) "
        "{ u = Reshape (p, s) i = Concat <axis = -2> (u, u) y = Concat <axis = -1> (i, u) }",
        "the axes of the two operators differ",
    ),
]

FIRES = [
    Fires("first", graph("Concat <axis = 1> (p, q)", "Concat <axis = 1> (i, r)"), ["Concat"]),
    Fires("last", graph("Concat <axis = 0> (p, q)", "Concat <axis = 0> (r, i)"), ["Concat"]),
    Fires(
        "negative axis", graph("Concat <axis = -1> (p, q)", "Concat <axis = 1> (r, i)"), ["Concat"]
    ),
    Fires(
        "twice the same",
        graph("Concat <axis = 1> (p, q)", "Concat <axis = 1> (i, r, i)"),
        ["Concat"],
    ),
    Fires(
        "three deep",
        graph("Concat <axis = 1> (p, q) j = Concat <axis = 1> (i, r)", "Concat <axis = 1> (p, j)"),
        ["Concat"],
    ),
    Fires(
        "one that stays between two that are merged",
        "agraph (float[2,3] p, float[2,3] q) => (float[a,b] y) { i = Concat <axis = 1> (p, q) "
        "j = Concat <axis = 0> (i, i) k = Concat <axis = 0> (j, j) y = Concat <axis = 1> (k, k) }",
        ["Concat", "Concat", "Concat"],
    ),
    Fires(
        "two inner ones",
        graph("Concat <axis = 1> (p, q) j = Concat <axis = 1> (q, r)", "Concat <axis = 1> (j, i)"),
        ["Concat"],
    ),
    Fires(
        "sizes 0",
        "agraph (float[2,0] p, float[2,3] q) => (float[2,6] y) "
        "{ i = Concat <axis = 1> (p, q) y = Concat <axis = 1> (i, q) }",
        ["Concat"],
    ),
    Fires(
        "integers",
        graph("Concat <axis = 1> (p, q)", "Concat <axis = 1> (i, r)").replace("float[", "int64["),
        ["Concat"],
    ),
    Fires(
        "strings",
        "agraph (string[N] p) => (string[M] y) { i = Concat <axis = 0> (p, p) y = Concat <axis = -1> (p, i) }",
        ["Concat"],
    ),
    Fires(
        "the same axis of an unknown rank",
        "agraph (float[2,3] p, int64[K] s) => (float[a,b] y) "
        "{ t = Shape (p) v = Abs (t) u = Reshape (p, v) i = Concat <axis = -1> (u, u) y = Concat <axis = -1> (i, u) }",
        ["Shape", "Abs", "Reshape", "Concat"],
        sizes={"K": 2},
    ),
    Fires(
        "one value only, again and again",
        graph("Concat <axis = 1> (p, p)", "Concat <axis = 1> (i, i, i)"),
        ["Concat"],
    ),
    Fires(
        "an inner one of one input",
        graph("Concat <axis = 1> (p)", "Concat <axis = 1> (i, q)"),
        ["Concat"],
    ),
    Fires(
        "constants",
        graph("Concat <axis = 0> (c, p)", "Concat <axis = 0> (i, c)").replace(
            "{", "<float[2,3] c> {", 1
        ),
        ["Concat"],
    ),
    Fires(
        "unknown sizes",
        "agraph (float[N,K] p, float[M,K] q) => (float[a,K] y) "
        "{ i = Concat <axis = 0> (p, q) y = Concat <axis = 0> (q, i) }",
        ["Concat"],
        sizes={"K": 3},
    ),
    *[
        Fires(
            f"opset {opset}",
            graph("Concat <axis = 1> (p, q)", "Concat <axis = -1> (i, r)"),
            ["Concat"],
            opset=opset,
            ir_version=ir,
        )
        for opset, ir in ((7, 3), (11, 6), (13, 7))
    ],
]

test_stays, test_fires = tables("ZConcatv2dFusionPass", STAYS, FIRES, in_functions="less often")
