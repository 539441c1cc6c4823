from harness import Fires, Stays, seen_by_subgraph, tables

ERF = "d = Div (x, root) e = Erf (d) a = Add (e, one)"
TANH = (
    "p = Pow (x, three) q = Mul (c, p) s = Add (x, q) i = Mul (k, s) t = Tanh (i) a = Add (one, t)"
)
HALF = "h = Mul (x, half) y = Mul (h, a)"
GELU = "y = Gelu (x)"
GELU_TANH = 'y = Gelu <approximate = "tanh"> (x)'
CONSTANTS = "float half = {0.5}, float one = {1}, float two = {2}, float three = {3}, float root = {1.41421356}, float inverse = {0.70710678}, float c = {0.044715}, float k = {0.7978845608}"


def graph(
    body: str = f"{ERF} {HALF}",
    add: str = "x = Add (u, b)",
    u: str = "float[N,3,4] u",
    y: str = "float[N,3,4] y",
    b: str = "float[4] b",
) -> str:
    return f"agraph ({u}) => ({y}) <{b}, {CONSTANTS}> {{ {add} {body} }}"


def plain(body: str) -> str:
    return f"agraph (float[N,3,4] x) => (float[N,3,4] y) <{CONSTANTS}> {{ {body} }}"


def product(
    u: str = "float[2,3,4] u", y: str = "float[2,3,4] y", v: str = "float[4,4] V", body: str = GELU
) -> str:
    return graph(body, "w = MatMul (u, V) x = Add (w, b)", u, y, f"float[4] b, {v}")


A_GEMM = "onnxruntime computes the product and the bias in a Gemm, which is faster"
NO_ROW = "neither addend is known to have one number for each column"
STAYS = [
    Stays("a bias of one element", graph(GELU, b="float[1] b"), NO_ROW, opset=20),
    Stays("a scalar", graph(GELU, b="float b"), NO_ROW, opset=20),
    Stays("a matrix", graph(GELU, b="float[3,4] b"), NO_ROW, opset=20),
    Stays("an unknown last dimension", graph(GELU, u="float[N,3,M] u"), NO_ROW, opset=20),
    Stays("a bias that enlarges", graph(GELU, u="float[N,3,1] u"), NO_ROW, opset=20),
    Stays("no kernel for double, without bias", plain(f"{ERF} {HALF}").replace("float", "double").replace("1.41421356", "1.4142135623730951"), "no CPU kernel for Gelu of double"),
    Stays("any runtime", plain(f"{ERF} {HALF}"), "target onnx has no Gelu", target="onnx"),
    Stays(
        "no kernel for double",
        graph(GELU).replace("float[", "double[").replace("float ", "double "),
        "no CPU kernel for BiasGelu of double",
        opset=20,
    ),
    Stays("a product of known sizes", product(), A_GEMM, opset=20),
    Stays("a product of four dimensions", product("float[2,1,3,4] u", "float[2,1,3,4] y"), A_GEMM, opset=20),
    Stays("a product of two dimensions", product("float[N,4] u", "float[N,4] y"), A_GEMM, opset=20),
    Stays("a vector times a matrix", product("float[4] u", "float[4] y"), A_GEMM, opset=20),
    Stays("Gelu without bias", plain(GELU), None, opset=20),
    Stays("Gelu with tanh, without bias", plain(GELU_TANH), None, opset=20),
    Stays("another half", graph().replace("half = {0.5}", "half = {0.505}"), None),
    Stays("the sum is a graph output", graph(GELU, y="float[N,3,4] y, float[N,3,4] x"), "an interior value is a graph output", opset=20),
    Stays("a subgraph uses the sum", seen_by_subgraph(graph(GELU), "x", "float[N,3,4]"), "an interior value is used elsewhere", opset=20),
    Stays("the sum of something else", graph(f"{ERF} {HALF}".replace("Mul (x", "Mul (u")), None),
]  # fmt: skip

FIRES = [
    Fires("half of x first", graph(), ["BiasGelu"]),
    Fires("half last", graph(f"{ERF} h = Mul (a, x) y = Mul (h, half)"), ["BiasGelu"]),
    Fires(
        "times the inverse root",
        graph(f"d = Mul (x, inverse) e = Erf (d) a = Add (one, e) {HALF}"),
        ["BiasGelu"],
    ),
    Fires("the bias first", graph(add="x = Add (b, u)"), ["BiasGelu"]),
    Fires("Gelu", graph(GELU), ["BiasGelu"], opset=20),
    Fires("Gelu of onnxruntime", graph("y = com.microsoft.Gelu (x)"), ["BiasGelu"]),
    Fires(
        "behind a product",
        graph(add="w = MatMul (u, V) x = Add (w, b)", b="float[4] b, float[4,4] V"),
        ["MatMul", "BiasGelu"],
    ),
    Fires(
        "behind a product of matrices",
        product(v="float[2,4,4] V"),
        ["MatMul", "BiasGelu"],
        opset=20,
    ),
    Fires(
        "behind a product that is a result",
        product(y="float[2,3,4] y, float[2,3,4] w"),
        ["MatMul", "BiasGelu"],
        opset=20,
    ),
    Fires(
        "behind a product with another user",
        product(y="float[2,3,4] y, float[2,3,4] z", body=f"{GELU} z = Relu (w)"),
        ["MatMul", "BiasGelu", "Relu"],
        opset=20,
    ),
    Fires(
        "behind a product of known sizes, with tanh",
        product(body=GELU_TANH),
        ["MatMul", "FastGelu"],
        opset=20,
    ),
    Fires(
        "behind a product of known sizes, written out",
        product(body=f"{ERF} {HALF}"),
        ["MatMul", "Add", "Gelu"],
    ),
    Fires("two vectors", graph(u="float[4] u", y="float[4] y"), ["BiasGelu"]),
    Fires(
        "a bias from outside",
        "agraph (float[N,4] u, float[4] b) => (float[N,4] y) { x = Add (b, u) y = Gelu (x) }",
        ["BiasGelu"],
        opset=20,
    ),
    Fires("erf without bias", plain(f"{ERF} {HALF}"), ["Gelu"]),
    Fires(
        "erf without bias, half last",
        plain(f"{ERF} h = Mul (a, x) y = Mul (h, half)"),
        ["Gelu"],
        opset=13,
    ),
    Fires("a bias that is no row", graph(b="float b"), ["Add", "Gelu"]),
    Fires("the sum is a result", graph(y="float[N,3,4] y, float[N,3,4] x"), ["Add", "Gelu"]),
    Fires("tanh", graph(f"{TANH} {HALF}"), ["FastGelu"]),
    Fires("Gelu with tanh", graph(GELU_TANH), ["FastGelu"], opset=20),
    Fires("tanh without bias", plain(f"{TANH} {HALF}"), ["FastGelu"]),
    Fires(
        "a bias that is no row beside tanh",
        graph(f"{TANH} {HALF}", b="float b"),
        ["Add", "FastGelu"],
    ),
    *[Fires(f"opset {opset}", graph(), ["BiasGelu"], opset=opset) for opset in (9, 13, 19)],
]

test_stays, test_fires = tables("BiasGeluFusionPass", STAYS, FIRES, in_functions="never")
