from harness import Fires, Stays, seen_by_subgraph, tables


def graph(kind: str, shape: str, body: str = "y = Sub (x, x)") -> str:
    return f"agraph ({kind}[{shape}] x) => ({kind}[{shape}] y) {{ {body} }}"


STAYS = [
    Stays(
        "another value", "agraph (float[N] x, float[N] z) => (float[N] y) { y = Sub (x, z) }", None
    ),
    Stays(
        "the same computed twice",
        graph("float", "N", "a = Abs (x) b = Abs (x) y = Sub (a, b)"),
        None,
    ),
    Stays("a sum", graph("float", "N", "y = Add (x, x)"), None),
    Stays("an older opset", graph("float", "N"), "opset 8 has no ConstantOfShape", opset=8),
]

FIRES = [
    Fires("known shape", graph("float", "2,3"), ["ConstantOfShape"], edge_values=False),
    Fires("a symbol", graph("float", "N,3"), ["Shape", "ConstantOfShape"], edge_values=False),
    Fires("integers", graph("int64", "N,3"), ["Shape", "ConstantOfShape"]),
    Fires("double", graph("double", "4"), ["ConstantOfShape"], edge_values=False),
    Fires("half", graph("float16", "4"), ["ConstantOfShape"], edge_values=False),
    Fires(
        "of rank 0",
        "agraph (float x) => (float y) { y = Sub (x, x) }",
        ["ConstantOfShape"],
        edge_values=False,
    ),
    Fires(
        "x is used elsewhere",
        seen_by_subgraph(graph("float", "N,3", "a = Abs (x) y = Sub (a, a)"), "a", "float[N,3]"),
        ["Abs", "Shape", "ConstantOfShape", "If"],
        edge_values=False,
        inside_if=False,
    ),
    *[
        Fires(
            f"opset {opset}",
            graph("float", "2,3"),
            ["ConstantOfShape"],
            opset=opset,
            edge_values=False,
        )
        for opset in (9, 13)
    ],
]

test_stays, test_fires = tables("SubFusionPass", STAYS, FIRES, in_functions="never")
