from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    body: str = "y = Where (n, a, b)",
    condition: str = "bool[N,3] c",
    a: str = "float[N,3] a",
    b: str = "float[N,3] b",
    y: str = "float[N,3] y",
) -> str:
    return f"agraph ({condition}, {a}, {b}) => ({y}) {{ n = Not (c) {body} }}"


STAYS = [
    Stays(
        "used elsewhere", graph("d = Cast <to = 1> (n) e = Where (n, a, b) y = Add (d, e)"), None
    ),
    Stays("a graph output", graph(y="float[N,3] y, bool[N,3] n"), None),
    Stays(
        "chosen as well",
        graph("y = Where (n, n, d) d = Equal (a, b)", y="bool[N,3] y").replace(
            "y = Where (n, n, d) d = Equal (a, b)", "d = Equal (a, b) y = Where (n, n, d)"
        ),
        None,
    ),
    Stays("only chosen", graph("d = Equal (a, b) y = Where (d, n, d)", y="bool[N,3] y"), None),
    Stays(
        "something is divided by the result",
        graph("d = Where (n, a, b) e = Relu (d) y = Reciprocal (e)"),
        "a later division depends on the sign of a zero",
    ),
    Stays("a subgraph needs the negation", seen_by_subgraph(graph(), "n", "bool[N,3]"), None),
]
FIRES = [
    Fires("one", graph(), ["Where"]),
    Fires("a grid behind it", graph("d = Where (n, a, b) y = Round (d)"), ["Where", "Round"]),
    Fires(
        "several of one negation",
        graph("d = Where (n, a, b) y = Where (n, d, a)"),
        ["Where", "Where"],
        2,
    ),
    Fires("broadcast", graph(condition="bool[1,3] c", a="float[N,1] a", b="float b"), ["Where"]),
    Fires(
        "the condition has the highest rank",
        graph(condition="bool[N,2,3] c", a="float[3] a", b="float[1] b", y="float[N,2,3] y"),
        ["Where"],
    ),
    Fires(
        "integers",
        graph(a="int64[N,3] a", b="int64[N,3] b", y="int64[N,3] y"),
        ["Where"],
        opset=9,
        ir_version=3,
    ),
]

test_stays, test_fires = tables("WhereNotPass", STAYS, FIRES)
