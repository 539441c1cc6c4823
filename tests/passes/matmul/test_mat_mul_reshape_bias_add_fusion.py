from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    shape: str = "int64[4] s = {0, 0, 2, 3}",
    bias: str = "float[2,3] B",
    x: str = "float[N,M,5] x",
    y: str = "float[N,M,2,3] y",
    add: str = "Add (r, B)",
) -> str:
    return f"agraph ({x}) => ({y}) <float[5,6] W, {shape}, {bias}> {{ p = MatMul (x, W) r = Reshape (p, s) y = {add} }}"


COLUMN = "the bias has neither one number nor one number for each column"
KEEPS = "the Reshape does not keep the columns"
STAYS = [
    Stays(
        "used elsewhere",
        graph(add="Add (r, B) z = Relu (r)", y="float[N,M,2,3] y, float[N,M,2,3] z"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "the product is a graph output",
        graph(y="float[N,M,2,3] y, float[N,M,6] p"),
        "an interior value is a graph output",
    ),
    Stays(
        "a subgraph uses it",
        seen_by_subgraph(graph(), "r", "float[N,M,2,3]"),
        "an interior value is used elsewhere",
    ),
    Stays("subtracted", graph(add="Sub (r, B)"), None),
    Stays(
        "a bias for rows",
        graph("int64[2] s = {0, 6}", "float[4,1] B", "float[4,5] x", "float[4,6] y"),
        COLUMN,
    ),
    Stays(
        "a bias of a higher rank",
        graph("int64[2] s = {0, 6}", "float[1,1,6] B", "float[4,5] x", "float[1,4,6] y"),
        COLUMN,
    ),
    Stays(
        "a bias that enlarges",
        graph("int64[3] s = {0, 6, 1}", "float[4] B", "float[4,5] x", "float[4,6,4] y"),
        "the bias may enlarge the product",
    ),
    Stays(
        "columns that are cut across rows",
        graph("int64[2] s = {-1, 4}", "float[4] B", "float[4,5] x", "float[6,4] y"),
        KEEPS,
    ),
    Stays(
        "rows and columns in one",
        graph("int64[1] s = {-1}", "float B = {1}", "float[4,5] x", "float[24] y"),
        KEEPS,
    ),
    Stays(
        "an unknown shape",
        "agraph (float[M,5] x, int64[K] s) => (float[A,B] y) <float[5,6] W, float[6] B> { p = MatMul (x, W) r = Reshape (p, s) y = Add (r, B) }",
        "the rank is unknown",
    ),
    Stays("a bias from outside", graph(x="float[N,M,5] x, float[2,3] C", add="Add (r, C)"), None),
]

LEFT = ["MatMul", "Add", "Reshape"]
FIRES = [
    Fires("heads", graph(), LEFT),
    Fires("commuted", graph(add="Add (B, r)"), LEFT),
    Fires("one number for each of the last", graph(bias="float[3] B"), LEFT),
    Fires("one number for each head", graph(bias="float[2,1] B"), LEFT),
    Fires("a leading one", graph(bias="float[1,1,2,3] B"), LEFT),
    Fires("one number", graph(bias="float B = {0.5}"), LEFT),
    Fires(
        "rows are flattened", graph("int64[2] s = {-1, 6}", "float[6] B", y="float[K,6] y"), LEFT
    ),
    Fires(
        "a one at the end",
        graph("int64[3] s = {0, 6, 1}", "float[6,1] B", "float[4,5] x", "float[4,6,1] y"),
        LEFT,
    ),
    Fires("a vector", graph("int64[2] s = {2, 3}", x="float[5] x", y="float[2,3] y"), LEFT),
    Fires("integers", graph().replace("float", "int32"), LEFT),
    *[Fires(f"opset {opset}", graph(), LEFT, opset=opset) for opset in (9, 13, 22)],
]

test_stays, test_fires = tables(
    "MatMulReshapeBiasAddFusionPass", STAYS, FIRES, in_functions="never"
)
