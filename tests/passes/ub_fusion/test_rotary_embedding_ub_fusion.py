from harness import Fires, Stays, tables
from rotary_text import (
    ANGLES,
    GATHERED,
    HALF,
    HALVES,
    PAIRS,
    PARTIAL,
    SLICES,
    SPLIT,
    SPLIT_HEADS,
    STEPS,
    TABLE,
    TABLES,
    TURN,
    graph,
)

TURNED = "agraph (float[B,2,S,7] x, float[S,2] c, float[S,2] s) => (float[B,2,S,7] y) <int64[2] parts = {4, 3}, int64[1] p = {0}> { w, z = Split <axis = 3> (x, parts) t = com.microsoft.RotaryEmbedding (w, p, c, s) y = Concat <axis = 3> (t, z) }"

STAYS = [
    Stays("three pieces", TURNED.replace("w, z =", "w, z, o =").replace("(t, z)", "(t, z, o)").replace("int64[2] parts = {4, 3}", "int64[3] parts = {4, 2, 1}"), None),
    Stays("pieces of another axis", TURNED.replace("[B,2,S,7]", "[B,7,S,4]").replace("axis = 3", "axis = 1"), "not two known pieces of the last of four axes"),
    Stays("a vector for all positions", graph(f"{SPLIT} {TURN}", "float[1,2,1,4]", constants=", float[4] c = {1, 2, 1, 2}, float[4] s = {1, 2, 1, 2}"), "the shape of cosine or sine is unknown"),
    Stays("double", graph(f"{ANGLES} {SPLIT} {TURN}", "double[B,2,S,4]", "double[1,S,2] f"), "the elements are not float32"),
    Stays("rank 3", graph(f"{ANGLES} {SPLIT} {TURN}".replace("axis = 3", "axis = 2"), "float[B,S,4]", out="float[?,?,?,4]"), "x is not known to have four axes, the last one even"),
    Stays("unknown size", graph(f"{ANGLES} {SPLIT} {TURN}", "float[B,2,S,D]"), "x is not known to have four axes, the last one even"),
    Stays("not halves", graph(f"{ANGLES} {SPLIT} {TURN}").replace("two = {2, 2}", "two = {1, 3}"), "not the two halves of the last axis are turned"),
    Stays("not halves, cut", graph(f"{ANGLES} {SLICES} {TURN}").replace("middle = {2}", "middle = {1}"), "not the two halves of the last axis are turned"),
    Stays("another axis", graph(f"{ANGLES} {SPLIT} {TURN}", "float[B,2,4,4]", "float[1,4,2] f").replace("axis = 3", "axis = 2").replace("r = Concat <axis = -1>", "r = Concat <axis = 2>"), "not the two halves of the last axis are turned"),
    Stays("the other half is turned", graph(f"{ANGLES} {SPLIT} {TURN}".replace("Neg (h)", "Neg (l)").replace("(n, l)", "(n, h)")), None),
    Stays("other angles in the second half", graph(f"{ANGLES} {SPLIT} {TURN}".replace("(f, f)", "(f, g)"), f="float[1,S,2] f, float[1,S,2] g"), "the two halves of the cosine or sine are not known to be the same"),
    Stays("other numbers in the second half", graph(f"{SPLIT} {TURN}", "float[B,2,3,4]", constants=TABLE.replace("1, 2, 1, 2", "1, 2, 1, 3")), "the two halves of the cosine or sine differ"),
    Stays("one angle for each head", graph(f"{ANGLES} {SPLIT} {TURN}".replace("c3, one", "c3, zero").replace("s3, one", "s3, zero"), f="float[2,S,2] f"), "cosine or sine does not fit x"),
    Stays("one angle for all positions", graph(f"{ANGLES} {SPLIT} {TURN}", f="float[1,1,2] f"), "cosine or sine does not fit x"),
    Stays("a half is used elsewhere", graph(f"{ANGLES} {SPLIT} {TURN} o = Abs (h)", y=", float[B,2,S,2] o"), "an interior value is used elsewhere"),
    Stays("pairs with gaps", graph(PAIRS.replace("(x, one, end, three, dos)", "(x, zero, end, three, dos)"), f="float[B,1,S,2] f", constants=STEPS), "not every second element is taken"),
    Stays("pairs one after the other", graph(PAIRS.replace("axis = -1> (ru", "axis = 3> (ru"), f="float[B,1,S,2] f", constants=STEPS), "real and imaginary part are not known to alternate"),
]  # fmt: skip


SHARED = ["Cos", "Sin", "Squeeze", "Squeeze", "RotaryEmbedding"]
COUNT = ["Shape", "Shape", "Squeeze", "Range", "Squeeze", "Range", "Unsqueeze", "Mul", "Add"]
EACH = ["Cos", "Sin", *COUNT, "Reshape", "Reshape", "RotaryEmbedding"]
FIRES = [
    Fires("a part", TURNED.replace("RotaryEmbedding (", "RotaryEmbedding <num_heads = 2> ("), ["RotaryEmbedding"]),
    Fires("a part, interleaved", TURNED.replace("RotaryEmbedding (", "RotaryEmbedding <interleaved = 1> ("), ["RotaryEmbedding"]),
    Fires("Split", graph(f"{ANGLES} {SPLIT} {TURN}"), SHARED),
    Fires("Slices", graph(f"{ANGLES} {SLICES} {TURN}"), SHARED),
    Fires("one batch", graph(f"{ANGLES} {SPLIT} {TURN}", "float[1,2,S,4]"), SHARED),
    Fires("a fixed batch", graph(f"{ANGLES} {SPLIT} {TURN}", "float[3,2,S,4]"), SHARED),
    Fires("commuted", graph(f"{ANGLES} {SPLIT} {TURN}".replace("Mul (x, c)", "Mul (c, x)").replace("Mul (r, s)", "Mul (s, r)").replace("Add (a, b)", "Add (b, a)")), SHARED),
    Fires("angles for each of a batch", graph(f"{ANGLES} {SPLIT} {TURN}", f="float[B,S,2] f"), EACH),
    Fires("angles for each of a fixed batch", graph(f"{ANGLES} {SPLIT} {TURN}", "float[2,2,3,4]", f="float[2,3,2] f"), ["Cos", "Sin", "Reshape", "Reshape", "RotaryEmbedding"]),
    Fires("scaled angles", graph(f"{ANGLES.replace('c = Unsqueeze (c3', 'c4 = Mul (c3, g) c = Unsqueeze (c4')} {SPLIT} {TURN}", constants=", float g = {2.0}"), ["Cos", "Mul", "Sin", "Squeeze", "Squeeze", "RotaryEmbedding"]),
    Fires("tables", graph(f"{SPLIT} {TURN}", "float[B,2,3,4]", constants=TABLE), ["RotaryEmbedding"]),
    Fires("rows of a table", graph(f"{GATHERED} {SPLIT} {TURN}", f="int64[B,S] p", constants=TABLES), ["Gather", "Gather", *COUNT, "Reshape", "Reshape", "RotaryEmbedding"]),
    Fires("halves, Split", graph(f"{HALF} {SPLIT} {HALVES} y = Concat <axis = -1> (re, im)", f="float[1,1,S,2] f"), ["Cos", "Sin", "Squeeze", "Squeeze", "Squeeze", "Squeeze", "RotaryEmbedding"]),
    Fires("halves, Slices", graph(f"{HALF} {SLICES} {HALVES} y = Concat <axis = 3> (re, im)", f="float[1,S,2] f"), SHARED),
    Fires("pairs", graph(PAIRS, f="float[1,S,2] f", constants=STEPS), SHARED),
    Fires("a part of each head", graph(PARTIAL, "float[B,2,S,7]", "float[1,S,2] f", ", int64[2] parts = {4, 3}"), SHARED, 2),
    Fires("split heads", graph(f"{SPLIT_HEADS} {ANGLES} {SPLIT} {TURN}", "float[B,S,8]", "float[1,S,2] f", ", int64[4] heads = {0, 0, 2, 4}", out="float[B,2,S,4]").replace("float[B,S,8] x", "float[B,S,8] q"), ["Reshape", "Transpose", *SHARED]),
    *[Fires(f"opset {opset}", graph(f"{ANGLES} {SPLIT} {TURN}"), SHARED, opset=opset) for opset in (13, 17, 23)],
]  # fmt: skip

test_stays, test_fires = tables("RotaryEmbeddingUbFusionPass", STAYS, FIRES)
