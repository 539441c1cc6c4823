from harness import Fires, Stays, tables

FLATTEN = "fa = Reshape (a, flat) fb = Reshape (b, flat)"
SCORES = "tb = Transpose <perm = [0, 2, 1]> (fb) s = MatMul (fa, tb)"
APART = "y = Reshape (s, apart)"
TARGETS = "int64[3] flat = {-1, 4, 8}, int64[4] apart = {-1, 2, 4, 4}"
ATTENTION = f"fc = Reshape (c, flat) {SCORES} p = Softmax <axis = -1> (s) o = MatMul (p, fc) y = Reshape (o, back)"


def graph(
    body: str = f"{FLATTEN} {SCORES} {APART}",
    targets: str = TARGETS,
    a: str = "float[B,2,4,8]",
    b: str = "float[B,2,4,8]",
    y: str = "float[B,2,4,4]",
    more: str = "",
    results: str = "",
) -> str:
    return f"agraph ({a} a, {b} b{more}) => ({y} y{results}) <{targets}> {{ {body} }}"


STAYS = [
    Stays("other leading axes", graph(b="float[B,4,2,8]", targets="int64[3] flat = {-1, 4, 8}, int64[3] other = {-1, 8, 2}, int64[4] apart = {-1, 2, 4, 2}", y="float[?,2,4,2]", body=f"fa = Reshape (a, flat) fb = Reshape (b, other) s = MatMul (fa, fb) {APART}").replace("other = {-1, 8, 2}", "other = {-1, 8, 2}"), None),
    Stays("leading axes of another size", graph(b="float[C,2,4,8]", y="float[?,2,4,4]"), None),
    Stays("parted in another way", graph(targets=TARGETS.replace("{-1, 2, 4, 4}", "{2, -1, 4, 4}"), y="float[2,B,4,4]"), None),
    Stays("not joined alone", graph(targets=TARGETS.replace("{-1, 4, 8}", "{-1, 8, 8}").replace("{-1, 2, 4, 4}", "{-1, 2, 8, 8}"), a="float[4,2,4,8]", b="float[4,2,4,8]", y="float[2,2,8,8]"), None),
    Stays("one of several batches", graph(f"fa = Reshape (a, flat) s = MatMul (fa, b) {APART}", b="float[1,8,4]"), None),
    Stays("a matrix for all", graph(f"fa = Reshape (a, flat) s = MatMul (fa, b) {APART}", b="float[8,4]"), None),
    Stays("Softmax over the matrices", graph(f"{FLATTEN} {SCORES} p = Softmax <axis = 1> (s) y = Reshape (p, apart)"), None),
    Stays("the first axis moves", graph(f"{FLATTEN} {SCORES} t = Transpose <perm = [1, 0, 2]> (s) y = Reshape (t, apart)", targets=TARGETS.replace("{-1, 2, 4, 4}", "{4, -1, 2, 4}"), y="float[4,B,2,4]"), None),
    Stays("nothing between the Reshapes", graph("f = Reshape (a, flat) y = Reshape (f, apart) z = Neg (b)", targets=TARGETS.replace("2, 4, 4}", "2, 4, 8}"), y="float[B,2,4,8]", results=", float[B,2,4,8] z"), None),
    Stays("another operator", graph(f"{FLATTEN} {SCORES} n = CumSum (s, zero) y = Reshape (n, apart)", targets=f"{TARGETS}, int64 zero = {{0}}"), None),
    Stays("a size that is not known", graph(f"{FLATTEN} {SCORES} {APART}", targets="int64[4] apart = {-1, 2, 4, 4}", more=", int64[3] flat"), None),
    Stays("the product is used elsewhere", graph(f"{FLATTEN} {SCORES} {APART} z = Neg (s)", results=", float[?,4,4] z"), "an interior value is used elsewhere"),
]  # fmt: skip

FIRES = [
    Fires("a product", graph(), ["Transpose", "MatMul"]),
    Fires("attention", graph(f"{FLATTEN} {ATTENTION}", f"{TARGETS}, int64[4] back = {{-1, 2, 4, 8}}", y="float[B,2,4,8]", more=", float[B,2,4,8] c"), ["Transpose", "MatMul", "Softmax", "MatMul"]),
    Fires("attention at opset 9", graph(f"{FLATTEN} {ATTENTION}".replace("axis = -1", "axis = 2"), f"{TARGETS}, int64[4] back = {{-1, 2, 4, 8}}", y="float[B,2,4,8]", more=", float[B,2,4,8] c"), ["Transpose", "MatMul", "Softmax", "MatMul"], opset=9),
    Fires("a mask in between", graph(f"{FLATTEN} {SCORES} z = Reshape (s, apart) w = Add (z, m) x = Reshape (w, joint) p = Softmax <axis = -1> (x) fc = Reshape (c, flat) o = MatMul (p, fc) y = Reshape (o, back)", f"{TARGETS}, int64[4] back = {{-1, 2, 4, 8}}, int64[3] joint = {{-1, 4, 4}}", y="float[B,2,4,8]", more=", float[B,2,4,8] c, float[B,1,4,4] m"), ["Transpose", "MatMul", "Add", "Softmax", "MatMul"], 2),
    Fires("computed shapes", graph(f"n = Shape (a) b0 = Slice (n, one, two) h0 = Slice (n, zero, one) f0 = Mul (b0, h0) flat = Concat <axis = 0> (f0, last) apart = Concat <axis = 0> (h0, b0, square) {FLATTEN} {SCORES} {APART}", "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[2] last = {4, 8}, int64[2] square = {4, 4}"), ["Transpose", "MatMul"]),
    Fires("a Reshape that is used elsewhere", graph(f"{FLATTEN} {SCORES} {APART} z = Neg (fa)", results=", float[?,4,8] z"), ["Reshape", "Transpose", "MatMul", "Neg"]),
    Fires("three leading axes", graph(a="float[B,2,3,4,8]", b="float[B,2,3,4,8]", y="float[B,2,3,4,4]", targets="int64[3] flat = {-1, 4, 8}, int64[5] apart = {-1, 2, 3, 4, 4}"), ["Transpose", "MatMul"]),
]  # fmt: skip

test_stays, test_fires = tables("FlatBatchEliminationPass", STAYS, FIRES, in_functions="never")
