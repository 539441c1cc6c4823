from __future__ import annotations

from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    nodes: str = "p = Mul (h, s) q = Add (p, b)",
    end: str = "y = Conv <pads = [1, 1, 1, 1], group = 16> (q, D)",
    image: str = "h = HardSwish (a)",
    more: str = "",
    constants: str = "float s = {1.5}, float b = {0.25}",
    channels: int = 16,
    out: str = "",
) -> str:
    c = channels
    return f"""agraph (float[N,4,5,5] x{more}) => (float[N,{c},H,W] y{out})
        <float[{c},4,3,3] V, float[{c},1,3,3] D, float[8,{c},1,1] P, float[{c}] k, float[{c},1,1] r,
         float[1,{c},1,1] t, {constants}> {{
        a = Conv (x, V) {image} {nodes} {end} }}"""


def without_group(nodes: str) -> str:
    return graph(
        nodes,
        "y = Conv <pads = [1, 1, 1, 1]> (q, E)",
        constants="float[6,16,3,3] E, float s, float b",
    )


OLD = "before opset 8 operators may align their operands in another way"

STAYS = [
    Stays("opset 7", graph(image="h = Relu (a)"), OLD, opset=7),
    Stays("any runtime", graph(), "for target onnx no gain is known", target="onnx"),
    Stays(
        "12 channels",
        graph(end="y = Conv <pads = [1, 1, 1, 1]> (q, D)", channels=12),
        None,
        valid=False,
    ),
    Stays(
        "half a block",
        graph(end="y = Conv <pads = [1, 1, 1, 1], group = 8> (q, D)", channels=8),
        None,
    ),
    Stays("an image in the plain layout", graph(image="h = Softplus (a)"), None),
    Stays(
        "a graph input", graph("p = Mul (z, s) q = Add (p, b)", more=", float[N,16,3,3] z"), None
    ),
    Stays("a result in the plain layout", graph(end="y = Softplus (q)"), None),
    Stays("a graph output", graph(end="", nodes="p = Mul (h, s) y = Add (p, b)"), None),
    Stays("double", graph().replace("float", "double"), None),
    Stays("a Conv takes the factor", graph("q = Mul (h, s)"), None),
    Stays(
        "a Conv takes both",
        graph(end="y = Conv (q, P)").replace("float[N,16,H,W] y", "float[N,8,H,W] y"),
        None,
    ),
    Stays(
        "a factor for each pixel",
        graph(constants="float[3,3] s, float b"),
        "the constant has neither one number nor one number for each channel",
    ),
    Stays(
        "one addend for each row",
        graph(constants="float s, float[3,1] b"),
        "the constant has neither one number nor one number for each channel",
    ),
    Stays("a factor that is computed", graph(constants="float b", more=", float s"), None),
    Stays(
        "the product is used elsewhere",
        graph(out=", float[N,16,3,3] p"),
        "an interior value is a graph output",
    ),
]

LEFT = ["Conv", "HardSwish", "Conv", "Conv"]
FIRES = [
    Fires("scalars", graph(), LEFT),
    Fires("numbers for each channel", graph("p = Mul (h, r) q = Add (t, p)"), LEFT),
    Fires("the sum first", graph("p = Add (h, b) q = Mul (p, r)"), LEFT),
    Fires("the sum alone", graph("q = Add (r, h)"), LEFT),
    Fires(
        "no activation", graph("p = Mul (a, r) q = Add (p, b)", image=""), ["Conv", "Conv", "Conv"]
    ),
    Fires(
        "before a pool",
        graph(end="y = MaxPool <kernel_shape = [2, 2]> (q)"),
        [*LEFT[:3], "MaxPool"],
    ),
    Fires(
        "a factor before a pool",
        graph("q = Mul (h, s)", "y = GlobalAveragePool (q)"),
        [*LEFT[:3], "GlobalAveragePool"],
    ),
    Fires(
        "groups of blocks",
        without_group("p = Mul (h, s) q = Add (p, b)").replace("[N,16,H,W] y", "[N,6,H,W] y"),
        LEFT,
    ),
    Fires(
        "an activation behind",
        graph(end="e = Relu (q) y = Conv <pads = [1, 1, 1, 1], group = 16> (e, D)"),
        [*LEFT[:3], "Relu", "Conv"],
    ),
    Fires(
        "two that read it",
        graph(end="e = Conv <pads = [1, 1, 1, 1], group = 16> (q, D) y = Add (e, q)"),
        [*LEFT, "Add"],
    ),
    Fires("also an output", graph(out=", float[N,16,3,3] q"), LEFT),
    Fires(
        "a subgraph uses it",
        seen_by_subgraph(graph(), "q", "float[N,16,3,3]"),
        [*LEFT, "If"],
        inside_if=False,
    ),
    *[Fires(f"opset {opset}", graph(), LEFT, opset=opset) for opset in (14, 22)],
]

test_stays, test_fires = tables("ScaleShiftToConvPass", STAYS, FIRES, in_functions="never")
