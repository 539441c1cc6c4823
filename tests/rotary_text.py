"""Rotary position embedding as exporters write it, in ONNX text. The standard operator and
onnxruntime's own replace these forms.
"""

from harness import Stays

ANGLES = "ff = Concat <axis = -1> (f, f) c3 = Cos (ff) s3 = Sin (ff) c = Unsqueeze (c3, one) s = Unsqueeze (s3, one)"
SPLIT = "l, h = Split <axis = 3> (x, two)"
SLICES = "l = Slice (x, zero, middle, three) h = Slice (x, middle, end, three)"
TURN = "n = Neg (h) r = Concat <axis = -1> (n, l) a = Mul (x, c) b = Mul (r, s) y = Add (a, b)"
HALVES = "lc = Mul (l, c) hs = Mul (h, s) re = Sub (lc, hs) hc = Mul (h, c) ls = Mul (l, s) im = Add (hc, ls)"
CONSTANTS = "int64[1] one = {1}, int64[2] two = {2, 2}, int64[1] zero = {0}, int64[1] middle = {2}, int64[1] end = {9223372036854775807}, int64[1] three = {3}, int64[1] four = {4}"


def graph(
    body: str,
    x: str = "float[B,2,S,4]",
    f: str = "float[1,S,2] f",
    constants: str = "",
    y: str = "",
    out: str = "",
) -> str:
    return f"agraph ({x} x, {f}) => ({out or x} y{y}) <{CONSTANTS}{constants}> {{ {body} }}"


TABLE = ", float[3,4] c = {1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6}, float[1,1,3,4] s = {1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6}"
TABLES = ", float[3,4] ct = {1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6}, float[3,4] st = {1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6}"
GATHERED = "c3 = Gather (ct, p) s3 = Gather (st, p) c = Unsqueeze (c3, one) s = Unsqueeze (s3, one)"
CUT = f"m0 = Shape <start = 1, end = 2> (p) m = Add (m0, three) cc = Slice (ct, zero, m, zero, one) sc = Slice (st, zero, m, zero, one) {GATHERED.replace('(ct', '(cc').replace('(st', '(sc')}"
HALF = "c = Cos (f) s = Sin (f)"
EVERY = "l = Slice (x, zero, end, three, dos) h = Slice (x, one, end, three, dos)"
PAIRS = f"{HALF} {EVERY} {HALVES} ru = Unsqueeze (re, four) iu = Unsqueeze (im, four) both = Concat <axis = -1> (ru, iu) y = Reshape (both, shape)"
STEPS = ", int64[1] dos = {2}, int64[4] shape = {0, 0, 0, -1}"
PARTIAL = f"{ANGLES} w, z = Split <axis = -1> (x, parts) {SPLIT.replace('(x', '(w')} {TURN.replace('(x', '(w').replace('y =', 't =')} y = Concat <axis = -1> (t, z)"
SPLIT_HEADS = "i = Reshape (q, heads) x = Transpose <perm = [0, 2, 1, 3]> (i)"

PARTS = ", int64[2] parts = {4, 3}"

STAYS_OF_BOTH = [
    Stays("a vector for all positions", graph(f"{SPLIT} {TURN}", "float[1,2,1,4]", constants=", float[4] c = {1, 2, 1, 2}, float[4] s = {1, 2, 1, 2}"), "the rank of cosine or sine is not 2, 3 or 4"),
    Stays("double", graph(f"{ANGLES} {SPLIT} {TURN}", "double[B,2,S,4]", "double[1,S,2] f"), "the elements are not float32"),
    Stays("rank 3", graph(f"{ANGLES} {SPLIT} {TURN}".replace("axis = 3", "axis = 2"), "float[B,S,4]", out="float[?,?,?,4]"), "the rank is not 4"),
    Stays("unknown size", graph(f"{ANGLES} {SPLIT} {TURN}", "float[B,2,S,D]"), "the size of the heads is unknown"),
    Stays("not halves", graph(f"{ANGLES} {SPLIT} {TURN}").replace("two = {2, 2}", "two = {1, 3}"), "the rotated parts are not the two halves of the last axis"),
    Stays("not halves, cut", graph(f"{ANGLES} {SLICES} {TURN}").replace("middle = {2}", "middle = {1}"), "the rotated parts are not the two halves of the last axis"),
    Stays("another axis", graph(f"{ANGLES} {SPLIT} {TURN}", "float[B,2,4,4]", "float[1,4,2] f").replace("axis = 3", "axis = 2").replace("r = Concat <axis = -1>", "r = Concat <axis = 2>"), "the rotated parts are not the two halves of the last axis"),
    Stays("the other half is turned", graph(f"{ANGLES} {SPLIT} {TURN}".replace("Neg (h)", "Neg (l)").replace("(n, l)", "(n, h)")), None),
    Stays("other angles in the second half", graph(f"{ANGLES} {SPLIT} {TURN}".replace("(f, f)", "(f, g)"), f="float[1,S,2] f, float[1,S,2] g"), "the two halves of the cosine or sine are not known to be the same"),
    Stays("other numbers in the second half", graph(f"{SPLIT} {TURN}", "float[B,2,3,4]", constants=TABLE.replace("1, 2, 1, 2", "1, 2, 1, 3")), "the two halves of the cosine or sine differ"),
    Stays("columns of a table that are not known", graph(f"{CUT.replace('m, zero, one', 'm, one, one')} {SPLIT} {TURN}", "float[B,2,3,4]", f="int64[B,3] p", constants=TABLES), "the two halves of the cosine or sine are not known to be the same"),
    Stays("one angle for each head", graph(f"{ANGLES} {SPLIT} {TURN}".replace("c3, one", "c3, zero").replace("s3, one", "s3, zero"), f="float[2,S,2] f"), "cosine or sine does not fit x"),
    Stays("one angle for all positions", graph(f"{ANGLES} {SPLIT} {TURN}", f="float[1,1,2] f"), "cosine or sine does not fit x"),
    Stays("a half is used elsewhere", graph(f"{ANGLES} {SPLIT} {TURN} o = Abs (h)", y=", float[B,2,S,2] o"), "an interior value is used elsewhere"),
    Stays("pairs with gaps", graph(PAIRS.replace("(x, one, end, three, dos)", "(x, zero, end, three, dos)"), f="float[B,1,S,2] f", constants=STEPS), "the rotated parts are not every second element"),
    Stays("pairs one after the other", graph(PAIRS.replace("axis = -1> (ru", "axis = 3> (ru"), f="float[B,1,S,2] f", constants=STEPS), "real and imaginary part are not known to alternate"),
]  # fmt: skip
