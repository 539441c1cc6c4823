import numpy as np
import pytest
from harness import Fires, Stays, effected, optimize, parse, pass_of, session, tables
from onnx import TensorProto

CONV = "c = QLinearConv (q, s, z, W, v, e, t, o)"
SUM = "r = com.microsoft.QLinearAdd (c, t, o, q, s, z, t, o)"
GRAPH = (
    "agraph (float[N,1,4,4] x) => (float[?,?,?,?] y) <float s = {{0.02}}, int8 z = {{3}}, float v = {{0.01}}, "
    "int8 e = {{0}}, float t = {{0.03}}, int8 o = {{-5}}, int8[1,1,1,1] W = {{-64}}> "
    "{{ q = QuantizeLinear (x, s, z) {} {} y = DequantizeLinear (r, t, o) }}"
)
# These keep their integers, so that the exact pass takes regions with them.
EXACT = {
    "QLinearConcat": "r = com.microsoft.QLinearConcat <axis = 1> (t, o, c, t, o, q, s, z)",
    "QLinearSigmoid": "r = com.microsoft.QLinearSigmoid (c, t, o, t, o)",
    "QLinearLeakyRelu": "r = com.microsoft.QLinearLeakyRelu <alpha = 0.1> (c, t, o, t, o)",
    "QLinearSoftmax": "r = com.microsoft.QLinearSoftmax <axis = -1, opset = 13> (c, t, o, t, o)",
    "QLinearGlobalAveragePool": "r = com.microsoft.QLinearGlobalAveragePool (c, t, o, t, o)",
}

AVERAGE = "r = com.microsoft.QLinearAveragePool <kernel_shape = [2, 2]> (c, t, o, t, o)"


def graph(last: str = SUM) -> str:
    return GRAPH.format(CONV, last)


STAYS = [
    Stays("an output of the model", graph().replace("y)", "y, int8[?,?,?,?] r)", 1), "an output of the model holds the integers"),
    Stays("no sum", graph(EXACT["QLinearSigmoid"]), None),
    Stays("no product", GRAPH.format("", "r = com.microsoft.QLinearAdd (q, s, z, q, s, z, t, o)"), None),
    Stays("another target", graph(), "for target onnx nothing is known to be gained", target="onnx"),
]  # fmt: skip
FIRES = [
    Fires("a residual sum", graph(), ["QuantizeLinear", "QLinearConv", "QLinearAdd", "DequantizeLinear"]),
    Fires("a product of two", graph(SUM.replace("QLinearAdd", "QLinearMul")), ["QuantizeLinear", "QLinearConv", "QLinearMul", "DequantizeLinear"]),
]  # fmt: skip

test_stays, test_fires = tables("QuantizedSumSignednessPass", STAYS, FIRES)


@pytest.mark.parametrize("name", EXACT)
def test_other_operators_keep_their_integers(name: str) -> None:
    model = parse(graph(EXACT[name]))
    result, counts = optimize(model, [pass_of("QuantizedSignednessPass")])
    assert effected(counts) == 1
    types = {t.name: t.data_type for t in result.graph.initializer}
    zeros = [types[name] for node in result.graph.node for name in node.input if name in types]
    assert zeros.count(TensorProto.INT8) == 2  # the weights and their zero point
    x = (np.arange(-280, 280, dtype=np.float32) / 2 * np.float32(0.02)).reshape(35, 1, 4, 4)
    before = session(model).run(None, {"x": x})
    after = session(result).run(None, {"x": x})
    np.testing.assert_array_equal(before, after)


def test_an_average_may_round_otherwise() -> None:
    model = parse(graph(AVERAGE))
    for name, times in (("QuantizedSignednessPass", 0), ("QuantizedSumSignednessPass", 1)):
        _, counts = optimize(model, [pass_of(name)])
        assert effected(counts) == times
