from harness import Fires, Stays, tables

GRAPH = (
    "agraph (float[N,4,5,6] x) => (uint8[?,?,?,?] y, float r{}) <float low = {{-0.1}}, float high = {{0.9}}> {{ "
    "v = Transpose <perm = [0, 3, 1, 2]> (x) {} y, r, z = DynamicQuantizeLinear ({}) {} }}"
)


def graph(between: str = "", quantized: str = "v", more: str = "", out: str = "") -> str:
    return GRAPH.format(out, between, quantized, more)


ELSEWHERE = graph(more="f = Neg (v)", out=", float[?,?,?,?] f")
STAYS = [
    Stays("floats are read", ELSEWHERE, "other operators read the transposed values"),
    Stays("floats are an output", graph().replace("v = ", "f = ").replace("(v)", "(f)").replace("float r", "float r, float[?,?,?,?] f"), "other operators read the transposed values"),
    Stays("another activation", graph("a = Sigmoid (v)", "a"), None),
    Stays("no Transpose", graph("a = Relu (x)", "a"), None),
    Stays("a ConvInteger reads the integers", graph(more="i = ConvInteger (y, W)", out=", int32[?,?,?,?] i").replace("<float low", "<uint8[2,6,1,1] W, float low"), "a ConvInteger reads the integers, and another pass converts them to int8"),
    Stays("another target", graph(), "for target onnx no gain is known", target="onnx"),
]  # fmt: skip
LEFT = ["DynamicQuantizeLinear", "Transpose"]
FIRES = [
    Fires("a Transpose", graph(), LEFT),
    Fires("Relu", graph("a = Relu (v)", "a"), ["Relu", *LEFT]),
    Fires("an activation that others read", graph("a = Relu (v)", "a", "f = Neg (a)", ", float[?,?,?,?] f"), ["Relu", "Transpose", "DynamicQuantizeLinear", "Neg"]),
    Fires("Clip and Relu", graph("b = Clip (v, low, high) a = Relu (b)", "a"), ["Clip", "Relu", *LEFT]),
    Fires("floats are read, but the integers are transposed again", ELSEWHERE.replace("y, r, z", "q, r, z").replace("f = Neg (v)", "f = Neg (v) y = Transpose <perm = [0, 2, 3, 1]> (q)"), ["Transpose", "DynamicQuantizeLinear", "Transpose", "Neg", "Transpose"]),
]  # fmt: skip

test_stays, test_fires = tables(
    "QuantizeBeforeTransposePass", STAYS, FIRES, in_functions="less often"
)
