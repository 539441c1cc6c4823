"""Rotary position embedding as exporters write it, in ONNX text: what the standard operator and onnxruntime's own replace."""

ANGLES = "ff = Concat <axis = -1> (f, f) c3 = Cos (ff) s3 = Sin (ff) c = Unsqueeze (c3, one) s = Unsqueeze (s3, one)"
SPLIT = "l, h = Split <axis = 3> (x, two)"
SLICES = "l = Slice (x, zero, middle, three) h = Slice (x, middle, end, three)"
TURN = "n = Neg (h) r = Concat <axis = -1> (n, l) a = Mul (x, c) b = Mul (r, s) y = Add (a, b)"
HALVES = "lc = Mul (l, c) hs = Mul (h, s) re = Sub (lc, hs) hc = Mul (h, c) ls = Mul (l, s) im = Add (hc, ls)"
CONSTANTS = "int64[1] one = {1}, int64[2] two = {2, 2}, int64[1] zero = {0}, int64[1] middle = {2}, int64[1] end = {9223372036854775807}, int64[1] three = {3}, int64[1] four = {4}"


def graph(
    body: str, x: str = "float[B,2,S,4]", f: str = "float[1,S,2] f", constants: str = "", y: str = "", out: str = ""
) -> str:
    return f"agraph ({x} x, {f}) => ({out or x} y{y}) <{CONSTANTS}{constants}> {{ {body} }}"


TABLE = ", float[3,4] c = {1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6}, float[1,1,3,4] s = {1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6}"
TABLES = ", float[3,4] ct = {1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6}, float[3,4] st = {1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6}"
GATHERED = "c3 = Gather (ct, p) s3 = Gather (st, p) c = Unsqueeze (c3, one) s = Unsqueeze (s3, one)"
HALF = "c = Cos (f) s = Sin (f)"
EVERY = "l = Slice (x, zero, end, three, dos) h = Slice (x, one, end, three, dos)"
PAIRS = f"{HALF} {EVERY} {HALVES} ru = Unsqueeze (re, four) iu = Unsqueeze (im, four) both = Concat <axis = -1> (ru, iu) y = Reshape (both, shape)"
STEPS = ", int64[1] dos = {2}, int64[4] shape = {0, 0, 0, -1}"
PARTIAL = f"{ANGLES} w, z = Split <axis = -1> (x, parts) {SPLIT.replace('(x', '(w')} {TURN.replace('(x', '(w').replace('y =', 't =')} y = Concat <axis = -1> (t, z)"
SPLIT_HEADS = "i = Reshape (q, heads) x = Transpose <perm = [0, 2, 1, 3]> (i)"

PARTS = ", int64[2] parts = {4, 3}"
