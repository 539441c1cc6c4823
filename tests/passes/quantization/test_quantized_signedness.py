import numpy as np
import onnx
import pytest
from harness import Fires, Stays, effected, optimize, parse, pass_of, session, tables
from onnx import TensorProto, numpy_helper

from fusionc.passes.quantization import _signed_regions

WEIGHTS_OF_PRODUCT = "int8[4,3] W = {1, -2, 3, 64, -64, 5, -6, 7, 8, 9, -10, 11}"
CONSTANTS = (
    "float s = {0.02}, int8 z = {3}, float v = {0.01}, int8 e = {0}, float t = {0.07}, int8 o = {-5}, "
    "int8[4,3] W = {1, -2, 3, 64, -64, 5, -6, 7, 8, 9, -10, 11}"
)
QDQ = (
    "agraph (float[N,4] x) => (float[?,?] y) <{}> {{ q = QuantizeLinear (x, s, z) {} d = DequantizeLinear (q, s, z) "
    "w = DequantizeLinear (W, v, e) p = MatMul (d, w) r = QuantizeLinear (p, t, o) y = DequantizeLinear (r, t, o) {} }}"
)
OPERATORS = [
    "QuantizeLinear",
    "DequantizeLinear",
    "DequantizeLinear",
    "MatMul",
    "QuantizeLinear",
    "DequantizeLinear",
]
UNSIGNED = CONSTANTS.replace("int8 z = {3}", "uint8 z = {131}").replace(
    "int8 o = {-5}", "uint8 o = {7}"
)
WEIGHTS = "uint8[4,3] W = {129, 126, 131, 192, 64, 133, 122, 135, 136, 137, 118, 139}"
BOTH_UNSIGNED = (
    UNSIGNED.partition("int8[4,3]")[0].replace("int8 e = {0}", "uint8 e = {128}") + WEIGHTS
)
INTEGERS = "agraph (float[N,4] x) => (int32[?,?] y) <{}> {{ q, s, z = DynamicQuantizeLinear (x) y = MatMulInteger (q, W{}) }}"
CONV = (
    "agraph (float[N,2,5,5] x) => (float[?,?,?,?] y) <float s = {{0.02}}, {zero}, float v = {{0.01}}, {weight_zero}, "
    "float t = {{0.03}}, {weights}> {{ q = QuantizeLinear (x, s, z) c = {conv} y = {result} }}"
)
SIGNED_WEIGHTS = "int8[1,2,1,1] W = {5, -64}"
UNSIGNED_WEIGHTS = "uint8[1,2,1,1] W = {5, 192}"
QLINEAR = ("QLinearConv (q, s, z, W, v, e, t, z)", "DequantizeLinear (c, t, z)")
CONVINTEGER = ("ConvInteger (q, W, z, e)", "Cast <to = 1> (c)")


def conv(zero: str, weights: str, weight_zero: str, ops: tuple[str, str]) -> str:
    return CONV.format(
        zero=zero, weights=weights, weight_zero=weight_zero, conv=ops[0], result=ops[1]
    )


WINDOW = ",".join(map(str, range(-64, 61, 5)))
SUM_CONV = "c = QLinearConv <pads = [2, 2, 2, 2]> (q, s, z, W, v, e, t, o)"
SUM = "r = com.microsoft.QLinearAdd (c, t, o, q, s, z, t, o)"
SUM_GRAPH = (
    "agraph (float[N,1,4,4] x) => (float[?,?,?,?] y) <float s = {{0.02}}, int8 z = {{3}}, float v = {{0.01}}, "
    "int8 e = {{0}}, float t = {{0.03}}, int8 o = {{-5}}, int8[1,1,5,5] W = {{WEIGHTS}}> "
    "{{ q = QuantizeLinear (x, s, z) {} {} y = DequantizeLinear (r, t, o) }}"
)
# These keep their integers when their zero points move.
EXACT = {
    "QLinearConcat": "r = com.microsoft.QLinearConcat <axis = 1> (t, o, c, t, o, q, s, z)",
    "QLinearSigmoid": "r = com.microsoft.QLinearSigmoid (c, t, o, t, o)",
    "QLinearLeakyRelu": "r = com.microsoft.QLinearLeakyRelu <alpha = 0.1> (c, t, o, t, o)",
    "QLinearSoftmax": "r = com.microsoft.QLinearSoftmax <axis = -1, opset = 13> (c, t, o, t, o)",
    "QLinearGlobalAveragePool": "r = com.microsoft.QLinearGlobalAveragePool (c, t, o, t, o)",
}

AVERAGE = "r = com.microsoft.QLinearAveragePool <kernel_shape = [2, 2]> (c, t, o, t, o)"


def with_sum(last: str = SUM) -> str:
    return SUM_GRAPH.format(SUM_CONV, last).replace("WEIGHTS", WINDOW)


SMALL_IN = (
    QDQ.format(CONSTANTS, "", "")
    .replace("float[N,4] x", "int8[N,4] q")
    .replace("q = QuantizeLinear (x, s, z)", "")
)
INT8_IN = SMALL_IN.replace(
    WEIGHTS_OF_PRODUCT, f"int8[4,8] W = {{{','.join(map(str, range(-64, 64, 4)))}}}"
)
INT8_OUT = QDQ.format(CONSTANTS, "", "").replace("(float[?,?] y)", "(float[?,?] y, int8[?,?] q)")
SUMMED = [
    "QuantizeLinear",
    "QLinearConv",
    "Cast",
    "QuantizeLinear",
    "Cast",
    "QuantizeLinear",
    "QLinearAdd",
    "DequantizeLinear",
]
BEHIND = [
    "QuantizeLinear",
    "QLinearConv",
    "Cast",
    "QuantizeLinear",
    "QLinearAdd",
    "Cast",
    "QuantizeLinear",
    "QLinearConv",
    "DequantizeLinear",
]
LSTM = (
    "agraph (float[3,N,4] x) => (float[?,?,?,?] y) <uint8[1,4,8] W, uint8[1,2,8] R, float[1] s = {0.01}, "
    "uint8[1] z = {3}, uint8[1] e = {128}> "
    "{ y = com.microsoft.DynamicQuantizeLSTM <hidden_size = 2> (x, W, R, , , , , , s, z, s, e) }"
)
PER_CHANNEL = QDQ.format(
    CONSTANTS.replace("float s = {0.02}, int8 z = {3}", "float[4] s = {0.02, 0.1, 1, 0.3}, int8[4] z = {3, 1, -7, 0}"), "", ""
)  # fmt: skip
POOLED = (
    "agraph (float[N,1,4,4] x) => (float[?,?,?,?] y) <float[1] s = {0.02}, int8[1] z = {3}, float v = {0.01}, "
    "int8 e = {0}, int8[1,1,1,1] W = {-64}> { q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) "
    "w = DequantizeLinear (W, v, e) c = Conv (d, w) r = QuantizeLinear (c, s, z) f = DequantizeLinear (r, s, z) "
    "a = AveragePool <kernel_shape = [2, 2]> (f) o = QuantizeLinear (a, s, z) y = DequantizeLinear (o, s, z) }"
)
AGAIN = (
    "agraph (float[N,4] x) => (float[?,?] y) <{}> {{ q = QuantizeLinear (x, s, z) f = DequantizeLinear (q, s, z) {} "
    "k = QuantizeLinear ({}, s, z) b = Concat <axis = 0> (q, k) d = DequantizeLinear (b, s, z) "
    "w = DequantizeLinear (W, v, e) y = MatMul (d, w) }}"
)
STAYS = [
    Stays("an output of the model", INT8_OUT, "an output of the model holds the integers"),
    Stays("an output on the other side of the product", INT8_OUT.replace(" q)", " r)", 1), "an output of the model holds the integers"),
    Stays("an operator without a zero point", QDQ.format(CONSTANTS, "k = Abs (q) h = Cast <to = 1> (k)", "").replace("float[?,?] y", "float[?,?] y, float[?,?] h", 1), "Abs reads the integers"),
    Stays("a zero point from outside", QDQ.format(CONSTANTS.replace("int8 z = {3}, ", ""), "", "").replace("float[N,4] x", "float[N,4] x, int8 z"), "a zero point is not constant"),
    Stays("no product", "agraph (float[N] x) => (float[?] y) <float s = {0.1}, int8 z = {3}> { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }", None),
    Stays("a sum alone", with_sum("r = com.microsoft.QLinearAdd (q, s, z, q, s, z, t, o)").replace(SUM_CONV, ""), None),
    Stays("fast as it is", QDQ.format(UNSIGNED, "", ""), None),
    Stays("uint8 weights of ConvInteger", conv("uint8 z = {131}", UNSIGNED_WEIGHTS, "uint8 e = {128}", CONVINTEGER).replace("q = QuantizeLinear (x, s, z)", "q, u, k = DynamicQuantizeLinear (x)"), "DynamicQuantizeLinear makes the integers"),
    Stays("more than one scale of data", PER_CHANNEL, "onnxruntime's integer operators do not take these scales"),
    Stays("one scale for an average, which is not a scalar", POOLED, "onnxruntime's integer operators do not take these scales"),
    Stays("weights of which some must stay", LSTM.replace("x) =>", "x, uint8[1] e) =>").replace(", uint8[1] e = {128}", ""), "a zero point is not constant"),
    Stays("an input of the model, and a small product", SMALL_IN, "converting the integers at the border would take longer than the products gain"),
    Stays("a sum after a depthwise convolution", with_sum().replace("[1,1,5,5] W", "[1,1,3,3] W").replace("2, 2, 2, 2", "1, 1, 1, 1").replace(WINDOW, WINDOW[: WINDOW.index(",-19")]), "converting the integers at the border would take longer than the products gain"),
    Stays("left and entered again", AGAIN.format(CONSTANTS, "a = Abs (f)", "a"), "a path through other operators leads back to the integers"),
    Stays("another target", QDQ.format(CONSTANTS, "", ""), "for target onnx no gain is known", target="onnx"),
]  # fmt: skip
FIRES = [
    Fires("quantized again", AGAIN.format(CONSTANTS, "", "f"), ["QuantizeLinear", "DequantizeLinear", "QuantizeLinear", "Concat", "DequantizeLinear", "DequantizeLinear", "MatMul"]),
    Fires("weights of one type", LSTM, ["DynamicQuantizeLSTM"], zero_sizes=False, needs_vnni=True),
    Fires("int8 everywhere", QDQ.format(CONSTANTS, "", ""), OPERATORS, effected=2),
    Fires("no zero point of what is read", QDQ.format(CONSTANTS.replace("{3}", "{0}"), "", "").replace("d = DequantizeLinear (q, s, z)", "d = DequantizeLinear (q, s)"), OPERATORS, effected=2),
    Fires("moved between", QDQ.format(CONSTANTS, "a = Identity (q) b = Concat <axis = 0> (a, q)", "").replace("(q, s, z) w", "(b, s, z) w"), ["QuantizeLinear", "Identity", "Concat", *OPERATORS[1:]], effected=2),
    Fires("a constant beside", QDQ.format(CONSTANTS + ", int8[2,4] C = {1, 2, 3, 4, -128, 127, 0, -1}", "b = Concat <axis = 0> (C, q)", "").replace("(q, s, z) w", "(b, s, z) w"), ["QuantizeLinear", "Concat", *OPERATORS[1:]], effected=2),
    Fires("an input of the model", INT8_IN, ["Cast", "QuantizeLinear", *OPERATORS[1:]], effected=2),
    Fires("an input that others read", INT8_IN.replace("y) <", "y, int8[?,?] h) <").replace("d = Deq", "h = Abs (q) d = Deq"), ["Abs", "Cast", "QuantizeLinear", *OPERATORS[1:]], effected=2),
    Fires("a sum keeps its type", with_sum(), SUMMED),
    Fires("a product of two", with_sum(SUM.replace("QLinearAdd", "QLinearMul")), [name.replace("Add", "Mul") for name in SUMMED]),
    Fires("an average", with_sum(AVERAGE), ["QuantizeLinear", "QLinearConv", "Cast", "QuantizeLinear", "QLinearAveragePool", "DequantizeLinear"]),
    Fires("behind a sum", with_sum("k = com.microsoft.QLinearAdd (c, t, o, c, t, o, t, o) r = QLinearConv <pads = [2, 2, 2, 2]> (k, t, o, W, v, e, t, o)"), BEHIND, effected=2),
    Fires("uint8 weights", QDQ.format(BOTH_UNSIGNED, "", ""), OPERATORS),
    Fires("uint8 weights of a dynamic product", INTEGERS.format(WEIGHTS + ", uint8 e = {128}", ", z, e"), ["DynamicQuantizeLinear", "MatMulInteger"]),
    Fires("one zero point for each column", INTEGERS.format(WEIGHTS + ", uint8[3] e = {128, 127, 129}", ", z, e"), ["DynamicQuantizeLinear", "MatMulInteger"]),
    Fires("int8 in and out of QLinearConv", conv("int8 z = {3}", SIGNED_WEIGHTS, "int8 e = {0}", QLINEAR), ["QuantizeLinear", "QLinearConv", "DequantizeLinear"]),
    Fires("uint8 weights of QLinearConv", conv("uint8 z = {131}", UNSIGNED_WEIGHTS, "uint8 e = {128}", QLINEAR), ["QuantizeLinear", "QLinearConv", "DequantizeLinear"], needs_vnni=True),
    Fires("int8 weights of ConvInteger, then its data", conv("uint8 z = {131}", SIGNED_WEIGHTS, "int8 e = {0}", CONVINTEGER), ["QuantizeLinear", "ConvInteger", "Cast"], effected=2, needs_vnni=True),
]  # fmt: skip

test_stays, test_fires = tables("QuantizedSignednessPass", STAYS, FIRES, in_functions="less often")
PASS = pass_of("QuantizedSignednessPass")
LARGE = QDQ.format(CONSTANTS.replace("64, -64", "65, -64"), "", "")


def test_types_and_numbers_of_the_result() -> None:
    result, _ = optimize(parse(QDQ.format(CONSTANTS, "", "")), [PASS])
    constants = {t.name: numpy_helper.to_array(t) for t in result.graph.initializer}
    quantize = result.graph.node[0]
    assert (
        constants[quantize.input[2]] == np.uint8(131)
        and constants[quantize.input[2]].dtype == np.uint8
    )
    assert constants["W"].dtype == np.int8


@pytest.mark.parametrize("processor_has_vnni", [True, False])
def test_without_vnni_weights_must_not_saturate(monkeypatch, processor_has_vnni: bool) -> None:
    monkeypatch.setattr(_signed_regions, "has_vnni", lambda: processor_has_vnni)
    _, counts = optimize(parse(LARGE), [PASS])
    assert effected(counts) == (2 if processor_has_vnni else 0)
    if not processor_has_vnni:
        assert "without VNNI" in next(iter(counts[0].refused))


def test_every_value_of_8_bits_and_each_tie_is_the_same_bit_for_bit() -> None:
    model = parse(QDQ.format(CONSTANTS, "", ""))
    result, _ = optimize(model, [PASS])
    ties = (np.arange(-260, 260, dtype=np.float32) / 2) * np.float32(0.02)
    x = np.stack([np.roll(ties, k) for k in range(4)], axis=1)
    before = session(model).run(None, {"x": x})
    after = session(result).run(None, {"x": x})
    np.testing.assert_array_equal(before, after)


def test_output_dtype_says_the_new_type() -> None:
    text = QDQ.format(CONSTANTS, "", "").replace("(x, s, z)", "<output_dtype = 3> (x, s)")
    result, counts = optimize(parse(text.replace("int8 z = {3}", "int8 z = {0}"), 21), [PASS])
    assert effected(counts) == 2
    onnx.checker.check_model(result, full_check=True)
    assert result.graph.node[0].attribute[0].i == onnx.TensorProto.UINT8


@pytest.mark.parametrize("name", EXACT)
def test_other_operators_keep_their_integers(name: str) -> None:
    model = parse(with_sum(EXACT[name]))
    result, counts = optimize(model, [PASS])
    assert effected(counts) == 1
    types = {t.name: t.data_type for t in result.graph.initializer}
    zeros = [types[name] for node in result.graph.node for name in node.input if name in types]
    assert zeros.count(TensorProto.INT8) == 2  # the weights and their zero point
    x = (np.arange(-280, 280, dtype=np.float32) / 2 * np.float32(0.02)).reshape(35, 1, 4, 4)
    before = session(model).run(None, {"x": x})
    after = session(result).run(None, {"x": x})
    np.testing.assert_array_equal(before, after)
