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

TURNED = "agraph (float[B,2,S,7] x, float[S,2] c, float[S,2] s) => (float[B,2,S,7] y) <int64[2] parts = {4, 3}, int64[1] p = {0}> { w, z = Split <axis = 3> (x, parts) t = com.microsoft.RotaryEmbedding (w, p, c, s) y = Concat <axis = 3> (t, z) }"

STAYS = [
    Stays("three pieces", TURNED.replace("w, z =", "w, z, o =").replace("(t, z)", "(t, z, o)").replace("int64[2] parts = {4, 3}", "int64[3] parts = {4, 2, 1}"), None),
    Stays("pieces of another axis", TURNED.replace("[B,2,S,7]", "[B,7,S,4]").replace("axis = 3", "axis = 1"), "the Split does not have two known pieces of the last of four axes"),
    *STAYS_OF_BOTH,
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
    Fires("angles for each of a batch", graph(f"{ANGLES} {SPLIT} {TURN}", f="float[B,S,2] f"), EACH, zero_sizes=False),
    *[
        Fires(
            f"one cosine for all of a batch, a sine for each, heads of {2 * half}",
            graph(f"{SPLIT} {HALVES} y = Concat <axis = -1> (re, im)", f"float[B,2,S,{2 * half}]", f"float[1,1,S,{half}] c, float[B,1,S,{half}] s").replace("{2, 2}", f"{{{half}, {half}}}"),
            ["Squeeze", "Squeeze", "Shape", "Concat", "Expand", *COUNT, "Reshape", "Reshape", "RotaryEmbedding"],
            sizes={"S": 3},
            zero_sizes=False,
        )
        for half in (1, 2)
    ],
    Fires("angles for each of a fixed batch", graph(f"{ANGLES} {SPLIT} {TURN}", "float[2,2,3,4]", f="float[2,3,2] f"), ["Cos", "Sin", "Reshape", "Reshape", "RotaryEmbedding"]),
    Fires("scaled angles", graph(f"{ANGLES.replace('c = Unsqueeze (c3', 'c4 = Mul (c3, g) c = Unsqueeze (c4')} {SPLIT} {TURN}", constants=", float g = {2.0}"), ["Cos", "Mul", "Sin", "Squeeze", "Squeeze", "RotaryEmbedding"]),
    Fires("tables", graph(f"{SPLIT} {TURN}", "float[B,2,3,4]", constants=TABLE), ["RotaryEmbedding"]),
    Fires("rows of a table", graph(f"{GATHERED} {SPLIT} {TURN}", f="int64[B,S] p", constants=TABLES), ["Gather", "Gather", *COUNT, "Reshape", "Reshape", "RotaryEmbedding"], zero_sizes=False),
    Fires("rows of the first rows of a table", graph(f"{CUT} {SPLIT} {TURN}", f="int64[B,S] p", constants=TABLES), ["Shape", "Add", "Slice", "Gather", "Slice", "Gather", *COUNT, "Reshape", "Reshape", "RotaryEmbedding"], zero_sizes=False),
    Fires("halves, Split", graph(f"{HALF} {SPLIT} {HALVES} y = Concat <axis = -1> (re, im)", f="float[1,1,S,2] f"), ["Cos", "Sin", "Squeeze", "Squeeze", "Squeeze", "Squeeze", "RotaryEmbedding"]),
    Fires("halves, Slices", graph(f"{HALF} {SLICES} {HALVES} y = Concat <axis = 3> (re, im)", f="float[1,S,2] f"), SHARED),
    Fires("pairs", graph(PAIRS, f="float[1,S,2] f", constants=STEPS), SHARED),
    Fires("a part of each head", graph(PARTIAL, "float[B,2,S,7]", "float[1,S,2] f", ", int64[2] parts = {4, 3}"), SHARED, 2),
    Fires("split heads", graph(f"{SPLIT_HEADS} {ANGLES} {SPLIT} {TURN}", "float[B,S,8]", "float[1,S,2] f", ", int64[4] heads = {0, 0, 2, 4}", out="float[B,2,S,4]").replace("float[B,S,8] x", "float[B,S,8] q"), ["Reshape", "Transpose", *SHARED]),
    *[Fires(f"opset {opset}", graph(f"{ANGLES} {SPLIT} {TURN}"), SHARED, opset=opset) for opset in (13, 17, 23)],
]  # fmt: skip

test_stays, test_fires = tables("RotaryEmbeddingUbFusionPass", STAYS, FIRES, in_functions="never")
