from harness import Fires, Stays, tables


def graph(
    c: str, kind: str = "float", body: str = "y = Div (x, c)", shape: str = "N,4", y: str = ""
) -> str:
    return f"agraph ({kind}[{shape}] x) => ({kind}[{y or shape}] y) <{kind}{c}> {{ {body} }}"


SMALL = "a constant would be too small for its type"
STAYS = [
    Stays("integers", graph(" c = {2}", "int32"), "the elements are not floating-point numbers"),
    Stays("a constant divided", graph(" c = {2}", body="y = Div (c, x)"), None),
    Stays(
        "a divisor from outside",
        "agraph (float[N] x, float c) => (float[N] y) { y = Div (x, c) }",
        None,
    ),
    Stays("zero", graph(" c = {0}"), "a constant would not be finite"),
    Stays("infinity", graph(" c = {inf}"), "a constant is infinite"),
    Stays("one zero of many", graph("[4] c = {1, 2, 0, 4}"), "a constant would not be finite"),
    Stays("a reciprocal below the normal numbers", graph(" c = {3e38}"), SMALL),
    Stays("a power of two with such a reciprocal", graph(" c = {1.7014118346046923e38}"), SMALL),
    Stays("a reciprocal too large", graph(" c = {1e-40}"), "a constant would overflow in float32"),
    Stays("a reciprocal too small for halves", graph(" c = {31571}", "float16"), SMALL),
    Stays(
        "Gelu",
        graph(" c = {1.4142135}", body="q = Div (x, c) y = Erf (q)"),
        "onnxruntime recognizes Gelu by this division, so it stays",
    ),
    Stays(
        "attention",
        "agraph (float[N,4] a, float[4,M] b) => (float[N,M] y) <float c = {8}> { p = MatMul (a, b) q = Div (p, c) y = Softmax (q) }",
        "onnxruntime recognizes attention by this division, so it stays",
    ),
    Stays(
        "a large constant that stays",
        "agraph (float[N,2048] x) => (float[N,2048] y, float[N,2048] z) <float[2048] c> { y = Div (x, c) z = Add (x, c) }",
        "a large constant is used elsewhere",
    ),
]

FIRES = [
    Fires(
        "of what is computed",
        graph(" c = {3}", body="r = Relu (x) y = Div (r, c)"),
        ["Relu", "Mul"],
    ),
    Fires("a power of two", graph(" c = {8}"), ["Mul"]),
    Fires("a negative power of two", graph(" c = {-0.25}"), ["Mul"]),
    Fires("another number", graph(" c = {3}"), ["Mul"]),
    Fires("rank 1", graph("[1] c = {255}"), ["Mul"]),
    Fires("many numbers", graph("[4] c = {0.229, 0.224, 0.225, 1}"), ["Mul"]),
    Fires("powers of two", graph("[4] c = {1, 2, 4, -0.5}"), ["Mul"]),
    Fires("a constant that enlarges", graph("[3,1,1] c = {1, 2, 3}", y="3,N,4"), ["Mul"]),
    Fires(
        "a small constant that stays",
        graph("[4] c", body="a = Div (x, c) y = Add (a, c)"),
        ["Mul", "Add"],
    ),
    Fires("double", graph(" c = {7}", "double"), ["Mul"]),
    Fires("half", graph(" c = {18176}", "float16"), ["Mul"]),
    *[Fires(f"opset {opset}", graph(" c = {3}"), ["Mul"], opset=opset) for opset in (7, 11, 13)],
]

test_stays, test_fires = tables("RealDiv2MulsFusionPass", STAYS, FIRES)
