from harness import Fires, Stays, tables


def graph(
    constants: str = "float s = {0.1}, uint8 z = {3}",
    first: str = "(q, s, z)",
    second: str = "(d, s, z)",
    shape: str = "[N,4]",
    type_: str = "uint8",
    domain: str = "",
) -> str:
    return (
        f"agraph ({type_}{shape} x) => ({type_}{shape} y) <{constants}> {{ q = Flatten (x) "
        f"d = {domain}DequantizeLinear {first} r = {domain}QuantizeLinear {second} y = Flatten (r) }}"
    )


TYPE = "the elements are not integers of 8 or 16 bits with a float32 scale"
RANGE = "the scale is too small or too large to round safely"
ROWS = "float[4] s = {0.1, 0.2, 0.3, 0.4}, uint8[4] z = {1, 2, 3, 4}"

MOVED = (
    "agraph (uint8[4,2] x) => (uint8[4,2] y) <{}, uint8[2,4] W = {{1, 2, 3, 4, 5, 6, 7, 8}}> {{ "
    "d = DequantizeLinear {} t = {} r = QuantizeLinear (t, s, z) y = Max (x, r) }}"
)
ONE = "float s = {0.1}, uint8 z = {3}"
ACTIVATION = (
    "agraph (uint8[N,2,4,4] x) => (uint8[?,?,?,?] r) <float s = {{0.1}}, uint8 z = {{3}}, float other = {{0.2}}, "
    "int64[4] n = {{0, 4, 2, 4}}, int64[1] i = {{1}}, int64[1] j = {{2}}, int64[4] twice = {{1, 1, 2, 1}}, "
    "int64[5] wide = {{2, 1, 1, 1, 1}}> "
    "{{ q = Transpose <perm = [0, 1, 3, 2]> (x) d = DequantizeLinear (q, s, z) {} r = QuantizeLinear (y, s, z) }}"
)
POOL = "y = MaxPool <kernel_shape = [2, 2], pads = [1, 0, 1, 0]> (d)"
LARGEST = "MaxPool of integers needs opset 12 and a positive scale"
MOVES = {
    "Transpose": "y = Transpose <perm = [0, 2, 3, 1]> (d)",
    "Reshape": "y = Reshape (d, n)",
    "Slice": "y = Slice (d, i, j, i)",
    "Gather": "y = Gather <axis = 1> (d, i)",
    "Tile": "y = Tile (d, twice)",
    "MaxPool": POOL,
}

STAYS = [
    Stays(
        "elements with a scale each, moved",
        MOVED.format(ROWS, "<axis = 1> (W, s, z)", "Transpose (d)").replace(
            "(t, s", "<axis = 0> (t, s"
        ),
        "the quantization has more than one scale",
    ),
    Stays(
        "a sum of constants",
        MOVED.format(ONE, "(W, s, z)", "Add (d, d)").replace("[4,2]", "[2,4]"),
        None,
    ),
    Stays(
        "moved, with another scale",
        ACTIVATION.format(MOVES["Transpose"]).replace("(y, s", "(y, other"),
        None,
    ),
    Stays(
        "moved, and used as numbers",
        ACTIVATION.format(MOVES["Transpose"]).replace(" r)", " r, float[?,?,?,?] y)", 1),
        "an interior value is a graph output",
    ),
    Stays("added", ACTIVATION.format("y = Add (d, d)"), None),
    Stays(
        "the largest of a negative scale", ACTIVATION.format(POOL).replace("0.1", "-0.1"), LARGEST
    ),
    Stays("pooled in an old opset", ACTIVATION.format(POOL), LARGEST, opset=11),
    Stays(
        "pooled, of a type without a kernel",
        ACTIVATION.format(POOL).replace("uint8", "int16"),
        "no CPU kernel for MaxPool of such integers",
        opset=21,
    ),
    Stays(
        "another scale",
        graph("float s = {0.1}, float t = {0.2}, uint8 z = {3}", second="(d, t, z)"),
        None,
    ),
    Stays(
        "another zero point",
        graph("float s = {0.1}, uint8 z = {3}, uint8 o = {4}", second="(d, s, o)"),
        None,
    ),
    Stays("a zero point in one place only", graph(second="(d, s)"), None),
    Stays(
        "a scale from outside", graph("uint8 z = {3}").replace("[N,4] x", "[N,4] x, float s"), None
    ),
    Stays("a subnormal scale", graph("float s = {1e-40}, uint8 z = {3}"), RANGE),
    Stays("a large scale", graph("float s = {1e38}, uint8 z = {3}"), RANGE),
    Stays("float16", graph("float16 s = {1}, uint8 z = {3}"), TYPE, opset=19),
    Stays(
        "through float16",
        graph(second="<precision = 10> (d, s, z)"),
        "the numbers in between are less precise than float32",
        opset=23,
    ),
    Stays(
        "to float16",
        graph(first="<output_dtype = 10> (q, s, z)"),
        "the numbers in between are less precise than float32",
        opset=23,
        valid=False,
    ),
    Stays(
        "other blocks",
        graph(
            "float[2,4] s, uint8[2,4] z",
            first="<axis = 0, block_size = 2> (q, s, z)",
            second="<axis = 0, block_size = 3> (d, s, z)",
            shape="[4,4]",
        ),
        "the axes or the block sizes differ",
        opset=21,
        valid=False,
    ),
    Stays(
        "another axis",
        graph(ROWS, first="<axis = 0> (q, s, z)", shape="[4,4]"),
        "the axes or the block sizes differ",
    ),
    Stays(
        "the other way round",
        "agraph (float[N,4] x) => (float[N,4] y) <float s = {0.1}, uint8 z = {3}> { a = Flatten (x) "
        "q = QuantizeLinear (a, s, z) d = DequantizeLinear (q, s, z) y = Flatten (d) }",
        None,
    ),
]

FIRES = [
    *(
        Fires(f"{name} between", ACTIVATION.format(text), ["Transpose", name])
        for name, text in MOVES.items()
    ),
    Fires(
        "Expand between",
        ACTIVATION.format("y = Expand (d, wide)").replace("[?,?,?,?]", "[?,?,?,?,?]"),
        ["Transpose", "Expand"],
    ),
    Fires(
        "int8 pooled", ACTIVATION.format(POOL).replace("uint8", "int8"), ["Transpose", "MaxPool"]
    ),
    Fires(
        "several between",
        ACTIVATION.format(POOL.replace("y =", "p =") + " y = Transpose <perm = [0, 2, 3, 1]> (p)"),
        ["Transpose", "MaxPool", "Transpose"],
    ),
    Fires(
        "moved, of a negative scale",
        ACTIVATION.format(MOVES["Gather"]).replace("0.1", "-0.1"),
        ["Transpose", "Gather"],
    ),
    Fires(
        "moved, and what is dequantized used elsewhere",
        ACTIVATION.format(MOVES["Gather"] + " o = Neg (d)").replace(
            " r)", " r, float[?,?,?,?] o)", 1
        ),
        ["Transpose", "DequantizeLinear", "Neg", "Gather"],
    ),
    Fires(
        "a constant, transposed",
        MOVED.format(ONE, "(W, s, z)", "Transpose (d)"),
        ["Transpose", "Max"],
    ),
    Fires(
        "a constant, reshaped",
        MOVED.format(ONE + ", int64[2] n = {4, 2}", "(W, s, z)", "Reshape (d, n)"),
        ["Reshape", "Max"],
    ),
    Fires("uint8", graph(), ["Flatten", "Flatten"]),
    Fires(
        "int8", graph("float s = {0.037}, int8 z = {-128}", type_="int8"), ["Flatten", "Flatten"]
    ),
    Fires(
        "uint16",
        graph("float s = {0.0037}, uint16 z = {65535}", type_="uint16"),
        ["Flatten", "Flatten"],
        opset=21,
    ),
    Fires("for each place of an axis", graph(ROWS), ["Flatten", "Flatten"]),
    Fires("a scale below 0", graph("float s = {-0.1}, uint8 z = {3}"), ["Flatten", "Flatten"]),
    Fires("onnxruntime's own", graph(domain="com.microsoft."), ["Flatten", "Flatten"]),
    Fires(
        "what is dequantized is used elsewhere",
        graph()
        .replace("[N,4] y", "[N,4] y, float[N,4] o")
        .replace("y = Flatten (r)", "y = Flatten (r) o = Neg (d)"),
        ["Flatten", "DequantizeLinear", "Flatten", "Neg"],
    ),
]

test_stays, test_fires = tables("RequantizeRemovePass", STAYS, FIRES)
