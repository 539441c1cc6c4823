from harness import Fires, Stays, tables

CONSTANTS = "int64[1] z = {0}, int64[1] a = {2}, int64[1] b = {-1}, int64[1] e = {9223372036854775807}, int64[1] two = {2}, int64[1] one = {1}"
ALL = "p = Slice (x, z, a, ax) q = Slice (x, a, b, ax) r = Slice (x, b, e, ax)"


def graph(
    body: str = ALL,
    ax: str = "{1}",
    x: str = "float[N,6,3] x",
    out: str = "float[N,2,3] p, float[N,3,3] q, float[N,1,3] r",
) -> str:
    return f"agraph ({x}) => ({out}) <{CONSTANTS}, int64[1] ax = {ax}> {{ {body} }}"


INDICES = (
    "int64 i0 = {0}, int64 i1 = {1}, int64 i2 = {2}, int64[1] v2 = {2}, int64[4] s = {0, 0, 3, 8}"
)
APART = "r = Reshape (x, s) a = Gather <axis = 2> (r, i0) b = Gather <axis = 2> (r, i1) c = Gather <axis = -2> (r, i2)"
THREE = "float[A,B,C] a, float[D,E,F] b, float[G,H,I] c"


def apart(
    body: str = APART, x: str = "float[N,S,24] x", out: str = THREE, constants: str = INDICES
) -> str:
    return f"agraph ({x}) => ({out}) <{constants}> {{ {body} }}"


STAYS = [
    Stays(
        "a Gather that keeps the axis",
        apart(APART.replace("i2", "v2"), out=THREE.replace("G,", "J,G,")),
        None,
    ),
    Stays(
        "an element that is not taken",
        apart(APART.split(" c =")[0], out="float[A,B,C] a, float[D,E,F] b"),
        None,
    ),
    Stays("an element that is taken twice", apart(APART.replace("i1", "i0")), None),
    Stays(
        "an index that is computed",
        apart(APART.replace("i1", "k"), "float[N,S,24] x, int64 k"),
        None,
    ),
    Stays("the Reshape is an output", apart(out=THREE + ", float[P,Q,R,T] r"), None),
    Stays(
        "the last axis, which would have to be interleaved",
        apart(
            APART.replace("= 2", "= 3").replace("-2", "-1"),
            constants=INDICES.replace("3, 8", "8, 3"),
        ),
        None,
    ),
    Stays("different axes", apart(APART.replace("axis = -2", "axis = 1"), "float[2,4,24] x"), None),
    Stays(
        "a Reshape that mixes the axes",
        apart(x="float[2,8,12] x", constants=INDICES.replace("0, 0, 3, 8", "2, 4, 3, 8")),
        None,
    ),
    Stays(
        "an unknown size of a piece",
        apart(x="float[N,S,K] x", constants=INDICES.replace("3, 8", "3, -1")),
        None,
    ),
    Stays(
        "a number",
        "agraph (float x) => (float[N] p, float[N] q) <int64[1] z = {0}, int64[1] a = {1}, int64[1] b = {2}> { p = Slice (x, z, a, z) q = Slice (x, a, b, z) }",
        None,
        valid=False,
    ),
    Stays(
        "the end is left out",
        graph(
            "p = Slice (x, z, a, ax) q = Slice (x, a, b, ax)", out="float[N,2,3] p, float[N,3,3] q"
        ),
        None,
    ),
    Stays(
        "something is left out",
        graph(
            "p = Slice (x, z, a, ax) r = Slice (x, b, e, ax)", out="float[N,2,3] p, float[N,1,3] r"
        ),
        None,
    ),
    Stays(
        "an overlap",
        graph(
            "p = Slice (x, z, a, ax) q = Slice (x, one, e, ax)",
            out="float[N,2,3] p, float[N,5,3] q",
        ),
        None,
    ),
    Stays(
        "an unknown size",
        graph(x="float[N,M,3] x", out="float[N,2,3] p, float[N,K,3] q, float[N,1,3] r"),
        None,
    ),
    Stays(
        "steps",
        graph(
            "p = Slice (x, z, e, ax, two) q = Slice (x, one, e, ax, two)",
            out="float[N,3,3] p, float[N,3,3] q",
        ),
        None,
    ),
    Stays(
        "different axes",
        graph(
            "p = Slice (x, z, a, ax) q = Slice (x, a, e, two)", out="float[N,2,3] p, float[N,6,1] q"
        ),
        None,
    ),
    Stays(
        "two axes that are cut",
        "agraph (float[N,6,3] x) => (float[N,2,2] p, float[N,4,3] q) <int64[2] z = {0, 0}, int64[2] c = {2, 2}, int64[2] s = {2, 0}, int64[2] e = {6, 3}, int64[2] axes = {1, 2}> { p = Slice (x, z, c, axes) q = Slice (x, s, e, axes) }",
        None,
    ),
    Stays("one Slice of everything", graph("p = Slice (x, z, e, ax)", out="float[N,6,3] p"), None),
]

FIRES = [
    Fires("packed query, key and value", apart(), ["Split"]),
    Fires(
        "counted from the end, in another order",
        apart(
            "r = Reshape (x, s) c = Gather <axis = 2> (r, m1) a = Gather <axis = 2> (r, i0) b = Gather <axis = 2> (r, i1)",
            constants=INDICES + ", int64 m1 = {-1}",
        ),
        ["Split"],
    ),
    Fires("packed, opset 11", apart(), ["Split"], opset=11),
    Fires(
        "in the middle",
        apart(
            APART.replace("= 2", "= 1").replace("-2", "1"),
            "float[N,24,5] x",
            constants=INDICES.replace("0, 0, 3, 8", "0, 3, 8, 5"),
        ),
        ["Split"],
    ),
    Fires("three", graph(), ["Split"]),
    Fires(
        "in another order, from the end",
        graph("r = Slice (x, b, e, ax) p = Slice (x, z, a, ax) q = Slice (x, a, b, ax)", ax="{-2}"),
        ["Split"],
    ),
    Fires(
        "every axis written, as tf2onnx does",
        "agraph (float[N,6,3] x) => (float[N,2,3] p, float[N,4,3] q) <int64[3] z = {0, 0, 0}, int64[3] c = {2147483647, 2, 3}, int64[3] s = {0, 2, 0}, int64[3] e = {2147483647, 2147483647, 3}, int64[3] axes = {0, 1, 2}> { p = Slice (x, z, c, axes) q = Slice (x, s, e, axes) }",
        ["Split"],
    ),
    Fires("opset 11", graph(), ["Split"], opset=11),
    Fires(
        "pieces of a piece",
        graph(
            "h = Slice (x, z, a, ax) t = Slice (x, a, e, ax) p = Slice (h, z, one, ax) q = Slice (h, one, e, ax)",
            out="float[N,1,3] p, float[N,1,3] q, float[N,4,3] t",
        ),
        ["Split", "Split"],
        effected=2,
    ),
    Fires(
        "attributes",
        "agraph (float[6,N] x) => (float[2,N] p, float[4,N] q) { p = Slice <axes = [0], starts = [0], ends = [2]> (x) q = Slice <axes = [0], starts = [2], ends = [99]> (x) }",
        ["Split"],
        opset=9,
    ),
]

test_stays, test_fires = tables("ZSplitVDFusionPassV2", STAYS, FIRES, in_functions="never")
