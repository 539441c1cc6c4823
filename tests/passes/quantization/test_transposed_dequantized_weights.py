from harness import Fires, Stays, tables

GRAPH = (
    "agraph (float[N,32] x) => (float[?,?] y{}) <{}> {{ d = DequantizeLinear {} w = Transpose {} (d) "
    "y = MatMul (x, w) {} }}"
)


def graph(
    constants: str = "int8[20,32] W, float[20] s, int8[20] z",
    dequantize: str = "<axis = 0> (W, s, z)",
    order: str = "<perm = [1, 0]>",
    more: str = "",
    out: str = "",
) -> str:
    return GRAPH.format(out, constants, dequantize, order, more)


THREE_AXES = (
    "agraph (float[N,4,5,12] x) => (float[?,?,?,?] y) <int8[4,20,12] W, float[20] s> {{ "
    "d = DequantizeLinear <axis = 1> (W, s) w = Transpose {} (d) y = MatMul (x, w) }}"
)
STAYS = [
    Stays("weights that are used elsewhere", graph("int8[40,32] W, float[40] s, int8[40] z", more="v = Abs (W)", out=", int8[?,?] v"), "large weights are used elsewhere: the model would grow"),
    Stays("dequantized weights are used elsewhere", graph(more="v = Abs (d)", out=", float[?,?] v"), "an interior value is used elsewhere"),
    Stays("blocks", graph("int8[20,32] W, float[20,4] s, int8[20,4] z", "<axis = 1, block_size = 8> (W, s, z)"), "onnxruntime would round the other operand to integers (MatMulNBits)", opset=21),
    Stays("4 bits", graph("int4[20,32] W, float[20] s, int4[20] z"), "onnxruntime would round the other operand to integers (MatMulNBits)", opset=21),
    Stays("a scale from outside", graph("int8[20,32] W, int8[20] z").replace("agraph (", "agraph (float[20] s, "), None),
    Stays("weights from outside", graph("float[20] s, int8[20] z").replace("agraph (", "agraph (int8[20,32] W, "), None),
]  # fmt: skip
LEFT = ["DequantizeLinear", "MatMul"]
FIRES = [
    Fires("a scale for each row", graph(), LEFT),
    Fires("the default order", graph(order=""), LEFT),
    Fires("one scale", graph("int8[20,32] W, float s", "(W, s)"), LEFT),
    Fires("a negative axis", graph(dequantize="<axis = -2> (W, s, z)"), LEFT),
    Fires("three axes", THREE_AXES.format("<perm = [0, 2, 1]>"), LEFT),
    Fires("the order of three axes", THREE_AXES.format("").replace("[N,4,5,12]", "[2,4,20]").replace("float[?,?,?,?]", "float[?,?,?]").replace("int8[4,20,12]", "int8[7,20,2]"), LEFT),
]  # fmt: skip

test_stays, test_fires = tables("TransposedDequantizedWeightsPass", STAYS, FIRES)
