from harness import Fires, Stays, tables


def graph(
    first: str,
    second: str,
    constants: str = "",
    x: str = "float[2,3,4] x",
    y: str = "p,q,r",
    more: str = "",
    inputs: str = "",
) -> str:
    outputs = f"(float[{y}] y{more})"
    body = f"a = Relu (x) b = {first} c = {second} y = Neg (c)"
    body += " z = Abs (b)" if more else ""
    return f"agraph ({x}{inputs}) => {outputs} <{constants}> {{ {body} }}".replace("<> ", "")


TURN = "Transpose <perm = [1, 2, 0]>"
S = "int64[2] s = {6, 4}, int64[3] t = {3, 2, 4}"
BACK = "Transpose <perm = [2, 0, 1]>"


def sunk(
    body: str,
    x: str = "float[2,3,N] x",
    y: str = "float[A,B,C] y",
    constants: str = "float k = {2}",
) -> str:
    return f"agraph ({x}) => ({y}) <{constants}> {{ {body} }}"


def grouped(
    x: str = "2,3,N,5",
    joint: str = "-1,N,5",
    turn: str = "0,2,1",
    parted: str = "2,3,5,N",
    more: str = "",
) -> str:
    """Reshape, Transpose, Reshape, where N is made of the shape of x."""
    rank = parted.count(",") + 1
    outputs = f"float[{','.join('pqrst'[:rank])}] y"
    numbers = {name: text.split(",") for name, text in (("s", joint), ("t", parted))}
    constants = ["int64[1] i = {2}"]
    body = "n = Shape (x) N = Gather (n, i)"
    for name, texts in numbers.items():
        given = [f"{name}{k}" if text != "N" else "N" for k, text in enumerate(texts)]
        constants += [
            f"int64[1] {g} = {{{text}}}" for g, text in zip(given, texts, strict=True) if g != "N"
        ]
        body += f" {name} = Concat <axis = 0> ({', '.join(given)})"
    body += f" a = Reshape (x, s) b = Transpose <perm = [{turn}]> (a) y = Reshape (b, t)"
    return f"agraph (float[{x}] x) => ({outputs}{more}) <{', '.join(constants)}> {{ {body} }}"


NOT_PARTED = "the axes are not known to be joined and split again"
SCALES = "float s = {0.5}, uint8 z = {3}, float[4] p = {1, 0.5, 2, 0.25}, uint8[4] v = {3, 4, 5, 6}, float[1] o = {0.5}"


def quantized(
    body: str, y: str = "float[N,2,3,4] y", constants: str = SCALES, more: str = ""
) -> str:
    """Transposes to channels last and back, and what is between them."""
    first = "a = Transpose <perm = [0, 2, 3, 1]> (x)"
    last = "y = Transpose <perm = [0, 3, 1, 2]> (d)"
    return f"agraph (float[N,4,2,3] x{more}) => (float[N,4,2,3] y) <{constants}> {{ {first} {body} {last} }}"


TWO = "float[2,3,N] x, float[2,3,N] w"
COPIES = "the shape copies a dimension that would move"
STAYS = [
    Stays(
        "a Flatten to unknown sizes",
        graph(
            "Unsqueeze (a, t)", "Flatten (b)", "int64[1] t = {2}", "float[N,M,4] x", "p,q"
        ).replace("M,4", "M,K"),
        "both sizes of the matrix are unknown, or one is 0",
    ),
    Stays(
        "a Flatten to nothing",
        graph("Unsqueeze (a, t)", "Flatten (b)", "int64[1] t = {2}", "float[2,0,4] x", "2,0"),
        "both sizes of the matrix are unknown, or one is 0",
    ),
    Stays(
        "a Flatten, and what it takes is used elsewhere",
        graph(
            "Unsqueeze (a, t)",
            "Flatten (b)",
            "int64[1] t = {2}",
            "float[2,3,4] x",
            "p,q",
            ", float[2,3,1,4] z",
        ),
        "an interior value is used elsewhere",
    ),
    Stays(
        "quantized by blocks",
        quantized(
            "q = QuantizeLinear <axis = 3, block_size = 2> (a, w) d = DequantizeLinear <axis = 3, block_size = 2> (q, w)",
            constants="float[1,2,3,2] w",
        ).replace("[N,", "[1,"),
        None,
        opset=21,
    ),
    Stays(
        "a scale for each place of axis 1, which no attribute says below opset 13",
        quantized(
            "q = QuantizeLinear (a, r, u) d = DequantizeLinear (q, r, u)",
            constants="float[2] r, uint8[2] u = {0, 9}",
        ),
        None,
        opset=10,
    ),
    Stays(
        "quantized by itself",
        quantized(
            "q, s, z = DynamicQuantizeLinear (a) d = DequantizeLinear (q, s, z)",
            constants="float unused",
        ),
        None,
    ),
    Stays(
        "a scale of an unknown rank",
        quantized(
            "t = Reshape (w, n) q = QuantizeLinear (a, t) d = DequantizeLinear (q, t)",
            constants="float unused",
            more=", float[k] w, int64[m] n",
        ),
        None,
    ),
    Stays(
        "no Transpose less",
        sunk(f"a = {TURN} (x) b = Relu (a) y = {TURN} (b)", y="float[A,B,C] y, float[D,E,F] a"),
        None,
    ),
    Stays(
        "used between them",
        sunk(f"a = {TURN} (x) b = Relu (a) y = {BACK} (b)", y="float[A,B,C] y, float[D,E,F] b"),
        "an interior value is a graph output",
    ),
    Stays(
        "a constant of a higher rank",
        sunk(
            f"a = {TURN} (x) b = Add (a, k) y = Transpose (b)",
            y="float[A,B,C,D] y",
            constants="float[1,1,1,1] k = {2}",
        ),
        None,
    ),
    Stays(
        "a value that is not transposed",
        sunk(f"a = {TURN} (x) b = Add (a, w) y = {BACK} (b)", "float[2,3,N] x, float[N] w"),
        None,
    ),
    Stays(
        "transposed in other ways",
        sunk(f"a = {TURN} (x) b = {BACK} (w) y = Add (a, b)", "float[2,2,2] x, float[2,2,2] w"),
        None,
    ),
    Stays(
        "one of two stays",
        sunk(
            f"a = {TURN} (x) b = {TURN} (w) y = Add (a, b)", TWO, "float[A,B,C] y, float[D,E,F] a"
        ),
        None,
    ),
    Stays("not elementwise", sunk(f"a = {TURN} (x) b = Softmax (a) y = {BACK} (b)"), None),
    Stays(
        "transposed outside of a branch",
        "agraph (float[2,3,4] x, bool c) => (float[2,3,4] y) { a = Transpose (x) y = If (c) <then_branch = t () => (float[2,3,4] u) "
        "{ b = Relu (a) u = Transpose (b) }, else_branch = e () => (float[2,3,4] v) { v = Relu (x) }> }",
        None,
    ),
    Stays("a function", sunk(f"a = {TURN} (x) b = Log (a) y = {BACK} (b)"), None),
    Stays(
        "a function and arithmetic",
        sunk(f"a = {TURN} (x) b = Exp (a) c = Neg (b) y = {BACK} (c)"),
        None,
    ),
    Stays("the larger of zeros", sunk(f"a = {TURN} (x) b = Max (k, a) y = {BACK} (b)"), None),
    Stays("a value twice", sunk(f"a = {TURN} (x) y = Add (a, a)"), None),
    Stays("parted in another order", grouped(parted="3,2,5,N"), NOT_PARTED),
    Stays("parted into other axes", grouped(x="4,3,N,5", parted="2,6,5,N"), NOT_PARTED),
    Stays(
        "joined with another axis",
        grouped(x="2,6,N,5", joint="4,-1,5", turn="1,0,2", parted="N,2,6,5"),
        NOT_PARTED,
    ),
    Stays(
        "joined with one of two in front",
        grouped(x="4,3,N,5", joint="2,-1,5", turn="1,0,2", parted="3,N,4,5"),
        NOT_PARTED,
    ),
    Stays("as many axes as before", grouped(x="2,3,N", joint="2,3,N", parted="2,N,3"), NOT_PARTED),
    Stays(
        "an axis of one element comes and goes",
        grouped(x="6,2,N", joint="6,2,1,N", turn="3,2,1,0", parted="N,2,6"),
        NOT_PARTED,
    ),
    *[
        Stays(
            f"{name} is of an unknown rank",
            f"agraph ({inputs}) => (float[p,q,r,u] y) <{constants}> "
            "{ a = Reshape (x, s) b = Transpose <perm = [0,2,1]> (a) y = Reshape (b, t) }",
            "the ranks are unknown",
            valid="[]" not in inputs,
        )
        for name, inputs, constants in (
            ("the value", "float[] x", "int64[3] s = {2,-1,5}, int64[4] t = {2,5,3,4}"),
            ("the joint one", "float[2,3,4,5] x, int64[n] s", "int64[4] t = {2,5,3,4}"),
            ("the result", "float[2,3,4,5] x, int64[n] t", "int64[3] s = {2,12,5}"),
        )
    ],
    Stays(
        "parted, not joined",
        grouped(x="6,5,N", joint="2,3,5,N", turn="2,0,1,3", parted="5,6,N"),
        NOT_PARTED,
    ),
    Stays(
        "joined, of an unknown shape",
        "agraph (float[A,B,C,D] x, int64[3] s) => (float[p,q,r,s] y) <int64[4] t = {2,3,5,4}> "
        "{ a = Reshape (x, s) b = Transpose <perm = [0,2,1]> (a) y = Reshape (b, t) }",
        NOT_PARTED,
    ),
    Stays(
        "joined and used", grouped(more=", float[u,v,w] a"), "an interior value is a graph output"
    ),
    Stays(
        "used in between",
        graph(f"{TURN} (a)", f"{TURN} (b)", more=", float[u,v,w] z"),
        "an interior value is used elsewhere",
    ),
    *[
        Stays(
            f"a shape that copies {name}",
            f"agraph (float[{x}] x{more}) => (float[{y}] y) <int64[{first.count(',') + 1}] s = {{{first}}}{second}> "
            "{ b = Reshape (x, s) y = Reshape (b, t) }",
            "the second shape may copy dimensions of the first",
            valid=bool(x and y),
        )
        for name, x, first, second, y, more in (
            (
                "an unknown one, with a rest",
                "N,6",
                "-1,4",
                ", int64[3] t = {0, 2, -1}",
                "p,q,r",
                "",
            ),
            (
                "one of two that may be empty",
                "N,K,4",
                "0,-1",
                ", int64[3] t = {0, 0, 1}",
                "p,q,r",
                "",
            ),
            ("what an unknown rank has", "", "-1,4", ", int64[2] t = {0, -1}", "", ""),
            ("what comes from outside", "2,3,4", "6,4", "", "p,q,r", ", int64[3] t"),
            ("what comes from outside, of any length", "2,3,4", "6,4", "", "", ", int64[n] t"),
        )
    ],
    Stays(
        "other axes",
        graph(
            "Unsqueeze (a, s)",
            "Squeeze (b, t)",
            "int64[1] s = {0}, int64[1] t = {1}",
            "float[1,4] x",
            "p,q",
        ),
        "the axes of the two operators differ",
    ),
    Stays(
        "negative axes of another tensor",
        graph(
            "Squeeze (a, s)",
            "Unsqueeze (b, t)",
            "int64[1] s = {-1}, int64[1] t = {0}",
            "float[4,1] x",
            "p,q",
        ),
        "the axes of the two operators differ",
    ),
    Stays(
        "axes that are not written",
        graph("Squeeze (a)", "Unsqueeze (b, t)", "int64[1] t = {0}", "float[1,4] x", "p,q"),
        "the axes are not constant",
    ),
]

STAYS += [
    Stays("an unknown shape behind", graph("Reshape (a, t)", "Unsqueeze (b, s)", "int64[1] s = {0}", "float[2,3] x", "p,q,r", inputs=", int64[2] t"), "the shape is not constant"),
    Stays("a shape behind that is no vector", graph("Reshape (a, t)", "Unsqueeze (b, s)", "int64[2,1] t = {3, 2}, int64[1] s = {0}", "float[2,3] x", "p,q,r"), "the shape is not a vector", valid=False),
    Stays("unknown axes behind", graph("Reshape (a, t)", "Unsqueeze (b, s)", "int64[2] t = {3, 2}", "float[2,3] x", "p,q,r", inputs=", int64[1] s"), "the axes are not constant"),
    Stays("unwritten axes behind", graph("Reshape (a, t)", "Squeeze (b)", "int64[3] t = {3, 1, 2}", "float[2,3] x", "p,q"), "the axes are not constant"),
    Stays("a copied dimension that would move", graph("Reshape (a, t)", "Unsqueeze (b, s)", "int64[2] t = {0, -1}, int64[1] s = {0}", "float[N,3,4] x"), COPIES),
    Stays("a copied dimension behind that would move", graph("Reshape (a, t)", "Squeeze (b, s)", "int64[3] t = {1, 0, -1}, int64[1] s = {0}", "float[1,N,3,4] x", "p,q"), COPIES),
    Stays("an axis that may be longer", graph("Reshape (a, t)", "Squeeze (b, s)", "int64[3] t = {-1, 3, 4}, int64[1] s = {0}", "float[N,3,4] x", "p,q"), "an axis is not known to have one element"),
    Stays("a copied axis that may be longer", graph("Reshape (a, t)", "Squeeze (b, s)", "int64[2] t = {0, -1}, int64[1] s = {0}", "float[N,3,4] x", "p"), "an axis is not known to have one element"),
    Stays("what an Expand repeats", graph("Reshape (a, t)", "Unsqueeze (b, s)", "int64[2] t = {-1, 4}, int64[1] s = {1}, int64[3] w = {1, 2, 1}", "float[N,3,4] x").replace("Neg (c)", "Expand (c, w)"), "an Expand repeats the new axis, which identifies attention"),
    Stays("a Reshape that is used elsewhere", graph("Reshape (a, t)", "Unsqueeze (b, s)", "int64[2] t = {-1, 4}, int64[1] s = {1}", "float[N,3,4] x", more=", float[u,v] z"), "an interior value is used elsewhere"),
]  # fmt: skip

FIRES = [
    Fires(
        "a quantized constant of fewer axes, with a scale for each of one",
        """agraph (float[2,3,3] x) => (float[2,3,3] y) <int8[3,3] c = {1,2,3,4,5,6,7,8,9}, float[3] s = {1,10,100}> {
        a = Transpose <perm = [0,2,1]> (x) d = DequantizeLinear <axis = 0> (c, s) e = Add (a, d)
        y = Transpose <perm = [0,2,1]> (e) }""",
        ["DequantizeLinear", "Add"],
    ),
    Fires(
        "the same, counted from the end",
        """agraph (float[2,3,3] x) => (float[2,3,3] y) <int8[3,3] c = {1,2,3,4,5,6,7,8,9}, float[3] s = {1,10,100}> {
        a = Transpose <perm = [0,2,1]> (x) d = DequantizeLinear <axis = -1> (c, s) e = Add (a, d)
        y = Transpose <perm = [0,2,1]> (e) }""",
        ["DequantizeLinear", "Add"],
    ),
    *[
        Fires(f"quantized, {name}", quantized(body), left, opset=opset)
        for name, body, left, opset in (
            (
                "one scale",
                "q = QuantizeLinear (a, s, z) d = DequantizeLinear (q, s, z)",
                ["QuantizeLinear", "DequantizeLinear"],
                18,
            ),
            (
                "one scale beside an axis that is not there",
                "q = QuantizeLinear <axis = 7> (a, o) d = DequantizeLinear <axis = -9> (q, o)",
                ["QuantizeLinear", "DequantizeLinear"],
                18,
            ),
            (
                "opset 10",
                "q = QuantizeLinear (a, s, z) d = DequantizeLinear (q, s, z)",
                ["QuantizeLinear", "DequantizeLinear"],
                10,
            ),
            (
                "a scale for each channel",
                "q = QuantizeLinear <axis = 3> (a, p, v) d = DequantizeLinear <axis = -1> (q, p, v)",
                ["QuantizeLinear", "DequantizeLinear"],
                18,
            ),
            (
                "and more",
                "b = Relu (a) q = QuantizeLinear <axis = -1> (b, p) e = DequantizeLinear (q, s, z) d = Neg (e)",
                ["Relu", "QuantizeLinear", "DequantizeLinear", "Neg"],
                18,
            ),
        )
    ],
    *[
        Fires(
            f"Reshape to a shape that copies {name}",
            f"agraph (float[{x}] x{more}) => (float[{y}] y) <int64[{first.count(',') + 1}] s = {{{first}}}{second}> "
            "{ b = Reshape (x, s) y = Reshape (b, t) }",
            ["Reshape"],
        )
        for name, x, first, second, y, more in (
            ("a known one", "2,3,4", "6,4", ", int64[3] t = {0, 2, 2}", "p,q,r", ""),
            ("a known one, with a rest", "3,N,4", "4,-1,3", ", int64[2] t = {0, -1}", "p,q", ""),
            ("that of x", "N,4,6", "0,12,2", ", int64[2] t = {0, -1}", "p,q", ""),
            ("an unknown one", "N,4", "-1,2,2", ", int64[2] t = {0, 4}", "p,q", ""),
        )
    ],
    Fires("from input to output", sunk(f"a = {TURN} (x) y = {BACK} (a)"), ["Identity"]),
    *[
        Fires(
            f"Reshape, {name}",
            graph("Reshape (a, t)", f"{name.split()[0]} (b, s)", constants, x, y),
            ["Relu", "Reshape", "Neg"],
        )
        for name, constants, x, y in (
            (
                "Unsqueeze behind",
                "int64[3] t = {-1, 2, 6}, int64[1] s = {3}",
                "float[N,3,4] x",
                "p,q,r,s",
            ),
            (
                "Unsqueeze in front",
                "int64[2] t = {-1, 6}, int64[2] s = {0, -2}",
                "float[N,3,4] x",
                "p,q,r,s",
            ),
            (
                "Unsqueeze of a scalar",
                "int64[0] t = {}, int64[2] s = {0, 1}",
                "float[1,1,1] x",
                "p,q",
            ),
            (
                "Unsqueeze behind what is copied",
                "int64[2] t = {0, -1}, int64[1] s = {1}",
                "float[N,3,4] x",
                "p,q,r",
            ),
            (
                "Unsqueeze before a known one that is copied",
                "int64[2] t = {-1, 0}, int64[1] s = {0}",
                "float[N,3,4] x",
                "p,q,r",
            ),
            (
                "Squeeze",
                "int64[4] t = {1, -1, 1, 6}, int64[2] s = {-2, 0}",
                "float[N,3,4] x",
                "p,q",
            ),
            (
                "Squeeze behind what is copied",
                "int64[3] t = {0, 1, -1}, int64[1] s = {1}",
                "float[N,3,4] x",
                "p,q",
            ),
            (
                "Squeeze of what is copied",
                "int64[2] t = {0, -1}, int64[1] s = {0}",
                "float[1,N,4] x",
                "p",
            ),
            (
                "Squeeze of what is left",
                "int64[3] t = {3, -1, 4}, int64[1] s = {1}",
                "float[3,4] x",
                "p,q",
            ),
        )
    ],
    Fires(
        "Reshape that takes 0 for 0, Unsqueeze",
        graph(
            "Reshape <allowzero = 1> (a, t)",
            "Unsqueeze (b, s)",
            "int64[2] t = {0, 4}, int64[1] s = {0}",
            "float[N,0,4] x",
        ),
        ["Relu", "Reshape", "Neg"],
    ),
    Fires(
        "Reshape, Unsqueeze, opset 11",
        graph(
            "Reshape (a, t)", "Unsqueeze <axes = [1]> (b)", "int64[2] t = {-1, 4}", "float[N,3,4] x"
        ),
        ["Relu", "Reshape", "Neg"],
        opset=11,
    ),
    Fires("back again", graph(f"{TURN} (a)", "Transpose <perm = [2, 0, 1]> (b)"), ["Relu", "Neg"]),
    Fires("further", graph(f"{TURN} (a)", f"{TURN} (b)"), ["Relu", "Transpose", "Neg"]),
    Fires("the default twice", graph("Transpose (a)", "Transpose (b)"), ["Relu", "Neg"]),
    Fires(
        "the default and another",
        graph("Transpose (a)", f"{TURN} (b)"),
        ["Relu", "Transpose", "Neg"],
    ),
    Fires(
        "another and the default",
        graph(f"{TURN} (a)", "Transpose (b)"),
        ["Relu", "Transpose", "Neg"],
    ),
    Fires("two Reshapes", graph("Reshape (a, s)", "Reshape (b, t)", S), ["Relu", "Reshape", "Neg"]),
    Fires(
        "an open dimension",
        graph(
            "Reshape (a, s)",
            "Reshape (b, t)",
            "int64[2] s = {-1, 4}, int64[3] t = {4, -1, 3}",
            "float[N,3,4] x",
        ),
        ["Relu", "Reshape", "Neg"],
    ),
    *(
        Fires(
            f"a Flatten of a {name}",
            graph(first, second, constants, x, "p,q"),
            ["Relu", "Reshape", "Neg"],
        )
        for name, first, second, constants, x in [
            (
                "Reshape",
                "Reshape (a, t)",
                "Flatten (b)",
                "int64[4] t = {-1, 12, 1, 1}",
                "float[N,3,4] x",
            ),
            (
                "Squeeze",
                "Squeeze (a, t)",
                "Flatten <axis = 2> (b)",
                "int64[1] t = {0}",
                "float[1,N,3,4] x",
            ),
            ("Unsqueeze", "Unsqueeze (a, t)", "Flatten (b)", "int64[1] t = {2}", "float[2,N,M] x"),
            ("Flatten", "Flatten (a)", "Flatten <axis = 0> (b)", "", "float[2,3,4] x"),
        ]
    ),
    Fires(
        "Flatten",
        graph("Flatten (a)", "Reshape (b, t)", "int64[3] t = {-1, 2, 6}"),
        ["Relu", "Reshape", "Neg"],
    ),
    Fires(
        "three",
        "agraph (float[2,6] x) => (float[a,b] y) <int64[2] s = {3,4}, int64[2] t = {4,3}, int64[2] u = {12,1}> "
        "{ p = Reshape (x, s) q = Reshape (p, t) y = Reshape (q, u) }",
        ["Reshape"],
        2,
    ),
    Fires(
        "Squeeze of Unsqueeze",
        graph("Unsqueeze (a, s)", "Squeeze (b, t)", "int64[1] s = {-1}, int64[1] t = {3}"),
        ["Relu", "Neg"],
    ),
    Fires(
        "Unsqueeze of Squeeze",
        graph(
            "Squeeze (a, s)",
            "Unsqueeze (b, t)",
            "int64[1] s = {1}, int64[1] t = {-2}",
            "float[N,1,4] x",
        ),
        ["Relu", "Neg"],
    ),
    Fires(
        "Unsqueeze twice",
        graph(
            "Unsqueeze (a, s)",
            "Unsqueeze (b, t)",
            "int64[1] s = {1}, int64[2] t = {0, -1}",
            "float[3,4] x",
            "p,q,r,s,t",
        ),
        ["Relu", "Unsqueeze", "Neg"],
    ),
    Fires(
        "Unsqueeze before what was one",
        graph(
            "Unsqueeze (a, s)",
            "Unsqueeze (b, t)",
            "int64[1] s = {0}, int64[1] t = {1}",
            "float[3,4] x",
            "p,q,r,s",
        ),
        ["Relu", "Unsqueeze", "Neg"],
    ),
    Fires(
        "Squeeze twice",
        graph(
            "Squeeze (a, s)",
            "Squeeze (b, t)",
            "int64[1] s = {1}, int64[2] t = {0, -1}",
            "float[1,1,3,4,1] x",
            "p,q",
        ),
        ["Relu", "Squeeze", "Neg"],
    ),
    Fires("joined, turned, parted: torch's keys", grouped(), ["Transpose"]),
    Fires(
        "joined behind",
        grouped(x="2,6,N,5", joint="2,6,-1", parted="2,N,5,6"),
        ["Transpose"],
    ),
    Fires(
        "joined between, the default",
        "agraph (float[2,3,4,5] x) => (float[p,q,r,s] y) <int64[3] s = {2,12,5}, int64[4] t = {5,3,4,2}> "
        "{ a = Reshape (x, s) b = Transpose (a) y = Reshape (b, t) }",
        ["Transpose"],
    ),
    Fires("through Relu", sunk(f"a = {TURN} (x) b = Relu (a) y = {BACK} (b)"), ["Relu"]),
    Fires(
        "through Relu, the default",
        sunk("a = Transpose (x) b = Relu (a) y = Transpose (b)"),
        ["Relu"],
    ),
    Fires(
        "through Relu, further",
        sunk(f"a = {TURN} (x) b = Relu (a) y = {TURN} (b)"),
        ["Relu", "Transpose"],
    ),
    Fires(
        "the first one stays",
        sunk(f"a = {TURN} (x) b = Relu (a) y = {BACK} (b)", y="float[A,B,C] y, float[D,E,F] a"),
        ["Transpose", "Relu"],
    ),
    Fires(
        "Clip and a scalar",
        sunk(f"a = {TURN} (x) b = Mul (k, a) c = Clip (b, k) y = {BACK} (c)"),
        ["Mul", "Clip"],
    ),
    Fires(
        "a constant of one element",
        sunk(f"a = {TURN} (x) b = Sub (k, a) y = {BACK} (b)", constants="float[1,1] k = {2}"),
        ["Sub"],
    ),
    Fires(
        "a constant of one axis",
        sunk(f"a = {TURN} (x) b = Add (a, k) y = {BACK} (b)", constants="float[2] k"),
        ["Add"],
    ),
    Fires(
        "a constant of two axes",
        sunk(
            f"a = {TURN} (x) b = Add (a, k) y = {BACK} (b)",
            "float[2,3,5] x",
            constants="float[5,2] k",
        ),
        ["Add"],
    ),
    Fires(
        "two into one",
        sunk(f"a = {TURN} (x) b = {TURN} (w) y = Add (a, b)", TWO),
        ["Add", "Transpose"],
    ),
    Fires(
        "two broadcast into one",
        sunk(f"a = {TURN} (x) b = {TURN} (w) y = Add (a, b)", "float[2,3,N] x, float[2,1,1] w"),
        ["Add", "Transpose"],
    ),
    Fires(
        "two into none",
        sunk(f"a = {TURN} (x) b = {TURN} (w) c = Add (a, b) y = {BACK} (c)", TWO),
        ["Add"],
    ),
    Fires(
        "three into one",
        sunk(
            f"a = {TURN} (x) b = {TURN} (w) c = {TURN} (v) d = Less (a, b) y = Where (d, a, c)",
            TWO + ", float[2,3,N] v",
        ),
        ["Less", "Where", "Transpose"],
    ),
    Fires(
        "comparison",
        sunk(f"a = {TURN} (x) b = Greater (a, k) y = {BACK} (b)", y="bool[A,B,C] y"),
        ["Greater"],
    ),
    Fires(
        "opset 11",
        graph("Squeeze <axes = [1]> (a)", "Unsqueeze <axes = [1]> (b)", x="float[N,1,4] x"),
        ["Relu", "Neg"],
        opset=11,
    ),
]

test_stays, test_fires = tables(
    "TransOpSymmetryEliminationPass", STAYS, FIRES, in_functions="less often"
)
