from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    first: str = "float[3,4] V",
    second: str = "float[4,2] W",
    x: str = "float[N,M,3] x",
    y: str = "float[N,M,2] y",
) -> str:
    return f"agraph ({x}) => ({y}) <{first}, {second}> {{ p = MatMul (x, V) y = MatMul (p, W) }}"


STAYS = [
    Stays(
        "used elsewhere",
        graph(y="float[N,M,2] y, float[N,M,4] z").replace("y = ", "z = Relu (p) y = "),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a graph output",
        graph(y="float[N,M,2] y, float[N,M,4] p"),
        "an interior value is a graph output",
    ),
    Stays(
        "a subgraph uses it",
        seen_by_subgraph(graph(), "p", "float[N,M,4]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "low rank",
        graph("float[6,1] V", "float[1,6] W", "float[M,6] x", "float[M,6] y"),
        "the product of the weights is larger than both weights together",
    ),
    Stays(
        "large weights are used elsewhere",
        graph(
            "float[600,600] V",
            "float[600,2] W",
            "float[M,600] x, float[3,600] w",
            "float[M,2] y, float[3,600] z",
        ).replace("y = ", "z = MatMul (w, V) y = "),
        "large weights are used elsewhere: the model would grow",
    ),
    Stays(
        "batches of weights",
        graph("float[2,3,4] V", y="float[2,M,2] y", x="float[M,3] x"),
        "the weights are not matrices",
    ),
    Stays("a vector", graph(second="float[4] W", y="float[N,M] y"), "the weights are not matrices"),
    Stays(
        "integers", graph().replace("float", "int32"), "the elements are not floating-point numbers"
    ),
    Stays("weights from outside", graph("float[1] U", x="float[N,M,3] x, float[3,4] V"), None),
    Stays(
        "weights that overflow",
        graph(
            "float16[1,1] V = {60000}",
            "float16[1,1] W = {60000}",
            "float16[M,1] x",
            "float16[M,1] y",
        ),
        "a constant would overflow in float16",
    ),
]

FIRES = [
    Fires("two products", graph(), ["MatMul"]),
    Fires("of rank 2", graph(x="float[M,3] x", y="float[M,2] y"), ["MatMul"]),
    Fires("of rank 1", graph(x="float[3] x", y="float[2] y"), ["MatMul"]),
    Fires("double", graph().replace("float", "double"), ["MatMul"]),
    Fires(
        "three products",
        "agraph (float[M,3] x) => (float[M,3] y) <float[3,4] V, float[4,4] W> { p = MatMul (x, V) q = MatMul (p, W) y = Relu (q) }".replace(
            "[M,3] y", "[M,4] y"
        ),
        ["MatMul", "Relu"],
    ),
    *[Fires(f"opset {opset}", graph(), ["MatMul"], opset=opset) for opset in (9, 13)],
]

test_stays, test_fires = tables("MatMulReassociationPass", STAYS, FIRES, in_functions="never")
