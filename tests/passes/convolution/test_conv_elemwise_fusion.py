from harness import Fires, Stays, optimize, parse, pass_of, seen_by_subgraph, tables


def graph(
    activation: str = "Relu (c)",
    conv: str = "Conv (x, W, B)",
    more: str = "",
    weights: str = "",
    W: str = "float[4,3,3,3] W",
    x: str = "float[N,3,6,6] x",
    y: str = "",
) -> str:
    out = ",".join("abcde"[: x.count(",") + 1])
    return f"agraph ({x}{more}) => (float[{out}] y{y}) <{W}, float[4] B{weights}> {{ c = {conv} y = {activation} }}"


STAYS = [
    Stays(
        "used elsewhere",
        graph("Mul (c, s)").replace("y = Mul", "s = Sigmoid (c) y = Mul"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "bounds from outside",
        graph("Clip (c, lo)", more=", float lo"),
        "the bound is not constant",
    ),
    Stays(
        "two bounds",
        graph("Clip (c, lo)", weights=", float[2] lo = {0, 0}"),
        "the bound is not a single number",
        valid=False,
    ),
    Stays("an activation without a kernel", graph("Elu (c)"), None),
    Stays(
        "a residual",
        graph("Add (c, x)", "Conv <pads = [1, 1, 1, 1]> (x, W)", W="float[3,3,3,3] W"),
        None,
    ),
    Stays(
        "a subgraph uses the convolution",
        seen_by_subgraph(graph(), "c", "float[N,4,4,4]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "the convolution is a graph output",
        graph(y=", float[N,4,4,4] c"),
        "an interior value is a graph output",
    ),
    Stays(
        "bounds that the caller may override",
        graph("Clip (c, lo)", more=", float lo = {0}"),
        "the bound is not constant",
    ),
    Stays(
        "bounds that are computed",
        graph("Clip (c, lo)", weights=", float one = {1}").replace("y = ", "lo = Neg (one) y = "),
        "the bound is not constant",
    ),
    Stays("a ConvTranspose", graph(conv="ConvTranspose (x, W)", W="float[3,4,2,2] W"), None),
    Stays(
        "the convolution is outside of the subgraph",
        """agraph (float[2,3,6,6] x, bool b) => (float[2,4,4,4] y) <float[4,3,3,3] W> {
            c = Conv (x, W)
            y = If (b) <then_branch = t () => (float[2,4,4,4] p) { p = Relu (c) },
                        else_branch = e () => (float[2,4,4,4] q) { q = Tanh (c) }>
        }""",
        None,
    ),
]

FIRES = [
    *[
        Fires(f, graph(f"{f} (c)"), ["FusedConv"])
        for f in ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid")
    ],
    Fires("parameters", graph("HardSigmoid <alpha = 0.3, beta = 0.4> (c)"), ["FusedConv"]),
    Fires(
        "float16, between Casts of onnxruntime",
        graph().replace("float[", "float16["),
        ["FusedConv"],
    ),
    Fires("without bias", graph(conv="Conv (x, W)"), ["FusedConv"]),
    Fires("1-D", graph(W="float[4,3,3] W", x="float[N,3,6] x"), ["FusedConv"]),
    Fires(
        "attributes",
        graph(
            conv="Conv <strides = [2, 2], pads = [1, 1, 1, 1], group = 3> (x, W)",
            W="float[6,1,3,3] W",
        ),
        ["FusedConv"],
    ),
    Fires(
        "Clip to 6",
        graph("Clip (c, lo, hi)", weights=", float lo = {0}, float hi = {6}"),
        ["FusedConv"],
    ),
    Fires("Clip from below", graph("Clip (c, lo)", weights=", float lo = {-0.5}"), ["FusedConv"]),
    Fires("Clip from above", graph("Clip (c, , hi)", weights=", float hi = {0.5}"), ["FusedConv"]),
    Fires("Clip of opset 6", graph("Clip <min = 0.0, max = 6.0> (c)"), ["FusedConv"], opset=9),
    Fires("LeakyRelu of opset 9", graph("LeakyRelu <alpha = 0.2> (c)"), ["FusedConv"], opset=9),
    Fires("3-D", graph(W="float[4,3,2,2,2] W", x="float[N,3,4,4,4] x"), ["FusedConv"]),
    Fires(
        "depthwise",
        graph(
            "Clip (c, lo, hi)",
            "Conv <group = 4> (x, W, B)",
            weights=", float lo = {0}, float hi = {6}",
            W="float[4,1,3,3] W",
            x="float[N,4,6,6] x",
        ),
        ["FusedConv"],
    ),
    Fires(
        "auto_pad",
        graph("HardSigmoid (c)", 'Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, W, B)'),
        ["FusedConv"],
    ),
    Fires("dilations", graph("Sigmoid (c)", "Conv <dilations = [2, 1]> (x, W)"), ["FusedConv"]),
    Fires(
        "weights from outside",
        "agraph (float[N,3,6,6] x, float[4,3,3,3] W, float[4] B) => (float[N,a,b,d] y) "
        "{ c = Conv (x, W, B) y = Relu (c) }",
        ["FusedConv"],
    ),
    Fires(
        "unknown height and width",
        graph("Tanh (c)", x="float[N,3,H,K] x"),
        ["FusedConv"],
        sizes={"H": 3, "K": 7},
    ),
    Fires("LeakyRelu that turns the sign", graph("LeakyRelu <alpha = -0.5> (c)"), ["FusedConv"]),
    Fires("Clip without bounds", graph("Clip (c)"), ["FusedConv"]),
    Fires(
        "Clip of which the bounds are crossed",
        graph("Clip (c, lo, hi)", weights=", float lo = {2}, float hi = {-1}"),
        ["FusedConv"],
    ),
    Fires(
        "Clip to infinity",
        graph("Clip (c, lo, hi)", weights=", float lo = {-inf}, float hi = {inf}"),
        ["FusedConv"],
    ),
    Fires(
        "Clip to NaN",
        graph("Clip (c, lo, hi)", weights=", float lo = {nan}, float hi = {1}"),
        ["FusedConv"],
    ),
    Fires(
        "Clip with bounds of rank 1",
        graph("Clip (c, lo)", weights=", float[1] lo = {-0.5}"),
        ["FusedConv"],
    ),
    Fires(
        "Clip of opset 6 without a lower bound",
        graph("Clip <max = 0.5> (c)"),
        ["FusedConv"],
        opset=10,
    ),
    Fires("opset 7, IR version 3", graph("HardSigmoid (c)"), ["FusedConv"], opset=7, ir_version=3),
    *[
        Fires(
            f"opset {opset}",
            graph("Clip (c, lo)", weights=", float lo = {0}"),
            ["FusedConv"],
            opset=opset,
        )
        for opset in (11, 12, 13, 22)
    ],
    Fires("HardSigmoid of opset 22", graph("HardSigmoid (c)"), ["FusedConv"], opset=22),
    Fires(
        "both branches of one value",
        "agraph (float[N,3,6,6] x) => (float[N,a,b,e] y) <float[4,3,3,3] W> "
        "{ c = Conv (x, W) d = Conv (x, W) f = Relu (c) g = Tanh (d) y = Add (f, g) }",
        ["FusedConv", "FusedConv", "Add"],
        2,
    ),
]

test_stays, test_fires = tables("TbeConvElemwiseFusionPass", STAYS, FIRES, in_functions="never")


def test_no_operator_of_onnxruntime_for_any_runtime() -> None:
    model = parse(graph())
    result, counts = optimize(model, [pass_of("TbeConvElemwiseFusionPass")], target="onnx")
    assert result == model
    assert [reason for count in counts for reason in count.refused] == [
        "target onnx has no FusedConv"
    ]
