from dataclasses import replace

from harness import Fires, Stays, tables
from rotary_text import (
    ANGLES,
    CUT,
    GATHERED,
    HALF,
    HALVES,
    PAIRS,
    PARTIAL,
    SLICES,
    SPLIT,
    SPLIT_HEADS,
    STAYS_OF_BOTH,
    STEPS,
    TABLE,
    TABLES,
    TURN,
    graph,
)

TURNED = "agraph (float[B,2,S,7] x, float[B,S,2] c, float[B,S,2] s) => (float[B,2,S,7] y) <int64[2] parts = {4, 3}> { w, z = Split <axis = 3> (x, parts) t = RotaryEmbedding (w, c, s) y = Concat <axis = 3> (t, z) }"
CAST = ANGLES.replace(
    "c3 = Cos (ff) s3 = Sin (ff)",
    "c4 = Cos (ff) s4 = Sin (ff) c3 = Cast <to = 1> (c4) s3 = Cast <to = 1> (s4)",
)
SQUEEZED = ANGLES.replace(
    "c3 = Cos (ff) s3 = Sin (ff)",
    "c4 = Cos (ff) s4 = Sin (ff) c5 = Squeeze (c4, zero) s5 = Squeeze (s4, zero) c3 = Gather (c5, p) s3 = Gather (s5, p)",
)

STAYS = [
    Stays("a squeezed last axis", graph("g2 = Concat <axis = -1> (f, f) c3 = Cos (g2) s3 = Sin (g2) c = Squeeze (c3, four) s = Squeeze (s3, four) " + f"{SPLIT} {TURN}", "float[2,2,3,4]", "float[2,2,3,4,1] f").replace("Concat <axis = -1> (f, f)", "Concat <axis = 3> (f, f)").replace("float[2,2,3,4,1] f", "float[2,1,3,2,1] f"), "the two halves of the cosine or sine are not known to be the same", opset=23),
    Stays("three pieces", TURNED.replace("w, z =", "w, z, o =").replace("(t, z)", "(t, z, o)").replace("int64[2] parts = {4, 3}", "int64[3] parts = {4, 2, 1}"), None, opset=23),
    Stays("pieces of another axis", TURNED.replace("[B,2,S,7]", "[B,7,S,4]").replace("axis = 3", "axis = 1"), "the Split does not have two known pieces of the last of four axes", opset=23),
    Stays("heads that are used elsewhere", "agraph (float[B,S,8] q, float[B,S,2] c, float[B,S,2] s) => (float[B,2,S,4] y, float[B,2,S,4] o) <int64[4] heads = {0, 0, 2, 4}> { i = Reshape (q, heads) x = Transpose <perm = [0, 2, 1, 3]> (i) y = RotaryEmbedding (x, c, s) o = Neg (x) }", None, opset=23),
    Stays("opset 22", graph(f"{ANGLES} {SPLIT} {TURN}"), "opset 22 has no RotaryEmbedding", opset=22),
    *(replace(case, opset=23) for case in STAYS_OF_BOTH),
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
    Fires("angles in double precision", graph(f"{CAST} {SPLIT} {TURN}", f="double[B,S,2] f"), ["Cos", "Cast", "Sin", "Cast", "RotaryEmbedding"], opset=23),
    Fires("rows of computed tables", graph(f"{SQUEEZED} {SPLIT} {TURN}", f="float[1,8,2] f, int64[B,S] p"), ["Cos", "Squeeze", "Gather", "Sin", "Squeeze", "Gather", "RotaryEmbedding"], opset=23),
    Fires("tables", graph(f"{SPLIT} {TURN}", "float[1,2,3,4]", constants=TABLE), ["RotaryEmbedding"], opset=23),
    Fires("rows of a table", graph(f"{GATHERED} {SPLIT} {TURN}", f="int64[B,S] p", constants=TABLES), ["Gather", "Gather", "RotaryEmbedding"], opset=23),
    Fires("rows of the first rows of a table", graph(f"{CUT} {SPLIT} {TURN}", f="int64[B,S] p", constants=TABLES), ["Shape", "Add", "Slice", "Gather", "Slice", "Gather", "RotaryEmbedding"], opset=23),
    Fires("halves, Split", graph(f"{HALF} {SPLIT} {HALVES} y = Concat <axis = -1> (re, im)", f="float[B,1,S,2] f"), ["Cos", "Sin", "Squeeze", "Squeeze", "RotaryEmbedding"], opset=23),
    Fires("halves, Slices", graph(f"{HALF} {SLICES} {HALVES} y = Concat <axis = 3> (re, im)", f="float[B,1,S,2] f"), ["Cos", "Sin", "Squeeze", "Squeeze", "RotaryEmbedding"], opset=23),
    Fires("pairs", graph(PAIRS, f="float[B,1,S,2] f", constants=STEPS), ["Cos", "Sin", "Squeeze", "Squeeze", "RotaryEmbedding"], opset=23),
    Fires("a part of each head", graph(PARTIAL, "float[B,2,S,7]", "float[B,S,2] f", ", int64[2] parts = {4, 3}"), ["Cos", "Sin", "RotaryEmbedding"], 2, opset=23),
    Fires("split heads", graph(f"{SPLIT_HEADS} {ANGLES} {SPLIT} {TURN}", "float[B,S,8]", "float[B,S,2] f", ", int64[4] heads = {0, 0, 2, 4}", out="float[B,2,S,4]").replace("float[B,S,8] x", "float[B,S,8] q"), ["Cos", "Sin", "RotaryEmbedding", "Reshape", "Transpose"], 2, opset=23),
]  # fmt: skip

test_stays, test_fires = tables("RotaryEmbeddingFusionPass", STAYS, FIRES, in_functions="never")
