from harness import Fires, Stays, tables

ONE = ", ".join(
    f"int64[1] {name} = {{{number}}}"
    for name, number in (
        ("zero", 0),
        ("one", 1),
        ("two", 2),
        ("minus", -1),
        ("four", 4),
        ("eight", 8),
    )
)


def graph(
    shape: str,
    last: str = "y = Reshape (x, t)",
    x: str = "float[N,S,8] x",
    more: str = "",
    y: str = "a,b,c,d",
) -> str:
    return f"""agraph ({x}{more}) => (float[{y}] y) <{ONE}, int64 i = {{0}}, int64 j = {{1}}> {{
        s = Shape (x) {shape} {last} }}"""


HEADS = "n = Gather (s, i) n1 = Unsqueeze (n, zero) m = Gather (s, j) m1 = Unsqueeze (m, zero)"
STAYS = [
    Stays(
        "two dimensions at other places",
        graph(f"{HEADS} t = Concat <axis = 0> (m1, n1, eight)", y="a,b,c"),
        None,
    ),
    Stays(
        "a dimension of another value",
        graph(
            "z1 = Shape (z) n1 = Gather (z1, zero) q = Gather (z1, one) t = Concat <axis = 0> (n1, q, eight)",
            more=", float[K,L] z",
            y="a,b,c",
        ),
        None,
    ),
    Stays(
        "a symbol beside −1",
        graph("n1 = Gather (s, one) t = Concat <axis = 0> (n1, minus)", y="a,b"),
        None,
    ),
    Stays(
        "allowzero, a dimension that is not the one of x",
        graph(
            f"{HEADS} t = Concat <axis = 0> (n1, eight, m1)",
            "y = Reshape <allowzero = 1> (x, t)",
            y="a,b,c",
        ),
        None,
    ),
    Stays(
        "allowzero, no elements",
        graph(
            "n1 = Gather (s, zero) t = Concat <axis = 0> (n1, zero)",
            "y = Reshape <allowzero = 1> (x, t)",
            "float[N,0] x",
            y="a,b",
        ),
        None,
    ),
    Stays(
        "arithmetic that is not followed",
        graph("n1 = Gather (s, zero) d = Mul (n1, two) t = Concat <axis = 0> (d, minus)", y="a,b"),
        None,
    ),
    Stays(
        "Expand to a dimension of another value",
        graph(
            "z1 = Shape (z) n1 = Gather (z1, zero) t = Concat <axis = 0> (n1, one)",
            "y = Expand (x, t)",
            "float[1,1] x",
            ", float[K] z",
            "a,b",
        ),
        None,
    ),
]

FIRES = [
    Fires(
        "allowzero, dimensions of x at their places, as torch exports it",
        graph(
            f"{HEADS} t = Concat <axis = 0> (n1, m1, two, four)",
            "y = Reshape <allowzero = 1> (x, t)",
            y="a,b,c,d",
        ),
        ["Reshape"],
    ),
    Fires(
        "allowzero and a written −1",
        graph(
            f"{HEADS} t = Concat <axis = 0> (n1, m1, minus)",
            "y = Reshape <allowzero = 1> (x, t)",
            y="a,b,c",
        ),
        ["Reshape"],
        zero_sizes=False,  # a −1 beside a 0 is not valid with allowzero, though onnxruntime takes it
    ),
    Fires(
        "as torch expands, −1 made 1",
        """agraph (float[N,S] x, float[N,1,S] z) => (float[a,b,c] y) <int64[1] zero = {0}, int64[1] one = {1}, int64[1] minus = {-1},
        int64[3] ones = {1,1,1}, int64[3] minuses = {-1,-1,-1}> {
        s = Shape (x) n = Gather (s, zero) m = Gather (s, one) t = Concat <axis = 0> (n, minus, m) e = Equal (t, minuses)
        w = Where (e, ones, t) y = Expand (z, w) }""",
        ["Expand"],
        sizes={"N": 2, "S": 3},
    ),
    Fires("heads", graph(f"{HEADS} t = Concat <axis = 0> (n1, m1, two, four)"), ["Reshape"]),
    Fires(
        "a dimension at another place",
        graph(
            "n1 = Gather (s, one) t = Concat <axis = 0> (n1, two, four)",
            x="float[1,S,8] x",
            y="a,b,c",
        ),
        ["Reshape"],
    ),
    Fires(
        "a slice",
        graph("p = Slice (s, zero, two) t = Concat <axis = 0> (p, two, four)"),
        ["Reshape"],
    ),
    Fires(
        "beside −1",
        graph("n1 = Gather (s, zero) t = Concat <axis = 0> (n1, minus)", y="a,b"),
        ["Reshape"],
    ),
    Fires(
        "cast on the way",
        graph(
            "w = Cast <to = 6> (s) n1 = Gather (w, zero) v = Cast <to = 7> (n1) t = Concat <axis = 0> (v, minus)",
            y="a,b",
        ),
        ["Reshape"],
    ),
    Fires(
        "of an equal symbol",
        graph(
            "z1 = Shape (z) n1 = Gather (z1, zero) t = Concat <axis = 0> (n1, minus)",
            more=", float[N,3] z",
            y="a,b",
        ),
        ["Shape", "Reshape"],
    ),
    Fires(
        "Expand",
        graph(
            "n1 = Gather (s, zero) t = Concat <axis = 0> (n1, four, eight)",
            "y = Expand (x, t)",
            "float[N,1,8] x",
            y="a,b,c",
        ),
        ["Expand"],
    ),
    Fires(
        "Expand to a higher rank",
        graph(
            "n1 = Gather (s, zero) t = Concat <axis = 0> (two, n1, eight)",
            "y = Expand (x, t)",
            "float[N,1] x",
            y="a,b,c",
        ),
        ["Expand"],
    ),
]

test_stays, test_fires = tables("ShapeReshapePass", STAYS, FIRES, in_functions="never")
