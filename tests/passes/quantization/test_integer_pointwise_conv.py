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
NUMBERS = ", ".join(str(number * 37 % 256 - 128) for number in range(192))
WEIGHTS = f"int8[3,64,1,1] W = {{{NUMBERS}}}"
GRAPH = (
    "agraph (uint8[N,64,4,5] q) => (float[?,?,?,?] y{}) <{}> {{ d = DequantizeLinear (q, s, z) "
    "v = DequantizeLinear <axis = 0> (W, t, w) c = Conv {} (d, v, B) {} }}"
)


def conv(
    attributes: str = "",
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
UNSIGNED_WEIGHTS = conv().replace(WEIGHTS, "uint8[3,64,1,1] W").replace("int8[3] w", "uint8[3] w")
ONE_AXIS = (
    conv()
    .replace("[N,64,4,5]", "[N,64,4]")
    .replace("float[?,?,?,?]", "float[?,?,?]")
    .replace("[3,64,1,1]", "[3,64,1]")
)
QUANTIZED = conv(
    constants=f"{GRIDS}, {WEIGHTS}, uint8 o = {{0}}",
    more="r = Relu (c) y = QuantizeLinear (r, s, o)",
).replace("float[?,?,?,?] y", "uint8[?,?,?,?] y")
SUM = "i = ConvInteger {} (q, W, z, w) c = Cast <to = 1> (i) "
INTEGER = (
    "agraph (float[N,4,4,5] x) => (float[?,?,?,?] y) <{}> {{ q, s, z = DynamicQuantizeLinear (x) "
    + SUM
    + "{} }}"
)
BYTES = "uint8[3,4,1,1] W = {1, 2, 127, 64, 255, 5, 0, 7, 130, 200, 3, 9}, uint8 w = {128}, float t = {0.02}, float[1,3,1,1] B = {0.1, -0.2, 0.3}"
BY_CHANNEL = BYTES.replace(
    "uint8 w = {128}, float t = {0.02}",
    "uint8[1] w = {128}, float[3,1,1] t = {0.02, 0.1, 0.5}",
)


def integer(
    more: str = "k = Mul (s, t) m = Mul (c, k) y = Add (m, B)",
    constants: str = BYTES,
    attributes: str = "",
) -> str:
    return INTEGER.format(constants, attributes, more)


STAYS = [
    Stays("integers of a wide window", integer(constants=BYTES.replace("1,1] W", "1,3] W").replace("{1, 2,", "{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8,")), ("the window has more than one element",)),
    Stays("a scale for each row of pixels", integer(constants=BYTES.replace("float t = {0.02}", "float[4,1] t = {0.02, 1, 2, 3}")), "a constant has neither one number nor one number for each channel"),
    Stays("an addend for each row of pixels", integer().replace("float[1,3,1,1] B = {0.1, -0.2, 0.3}", "float[4,1] B = {1, 2, 3, 4}").replace("y = Add (m, B)", "y = Sub (m, B)").replace("i = Conv", "f = Neg (x) i = Conv").replace("(i)", "(i) g = Abs (i)"), "an interior value is used elsewhere"),
    Stays("integers that are cast to double", integer("k = Mul (s, t) e = Cast <to = 1> (c) m = Mul (e, k) y = Add (m, B)").replace("(q, W, z, w) c = Cast <to = 1>", "(q, W, z, w) c = Cast <to = 11>"), None),
    Stays("a quantized result", QUANTIZED, "onnxruntime already computes the operator in integers"),
    Stays("a wide window", with_weights("int8[3,64,3,1] W"), "the window has more than one element"),
    Stays("groups", conv("<group = 2>", f"{GRIDS}, int8[4,64,1,1] W").replace("N,64", "N,128").replace("[3]", "[4]").replace("0.005}", "0.005, 1}").replace("0, 0}", "0, 0, 0}").replace("0.3}", "0.3, 1}"), "the convolution has groups"),
    Stays("padding", conv("<pads = [0, 1, 0, 0]>"), "the convolution pads"),
    Stays("same size", conv('<auto_pad = "SAME_UPPER">'), "the convolution pads"),
    Stays("signed data and unsigned weights", UNSIGNED_WEIGHTS.replace("uint8[N", "int8[N").replace("uint8 z = {120}", "int8 z = {-8}"), "no kernel for signed elements and unsigned weights"),
    Stays("few channels", with_weights("int8[3,2,1,1] W = {1, -2, 127, 64, -128, 5}").replace("N,64,", "N,2,"), "the convolution has too few channels"),
    Stays("16 bits", conv().replace("uint8[N", "uint16[N").replace("uint8 z", "uint16 z"), "the elements are not known to be integers of 8 bits", opset=21),
    Stays("a scale for each channel of the data", conv().replace("float s = {0.05}, uint8 z = {120}", "float[64] s, uint8[64] z"), "the data have several scales"),
    Stays("a scale along the other axis", with_weights(WEIGHTS.replace("3,64", "64,64").replace(NUMBERS, ", ".join(["3"] * 4096))).replace("<axis = 0>", "").replace("[3]", "[64]").replace("0.005", ", ".join(["0.005"] * 62)).replace("0, 0, 0", ", ".join(["0"] * 64)).replace("-0.2", ", ".join(["-0.2"] * 62)), "a scale or zero point has neither one number nor one number for each channel"),
    Stays("an infinite scale", conv().replace("0.05", "inf"), "a scale is not finite"),
    Stays("weights that are used elsewhere", with_weights("int8[3,600,1,1] W").replace("N,64,4,5", "N,600,4,5").replace("y = Relu", "e = Abs (W) y = Relu").replace("y)", "y, int8[?,?,?,?] e)"), "large weights are used elsewhere: the model would grow"),
    Stays("a scale from outside", conv(constants=f"{GRIDS}, {WEIGHTS}".replace("float s = {0.05}, ", "")).replace("agraph (", "agraph (float s, "), None),
    Stays("another target", conv(), "for target onnx no gain is known", target="onnx"),
]  # fmt: skip
LEFT = ["Transpose", "MatMulIntegerToFloat", "Transpose", "Relu"]
DYNAMIC = ["DynamicQuantizeLinear", "Transpose", "MatMulIntegerToFloat", "Transpose"]
FIRES = with_vnni([
    Fires("ConvInteger and a bias", integer(), DYNAMIC),
    Fires("ConvInteger, a number for each channel", integer(constants=BY_CHANNEL), DYNAMIC),
    Fires("ConvInteger, scaled twice", integer("k = Mul (c, s) m = Mul (t, k) y = Add (B, m)"), DYNAMIC),
    Fires("ConvInteger without a bias", integer("k = Mul (s, t) y = Mul (c, k)"), DYNAMIC),
    Fires("ConvInteger and one addend", integer(constants=BYTES.replace("float[1,3,1,1] B = {0.1, -0.2, 0.3}", "float B = {0.5}")), DYNAMIC),
    Fires("ConvInteger and another sum", integer("k = Mul (s, t) m = Mul (c, k) a = Abs (m) y = Add (a, B)"), [*DYNAMIC, "Abs", "Add"]),
    Fires("ConvInteger and an addend for each row of pixels", integer(constants=BYTES.replace("float[1,3,1,1] B = {0.1, -0.2, 0.3}", "float[4,1] B = {1, 2, 3, 4}")), [*DYNAMIC, "Add"]),
    Fires("ConvInteger with strides", integer(attributes="<strides = [2, 2]>"), [*DYNAMIC[:2], "Slice", *DYNAMIC[2:]]),
    Fires("pointwise", conv(), LEFT),
    Fires("strides", conv("<strides = [2, 3]>"), ["Transpose", "Slice", *LEFT[1:]]),
    Fires("signed data", SIGNED, LEFT),
    Fires("unsigned data and weights", UNSIGNED_WEIGHTS, LEFT),
    Fires("one scale for the weights", ONE_SCALE, LEFT),
    Fires("one spatial axis", ONE_AXIS, LEFT),
    Fires("no bias", conv().replace("(d, v, B)", "(d, v)"), LEFT),
    Fires("no padding by name", conv('<auto_pad = "VALID", dilations = [2, 2]>'), LEFT),
    Fires("the data are read elsewhere", conv(more="e = Neg (d) y = Relu (c)", out=", float[?,?,?,?] e"), ["DequantizeLinear", *LEFT[:3], "Neg", "Relu"]),
])  # fmt: skip

test_stays, test_fires = tables("IntegerPointwiseConvPass", STAYS, FIRES, in_functions="never")


def test_without_vnni_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Fires("with VNNI", conv(), [])
    assert_stays_without_vnni("IntegerPointwiseConvPass", case, target, monkeypatch)


@needs_vnni
def test_the_largest_products_do_not_saturate() -> None:
    model = parse(
        conv(constants=f"{GRIDS}, int8[3,600,1,1] W = {{{', '.join(['-128'] * 1800)}}}")
        .replace("N,64,4,5", "N,600,4,5")
        .replace("uint8 z = {120}", "uint8 z = {0}")
    )
    result, counts = optimize(model, [pass_of("IntegerPointwiseConvPass")])
    assert effected(counts) == 1
    q = np.full((1, 600, 4, 5), 255, np.uint8)
    np.testing.assert_allclose(
        session(result).run(None, {"q": q}), session(model).run(None, {"q": q}), rtol=1e-6
    )
