from harness import Fires, Stays, tables

GRAPH = (
    "agraph (uint8[N,3,4,5] q) => (uint8[{}] y{}) <float s = {{0.0213}}, uint8 z = {{7}}, float t = {{0.01}}, uint8 w = {{9}}, "
    "int64[2] axes = {{2, 3}}> {{ d = DequantizeLinear (q, s, z) m = ReduceMean {} (d, axes) y = QuantizeLinear (m, t, w) {} }}"
)


def graph(attributes: str = "", shape: str = "?,?,?,?", more: str = "", out: str = "") -> str:
    return GRAPH.format(shape, out, attributes, more)


TWO_TYPES = graph().replace("uint8 w = {9}", "int8 w = {9}").replace("(uint8[?", "(int8[?")
STAYS = [
    Stays("channels", graph().replace("{2, 3}", "{1, 2}"), "the mean is not over all axes after the channels"),
    Stays("one axis", graph().replace("axes = {2, 3}", "axes = {-1, 3}").replace("int64[2] axes = {-1, 3}", "int64[1] axes = {-1}"), "the mean is not over all axes after the channels"),
    Stays("axes from outside", graph().replace(", int64[2] axes = {2, 3}", "").replace("agraph (", "agraph (int64[2] axes, "), "the mean is not over all axes after the channels"),
    Stays("a scale for each channel", graph().replace("float s = {0.0213}, uint8 z = {7}", "float[3] s = {0.02, 0.1, 0.3}, uint8[3] z = {7, 8, 9}"), "the quantizations have more than one scale"),
    *[Stays(f"a quotient of {scale} / 0.01", graph().replace("0.0213", scale), "the quotient of the scales is simple, so many means lie between two steps") for scale in ("0.01", "0.02", "0.005", "0.0125", "0.0046875")],
    Stays("a scale of 0 after the mean", graph().replace("0.01}", "0.0}"), "the quotient of the scales is simple, so many means lie between two steps"),
    Stays("two types", TWO_TYPES, "the integers before and after the mean do not have the same 8-bit type"),
    Stays("the mean is read", graph(more="f = Neg (m)", out=", float[?,?,?,?] f"), "an interior value is used elsewhere"),
    Stays("another target", graph(), "for target onnx no gain is known", target="onnx"),
]  # fmt: skip
FIRES = [
    Fires("pixels", graph(), ["DequantizeLinear", "GlobalAveragePool", "QuantizeLinear"]),
    Fires("axes that are dropped", graph("<keepdims = 0>", "?,?"), ["DequantizeLinear", "GlobalAveragePool", "Flatten", "QuantizeLinear"]),
    Fires("opset 13", graph("<axes = [2, 3]>").replace("(d, axes)", "(d)"), ["DequantizeLinear", "GlobalAveragePool", "QuantizeLinear"], opset=13),
]  # fmt: skip

test_stays, test_fires = tables("QuantizedMeanPass", STAYS, FIRES, in_functions="never")
