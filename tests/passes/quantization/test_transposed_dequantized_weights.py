from harness import Fires, Stays, tables

GRAPH = (
    "agraph (uint8[N,32] q) => (float[?,?] y{}) <float f = {{0.02}}, uint8 b = {{128}}, {}> {{ "
    "x = DequantizeLinear (q, f, b) d = DequantizeLinear {} w = Transpose {} (d) "
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


def of_floats(*parts: str) -> str:
    """The same graph with an operand that is not dequantized."""
    return (
        graph(*parts)
        .replace("uint8[N,32] q", "float[N,32] x")
        .replace("x = DequantizeLinear (q, f, b)", "")
    )


THREE_AXES = (
    "agraph (float[N,4,5,12] x) => (float[?,?,?,?] y) <int8[4,20,12] W, float[20] s> {{ "
    "d = DequantizeLinear <axis = 1> (W, s) w = Transpose {} (d) y = MatMul (x, w) }}"
)
ROUNDS = "onnxruntime would round the other operand to integers (MatMulNBits)"
STAYS = [
    Stays("an operand of floats", of_floats(), ROUNDS),
    Stays("an operand of floats, one scale", of_floats("int8[20,32] W, float s", "(W, s)"), ROUNDS),
    Stays("a Gemm of floats", of_floats().replace("MatMul", "Gemm"), ROUNDS, opset=21),
    Stays("an operand in 16 bits", graph(order="").replace("uint8[N,32] q", "uint16[N,32] q").replace("uint8 b", "uint16 b"), ROUNDS, opset=21),
    Stays("weights that are used elsewhere", graph("int8[40,32] W, float[40] s, int8[40] z", more="v = Abs (W)", out=", int8[?,?] v"), "large weights are used elsewhere: the model would grow"),
    Stays("dequantized weights are used elsewhere", graph(more="v = Abs (d)", out=", float[?,?] v"), "an interior value is used elsewhere"),
    Stays("blocks", graph("int8[20,32] W, float[20,4] s, int8[20,4] z", "<axis = 1, block_size = 8> (W, s, z)"), ROUNDS, opset=21),
    Stays("4 bits", graph("int4[20,32] W, float[20] s, int4[20] z"), ROUNDS, opset=21),
    Stays("a scale from outside", graph("int8[20,32] W, int8[20] z").replace("agraph (", "agraph (float[20] s, "), None),
    Stays("weights from outside", graph("float[20] s, int8[20] z").replace("agraph (", "agraph (int8[20,32] W, "), None),
]  # fmt: skip
FLOATS_LEFT = ["DequantizeLinear", "MatMul"]
LEFT = ["DequantizeLinear", *FLOATS_LEFT]
FIRES = [
    Fires("a scale for each row", graph(), LEFT),
    Fires("the default order", graph(order=""), LEFT),
    Fires("one scale", graph("int8[20,32] W, float s", "(W, s)"), LEFT),
    Fires("a negative axis", graph(dequantize="<axis = -2> (W, s, z)"), LEFT),
    Fires("as onnxruntime itself transposes them", of_floats(), FLOATS_LEFT, opset=21),
    Fires("three axes", THREE_AXES.format("<perm = [0, 2, 1]>"), FLOATS_LEFT),
    Fires("the order of three axes", THREE_AXES.format("").replace("[N,4,5,12]", "[2,4,20]").replace("float[?,?,?,?]", "float[?,?,?]").replace("int8[4,20,12]", "int8[7,20,2]"), FLOATS_LEFT),
]  # fmt: skip

test_stays, test_fires = tables(
    "TransposedDequantizedWeightsPass", STAYS, FIRES, in_functions="less often"
)
