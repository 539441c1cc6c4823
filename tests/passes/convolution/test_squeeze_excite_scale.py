from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    gate: str = "s = Sigmoid (u)",
    mul: str = "q = Mul (a, s)",
    end: str = "y = Conv (q, W)",
    batch: str = "2",
    channels: int = 16,
    middle: int = 8,
    size: str = "6,6",
    more: str = "",
    image: str = "a = Relu (c)",
    pool: str = "g = GlobalAveragePool (a)",
) -> str:
    c = channels
    m = middle
    return f"""agraph (float[{batch},{c},{size}] x) => (float[{batch},{c},{size}] y{more})
        <float[{c},{c},1,1] V, float[{c},{c},1,1] W, float[{m},{c},1,1] D, float[{c},{m},1,1] U, float two = {{2}}> {{
        c = Conv (x, V) {image} {pool} d = Conv (g, D) e = Relu (d) u = Conv (e, U)
        {gate} {mul} {end} }}"""


STAYS = [
    Stays("an unknown batch", graph(batch="N"), "the sizes are unknown"),
    Stays("opset 12", graph(), "before opset 13 Resize requires a region of interest", opset=12),
    Stays("any runtime", graph(), None, target="onnx"),
    Stays("no Conv takes it", graph(end="y = Neg (q)"), None),
    Stays("no whole blocks", graph(channels=12), None),
    Stays("a part of a block inside", graph(middle=10), None),
    Stays("an image of one pixel", graph(size="1,1"), None),
    Stays("no image in blocks", graph(image="a = Softmax (c)"), None),
    Stays(
        "a mean in the plain layout",
        graph(pool="g = ReduceMean <axes = [2, 3]> (a)"),
        None,
        opset=17,
    ),
    Stays(
        "the image is read elsewhere, too",
        graph(more=", float[2,16,6,6] z", end="y = Conv (q, W) z = Exp (a)"),
        None,
    ),
    Stays(
        "a Conv of groups that are no blocks reads the image",
        graph(end="o = Conv <group = 4> (a, G) p = Conv (q, W) y = Add (o, p)").replace(
            "float two", "float[16,4,1,1] G, float two"
        ),
        None,
    ),
    Stays("the image is an output, too", graph(more=", float[2,16,6,6] a"), None),
    Stays("no gate of a Conv", graph(gate="s = Softmax (u)"), None),
    Stays("another gate", graph(gate="s = Sigmoid (a)"), None),
    Stays("double", graph().replace("float", "double"), None),
    Stays(
        "a gate for all of the batch",
        graph(gate="r = ReduceMax <keepdims = 1> (u, zero) s = Sigmoid (r)").replace(
            "float two", "int64[1] zero = {0}, float two"
        ),
        None,
    ),
]

LEFT = [
    "Conv",
    "Relu",
    "GlobalAveragePool",
    "Conv",
    "Relu",
    "Conv",
    "Sigmoid",
    "Resize",
    "Mul",
    "Conv",
]
FIRES = [
    Fires("Sigmoid", graph(), LEFT),
    Fires("commuted", graph(mul="q = Mul (s, a)"), LEFT),
    Fires("HardSigmoid", graph(gate="s = HardSigmoid (u)"), [*LEFT[:6], "HardSigmoid", *LEFT[7:]]),
    Fires("a small middle", graph(middle=4), LEFT),
    Fires("width and height", graph(size="3,5", batch="1"), LEFT),
    Fires(
        "another Conv takes the image",
        graph(end="o = Conv (a, W) p = Conv (q, W) y = Add (o, p)"),
        [*LEFT, "Conv", "Add"],
    ),
    Fires(
        "SiLU before it",
        graph(image="w = Sigmoid (c) a = Mul (c, w)"),
        ["Conv", "Sigmoid", "Mul", *LEFT[2:]],
    ),
    Fires("also used elsewhere", graph(more=", float[2,16,6,6] q"), LEFT),
    Fires(
        "a subgraph uses it",
        seen_by_subgraph(graph(), "q", "float[2,16,6,6]"),
        [*LEFT, "If"],
        inside_if=False,
    ),
    *[Fires(f"opset {opset}", graph(), LEFT, opset=opset) for opset in (13, 22)],
]

test_stays, test_fires = tables("SqueezeExciteScalePass", STAYS, FIRES, in_functions="never")
