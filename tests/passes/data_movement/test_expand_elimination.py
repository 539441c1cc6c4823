from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    x: str = "1,300",
    z: str = "200,300",
    s: str = "200, 300",
    body: str = "y = Add (e, z)",
    y: str = "",
    kind: str = "float",
    made: str = "",
    more: str = "",
    inputs: str = "",
) -> str:
    """An Expand of x to the shape s, or to that of z, in front of an operator that makes y."""
    shape = f" <int64[{s.count(',') + 1}] s = {{{s}}}>" if s else ""
    rank = max(text.count(",") for text in (x, z, s)) + 1
    interface = f"({kind}[{x}] x, {kind}[{z}] z{inputs}) => ({made or kind}[{y or ','.join('abcde'[:rank])}] y{more})"
    return (
        f"agraph {interface}{shape} {{ {'' if s else 's = Shape (z)'} e = Expand (x, s) {body} }}"
    )


RAISES = "the Expand raises the rank"
LARGER = "the Expand may enlarge the result"
SHORT = "the runs of elements are too short for the operator to broadcast them"
CHOSEN = ", bool[200,300] c"
STAYS = [
    *[
        Stays(
            f"a constant tensor, {name}",
            f"agraph (float[{z}] z{more}) => (float[{y}] y) {{ {body} }}",
            reason,
            valid=bool(z),
        )
        for name, z, more, y, body, reason in (
            (
                "of another size",
                "N,3",
                ", int64[2] s",
                "a,b",
                "c = ConstantOfShape (s) y = Add (c, z)",
                LARGER,
            ),
            (
                "larger",
                "1,3",
                ", float[N,3] w",
                "a,b",
                "s = Shape (w) c = ConstantOfShape (s) y = Add (c, z)",
                LARGER,
            ),
            (
                "of a higher rank",
                "3",
                ", float[1,3] w",
                "a,b",
                "s = Shape (w) c = ConstantOfShape (s) y = Add (c, z)",
                RAISES,
            ),
            (
                "of an unknown rank",
                "",
                "",
                "",
                "s = Shape (z) c = ConstantOfShape (s) y = Add (c, z)",
                "the rank is unknown",
            ),
            (
                "not elementwise",
                "N,3",
                "",
                "a,b",
                "s = Shape (z) c = ConstantOfShape (s) y = Concat <axis = 0> (c, z)",
                None,
            ),
        )
    ],
    Stays(
        "a Tile of three",
        "agraph (float[3] x, float[N,6] z) => (float[a,b] y) <int64[1] r = {2}> { e = Tile (x, r) y = Add (e, z) }",
        "the node repeats more than single elements",
    ),
    Stays("the other is smaller", graph(z="1,300"), LARGER),
    Stays("the other is smaller at one axis", graph(z="200,1", x="1,1"), LARGER),
    Stays("another size", graph(z="N,300", s="5, 1"), LARGER),
    Stays(
        "other symbols",
        graph("1,300", "N,300", "", "y = Add (e, w)", y="a,300", inputs=", float[M,300] w"),
        LARGER,
    ),
    Stays("a higher rank", graph("300", "300", "1, 300"), RAISES),
    Stays(
        "a shape from outside",
        "agraph (float[1,300] x, float[N,300] z, int64[2] s) => (float[a,b] y) { e = Expand (x, s) y = Add (e, z) }",
        LARGER,
    ),
    Stays("taken twice", graph(body="y = Add (e, e)"), None),
    Stays("not elementwise", graph("1,300", "300,300", "200, 300", "y = MatMul (e, z)"), None),
    Stays("what PRelu takes", graph(body="y = PRelu (e, z)"), "PRelu broadcasts only its slope"),
    Stays(
        "used in a subgraph alone",
        seen_by_subgraph(graph(body="y = Add (x, z)"), "e", "float[200,300]"),
        None,
    ),
    Stays("a row of three", graph("1,3", "200,3", "200, 3"), SHORT),
    Stays("a row of three, for nobody knows how many", graph("1,3", "N,3", ""), SHORT),
    Stays("planes between short runs", graph("50,1,8", "50,4,8", "50, 4, 8"), SHORT),
    Stays("each second axis", graph("20,1,20,1", "20,4,20,4", "20, 4, 20, 4"), SHORT),
    Stays(
        "short runs of a condition",
        graph(
            "1000,1",
            "1000,3",
            "1000, 3",
            "c = Cast <to = 1> (z) y = Where (e, c, c)",
            kind="bool",
            made="float",
        ),
        SHORT,
    ),
    Stays(
        "an unknown rank",
        graph("1,300", "N,300", "", inputs=", float[] w", body="y = Add (e, w)", y=""),
        "the rank is unknown",
        valid=False,
    ),
    Stays(
        "aligned at an axis, before opset 7",
        graph(body="y = Add <broadcast = 1> (e, z)"),
        None,
        opset=6,
        valid=False,
    ),
]
FIRES = [
    *[
        Fires(
            f"a constant tensor of {kind or 'zeros'}",
            f"agraph ({made}[N,M] z) => ({made}[a,b] y) {{ s = Shape (z) c = ConstantOfShape {kind} (s) y = {op} (z, c) }}",
            [op],
        )
        for kind, made, op in (
            ("", "float", "Sub"),
            ("<value = float[1] {-2.5}>", "float", "Mul"),
            ("<value = int64[1] {3}>", "int64", "Max"),
            ("<value = bool[1] {1}>", "bool", "Xor"),
        )
    ],
    Fires(
        "a Tile of a row",
        "agraph (float[1,300] x, float[200,300] z) => (float[a,b] y) <int64[2] r = {200, 1}> "
        "{ e = Tile (x, r) y = Add (e, z) }",
        ["Add"],
    ),
    Fires("a row", graph(), ["Add"]),
    Fires("commuted", graph(body="y = Add (z, e)"), ["Add"]),
    Fires("a column", graph("200,1"), ["Add"]),
    Fires("a column of pairs", graph("200,1", "200,2", "200, 2"), ["Add"]),
    Fires("a scalar", graph("1", "200,3", "200, 3"), ["Add"]),
    Fires("of a lower rank", graph("300"), ["Add"]),
    Fires("symbols", graph("1,300", "N,300", ""), ["Add"]),
    Fires("a column of symbols", graph("N,1", "N,M", "", "y = Div (e, z)"), ["Div"]),
    Fires("the other has a higher rank", graph("1,300", "2,100,300", "100, 300"), ["Add"]),
    Fires("few rows", graph("1,3", "20,3", "20, 3"), ["Add"]),
    Fires("it raises the rank, and so does the other", graph("300", "1,300", "1, 300"), ["Add"]),
    Fires(
        "what two others make",
        graph("1,1", "200,1", "200, 300", "y = Sum (e, z, w)", inputs=", float[1,300] w"),
        ["Sum"],
    ),
    Fires("a slope", graph("300", body="y = PRelu (z, e)"), ["PRelu"]),
    Fires("compared", graph(kind="int64", made="bool", body="y = Equal (e, z)"), ["Equal"]),
    Fires("chosen", graph(body="y = Where (c, e, z)", inputs=CHOSEN), ["Where"]),
    Fires(
        "a condition",
        graph(
            kind="bool",
            made="float",
            body="c = Cast <to = 1> (z) y = Where (e, c, c)",
            x="1,600",
            z="200,600",
            s="200, 600",
        ),
        ["Cast", "Where"],
    ),
    Fires(
        "two of three",
        graph(
            "1,1", body="f = Expand (w, s) y = Where (c, e, f)", inputs=CHOSEN + ", float[1,300] w"
        ),
        ["Where"],
        2,
    ),
    Fires("two users", graph(body="a = Add (e, z) y = Mul (a, e)"), ["Add", "Mul"], 2),
    Fires(
        "one of two users",
        graph(body="y = Add (e, z) n = Neg (e)", more=", float[a,b] n"),
        ["Expand", "Add", "Neg"],
    ),
]

test_stays, test_fires = tables("ExpandEliminationPass", STAYS, FIRES, in_functions="never")
