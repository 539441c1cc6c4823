from harness import Fires, Stays, tables


def graph(node: str, constants: str = "", x: str = "float[N,3,5] x") -> str:
    return (
        f"agraph ({x}) => (int64[p] y) <{constants}> {{ a = Relu (x) {node} y = Neg (r) }}".replace(
            "<> ", ""
        )
    )


def scalar(text: str) -> str:
    return text.replace("int64[p] y", "int64 y")


GATHER = "s = Shape (a) r = Gather (s, i)"
SLICE = "s = Shape (a) r = Slice (s, b, e)"
STAYS = [
    Stays("a symbol among them", graph("r = Shape (a)"), None),
    Stays("a symbol is asked for", scalar(graph(GATHER, "int64 i = {0}")), None),
    Stays("an index out of range", scalar(graph(GATHER, "int64 i = {3}")), None),
    Stays("an index from outside", graph(GATHER, x="float[N,3,5] x, int64[1] i"), None),
    Stays("a slice with a symbol", graph(SLICE, "int64[1] b = {0}, int64[1] e = {2}"), None),
    Stays("a slice of nothing", graph(SLICE, "int64[0] b = {}, int64[0] e = {}"), None),
    Stays(
        "a slice from outside",
        graph(SLICE, "int64[1] b = {1}", x="float[N,3,5] x, int64[1] e"),
        None,
    ),
    Stays(
        "a slice backwards",
        graph(
            "s = Shape (a) r = Slice (s, b, e, ax, st)",
            "int64[1] b = {2}, int64[1] e = {0}, int64[1] ax = {0}, int64[1] st = {-1}",
        ),
        None,
    ),
    Stays("a size with a symbol", scalar(graph("r = Size (a)")), None),
    Stays(
        "a shape that the caller decides",
        "agraph (float[6] x, int64[2] t) => (int64[p] y) { a = Reshape (x, t) r = Shape (a) y = Neg (r) }",
        None,
    ),
]

FIRES = [
    Fires("all of them", graph("r = Shape (a)", x="float[2,3,5] x"), ["Neg"]),
    Fires("from a start", graph("r = Shape <start = 1> (a)"), ["Neg"]),
    Fires("to an end", graph("r = Shape <start = -2, end = -1> (a)"), ["Neg"]),
    Fires("one of them", scalar(graph(GATHER, "int64 i = {1}")), ["Neg"]),
    Fires("from the back", graph(GATHER, "int64[2] i = {-1, 1}"), ["Neg"]),
    Fires(
        "of a part",
        scalar(
            graph("s = Shape <start = 1> (a) r = Gather (s, i)", "int64 i = {0}", "float[N,3,M] x")
        ),
        ["Neg"],
    ),
    Fires("a slice", graph(SLICE, "int64[1] b = {1}, int64[1] e = {9}"), ["Neg"]),
    Fires(
        "every second",
        graph(
            "s = Shape (a) r = Slice (s, b, e, ax, st)",
            "int64[1] b = {1}, int64[1] e = {9}, int64[1] ax = {0}, int64[1] st = {2}",
        ),
        ["Neg"],
    ),
    Fires(
        "in rows",
        graph(GATHER, "int64[1,2] i = {2, 1}").replace("int64[p] y", "int64[p,q] y"),
        ["Neg"],
    ),
    Fires("the size", scalar(graph("r = Size (a)", x="float[2,3,5] x")), ["Neg"]),
]

test_stays, test_fires = tables("DimensionComputePass", STAYS, FIRES, in_functions="never")
