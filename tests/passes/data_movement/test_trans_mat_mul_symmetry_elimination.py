from harness import Fires, Stays, tables

TURN = "Transpose <perm = [1, 0, 2]>"
W = "float[4,6] W, float[6] B, float[6,4] V, float[4,6] U, float[6,4] VT"


def turned(
    body: str, x: str = "float[N,3,4] x", y: str = "float[A,B,C] y", constants: str = ""
) -> str:
    return f"agraph ({x}) => ({y}) <{W}{constants and ', '}{constants}> {{ {body} }}"


ROWS = f"t = {TURN} (x) p = MatMul (t, W) y = {TURN} (p)"
PACKED = """agraph (float[N,S,4] x) => (float[A,B,C,D] q, float[E,F,G,H] k)
<float[4,8] W, float[8] b, int64[4] s = {{0, 0, 2, 4}}, int64 zero = {{0}}, int64 one = {{1}},
int64[1] ax = {{0}}, int64[1] third = {{3}}, int64[4] h = {{0, 0, 2, 2}}> {{
  t = Transpose <perm = [1, 0, 2]> (x) p = MatMul (t, W) l = Add (p, b) r = Reshape (l, s)
  {unpacked}
  c = Gather <axis = 0> (u, zero) d = Gather <axis = 0> (u, one)
  e = Reshape (c, h) q = Transpose <perm = [1, 2, 0, 3]> (e)
  f = Reshape (d, h) k = Transpose <perm = [1, 2, 3, 0]> (f) }}"""
OUT = f"""agraph (float[2,3,4,5] x) => (float[A,B,C] y)
<float[15,6] W, float[6] B, int64[2] rows = {{8, 15}}, int64[3] back = {{4, 2, 6}}> {{
  t = Transpose <perm = [2, 0, 1, 3]> (x) r = Reshape (t, rows) p = Gemm (r, W, B)
  s = Reshape (p, back) y = {TURN} (s) }}"""
OPEN_OUT = f"""agraph (float[N,3,S,5] x, float[N,3,S,5] n) => (float[A,B,C] y)
<float[6,15] W, float[6] B, int64[2] rows = {{-1, 15}}, int64[1] ends = {{6}}> {{
  t = Transpose <perm = [2, 0, 1, 3]> (x) r = Reshape (t, rows) p = Gemm <transB = 1> (r, W, B)
  a = Shape <start = 2, end = 3> (n) b = Shape <start = 0, end = 1> (n)
  c = Concat <axis = 0> (a, b, ends) s = Reshape (p, c) y = {TURN} (s) }}"""
HEADS = f"""agraph (float[2,8,4] x) => (float[4,8,3] y)
<float[4,6] W, int64[3] s = {{8, 4, 3}}> {{
  t = {TURN} (x) p = MatMul (t, W) r = Reshape (p, s) y = {TURN} (r) }}"""

STAYS = [
    Stays("without a product", turned(f"t = {TURN} (x) p = Relu (t) y = {TURN} (p)"), None),
    Stays(
        "a product that mixes the rows",
        turned(f"t = {TURN} (x) p = MatMul (w, t) y = {TURN} (p)", "float[N,3,4] x, float[3,2,N] w"),
        None,
    ),
    Stays("no Transpose less", turned(f"t = {TURN} (x) y = MatMul (t, W)"), None),
    Stays(
        "the columns move",
        turned(
            "t = Transpose <perm = [0, 2, 1]> (x) p = MatMul (t, W) y = Transpose <perm = [0, 2, 1]> (p)",
            "float[N,4,3] x",
        ),
        None,
    ),
    Stays(
        "an addend for each row",
        turned(f"t = {TURN} (x) p = MatMul (t, W) a = Add (p, r) y = {TURN} (a)", constants="float[3,1,6] r"),
        None,
    ),
    Stays(
        "a normalization over more than the columns",
        turned(f"t = {TURN} (x) a = Softmax <axis = 1> (t) p = MatMul (a, W) y = {TURN} (p)"),
        None,
    ),
    Stays(
        "an old Softmax",
        turned(f"t = {TURN} (x) a = Softmax <axis = 2> (t) p = MatMul (a, W) y = {TURN} (p)"),
        None,
        opset=12,
    ),
    Stays(
        "a Reshape that mixes rows and columns",
        turned(f"t = {TURN} (x) p = MatMul (t, W) a = Reshape (p, s) y = {TURN} (a)", "float[2,3,4] x", constants="int64[3] s = {4, 3, 3}"),
        None,
    ),
    Stays("an unknown rank", turned(ROWS, "float[] x"), None, valid=False),
    Stays("an empty value", turned(ROWS, "float[0,3,4] x"), None),
    Stays(
        "weights that would be stored twice",
        OPEN_OUT.replace("=> (float[A,B,C] y)", "=> (float[A,B,C] y, float[6,1500] z)")
        .replace("t = Transpose", "z = Neg (W) t = Transpose")
        .replace("S,5]", "S,500]")
        .replace("6,15]", "6,1500]")
        .replace("-1, 15", "-1, 1500"),
        None,
    ),
]  # fmt: skip

FIRES = [
    Fires("a product", turned(ROWS), ["MatMul"]),
    Fires(
        "a bias, a function, a normalization, another product",
        turned(
            f"t = {TURN} (x) p = MatMul (t, W) a = Add (B, p) b = Tanh (a) c = LayerNormalization (b, B, B) d = Div (half, c) e = MatMul (d, V) y = {TURN} (e)",
            constants="float half = {0.5}",
        ),
        ["MatMul", "Add", "Tanh", "LayerNormalization", "Div", "MatMul"],
    ),
    Fires(
        "Softmax, axes of one element, Flatten",
        turned(
            f"t = {TURN} (x) a = Softmax (t) p = MatMul (a, W) u = Unsqueeze (p, ax) s = Squeeze (u, ax) f = Flatten <axis = 2> (s) m = MatMul (f, V) g = Reshape (m, to) y = {TURN} (g)",
            "float[2,3,4] x",
            constants="int64[1] ax = {1}, int64[3] to = {3, 2, 4}",
        ),
        ["Softmax", "MatMul", "MatMul"],
    ),
    Fires(
        "the first Transpose is also used otherwise",
        turned(
            f"t = {TURN} (x) z = Exp (t) p = MatMul (t, W) a = {TURN} (p) y = Mul (a, B)",
            y="float[A,B,C] y, float[D,E,F] z",
        ),
        ["MatMul", "Transpose", "Exp", "Mul"],
    ),
    Fires("the product is also used as it is", turned(ROWS, y="float[A,B,C] y, float[D,E,F] p"), ["MatMul", "Transpose"]),
    Fires(
        "packed query and key",
        PACKED.format(unpacked="u = Transpose <perm = [2, 0, 1, 3]> (r)"),
        ["MatMul", "Add", "Reshape", "Gather", "Gather", "Reshape", "Transpose", "Reshape", "Transpose"],
    ),
    Fires(
        "packed query and key with an axis of one element, as torch writes them",
        PACKED.format(
            unpacked="v = Unsqueeze (r, ax) w = Transpose <perm = [3, 1, 2, 0, 4]> (v) u = Squeeze (w, third)"
        ),
        ["MatMul", "Add", "Reshape", "Gather", "Gather", "Reshape", "Transpose", "Reshape", "Transpose"],
    ),
    Fires(
        "packed, with a batch of one",
        PACKED.format(unpacked="u = Transpose <perm = [2, 0, 1, 3]> (r)").replace("N,S,4", "1,7,4"),
        ["MatMul", "Add", "Reshape", "Gather", "Gather", "Reshape", "Transpose", "Reshape", "Transpose"],
    ),
    Fires("heads of all batches", HEADS, ["MatMul", "Reshape", "Transpose", "Reshape"]),
    Fires("Gemm of merged heads", OUT, ["Transpose", "Reshape", "Gemm", "Reshape"]),
    Fires(
        "Gemm of merged heads, with a batch of one",
        OUT.replace("float[2,3", "float[1,3").replace("{8, 15}", "{4, 15}").replace("{4, 2, 6}", "{4, 1, 6}"),
        ["Transpose", "Reshape", "Gemm", "Reshape"],
    ),
    Fires(
        "Gemm of merged heads with two unknown sizes",
        OPEN_OUT,
        ["Transpose", "Reshape", "MatMul", "Add"],
        zero_sizes=False,
    ),
]  # fmt: skip

test_stays, test_fires = tables(
    "TransMatMulSymmetryEliminationPass", STAYS, FIRES, in_functions="never"
)
