from harness import Fires, Stays, seen_by_subgraph, tables

NORM = "y = LayerNormalization (s, g, o)"


def graph(
    norm: str = NORM,
    x: str = "float[B,S,4] x",
    k: str = "float[B,S,4] k",
    y: str = "float[a,b,c] y",
    add: str = "s = Add (x, k)",
    more: str = "float[4] g, float[4] o",
) -> str:
    return f"agraph ({x}, {k}) => ({y}) <{more}> {{ {add} {norm} }}"


WRITTEN = "m = ReduceMean <axes = [-1]> (s) d = Sub (s, m) p = Pow (d, two) v = ReduceMean <axes = [-1]> (p) e = Add (v, eps) r = Sqrt (e) n = Div (d, r) h = Mul (n, g) y = Add (h, o)"
TWICE = WRITTEN.replace("n = Div (d, r)", "d2 = Sub (s, m) n = Div (d2, r)")
CONSTANTS = "float[4] g, float[4] o, float two = {2}, float eps = {0.00001}"
TWO = "float[a,b,c] y, float[d,e,f] z"
STAYS = [
    Stays("used elsewhere", graph(norm=f"{NORM} z = Neg (s)", y=TWO), None),
    Stays("a graph output", graph(y="float[a,b,c] y, float[d,e,f] s"), None),
    Stays("a subgraph uses the sum", seen_by_subgraph(graph(), "s", "float[d,e,f]"), None),
    Stays("rank 2", graph(x="float[M,4] x", k="float[M,4] k", y="float[a,b] y"), "the rank is not 3"),
    Stays("a vector", graph(k="float[4] k"), "the rank is not 3"),
    Stays("one batch for all", graph(k="float[1,S,4] k"), "the shapes differ"),
    Stays("one position for all", graph(x="float[2,1,4] x", k="float[2,3,4] k"), "the shapes differ"),
    Stays("other symbols before opset 8", graph(norm=WRITTEN, k="float[C,S,4] k", more=CONSTANTS), "before opset 8 Sum does not broadcast", opset=7),
    Stays("double", graph().replace("float[", "double["), "the elements are not float32"),
    Stays("float16", graph().replace("float[", "float16["), "the elements are not float32"),
    Stays("another normalization", graph(norm="y = RMSNormalization (s, g)"), None, opset=23),
    Stays("the sum is the offset", graph(norm="y = LayerNormalization (g, s, s)", x="float[4] x", k="float[4] k", y="float[4] y"), None),
    Stays("a difference", graph(add="s = Sub (x, k)"), None),
    Stays("written out at an opset that has the operator", graph(norm=WRITTEN, more=CONSTANTS), None, opset=17),
    Stays("written out, used elsewhere", graph(norm=f"{WRITTEN} z = Neg (s)", y=TWO, more=CONSTANTS), None, opset=13),
    Stays("a mean alone", graph(norm="y = ReduceMean <axes = [-1]> (s)"), None, opset=13),
    Stays("embeddings", graph(add="t = Gather (w, i) s = Add (t, k)", x="int64[B,S] i", more="float[4] g, float[4] o, float[5,4] w"), "the summands are embeddings, which onnxruntime fuses with their look-up"),
    Stays("three embeddings", graph(add="t = Gather (w, i) u = Gather (v, i) q = Add (t, u) s = Add (q, k)", x="int64[B,S] i", more="float[4] g, float[4] o, float[5,4] w, float[5,4] v"), "the summands are embeddings, which onnxruntime fuses with their look-up"),
    Stays("another target", graph(), "for target onnx no gain is known", target="onnx"),
]  # fmt: skip

LEFT = ["Sum", "LayerNormalization"]
REST = ["ReduceMean", "Sub", "Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"]
FIRES = [
    Fires("symbols", graph(), LEFT),
    Fires("other symbols", graph(k="float[C,S,4] k"), LEFT),
    Fires("other symbols, one of which is 1", graph(k="float[C,S,4] k"), LEFT, sizes={"B": 3, "C": 1}),
    Fires("picked rows are no embeddings", graph(add="j = Constant <value_ints = [0]> () t = Gather <axis = 1> (x, j) s = Add (t, k)", k="float[B,1,4] k"), ["Constant", "Gather", *LEFT]),
    Fires("numbers", graph(x="float[2,3,4] x", k="float[2,3,4] k"), LEFT, opset=17),
    Fires("without offset", graph(norm="y = LayerNormalization (s, g)"), LEFT),
    Fires("more than the last axis", graph(norm="y = LayerNormalization <axis = 1> (s, g)", x="float[B,3,4] x", k="float[B,3,4] k", more="float[3,4] g"), LEFT),
    Fires("twice the same", graph(add="s = Add (x, x)"), LEFT),
    Fires("a bias", graph(add="t = Add (x, v) s = Add (t, k)", more="float[4] g, float[4] o, float[4] v"), ["Add", *LEFT]),
    Fires("two layers", graph(norm="n = LayerNormalization (s, g, o) t = Add (n, x) y = LayerNormalization (t, o, g)"), LEFT * 2, 2),
    Fires("opset 22", graph(), LEFT, opset=22),
    *[Fires(f"written out, opset {opset}", graph(norm=WRITTEN, more=CONSTANTS), ["Sum", *REST], opset=opset) for opset in (9, 11, 13, 16)],
    Fires("written out, opset 7, IR version 3", graph(norm=WRITTEN, more=CONSTANTS), ["Sum", *REST], opset=7, ir_version=3),
    Fires("written out, the difference twice", graph(norm=TWICE, more=CONSTANTS), ["Sum", *REST[:6], "Sub", *REST[6:]], opset=14),
]  # fmt: skip

test_stays, test_fires = tables("ResidualSumPass", STAYS, FIRES, in_functions="never")
