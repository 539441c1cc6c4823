from harness import Fires, Stays, parse, seen_by_subgraph, tables
from onnx import ModelProto


def padded(
    pool: str = "AveragePool <kernel_shape = [3, 3]> (a)",
    pads: str = "int64[8] p = {0,0,1,2,0,0,2,0}",
    pad: str = "Pad (r, p)",
    x: str = "float[N,3,6,6] x",
    v: str = "float v = {-inf}",
    before: str = "r = Relu (x)",
) -> str:
    out = ",".join("abcde"[: x.count(",") + 1])
    constants = ", ".join(c for c in (pads, v) if c)
    declared = f"<{constants}>" if constants else ""
    return f"agraph ({x}) => (float[{out}] y) {declared} {{ {before} a = {pad} y = {pool} }}"


def mean(
    reduce: str = "ReduceMean (r, k)",
    k: str = "int64[2] k = {2,3}",
    before: str = "r = Relu (t)",
    x: str = "float[N,8,4,5] x",
    y: str = "",
    W: str = "float[16,8,1,1] W",
    more: str = "",
) -> str:
    out = ",".join("abcde"[: x.count(",") + 1])
    return f"agraph ({x}) => (float[{out}] y{y}) <{W}, {k}> {{ t = Conv (x, W) {before} y = {reduce} {more} }}"


def full(pool: str, x: str = "float[N,3,5,6] x") -> str:
    out = ",".join("abcde"[: x.count(",") + 1])
    return f"agraph ({x}) => (float[{out}] y) {{ r = Relu (x) y = {pool} }}"


MAX = "MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (a)"
MAXIMUM = "the padded number may be the maximum of a window"
SMALL = "the padding is not smaller than the window"
SIZES = {"H": 4, "K": 5}


def lowest_of_opset_10() -> ModelProto:
    """The text of a model has no infinite attribute."""
    model = parse(
        padded(MAX, "", "Pad <pads = [0, 0, 1, 2, 0, 0, 2, 0], value = 1.0> (x)", v="", before=""),
        opset=10,
    )
    next(a for a in model.graph.node[0].attribute if a.name == "value").f = -float("inf")
    return model


NORMALIZATION = "onnxruntime recognizes normalizations by this mean, so it stays"

MANY = "a global pool rounds the mean of this many numbers more than ReduceMean"
STAYS = [
    Stays("a large image", mean(x="float[N,8,32,32] x"), MANY),
    Stays("an image of unknown size", mean(x="float[N,8,H,K] x"), MANY),
    Stays(
        "an image without rows",
        padded(MAX, x="float[N,3,0,6] x"),
        "the image is empty, so all elements of the result come from the Pad",
    ),
    Stays(
        "an image without columns",
        padded(x="float[N,3,6,0] x"),
        "the image is empty, so all elements of the result come from the Pad",
    ),
    Stays(
        "padding by another value",
        padded(pad="Pad (r, p, v)", v="float v = {1}"),
        "the padding is not zero",
    ),
    Stays("reflected", padded(pad='Pad <mode = "reflect"> (r, p)'), "the padding is not constant"),
    Stays(
        "channels", padded(pads="int64[8] p = {0,1,0,0,0,0,0,0}"), "batch or channels are padded"
    ),
    Stays("negative", padded(pads="int64[8] p = {0,0,-1,0,0,0,0,0}"), "the padding is negative"),
    Stays("as large as the window", padded(pads="int64[8] p = {0,0,3,0,0,0,0,0}"), SMALL),
    Stays(
        "as large as the window with its own",
        padded(
            "MaxPool <kernel_shape = [3, 3], pads = [1, 0, 0, 0]> (a)",
            pads="int64[8] p = {0,0,2,0,0,0,0,0}",
        ),
        SMALL,
    ),
    Stays(
        "pads that are not counted",
        padded(
            "AveragePool <kernel_shape = [3, 3], pads = [1, 0, 0, 0]> (a)",
            "int64[8] p = {0,0,1,0,0,0,0,0}",
        ),
        "the pool does not count its own padding",
    ),
    Stays(
        "a number of windows that is rounded up",
        padded("AveragePool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1> (a)"),
        "the number of windows is rounded up",
    ),
    Stays(
        "the maximum of a number of windows that is rounded up",
        padded("MaxPool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1> (a)"),
        "the number of windows is rounded up",
    ),
    Stays(
        "dilated",
        padded("MaxPool <kernel_shape = [3, 3], dilations = [2, 1]> (a)"),
        "the window is dilated",
    ),
    Stays(
        "dilated, the average",
        padded("AveragePool <kernel_shape = [3, 3], dilations = [2, 1]> (a)"),
        "the window is dilated",
        opset=19,
    ),
    Stays(
        "auto_pad",
        padded('AveragePool <kernel_shape = [3, 3], auto_pad = "SAME_UPPER"> (a)'),
        "the AveragePool computes its own padding",
    ),
    Stays("zeros among negative numbers", padded(MAX, before="r = Tanh (x)"), MAXIMUM),
    Stays("zeros in an input", padded(MAX, pad="Pad (x, p)"), MAXIMUM),
    Stays(
        "zeros in a sum with a constant", padded(MAX, before="q = Relu (x) r = Add (q, v)"), MAXIMUM
    ),
    Stays(
        "zeros in what may be clipped below",
        padded(MAX, before="r = Clip (x, v)", v="float v = {-1}"),
        MAXIMUM,
    ),
    Stays(
        "zeros in what has no lower bound",
        padded(MAX, before="r = Clip (x, , v)", v="float v = {6}"),
        MAXIMUM,
    ),
    Stays(
        "zeros in what has an upper limit below zero",
        padded(MAX, before="r = Clip (x, z, v)", v="float v = {-1}, float z = {0}"),
        MAXIMUM,
    ),
    Stays(
        "zeros in what has an upper limit from outside",
        padded(
            MAX, before="r = Clip (x, z, w)", x="float[N,3,6,6] x, float w", v="float z = {0}"
        ).replace("a,b,c,d,e]", "a,b,c,d]"),
        MAXIMUM,
    ),
    Stays(
        "one among positive numbers", padded(MAX, pad="Pad (r, p, v)", v="float v = {1}"), MAXIMUM
    ),
    Stays(
        "the lowest finite number",
        padded(MAX, pad="Pad (x, p, v)", v="float v = {-3.4028235e38}"),
        MAXIMUM,
    ),
    Stays(
        "zeros among the absolute values of integers, of which the lowest is negative",
        "agraph (int8[N,3,6,6] x) => (int8[a,b,c,d] y) <int64[8] p = {0,0,1,2,0,0,2,0}> { r = Abs (x) a = Pad (r, p) y = "
        + MAX
        + " }",
        MAXIMUM,
    ),
    Stays("NaN", padded(MAX, pad="Pad (r, p, v)", v="float v = {nan}"), MAXIMUM),
    Stays(
        "the indices of the maxima",
        padded(MAX, pad="Pad (r, p, v)")
        .replace("] y)", "] y, int64[a,b,c,d] i)")
        .replace("y = Max", "y, i = Max"),
        "an interior value is a graph output",
    ),
    Stays(
        "the padding from outside",
        padded(pads="", x="float[N,3,6,6] x, int64[8] p").replace("[a,b,c,d,e]", "[a,b,c,d]"),
        "the padding is not constant",
    ),
    Stays(
        "what is padded is used elsewhere",
        padded().replace("] y)", "] y, float[N,3,9,8] z)").replace("y = ", "z = Neg (a) y = "),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a subgraph uses what is padded",
        seen_by_subgraph(padded(), "a", "float[N,3,9,8]"),
        "an interior value is used elsewhere",
    ),
    Stays("one axis", mean(k="int64[1] k = {2}"), None),
    Stays("the channels, too", mean(k="int64[3] k = {1,2,3}"), None),
    Stays("all axes", mean("ReduceMean (r)"), None),
    Stays(
        "dropped axes",
        mean("ReduceMean <keepdims = 0> (r, k)").replace("[a,b,c,d] y", "[a,b] y"),
        None,
    ),
    Stays(
        "axes from outside",
        mean(k="int64[2] unused", x="float[N,8,4,5] x, int64[2] k").replace(
            "[a,b,c,d,e]", "[a,b,c,d]"
        ),
        None,
    ),
    Stays(
        "a sequence",
        mean(k="int64[1] k = {2}", x="float[N,8,K] x", W="float[16,8,1] W"),
        None,
    ),
    Stays(
        "double",
        mean().replace("float[", "double["),
        "no CPU kernel for GlobalAveragePool of these elements",
    ),
    Stays("an input", mean("ReduceMean (x, k)"), None),
    Stays("behind a gate", mean(before="g = ReduceMax (t, k) r = Mul (t, g)"), None),
    Stays(
        "behind a constant",
        mean(before="r = Mul (t, c)", k="int64[2] k = {2,3}, float[16,1,1] c"),
        None,
    ),
    Stays(
        "beside what is in another layout",
        mean(before="q = Softmax <axis = 1> (t) r = Add (t, q)"),
        None,
    ),
    Stays("few channels", mean(W="float[3,8,1,1] W"), None),
    Stays("of squares", mean(before="r = Mul (t, t)"), NORMALIZATION),
    Stays(
        "a normalization",
        mean(y=", float[a,b,c,d] z", more="z = Sub (r, y)"),
        NORMALIZATION,
    ),
    Stays("not the full size", full("AveragePool <kernel_shape = [5, 5]> (r)"), None),
    Stays(
        "unknown size", full("AveragePool <kernel_shape = [5, 6]> (r)", "float[N,3,H,6] x"), None
    ),
    Stays(
        "full size with pads",
        full("AveragePool <kernel_shape = [5, 6], pads = [0, 1, 0, 0]> (r)"),
        None,
    ),
    Stays(
        "full size, auto_pad",
        full('AveragePool <kernel_shape = [5, 6], auto_pad = "SAME_UPPER"> (r)'),
        None,
    ),
    Stays(
        "full size with dilations",
        full("MaxPool <kernel_shape = [1, 6], dilations = [2, 1]> (r)", "float[N,3,1,6] x"),
        None,
    ),
    Stays(
        "full size, 8 bits",
        "agraph (uint8[N,3,5,6] x) => (uint8[a,b,c,d] y) { y = MaxPool <kernel_shape = [5, 6]> (x) }",
        "the elements are not floating-point numbers",
    ),
    Stays(
        "full size with indices",
        full("z")
        .replace("] y)", "] y, int64[a,b,c,d] i)")
        .replace("y = z", "y, i = MaxPool <kernel_shape = [5, 6]> (r)"),
        "an interior value is a graph output",
    ),
    Stays(
        "opset 6 cannot count",
        padded(pad="Pad <pads = [0, 0, 1, 2, 0, 0, 2, 0]> (r)", pads="").replace("Relu", "Abs"),
        "the AveragePool of this opset cannot count the padding",
        opset=6,
        ir_version=3,
    ),
]

AVERAGE = ["Relu", "AveragePool"]
MAXIMA = ["Relu", "MaxPool"]
GLOBAL = ["Conv", "Relu", "GlobalAveragePool"]
FIRES = [
    Fires("an average", padded(), AVERAGE),
    Fires("zero written out", padded(pad="Pad (r, p, v)", v="float v = {0}"), AVERAGE),
    Fires(
        "an average that counts its own pads",
        padded(
            "AveragePool <kernel_shape = [3, 3], pads = [1, 0, 0, 1], count_include_pad = 1, strides = [2, 1]> (a)",
            "int64[8] p = {0,0,1,0,0,0,0,1}",
        ),
        AVERAGE,
    ),
    Fires("VALID", padded('AveragePool <kernel_shape = [3, 3], auto_pad = "VALID"> (a)'), AVERAGE),
    Fires(
        "pads of zero",
        padded("AveragePool <kernel_shape = [3, 3], pads = [0, 0, 0, 0]> (a)"),
        AVERAGE,
    ),
    Fires(
        "some axes",
        padded(pads="int64[4] p = {1,2,0,1}, int64[2] axes = {-1,2}", pad="Pad (r, p, , axes)"),
        AVERAGE,
    ),
    Fires(
        "1-D",
        padded(
            "AveragePool <kernel_shape = [2]> (a)", "int64[6] p = {0,0,1,0,0,1}", x="float[N,3,6] x"
        ),
        AVERAGE,
    ),
    Fires(
        "3-D",
        padded(
            "AveragePool <kernel_shape = [2, 2, 3]> (a)",
            "int64[10] p = {0,0,1,0,2,0,0,0,1,1}",
            x="float[N,3,4,4,4] x",
        ),
        AVERAGE,
    ),
    Fires(
        "unknown height and width", padded(x="float[N,C,H,K] x"), AVERAGE, sizes={"H": 1, "K": 4}
    ),
    Fires("the lowest number", padded(MAX, pad="Pad (x, p, v)", before=""), ["MaxPool"]),
    Fires(
        "the lowest number beside pads",
        padded(
            "MaxPool <kernel_shape = [3, 3], pads = [1, 0, 0, 1]> (a)",
            "int64[8] p = {0,0,1,0,0,0,0,1}",
            "Pad (x, p, v)",
            before="",
        ),
        ["MaxPool"],
    ),
    Fires("zeros behind Relu", padded(MAX), MAXIMA),
    Fires(
        "a negative number behind Relu",
        padded(MAX, pad="Pad (r, p, v)", v="float v = {-7}"),
        MAXIMA,
    ),
    *[
        Fires(f"zeros behind {before}", padded(MAX, before=before, v=v), operators)
        for before, v, operators in (
            ("r = Sigmoid (x)", "", ["Sigmoid", "MaxPool"]),
            ("r = Clip (x, v)", "float v = {0}", ["Clip", "MaxPool"]),
            ("q = Relu (x) w = Abs (x) r = Add (q, w)", "", ["Relu", "Abs", "Add", "MaxPool"]),
            ("q = Relu (x) r = Concat <axis = 1> (q, q)", "", ["Relu", "Concat", "MaxPool"]),
        )
    ],
    Fires(
        "zeros behind Clip, opset 9",
        padded(
            MAX,
            "",
            "Pad <pads = [0, 0, 1, 2, 0, 0, 2, 0]> (r)",
            before="r = Clip <min = 0.0, max = 6.0> (x)",
            v="",
        ),
        ["Clip", "MaxPool"],
        opset=9,
        ir_version=3,
    ),
    Fires(
        "zeros of unsigned integers",
        "agraph (uint8[N,3,6,6] x) => (uint8[a,b,c,d] y) <int64[8] p = {0,0,1,2,0,0,2,0}> { a = Pad (x, p) y = "
        + MAX
        + " }",
        ["MaxPool"],
    ),
    Fires(
        "the lowest integer",
        "agraph (int8[N,3,6,6] x) => (int8[a,b,c,d] y) <int64[8] p = {0,0,1,2,0,0,2,0}, int8 v = {-128}> { a = Pad (x, p, v) y = "
        + MAX
        + " }",
        ["MaxPool"],
    ),
    Fires("the lowest number, opset 10", lowest_of_opset_10, ["MaxPool"], opset=10),
    Fires("the mean of an image", mean(), GLOBAL, sizes=SIZES),
    Fires("negative axes", mean(k="int64[2] k = {-1,-2}"), GLOBAL, sizes=SIZES, zero_sizes=False),
    Fires(
        "axes as an attribute",
        mean("ReduceMean <axes = [2, 3]> (r)", "int64[1] unused"),
        GLOBAL,
        sizes=SIZES,
        opset=13,
    ),
    Fires("known size", mean(x="float[N,8,4,4] x"), GLOBAL),
    Fires(
        "behind Sigmoid times x",
        mean(before="s = Sigmoid (t) r = Mul (t, s)"),
        ["Conv", "Sigmoid", "Mul", "GlobalAveragePool"],
        sizes=SIZES,
    ),
    Fires(
        "behind a residual sum",
        mean(before="s = Relu (t) q = Add (s, t) r = Relu (q)"),
        ["Conv", "Relu", "Add", "Relu", "GlobalAveragePool"],
        sizes=SIZES,
    ),
    Fires(
        "behind HardSwish",
        mean(before="r = HardSwish (t)"),
        ["Conv", "HardSwish", "GlobalAveragePool"],
        sizes=SIZES,
    ),
    Fires(
        "behind a pool",
        mean(before="r = MaxPool <kernel_shape = [2, 2]> (t)"),
        ["Conv", "MaxPool", "GlobalAveragePool"],
        sizes=SIZES,
    ),
    Fires("opset 22", mean(), GLOBAL, sizes=SIZES, opset=22),
    Fires(
        "full size", full("AveragePool <kernel_shape = [5, 6]> (r)"), ["Relu", "GlobalAveragePool"]
    ),
    Fires(
        "full size, everything written out",
        full(
            "AveragePool <kernel_shape = [5, 6], strides = [5, 6], pads = [0, 0, 0, 0], ceil_mode = 1, count_include_pad = 1> (r)"
        ),
        ["Relu", "GlobalAveragePool"],
    ),
    Fires(
        "full size, VALID, 1-D",
        full('AveragePool <kernel_shape = [5], auto_pad = "VALID"> (r)', "float[N,3,5] x"),
        ["Relu", "GlobalAveragePool"],
    ),
    Fires(
        "full size, the maximum",
        full("MaxPool <kernel_shape = [5, 6]> (r)"),
        ["Relu", "GlobalMaxPool"],
    ),
    Fires(
        "full size, opset 7",
        full("AveragePool <kernel_shape = [5, 6]> (r)"),
        ["Relu", "GlobalAveragePool"],
        opset=7,
        ir_version=3,
    ),
]

test_stays, test_fires = tables("PoolingFusionPass", STAYS, FIRES, in_functions="less often")
