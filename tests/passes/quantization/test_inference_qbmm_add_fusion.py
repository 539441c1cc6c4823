import numpy as np
import pytest
from harness import Fires, Stays, optimize, parse, pass_of, seen_by_subgraph, tables
from onnx import numpy_helper

from fusionc.passes.quantization import inference_qbmm_add_fusion


@pytest.fixture(autouse=True)
def _processor_without_vnni(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference_qbmm_add_fusion, "has_vnni", lambda: False)


SMALL = ",".join(map(str, range(-10, 10)))
LARGE = "127,-128,127,126,125," * 3 + "1,2,3,4,5"
POSITIVE = ",".join(map(str, range(20)))
STATIC = "p = DequantizeLinear (a, as, az) q = DequantizeLinear (W, ws, wz) r = MatMul (p, q) y = Add (r, B)"
DYNAMIC = "q, s, z = DynamicQuantizeLinear (x) p = MatMulInteger (q, W, z, wz) c = Cast <to = 1> (p) k = Mul (s, ws) r = Mul (c, k)"
BIAS = "float[5] B = {1, -2, 3, 0.5, 4}"


def static(
    body: str = STATIC, a: str = "uint8", w: str = "uint8", W: str = POSITIVE, ws: str = "float ws = {0.05}", wz: str = "{7}",
    bias: str = BIAS, more: str = "", y: str = "", scale: str = "float as = {0.1}",
) -> str:  # fmt: skip
    zero = f"{w}[5] wz = {wz}" if "," in wz else f"{w} wz = {wz}"
    constants = f"{scale}, {a} az = {{3}}, {w}[4,5] W = {{{W}}}, {ws}, {zero}, {bias}{more}"
    return f"agraph ({a}[N,4] a) => (float[N,5] y{y}) <{constants}> {{ {body} }}"


def dynamic(
    body: str = f"{DYNAMIC} y = Add (r, B)",
    w: str = "int8",
    ws: str = "float ws = {0.05}",
    wz: str = "{1}",
    bias: str = BIAS,
    y: str = "",
) -> str:
    zero = f"{w}[5] wz = {wz}" if "," in wz else f"{w} wz = {wz}"
    W = SMALL if w == "int8" else POSITIVE
    return f"agraph (float[N,4] x) => (float[N,5] y{y}) <{w}[4,5] W = {{{W}}}, {ws}, {zero}, {bias}> {{ {body} }}"


COLUMNS = "float[5] ws = {0.1, 0.2, 0.3, 0.05, 0.4}"
ROW = "the addend does not have exactly one number for each column"
OUTSIDE_EMPTY = "agraph (uint8[N,K] a, uint8[K,5] W, float as, float ws) => (float[N,5] y) { p = MatMulInteger (a, W) c = Cast <to = 1> (p) k = Mul (as, ws) y = Mul (c, k) }"
INTEGERS = "agraph (uint8[N,4] a) => (float[N,5] y) <uint8[4,5] W, float as, float ws> { p = MatMulInteger (a, W) c = Cast <to = 1> (p) k = Mul (as, ws) y = Mul (c, k) }"
COLUMN = "a scale or zero point has neither one number nor one number for each column"
GEMM = "p = DequantizeLinear (a, as, az) q = DequantizeLinear (W, ws, wz) y = Gemm {} (p, q, B)"
TRANSPOSED = (
    "agraph (uint8[N,4] a) => (float[N,5] y{}) <float as = {{0.1}}, uint8 az = {{3}}, int8[5,4] W = {{{}}}, "
    "float[5] ws = {{0.1, 0.2, 0.3, 0.05, 0.4}}, int8[5] wz = {{0, 1, 2, 3, 4}}, float[5] B = {{1, -2, 3, 0.5, 4}}> {{ "
    "p = DequantizeLinear (a, as, az) q = DequantizeLinear <axis = 0> (W, ws, wz) y = Gemm <transB = 1> (p, q, B) {} }}"
)
TURNED = (
    TRANSPOSED.format("", SMALL, "")
    .replace("y = Gemm <transB = 1> (p, q, B)", "t = Transpose <perm = [1, 0]> (q) y = Gemm (p, t, B)")
)  # fmt: skip
TURNED_PRODUCT = TURNED.replace("y = Gemm (p, t, B)", "r = MatMul (p, t) y = Add (r, B)")
TURNED_TWICE = static(
    GEMM.format("<transB = 1>").replace("y =", "t = Transpose (q) y =").replace("(p, q, B)", "(p, t, B)")
)  # fmt: skip
STAYS = [
    Stays(
        "a Transpose of square weights with a scale for each column",
        TURNED.replace("[5,4]", "[4,4]")
        .replace("[N,5]", "[N,4]")
        .replace(f"{{{SMALL}}}", f"{{{','.join('1' * 16)}}}")
        .replace("<axis = 0>", "<axis = 1>")
        .replace("float[5] ws = {0.1,", "float[4] ws = {")
        .replace("int8[5] wz = {0,", "int8[4] wz = {")
        .replace("float[5] B = {1,", "float[4] B = {"),
        COLUMN,
    ),
    Stays(
        "a Gemm that scales",
        static(GEMM.format("<beta = 2.0>")),
        "the Gemm scales or transposes its first operand",
    ),
    Stays(
        "a Gemm of integers alone",
        static(
            f"B = DequantizeLinear (I, bs) {GEMM.format('')}",
            bias="int32[5] I = {1, 2, 3, 4, 5}",
            more=", float bs = {0.005}",
        ),
        "onnxruntime already computes the operator in integers",
    ),
    Stays(
        "transposed weights with a scale for each row",
        TRANSPOSED.format("", SMALL, "")
        .replace("<axis = 0>", "<axis = 1>")
        .replace("float[5] ws = {0.1,", "float[4] ws = {")
        .replace("int8[5] wz = {0,", "int8[4] wz = {"),
        COLUMN,
    ),
    Stays(
        "large transposed weights are used elsewhere",
        TRANSPOSED.format(", int8[?,?] v", "", "v = Abs (W)")
        .replace("int8[5,4] W = {}", "int8[5,400] W")
        .replace("[N,4]", "[N,400]"),
        "large signed weights are used elsewhere",
    ),
    Stays(
        "signed elements",
        static(a="int8", w="int8", W=SMALL, wz="{1}"),
        "the elements are not uint8",
    ),
    Stays(
        "a sum that needs more than 32 bits",
        """agraph (uint8[N,33026] a) => (float[N,1] y) <uint8[33026,1] W, float as = {0.01}, float ws = {0.01}, float[1] B = {0}> {
        p = DequantizeLinear (a, as) q = DequantizeLinear (W, ws) r = MatMul (p, q) y = Add (r, B) }""",
        "the sum may need more than 32 bits",
    ),
    Stays("an addend of one element", static(bias="float[1] B = {1}"), ROW),
    Stays(
        "an addend that enlarges",
        static(bias="float[1,1,5] B", y="").replace("(float[N,5] y", "(float[1,N,5] y"),
        ROW,
    ),
    Stays(
        "no addend",
        static(STATIC.replace("r = MatMul", "y = MatMul").replace(" y = Add (r, B)", "")),
        None,
    ),
    Stays(
        "the result is quantized",
        static(
            STATIC.replace(
                "y = Add (r, B)",
                "t = Add (r, B) u = QuantizeLinear (t, as, az) y = DequantizeLinear (u, as, az)",
            )
        ),
        "the result is quantized",
    ),
    Stays(
        "a scale for each row",
        static(
            STATIC.replace("(W,", "<axis = 0> (W,"),
            ws="float[4] ws = {0.1, 0.2, 0.3, 0.4}",
            wz="{1,2,3,4}",
        ).replace("uint8[5] wz", "uint8[4] wz"),
        COLUMN,
    ),
    Stays(
        "a scale from outside",
        "agraph (uint8[N,4] a, float as) => (float[N,5] y) <uint8 az = {3}, uint8[4,5] W = {"
        + POSITIVE
        + "}, float ws = {0.1}, uint8 wz = {2}, "
        + BIAS
        + "> { "
        + STATIC
        + " }",
        "the scales are not constant",
    ),
    Stays(
        "weights from outside",
        "agraph (uint8[N,4] a, uint8[4,5] W) => (float[N,5] y) <float as = {0.1}, uint8 az = {3}, float ws = {0.1}, uint8 wz = {2}, "
        + BIAS
        + "> { "
        + STATIC
        + " }",
        "the weights are not constant",
    ),
    Stays(
        "weights that may have no rows",
        OUTSIDE_EMPTY,
        "the second operand is not a matrix of a known shape",
    ),
    Stays(
        "a batch of weights",
        OUTSIDE_EMPTY.replace("[K,5]", "[2,4,5]")
        .replace("[N,K]", "[N,4]")
        .replace("[N,5]", "[2,N,5]"),
        "the second operand is not a matrix of a known shape",
    ),
    Stays(
        "weights of 16 bits",
        static(w="uint16"),
        "the elements of the weights are not uint8 or int8",
        opset=21,
    ),
    Stays(
        "scales of float16",
        static(scale="float16 as", ws="float16 ws", bias="float16[5] B").replace(
            "float[N,5] y", "float16[N,5] y"
        ),
        "the elements of a scale are not float32",
        opset=21,
    ),
    Stays(
        "a scale for each column of the left operand",
        static(scale="float[4] as = {0.1, 0.2, 0.3, 0.4}").replace(
            "uint8 az = {3}", "uint8[4] az = {3, 3, 3, 3}"
        ),
        "the left operand has several scales",
    ),
    Stays(
        "a product in float16",
        static(
            STATIC.replace("Linear (", "Linear <output_dtype = 10> ("), bias="float16[5] B"
        ).replace("float[N,5] y", "float16[N,5] y"),
        "the left operand has several scales",
        opset=23,
    ),
    Stays(
        "a scale for each row of square weights",
        "agraph (uint8[N,4] a) => (float[N,4] y) <float as = {0.1}, uint8 az = {3}, uint8[4,4] W, float[4] ws, uint8[4] wz, float[4] B> { "
        + STATIC.replace("(W,", "<axis = 0> (W,")
        + " }",
        COLUMN,
    ),
    Stays("scales of the weights that are no vector", dynamic(ws="float[1,5] ws"), COLUMN),
    Stays(
        "both scales for each column",
        INTEGERS.replace("float as, float ws", "float[5] as, float[5] ws"),
        "both scales have several elements",
    ),
    Stays("scales that are no vector", INTEGERS.replace("float ws", "float[1,5] ws"), COLUMN),
    Stays(
        "a zero point for each row of the left operand",
        INTEGERS.replace("[N,", "[3,")
        .replace("(a, W)", "(a, W, az)")
        .replace("float ws", "uint8[3] az, float ws"),
        "a zero point of the left operand has several elements",
    ),
    Stays(
        "signed elements, unsigned weights",
        INTEGERS.replace("uint8[N,4] a", "int8[N,4] a"),
        "no kernel for signed elements and unsigned weights",
    ),
    Stays(
        "an infinite scale",
        static(scale="float as = {inf}"),
        "a scale is not finite",
    ),
    Stays(
        "the product is a graph output",
        static(y=", float[N,5] r"),
        "an interior value is a graph output",
    ),
    Stays(
        "a subgraph uses the product",
        seen_by_subgraph(static(), "r", "float[N,5]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "large signed weights that are used elsewhere",
        "agraph (uint8[N,40] a) => (float[N,30] y, float[40,30] e) <float as = {0.1}, uint8 az = {3}, int8[40,30] W, float ws = {0.1}, int8 wz = {1}, float[30] B> { "
        + STATIC
        + " e = Cast <to = 1> (W) }",
        "large signed weights are used elsewhere",
    ),
    Stays(
        "a zero point from outside",
        "agraph (uint8[N,4] a, int8 wz) => (float[N,5] y) <float as = {0.1}, uint8 az = {3}, int8[4,5] W, float ws = {0.1}, "
        + BIAS
        + "> { "
        + STATIC
        + " }",
        "the zero point of signed weights is not constant",
    ),
    Stays(
        "integers as they are",
        dynamic(
            "q, s, z = DynamicQuantizeLinear (x) p = MatMulInteger (q, W, z, wz) y = Cast <to = 1> (p)"
        ),
        None,
    ),
    Stays(
        "a cast to double",
        dynamic(f"{DYNAMIC} y = Add (r, B)")
        .replace("to = 1", "to = 11")
        .replace(
            "k = Mul (s, ws) r = Mul (c, k)",
            "k = Mul (s, ws) k2 = Cast <to = 11> (k) r = Mul (c, k2)",
        )
        .replace("y = Add (r, B)", "r2 = Cast <to = 1> (r) y = Add (r2, B)"),
        None,
    ),
]

FLOATED = ["MatMulIntegerToFloat"]
DYNAMIC_PRODUCT = ["DynamicQuantizeMatMul"]
SHARED = "q, s, z = DynamicQuantizeLinear (x) p = MatMulInteger (q, W, z, wz) c = Cast <to = 1> (p) k = Mul (s, ws) r = Mul (c, k) y = Add (r, B) e = DequantizeLinear (q, s, z)"
OUTSIDE = f"agraph (float[N,4] x, uint8[4,5] W, uint8 wz, float ws, float[5] B) => (float[N,5] y) {{ {DYNAMIC} y = Add (r, B) }}"
OUTSIDE_INTEGERS = "agraph (uint8[N,4] a, uint8[4,5] W, float as, float[5] ws) => (float[N,5] y) { p = MatMulInteger (a, W) c = Cast <to = 1> (p) k = Mul (as, ws) y = Mul (c, k) }"
ONE_SCALE = "agraph (uint8[N,4] a) => (float[N,5] y) <uint8[4,5] W, {}> {{ p = MatMulInteger (a, W) c = Cast <to = 1> (p) y = Mul (c, k) }}"
STAYS += [
    Stays("one scale for each row", ONE_SCALE.format("float[3,1] k").replace("[N,", "[3,"), COLUMN),
    Stays("one scale from outside", ONE_SCALE.format("float one = {1}").replace("4] a)", "4] a, float k)"), None),
]  # fmt: skip
FIRES = [
    Fires("one constant scale", ONE_SCALE.format("float k"), FLOATED),
    Fires("one constant scale for each column", ONE_SCALE.format("float[5] k"), FLOATED),
    Fires(
        "one constant scale and an addend",
        ONE_SCALE.format("float[5] k, float[5] B").replace(
            "y = Mul (c, k)", "r = Mul (k, c) y = Add (B, r)"
        ),
        FLOATED,
    ),
    Fires("Gemm", static(GEMM.format("")), ["MatMulIntegerToFloat"]),
    Fires(
        "Gemm with transposed weights", TRANSPOSED.format("", SMALL, ""), ["MatMulIntegerToFloat"]
    ),
    Fires("a Transpose before a Gemm", TURNED, FLOATED),
    Fires("a Transpose before a MatMul", TURNED_PRODUCT, FLOATED),
    Fires(
        "a Transpose before a MatMul, default order",
        TURNED_PRODUCT.replace("<perm = [1, 0]>", ""),
        FLOATED,
    ),
    Fires(
        "a Transpose that does nothing",
        TURNED.replace("[1, 0]", "[0, 1]").replace("= Gemm", "= Gemm <transB = 1>"),
        FLOATED,
    ),
    Fires("a Transpose and transB", TURNED_TWICE, FLOATED),
    Fires("static", static(), FLOATED),
    Fires("the addend first", static(STATIC.replace("Add (r, B)", "Add (B, r)")), FLOATED),
    Fires("scales for each column", static(ws=COLUMNS, wz="{1,2,3,4,5}"), FLOATED),
    Fires("without zero points", static(STATIC.replace(", az", "").replace(", wz", "")), FLOATED),
    Fires("signed weights", static(w="int8", W=SMALL, wz="{1}"), FLOATED),
    Fires(
        "large signed weights for each column",
        static(w="int8", W=LARGE, ws=COLUMNS, wz="{0,1,-128,127,5}"),
        FLOATED,
    ),
    Fires(
        "signed weights without a zero point",
        static(STATIC.replace(", wz", ""), w="int8", W=LARGE, ws=COLUMNS),
        FLOATED,
    ),
    Fires(
        "the last axis",
        static(STATIC.replace("(W,", "<axis = -1> (W,"), ws=COLUMNS, wz="{1,2,3,4,5}"),
        FLOATED,
    ),
    Fires(
        "a batch", static().replace("[N,4] a", "[N,2,4] a").replace("[N,5] y", "[N,2,5] y"), FLOATED
    ),
    Fires(
        "an addend from outside",
        static(bias="float unused").replace("uint8[N,4] a)", "uint8[N,4] a, float[5] B)"),
        FLOATED,
    ),
    Fires(
        "the left operand is used elsewhere",
        static(STATIC + " e = Neg (p)", y=", float[N,4] e"),
        ["DequantizeLinear", "MatMulIntegerToFloat", "Neg"],
    ),
    Fires("dynamic", dynamic(), DYNAMIC_PRODUCT),
    Fires("dynamic, weights from outside", OUTSIDE, DYNAMIC_PRODUCT),
    Fires("integers, weights from outside", OUTSIDE_INTEGERS, FLOATED),
    Fires(
        "dynamic, without addend",
        dynamic(f"{DYNAMIC} y = Mul (r, one)", bias="float one = {1}").replace(
            "y = Mul (r, one)", "y = Neg (r)"
        ),
        ["DynamicQuantizeMatMul", "Neg"],
    ),
    Fires(
        "dynamic, scales one by one",
        dynamic(
            f"{DYNAMIC} y = Add (B, r)".replace(
                "k = Mul (s, ws) r = Mul (c, k)", "k = Mul (c, s) r = Mul (ws, k)"
            )
        ),
        DYNAMIC_PRODUCT,
    ),
    Fires("dynamic, for each column", dynamic(ws=COLUMNS, wz="{0,1,2,3,4}"), DYNAMIC_PRODUCT),
    Fires("dynamic, unsigned", dynamic(w="uint8"), DYNAMIC_PRODUCT),
    Fires(
        "dynamic, without zero points of the weights",
        dynamic(f"{DYNAMIC} y = Add (r, B)".replace(", wz", "")),
        DYNAMIC_PRODUCT,
    ),
    Fires(
        "an addend that is no row", dynamic(bias="float B = {3}"), ["DynamicQuantizeMatMul", "Add"]
    ),
    Fires(
        "quantized once for several",
        dynamic(SHARED, y=", float[N,4] e"),
        ["DynamicQuantizeLinear", "MatMulIntegerToFloat", "DequantizeLinear"],
    ),
    Fires(
        "integers with two scales",
        "agraph (int8[N,4] a) => (float[N,5] y) <int8[4,5] W = {"
        + SMALL
        + "}, float[1] as = {0.1}, "
        + COLUMNS
        + "> { p = MatMulInteger (a, W) c = Cast <to = 1> (p) k = Mul (ws, as) y = Mul (c, k) }",
        FLOATED,
    ),
    *[Fires(f"opset {opset}", static(), FLOATED, opset=opset) for opset in (10, 13, 21)],
]

test_stays, test_fires = tables("InferenceQbmmAddFusionPass", STAYS, FIRES, in_functions="never")


@pytest.mark.parametrize("has_vnni", [False, True])
def test_signed_weights_stay_where_sums_cannot_saturate(
    monkeypatch: pytest.MonkeyPatch, has_vnni: bool
) -> None:
    monkeypatch.setattr(inference_qbmm_add_fusion, "has_vnni", lambda: has_vnni)
    model = parse(static(w="int8", W=SMALL))
    result, _ = optimize(model, [pass_of("InferenceQbmmAddFusionPass")])
    constants = {t.name: numpy_helper.to_array(t) for t in result.graph.initializer}
    weights = constants[result.graph.node[0].input[1]]
    assert weights.dtype == (np.int8 if has_vnni else np.uint8)
