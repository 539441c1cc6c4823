from harness import Fires, Stays, seen_by_subgraph, tables


def after(
    op: str,
    conv: str = "Conv (x, W, B)",
    c: str = "float[4,1,1] c",
    W: str = "float[4,3,3,3] W",
    x: str = "float[N,3,6,6] x",
) -> str:
    out = ",".join("abcde"[: x.count(",") + 1])
    return f"agraph ({x}) => (float[{out}] y) <{W}, float[4] B, {c}> {{ a = {conv} y = {op} }}"


WRONG = "the constant has neither one number nor one number for each channel"
STAYS = [
    Stays(
        "a factor beyond 2^40",
        after("Mul (a, c)", c="float c = {1e15}"),
        "the factor is so large or so small that intermediate results may leave the range of their type",
    ),
    Stays(
        "weights beyond 2^40",
        "agraph (float[N,1,6,6] x) => (float[N,b,d,e] y) <float[2,1,1,1] W = {1e15, 1}, float c = {2}> "
        "{ a = Conv (x, W) y = Mul (a, c) }",
        "the weights are so large that intermediate results may leave the range of their type",
    ),
    Stays(
        "large weights are used elsewhere",
        after(
            "Mul (a, c)",
            "Conv (x, W, B) z = Conv (w, W)",
            "float c",
            "float[4,3,300,300] W",
            "float[N,3,301,301] x",
        )
        .replace("x) =>", "x, float[N,3,300,300] w) =>")
        .replace("y)", "y, float[N,4,1,1] z)"),
        "large weights are used elsewhere: the model would grow",
    ),
    Stays("divided by zero", after("Div (a, c)", c="float c = {0}"), "the factor is not finite"),
    Stays("along the width", after("Mul (a, c)", c="float[4] c"), WRONG),
    Stays(
        "along the batch", after("Mul (a, c)", c="float[2,1,1,1] c").replace("[N,", "[2,"), WRONG
    ),
    Stays(
        "a rank too high",
        after("Mul (a, c)", c="float[1,1,4,1,1] c").replace("[a,b,c,d]", "[1,a,b,c,d]"),
        WRONG,
    ),
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
    Stays(
        "float16 would overflow",
        after("Mul (a, c)", c="float[1] c = {31743}", W="float[4,3,3,3] W").replace(
            "float[", "float16["
        ),
        "a constant would overflow in float16",
    ),
    Stays(
        "a subgraph uses the convolution",
        seen_by_subgraph(after("Mul (a, c)"), "a", "float[N,4,4,4]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "an infinite factor", after("Mul (a, c)", c="float c = {inf}"), "the factor is not finite"
    ),
    Stays(
        "a bias from outside",
        "agraph (float[N,3,6,6] x, float[4] B) => (float[N,a,b,d] y) <float[4,3,3,3] W, float c> "
        "{ a = Conv (x, W, B) y = Mul (a, c) }",
        None,
    ),
    Stays(
        "a default that the caller may override",
        "agraph (float[N,3,6,6] x, float[1] c = {2}) => (float[N,a,b,d] y) <float[4,3,3,3] W> "
        "{ a = Conv (x, W) y = Mul (a, c) }",
        None,
    ),
    Stays(  # 2 are the bits of 1.2e-7
        "float16 would underflow",
        after("Mul (a, c)", c="float[1] c = {2}").replace("float[", "float16["),
        "the scaled weights are too small for their type",
    ),
    Stays(
        "aligned at an axis, before opset 7",
        after("Mul <broadcast = 1, axis = 1> (a, c)", c="float[4] c", x="float[2,3,6,6] x").replace(
            "[a,b,c,d]", "[2,4,4,4]"
        ),
        None,
        opset=6,
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
    Fires(
        "1-D",
        after("Mul (a, c)", c="float[4,1] c", W="float[4,3,3] W", x="float[N,3,6] x"),
        ["Conv"],
    ),
    Fires(
        "grouped", after("Mul (a, c)", "Conv <group = 2> (x, W, B)", x="float[N,6,6,6] x"), ["Conv"]
    ),
    Fires(
        "ConvTranspose",
        after("Mul (a, c)", "ConvTranspose (x, W, B)", W="float[3,4,2,2] W"),
        ["ConvTranspose"],
    ),
    Fires(
        "grouped ConvTranspose",
        after(
            "Mul (a, c)",
            "ConvTranspose <group = 2> (x, W, B)",
            W="float[6,2,2,2] W",
            x="float[N,6,4,4] x",
        ),
        ["ConvTranspose"],
    ),
    Fires(
        "one channel",
        after("Mul (a, c)", "Conv (x, W)", c="float[1,1,1] c", W="float[1,3,3,3] W"),
        ["Conv"],
    ),
    Fires(
        "as a Constant node",
        "agraph (float[N,3,6,6] x) => (float[N,a,b,d] y) <float[4,3,3,3] W> "
        "{ c = Constant <value_float = 0.3> () a = Conv (x, W) y = Mul (a, c) }",
        ["Conv"],
    ),
    Fires("negative", after("Mul (a, c)", c="float c = {-2}"), ["Conv"]),
    Fires("zero", after("Mul (a, c)", c="float[4,1,1] c = {0,1,0,2}"), ["Conv"]),
    Fires(
        "3-D",
        after("Div (a, c)", c="float[4,1,1,1] c", W="float[4,3,2,2,2] W", x="float[N,3,4,4,4] x"),
        ["Conv"],
    ),
    Fires(
        "depthwise",
        after(
            "Mul (a, c)", "Conv <group = 4> (x, W, B)", W="float[4,1,3,3] W", x="float[N,4,6,6] x"
        ),
        ["Conv"],
    ),
    Fires("float16", after("Mul (a, c)").replace("float[", "float16["), ["Conv"]),
    Fires("twice", after("Mul (b, c)").replace("y = ", "b = Div (a, c) y = "), ["Conv"], 2),
    Fires(
        "weights too large to be stored",
        "agraph (float[N,3,6,6] x) => (float[N,a,b,d] y) <int64[4] s = {4,3,3,3}, float[4,1,1] c> "
        "{ W = ConstantOfShape <value = float[1] {0.5}> (s) a = Conv (x, W) y = Mul (a, c) }",
        ["ConstantOfShape", "Mul", "Conv"],
    ),
    Fires("opset 9, IR version 3", after("Mul (a, c)"), ["Conv"], opset=9, ir_version=3),
]

test_stays, test_fires = tables("ConvScaleFusionPass", STAYS, FIRES, in_functions="never")
