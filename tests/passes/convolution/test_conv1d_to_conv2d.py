from __future__ import annotations

from harness import Fires, Stays, tables

ONE = "agraph (float[N,184,17] x{}) => (float[N,{},L] y) <float[184,184,7] W, float[184] B{}> {{ {} }}"
FEW = "agraph (float[N,{0},9] x) => (float[N,{1},L] y) <float[{1},{0},{2}] W{3}> {{ {4} }}"
TOO_FEW = "moving the data into the other layout and back costs more than the layout gains"
SQUEEZED = "agraph (float[N,4,1,9] x{}) => (float[N,6,L] y) <float[6,4,1,3] W, int64[1] a = {{2}}{}> {{ {} s = Squeeze (c, a) {} }}"
CONV2D = "c = Conv (x, W)"
MOVED = ["Conv", "Relu", "Squeeze"]


def one(nodes: str, inputs: str = "", constants: str = "", channels: int = 184) -> str:
    return ONE.format(inputs, channels, constants, nodes)


def squeezed(nodes: str, inputs: str = "", constants: str = "", conv: str = CONV2D) -> str:
    return SQUEEZED.format(inputs, constants, conv, nodes)


STAYS = [
    Stays(
        "two axes",
        "agraph (float[N,4,5,5] x) => (float[N,6,3,3] y) <float[6,4,3,3] W> { y = Conv (x, W) }",
        None,
    ),
    Stays(
        "float16",
        one("y = Conv (x, W, B)").replace("float[", "float16["),
        "the elements are not float32",
    ),
    Stays(
        "double",
        one("y = Conv (x, W, B)").replace("float[", "double["),
        "the elements are not float32",
    ),
    Stays(
        "weights that are an input",
        "agraph (float[N,4,9] x, float[6,4,3] W) => (float[N,6,7] y) { y = Conv (x, W) }",
        None,
    ),
    Stays(
        "another target",
        one("y = Conv (x, W, B)"),
        "for target onnx no gain is known",
        target="onnx",
    ),
    Stays(
        "a Squeeze of another axis",
        squeezed("y = Relu (s)", constants="")
        .replace("a = {2}", "a = {0}")
        .replace("float[N,4,1,9]", "float[1,4,1,9]")
        .replace("float[N,6,L] y", "float[6,1,L] y"),
        None,
    ),
    Stays(
        "a Squeeze of no convolution",
        "agraph (float[N,4,1,9] x) => (float[N,4,9] y) <int64[1] a = {2}> { s = Squeeze (x, a) y = Relu (s) }",
        None,
    ),
    Stays(
        "a convolution over two axes",
        squeezed("y = Relu (s)", conv="c = Conv (x, W)")
        .replace("[N,4,1,9]", "[N,4,2,9]")
        .replace("[6,4,1,3]", "[6,4,2,3]"),
        None,
    ),
    Stays("no elements by themselves", squeezed("y = Softmax (s)"), None),
    Stays(
        "a Squeeze that others use",
        squeezed("r = Relu (s) t = Tanh (s) y = Add (r, t)"),
        "an interior value is used elsewhere",
    ),
    Stays("few channels", FEW.format(64, 64, 3, "", "y = Conv (x, W)"), TOO_FEW),
    Stays("few columns", FEW.format(184, 184, 1, "", "y = Conv (x, W)"), TOO_FEW),
    Stays(
        "few of all channels",
        FEW.format(256, 256, 1, "", "y = Conv <strides = [3]> (x, W)"),
        TOO_FEW,
    ),
    Stays(
        "a point of each group",
        FEW.format(64, 64, 1, ", float[64,16,1] V", "y = Conv <group = 4> (x, V)"),
        TOO_FEW,
    ),
    Stays(
        "what is behind is no convolution",
        FEW.format(64, 64, 3, "", "c = Conv (x, W) r = Relu (c) y = Softmax <axis = 1> (r)"),
        TOO_FEW,
    ),
    Stays(
        "what onnxruntime does not compute in the other layout between two",
        FEW.format(144, 144, 3, "", "c = Conv (x, W) r = LeakyRelu (c) y = Conv (r, W)"),
        TOO_FEW,
    ),
    Stays(
        "an operand of another rank",
        squeezed("y = Add (s, z)", ", float[L] z"),
        "the rank of the other operand is not 3",
    ),
]

FIRES = [
    Fires("a bias", one("y = Conv (x, W, B)"), ["Unsqueeze", "Conv", "Squeeze"]),
    Fires("no bias", one("y = Conv (x, W)"), ["Unsqueeze", "Conv", "Squeeze"]),
    Fires(
        "all attributes",
        one(
            "y = Conv <pads = [2, 1], strides = [2], dilations = [2], kernel_shape = [7]> (x, W, B)"
        ),
        ["Unsqueeze", "Conv", "Squeeze"],
    ),
    Fires(
        "its own padding",
        one('y = Conv <auto_pad = "SAME_LOWER", strides = [2]> (x, W)'),
        ["Unsqueeze", "Conv", "Squeeze"],
    ),
    Fires(
        "groups of many",
        one("y = Conv <group = 2> (x, V)", constants=", float[184,92,3] V"),
        ["Unsqueeze", "Conv", "Squeeze"],
    ),
    Fires(
        "with its activation",
        one('y = com.microsoft.FusedConv <activation = "Relu"> (x, W, B)'),
        ["Unsqueeze", "FusedConv", "Squeeze"],
    ),
    Fires(
        "with what it adds",
        one(
            'y = com.microsoft.FusedConv <activation = "Relu"> (x, W, B, z)', ", float[N,184,11] z"
        ),
        ["Unsqueeze", "Unsqueeze", "FusedConv", "Squeeze"],
    ),
    Fires(
        "behind another one",
        one(
            'c = com.microsoft.FusedConv <activation = "Relu"> (x, W, B) y = Conv (c, V)',
            constants=", float[184,184,3] V",
        ),
        ["Unsqueeze", "FusedConv", "Squeeze", "Unsqueeze", "Conv", "Squeeze"],
        2,
    ),
    Fires(
        "few channels between others",
        FEW.format(
            144,
            144,
            3,
            ", float[144,144,1] V",
            "c = Conv (x, W) r = Relu (c) d = Conv (r, V) e = Tanh (d) y = Conv (e, W)",
        ),
        [
            *["Unsqueeze", "Conv", "Relu", "Squeeze"],
            *["Unsqueeze", "Conv", "Tanh", "Squeeze"],
            "Unsqueeze",
            "Conv",
            "Squeeze",
        ],
        5,
    ),
    Fires(
        "groups",
        FEW.format(16, 16, 3, ", float[16,4,3] V", "y = Conv <group = 4> (x, V)"),
        ["Unsqueeze", "Conv", "Squeeze"],
    ),
    Fires(
        "each channel",
        FEW.format(8, 8, 3, ", float[8,1,3] V", "y = Conv <group = 8> (x, V)"),
        ["Unsqueeze", "Conv", "Squeeze"],
    ),
    Fires(
        "and what is behind",
        one("c = Conv (x, W, B) y = Relu (c)"),
        ["Unsqueeze", "Conv", "Relu", "Squeeze"],
        2,
    ),
    Fires("an old opset", one("y = Conv (x, W, B)"), ["Unsqueeze", "Conv", "Squeeze"], opset=9),
    Fires("an activation", squeezed("y = Relu (s)"), MOVED),
    Fires(
        "two of them", squeezed("r = Relu (s) y = Tanh (r)"), ["Conv", "Relu", "Tanh", "Squeeze"], 2
    ),
    Fires(
        "limits",
        squeezed("y = Clip (s, low)", constants=", float low"),
        ["Conv", "Clip", "Squeeze"],
    ),
    Fires(
        "one of onnxruntime's",
        squeezed("y = com.microsoft.QuickGelu (s)"),
        ["Conv", "QuickGelu", "Squeeze"],
    ),
    Fires(
        "a scalar", squeezed("y = Mul (s, k)", constants=", float k"), ["Conv", "Mul", "Squeeze"]
    ),
    Fires(
        "a row", squeezed("y = Sub (k, s)", constants=", float[7] k"), ["Conv", "Sub", "Squeeze"]
    ),
    Fires(
        "one number for each channel",
        squeezed("y = Div (s, k)", constants=", float[6,1] k"),
        ["Conv", "Div", "Squeeze"],
    ),
    Fires(
        "as large as the result",
        squeezed("y = Add (k, s)", constants=", float[1,6,7] k"),
        ["Conv", "Add", "Squeeze"],
    ),
    Fires(
        "a slope",
        squeezed("y = PRelu (s, k)", constants=", float[6,1] k"),
        ["Conv", "PRelu", "Squeeze"],
    ),
    Fires(
        "another value",
        squeezed("y = Add (s, z)", ", float[N,6,7] z"),
        ["Conv", "Unsqueeze", "Add", "Squeeze"],
    ),
    Fires(
        "another value first",
        squeezed("y = Sub (z, s)", ", float[N,6,1] z"),
        ["Conv", "Unsqueeze", "Sub", "Squeeze"],
    ),
]

test_stays, test_fires = tables("Conv1dToConv2dPass", STAYS, FIRES, in_functions="less often")
