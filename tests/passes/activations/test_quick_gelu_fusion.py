from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    body: str = "s = Sigmoid (x) y = Mul (x, s)",
    alpha: str = "float alpha = {1.702}",
    y: str = "float[N,3,4] y",
) -> str:
    return f"agraph (float[N,3,4] x) => ({y}) <{alpha}, float[3,4] w> {{ {body} }}"


ALPHA = "a = Mul (x, alpha) s = Sigmoid (a) y = Mul (x, s)"
STAYS = [
    Stays(
        "alpha for each column",
        graph(ALPHA, "float[4] alpha"),
        "the constant is not a single number",
    ),
    Stays(
        "alpha raises the rank",
        graph(ALPHA, "float[1,1,1,1] alpha = {2}", "float[1,N,3,4] y"),
        "the constant is not a single number",
    ),
    Stays(
        "no kernel for double",
        graph().replace("float", "double"),
        "no CPU kernel for QuickGelu of double",
    ),
    Stays("of something else", graph("s = Sigmoid (x) y = Mul (w, s)"), None),
    Stays("HardSigmoid", graph("s = HardSigmoid (x) y = Mul (x, s)"), None),
    Stays(
        "alpha from outside",
        "agraph (float[N] x, float alpha) => (float[N] y) { " + ALPHA + " }",
        None,
    ),
    Stays(
        "the gate is a graph output",
        graph(y="float[N,3,4] y, float[N,3,4] s"),
        "an interior value is a graph output",
    ),
    Stays(
        "a subgraph uses the gate",
        seen_by_subgraph(graph(), "s", "float[N,3,4]"),
        "an interior value is used elsewhere",
    ),
]

FIRES = [
    Fires("SiLU", graph(), ["QuickGelu"]),
    Fires(
        "float16, between Casts of onnxruntime",
        graph(alpha="float alpha").replace("float", "float16"),
        ["QuickGelu"],
    ),
    Fires("commuted", graph("s = Sigmoid (x) y = Mul (s, x)"), ["QuickGelu"]),
    Fires("alpha", graph(ALPHA), ["QuickGelu"]),
    Fires(
        "alpha of rank 1, commuted",
        graph("a = Mul (alpha, x) s = Sigmoid (a) y = Mul (s, x)", "float[1] alpha = {1.702}"),
        ["QuickGelu"],
    ),
    Fires("negative alpha", graph(ALPHA, "float alpha = {-1.5}"), ["QuickGelu"]),
    Fires("Swish", graph("y = Swish (x)"), ["QuickGelu"], opset=24),
    Fires("Swish with alpha", graph("y = Swish <alpha = 1.702> (x)"), ["QuickGelu"], opset=24),
    Fires(
        "a scalar",
        "agraph (float[N] x) => (float[N] y) { s = Sigmoid (x) y = Mul (x, s) }",
        ["QuickGelu"],
    ),
    Fires(
        "behind a convolution",
        "agraph (float[N,3,6,6] x) => (float[N,4,4,4] y) <float[4,3,3,3] W> { c = Conv (x, W) s = Sigmoid (c) y = Mul (c, s) }",
        ["Conv", "QuickGelu"],
    ),
    *[Fires(f"opset {opset}", graph(ALPHA), ["QuickGelu"], opset=opset) for opset in (7, 13, 22)],
]

test_stays, test_fires = tables("QuickGeluFusionPass", STAYS, FIRES, in_functions="never")
