from harness import Fires, Stays, tables


def graph(
    op: str,
    conv: str = "Conv (x, W)",
    c: str = "float[4,1,1] c",
    W: str = "float[4,3,3,3] W",
    x: str = "float[N,3,6,6] x",
) -> str:
    out = ",".join("abcde"[: x.count(",") + 1])
    return f"agraph ({x}) => (float[{out}] y) <{W}, float[4] B, {c}> {{ a = {conv} y = {op} }}"


WRONG = "the constant is not one number for each channel"
STAYS = [
    Stays("along the width", graph("Add (a, c)", c="float[4] c"), WRONG),
    Stays("a whole feature map", graph("Add (a, c)", c="float[4,4,4] c"), WRONG),
    Stays("a rank too high", graph("Add (a, c)", c="float[1,1,4,1,1] c").replace("[a,b,c,d]", "[1,a,b,c,d]"), WRONG),
    Stays("c minus the convolution", graph("Sub (c, a)"), None),
    Stays(
        "a residual",
        "agraph (float[N,3,6,6] x, float[4,1,1] c) => (float[N,a,b,d] y) <float[4,3,3,3] W> "
        "{ a = Conv (x, W) y = Add (a, c) }",
        None,
    ),
    Stays(
        "a graph output",
        "agraph (float[N,3,6,6] x) => (float[N,4,4,4] y, float[N,4,4,4] a) <float[4,3,3,3] W, float c> "
        "{ a = Conv (x, W) y = Add (a, c) }",
        "an interior value is a graph output",
    ),
    Stays(
        "a default that the caller may override",
        "agraph (float[N,3,6,6] x, float[1] c = {2}) => (float[N,a,b,d] y) <float[4,3,3,3] W> "
        "{ a = Conv (x, W) y = Add (a, c) }",
        None,
    ),
    Stays(
        "weights from outside",
        "agraph (float[N,3,6,6] x, float[4,3,3,3] W) => (float[N,a,b,d] y) <float c> "
        "{ a = Conv (x, W) y = Add (a, c) }",
        None,
    ),
]

FIRES = [
    Fires("per channel", graph("Add (a, c)"), ["Conv"]),
    Fires("commuted", graph("Add (c, a)"), ["Conv"]),
    Fires("with a leading one", graph("Add (a, c)", c="float[1,4,1,1] c"), ["Conv"]),
    Fires("to a bias", graph("Add (a, c)", "Conv (x, W, B)"), ["Conv"]),
    Fires("a scalar", graph("Add (a, c)", c="float c = {0.3}"), ["Conv"]),
    Fires("one element", graph("Add (a, c)", c="float[1,1] c = {0.3}"), ["Conv"]),
    Fires("subtracted", graph("Sub (a, c)", "Conv (x, W, B)"), ["Conv"]),
    Fires("3-D", graph("Add (a, c)", c="float[4,1,1,1] c", W="float[4,3,2,2,2] W", x="float[N,3,4,4,4] x"), ["Conv"]),
    Fires(
        "depthwise",
        graph("Add (a, c)", "Conv <group = 4> (x, W)", W="float[4,1,3,3] W", x="float[N,4,6,6] x"),
        ["Conv"],
    ),
    Fires("ConvTranspose", graph("Add (a, c)", "ConvTranspose (x, W, B)", W="float[3,4,2,2] W"), ["ConvTranspose"]),
    Fires("float16", graph("Add (a, c)").replace("float[", "float16["), ["Conv"]),
    Fires("opset 9, IR version 3", graph("Add (a, c)"), ["Conv"], opset=9, ir_version=3),
    Fires(
        "the result is used twice",
        "agraph (float[N,3,6,6] x) => (float[N,a,b,d] y) <float[4,3,3,3] W, float c> "
        "{ a = Conv (x, W) z = Add (a, c) y = Mul (z, z) }",
        ["Conv", "Mul"],
    ),
]

test_stays, test_fires = tables("AABiasaddConvFusion", STAYS, FIRES)
