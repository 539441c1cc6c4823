import numpy as np
import onnx
import pytest
from harness import Fires, Stays, effected, optimize, parse, pass_of, session, tables
from onnx import TensorProto, helper

CONV = (
    "agraph (float[N,32,4,5] x) => (float[?,?,?,?] y{}) <{}> {{ w = DequantizeLinear <axis = 0> {} "
    "y = Conv (x, w) {} }}"
)
PRODUCT = (
    "agraph (float[N,32] x) => (float[?,?] y) <{}> {{ w = DequantizeLinear <{}> {} y = {} (x, w) }}"
)
MATRIX = "int8[36,32] W, float[36] s"
GROUP = (
    "agraph (uint8[N,32] q) => (float[?,?] y) <int8[32,36] W, float s = {0.05}, uint8 z = {120}, float t = {0.01}> "
    "{ x = DequantizeLinear (q, s, z) w = DequantizeLinear (W, t) y = MatMul (x, w) }"
)


def conv(
    constants: str = "int8[36,32,1,1] W, float[36] s",
    inputs: str = "(W, s)",
    more: str = "",
    out: str = "",
) -> str:
    return CONV.format(out, constants, inputs, more)


def product(
    constants: str = MATRIX,
    options: str = "axis = 0",
    inputs: str = "(W, s)",
    operator: str = "Gemm <transB = 1>",
) -> str:
    return PRODUCT.format(constants, options, inputs, operator)


LOADED = (
    "agraph (uint8[N,32,4,5] q) => (float[?,?,?,?] y, uint8[?,?,?,?] r) <int8[32,36,1,1] W, float[36] s, float t = {{0.05}}, uint8 z = {{120}}> "
    "{{ x = DequantizeLinear (q, t, z) w = DequantizeLinear <axis = 1> (W, s) y = ConvTranspose (x, w) {} }}"
)
STAYS = [
    Stays("a product that is quantized", LOADED.format("r = QuantizeLinear (y, t, z)"), "onnxruntime would quantize the float weights of ConvTranspose with other scales"),
    Stays("a product that is activated and quantized", LOADED.format("a = Relu (y) r = QuantizeLinear (a, t, z)"), "onnxruntime would quantize the float weights of ConvTranspose with other scales"),
    Stays("a group in integers", GROUP, "onnxruntime computes MatMul in integers"),
    Stays("a packed product", product("int8[32,36] W, float[36] s", "axis = 1", operator="MatMul"), "onnxruntime multiplies by the packed weights"),
    Stays("a bias that is added", "agraph (float[N,36] x) => (float[?,?] y) <int32[36] B, float s> { b = DequantizeLinear (B, s) y = Add (x, b) }", "onnxruntime adds the integers to a product"),
    Stays("a packed Gemm", product("int8[32,36] W, float[36] s", "axis = 1", operator="Gemm"), "onnxruntime multiplies by the packed weights"),
    Stays("quantized again", conv(more="r = QuantizeLinear <axis = 0> (w, s, z)", constants="int8[36,32,1,1] W, float[36] s, int8[36] z", out=", int8[?,?,?,?] r"), "the weights are quantized again"),
    Stays("an output", conv(more="v = Identity (w)", out=", float[?,?,?,?] w"), "an output of the model holds the weights"),
    Stays("16 bits", conv("int16[36,32,1,1] W, float[36] s"), "onnxruntime does not unpack weights of this type when it loads a model", opset=21),
    Stays("a last block that is shorter", product("int8[36,32] W, float[36,2] s", "axis = 1, block_size = 20"), "the block size does not divide the length of its axis", opset=21),
    Stays("float16", product("int8[36,32] W, float16[36] s").replace("float[", "float16["), "the scale is not float32", opset=21),
    Stays("a scale from outside", conv("int8[36,32,1,1] W").replace("agraph (", "agraph (float[36] s, "), "a scale or zero point is not constant"),
    Stays("weights from outside", conv("float[36] s").replace("agraph (", "agraph (int8[36,32,1,1] W, "), None),
    Stays("another target", conv(), "for target onnx no gain is known", target="onnx"),
]  # fmt: skip
FIRES = [
    Fires("a convolution", conv(), ["Cast", "Mul", "Conv"]),
    Fires("zero points", conv("int8[36,32,1,1] W, float[36] s, int8[36] z", "(W, s, z)"), ["Cast", "Sub", "Mul", "Conv"]),
    Fires("zero points that are 0", conv("int8[36,32,1,1] W, float s, int8 z = {0}", "(W, s, z)"), ["Cast", "Mul", "Conv"]),
    Fires("one scale", conv("uint8[36,32,1,1] W, float[1] s, uint8[1] z = {7}", "(W, s, z)"), ["Cast", "Sub", "Mul", "Conv"]),
    Fires("Gemm", product(), ["Cast", "Mul", "Gemm"]),
    Fires("blocks of a vector", "agraph (float[N,64] x) => (float[?,?] y) <int8[64] W, float[4] s> { w = DequantizeLinear <axis = 0, block_size = 16> (W, s) y = Sub (x, w) }", ["Sub"], opset=21),
    Fires("blocks of a long vector", "agraph (float[N,2048] x) => (float[?,?] y) <int8[2048] W, float[4] s> { w = DequantizeLinear <axis = 0, block_size = 512> (W, s) y = Sub (x, w) }", ["Cast", "Reshape", "Mul", "Reshape", "Sub"], opset=21),
    Fires("a negative axis", product(options="axis = -2"), ["Cast", "Mul", "Gemm"]),
    Fires("the left operand", "agraph (float[36,N] x) => (float[?,?] y) <int8[32,36] W, float s> { w = DequantizeLinear (W, s) y = MatMul (w, x) }", ["Cast", "Mul", "MatMul"]),
    Fires("transposed", "agraph (float[N,36] x) => (float[?,?] y) <int8[32,36] W, float s> { w = DequantizeLinear (W, s) v = Transpose (w) y = MatMul (x, v) }", ["Cast", "Mul", "Transpose", "MatMul"]),
    Fires("a Gemm that scales", product("int8[32,36] W, float[36] s", "axis = 1", operator="Gemm <alpha = 0.5>"), ["Cast", "Mul", "Gemm"]),
    Fires("two products", product("int8[32,36] W, float[36] s", "axis = 1", operator="MatMul").replace("y = ", "v = MatMul (x, w) u = Neg (v) t = ").replace("t = MatMul (x, w)", "t = MatMul (n, w) y = Sub (t, u)").replace("{ w", "{ n = Abs (x) w"), ["Abs", "Cast", "Mul", "MatMul", "Neg", "MatMul", "Sub"]),
    Fires("blocks", product("uint4[36,32] W, float[36,4] s, uint4[36,4] z", "axis = 1, block_size = 8", "(W, s, z)"), ["Cast", "Reshape", "Sub", "Mul", "Reshape", "Gemm"], opset=21),
    Fires("blocks of the first axis", product("int4[36,32] W, float[6,32] s", "axis = 0, block_size = 6"), ["Cast", "Reshape", "Mul", "Reshape", "Gemm"], opset=21),
    Fires("a bias", "agraph (float[N,32,4,4] x) => (float[?,?,?,?] y) <float[2,32,1,1] W, int32[2] B = {100000, -7}, float s = {0.01}, int32 z = {0}> { b = DequantizeLinear (B, s, z) y = Conv (x, W, b) }", ["Conv"]),
    Fires("few weights", "agraph (float[N,4,4,4] x) => (float[?,?,?,?] y) <int8[4,1,2,2] W, float[4] s, int8[4] z> { w = DequantizeLinear <axis = 0> (W, s, z) y = Conv <group = 4> (x, w) }", ["Conv"]),
]  # fmt: skip

test_stays, test_fires = tables("DequantizedWeightsPass", STAYS, FIRES, in_functions="never")


def packed(elem_type: int, dims: list[int], raw: bytes, is_left: bool = True) -> onnx.ModelProto:
    weights = helper.make_tensor("W", elem_type, dims, raw, raw=True)
    scale = helper.make_tensor("s", TensorProto.FLOAT, dims[1:], np.linspace(0.001, 1, dims[1]))
    nodes = [
        helper.make_node("DequantizeLinear", ["W", "s"], ["w"], axis=1),
        helper.make_node("MatMul", ["w", "x"] if is_left else ["x", "w"], ["y"]),
    ]
    x = helper.make_tensor_value_info(
        "x", TensorProto.FLOAT, [dims[1], "N"] if is_left else ["N", dims[0]]
    )
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], [weights, scale])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("elem_type", ["FLOAT8E4M3FN", "FLOAT8E5M2", "INT8", "UINT8", "INT4"])
def test_every_number_is_the_same(elem_type: str) -> None:
    type_ = getattr(TensorProto, elem_type)
    raw = bytes(range(256)) * 8
    model = packed(type_, [32, 128 if type_ == TensorProto.INT4 else 64], raw)
    result, counts = optimize(model, [pass_of("DequantizedWeightsPass")])
    assert effected(counts) == 1
    x = np.eye(model.graph.initializer[0].dims[1], dtype=np.float32)
    runs = [session(each).run(None, {"x": x})[0] for each in (model, result)]
    np.testing.assert_array_equal(*runs)


def test_float8_weights_of_a_product_are_not_multiplied_packed() -> None:
    model = packed(
        TensorProto.FLOAT8E4M3FN, [32, 64], bytes(range(100)) * 20 + bytes(48), is_left=False
    )
    _, counts = optimize(model, [pass_of("DequantizedWeightsPass")])
    assert effected(counts) == 1


def test_the_file_stays_small() -> None:
    model = parse(conv("int8[360,320,1,1] W, float[360] s").replace("[N,32,4,5]", "[N,320,4,5]"))
    result, _ = optimize(model, [pass_of("DequantizedWeightsPass")])
    assert result.ByteSize() < model.ByteSize() + 1000


def test_blocks_that_do_not_divide_the_axis_stay() -> None:
    model = parse(
        product("int8[36,32] W, float[36,7] s", "axis = 1, block_size = 5"),
        opset=21,
    )
    _, counts = optimize(model, [pass_of("DequantizedWeightsPass")])
    assert [reason for count in counts for reason in count.refused] == [
        "the block size does not divide the length of its axis"
    ]
