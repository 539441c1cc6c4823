from harness import Fires, Stays, tables


def graph(
    first: str,
    second: str,
    constants: str = "",
    x: str = "float[2,3,4] x",
    y: str = "p,q,r",
    more: str = "",
    inputs: str = "",
) -> str:
    outputs = f"(float[{y}] y{more})"
    body = f"a = Relu (x) b = {first} c = {second} y = Neg (c)"
    body += " z = Abs (b)" if more else ""
    return f"agraph ({x}{inputs}) => {outputs} <{constants}> {{ {body} }}".replace("<> ", "")


TURN = "Transpose <perm = [1, 2, 0]>"
S = "int64[2] s = {6, 4}, int64[3] t = {3, 2, 4}"
STAYS = [
    Stays(
        "used in between",
        graph(f"{TURN} (a)", f"{TURN} (b)", more=", float[u,v,w] z"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a shape that copies",
        graph("Reshape (a, s)", "Reshape (b, t)", "int64[2] s = {6, 4}, int64[3] t = {0, 2, 2}"),
        "the second shape may copy dimensions of the first",
    ),
    Stays(
        "a shape from outside",
        graph("Reshape (a, s)", "Reshape (b, t)", "int64[2] s = {6, 4}", inputs=", int64[3] t"),
        "the second shape may copy dimensions of the first",
    ),
    Stays(
        "other axes",
        graph("Unsqueeze (a, s)", "Squeeze (b, t)", "int64[1] s = {0}, int64[1] t = {1}", "float[1,4] x", "p,q"),
        "the axes differ",
    ),
    Stays(
        "negative axes of another tensor",
        graph("Squeeze (a, s)", "Unsqueeze (b, t)", "int64[1] s = {-1}, int64[1] t = {0}", "float[4,1] x", "p,q"),
        "the axes differ",
    ),
    Stays(
        "axes that are not written",
        graph("Squeeze (a)", "Unsqueeze (b, t)", "int64[1] t = {0}", "float[1,4] x", "p,q"),
        "the axes are not known before the model runs",
    ),
]

FIRES = [
    Fires("back again", graph(f"{TURN} (a)", "Transpose <perm = [2, 0, 1]> (b)"), ["Relu", "Neg"]),
    Fires("further", graph(f"{TURN} (a)", f"{TURN} (b)"), ["Relu", "Transpose", "Neg"]),
    Fires("the default twice", graph("Transpose (a)", "Transpose (b)"), ["Relu", "Neg"]),
    Fires("the default and another", graph("Transpose (a)", f"{TURN} (b)"), ["Relu", "Transpose", "Neg"]),
    Fires("another and the default", graph(f"{TURN} (a)", "Transpose (b)"), ["Relu", "Transpose", "Neg"]),
    Fires("two Reshapes", graph("Reshape (a, s)", "Reshape (b, t)", S), ["Relu", "Reshape", "Neg"]),
    Fires(
        "an open dimension",
        graph("Reshape (a, s)", "Reshape (b, t)", "int64[2] s = {-1, 4}, int64[3] t = {4, -1, 3}", "float[N,3,4] x"),
        ["Relu", "Reshape", "Neg"],
    ),
    Fires("Flatten", graph("Flatten (a)", "Reshape (b, t)", "int64[3] t = {-1, 2, 6}"), ["Relu", "Reshape", "Neg"]),
    Fires(
        "three",
        "agraph (float[2,6] x) => (float[a,b] y) <int64[2] s = {3,4}, int64[2] t = {4,3}, int64[2] u = {12,1}> "
        "{ p = Reshape (x, s) q = Reshape (p, t) y = Reshape (q, u) }",
        ["Reshape"],
        2,
    ),
    Fires(
        "Squeeze of Unsqueeze",
        graph("Unsqueeze (a, s)", "Squeeze (b, t)", "int64[1] s = {-1}, int64[1] t = {3}"),
        ["Relu", "Neg"],
    ),
    Fires(
        "Unsqueeze of Squeeze",
        graph("Squeeze (a, s)", "Unsqueeze (b, t)", "int64[1] s = {1}, int64[1] t = {-2}", "float[N,1,4] x"),
        ["Relu", "Neg"],
    ),
    Fires(
        "Unsqueeze twice",
        graph(
            "Unsqueeze (a, s)",
            "Unsqueeze (b, t)",
            "int64[1] s = {1}, int64[2] t = {0, -1}",
            "float[3,4] x",
            "p,q,r,s,t",
        ),
        ["Relu", "Unsqueeze", "Neg"],
    ),
    Fires(
        "Unsqueeze before what was one",
        graph("Unsqueeze (a, s)", "Unsqueeze (b, t)", "int64[1] s = {0}, int64[1] t = {1}", "float[3,4] x", "p,q,r,s"),
        ["Relu", "Unsqueeze", "Neg"],
    ),
    Fires(
        "Squeeze twice",
        graph(
            "Squeeze (a, s)", "Squeeze (b, t)", "int64[1] s = {1}, int64[2] t = {0, -1}", "float[1,1,3,4,1] x", "p,q"
        ),
        ["Relu", "Squeeze", "Neg"],
    ),
    Fires(
        "opset 11",
        graph("Squeeze <axes = [1]> (a)", "Unsqueeze <axes = [1]> (b)", x="float[N,1,4] x"),
        ["Relu", "Neg"],
        opset=11,
    ),
]

test_stays, test_fires = tables("TransOpSymmetryEliminationPass", STAYS, FIRES)
