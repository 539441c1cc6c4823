from harness import Fires, Stays, seen_by_subgraph, tables


def before(
    conv: str = "Conv (a, W, B)",
    c: str = "float[3,1,1] c",
    W: str = "float[4,3,3,3] W",
    x: str = "float[N,3,6,6] x",
    op: str = "Mul (x, c)",
) -> str:
    return f"agraph ({x}) => (float[N,d,e,f] y) <{W}, float[4] B, {c}> {{ a = {op} y = {conv} }}"


WRONG = "the constant has neither one number nor one number for each channel"
ENLARGES = "the constant may enlarge the value that it is combined with"
PADDED = "padding would get the addend, too, and no longer be zero"
STAYS = [
    Stays("a factor before it along the height", before(c="float[6,1] c"), WRONG),
    Stays(
        "a factor before a ConvTranspose",
        before("ConvTranspose (a, W, B)", "float[4,1,1] c", "float[4,4,3,3] W", "float[N,4,6,6] x"),
        None,
    ),
    Stays(
        "a subgraph uses the product before it",
        seen_by_subgraph(before(), "a", "float[N,3,6,6]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "the product before it is a graph output",
        before().replace("] y)", "] y, float[N,3,6,6] a)"),
        "an interior value is a graph output",
    ),
    Stays("a factor that makes channels out of one", before(x="float[N,1,6,6] x"), ENLARGES),
    Stays("a factor that may make channels", before(x="float[N,C,6,6] x"), ENLARGES),
    Stays(
        "a factor that makes the batch",
        before(c="float[1,1,1,1] c", x="float[3,6,6] x").replace("float[N,d", "float[1,d"),
        ENLARGES,
    ),
    Stays(
        "a factor for a value of unknown rank",
        "agraph (float[M] x, int64[K] s) => (float[a,b,d,e] y) <float[4,3,3,3] W, float[1,1,1,1] c> "
        "{ r = Reshape (x, s) p = Mul (r, c) y = Conv (p, W) }",
        ENLARGES,
    ),
    Stays("a factor that is no number", before(c="float c = {nan}"), "the factor is not finite"),
    Stays(
        "an addend before padding",
        before("Conv <pads = [0, 1, 0, 0]> (a, W, B)", op="Add (x, c)"),
        PADDED,
    ),
    Stays(
        "subtracted before padding",
        before("Conv <pads = [1, 1, 1, 1]> (a, W, B)", op="Sub (x, c)"),
        PADDED,
    ),
    Stays(
        "subtracted from before padding",
        before("Conv <pads = [1, 1, 1, 1]> (a, W, B)", op="Sub (c, x)"),
        PADDED,
    ),
    Stays(
        "an addend before padding that is computed",
        before('Conv <auto_pad = "SAME_UPPER"> (a, W)', op="Add (x, c)"),
        PADDED,
    ),
    Stays("an addend along the width", before(c="float[6] c", op="Add (x, c)"), WRONG),
    Stays("an addend that makes channels", before(x="float[N,1,6,6] x", op="Add (x, c)"), ENLARGES),
    Stays(
        "an addend before weights beyond 2^40",
        "agraph (float[N,1,6,6] x) => (float[N,b,d,e] y) <float[2,1,1,1] W = {1e15, 1}, float c = {2}> "
        "{ a = Add (x, c) y = Conv (a, W) }",
        "the weights are so large that intermediate results may leave the range of their type",
    ),
    Stays(
        "an infinite addend",
        before(c="float c = {inf}", op="Add (x, c)"),
        "the addend is not finite",
    ),
    Stays(
        "divided by zero", before(c="float c = {0}", op="Div (x, c)"), "the factor is not finite"
    ),
    Stays("a quotient the other way", before(op="Div (c, x)"), None),
    Stays(
        "an addend and a bias from outside",
        "agraph (float[N,3,6,6] x, float[4] B) => (float[N,d,e,f] y) <float[4,3,3,3] W, float[3,1,1] c> "
        "{ a = Add (x, c) y = Conv (a, W, B) }",
        None,
    ),
    Stays(
        "an addend and weights from outside",
        "agraph (float[N,3,6,6] x, float[4,3,3,3] W) => (float[N,d,e,f] y) <float[3,1,1] c> "
        "{ a = Add (x, c) y = Conv (a, W) }",
        None,
    ),
    Stays(
        "the sum is used elsewhere",
        before(op="Add (x, c)")
        .replace("] y)", "] y, float[N,3,6,6] z)")
        .replace("y = ", "z = Neg (a) y = "),
        "an interior value is used elsewhere",
    ),
    Stays(
        "a subgraph uses the sum",
        seen_by_subgraph(before(op="Add (x, c)"), "a", "float[N,3,6,6]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "the factor of Gelu",
        "agraph (float[N,3,6,6] x) => (float[N,d,e,f] y) <float[4,3,3,3] W, float half = {0.5}, float one = {1}> "
        "{ e1 = Erf (x) s = Add (e1, one) g = Mul (x, s) a = Mul (g, half) y = Conv (a, W) }",
        "onnxruntime recognizes Gelu by this factor, so it stays",
    ),
    Stays(
        "float16 would overflow",
        before("Conv (a, W)", c="float16[1] c = {31743}", op="Mul (x, c)").replace(
            "float[", "float16["
        ),
        "a constant would overflow in float16",
    ),
]

FIRES = [
    Fires("before, per channel", before(), ["Conv"]),
    Fires("before, padded", before("Conv <pads = [1, 1, 1, 1]> (a, W, B)"), ["Conv"]),
    Fires(
        "before, grouped",
        before("Conv <group = 2> (a, W, B)", "float[6,1,1] c", x="float[N,6,6,6] x"),
        ["Conv"],
    ),
    Fires(
        "what is behind it stays",
        before("Conv (a, W, B) y = Mul (b, k)", c="float[3,1,1] c, float k").replace(
            "y = Conv", "b = Conv"
        ),
        ["Conv", "Mul"],
    ),
    Fires("before, a scalar", before(c="float c = {0.3}"), ["Conv"]),
    Fires("before, one element", before(c="float[1,1] c = {0.3}"), ["Conv"]),
    Fires(
        "before, with a leading one, commuted",
        before(c="float[1,3,1,1] c").replace("Mul (x, c)", "Mul (c, x)"),
        ["Conv"],
    ),
    Fires("before, depthwise", before("Conv <group = 3> (a, W)", W="float[6,1,3,3] W"), ["Conv"]),
    Fires(
        "before, 1-D, the bias from outside",
        "agraph (float[N,3,K] x, float[4] B) => (float[N,a,b] y) <float[4,3,3] W, float[3,1] c> "
        "{ a = Mul (x, c) y = Conv (a, W, B) }",
        ["Conv"],
        sizes={"K": 5},
    ),
    Fires("opset 22", before(), ["Conv"], opset=22),
    Fires(
        "before, a scalar, unknown channels",
        before(c="float c = {0.3}", x="float[N,C,6,6] x"),
        ["Conv"],
        sizes={"C": 3},
    ),
    Fires("an addend", before(op="Add (x, c)"), ["Conv"]),
    Fires("an addend, no bias, commuted", before("Conv (a, W)", op="Add (c, x)"), ["Conv"]),
    Fires(
        "a scalar addend of unknown channels",
        before(c="float c = {0.3}", x="float[N,C,6,6] x", op="Add (x, c)"),
        ["Conv"],
        sizes={"C": 3},
    ),
    Fires("one element as addend", before(c="float[1,1,1,1] c", op="Add (x, c)"), ["Conv"]),
    Fires(
        "an addend before groups",
        before(
            "Conv <group = 2> (a, W)",
            "float[1,6,1,1] c",
            "float[4,3,3,3] W",
            "float[N,6,6,6] x",
            op="Add (x, c)",
        ),
        ["Conv"],
    ),
    Fires(
        "an addend before depthwise",
        before("Conv <group = 3> (a, W)", W="float[6,1,3,3] W", op="Add (x, c)"),
        ["Conv"],
    ),
    Fires(
        "an addend, VALID, strides and dilations",
        before(
            'Conv <auto_pad = "VALID", strides = [2, 1], dilations = [1, 2]> (a, W, B)',
            op="Add (x, c)",
        ),
        ["Conv"],
    ),
    Fires(
        "pads of zero", before("Conv <pads = [0, 0, 0, 0]> (a, W, B)", op="Add (x, c)"), ["Conv"]
    ),
    Fires(
        "zeros before padding",
        before(
            "Conv <pads = [1, 1, 1, 1]> (a, W, B)", c="float[3,1,1] c = {0,0,0}", op="Add (x, c)"
        ),
        ["Conv"],
    ),
    Fires("subtracted", before(op="Sub (x, c)"), ["Conv"]),
    Fires("subtracted from", before(op="Sub (c, x)"), ["Conv"]),
    Fires("divided", before(op="Div (x, c)"), ["Conv"]),
    Fires(
        "divided, padding",
        before("Conv <pads = [1, 1, 1, 1]> (a, W, B)", op="Div (x, c)"),
        ["Conv"],
    ),
    Fires(
        "a mean and a deviation",
        before(op="Sub (x, c) b = Div (a, c)").replace("Conv (a", "Conv (b"),
        ["Conv"],
        2,
    ),
    Fires(
        "a factor, then an addend",
        before(op="Mul (x, c) b = Add (a, c)").replace("Conv (a", "Conv (b"),
        ["Conv"],
        2,
    ),
    Fires(
        "a mean before padding",
        before("Conv <pads = [1, 1, 1, 1]> (b, W)", op="Sub (x, c) b = Div (a, c)"),
        ["Sub", "Conv"],
    ),
    Fires(
        "an addend, 1-D, opset 9",
        "agraph (float[N,3,K] x) => (float[N,a,b] y) <float[4,3,3] W, float[3,1] c> { a = Add (x, c) y = Conv (a, W) }",
        ["Conv"],
        sizes={"K": 5},
        opset=9,
        ir_version=3,
    ),
    Fires("an addend, float16", before(op="Add (x, c)").replace("float[", "float16["), ["Conv"]),
    Fires("an addend, opset 22", before(op="Add (x, c)"), ["Conv"], opset=22),
]

test_stays, test_fires = tables("AConv2dMulFusion", STAYS, FIRES, in_functions="never")
