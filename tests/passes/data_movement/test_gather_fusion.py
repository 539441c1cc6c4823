from harness import Fires, Stays, tables


def graph(body: str, constants: str, x: str = "float[N,6,3] x", y: str = "float[A,B,C] y") -> str:
    return f"agraph ({x}) => ({y}) <{constants}> {{ {body} }}"


AX = "int64[1] a = {1}, int64[1] b = {0}"
PIECE = "int64[1] s = {2}, int64[1] e = {3}, int64[1] a = {1}, int64[1] four = {4}, int64[1] last = {-1}, int64[1] far = {9223372036854775807}"
TWO = "int64[3] i = {4, 0, 2}, int64[2] j = {2, -3}, int64[1] k = {5}"
JOINED = "float[N,2] a, float[N,4] b"
STAYS = [
    Stays(
        "a matrix of indices",
        graph(
            "g = Gather <axis = 1> (x, i) y = Gather <axis = 1> (g, j)",
            "int64[2,2] i = {4, 0, 1, 2}, int64[1] j = {0}",
            y="float[A,B,C,D] y",
        ),
        "the inner indices are not a vector",
    ),
    Stays(
        "a piece of two axes",
        graph(
            "c = Slice (x, s, e, a) y = Squeeze (c, one)",
            "int64[2] s = {2, 1}, int64[2] e = {3, 2}, int64[2] a = {1, 2}, int64[1] one = {1}",
            y="float[A,B] y",
        ),
        "the Slice or the Squeeze does not work on exactly one axis",
    ),
    Stays(
        "an element of another axis than the joined one",
        graph(
            "c = Concat <axis = 1> (a, b) y = Gather <axis = 0> (c, i)",
            "int64 i = {1}",
            x=JOINED,
            y="float[6] y",
        ),
        "the axes of the two operators differ",
    ),
    Stays(
        "a joined value that may be empty",
        graph(
            "c = Concat <axis = 1> (a, b) y = Gather <axis = 1> (c, i)",
            "int64 i = {1}",
            x="float[N,2] a, float[M,4] b",
            y="float[A] y",
        ),
        "one of the joined values may be empty, and onnxruntime ignores empty ones",
    ),
    Stays(
        "another axis comes back",
        graph("g = Gather <axis = 1> (x, i) y = Unsqueeze (g, b)", f"int64 i = {{2}}, {AX}"),
        "the Gather does not take one element whose axis the Unsqueeze restores",
    ),
    Stays(
        "several elements",
        graph(
            "g = Gather <axis = 1> (x, i) y = Unsqueeze (g, a)",
            f"int64[2] i = {{2, 3}}, {AX}",
            y="float[A,B,C,D] y",
        ),
        "the Gather does not take one element whose axis the Unsqueeze restores",
    ),
    Stays(
        "the gathered value is used elsewhere",
        graph(
            "g = Gather <axis = 1> (x, i) y = Unsqueeze (g, a)",
            f"int64 i = {{2}}, {AX}",
            y="float[A,B,C] y, float[N,3] g",
        ),
        "an interior value is a graph output",
    ),
    Stays(
        "two elements cut out of one axis",
        graph(
            "c = Slice (x, s, four, a) y = Squeeze (c, one)",
            PIECE + ", int64[1] one = {0}",
            x="float[1,6,3] x",
            y="float[A,B] y",
        ),
        "the Slice does not take one element of the squeezed axis",
    ),
    Stays(
        "perhaps no element",
        graph(
            "c = Slice (x, s, e, a) y = Squeeze (c, a)", PIECE, x="float[N,M,3] x", y="float[A,B] y"
        ),
        "the element is not known to exist",
    ),
    Stays(
        "other axes",
        graph(
            "g = Gather <axis = 1> (x, i) y = Gather <axis = 0> (g, j)",
            "int64[2] i = {4, 0}, int64[1] j = {0}",
        ),
        "the axes of the two operators differ",
    ),
    Stays(
        "an element that is not there",
        graph("g = Gather <axis = 1> (x, i) y = Gather <axis = 1> (g, k)", TWO),
        "an index is out of bounds",
    ),
    Stays(
        "a joined value of unknown size",
        graph(
            "c = Concat <axis = 1> (a, b) y = Gather <axis = 1> (c, i)",
            "int64 i = {1}",
            x="float[N,M] a, float[N,4] b",
            y="float[N] y",
        ),
        "the sizes are unknown",
    ),
    Stays(
        "an element from the end",
        graph(
            "c = Concat <axis = 1> (a, b) y = Gather <axis = 1> (c, i)",
            "int64 i = {-1}",
            x=JOINED,
            y="float[N] y",
        ),
        "the index is not a single number that counts from the front",
    ),
    Stays(
        "two coordinates",
        graph("y = GatherND (x, i)", "int64[2,2] i = {0, 1, 1, 2}", y="float[2,3] y"),
        "the indices have more than one coordinate",
    ),
]

FIRES = [
    Fires(
        "the axis comes back",
        graph("g = Gather <axis = 1> (x, i) y = Unsqueeze (g, a)", f"int64 i = {{2}}, {AX}"),
        ["Gather"],
    ),
    Fires(
        "the first axis, by default",
        graph("g = Gather (x, i) y = Unsqueeze (g, b)", f"int64 i = {{-1}}, {AX}"),
        ["Gather"],
        sizes={"N": 3},
        zero_sizes=False,
    ),
    Fires(
        "counted from the end",
        graph("g = Gather <axis = -2> (x, i) y = Unsqueeze (g, a)", f"int64 i = {{2}}, {AX}"),
        ["Gather"],
    ),
    Fires(
        "axes as an attribute",
        graph("g = Gather <axis = 1> (x, i) y = Unsqueeze <axes = [1]> (g)", "int64 i = {2}"),
        ["Gather"],
        opset=11,
    ),
    Fires(
        "cut and squeezed",
        graph("c = Slice (x, s, e, a) y = Squeeze (c, a)", PIECE, y="float[A,B] y"),
        ["Gather"],
    ),
    Fires(
        "cut and squeezed, with every axis written, as tf2onnx does",
        graph(
            "c = Slice (x, s, e, axes) y = Squeeze (c, a)",
            "int64[3] s = {0, 2, 0}, int64[3] e = {2147483647, 3, 3}, int64[3] axes = {0, 1, 2}, int64[1] a = {1}",
            y="float[A,B] y",
        ),
        ["Gather"],
    ),
    Fires(
        "the last one, cut and squeezed",
        graph("c = Slice (x, last, far, a) y = Squeeze (c, a)", PIECE, y="float[A,B] y"),
        ["Gather"],
    ),
    Fires(
        "an index of an index",
        graph("g = Gather <axis = 1> (x, i) y = Gather <axis = 1> (g, j)", TWO),
        ["Gather"],
    ),
    Fires(
        "a scalar index of an index",
        graph(
            "g = Gather <axis = 1> (x, i) y = Gather <axis = -2> (g, k)",
            "int64[3] i = {4, 0, 2}, int64 k = {1}",
            y="float[A,B] y",
        ),
        ["Gather"],
    ),
    Fires(
        "of the second joined value",
        graph(
            "c = Concat <axis = 1> (a, b) y = Gather <axis = 1> (c, i)",
            "int64[1] i = {3}",
            x=JOINED,
            y="float[N,1] y",
        ),
        ["Gather"],
    ),
    Fires(
        "one coordinate",
        graph("y = GatherND (x, i)", "int64[2,1] i = {1, 0}", y="float[2,6,3] y"),
        ["Gather"],
        sizes={"N": 3},
        zero_sizes=False,
    ),
]

test_stays, test_fires = tables("GatherFusionPass", STAYS, FIRES, in_functions="less often")
