import numpy as np
from harness import Fires, Stays, optimize, parse, pass_of, session, tables

GRAPH = "agraph ({} q) => (float[?,?,?,?] y) <{}> {{ p = ConvInteger{} {} y = Cast <to = 1> (p) }}"


def graph(
    q: str = "uint8[N,4,5,5]",
    constants: str = "uint8[4,1,3,3] W, uint8 z = {131}, uint8 w = {7}",
    attributes: str = "<group = 4, pads = [1, 1, 1, 1]>",
    inputs: str = "(q, W, z, w)",
) -> str:
    return GRAPH.format(q, constants, attributes, inputs)


SCALED = (
    "agraph (float[N,4,5,5] x) => (float[?,?,?,?] y) <uint8[4,1,3,3] W, uint8 w = {7}, float[4,1,1] t = {0.1, 0.2, 0.3, 0.4}, "
    "float[1,4,1,1] B = {1, -2, 3, 4}> { q, s, z = DynamicQuantizeLinear (x) i = ConvInteger <group = 4> (q, W, z, w) "
    "c = Cast <to = 1> (i) k = Mul (s, t) m = Mul (c, k) y = Add (m, B) }"
)
ROWS = SCALED.replace("float[4,1,1] t = {0.1, 0.2, 0.3, 0.4}", "float[3,1] t = {0.1, 0.2, 0.3}")
STAYS = [
    Stays("one group", graph(attributes="").replace("[4,1,3,3]", "[4,4,3,3]"), "the convolution has one group"),
    Stays("many products", graph("uint8[N,64,9,9]", "uint8[2,32,3,3] W, uint8 z = {3}, uint8 w = {7}", "<group = 2>"), "the sum may need more than 24 bits"),
    Stays("a zero point for each channel", graph(constants="uint8[4,1,3,3] W, uint8 z = {131}, uint8[4] w = {7, 8, 9, 1}"), "the weights have more than one zero point"),
    Stays("weights from outside", graph("uint8[4,1,3,3] W, uint8[N,4,5,5]", "uint8 z = {131}, uint8 w = {7}"), None),
    Stays("integers are read", graph().replace("y = Cast <to = 1> (p)", "y = Cast <to = 11> (p)").replace("float[?", "double[?"), None),
    Stays("another target", graph(), "for target onnx no gain is known", target="onnx"),
]  # fmt: skip
LEFT = ["DequantizeLinear", "Conv"]
FIRES = [
    Fires("a scale and an addend", SCALED, ["DynamicQuantizeLinear", *LEFT], edge_values=False),
    Fires("a scale", SCALED.replace("m = Mul (c, k) y = Add (m, B)", "y = Mul (c, k)"), ["DynamicQuantizeLinear", *LEFT], edge_values=False),
    Fires("one scale", SCALED.replace("float[4,1,1] t = {0.1, 0.2, 0.3, 0.4}", "float t = {0.1}"), ["DynamicQuantizeLinear", *LEFT], edge_values=False),
    Fires("a scale for each row of pixels", ROWS, ["DynamicQuantizeLinear", *LEFT, "Mul", "Mul", "Add"]),
    Fires("depthwise", graph(), LEFT),
    Fires("int8", graph("int8[N,4,5,5]", "int8[4,1,3,3] W, int8 z = {-3}, int8 w = {7}"), LEFT),
    Fires("uint8 by int8", graph(constants="int8[4,1,3,3] W, uint8 z = {131}, int8 w = {7}"), LEFT),
    Fires("two groups", graph(constants="uint8[6,2,3,3] W, uint8 z = {131}", attributes="<group = 2, strides = [2, 2]>", inputs="(q, W, z)"), LEFT),
    Fires("no zero point", graph(constants="uint8[4,1,3,3] W", inputs="(q, W)"), LEFT),
    Fires("a zero point from outside", graph("uint8 z, uint8[N,4,5,5]", "uint8[4,1,3,3] W", inputs="(q, W, z)"), LEFT),
]  # fmt: skip

test_stays, test_fires = tables("GroupedConvIntegerPass", STAYS, FIRES, in_functions="never")


def test_the_largest_sums_are_exact() -> None:
    model = parse(
        graph(
            "uint8[N,8,3,3]",
            "uint8[2,4,8,8] W, uint8 z = {0}, uint8 w = {0}",
            "<group = 2, pads = [7, 7, 7, 7]>",
        ).replace("uint8[2,4,8,8] W", f"uint8[2,4,8,8] W = {{{', '.join(['255'] * 512)}}}")
    )
    result, _ = optimize(model, [pass_of("GroupedConvIntegerPass")])
    q = np.full((1, 8, 3, 3), 255, np.uint8)
    np.testing.assert_array_equal(
        session(model).run(None, {"q": q}), session(result).run(None, {"q": q})
    )
