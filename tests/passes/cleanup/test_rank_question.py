from __future__ import annotations

from harness import Fires, Stays, tables

# A batch of fixed size: onnxruntime ends the process where an LSTM has a batch of nothing.
SCRIPT = """agraph (float[2,4,1] x) => (float[1,2,3] y)
<int64 one = {1}, int64 two = {2}, int64[1] z = {0}, int64[1] a = {2}, float[1,12,4] W, float[1,12,3] R> {
    s = Shape (x) d = Gather (s, two) q = Equal (d, one)
    v = If (q) <then_branch = t () => (float[2,4] p) { p = Squeeze (x, a) },
                else_branch = e () => (float[2,4,1] r) { r = Identity (x) }>
    vs = Shape (v) n = Size (vs) k = Equal (n, two) o = Not (k)
    u = If (o) <then_branch = tt () => (float[] m) { m = Unsqueeze (v, z) },
                else_branch = ee () => (float[] l) { l = Identity (v) }>
    w = Unsqueeze (u, z)
    f, y = LSTM <hidden_size = 3> (w, W, R)
}"""
LEFT = ["Shape", "Gather", "Equal", "If", "Not", "If", "Unsqueeze", "LSTM"]
BOTH = "both answers are possible"


def change(*pairs: tuple[str, str]) -> str:
    text = SCRIPT
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


STAYS = [
    Stays("a part of the shape", change(("vs = Shape (v)", "vs = Shape <start = 0> (v) vt = Shape <end = 1> (v)"), ("Size (vs)", "Size (vt)")), "the Shape covers only a part of the axes"),
    Stays("a value of no If", change(("Shape (v) n", "Shape (x) n")), "the value is not the result of an If"),
    Stays("a branch of unknown rank", change(("t () => (float[2,4] p) { p = Squeeze (x, a) }", "t () => (float[] p) { c = Cast <to = 7> (q) i = Mul (a, c) p = Squeeze (x, i) }")), "the rank of a branch's result is unknown"),
    Stays("another operator that takes any rank", change(("f, y = LSTM <hidden_size = 3> (w, W, R)", "y = Relu (w)"), ("float[1,2,3] y", "float[A,B,C] y")), BOTH),
    Stays("nobody sees the LSTM", change(("f, y = LSTM <hidden_size = 3> (w, W, R)", "f, g = LSTM <hidden_size = 3> (w, W, R) y = Relu (w)"), ("float[1,2,3] y", "float[A,B,C] y")), BOTH),
    Stays("axes that are computed", change(("w = Unsqueeze (u, z)", "i = Size (q) j = Sub (i, one) h = Reshape (j, oo) w = Unsqueeze (u, h)"), ("int64 one", "int64[1] oo = {1}, int64 one")), BOTH),
    Stays("a branch of which the rank does not follow", change(("l = Identity (v)", "l = Reshape (v, rs)"), ("int64 one", "int64[2] rs = {-1, 4}, int64 one")), "the answer would let a failing model run"),
    Stays("an input that has another rank", change(("(w, W, R)", "(x, W, R, w)")), BOTH, valid=False),
]  # fmt: skip

FIRES = [
    Fires("a cell without a batch", SCRIPT, LEFT),
    Fires("the number first", change(("Equal (n, two)", "Equal (two, n)")), LEFT),
    Fires("a cast answer", change(("o = Not (k)", "b = Cast <to = 9> (k) o = Not (b)")), [*LEFT[:4], "Cast", *LEFT[4:]]),
]  # fmt: skip

test_stays, test_fires = tables("RankQuestionPass", STAYS, FIRES, in_functions="never")
