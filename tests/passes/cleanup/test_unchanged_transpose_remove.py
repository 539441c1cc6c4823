from harness import Fires, Stays, tables

GRAPH = (
    "agraph (float[{0}] x) => (float[{0}] y) {{ a = Relu (x) b = Transpose {1} (a) y = Neg (b) }}"
)

STAYS = [
    Stays("two axes change places", GRAPH.format("3,3", "<perm = [1, 0]>"), None),
    Stays("the default reverses", GRAPH.format("3,3", ""), None),
    Stays(
        "from an input to an output",
        "agraph (float[N,3] x) => (float[N,3] y) { y = Transpose <perm = [0, 1]> (x) }",
        "the result is a graph output and needs a name of its own",
    ),
    Stays(
        "the default, of unknown rank",
        "agraph (float[N] x, int64[K] s) => (float[a] y) { r = Reshape (x, s) b = Transpose (r) y = Neg (b) }",
        None,
    ),
]

FIRES = [
    Fires("written out", GRAPH.format("N,3,M", "<perm = [0, 1, 2]>"), ["Relu", "Neg"]),
    Fires("a vector", GRAPH.format("N", ""), ["Relu", "Neg"]),
]

test_stays, test_fires = tables(
    "UnchangedTransposeRemovePass", STAYS, FIRES, in_functions="less often"
)
