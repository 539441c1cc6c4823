from harness import Fires, Stays, tables

GRAPH = (
    "agraph (float[N,8,5,5] x) => (int32[?,?,?,?] y{}) <uint8[4,8,3,3] W, uint8 w = {{3}}, uint8 e = {{7}}> "
    "{{ q, s, z = DynamicQuantizeLinear (x) y = ConvInteger{} {} }}"
)
SCALE = ", float t"
T = " t = Neg (s)"


def graph(attributes: str = "", inputs: str = "(q, W, z, w)", more: str = "", out: str = "") -> str:
    return GRAPH.format(SCALE + out, attributes, inputs + T + more)


STAYS = [
    Stays("int8 weights", graph().replace("uint8[4,8,3,3] W, uint8 w", "int8[4,8,3,3] W, int8 w"), "the weights are not uint8"),
    Stays("groups", graph("<group = 2>").replace("[4,8,3,3]", "[4,4,3,3]"), "the convolution has groups"),
    Stays("another zero point", graph(inputs="(q, W, e, w)"), "the zero point is not that of the data"),
    Stays("no zero point", graph(inputs="(q, W)"), "the zero point is not that of the data"),
    Stays("other readers", graph(more=" k = Cast <to = 1> (q)", out=", float[?,?,?,?] k"), "operators other than ConvInteger read the integers"),
    Stays("no convolution", "agraph (float[N,3] x) => (int32[?,?] y) <uint8[3,2] W> { q, s, z = DynamicQuantizeLinear (x) y = MatMulInteger (q, W, z) }", None),
    Stays("short sums", graph().replace("N,8,", "N,7,").replace("[4,8,", "[4,7,"), "the convolution has too few products"),
    Stays("a small convolution", graph().replace("[N,8", "[1,8"), "the convolution has too few products"),
    Stays("another target", graph(), "for target onnx no gain is known", target="onnx"),
]  # fmt: skip
LEFT = ["DynamicQuantizeLinear", "Cast", "Sub", "Cast", "QuantizeLinear", "ConvInteger"]
FIRES = [
    Fires("a convolution", graph(), [*LEFT, "Neg"]),
    Fires("no zero point of the weights", graph(inputs="(q, W, z)"), [*LEFT, "Neg"]),
    Fires("padded", graph("<pads = [1, 1, 1, 1]>"), [*LEFT, "Neg"]),
    Fires("two convolutions", graph(more=" k = ConvInteger (q, W, z, w)", out=", int32[?,?,?,?] k"), ["DynamicQuantizeLinear", "Neg", *LEFT[1:], "ConvInteger"]),
]  # fmt: skip

test_stays, test_fires = tables(
    "DynamicConvSignednessPass", STAYS, FIRES, in_functions="less often"
)
