import numpy as np
import pytest
from harness import Fires, Stays, effected, optimize, parse, pass_of, session, tables

GRIDS = "float s = {0.05}, int8 z = {3}, float t = {0.04}, int8 o = {-7}, float u = {0.01}, int8 e = {0}"
LIMITS = "float low = {0}, float six = {2.5}, float below = {-1.1}"
WEIGHTS = "int8[4,3] W = {1, -2, 3, 64, -64, 5, -6, 7, 8, 9, -10, 11}"
PRODUCT = (
    "agraph (int8[N,4] q) => (int8[?,?] r{}) <{}> {{ d = DequantizeLinear (q, s, z) w = DequantizeLinear (W, u, e) "
    "p = MatMul (d, w) {} r = QuantizeLinear (a, t, o) {} }}"
)
TABLE = "agraph (int8[N,4] q) => (int8[?,?] r) <{}> {{ d = DequantizeLinear (q, s, z) {} r = QuantizeLinear {} }}"


def product(act: str = "a = Relu (p)", grids: str = GRIDS, more: str = "", out: str = "") -> str:
    return PRODUCT.format(out, f"{grids}, {LIMITS}, {WEIGHTS}", act, more)


def table(act: str = "a = Relu (d)", quantize: str = "(a, t, o)", grids: str = GRIDS) -> str:
    return TABLE.format(f"{grids}, {LIMITS}", act, quantize)


AVERAGE = (
    "agraph (int8[N,1,4,4] q) => (int8[?,?,?,?] r) <float{0} s = {{0.05}}, int8{0} z = {{3}}, float{1} t = {{0.04}}, "
    "int8{1} o = {{-7}}> {{ d = DequantizeLinear (q, s, z) p = AveragePool <kernel_shape = [2, 2]> (d) a = Relu (p) "
    "r = QuantizeLinear (a, t, o) }}"
)
LOWEST = GRIDS.replace("-7", "-128")
GRID = "the quantization does not have one constant scale and one constant zero point"
STAYS = [
    Stays("a zero point at the lowest integer", product(grids=LOWEST), "the quantization saturates at the limits"),
    Stays("limits beyond the grid", product("a = Clip (p, k, h)", GRIDS + ", float k = {-30}, float h = {30}"), "the quantization saturates at the limits"),
    Stays("a product of floats", product(more="f = Identity (p)", out=", float[?,?] f"), "the operator before the activation does not compute in integers"),
    Stays("floats", f"agraph (float[N,4] p) => (int8[?,?] r) <{GRIDS}> {{ a = Relu (p) r = QuantizeLinear (a, t, o) }}", "the operator before the activation does not compute in integers"),
    Stays("the activation is read elsewhere", product(more="f = Neg (a)", out=", float[?,?] f"), "an interior value is used elsewhere"),
    Stays("a scale for each column", product(grids=GRIDS.replace("float t = {0.04}, int8 o = {-7}", "float[3] t = {0.1, 0.2, 0.3}, int8[3] o = {1, 2, 3}")), GRID),
    Stays("a zero point from outside", product(grids=GRIDS.replace(", int8 o = {-7}", "")).replace("int8[N,4] q", "int8[N,4] q, int8 o"), None),
    Stays("a negative scale", product(grids=GRIDS.replace("0.04", "-0.04")), "the scale is not a positive number of usual size"),
    Stays("integers of 16 bits", table(grids=GRIDS.replace("int8 o", "int16 o")).replace("int8[?,?] r", "int16[?,?] r"), "the elements are not float32 and integers of 8 bits", opset=21),
    Stays("two types", table(grids=GRIDS.replace("int8 o = {-7}", "uint8 o = {7}")).replace("int8[?,?] r", "uint8[?,?] r"), "the integers before and after the activation have different types"),
    Stays("a scale for each column of the data", product(grids=GRIDS.replace("float s = {0.05}, int8 z = {3}", "float[4] s = {0.1, 0.2, 0.3, 1}, int8[4] z = {1, 2, 3, 4}")), "the operator before the activation does not compute in integers"),
    Stays("an average with a scale that is not a scalar", AVERAGE.format("[1]", ""), "the operator before the activation does not compute in integers"),
    Stays("an average whose result has a scale that is not a scalar", AVERAGE.format("", "[1]"), "the scale of an AveragePool is not a scalar"),
    Stays("opset 11", product(), "before opset 12, Clip does not accept integers", opset=11),
    Stays("another target", product(), "for target onnx no gain is known", target="onnx"),
]  # fmt: skip
CORE = ["DequantizeLinear", "DequantizeLinear", "MatMul", "QuantizeLinear"]
FIRES = [
    Fires("Relu of a product", product(), [*CORE, "Clip"]),
    Fires("Clip of a product", product("a = Clip (p, below, six)"), [*CORE, "Clip"]),
    Fires("opset 12", product(), [*CORE, "Clip"], opset=12),
    Fires("Relu between two grids", table(), ["DequantizeLinear", "LeakyRelu", "QuantizeLinear"]),
    Fires("Clip from 0", table("a = Clip (d, low, six)"), ["DequantizeLinear", "LeakyRelu", "QuantizeLinear", "Clip"]),
    Fires("Clip from below 0", table("a = Clip (d, below, six)"), ["DequantizeLinear", "LeakyRelu", "QuantizeLinear", "Clip"]),
    Fires("Relu in one grid", table(quantize="(a, s, z)"), ["Clip"]),
]  # fmt: skip

test_stays, test_fires = tables("QuantizedActivationPass", STAYS, FIRES, in_functions="never")


@pytest.mark.parametrize(
    "act", ["a = Relu (d)", "a = Clip (d, low, six)", "a = Clip (d, below, six)"]
)
@pytest.mark.parametrize("quantize", ["(a, t, o)", "(a, s, z)"])
def test_all_256_numbers_are_the_same(act: str, quantize: str) -> None:
    model = parse(table(act, quantize))
    result, counts = optimize(model, [pass_of("QuantizedActivationPass")])
    assert effected(counts) == 1
    q = np.arange(-128, 128, dtype=np.int8).reshape(64, 4)
    np.testing.assert_array_equal(
        session(model).run(None, {"q": q}), session(result).run(None, {"q": q})
    )
