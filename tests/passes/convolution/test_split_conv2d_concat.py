from harness import Fires, Stays, optimize, parse, pass_of, seen_by_subgraph, tables


def graph(
    first: str = "Conv (p, W1, B1)",
    second: str = "Conv (q, W2, B2)",
    concat: str = "Concat <axis = 1> (s, t)",
    split: str = "p, q = Split <axis = 1, num_outputs = 2> (x)",
    W2: str = "float[4,3,3,3] W2",
    x: str = "float[N,6,5,5] x",
) -> str:
    return f"""agraph ({x}) => (float[N,a,b,c] y) <float[4,3,3,3] W1, float[4] B1, {W2}, float[4] B2> {{
        {split} s = {first} t = {second} y = {concat} }}"""


STAYS = [
    Stays("pieces in another order", graph("Conv (q, W1, B1)", "Conv (p, W2, B2)"), None),
    Stays("one piece twice", graph(second="Conv (p, W2, B2)"), None),
    Stays(
        "concatenated along the height",
        graph(concat="Concat <axis = 2> (s, t)"),
        "the axis is not that of the channels",
    ),
    Stays(
        "other strides",
        graph(
            second="Conv <strides = [2, 2], pads = [2, 2, 2, 2]> (q, W2, B2)", x="float[N,6,6,6] x"
        ),
        "the convolutions have different attributes",
    ),
    Stays(
        "other weights",
        graph(second="Conv <pads = [0, 0, 0, 0]> (q, W2, B2)", W2="float[4,3,3,3] W2")
        .replace("float[4,3,3,3] W2", "float[5,3,3,3] W2")
        .replace("float[4] B2", "float[5] B2"),
        "the weights have different shapes",
    ),
    Stays(
        "large weights are used elsewhere",
        graph(W2="float[4,3,300,300] W2", x="float[N,6,300,300] x, float[N,3,300,300] w")
        .replace("float[4,3,3,3] W1", "float[4,3,300,300] W1")
        .replace("(float[N,a,b,c] y)", "(float[N,a,b,c] y, float[N,d,e,f] z)")
        .replace("y = ", "z = Conv (w, W1) y = "),
        "large weights are used elsewhere: the model would grow",
    ),
    Stays(
        "an activation on one of them",
        graph(second="Relu (q)", concat="Concat <axis = 1> (s, s)"),
        None,
    ),
    Stays(
        "one convolution is used elsewhere",
        graph()
        .replace("y = ", "z = Relu (s) y = ")
        .replace("(float[N,a,b,c] y)", "(float[N,a,b,c] y, float[N,d,e,f] z)"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a subgraph uses a convolution",
        seen_by_subgraph(graph(), "s", "float[N,4,3,3]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a piece is a graph output",
        graph().replace("[N,a,b,c] y", "[N,a,b,c] y, float[N,3,5,5] p"),
        "an interior value is a graph output",
    ),
    *[
        Stays(
            f"another {name}",
            graph(
                f"Conv <{first}> (p, W1, B1)", f"Conv <{second}> (q, W2, B2)", x="float[N,6,7,7] x"
            ),
            "the convolutions have different attributes",
        )
        for name, first, second in (
            ("dilation", "dilations = [2, 2], pads = [1, 1, 1, 1]", "dilations = [1, 1]"),
            ("padding", "pads = [1, 0, 0, 0]", "pads = [0, 0, 1, 0]"),
            ("auto_pad", 'auto_pad = "SAME_UPPER"', 'auto_pad = "SAME_LOWER"'),
        )
    ],
    Stays(
        "weights from outside",
        graph(W2="float[1] unused", x="float[N,6,5,5] x, float[4,3,3,3] W2"),
        None,
    ),
    Stays(
        "split along the height",
        graph(
            split="p, q = Split <axis = 2, num_outputs = 2> (x)",
            x="float[N,3,6,5] x",
            concat="Concat <axis = 2> (s, t)",
        ),
        "the axis is not that of the channels",
    ),
    Stays(
        "pieces of different sizes",
        graph(
            split="p, q = Split <axis = 1> (x, k)",
            W2="int64[2] k = {3,4}, float[4,4,3,3] W2",
            x="float[N,7,5,5] x",
        ),
        "the weights have different shapes",
    ),
    Stays(
        "one piece goes another way",
        graph(
            split="p, q, r = Split <axis = 1, num_outputs = 3> (x)",
            x="float[N,9,5,5] x",
            concat="Concat <axis = 1> (s, t)",
        ),
        None,
    ),
    Stays(
        "a value beside the convolutions",
        graph(concat="Concat <axis = 1> (s, t, t)", second="Conv (q, W2, B2)"),
        None,
    ),
    Stays(
        "split along the height, concatenated along the channels",
        graph(split="p, q = Split <axis = 2, num_outputs = 2> (x)", x="float[N,3,6,5] x"),
        "the axis is not that of the channels",
    ),
    Stays(
        "one piece",
        "agraph (float[N,3,5,5] x) => (float[N,a,b,c] y) <float[4,3,3,3] W> "
        "{ p = Split <axis = 1, num_outputs = 1> (x) s = Conv (p, W) y = Concat <axis = 1> (s) }",
        None,
    ),
]

FIRES = [
    Fires("with biases", graph(), ["Conv"]),
    Fires("without biases", graph("Conv (p, W1)", "Conv (q, W2)"), ["Conv"]),
    Fires("one bias", graph("Conv (p, W1)"), ["Conv"]),
    Fires(
        "negative axes",
        graph(
            concat="Concat <axis = -3> (s, t)",
            split="p, q = Split <axis = -3, num_outputs = 2> (x)",
        ),
        ["Conv"],
    ),
    Fires(
        "attributes",
        graph(
            "Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (p, W1, B1)",
            "Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (q, W2, B2)",
        ),
        ["Conv"],
    ),
    Fires(
        "attributes written out and left at their defaults",
        graph("Conv <group = 1> (p, W1, B1)"),
        ["Conv"],
    ),
    Fires(
        "grouped already",
        graph(
            "Conv <group = 2> (p, W1, B1)", "Conv <group = 2> (q, W2, B2)", x="float[N,12,5,5] x"
        ),
        ["Conv"],
    ),
    Fires("the same weights twice", graph(second="Conv (q, W1, B1)"), ["Conv"]),
    Fires(
        "three pieces",
        """agraph (float[N,6,5,5] x) => (float[N,a,b,c] y)
           <float[4,2,3,3] W1, float[4,2,3,3] W2, float[4,2,3,3] W3, float[4] B2> {
            p, q, r = Split <axis = 1, num_outputs = 3> (x)
            s = Conv (p, W1)
            t = Conv (q, W2, B2)
            u = Conv (r, W3)
            y = Concat <axis = 1> (s, t, u)
        }""",
        ["Conv"],
    ),
    Fires(
        "depthwise",
        graph(
            "Conv <group = 3> (p, W1)", "Conv <group = 3> (q, W2)", W2="float[3,1,3,3] W2"
        ).replace("[4,3,3,3] W1", "[3,1,3,3] W1"),
        ["Conv"],
    ),
    Fires(
        "1-D",
        graph(x="float[N,6,5] x", W2="float[4,3,3] W2")
        .replace("[4,3,3,3] W1", "[4,3,3] W1")
        .replace("[N,a,b,c]", "[N,a,b]"),
        ["Conv"],
    ),
    Fires(
        "3-D",
        graph("Conv (p, W1)", "Conv (q, W2)", x="float[N,6,3,4,3] x", W2="float[4,3,2,2,2] W2")
        .replace("[4,3,3,3] W1", "[4,3,2,2,2] W1")
        .replace("[N,a,b,c]", "[N,a,b,c,d]"),
        ["Conv"],
    ),
    Fires(
        "auto_pad",
        graph(*(f'Conv <auto_pad = "SAME_UPPER"> ({x})' for x in ("p, W1, B1", "q, W2"))),
        ["Conv"],
    ),
    Fires("float16", graph().replace("float[", "float16["), ["Conv"]),
    Fires(
        "sizes written out",
        graph(split="p, q = Split <axis = 1> (x, k)", W2="int64[2] k = {3,3}, float[4,3,3,3] W2"),
        ["Conv"],
    ),
    Fires(
        "unknown height and width", graph(x="float[N,6,H,K] x"), ["Conv"], sizes={"H": 3, "K": 5}
    ),
    Fires(
        "opset 11, sizes an attribute",
        graph(split="p, q = Split <axis = 1, split = [3, 3]> (x)"),
        ["Conv"],
        opset=11,
    ),
    Fires(
        "opset 9, IR version 3",
        graph(split="p, q = Split <axis = 1> (x)"),
        ["Conv"],
        opset=9,
        ir_version=3,
    ),
    Fires("opset 22", graph(), ["Conv"], opset=22),
]

test_stays, test_fires = tables("ASplitConv2dConcatPass", STAYS, FIRES)


def test_no_bias_is_made_up() -> None:
    result, _ = optimize(
        parse(graph("Conv (p, W1)", "Conv (q, W2)")), [pass_of("ASplitConv2dConcatPass")]
    )
    assert [len(node.input) for node in result.graph.node] == [2]
