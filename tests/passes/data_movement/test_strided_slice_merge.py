from harness import Fires, Stays, tables

CONSTANTS = "int64[1] n0 = {0}, int64[1] n1 = {1}, int64[1] n2 = {2}, int64[1] n3 = {3}, int64[1] n5 = {5}, int64[1] n9 = {9}, int64[1] last = {-1}"


def graph(
    body: str, x: str = "float[N,6,5] x", y: str = "float[A,B,C] y", constants: str = CONSTANTS
) -> str:
    return f"agraph ({x}) => ({y}) <{constants}> {{ {body} }}"


CONCAT = "float[N,2] a, float[N,4] b"
STAYS = [
    Stays(
        "a joined value that may be empty",
        graph(
            "c = Concat <axis = 1> (a, b) y = Slice (c, n0, n2, n1)",
            x="float[N,2] a, float[M,4] b",
            y="float[A,B] y",
        ),
        "one of the joined values may be empty, and onnxruntime ignores empty ones",
    ),
    Stays(
        "from the end of one axis",
        graph("a = Slice (x, n1, n5, n1) y = Slice (a, last, n9, n1)"),
        "an axis is cut twice, with steps or bounds that count from the end",
    ),
    Stays(
        "steps along one axis",
        graph("a = Slice (x, n0, n5, n1, n2) y = Slice (a, n0, n2, n1)"),
        "an axis is cut twice, with steps or bounds that count from the end",
    ),
    Stays(
        "bounds that are computed",
        graph("a = Slice (x, n1, s, n1) y = Slice (a, n1, n2, n2)", x="float[N,6,5] x, int64[1] s"),
        "the bounds are not constant",
    ),
    Stays(
        "the first one is used elsewhere",
        graph(
            "a = Slice (x, n1, n5, n1) y = Slice (a, n1, n2, n2)",
            y="float[A,B,C] y, float[N,4,5] a",
        ),
        "an interior value is a graph output",
    ),
    Stays(
        "across two values",
        graph("c = Concat <axis = 1> (a, b) y = Slice (c, n1, n3, n1)", x=CONCAT, y="float[N,2] y"),
        "the piece is not within one of the joined values",
    ),
    Stays(
        "nothing, from behind its end",
        graph("c = Concat <axis = 1> (a, b) y = Slice (c, n5, n3, n1)", x=CONCAT, y="float[N,0] y"),
        "the piece is not within one of the joined values",
    ),
    Stays(
        "another axis than the joined one",
        graph("c = Concat <axis = 1> (a, b) y = Slice (c, n0, n1, n0)", x=CONCAT, y="float[1,6] y"),
        "the Slice does not cut only the joined axis, with bounds counted from the front",
    ),
    Stays(
        "unknown sizes",
        graph(
            "c = Concat <axis = 1> (a, b) y = Slice (c, n2, n3, n1)",
            x="float[N,A] a, float[N,4] b",
            y="float[N,1] y",
        ),
        "the sizes are unknown",
    ),
]

FIRES = [
    Fires("two axes", graph("a = Slice (x, n1, n5, n1) y = Slice (a, last, n9, n2)"), ["Slice"]),
    Fires(
        "two axes with steps",
        graph("a = Slice (x, n1, n5, n1, n2) y = Slice (a, n0, n9, n2, n2)"),
        ["Slice"],
    ),
    Fires(
        "axes that stay whole, which the result need not write",
        graph(
            "a = Slice (x, s, e, axes) b = Slice (a, s, e, axes) y = Neg (b)",
            constants="int64[3] s = {0, 0, 0}, int64[3] e = {2147483647, 9, 2147483647}, int64[3] axes = {0, 1, 2}",
        ),
        ["Neg"],
    ),
    Fires("one axis", graph("a = Slice (x, n1, n5, n1) y = Slice (a, n2, n3, n1)"), ["Slice"]),
    Fires(
        "one axis, beyond the end",
        graph("a = Slice (x, n2, n9, n1) y = Slice (a, n1, n9, n1)"),
        ["Slice"],
    ),
    Fires(
        "one axis, beyond all numbers",
        graph(
            "a = Slice (x, n9, last, n1) y = Slice (a, n9, last, n1)",
            constants="int64[1] n1 = {1}, int64[1] n9 = {9223372036854775806}, int64[1] last = {9223372036854775807}",
        ),
        ["Slice"],
    ),
    Fires(
        "one axis, empty", graph("a = Slice (x, n1, n3, n1) y = Slice (a, n5, n9, n1)"), ["Slice"]
    ),
    Fires(
        "axes from the end and from the front",
        graph(
            "a = Slice (x, n1, n5, n1) y = Slice (a, n0, n2, m)",
            constants=CONSTANTS + ", int64[1] m = {-2}",
        ),
        ["Slice"],
    ),
    Fires(
        "attributes",
        "agraph (float[N,6] x) => (float[N,3] y) { a = Slice <axes = [1], starts = [1], ends = [9]> (x) y = Slice <axes = [1], starts = [1], ends = [4]> (a) }",
        ["Slice"],
        opset=9,
    ),
    Fires(
        "one of the joined values",
        graph(
            "c = Concat <axis = 1> (a, b) d = Slice (c, n0, n2, n1) y = Neg (d)",
            x=CONCAT,
            y="float[N,2] y",
        ),
        ["Neg"],
    ),
    Fires(
        "a piece of one of them",
        graph(
            "c = Concat <axis = -1> (a, b) y = Slice (c, n3, n5, n1)", x=CONCAT, y="float[N,2] y"
        ),
        ["Slice"],
    ),
]

test_stays, test_fires = tables("StridedSliceMergePass", STAYS, FIRES, in_functions="less often")
