import numpy as np
from harness import Fires, Stays, optimize, parse, pass_of, tables
from onnx import numpy_helper

WRITTEN = "p = Mul (s, s) v = ReduceMean (p, ax) e = Add (v, eps) r = Sqrt (e) q = Div (s, r) n = Mul (q, g)"


def graph(
    scale: str = "float w = {0.03}",
    zero: str = "int8 z = {3}",
    quantize: str = "y = QuantizeLinear (n, w, z)",
    norm: str = "n = RMSNormalization (s, g)",
    inputs: str = "float[B,S,4] x, float[B,S,4] k",
    y: str = "int8[a,b,c] y",
) -> str:
    constants = f"float[4] g, {scale}, {zero}, int64[1] ax = {{-1}}, float eps = {{0.00001}}"
    return f"agraph ({inputs}) => ({y}) <{constants}> {{ s = Add (x, k) {norm} {quantize} }}"


LAST = "y = QuantizeLinear <axis = -1> (n, w, z)"
SAME = "int8[4] z = {3, 3, 3, 3}"
DIFFERENT = "int8[4] z = {3, 3, 2, 3}"
STAYS = [
    Stays("used elsewhere", graph(quantize="y = QuantizeLinear (n, w, z) m = Neg (n)", y="int8[a,b,c] y, float[d,e,f] m"), "an interior value is used elsewhere", opset=23),
    Stays("other shapes", graph(inputs="float[B,S,4] x, float[C,S,4] k"), "the shapes are not known to be equal", opset=23),
    Stays("two axes", graph(norm="n = RMSNormalization <axis = 1> (s, g)", inputs="float[B,3,4] x, float[B,3,4] k").replace("float[4] g", "float[3,4] g"), "the normalization covers more than the last axis", opset=23),
    Stays("the normalization is a graph output", graph(y="int8[a,b,c] y, float[d,e,f] n"), "an interior value is a graph output", opset=23),
    Stays("double", graph().replace("float[", "double[").replace("n, w, z", "c, w, z").replace("y = Q", "c = Cast <to = 1> (n) y = Q"), None, opset=23),
    Stays("no sum", graph(norm="t = Neg (s) n = RMSNormalization (t, g)"), None, opset=23),
    Stays("no quantization", graph(quantize="y = Cast <to = 3> (n)"), None, opset=23),
    Stays("another target", graph(), "target onnx has no SkipSimplifiedLayerNormalization", opset=23, target="onnx"),
]  # fmt: skip

LEFT = ["SkipSimplifiedLayerNormalization", "QuantizeLinear"]
FIRES = [
    Fires("any scale", graph(), LEFT, opset=23, edge_values=False),
    Fires("a power of two", graph("float w = {0.125}"), LEFT, opset=23, edge_values=False),
    Fires("powers of two", graph("float[4] w = {0.25, 0.5, 2, 1}", SAME, LAST), LEFT, opset=23, edge_values=False),
    Fires("powers of two, different zero points", graph("float[4] w = {0.25, 0.5, 2, 1}", DIFFERENT, LAST), LEFT, opset=23, edge_values=False),
    Fires("any scales", graph("float[4] w = {0.3, 0.5, 2, 1}", DIFFERENT, LAST), LEFT, opset=23, edge_values=False),
    Fires("uint8 without zero point", graph(quantize="y = QuantizeLinear (n, w)", y="uint8[a,b,c] y"), LEFT, opset=23, edge_values=False),
    Fires("the sum is used elsewhere", graph(quantize="y = QuantizeLinear (n, w, z) m = Neg (s)", y="int8[a,b,c] y, float[d,e,f] m"), [*LEFT, "Neg"], opset=23, edge_values=False),
    Fires("written out", graph(norm=WRITTEN), LEFT, edge_values=False),
    Fires("opset 13", graph(norm=WRITTEN.replace("ReduceMean (p, ax)", "ReduceMean <axes = [-1]> (p)")), LEFT, opset=13, edge_values=False),
]  # fmt: skip

test_stays, test_fires = tables("AddRmsNormQuantFusionPass", STAYS, FIRES, in_functions="never")


def test_a_power_of_two_goes_into_the_scale() -> None:
    model = parse(graph("float w = {0.125}"), 23)
    result, _ = optimize(model, [pass_of("AddRmsNormQuantFusionPass")])
    constants = {t.name: numpy_helper.to_array(t) for t in result.graph.initializer}
    norm, quantize = result.graph.node
    old = next(numpy_helper.to_array(t) for t in model.graph.initializer if t.name == "g")
    assert constants[quantize.input[1]] == 1
    np.testing.assert_array_equal(constants[norm.input[2]], old * 8)
