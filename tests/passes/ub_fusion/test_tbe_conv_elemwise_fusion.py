from harness import Fires, Stays, optimize, parse, pass_of, tables


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
    Stays("no kernel for float16", graph().replace("float[", "float16["), "no CPU kernel for FusedConv of float16"),
    Stays(
        "bounds from outside",
        graph("Clip (c, lo)", more=", float lo"),
        "the bounds are not known before the model runs",
    ),
    Stays("an activation without a kernel", graph("Elu (c)"), None),
    Stays("a residual", graph("Add (c, x)", "Conv <pads = [1, 1, 1, 1]> (x, W)", W="float[3,3,3,3] W"), None),
]

FIRES = [
    *[Fires(f, graph(f"{f} (c)"), ["FusedConv"]) for f in ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid")],
    Fires("parameters", graph("HardSigmoid <alpha = 0.3, beta = 0.4> (c)"), ["FusedConv"]),
    Fires("without bias", graph(conv="Conv (x, W)"), ["FusedConv"]),
    Fires("1-D", graph(W="float[4,3,3] W", x="float[N,3,6] x"), ["FusedConv"]),
    Fires(
        "attributes",
        graph(conv="Conv <strides = [2, 2], pads = [1, 1, 1, 1], group = 3> (x, W)", W="float[6,1,3,3] W"),
        ["FusedConv"],
    ),
    Fires("Clip to 6", graph("Clip (c, lo, hi)", weights=", float lo = {0}, float hi = {6}"), ["FusedConv"]),
    Fires("Clip from below", graph("Clip (c, lo)", weights=", float lo = {-0.5}"), ["FusedConv"]),
    Fires("Clip from above", graph("Clip (c, , hi)", weights=", float hi = {0.5}"), ["FusedConv"]),
    Fires("Clip of opset 6", graph("Clip <min = 0.0, max = 6.0> (c)"), ["FusedConv"], opset=9),
    Fires("LeakyRelu of opset 9", graph("LeakyRelu <alpha = 0.2> (c)"), ["FusedConv"], opset=9),
]

test_stays, test_fires = tables("TbeConvElemwiseFusionPass", STAYS, FIRES)


def test_no_operator_of_onnxruntime_for_any_runtime() -> None:
    model = parse(graph())
    result, counts = optimize(model, [pass_of("TbeConvElemwiseFusionPass")], target="onnx")
    assert result == model
    assert [reason for count in counts for reason in count.refused] == ["target onnx has no FusedConv"]
