from harness import Fires, Stays, tables


def graph(
    body: str,
    x: str = "float[N,4] x",
    y: str = "float[p,q] y",
    more: str = "",
    outputs: str = "",
    constants: str = "",
) -> str:
    numbers = (
        "int64 k0 = {0}, int64 k1 = {1}, int64 k2 = {2}, int64 last = {-1}, int64[2] parts = {1, 3}"
    )
    return f"agraph ({x}{more}) => ({y}{outputs}) <{numbers}{constants}> {{ {body} }}"


def split(at: str, sizes: str = "", axis: int = 1, keepdims: int = 1, **options: str) -> str:
    attributes = f"<axis = {axis}, keepdims = {keepdims}>"
    return graph(f"s = SplitToSequence {attributes} (x{sizes}) y = SequenceAt (s, {at})", **options)


def both(first: str, second: str, sizes: str = "", **options: str) -> str:
    return graph(
        f"s = SplitToSequence <{first}> (x{sizes}) y = ConcatFromSequence <{second}> (s)", **options
    )


def length(
    sizes: str = "", x: str = "float[N,4] x", attributes: str = "axis = 1", more: str = ""
) -> str:
    """The number of pieces, of which others need the sequence."""
    return graph(
        f"j = Sub (i, i) s = SplitToSequence <{attributes}> (x{sizes}) n = SequenceLength (s) y = SequenceAt (s, j)",
        x,
        more=f", int64 i{more}",
        outputs=", int64 n",
        constants=", int64[0] none = {}, int64 three = {3}, int64[2] few = {1, 2}",
    )


TWO = ", float[N,4] z"
UNKNOWN = "the number of pieces is unknown"
WRONG = "the sizes do not add up to the length of the axis"
MADE = "s = SequenceConstruct (x, z)"
NO_PLACE = "the index lies outside the sequence"
SIZES = "the sizes are not constant"
COLUMNS = "s = SplitToSequence <axis = 1, keepdims = 0> (x) a = SequenceAt (s, k0) b = SequenceAt (s, {}) y = Sub (a, b)"
STAYS = [
    Stays("the number of pieces along an open axis", length(attributes="axis = 0"), UNKNOWN),
    Stays("the number of pieces of a size from outside", length(", c", more=", int64 c"), UNKNOWN),
    Stays(
        "the number of pieces of sizes from outside", length(", c", more=", int64[C] c"), UNKNOWN
    ),
    Stays("the number of pieces of no size", length(", k0"), UNKNOWN, valid=False),
    Stays("the number of pieces of other sizes", length(", few"), WRONG, valid=False),
    Stays("the number of no pieces", length(", none", "float[N,M] x"), WRONG, valid=False),
    Stays(
        "some of many columns",
        graph(COLUMNS.format("last"), y="float[p] y"),
        "a Gather would copy single elements",
    ),
    Stays(
        "one column twice",
        graph(COLUMNS.format("k0"), "float[N,2] x", y="float[p] y"),
        "a Gather would copy single elements",
    ),
    Stays(
        "columns of an unknown number",
        graph(COLUMNS.format("k1"), "float[N,M] x", y="float[p] y"),
        "a Gather would copy single elements",
    ),
    Stays(
        "a place from outside", graph(f"{MADE} y = SequenceAt (s, i)", more=f"{TWO}, int64 i"), None
    ),
    Stays("no such place", graph(f"{MADE} y = SequenceAt (s, k2)", more=TWO), NO_PLACE),
    Stays(
        "joined along a new axis",
        graph(
            f"{MADE} y = ConcatFromSequence <axis = 0, new_axis = 1> (s)",
            more=TWO,
            y="float[p,q,r] y",
        ),
        None,
    ),
    Stays(
        "put in front",
        graph(f"{MADE} t = SequenceInsert (s, x, k0) y = SequenceAt (t, k0)", more=TWO),
        None,
    ),
    Stays(
        "put into one that others need",
        graph(
            f"{MADE} t = SequenceInsert (s, x) y = ConcatFromSequence <axis = 0> (t) n = SequenceAt (s, i)",
            more=f"{TWO}, int64 i",
            outputs=", float[p,q] n",
        ),
        "an interior value is used elsewhere",
    ),
    Stays("no such piece", split("k2", ", parts"), NO_PLACE),
    Stays("no such element", split("k2", keepdims=0, x="float[N,2] x", y="float[p] y"), NO_PLACE),
    Stays("sizes from outside", split("k1", ", n", more=", int64 n"), SIZES),
    Stays(
        "the last of an unknown number",
        split("last", axis=0),
        "the number of pieces is unknown",
    ),
    Stays(
        "the whole is needed, too",
        graph(
            "s = SplitToSequence <axis = 1> (x) y = SequenceAt (s, k1) n = SequenceAt (s, i)",
            more=", int64 i",
            outputs=", float[p,q] n",
        ),
        None,
    ),
    Stays(
        "an unknown rank",
        split("k1", axis=-1, x="float[] x", y="float[] y"),
        "the axis is unknown",
        valid=False,
    ),
    Stays(
        "one size for all pieces, without the axis",
        split("k1", ", k1", keepdims=0, x="float[N,2] x", y="float[p,q] y"),
        "runtimes differ on keepdims = 0 with one size for all pieces",
    ),
    Stays(
        "cut into pieces of one size without the axis, and joined",
        both("axis = 1, keepdims = 0", "axis = 1", ", k1"),
        None,
    ),
    Stays("joined along another axis", both("axis = 1", "axis = 0"), None),
    Stays(
        "joined along a new axis, cut along an old one",
        both("axis = 1", "axis = 1, new_axis = 1", y="float[p,q,r] y"),
        None,
    ),
    Stays(
        "joined along an old axis, cut to one less",
        both("axis = 1, keepdims = 0", "axis = 0", y="float[p] y"),
        None,
    ),
    Stays(
        "joined along an axis of an unknown rank",
        both("axis = 1", "axis = -1", x="float[] x", y="float[] y"),
        None,
        valid=False,
    ),
    Stays(
        "cut and used",
        both("axis = 1", "axis = 1")
        .replace("} }", "}")
        .replace(" }", " n = SequenceAt (s, i) }")
        .replace(
            "x) => (float[p,q] y) <int64", "x, int64 i) => (float[p,q] y, float[p,q] n) <int64"
        ),
        "an interior value is used elsewhere",
    ),
]
FIRES = [
    *(
        Fires(
            f"the number of pieces, {name}",
            text,
            [*(["Identity"] if "c = Id" in text else []), "Sub", "SplitToSequence", "SequenceAt"],
            sizes={"M": 4},
            zero_sizes="M]" not in text,
        )
        for name, text in {
            "of 1": length(),
            "of 1 each, without the axis": length(attributes="axis = -1, keepdims = 0").replace(
                "[p,q] y", "[p] y"
            ),
            "of one size": length(", three"),
            "of several": length(", parts"),
            "of several along an open axis": length(", parts", "float[N,M] x"),
            "of as many computed sizes": length(", c").replace("{ j", "{ c = Identity (parts) j"),
        }.items()
    ),
    Fires(
        "the number of nothing",
        graph("s = SequenceEmpty () y = SequenceLength (s)", y="int64 y"),
        [],
    ),
    Fires(
        "all of many columns",
        graph(COLUMNS.format("last"), "float[N,2] x", y="float[p] y"),
        ["Split", "Squeeze", "Squeeze", "Sub"],
    ),
    Fires(
        "some of few columns",
        graph(COLUMNS.format("k2"), "float[5,4] x", y="float[p] y"),
        ["Gather", "Gather", "Sub"],
    ),
    Fires(
        "some of many long rows",
        graph(COLUMNS.format("k2"), "float[N,4,8] x"),
        ["Gather", "Gather", "Sub"],
    ),
    Fires("one of many columns", split("k2", keepdims=0, y="float[p] y"), ["Slice", "Squeeze"]),
    Fires("the second", graph(f"{MADE} t = SequenceAt (s, k1) y = Neg (t)", more=TWO), ["Neg"]),
    Fires("the last", graph(f"{MADE} t = SequenceAt (s, last) y = Neg (t)", more=TWO), ["Neg"]),
    Fires(
        "both",
        graph(f"{MADE} t = SequenceAt (s, k0) u = SequenceAt (s, k1) y = Sub (t, u)", more=TWO),
        ["Sub"],
        2,
    ),
    Fires(
        "integers",
        graph(
            f"{MADE} t = SequenceAt (s, k0) y = Neg (t)", "int64[N] x", "int64[p] y", ", int64[M] z"
        ),
        ["Neg"],
    ),
    Fires(
        "the length",
        graph(
            f"{MADE} n = SequenceLength (s) y = Expand (x, m) m = Unsqueeze (n, zero)".replace(
                "y = Expand (x, m) m = Unsqueeze (n, zero)", "m = Cast <to = 1> (n) y = Mul (x, m)"
            ),
            more=TWO,
        ),
        ["Cast", "Mul"],
    ),
    Fires("joined", graph(f"{MADE} y = ConcatFromSequence <axis = -1> (s)", more=TWO), ["Concat"]),
    Fires(
        "put behind nothing",
        graph("e = SequenceEmpty () s = SequenceInsert (e, x) y = SequenceAt (s, k0)"),
        ["SequenceConstruct", "SequenceAt"],
    ),
    Fires("a piece for each", split("k2"), ["Slice"]),
    Fires(
        "a piece for each, without its axis",
        split("k2", keepdims=0, x="float[5,4] x", y="float[p] y"),
        ["Gather"],
    ),
    Fires(
        "the last one, without its axis",
        split("last", keepdims=0, x="float[5,4] x", y="float[p] y"),
        ["Gather"],
    ),
    Fires(
        "all pieces",
        graph(
            "s = SplitToSequence <axis = 1> (x, parts) a = SequenceAt (s, last) b = SequenceAt (s, k0) c = Neg (a) "
            "y = Sub (b, c)"
        ),
        ["Split", "Neg", "Sub"],
    ),
    Fires(
        "all pieces, opset 12",
        graph(
            "s = SplitToSequence <axis = 1> (x, k2) a = SequenceAt (s, k0) b = SequenceAt (s, k1) y = Sub (a, b)"
        ),
        ["Split", "Sub"],
        opset=12,
    ),
    Fires(
        "of an unknown number, without its axis",
        split("k1", axis=0, keepdims=0, y="float[p] y"),
        ["Gather"],
    ),
    Fires("of an unknown number", split("k1", axis=0), ["Slice"]),
    Fires("pieces of two, the last", split("last", ", k2"), ["Slice"]),
    Fires(
        "pieces of two, the last being smaller", split("last", ", k2", x="float[N,5] x"), ["Slice"]
    ),
    Fires(
        "pieces of two, of an unknown number",
        split("k1", ", k2", axis=0, x="float[N,4] x"),
        ["Slice"],
        sizes={"N": 3},
        zero_sizes=False,
    ),
    Fires("pieces of these sizes", split("k1", ", parts"), ["Slice"]),
    Fires(
        "pieces of these sizes, a negative axis",
        split("last", ", parts", axis=-1, keepdims=0),
        ["Slice"],
    ),
    Fires("text", split("k1", x="string[N,4] x", y="string[p,q] y"), ["Slice"]),
    Fires(
        "two pieces",
        graph(
            "s = SplitToSequence <axis = 1> (x) a = SequenceAt (s, k1) b = SequenceAt (s, last) y = Sub (a, b)"
        ),
        ["Slice", "Slice", "Sub"],
    ),
    Fires("cut and joined", both("axis = 1", "axis = -1"), ["Identity"]),
    Fires(
        "cut into these sizes and joined",
        both("axis = 1, keepdims = 0", "axis = 1", ", parts"),
        ["Identity"],
    ),
    Fires(
        "cut and joined along a new axis",
        both("axis = 1, keepdims = 0", "axis = 1, new_axis = 1"),
        ["Identity"],
    ),
]

test_stays, test_fires = tables("SequenceEliminationPass", STAYS, FIRES, in_functions="less often")
