from harness import Fires, Stays, tables

WRITTEN = "p = Mul (x, x) v = ReduceMean (p, ax) e = Add (v, eps) r = Sqrt (e) q = Div (x, r) n = Mul (q, g)"


def graph(
    scale: str = "float w = {0.25}",
    zero: str = "int8 z = {3}",
    quantize: str = "y = QuantizeLinear (n, w, z)",
    norm: str = "n = RMSNormalization (x, g)",
    g: str = "float[4] g",
    x: str = "float[B,S,4] x",
    y: str = "int8[a,b,c] y",
) -> str:
    constants = f"{g}, {scale}, {zero}, int64[1] ax = {{-1}}, float eps = {{0.00001}}"
    return f"agraph ({x}) => ({y}) <{constants}> {{ {norm} {quantize} }}"


POWER = "the scale of the quantization is not a power of two"
LAST = "y = QuantizeLinear <axis = -1> (n, w, z)"
VECTOR = {"scale": "float[4] w = {0.25, 0.5, 2, 1}", "quantize": LAST}
SAME = "int8[4] z = {3, 3, 3, 3}"
DIFFERENT = "int8[4] z = {3, 3, 2, 3}"
STAYS = [
    Stays("no power of two", graph("float w = {0.3}"), POWER, opset=23),
    Stays("one of them no power of two", graph("float[4] w = {0.25, 0.5, 3, 1}", SAME, LAST), POWER, opset=23),
    Stays("a power of two that is too small", graph("float w = {8.271806125530277e-25}"), POWER, opset=23),
    Stays("1", graph("float w = {1}"), "the scale of the quantization is already 1", opset=23),
    Stays("different zero points", graph(zero=DIFFERENT, **VECTOR), "the zero points are not all the same", opset=23),
    Stays("along another axis", graph("float[4] w = {0.25, 0.5, 2, 1}", SAME, "y = QuantizeLinear <axis = 1> (n, w, z)", x="float[B,4,4] x"), "the scale of the quantization is not along the last axis", opset=23),
    Stays("blocks", graph("float[2,3,2] w", "int8[2,3,2] z", "y = QuantizeLinear <axis = 2, block_size = 2> (n, w, z)", x="float[2,3,4] x"), "blocks are quantized", opset=23),
    Stays("used elsewhere", graph(quantize="y = QuantizeLinear (n, w, z) m = Neg (n)", y="int8[a,b,c] y, float[d,e,f] m"), "an interior value is used elsewhere", opset=23),
    Stays("scale of the norm from outside", graph(x="float[B,S,4] x, float[4] h", norm="n = RMSNormalization (x, h)"), "the scale of the normalization is not constant", opset=23),
    Stays("scale of the quantization from outside", graph(x="float[B,S,4] x, float u", quantize="y = QuantizeLinear (n, u, z)"), "the scale of the quantization is not constant", opset=23),
    Stays("float16", graph("float16 w", g="float16[4] g", x="float16[B,S,4] x"), "the elements are not float32", opset=23),
    Stays("a scale that would be rounded", graph(g="float[4] g = {1, 1, 1, 1e-45}", scale="float w = {4}"), "the scale of the normalization would be rounded", opset=23),
    Stays("another normalization", graph(norm="n = LayerNormalization (x, g)"), None, opset=23),
    Stays("another target", graph(), "for target onnx no gain is known", opset=23, target="onnx"),
]  # fmt: skip

LEFT = ["RMSNormalization", "QuantizeLinear"]
OPERATORS = ["Mul", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "QuantizeLinear"]
FIRES = [
    Fires("one scale", graph(), LEFT, opset=23, edge_values=False),
    Fires("a scale of rank 1", graph("float[1] w = {4}", "int8[1] z = {-2}"), LEFT, opset=23, edge_values=False),
    Fires("uint8 without zero point", graph(quantize="y = QuantizeLinear (n, w)", y="uint8[a,b,c] y"), LEFT, opset=23, edge_values=False),
    Fires("the type as attribute", graph(quantize="y = QuantizeLinear <output_dtype = 3> (n, w)"), LEFT, opset=23, edge_values=False),
    Fires("along the last axis", graph(zero=SAME, **VECTOR), LEFT, opset=23, edge_values=False),
    Fires("along the last axis, from the front", graph("float[4] w = {0.25, 0.5, 2, 1}", SAME, "y = QuantizeLinear <axis = 2> (n, w, z)"), LEFT, opset=23, edge_values=False),
    Fires("two axes", graph(zero=SAME, norm="n = RMSNormalization <axis = 1, epsilon = 0.1> (x, g)", g="float[3,4] g", x="float[B,3,4] x", **VECTOR), LEFT, opset=23, edge_values=False),
    Fires("written out", graph(norm=WRITTEN), OPERATORS, edge_values=False),
    Fires("written out, scale first", graph(norm=WRITTEN.replace("(q, g)", "(g, q)"), zero=SAME, **VECTOR), OPERATORS, edge_values=False),
    Fires("opset 13", graph(norm=WRITTEN.replace("ReduceMean (p, ax)", "ReduceMean <axes = [-1]> (p)")), OPERATORS, opset=13, edge_values=False),
    Fires("opset 10", graph(norm=WRITTEN.replace("ReduceMean (p, ax)", "ReduceMean <axes = [2]> (p)")), OPERATORS, opset=10, edge_values=False),
]  # fmt: skip

test_stays, test_fires = tables("RmsNormQuantFusionPass", STAYS, FIRES, in_functions="never")
