from harness import Fires, Stays, seen_by_subgraph, tables


def graph(body: str, constants: str, x: str = "float[N,4] x", y: str = "") -> str:
    return f"agraph ({x}) => ({y or x.replace(' x', ' y')}) <{constants}> {{ {body} }}"


SCALARS = "float c = {0.3}, float d = {1.7}"
AFFINE = "a = Mul (x, c) b = Add (a, d) y = Mul (b, e)"
VECTORS = "float c = {255}, float[4] d = {0.4, 0.5, 0.6, 0.7}, float[4] e = {0.2, 0.3, 0.25, 1}"
SMALL = "a constant would be too small for its type"
FLOATS = "the elements are not floating-point numbers"

STAYS = [
    Stays(
        "used elsewhere",
        graph("a = Mul (x, c) y = Mul (a, d) z = Abs (a)", SCALARS, y="float[N,4] y, float[N,4] z"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a subgraph uses it",
        seen_by_subgraph(graph("a = Mul (x, c) y = Mul (a, d)", SCALARS), "a", "float[N,4]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a graph output",
        graph("a = Mul (x, c) y = Mul (a, d)", SCALARS, y="float[N,4] y, float[N,4] a"),
        "an interior value is a graph output",
    ),
    Stays(
        "a factor from outside",
        "agraph (float[N] x, float d) => (float[N] y) <float c = {3}> { a = Mul (x, c) y = Mul (a, d) }",
        None,
    ),
    Stays(
        "an infinite divisor",
        graph("a = Mul (x, c) y = Div (a, d)", "float c = {1e30}, float d = {inf}"),
        "a constant is infinite",
    ),
    Stays("a factor and an addend", graph("a = Mul (x, c) y = Add (a, d)", SCALARS), None),
    Stays("an addend and a factor", graph("a = Add (x, c) y = Mul (a, d)", SCALARS), None),
    Stays(
        "Gelu",
        graph(
            "a = Div (x, r) b = Erf (a) e = Add (b, o) f = Mul (x, e) h = Mul (f, c) y = Mul (h, d)",
            "float r = {1.4142}, float o = {1}, float c = {0.5}, float d = {3}",
        ),
        "onnxruntime recognizes Gelu by this factor, so it stays",
    ),
    Stays("a constant divided", graph("a = Div (c, x) y = Mul (a, d)", SCALARS), None),
    *(
        Stays(
            f"infinite between: {first} and {second}, {kind}",
            graph(
                f"a = {first} (x, c) y = {second} (a, d)",
                f"{kind} c = {{{c}}}, {kind} d = {{{d}}}",
                f"{kind}[N,4] x",
            ),
            reason,
        )
        for first, c, second, d, kind, reason in (
            (
                "Mul",
                "1e30",
                "Mul",
                "1e-30",
                "float",
                "the first constant alone may make a number infinite",
            ),
            (
                "Mul",
                "-1e30",
                "Div",
                "1e30",
                "float",
                "the first constant alone may make a number infinite",
            ),
            (
                "Div",
                "1e-30",
                "Mul",
                "1e-25",
                "float",
                "the first constant alone may make a number infinite",
            ),
            (
                "Mul",
                "1e200",
                "Mul",
                "1e-200",
                "double",
                "the first constant alone may make a number infinite",
            ),
            (
                "Mul",
                "1e-30",
                "Mul",
                "1e30",
                "float",
                "the first constant alone may make a number too small",
            ),
            (
                "Div",
                "1e30",
                "Div",
                "1e-20",
                "float",
                "the first constant alone may make a number too small",
            ),
        )
    ),
    Stays(
        "infinite between, with an addend",
        graph(AFFINE, "float c = {1e30}, float d = {2}, float e = {1e-30}"),
        "the first constant alone may make a number infinite",
    ),
    Stays(
        "a factor too large",
        graph("a = Mul (x, c) y = Mul (a, d)", "float c = {1e30}, float d = {1e30}"),
        "a constant would overflow in float32",
    ),
    Stays(
        "a double factor too large",
        graph(
            "a = Mul (x, c) y = Mul (a, d)", "double c = {1e300}, double d = {1e300}", "double[N] x"
        ),
        "a constant would not be finite",
    ),
    Stays(
        "a factor too small",
        graph("a = Mul (x, c) y = Mul (a, d)", "float c = {1e-30}, float d = {1e-30}"),
        SMALL,
    ),
    Stays(
        "a double factor too small",
        graph(
            "a = Mul (x, c) y = Mul (a, d)",
            "double c = {1e-200}, double d = {1e-200}",
            "double[N] x",
        ),
        SMALL,
    ),
    Stays(
        "divided by zero",
        graph("a = Mul (x, c) y = Div (a, d)", "float c = {1}, float d = {0}"),
        "a constant would not be finite",
    ),
    Stays(
        "a table of factors",
        graph("a = Mul (x, c) y = Mul (a, d)", "float[3,1] c, float[4] d", "float[3,4] x"),
        "the constants together would become larger",
    ),
    Stays(
        "a large factor that stays",
        graph(
            "a = Mul (x, c) b = Mul (a, d) y = Add (b, d)",
            "float c = {2}, float[2048] d",
            "float[N,2048] x",
        ),
        "a large constant is used elsewhere",
    ),
    Stays(
        "integers divided",
        graph("a = Div (x, c) y = Div (a, d)", "int32 c = {2}, int32 d = {3}", "int32[N] x"),
        FLOATS,
    ),
    Stays(
        "integers multiplied and divided",
        graph("a = Mul (x, c) y = Div (a, d)", "int32 c = {2}, int32 d = {3}", "int32[N] x"),
        FLOATS,
    ),
    Stays(
        "rounding by a large number",
        graph("a = Add (x, c) y = Sub (a, c)", "float c = {12582912}"),
        "the constants cancel each other, and may round x on purpose",
    ),
    Stays(
        "some cancel",
        graph(
            "a = Add (x, c) y = Add (a, d)",
            "float[4] c = {1, 1, 1, 1e8}, float[4] d = {1, 1, 1, -1e8}",
        ),
        "the constants cancel each other, and may round x on purpose",
    ),
    Stays(
        "the reverse cancels",
        graph("a = Sub (c, x) y = Sub (d, a)", "float c = {5}, float d = {5.5}"),
        "the constants cancel each other, and may round x on purpose",
    ),
    Stays(
        "an outer factor that enlarges",
        graph(AFFINE, "float c = {2}, float d = {3}, float[3,1] e", "float[1,4] x", "float[3,4] y"),
        "the outer factor may enlarge the inner product",
    ),
    Stays(
        "an addend that becomes larger",
        graph(AFFINE, "float c = {2}, float[3,1] d, float[4] e", "float[3,4] x"),
        "the constants together would become larger",
    ),
    Stays(
        "an addend too large",
        graph(AFFINE, "float c = {1e-5}, float d = {1e30}, float e = {1e9}"),
        "a constant would overflow in float32",
    ),
    Stays(
        "an affine division of integers",
        graph(
            "a = Mul (x, c) b = Add (a, d) y = Div (b, c)",
            "int32 c = {2}, int32 d = {3}",
            "int32[N] x",
        ),
        FLOATS,
    ),
]

MUL = graph("a = Mul (x, c) y = Mul (a, d)", SCALARS)
FIRES = [
    Fires("two factors", MUL, ["Mul"]),
    Fires("commuted", graph("a = Mul (c, x) y = Mul (d, a)", SCALARS), ["Mul"]),
    Fires(
        "of ranks 0 and 1",
        graph("a = Mul (x, c) y = Mul (a, d)", "float c = {0.3}, float[1] d = {2}"),
        ["Mul"],
    ),
    Fires(
        "a scalar and a row",
        graph("a = Mul (x, c) y = Mul (a, d)", "float c = {0.3}, float[1,4] d"),
        ["Mul"],
    ),
    Fires(
        "factors that enlarge",
        graph("a = Mul (x, c) y = Mul (a, d)", "float[3,1,1] c, float d = {2}", y="float[3,N,4] y"),
        ["Mul"],
    ),
    Fires("two divisions", graph("a = Div (x, c) y = Div (a, d)", SCALARS), ["Div"]),
    Fires("multiplied and divided", graph("a = Mul (x, c) y = Div (a, d)", SCALARS), ["Mul"]),
    Fires("divided and multiplied", graph("a = Div (x, c) y = Mul (d, a)", SCALARS), ["Mul"]),
    Fires(
        "three factors",
        graph("a = Mul (x, c) b = Mul (a, d) y = Mul (b, c)", SCALARS),
        ["Mul"],
        effected=2,
    ),
    Fires(
        "factors with a zero",
        graph("a = Mul (x, c) y = Mul (a, d)", "float[4] c = {0, 1, 2, 3}, float d = {2}"),
        ["Mul"],
    ),
    Fires(
        "integers that wrap around",
        graph(
            "a = Mul (x, c) y = Mul (a, d)", "int32 c = {65536}, int32 d = {65537}", "int32[N] x"
        ),
        ["Mul"],
    ),
    Fires(
        "64 bits",
        graph(
            "a = Mul (x, c) y = Mul (a, d)",
            "int64 c = {4611686018427387905}, int64[1] d = {3}",
            "int64[N] x",
        ),
        ["Mul"],
    ),
    Fires("two addends", graph("a = Add (x, c) y = Add (d, a)", SCALARS), ["Add"]),
    Fires("two differences", graph("a = Sub (x, c) y = Sub (a, d)", SCALARS), ["Add"]),
    Fires(
        "a sum and a difference",
        graph("a = Add (x, c) y = Sub (a, d)", "float c = {2}, float d = {-3}"),
        ["Add"],
    ),
    Fires("a difference from a constant", graph("a = Sub (c, x) y = Add (a, d)", SCALARS), ["Sub"]),
    Fires(
        "from a constant at last",
        graph("a = Add (x, c) y = Sub (d, a)", "float c = {0.3}, float d = {1.7}"),
        ["Sub"],
    ),
    Fires(
        "from a constant twice",
        graph("a = Sub (c, x) y = Sub (d, a)", "float c = {0.3}, float d = {1.7}"),
        ["Add"],
    ),
    Fires(
        "addends of several shapes",
        graph("a = Add (x, c) y = Add (a, d)", "float[4] c, float[1,1] d = {0.5}"),
        ["Add"],
    ),
    Fires(
        "integers that cancel",
        graph("a = Add (x, c) y = Sub (a, d)", "int64 c = {7}, int64 d = {7}", "int64[N] x"),
        ["Add"],
    ),
    Fires(
        "unsigned",
        graph("a = Sub (x, c) y = Sub (a, d)", "uint32 c = {7}, uint32 d = {9}", "uint32[N] x"),
        ["Add"],
    ),
    Fires("affine", graph(AFFINE, SCALARS + ", float e = {2.5}"), ["Mul", "Add"]),
    Fires(
        "an image", graph("a = Div (x, c) b = Sub (a, d) y = Div (b, e)", VECTORS), ["Mul", "Add"]
    ),
    Fires(
        "affine from a constant",
        graph("a = Mul (c, x) b = Sub (d, a) y = Mul (e, b)", VECTORS),
        ["Mul", "Add"],
    ),
    Fires(
        "affine with a scalar of another rank",
        graph(AFFINE, "float c = {2}, float d = {3}, float[1,1,1] e = {3}", y="float[1,N,4] y"),
        ["Mul", "Add"],
    ),
    Fires(
        "affine integers",
        graph(AFFINE, "int32 c = {2}, int32 d = {3}, int32 e = {5}", "int32[N] x"),
        ["Mul", "Add"],
    ),
    Fires("double", MUL.replace("float", "double"), ["Mul"]),
    Fires(
        "half",
        MUL.replace("float", "float16").replace("0.3", "13517").replace("1.7", "16077"),
        ["Mul"],
    ),
    *[Fires(f"opset {opset}", MUL, ["Mul"], opset=opset) for opset in (7, 9, 13, 14)],
]

test_stays, test_fires = tables(
    "ConstantReassociationPass", STAYS, FIRES, in_functions="less often"
)
