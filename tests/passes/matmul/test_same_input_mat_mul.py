from harness import Fires, Stays, seen_by_subgraph, tables


def graph(
    body: str,
    x: str = "float[N,M,3] x",
    y: str = "float[N,M,4] a, float[N,M,2] b",
    constants: str = "float[3,4] V, float[3,2] W, float[3,4] U, float[4] B, float[2] C, float[4] D",
) -> str:
    return f"agraph ({x}) => ({y}) <{constants}> {{ {body} }}"


QK = "p = MatMul (x, V) q = MatMul (x, W) a = Add (p, B) b = Add (C, q)"
QKV = "a = MatMul (x, V) b = MatMul (x, W) c = MatMul (x, U)"
THREE = "float[N,M,4] a, float[N,M,2] b, float[N,M,4] c"
ROWS = {"x": "float[M,3] x", "y": "float[M,4] a, float[M,2] b, float[M,4] c"}
GEMMS = "a = Gemm (x, V, B) b = Gemm (x, W, C) c = Gemm (x, U, D)"

TALL = "float[N,64,4] a, float[N,64,2] b, float[N,64,4] c"
MANY = "a Split of so many rows costs the time that the joint product saves"
LARGE = "float[600,500] V, float[600,500] W, float[600,500] U"
TWICE = "a = MatMul (x, V) b = MatMul (x, W) c = MatMul (x, U) d = MatMul (z, V) e = MatMul (z, W) f = MatMul (z, U)"
STAYS = [
    Stays(
        "a large weight that is used elsewhere",
        graph(
            QKV + " d = MatMul (z, W)",
            "float[N,600] x, float[M,600] z",
            "float[N,500] a, float[N,500] b, float[N,500] c, float[M,500] d",
            LARGE,
        ),
        "large weights are used elsewhere: the model would grow",
    ),
    Stays(
        "a bias for each element",
        graph(
            "a = Gemm (x, V, B) b = Gemm (x, W, C) c = Gemm (x, U, E)",
            "float[2,3] x",
            "float[2,4] a, float[2,2] b, float[2,4] c",
            "float[3,4] V, float[3,2] W, float[3,4] U, float[2,4] B, float[2,2] C, float[2,4] E",
        ),
        None,
    ),
    Stays("the same weights twice", graph(QKV.replace("U", "V"), y=THREE), None),
    Stays("two without a bias", graph("a = MatMul (x, V) b = MatMul (x, W)"), None),
    Stays(
        "two of which one has a bias",
        graph("p = MatMul (x, V) a = Add (p, B) b = MatMul (x, W)"),
        None,
    ),
    Stays(
        "of different values",
        graph(QKV.replace("(x, W)", "(w, W)"), x="float[N,M,3] x, float[N,M,3] w", y=THREE),
        None,
    ),
    Stays(
        "two biased, of which one is handed out without its bias",
        graph(
            "p = MatMul (x, V) a = Add (p, B) b = MatMul (x, W)",
            y="float[N,M,4] a, float[N,M,4] p, float[N,M,2] b",
        ),
        None,
    ),
    Stays(
        "integers",
        graph(QKV, y=THREE).replace("float", "int32"),
        "the elements are not floating-point numbers",
    ),
    Stays(
        "many rows",
        graph(QKV, "float[128,3] x", "float[128,4] a, float[128,2] b, float[128,4] c"),
        MANY,
    ),
    Stays(
        "many rows in two dimensions", graph(QKV, "float[2,64,3] x", TALL.replace("N", "2")), MANY
    ),
    Stays(
        "many rows of an unknown batch",
        graph(QKV, "float[N,128,3] x", TALL.replace("64", "128")),
        MANY,
    ),
    Stays(
        "many rows, transposed",
        graph(
            GEMMS.replace("Gemm (", "Gemm <transA = 1> ("),
            "float[3,128] x",
            "float[128,4] a, float[128,2] b, float[128,4] c",
        ),
        MANY,
    ),
    Stays(
        "a vector",
        graph(QKV, x="float[3] x", y="float[4] a, float[2] b, float[4] c"),
        "the rank is less than 2",
    ),
    Stays(
        "weights from outside",
        graph(QKV.replace("(x, W)", "(x, T)"), x="float[N,M,3] x, float[3,2] T", y=THREE),
        None,
    ),
    Stays(
        "a batch of weights",
        graph(
            QKV,
            y=THREE.replace("[N", "[2"),
            x="float[2,M,3] x",
            constants="float[3,4] V, float[2,3,2] W, float[3,4] U",
        ),
        None,
    ),
    Stays(
        "two Gemms, different attributes",
        graph(
            "a = Gemm (x, V, B) b = Gemm <alpha = 0.5> (x, W, C) c = Gemm <beta = 0.5> (x, U, D)",
            **ROWS,
        ),
        None,
    ),
    Stays(
        "an unknown rank",
        "agraph (float[K] k, int64[L] s) => (float[N,4] a, float[N,2] b) <float[3,4] V, float[3,2] W, float[4] B, float[2] C> { x = Reshape (k, s) "
        + QK
        + " }",
        "the rank is unknown",
    ),
]

EMPTY_NAMES = GEMMS.replace("V, B)", "V, )").replace("W, C)", "W, )").replace("U, D)", "U, )")
FIRES = [
    Fires(
        "many rows, any runtime",
        graph(QKV, "float[128,3] x", "float[128,4] a, float[128,2] b, float[128,4] c"),
        ["MatMul", "Split"],
        target="onnx",
    ),
    Fires("fewer rows", graph(QKV, "float[N,64,3] x", TALL), ["MatMul", "Split"]),
    Fires(
        "few rows, transposed, of many numbers",
        graph(
            GEMMS.replace("Gemm (", "Gemm <transA = 1> ("),
            "float[128,3] x",
            "float[3,4] a, float[3,2] b, float[3,4] c",
            "float[128,4] V, float[128,2] W, float[128,4] U, float[4] B, float[2] C, float[4] D",
        ),
        ["Gemm", "Split"],
    ),
    Fires(
        "three biased, of which one is handed out without its bias",
        graph(
            "p = MatMul (x, V) a = Add (p, B) q = MatMul (x, W) b = Add (q, C) r = MatMul (x, U) c = Add (r, D)",
            y=f"{THREE}, float[N,M,4] p",
        ),
        ["MatMul", "Split", "Add", "Add", "Add"],
    ),
    Fires(
        "addends that are left out by empty names", graph(EMPTY_NAMES, **ROWS), ["Gemm", "Split"]
    ),
    Fires(
        "large weights that are used twice in the same way",
        graph(
            TWICE,
            "float[N,600] x, float[M,600] z",
            "float[N,500] a, float[N,500] b, float[N,500] c, float[M,500] d, float[M,500] e, float[M,500] f",
            LARGE,
        ),
        ["MatMul", "Split", "MatMul", "Split"],
        effected=2,
        inside_if=False,
    ),
    Fires("two with a bias", graph(QK), ["MatMul", "Add", "Split"]),
    Fires("three", graph(QKV, y=THREE), ["MatMul", "Split"]),
    Fires(
        "three with a bias",
        graph(QK + " r = MatMul (x, U) c = Add (r, D)", y=THREE),
        ["MatMul", "Add", "Split"],
    ),
    Fires(
        "three, one with a bias",
        graph("a = MatMul (x, V) b = MatMul (x, W) r = MatMul (x, U) c = Add (r, D)", y=THREE),
        ["MatMul", "Split", "Add"],
    ),
    Fires(
        "a product that is used twice",
        graph("a = MatMul (x, V) b = MatMul (x, W) r = MatMul (x, U) c = Add (r, r)", y=THREE),
        ["MatMul", "Split", "Add"],
    ),
    Fires(
        "a bias of one row for all",
        graph(
            "p = MatMul (x, V) q = MatMul (x, W) r = MatMul (x, U) a = Add (p, E) b = Add (q, E) c = Add (r, E)",
            y=THREE,
            constants="float[3,4] V, float[3,2] W, float[3,4] U, float[1] E",
        ),
        ["MatMul", "Split", "Add", "Add", "Add"],
    ),
    Fires("Gemms", graph(GEMMS, **ROWS), ["Gemm", "Split"]),
    Fires(
        "Gemms with attributes",
        graph(
            GEMMS.replace("Gemm", "Gemm <alpha = 0.5, transB = 1>"),
            **ROWS
            | {
                "constants": "float[4,3] V, float[2,3] W, float[4,3] U, float[4] B, float[2] C, float[4] D"
            },
        ),
        ["Gemm", "Split"],
    ),
    Fires(
        "two values",
        graph(
            QKV + " d = MatMul (w, V) e = MatMul (w, W) f = MatMul (w, U)",
            x="float[N,M,3] x, float[N,M,3] w",
            y=THREE + ", " + THREE.replace(" a", " d").replace(" b", " e").replace(" c", " f"),
        ),
        ["MatMul", "Split", "MatMul", "Split"],
        effected=2,
    ),
    Fires(
        "used by a subgraph",
        seen_by_subgraph(graph(QKV, y=THREE), "a", "float[N,M,4]"),
        ["MatMul", "Split", "If"],
        inside_if=False,
    ),
    *[
        Fires(f"opset {opset}", graph(QK), ["MatMul", "Add", "Split"], opset=opset)
        for opset in (9, 13)
    ],
]

test_stays, test_fires = tables("SameInputMatMulPass", STAYS, FIRES, in_functions="never")
