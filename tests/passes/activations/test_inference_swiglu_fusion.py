from harness import Fires, Stays, seen_by_subgraph, tables

SPLIT = "g, u = Split <axis = -1> (x, sizes) s = Sigmoid (g)"


def graph(
    product: str = "p = Mul (g, s) y = Mul (p, u)", split: str = SPLIT, y: str = "float[N,3,4] y"
) -> str:
    return f"agraph (float[N,3,8] x) => ({y}) <int64[2] sizes = {{4, 4}}> {{ {split} {product} }}"


STAYS = [
    Stays("no product with the gate itself", graph("y = Mul (u, s)"), None),
    Stays("SiLU alone", graph("y = Mul (g, s)"), None),
    Stays(
        "no kernel for double",
        graph().replace("float", "double"),
        "no CPU kernel for QuickGelu of double",
    ),
    Stays("another gate", graph(split=SPLIT.replace("Sigmoid (g)", "Tanh (g)")), None),
    Stays(
        "the inner product is a graph output",
        graph(y="float[N,3,4] y, float[N,3,4] p"),
        "an interior value is a graph output",
    ),
    Stays(
        "a subgraph uses the gate",
        seen_by_subgraph(graph(), "s", "float[N,3,4]"),
        "an interior value is used elsewhere",
    ),
]

FIRES = [
    Fires("SiLU first", graph(), ["Split", "QuickGelu", "Mul"]),
    Fires("SiLU second", graph("p = Mul (s, g) y = Mul (u, p)"), ["Split", "QuickGelu", "Mul"]),
    Fires(
        "the gate and the other half first",
        graph("p = Mul (u, g) y = Mul (p, s)"),
        ["Split", "QuickGelu", "Mul"],
    ),
    Fires(
        "the other half and Sigmoid first",
        graph("p = Mul (u, s) y = Mul (g, p)"),
        ["Split", "QuickGelu", "Mul"],
    ),
    Fires(
        "the second half is the gate",
        graph(split=SPLIT.replace("g, u", "u, g")),
        ["Split", "QuickGelu", "Mul"],
    ),
    Fires(
        "two products",
        "agraph (float[N,3,4] x) => (float[N,3,5] y) <float[4,5] V, float[4,5] W> "
        "{ g = MatMul (x, V) u = MatMul (x, W) s = Sigmoid (g) p = Mul (g, u) y = Mul (p, s) }",
        ["MatMul", "MatMul", "QuickGelu", "Mul"],
    ),
    Fires(
        "a smaller gate",
        "agraph (float[N,1] g, float[N,5] u) => (float[N,5] y) { s = Sigmoid (g) p = Mul (g, u) y = Mul (p, s) }",
        ["QuickGelu", "Mul"],
    ),
    Fires(
        "unequal pieces of an old Split",
        "agraph (float[N,5] x) => (float[N,4] y) { g, u = Split <axis = 1, split = [1, 4]> (x) s = Sigmoid (g) p = Mul (g, s) y = Mul (p, u) }",
        ["Split", "QuickGelu", "Mul"],
        opset=11,
    ),
]

test_stays, test_fires = tables("InferenceSwigluFusionPass", STAYS, FIRES, in_functions="never")
