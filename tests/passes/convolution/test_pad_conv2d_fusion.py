from harness import Fires, Stays, optimize, parse, pass_of, seen_by_subgraph, tables


def graph(
    pad: str = "Pad (x, p)",
    pads: str = "int64[8] p = {0,0,1,2,0,0,3,4}",
    conv: str = "Conv (a, W, B)",
    W: str = "float[4,3,3,3] W",
    x: str = "float[N,3,6,6] x",
    more: str = "",
) -> str:
    out = ",".join("abcde"[: x.count(",") + 1])
    return f"agraph ({x}{more}) => (float[{out}] y) <{W}, float[4] B{pads and ', ' + pads}> {{ a = {pad} y = {conv} }}"


def integers(
    conv: str = "ConvInteger (a, W, z)",
    pad: str = "Pad (x, p, v)",
    values: str = "uint8 v = {3}, uint8 z = {3}",
    x: str = "uint8[N,2,5,5] x",
    kind: str = "uint8",
    more: str = "",
) -> str:
    weights = ",".join(str(k * 7 % 11) for k in range(36))
    quantized = f"float s = {{0.5}}, float t = {{0.25}}, float r = {{4}}, {kind} q = {{9}}"
    return (
        f"agraph ({x}{more}) => ({kind if conv.startswith('Q') else 'int32'}[a,b,c,d] y) "
        f"<{kind}[2,2,3,3] W = {{{weights}}}, int64[8] p = {{0,0,1,2,0,0,0,1}}, {values}, {quantized}> "
        f"{{ a = {pad} y = {conv} }}"
    )


NOT_ZERO = "the padding is not zero"
QLINEAR = "QLinearConv (a, s, z, W, t, w, r, q)"
ZEROS = "uint8 v = {3}, uint8 z = {3}, uint8 w = {5}"
UNKNOWN_ZERO = "the zero point is not a single number that is known before the model runs"
STAYS = [
    Stays(
        "weights without an axis of an image",
        "agraph (float[1,2,4,4] x, float[3,2] W) => (float[a,b,c,d] y) <int64[8] p = {0,0,1,1,0,0,1,1}> { a = Pad (x, p) y = Conv (a, W) }",
        "the rank of the weights is less than 3",
        valid=False,
    ),
    *[
        Stays(name, integers(conv, values=values, more=more), reason)
        for name, conv, values, more, reason in (
            (
                "not the zero point",
                "ConvInteger (a, W, z)",
                "uint8 v = {3}, uint8 z = {4}",
                "",
                NOT_ZERO,
            ),
            ("no zero point", "ConvInteger (a, W)", "uint8 v = {3}", "", NOT_ZERO),
            ("the zero point of the weights", "ConvInteger (a, W, , z)", ZEROS, "", NOT_ZERO),
            (
                "a zero point from outside",
                "ConvInteger (a, W, o)",
                ZEROS,
                ", uint8 o",
                UNKNOWN_ZERO,
            ),
            ("QLinearConv, not the zero point", QLINEAR, ZEROS.replace("3", "1", 1), "", NOT_ZERO),
            (
                "QLinearConv, a zero point from outside",
                QLINEAR.replace("z", "o"),
                ZEROS,
                ", uint8 o",
                UNKNOWN_ZERO,
            ),
        )
    ],
    Stays(
        "ConvInteger, channels",
        integers().replace("{0,0,1,2,0,0,0,1}", "{0,1,0,0,0,0,0,0}").replace("N,2", "N,1"),
        "batch or channels are padded",
    ),
    Stays(
        "weights that are padded",
        "agraph (uint8[1,2,5,5] x, uint8[2,2,3,3] w) => (int32[a,b,c,d] y) <int64[8] p = {0,0,1,1,0,0,1,1}> { a = Pad (w, p) y = ConvInteger (x, a) }",
        None,
    ),
    Stays(
        "another value",
        graph("Pad (x, p, v)", "int64[8] p = {0,0,1,2,0,0,3,4}, float v = {1}"),
        "the padding is not zero",
    ),
    Stays(
        "reflected",
        graph('Pad <mode = "reflect"> (x, p)', "int64[8] p = {0,0,1,1,0,0,1,1}"),
        "the padding is not constant",
    ),
    Stays(
        "channels",
        graph(pads="int64[8] p = {0,1,0,0,0,1,0,0}", W="float[4,5,3,3] W"),
        "batch or channels are padded",
    ),
    Stays("batch", graph(pads="int64[8] p = {1,0,0,0,0,0,0,0}"), "batch or channels are padded"),
    Stays(
        "one number for an axis",
        graph("Pad (x, p, , n)", "int64[3] p = {1,0,0}, int64[3] n = {1,2,3}"),
        "the Pad does not have two numbers for each axis",
        valid=False,
    ),
    Stays("negative", graph(pads="int64[8] p = {0,0,-1,0,0,0,0,0}"), "the padding is negative"),
    Stays(
        "pads from outside",
        graph(pads="", more=", int64[8] p"),
        "the padding is not constant",
    ),
    Stays(
        "auto_pad",
        graph(conv='Conv <auto_pad = "SAME_UPPER"> (a, W, B)'),
        "the Conv computes its own padding",
    ),
    Stays(
        "used twice",
        "agraph (float[N,3,6,6] x) => (float[N,a,b,c] y, float[N,3,d,e] z) <float[4,3,3,3] W, "
        "int64[8] p = {0,0,1,1,0,0,1,1}> { a = Pad (x, p) y = Conv (a, W) z = Relu (a) }",
        "an interior value is used elsewhere",
    ),
    Stays(
        "padded weights",
        "agraph (float[N,3,6,6] x, float[4,3,1,1] W) => (float[N,a,b,c] y) <int64[8] p = {0,0,1,1,0,0,1,1}> "
        "{ a = Pad (W, p) y = Conv (x, a) }",
        None,
    ),
    Stays(
        "a subgraph uses what is padded",
        seen_by_subgraph(graph(), "a", "float[N,3,10,12]"),
        "an interior value is used elsewhere",
    ),
    *[
        Stays(
            f"mode {mode}",
            graph(f'Pad <mode = "{mode}"> (x, p)', "int64[8] p = {0,0,1,1,0,0,1,1}"),
            "the padding is not constant",
            opset=19,
        )
        for mode in ("edge", "wrap")
    ],
    Stays(
        "auto_pad SAME_LOWER",
        graph(conv='Conv <auto_pad = "SAME_LOWER"> (a, W, B)'),
        "the Conv computes its own padding",
    ),
    Stays(
        "padding with NaN",
        graph("Pad (x, p, v)", "int64[8] p = {0,0,1,2,0,0,3,4}, float v = {nan}"),
        "the padding is not zero",
    ),
    *[
        Stays(
            f"{name} from outside",
            graph(f"Pad (x, {inputs})", pads, more=more),
            "the padding is not constant",
        )
        for name, inputs, pads, more in (
            ("the value", "p, v", "int64[8] p = {0,0,1,2,0,0,3,4}", ", float v"),
            ("the axes", "p, , axes", "int64[4] p = {1,2,3,4}", ", int64[2] axes"),
            ("a default of the pads", "p", "float unused", ", int64[8] p = {0,0,1,1,0,0,1,1}"),
        )
    ],
    Stays(
        "padding by another value, opset 10",
        graph("Pad <pads = [0, 0, 1, 2, 0, 0, 3, 4], value = 1.0> (x)", ""),
        "the padding is not zero",
        opset=10,
    ),
    Stays(
        "unknown rank",
        "agraph (float[N,3,6,6] x, float[M] w, int64[K] s) => (float[a,b,c,d] y) <int64[8] p = {0,0,1,1,0,0,1,1}> "
        "{ W = Reshape (w, s) a = Pad (x, p) y = Conv (a, W) }",
        "the rank of the weights is unknown",
    ),
    Stays(
        "the Pad is outside of the subgraph",
        """agraph (float[2,3,6,6] x, bool c) => (float[2,4,6,6] y) <float[4,3,3,3] W, int64[8] p = {0,0,1,1,0,0,1,1}> {
            a = Pad (x, p)
            y = If (c) <then_branch = t () => (float[2,4,6,6] q) { q = Conv (a, W) },
                        else_branch = e () => (float[2,4,6,6] r) { r = Conv (a, W) }>
        }""",
        None,
    ),
]

FIRES = [
    Fires("ConvInteger", integers(), ["ConvInteger"]),
    Fires(
        "ConvInteger without a zero point",
        integers("ConvInteger (a, W)", "Pad (x, p)"),
        ["ConvInteger"],
    ),
    Fires(
        "ConvInteger, a zero point for the weights",
        integers("ConvInteger (a, W, z, v)"),
        ["ConvInteger"],
    ),
    Fires(
        "ConvInteger with pads of its own",
        integers("ConvInteger <pads = [1,0,0,2]> (a, W, z)"),
        ["ConvInteger"],
    ),
    Fires("QLinearConv", integers(QLINEAR, values=ZEROS), ["QLinearConv"]),
    Fires(
        "QLinearConv with a bias",
        integers(QLINEAR.replace("q)", "q, B)"), values=ZEROS + ", int32[2] B = {7, -900}"),
        ["QLinearConv"],
    ),
    Fires(
        "QLinearConv of int8",
        integers(
            QLINEAR,
            values="int8 v = {-3}, int8 z = {-3}, int8 w = {0}",
            x="int8[N,2,5,5] x",
            kind="int8",
        ),
        ["QLinearConv"],
    ),
    Fires("no value", graph(), ["Conv"]),
    Fires(
        "value zero",
        graph("Pad (x, p, v)", "int64[8] p = {0,0,1,2,0,0,3,4}, float v = {0}"),
        ["Conv"],
    ),
    Fires("beside pads of its own", graph(conv="Conv <pads = [1, 0, 2, 0]> (a, W, B)"), ["Conv"]),
    Fires("auto_pad VALID", graph(conv='Conv <auto_pad = "VALID"> (a, W)'), ["Conv"]),
    Fires(
        "some axes",
        graph("Pad (x, p, , axes)", "int64[4] p = {1,2,3,4}, int64[2] axes = {-1,2}"),
        ["Conv"],
    ),
    Fires(
        "strides and dilations",
        graph(conv="Conv <strides = [2, 1], dilations = [1, 2]> (a, W, B)"),
        ["Conv"],
    ),
    Fires("depthwise", graph(conv="Conv <group = 3> (a, W)", W="float[3,1,3,3] W"), ["Conv"]),
    Fires(
        "1-D",
        graph(pads="int64[6] p = {0,0,1,0,0,2}", W="float[4,3,3] W", x="float[N,3,6] x"),
        ["Conv"],
    ),
    Fires(
        "opset 10, pads an attribute",
        graph("Pad <pads = [0, 0, 1, 2, 0, 0, 3, 4], value = 0.0> (x)", ""),
        ["Conv"],
        opset=10,
    ),
    Fires(
        "weights from outside",
        "agraph (float[N,3,6,6] x, float[4,3,3,3] W) => (float[N,a,b,c] y) <int64[8] p = {0,0,1,1,0,0,1,1}> "
        "{ a = Pad (x, p) y = Conv (a, W) }",
        ["Conv"],
    ),
    Fires(
        "3-D",
        graph(
            pads="int64[10] p = {0,0,1,0,2,0,0,0,1,1}",
            W="float[4,3,2,2,2] W",
            x="float[N,3,4,4,4] x",
        ),
        ["Conv"],
    ),
    Fires("grouped", graph(conv="Conv <group = 2> (a, W, B)", x="float[N,6,6,6] x"), ["Conv"]),
    Fires("nothing", graph(pads="int64[8] p = {0,0,0,0,0,0,0,0}"), ["Conv"]),
    Fires("more than the kernel", graph(pads="int64[8] p = {0,0,5,4,0,0,3,7}"), ["Conv"]),
    Fires("two Pads", graph("Pad (x, p) b = Pad (a, p)", conv="Conv (b, W)"), ["Conv"], 2),
    Fires(
        "unknown height and width", graph(x="float[N,3,H,K] x"), ["Conv"], sizes={"H": 1, "K": 4}
    ),
    Fires("float16", graph().replace("float[", "float16["), ["Conv"]),
    Fires(
        "opset 9, IR version 3, mode written out",
        graph('Pad <mode = "constant", pads = [0, 0, 1, 2, 0, 0, 3, 4]> (x)', ""),
        ["Conv"],
        opset=9,
        ir_version=3,
    ),
    *[Fires(f"opset {opset}", graph(), ["Conv"], opset=opset) for opset in (11, 13, 21, 22)],
]

test_stays, test_fires = tables("PadConv2dFusionPass", STAYS, FIRES, in_functions="never")


def test_paddings_of_opset_1() -> None:
    """onnxruntime has no kernel that old, so nothing is run."""
    model = parse(
        graph("Pad <paddings = [0, 0, 1, 2, 0, 0, 3, 4]> (x)", "", "Conv (a, W)"),
        opset=1,
        ir_version=3,
    )
    result, _ = optimize(model, [pass_of("PadConv2dFusionPass")])
    assert [(node.op_type, list(node.attribute[0].ints)) for node in result.graph.node] == [
        ("Conv", [1, 2, 3, 4])
    ]
