from harness import Fires, Stays, seen_by_subgraph, tables

LOOK = "a = Gather (W, i) c = Gather (T, s) d = Gather (P, p)"
SUM = "e = Add (a, c) h = Add (e, d)"
NORM = "y = LayerNormalization (h, g, o)"
IN = "int64[B,S] i, int64[B,S] s, int64[1,S] p"
TABLES = "float[11,8] W, float[9,8] P, float[3,8] T, float[8] g, float[8] o"
TWO = {
    "look": "a = Gather (W, i) d = Gather (P, p)",
    "add": "h = Add (a, d)",
    "inputs": "int64[B,S] i, int64[1,S] p",
}


def graph(
    look: str = LOOK,
    add: str = SUM,
    norm: str = NORM,
    inputs: str = IN,
    constants: str = TABLES,
    y: str = "float[a,b,c] y",
) -> str:
    return f"agraph ({inputs}) => ({y}) <{constants}> {{ {look} {add} {norm} }}"


FIT = "the row indices of the tables have shapes that do not match"
VECTOR = (
    "the scale or the offset does not have exactly one number for each element of the last axis"
)
SLICED = {
    "look": "n = Shape <start = 1, end = 2> (i) p = Slice (all, zero, n, one, one) a = Gather (W, i) d = Gather (P, p)",
    "add": "h = Add (a, d)",
    "inputs": "int64[B,S] i",
}
NUMBERS = ", int64[1,9] all = {0, 1, 2, 3, 4, 5, 6, 7, 8}, int64[1] zero = {0}, int64[1] one = {1}"

STAYS = [
    Stays("double", graph().replace("float", "double"), "the elements are not float32"),
    Stays("rank 2", graph(inputs="int64[N] i, int64[N] s, int64[N] p", y="float[a,b] y"), "the rank is not 3"),
    Stays("no positions", graph(look="a = Gather (W, i)", add="h = Add (a, r)", inputs="int64[B,0] i", constants=TABLES + ", float[0,8] r"), "the constant addend does not have one row for each position"),
    Stays("two axes", graph(norm="y = LayerNormalization <axis = 1> (h, g)", inputs="int64[B,2] i, int64[B,2] s, int64[1,2] p", constants=TABLES.replace("float[8] g", "float[2,8] g")), "the normalization covers more than the last axis, or is not in float32"),
    Stays("one scale for all", graph(norm="y = LayerNormalization (h, g)", constants=TABLES.replace("float[8] g", "float g")), VECTOR),
    Stays("other batches", graph(inputs="int64[B,S] i, int64[C,S] s, int64[1,S] p"), FIT),
    Stays("two rows for all of a batch", graph(inputs="int64[B,S] i, int64[1,S] s, int64[1,S] p"), FIT),
    Stays("one row for each of a batch", graph(inputs="int64[B,S] i, int64[B,S] s, int64[B,1] p"), FIT),
    Stays("another length of positions", graph(inputs="int64[B,S] i, int64[B,S] s, int64[1,L] p", y="float[?,?,?] y"), FIT),
    Stays("a table of three axes", graph(**TWO, constants=TABLES.replace("float[9,8] P", "float[9,1,8] P"), y="float[?,?,?,?] y"), "the rank is not 3"),
    Stays("a table of one column", graph(constants=TABLES.replace("float[3,8] T", "float[3,1] T")), "the columns of a table do not fit the normalized axis"),
    Stays("numbers below zero", graph(**(TWO | {"inputs": "int64[B,3] i"}), constants=f"{TABLES}, int64[1,3] p = {{0, 1, -1}}"), "a row index is negative, or too large for int32"),
    Stays("a constant for all positions", graph(look="a = Gather (W, i)", add="h = Add (a, o)", inputs="int64[B,3] i"), "the constant addend does not have one row for each position"),
    Stays("a constant for each of a batch", graph(look="a = Gather (W, i)", add="h = Add (a, R)", inputs="int64[4,4] i", constants=TABLES + ", float[4,1,8] R"), "the constant addend does not have one row for each position"),
    Stays("columns are looked up", graph(look="a = Gather <axis = 1> (W, i) d = Gather <axis = 1> (P, p)", add="h = Add (a, d)", inputs="int64[8] i, int64[8] p", constants="float[2,8] W, float[2,8] P, float[8] g, float[8] o", y="float[a,b] y"), None),
    Stays("a look-up is used elsewhere", graph(norm=f"{NORM} z = Neg (a)", y="float[a,b,c] y, float[?,?,?] z"), "an interior value is used elsewhere"),
    Stays("the table is an input", graph(inputs=f"{IN}, float[11,8] W", constants=TABLES.replace("float[11,8] W, ", "")), None),
    Stays("another target", graph(), "target onnx has no EmbedLayerNormalization", target="onnx"),
]  # fmt: skip

EMBED = "EmbedLayerNormalization"
CASTS = ["Cast", "Cast", "Cast", EMBED]
FIRES = [
    Fires("three tables", graph(), CASTS),
    Fires("two tables", graph(**TWO), ["Cast", "Cast", EMBED]),
    Fires("int32", graph(inputs=IN.replace("int64", "int32")), [EMBED]),
    Fires("without offset", graph(norm="y = LayerNormalization <epsilon = 0.1> (h, g)"), CASTS),
    Fires("another order", graph(add="e = Add (d, a) h = Add (c, e)"), CASTS),
    Fires("the last two first", graph(add="e = Add (c, d) h = Add (a, e)"), CASTS),
    Fires("positions for each of a batch", graph(inputs=IN.replace("1,S", "B,S")), CASTS),
    Fires("the sum is used elsewhere", graph(norm=f"{NORM} z = Neg (h)", y="float[a,b,c] y, float[?,?,?] z"), [*CASTS, "Neg"]),
    Fires("the sum is a graph output", graph(y="float[a,b,c] y, float[?,?,?] h"), CASTS),
    Fires("a subgraph uses the sum", seen_by_subgraph(graph(), "h", "float[d,e,f]"), [*CASTS, "If"], inside_if=False),
    Fires("a part of the known positions", graph(**SLICED, constants=TABLES + NUMBERS), ["Shape", "Slice", "Cast", "Cast", EMBED]),
    Fires("constant positions", graph(**(TWO | {"inputs": "int64[B,3] i"}), constants=f"{TABLES}, int64[1,3] p = {{0, 5, 2}}"), ["Cast", EMBED]),
    Fires("a constant of one row for each position", graph(look="a = Gather (W, i)", add="h = Add (a, r)", inputs="int64[B,3] i", constants=f"{TABLES}, float[1,3,8] r"), ["Cast", EMBED]),
    Fires("and segments", graph(look="a = Gather (W, i) c = Gather (T, s)", add="e = Add (a, c) h = Add (r, e)", inputs="int64[B,3] i, int64[B,3] s", constants=f"{TABLES}, float[3,8] r"), ["Cast", "Cast", EMBED]),
    Fires("opset 22", graph(), CASTS, opset=22),
]  # fmt: skip

test_stays, test_fires = tables("EmbedLayerNormFusionPass", STAYS, FIRES, in_functions="never")
