from harness import Fires, Stays, tables


def after(
    op: str,
    conv: str = "Conv (x, W, B)",
    c: str = "float[4,1,1] c",
    W: str = "float[4,3,3,3] W",
    x: str = "float[N,3,6,6] x",
) -> str:
    out = ",".join("abcde"[: x.count(",") + 1])
    return f"agraph ({x}) => (float[{out}] y) <{W}, float[4] B, {c}> {{ a = {conv} y = {op} }}"


def before(
    conv: str = "Conv (a, W, B)", c: str = "float[3,1,1] c", W: str = "float[4,3,3,3] W", x: str = "float[N,3,6,6] x"
) -> str:
    return f"agraph ({x}) => (float[N,d,e,f] y) <{W}, float[4] B, {c}> {{ a = Mul (x, c) y = {conv} }}"


WRONG = "the constant is not one number for each channel"
STAYS = [
    Stays("divided by zero", after("Div (a, c)", c="float c = {0}"), "the factor is not finite"),
    Stays("along the width", after("Mul (a, c)", c="float[4] c"), WRONG),
    Stays("along the batch", after("Mul (a, c)", c="float[2,1,1,1] c").replace("[N,", "[2,"), WRONG),
    Stays("a rank too high", after("Mul (a, c)", c="float[1,1,4,1,1] c").replace("[a,b,c,d]", "[1,a,b,c,d]"), WRONG),
    Stays(
        "not a constant",
        "agraph (float[N,3,6,6] x, float[4,1,1] c) => (float[N,a,b,d] y) <float[4,3,3,3] W> "
        "{ a = Conv (x, W) y = Mul (a, c) }",
        None,
    ),
    Stays("c divided by the convolution", after("Div (c, a)"), None),
    Stays(
        "used elsewhere",
        "agraph (float[N,3,6,6] x) => (float[N,a,b,d] y, float[N,a,b,d] z) "
        "<float[4,3,3,3] W, float c> { a = Conv (x, W) y = Mul (a, c) z = Neg (a) }",
        "an interior value is used elsewhere",
    ),
    Stays("a factor before it along the height", before(c="float[6,1] c"), WRONG),
    Stays(
        "a factor before a ConvTranspose",
        before("ConvTranspose (a, W, B)", "float[4,1,1] c", "float[4,4,3,3] W", "float[N,4,6,6] x"),
        None,
    ),
    Stays(
        "float16 would overflow",
        after("Mul (a, c)", c="float[1] c = {31743}", W="float[4,3,3,3] W").replace("float[", "float16["),
        "a constant would overflow in float16",
    ),
]

FIRES = [
    Fires("per channel", after("Mul (a, c)"), ["Conv"]),
    Fires("commuted", after("Mul (c, a)"), ["Conv"]),
    Fires("with a leading one", after("Mul (a, c)", c="float[1,4,1,1] c"), ["Conv"]),
    Fires("a scalar", after("Mul (a, c)", c="float c = {0.3}"), ["Conv"]),
    Fires("one element", after("Mul (a, c)", c="float[1] c = {0.3}"), ["Conv"]),
    Fires("without bias", after("Mul (a, c)", "Conv (x, W)"), ["Conv"]),
    Fires("divided", after("Div (a, c)"), ["Conv"]),
    Fires("1-D", after("Mul (a, c)", c="float[4,1] c", W="float[4,3,3] W", x="float[N,3,6] x"), ["Conv"]),
    Fires("grouped", after("Mul (a, c)", "Conv <group = 2> (x, W, B)", x="float[N,6,6,6] x"), ["Conv"]),
    Fires("ConvTranspose", after("Mul (a, c)", "ConvTranspose (x, W, B)", W="float[3,4,2,2] W"), ["ConvTranspose"]),
    Fires(
        "grouped ConvTranspose",
        after("Mul (a, c)", "ConvTranspose <group = 2> (x, W, B)", W="float[6,2,2,2] W", x="float[N,6,4,4] x"),
        ["ConvTranspose"],
    ),
    Fires("one channel", after("Mul (a, c)", "Conv (x, W)", c="float[1,1,1] c", W="float[1,3,3,3] W"), ["Conv"]),
    Fires("before, per channel", before(), ["Conv"]),
    Fires("before, padded", before("Conv <pads = [1, 1, 1, 1]> (a, W, B)"), ["Conv"]),
    Fires("before, grouped", before("Conv <group = 2> (a, W, B)", "float[6,1,1] c", x="float[N,6,6,6] x"), ["Conv"]),
    Fires(
        "as a Constant node",
        "agraph (float[N,3,6,6] x) => (float[N,a,b,d] y) <float[4,3,3,3] W> "
        "{ c = Constant <value_float = 0.3> () a = Conv (x, W) y = Mul (a, c) }",
        ["Conv"],
    ),
]

test_stays, test_fires = tables("ConvScaleFusionPass", STAYS, FIRES)
