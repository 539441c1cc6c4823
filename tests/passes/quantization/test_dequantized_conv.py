import numpy as np
import pytest
from harness import (
    Fires,
    Stays,
    assert_stays_without_vnni,
    effected,
    needs_vnni,
    optimize,
    parse,
    pass_of,
    session,
    tables,
    with_vnni,
)

from fusionc.passes._shared import target

GRIDS = "float s = {0.05}, uint8 z = {120}, float[3] t = {0.01, 0.02, 0.005}, int8[3] w = {0, 0, 0}, float[3] B = {0.1, -0.2, 0.3}"
NUMBERS = ", ".join(str(number * 37 % 256 - 128) for number in range(3 * 64 * 9))
WEIGHTS = f"int8[3,64,3,3] W = {{{NUMBERS}}}"
GRAPH = (
    "agraph (uint8[N,64,4,5] q) => (float[?,?,?,?] y{}) <{}> {{ d = DequantizeLinear (q, s, z) "
    "v = DequantizeLinear <axis = 0> (W, t, w) c = Conv {} (d, v, B) {} }}"
)


def conv(
    attributes: str = "<pads = [1, 1, 1, 1]>",
    constants: str = f"{GRIDS}, {WEIGHTS}",
    more: str = "y = Relu (c)",
    out: str = "",
) -> str:
    return GRAPH.format(out, constants, attributes, more)


def with_weights(weights: str) -> str:
    return conv(constants=f"{GRIDS}, {weights}")


SIGNED = conv().replace("uint8[N", "int8[N").replace("uint8 z = {120}", "int8 z = {-8}")
ONE_SCALE = conv().replace(
    "float[3] t = {0.01, 0.02, 0.005}, int8[3] w = {0, 0, 0}", "float t = {0.01}, int8 w = {3}"
)
UNSIGNED_WEIGHTS = (
    conv().replace(WEIGHTS, "uint8[3,64,3,3] W").replace("int8[3] w = {0, 0, 0}", "uint8[3] w = {9, 9, 9}")
)  # fmt: skip
QUANTIZED = conv(
    constants=f"{GRIDS}, {WEIGHTS}, uint8 o = {{0}}",
    more="r = Relu (c) y = QuantizeLinear (r, s, o)",
).replace("float[?,?,?,?] y", "uint8[?,?,?,?] y")
FEW = "a sum has too few products, or may need more than 32 bits"
STAYS = [
    Stays("a quantized result", QUANTIZED, "onnxruntime already computes the operator in integers"),
    Stays("groups", conv("<group = 2, pads = [1, 1, 1, 1]>").replace("N,64", "N,128").replace("[3]", "[2]").replace(", 0.005", "").replace("0, 0, 0", "0, 0").replace(", 0.3}", "}").replace(WEIGHTS, "int8[2,64,3,3] W"), "the convolution has groups"),
    Stays("one element", with_weights("int8[3,600,1,1] W").replace("N,64", "N,600"), "the window has one element"),
    Stays("few products", with_weights("int8[3,64,2,2] W"), FEW),
    Stays("16 bits", conv().replace("uint8[N", "uint16[N").replace("uint8 z", "uint16 z"), "the elements are not known to be integers of 8 bits", opset=21),
    Stays("a scale for each channel of the data", conv().replace("float s = {0.05}, uint8 z = {120}", "float[64] s, uint8[64] z"), "the data have several scales"),
    Stays("an infinite scale", conv().replace("0.05", "inf"), "the scale is too small or too large to round safely"),
    Stays("two zero points", conv().replace("{0, 0, 0}", "{0, 1, 0}"), "the weights have several zero points"),
    Stays("weights that are used elsewhere", conv(more="e = Abs (W) y = Relu (c)", out=", int8[?,?,?,?] e"), "large weights are used elsewhere: the model would grow"),
    Stays("a scale from outside", conv(constants=f"{GRIDS}, {WEIGHTS}".replace("float s = {0.05}, ", "")).replace("agraph (", "agraph (float s, "), None),
    Stays("another target", conv(), "for target onnx no gain is known", target="onnx"),
]  # fmt: skip
LEFT = ["DequantizeLinear", "QuantizeLinear", "ConvInteger", "Cast", "Mul"]
FIRES = with_vnni([
    Fires("3 × 3", conv(), [*LEFT, "Reshape", "Add", "Relu"], inside_if=False),
    Fires("signed data", SIGNED, [*LEFT, "Reshape", "Add", "Relu"], inside_if=False),
    Fires("unsigned weights", UNSIGNED_WEIGHTS, [*LEFT, "Reshape", "Add", "Relu"], inside_if=False),
    Fires("one scale", ONE_SCALE, [*LEFT, "Reshape", "Add", "Relu"], inside_if=False),
    Fires("no bias", conv("<strides = [2, 2]>").replace("(d, v, B)", "(d, v)"), [*LEFT, "Relu"], inside_if=False),
    Fires("no zero points", conv().replace("(q, s, z)", "(q, s)").replace("(W, t, w)", "(W, t)"), [*LEFT, "Reshape", "Add", "Relu"], inside_if=False),
])  # fmt: skip

test_stays, test_fires = tables("DequantizedConvPass", STAYS, FIRES, in_functions="never")


def test_without_vnni_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Fires("with VNNI", conv(), [])
    assert_stays_without_vnni("DequantizedConvPass", case, target, monkeypatch)


@needs_vnni
@pytest.mark.parametrize("model", [conv(), SIGNED])
def test_all_256_numbers_are_the_same_integers(model: str) -> None:
    exact = parse(model.replace("{0.05}", "{1}").replace("{0.01, 0.02, 0.005}", "{1, 1, 1}").replace("{0.1, -0.2, 0.3}", "{1, 2, 3}"))  # fmt: skip
    result, counts = optimize(exact, [pass_of("DequantizedConvPass")])
    assert effected(counts) == 1
    dtype = np.int8 if model == SIGNED else np.uint8
    q = np.arange(4 * 64 * 20).reshape(4, 64, 4, 5).astype(np.uint8).view(dtype)
    np.testing.assert_array_equal(
        session(exact).run(None, {"q": q}), session(result).run(None, {"q": q})
    )
