from typing import Any

from harness import Fires, Stays, parse, seen_by_subgraph, tables
from onnx import ModelProto


def graph(body: str, constants: str = "", x: str = "float[N,M,8] x", y: str = "int64[p] y") -> str:
    return f"agraph ({x}) => ({y}) <{constants}> {{ {body} y = Neg (r) }}".replace("<> ", "")


def fires(name: str, text: str, operators: list[str], effected: int = 1, **of_case: Any) -> Fires:
    """Symbols that differ: that one is taken for another one must be seen."""
    return Fires(name, text, operators, effected, sizes={"N": 2, "M": 3}, **of_case)


TURNED = "a = Transpose <perm = [2, 0, 1]> (x)"  # [8, N, M]
GATHER = "s = Shape (a) r = Gather (s, i)"
SLICE = "s = Shape (a) r = Slice (s, b, e)"
JOINED = "a = Concat <axis = 0> (x, x)"  # [N + N, M, 8]
SCALAR = "int64 y"
IN_LOOP = """agraph (float[N,8] x, int64 n) => (int64 y) <int64 i = {1}, bool yes = {1}> {
    z = Loop (n, yes) <body = b (int64 at, bool go) => (bool on, float[q,r] each) {
        on = Identity (go) each = Sigmoid (x) }>
    s = Shape (z) r = Gather (s, i) y = Neg (r) }"""


def nameless(name: str) -> ModelProto:
    """Dimensions that an exporter does not know have one name, and are of different sizes."""
    model = parse(graph(f"a = Relu (x) {GATHER}", "int64 i = {2}", "float[N,3,M] x", SCALAR))
    for dim in model.graph.input[0].type.tensor_type.shape.dim:
        if dim.dim_param:
            dim.dim_param = name
    return model


STAYS = [
    Stays("nameless dimensions", lambda: nameless("?"), None),
    Stays("dimensions that are None", lambda: nameless("None"), None),
    Stays("of an input", graph("s = Shape (x) r = Gather (s, i)", "int64 i = {1}", y=SCALAR), None),
    Stays("all of an input", graph("r = Shape (x)"), None),
    Stays(
        "a dimension that no input has",
        graph(f"{JOINED} {GATHER}", "int64 i = {0}", y=SCALAR),
        None,
    ),
    Stays("one of them is of no input", graph(f"{JOINED} {GATHER}", "int64[2] i = {1, 0}"), None),
    Stays(
        "something else is taken that no input has",
        graph(
            f"{JOINED} s = Shape (a) t = Gather (s, i) u = Gather (s, j) r = Add (t, u)",
            "int64[1] i = {1}, int64[1] j = {0}",
        ),
        None,
    ),
    Stays(
        "the Shape is needed otherwise",
        graph(f"{TURNED} s = Shape (a) t = Gather (s, i) r = Add (s, t)", "int64 i = {1}"),
        None,
    ),
    Stays(
        "the Shape is an output",
        graph(f"{TURNED} {GATHER}", "int64[1] i = {1}", y="int64[p] y, int64[3] s"),
        None,
    ),
    Stays(
        "a subgraph needs the Shape",
        seen_by_subgraph(graph(f"{TURNED} {GATHER}", "int64[1] i = {1}"), "s", "int64[3]"),
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
        "a dimension that the values decide",
        graph(f"z = NonZero (x) a = Cast <to = 1> (z) {GATHER}", "int64 i = {1}", y=SCALAR),
        None,
    ),
    Stays("an index out of range", graph(f"{TURNED} {GATHER}", "int64 i = {3}", y=SCALAR), None),
    Stays(
        "an index before the first", graph(f"{TURNED} {GATHER}", "int64 i = {-4}", y=SCALAR), None
    ),
    Stays(
        "an index from outside", graph(f"{TURNED} {GATHER}", x="float[N,M,8] x, int64[1] i"), None
    ),
    Stays(
        "a slice from outside",
        graph(f"{TURNED} {SLICE}", "int64[1] b = {1}", "float[N,M,8] x, int64[1] e"),
        None,
    ),
    Stays(
        "a slice of nothing", graph(f"{TURNED} {SLICE}", "int64[1] b = {1}, int64[1] e = {1}"), None
    ),
    Stays(
        "an unknown rank",
        graph(
            f"a = Reshape (x, t) {GATHER}", "int64 i = {1}", "float[N,M,8] x, int64[q] t", SCALAR
        ),
        None,
    ),
    Stays("not side by side", graph("a = Transpose <perm = [2, 1, 0]> (x) r = Shape (a)"), None),
    Stays(
        "side by side in another order",
        graph("a = Transpose <perm = [1, 0, 2]> (x) r = Shape (a)"),
        None,
    ),
    Stays(
        "no part of a Shape before opset 15",
        graph("a = ArgMax <axis = 2, keepdims = 0> (x) r = Shape (a)"),
        None,
        opset=13,
    ),
    Stays(
        "an input with a default, which may have another size",
        "agraph (float[N] w) => (int64 y) <float[3] w = {1, 2, 3}, int64 i = {0}> "
        "{ a = Relu (w) s = Shape (a) r = Gather (s, i) y = Neg (r) }",
        None,
    ),
    Stays("what a Loop collects, in no turn at all", IN_LOOP, None),
]

HEADS = "int64[4] t = {0, -1, 2, 4}"
PICKED = ["Shape", "Gather", "Neg"]
FIRES = [
    fires("one of them", graph(f"{TURNED} {GATHER}", "int64 i = {1}", y=SCALAR), PICKED),
    fires("from the back", graph(f"{TURNED} {GATHER}", "int64[1] i = {-1}"), PICKED),
    fires("with an index of another type", graph(f"{TURNED} {GATHER}", "int32[1] i = {2}"), PICKED),
    fires("several", graph(f"{TURNED} {GATHER}", "int64[3] i = {2, 0, 1}"), PICKED),
    fires(
        "two of one Shape",
        graph(
            f"{TURNED} s = Shape (a) t = Gather (s, i) u = Gather (s, j) r = Sub (t, u)",
            "int64[1] i = {1}, int64[1] j = {2}",
        ),
        ["Shape", "Gather", "Shape", "Gather", "Sub", "Neg"],
        2,
    ),
    fires("a slice", graph(f"{TURNED} {SLICE}", "int64[1] b = {1}, int64[1] e = {9}"), PICKED),
    fires(
        "of heads",
        graph(
            f"h = Reshape (x, t) a = Transpose <perm = [0, 2, 1, 3]> (h) {GATHER}",
            f"int64 i = {{2}}, {HEADS}",
            y=SCALAR,
        ),
        PICKED,
    ),
    fires(
        "of a part of the shape",
        graph(f"{TURNED} s = Shape <start = -2> (a) r = Gather (s, i)", "int64 i = {1}", y=SCALAR),
        ["Shape", "Gather", "Neg"],
    ),
    fires(
        "of the input that has it",
        graph(f"a = MatMul (x, z) {GATHER}", "int64 i = {1}", "float[N,8] x, float[8,M] z", SCALAR),
        PICKED,
    ),
    fires("all", graph("a = Relu (x) r = Shape (a)"), ["Shape", "Neg"]),
    fires(
        "all of a square", graph("a = Relu (x) r = Shape (a)", x="float[N,N,M] x"), ["Shape", "Neg"]
    ),
    fires(
        "all of the front",
        graph("a = ArgMax <axis = 2, keepdims = 0> (x) r = Shape (a)"),
        ["Shape", "Neg"],
    ),
    fires("some side by side", graph(f"{TURNED} r = Shape <start = 1> (a)"), ["Shape", "Neg"]),
    fires(
        "all of the second input",
        graph("a = Relu (x) r = Shape (a)", x="float[M,N] z, float[N,M] x"),
        ["Shape", "Neg"],
    ),
    fires(
        "all, before opset 15",
        graph("a = Relu (x) r = Shape (a)"),
        ["Shape", "Neg"],
        opset=11,
        ir_version=6,
    ),
]

test_stays, test_fires = tables("ShapeOfInputPass", STAYS, FIRES, in_functions="never")
