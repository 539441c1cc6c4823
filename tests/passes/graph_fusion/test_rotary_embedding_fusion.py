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

TURNED = "agraph (float[B,2,S,7] x, float[B,S,2] c, float[B,S,2] s) => (float[B,2,S,7] y) <int64[2] parts = {4, 3}> { w, z = Split <axis = 3> (x, parts) t = RotaryEmbedding (w, c, s) y = Concat <axis = 3> (t, z) }"

STAYS = [
    Stays("three pieces", TURNED.replace("w, z =", "w, z, o =").replace("(t, z)", "(t, z, o)").replace("int64[2] parts = {4, 3}", "int64[3] parts = {4, 2, 1}"), None, opset=23),
    Stays("pieces of another axis", TURNED.replace("[B,2,S,7]", "[B,7,S,4]").replace("axis = 3", "axis = 1"), "not two known pieces of the last of four axes", opset=23),
    Stays("a vector for all positions", graph(f"{SPLIT} {TURN}", "float[1,2,1,4]", constants=", float[4] c = {1, 2, 1, 2}, float[4] s = {1, 2, 1, 2}"), "the shape of cosine or sine is unknown", opset=23),
    Stays("heads that are used elsewhere", "agraph (float[B,S,8] q, float[B,S,2] c, float[B,S,2] s) => (float[B,2,S,4] y, float[B,2,S,4] o) <int64[4] heads = {0, 0, 2, 4}> { i = Reshape (q, heads) x = Transpose <perm = [0, 2, 1, 3]> (i) y = RotaryEmbedding (x, c, s) o = Neg (x) }", None, opset=23),
    Stays("opset 22", graph(f"{ANGLES} {SPLIT} {TURN}"), "opset 22 has no RotaryEmbedding", opset=22),
    Stays("double", graph(f"{ANGLES} {SPLIT} {TURN}", "double[B,2,S,4]", "double[1,S,2] f"), "the elements are not float32", opset=23),
    Stays("rank 3", graph(f"{ANGLES} {SPLIT} {TURN}".replace("axis = 3", "axis = 2"), "float[B,S,4]", out="float[?,?,?,4]"), "x is not known to have four axes, the last one even", opset=23),
    Stays("unknown size", graph(f"{ANGLES} {SPLIT} {TURN}", "float[B,2,S,D]"), "x is not known to have four axes, the last one even", opset=23),
    Stays("not halves", graph(f"{ANGLES} {SPLIT} {TURN}").replace("two = {2, 2}", "two = {1, 3}"), "not the two halves of the last axis are turned", opset=23),
    Stays("not halves, cut", graph(f"{ANGLES} {SLICES} {TURN}").replace("middle = {2}", "middle = {1}"), "not the two halves of the last axis are turned", opset=23),
    Stays("another axis", graph(f"{ANGLES} {SPLIT} {TURN}", "float[B,2,4,4]", "float[1,4,2] f").replace("axis = 3", "axis = 2").replace("r = Concat <axis = -1>", "r = Concat <axis = 2>"), "not the two halves of the last axis are turned", opset=23),
    Stays("the other half is turned", graph(f"{ANGLES} {SPLIT} {TURN}".replace("Neg (h)", "Neg (l)").replace("(n, l)", "(n, h)")), None, opset=23),
    Stays("other angles in the second half", graph(f"{ANGLES} {SPLIT} {TURN}".replace("(f, f)", "(f, g)"), f="float[1,S,2] f, float[1,S,2] g"), "the two halves of the cosine or sine are not known to be the same", opset=23),
    Stays("other numbers in the second half", graph(f"{SPLIT} {TURN}", "float[B,2,3,4]", constants=TABLE.replace("1, 2, 1, 2", "1, 2, 1, 3")), "the two halves of the cosine or sine differ", opset=23),
    Stays("one angle for each head", graph(f"{ANGLES} {SPLIT} {TURN}".replace("c3, one", "c3, zero").replace("s3, one", "s3, zero"), f="float[2,S,2] f"), "cosine or sine does not fit x", opset=23),
    Stays("one angle for all positions", graph(f"{ANGLES} {SPLIT} {TURN}", f="float[1,1,2] f"), "cosine or sine does not fit x", opset=23),
    Stays("a half is used elsewhere", graph(f"{ANGLES} {SPLIT} {TURN} o = Abs (h)", y=", float[B,2,S,2] o"), "an interior value is used elsewhere", opset=23),
    Stays("pairs with gaps", graph(PAIRS.replace("(x, one, end, three, dos)", "(x, zero, end, three, dos)"), f="float[B,1,S,2] f", constants=STEPS), "not every second element is taken", opset=23),
    Stays("pairs one after the other", graph(PAIRS.replace("axis = -1> (ru", "axis = 3> (ru"), f="float[B,1,S,2] f", constants=STEPS), "real and imaginary part are not known to alternate", opset=23),
]  # fmt: skip

FIRES = [
    Fires("a part of the part", TURNED.replace("RotaryEmbedding (", "RotaryEmbedding <rotary_embedding_dim = 2> (").replace("float[B,S,2]", "float[B,S,1]"), ["RotaryEmbedding"], opset=23),
    Fires("a part, interleaved", TURNED.replace("RotaryEmbedding (", "RotaryEmbedding <interleaved = 1> ("), ["RotaryEmbedding"], opset=23),
    Fires("Split", graph(f"{ANGLES} {SPLIT} {TURN}"), ["Cos", "Shape", "Concat", "Expand", "Sin", "Shape", "Concat", "Expand", "RotaryEmbedding"], opset=23),
    Fires("Slices", graph(f"{ANGLES} {SLICES} {TURN}"), ["Cos", "Shape", "Concat", "Expand", "Sin", "Shape", "Concat", "Expand", "RotaryEmbedding"], opset=23),
    Fires("one batch", graph(f"{ANGLES} {SPLIT} {TURN}", "float[1,2,S,4]"), ["Cos", "Sin", "RotaryEmbedding"], opset=23),
    Fires("a fixed batch", graph(f"{ANGLES} {SPLIT} {TURN}", "float[3,2,S,4]"), ["Cos", "Expand", "Sin", "Expand", "RotaryEmbedding"], opset=23),
    Fires("commuted", graph(f"{ANGLES} {SPLIT} {TURN}".replace("Mul (x, c)", "Mul (c, x)").replace("Mul (r, s)", "Mul (s, r)").replace("Add (a, b)", "Add (b, a)"), "float[1,2,S,4]"), ["Cos", "Sin", "RotaryEmbedding"], opset=23),
    Fires("angles for each of a batch", graph(f"{ANGLES} {SPLIT} {TURN}", f="float[B,S,2] f"), ["Cos", "Sin", "RotaryEmbedding"], opset=23),
    Fires("opset 24", graph(f"{ANGLES} {SPLIT} {TURN}", f="float[B,S,2] f"), ["Cos", "Sin", "RotaryEmbedding"], opset=24),
    Fires("scaled angles", graph(f"{ANGLES.replace('c = Unsqueeze (c3', 'c4 = Mul (c3, g) c = Unsqueeze (c4')} {SPLIT} {TURN}", f="float[B,S,2] f", constants=", float g = {2.0}"), ["Cos", "Mul", "Sin", "RotaryEmbedding"], opset=23),
    Fires("tables", graph(f"{SPLIT} {TURN}", "float[1,2,3,4]", constants=TABLE), ["RotaryEmbedding"], opset=23),
    Fires("rows of a table", graph(f"{GATHERED} {SPLIT} {TURN}", f="int64[B,S] p", constants=TABLES), ["Gather", "Gather", "RotaryEmbedding"], opset=23),
    Fires("halves, Split", graph(f"{HALF} {SPLIT} {HALVES} y = Concat <axis = -1> (re, im)", f="float[B,1,S,2] f"), ["Cos", "Sin", "Squeeze", "Squeeze", "RotaryEmbedding"], opset=23),
    Fires("halves, Slices", graph(f"{HALF} {SLICES} {HALVES} y = Concat <axis = 3> (re, im)", f="float[B,1,S,2] f"), ["Cos", "Sin", "Squeeze", "Squeeze", "RotaryEmbedding"], opset=23),
    Fires("pairs", graph(PAIRS, f="float[B,1,S,2] f", constants=STEPS), ["Cos", "Sin", "Squeeze", "Squeeze", "RotaryEmbedding"], opset=23),
    Fires("a part of each head", graph(PARTIAL, "float[B,2,S,7]", "float[B,S,2] f", ", int64[2] parts = {4, 3}"), ["Cos", "Sin", "RotaryEmbedding"], 2, opset=23),
    Fires("split heads", graph(f"{SPLIT_HEADS} {ANGLES} {SPLIT} {TURN}", "float[B,S,8]", "float[B,S,2] f", ", int64[4] heads = {0, 0, 2, 4}", out="float[B,2,S,4]").replace("float[B,S,8] x", "float[B,S,8] q"), ["Cos", "Sin", "RotaryEmbedding", "Reshape", "Transpose"], 2, opset=23),
]  # fmt: skip

test_stays, test_fires = tables("RotaryEmbeddingFusionPass", STAYS, FIRES)
