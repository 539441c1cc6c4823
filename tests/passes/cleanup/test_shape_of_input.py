from harness import Fires, Stays, tables


def graph(body: str, constants: str = "", x: str = "float[N,M,8] x", y: str = "int64[p] y") -> str:
    return f"agraph ({x}) => ({y}) <{constants}> {{ {body} y = Neg (r) }}".replace("<> ", "")


TURNED = "a = Transpose <perm = [2, 0, 1]> (x)"  # [8, N, M]
GATHER = "s = Shape (a) r = Gather (s, i)"
SCALAR = "int64 y"
STAYS = [
    Stays("of an input", graph("s = Shape (x) r = Gather (s, i)", "int64 i = {1}", y=SCALAR), None),
    Stays("all of an input", graph("r = Shape (x)"), None),
    Stays(
        "a dimension that no input has",
        graph(f"a = Concat <axis = 0> (x, x) {GATHER}", "int64 i = {0}", y=SCALAR),
        None,
    ),
    Stays(
        "one of them is of no input",
        graph(f"a = Concat <axis = 0> (x, x) {GATHER}", "int64[2] i = {1, 0}"),
        None,
    ),
    Stays(
        "of two inputs",
        graph(
            f"z = Add (x, w) a = Transpose <perm = [1, 0]> (z) {GATHER}",
            "int64[2] i = {0, 1}",
            "float[N,1] x, float[1,M] w",
        ),
        None,
    ),
    Stays(
        "a dimension that only the values decide",
        graph(f"z = NonZero (x) a = Cast <to = 1> (z) {GATHER}", "int64 i = {1}", y=SCALAR),
        None,
    ),
    Stays("an index out of range", graph(f"{TURNED} {GATHER}", "int64 i = {3}", y=SCALAR), None),
    Stays("an index before the first", graph(f"{TURNED} {GATHER}", "int64 i = {-4}", y=SCALAR), None),
    Stays("an index from outside", graph(f"{TURNED} {GATHER}", x="float[N,M,8] x, int64[1] i"), None),
    Stays(
        "an unknown rank",
        graph(f"a = Reshape (x, t) {GATHER}", "int64 i = {1}", "float[N,M,8] x, int64[q] t", SCALAR),
        None,
    ),
    Stays("not side by side", graph("a = Transpose <perm = [2, 1, 0]> (x) r = Shape (a)"), None),
    Stays("side by side in another order", graph("a = Transpose <perm = [1, 0, 2]> (x) r = Shape (a)"), None),
    Stays(
        "no part of a Shape before opset 15",
        graph("a = ArgMax <axis = 2, keepdims = 0> (x) r = Shape (a)"),
        None,
        opset=13,
    ),
]

HEADS = "int64[4] t = {0, -1, 2, 4}"
FIRES = [
    Fires("one of them", graph(f"{TURNED} {GATHER}", "int64 i = {1}", y=SCALAR), ["Shape", "Gather", "Neg"]),
    Fires("from the back", graph(f"{TURNED} {GATHER}", "int64[1] i = {-1}"), ["Shape", "Gather", "Neg"]),
    Fires("several", graph(f"{TURNED} {GATHER}", "int64[3] i = {2, 0, 1}"), ["Shape", "Gather", "Neg"]),
    Fires(
        "in rows",
        graph(f"{TURNED} {GATHER}", "int64[2,1] i = {2, 1}", y="int64[p,q] y"),
        ["Shape", "Gather", "Neg"],
    ),
    Fires(
        "of heads",
        graph(
            f"h = Reshape (x, t) a = Transpose <perm = [0, 2, 1, 3]> (h) {GATHER}",
            f"int64 i = {{2}}, {HEADS}",
            y=SCALAR,
        ),
        ["Shape", "Gather", "Neg"],
    ),
    Fires(
        "of a part of the shape",
        graph(f"{TURNED} s = Shape <start = 1> (a) r = Gather (s, i)", "int64 i = {1}", y=SCALAR),
        ["Shape", "Gather", "Neg"],
    ),
    Fires(
        "of the input that has it",
        graph(f"a = MatMul (x, z) {GATHER}", "int64 i = {1}", "float[N,8] x, float[8,M] z", SCALAR),
        ["Shape", "Gather", "Neg"],
    ),
    Fires("all", graph("a = Relu (x) r = Shape (a)"), ["Shape", "Neg"]),
    Fires("all of the front", graph("a = ArgMax <axis = 2, keepdims = 0> (x) r = Shape (a)"), ["Shape", "Neg"]),
    Fires(
        "some side by side", graph("a = Transpose <perm = [2, 0, 1]> (x) r = Shape <start = 1> (a)"), ["Shape", "Neg"]
    ),
    Fires("all, before opset 15", graph("a = Relu (x) r = Shape (a)"), ["Shape", "Neg"], opset=11, ir_version=6),
]

test_stays, test_fires = tables("ShapeOfInputPass", STAYS, FIRES)
