import re

from harness import Fires, Stays, assert_same_numbers, operators, optimize, parse, pass_of, tables

SPLIT = """r = Reshape (q, heads) a = Transpose <perm = [0, 2, 1, 3]> (r) u = Reshape (k, heads)
    b = Transpose <perm = [0, 2, 3, 1]> (u) w = Reshape (v, heads) d = Transpose <perm = [0, 2, 1, 3]> (w)"""
SCORES = "s = MatMul (a, b) z = Mul (s, c)"
SOFTMAX = "p = Softmax <axis = -1> (z)"
GUARD = "x = Softmax <axis = -1> (z) n = IsNaN (x) p = Where (n, zero, x)"
OUT = "o = MatMul (p, d)"
MERGE = "h = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape (h, merged)"
HEADS = (
    "float c = {0.5}, int64[4] heads = {0, 0, 2, 4}, int64[3] merged = {0, 0, -1}, float zero = {0}"
)


def graph(
    split: str = SPLIT,
    scores: str = SCORES,
    softmax: str = SOFTMAX,
    out: str = OUT,
    merge: str = MERGE,
    constants: str = "",
    inputs: str = "",
    more: str = "",
    heads: str = HEADS,
    q: str = "float[B,S,8]",
    k: str = "float[B,L,8]",
    v: str = "float[B,L,8]",
    y: str = "float[B,S,8]",
) -> str:
    return f"agraph ({q} q, {k} k, {v} v{inputs}) => ({y} y{more}) <{heads}{constants}> {{ {split} {scores} {softmax} {out} {merge} }}"


def masked(mask: str, inputs: str, constants: str = "", softmax: str = SOFTMAX) -> str:
    return graph(scores=f"{mask} {SCORES.replace('z =', 't =')} z = Add (t, m)", inputs=inputs, constants=constants, softmax=softmax)  # fmt: skip


def filled(
    fill: str, inputs: str, constants: str, softmax: str = SOFTMAX, more: str = "", **others: str
) -> str:
    """Scores that a Where fills in where they are hidden; `more` makes z of f."""
    fill = f"{fill} {more}" if more else fill.replace("f = Where", "z = Where")
    return graph(
        scores=f"{SCORES.replace('z =', 't =')} {fill}",
        softmax=softmax,
        inputs=inputs,
        constants=constants,
        **others,
    )


FAR = ", float far = {-10000}"
INFINITE = ", float far = {-inf}"
SHOWN = "f = Where (g, t, far)"
HIDDEN = "f = Where (g, far, t)"
BOUND = ", float bound = {-3.4028234663852886e38}"
LOWEST = ", float far = {-3.4028234663852886e38}"
WHERE = "m = Where (g, zero, far)"
ROW = ", bool[B,1,1,L] g"
WHOLE = ", bool[B,1,S,L] g"
CONSTANT = (
    ", float[3,5] m = {0, -inf, -inf, -inf, -inf, 0, 0, -inf, -inf, -inf, 0, 0, 0, -inf, -inf}"
)
FIXED = {"q": "float[B,3,8]", "k": "float[B,5,8]", "v": "float[B,5,8]", "y": "float[B,3,8]"}


def with_constant(mask: str, softmax: str = SOFTMAX) -> str:
    return graph(
        scores=f"{SCORES.replace('z =', 't =')} z = Add (t, m)",
        constants=mask,
        softmax=softmax,
        **FIXED,
    )


PAST = """r = Reshape (q, heads) a = Transpose <perm = [0, 2, 1, 3]> (r) u = Reshape (k, heads) i = Transpose <perm = [0, 2, 1, 3]> (u)
    keys = Concat <axis = 2> (e, i) b = Transpose <perm = [0, 1, 3, 2]> (keys) w = Reshape (v, heads)
    j = Transpose <perm = [0, 2, 1, 3]> (w) d = Concat <axis = 2> (f, j)"""
CACHE = ", float[B,2,P,4] e, float[B,2,P,4] f"
REPEATED = """r = Reshape (q, heads) a = Transpose <perm = [0, 2, 1, 3]> (r) u = Reshape (k, few) i = Transpose <perm = [0, 2, 1, 3]> (u)
    i1 = Unsqueeze (i, two) i2 = Expand (i1, wide) i3 = Reshape (i2, back) b = Transpose <perm = [0, 1, 3, 2]> (i3)
    w = Reshape (v, few) j = Transpose <perm = [0, 2, 1, 3]> (w) j1 = Unsqueeze (j, two) j2 = Expand (j1, wide) d = Reshape (j2, back)"""
REPEATS = ", int64[4] few = {0, 0, 1, 4}, int64[1] two = {2}, int64[5] wide = {1, 1, 2, 1, 1}, int64[4] back = {0, 2, 5, 4}"
PACKED = """agraph (float[B,S,24] x) => (float[B,S,8] y) <float c = {0.5}, int64[5] five = {0, 0, 3, 2, 4}, int64[3] ones = {1, 1, 1}, int64[1] first = {0}, int64[3] merged = {0, 0, 8}> {
    r = Reshape (x, five) t = Transpose <perm = [2, 0, 3, 1, 4]> (r) i, j, l = Split <axis = 0> (t, ones)
    q = Squeeze (i, first) k = Squeeze (j, first) v = Squeeze (l, first) u = Transpose <perm = [0, 1, 3, 2]> (k)
    s = MatMul (q, u) z = Mul (s, c) p = Softmax <axis = -1> (z) o = MatMul (p, v)
    h = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape (h, merged) }"""
FLAT = """r = Reshape (q, heads) a = Transpose <perm = [0, 2, 1, 3]> (r) u = Reshape (k, heads) i = Transpose <perm = [0, 2, 1, 3]> (u)
    f = Reshape (i, flat) g = Transpose <perm = [0, 2, 1]> (f) b = Reshape (g, back) w = Reshape (v, heads) d = Transpose <perm = [0, 2, 1, 3]> (w)"""
TURNED = """r = Reshape (q, heads) a1 = Transpose <perm = [0, 2, 1, 3]> (r) a = RotaryEmbedding (a1, e, f) u = Reshape (k, heads)
    i = Transpose <perm = [0, 2, 1, 3]> (u) i2 = RotaryEmbedding (i, e, f) b = Transpose <perm = [0, 1, 3, 2]> (i2)
    w = Reshape (v, heads) d = Transpose <perm = [0, 2, 1, 3]> (w)"""
SINGLE = """a = Reshape (q, once) u = Reshape (k, heads) b = Transpose <perm = [0, 2, 3, 1]> (u)
    w = Reshape (v, heads) d = Transpose <perm = [0, 2, 1, 3]> (w)"""
SINGLE_PAST = """a = Reshape (q, once) i = Reshape (k, once) keys = Concat <axis = -2> (e, i) b = Transpose <perm = [0, 1, 3, 2]> (keys)
    j = Reshape (v, once) d = Concat <axis = 2> (f, j)"""
ONCE = HEADS.replace("merged = {0, 0, -1}", "merged = {0, 1, 8}, int64[4] once = {0, 2, 1, 4}")

TORCH = """b0 = Shape <start = 0, end = 1> (i0) b1 = Shape <start = 1, end = 2> (i0)
    heads = Concat <axis = 0> (b0, b1, rest) merged = Concat <axis = 0> (b0, b1, minus) """
TORCHS = ["Shape", "Shape", "Concat"]

PART_OF_HEADS = """agraph (float[b,l,w] q, float[b,l,w] k, float[b,l,w] v, float[64,5] W) => (float[p,r,5] y)
    <int64[4] t = {1,16,-1,64}, int64[3] g = {1,-1,64}> {
    q1 = Reshape (q, t) q2 = Transpose <perm = [0,2,1,3]> (q1) k1 = Reshape (k, t) k2 = Transpose <perm = [0,2,3,1]> (k1)
    v1 = Reshape (v, t) v2 = Transpose <perm = [0,2,1,3]> (v1) s = MatMul (q2, k2) z = Softmax <axis = -1> (s)
    o = MatMul (z, v2) u = Transpose <perm = [0,2,1,3]> (o) h = Reshape (u, g) y = MatMul (h, W) }"""
MERGED_IN_TWO = graph(
    split=TORCH.replace("b1, minus", "b1, pair") + SPLIT,
    merge=MERGE.replace("y =", "g =") + " y = MatMul (g, W)",
    heads="float c = {0.5}, int64[2] rest = {-1, 4}, int64[2] pair = {2, -1}, float[8,5] W",
    inputs=", float[B,S] i0",
    q="float[U,V,16]",
    k="float[U,V,16]",
    v="float[U,V,16]",
    y="float[B,S,2,5]",
)


def half(text: str) -> str:
    """The same in float16, but for the constants of `WIDE`."""
    return re.sub(r"float(?= zero|\[| c )", "float16", text).replace(
        "16 c = {0.5}", "16 c = {14336}"
    )  # its bits


WIDE = ", float wide = {0.5}"
CAST = "s = MatMul (a, b) n = Cast <to = 1> (s) z = Mul (n, wide)"
CAST_BEHIND = "s = MatMul (a, b) n = Mul (s, c) z = Cast <to = 1> (n)"
CAST_BACK = "x = Softmax <axis = -1> (z) p = Cast <to = 10> (x)"
TO_HALF = ["Cast", "Cast", "Cast", "MultiHeadAttention", "Cast"]
EXPANDED = ["Shape", "Shape", "Concat", "Expand"]  # a mask for all queries, or for all keys
TURNED_QUERY = SPLIT.replace("a = Transpose", "j = Transpose") + " a = Neg (j)"

STAYS = [
    Stays("repeated keys for one query", graph(split=REPEATED, constants=REPEATS, q="float[B,1,8]", k="float[B,5,4]", v="float[B,5,4]", y="float[B,1,8]"), "RepeatedMatMulUbFusionPass is faster for one query and repeated keys"),
    Stays("a product that takes a part of the heads", PART_OF_HEADS, "the number of heads is unknown"),
    Stays("the heads are merged into two axes, of which the product takes one", MERGED_IN_TWO, "the number of heads is unknown"),
    Stays("an unknown number of heads", graph(split=TORCH + SPLIT, heads="float c = {0.5}, int64[2] rest = {-1, 4}, int64[1] minus = {-1}", inputs=", float[B,S] i0", q="float[U,V,8]", k="float[U,V,8]", v="float[U,V,8]", y="float[B,S,?]"), "the number of heads is unknown"),
    Stays("double", graph().replace("float", "double"), "the elements are not float32"),
    Stays("a Cast of float32", graph(scores="s = MatMul (a, b) z = Cast <to = 1> (s)").replace("p = Softmax <axis = -1> (z)", "n = Softmax <axis = -1> (z) p = Cast <to = 1> (n)"), "the elements are not float32"),
    Stays("a Cast to double", half(graph(scores=CAST.replace("= 1>", "= 11>"), softmax=CAST_BACK, constants=WIDE.replace("float", "double"))), "the elements are not float32"),
    Stays("Softmax over the queries", graph(softmax="p = Softmax <axis = 2> (z)", **FIXED), "Softmax is not over the keys"),
    Stays("a negative scale", graph().replace("c = {0.5}", "c = {-0.5}"), "the scale is not a single positive number"),
    Stays("a scale for each head", graph().replace("float c = {0.5}", "float[2,1,1] c"), "the scale is not a single positive number"),
    Stays("a very small scale", graph().replace("c = {0.5}", "c = {0.0000001}"), "the scale is very small or very large"),
    Stays("one head", graph(heads=HEADS.replace("2, 4}", "1, 8}")), "the operator computes one head on one thread"),
    Stays("another batch of keys", graph(k="float[C,L,8]", v="float[C,L,8]", y="float[?,S,8]"), "the batches are not known to be the same"),
    Stays("the heads are not merged", graph(merge="y = Relu (o)", y="float[B,2,S,4]"), None),
    Stays("the heads are merged in an unknown shape", graph(heads=HEADS.replace(", int64[3] merged = {0, 0, -1}", ""), inputs=", int64[3] merged", y="float[?,?,?]"), "the heads are merged in an unknown way"),
    Stays("a 0 in the shape of the merged heads that is no dimension of theirs", graph(heads=HEADS.replace("merged = {0, 0, -1}", "merged = {-1, 1, 0}"), y="float[?,1,2]"), "the heads are merged in an unknown way"),
    Stays("as many queries as heads, merged without a Transpose", graph(merge="y = Reshape (o, merged)", q="float[B,2,8]", y="float[?,?,?]"), None),
    Stays("a past of another batch", graph(split=PAST, inputs=CACHE.replace("[B", "[C"), y="float[?,S,8]"), "the batches are not known to be the same"),
    Stays("queries and heads are merged", graph(merge="y = Reshape (o, merged)", y="float[?,?,?]"), None),
    Stays(
        "the query comes as heads",
        graph(split=SPLIT.replace("r = Reshape (q, heads) a = Transpose <perm = [0, 2, 1, 3]> (r)", "a = Relu (q)"), q="float[B,2,S,4]"),
        "the query does not have merged heads",
    ),
    Stays(
        "all heads share one key",
        graph(split=SPLIT.replace("(k, heads)", "(k, one)").replace("(v, heads)", "(v, one)"), constants=", int64[4] one = {0, 0, 1, 4}", k="float[B,L,4]", v="float[B,L,4]"),
        "all heads share one key",
    ),
    Stays(
        "values of another size behind a cache",
        graph(split=PAST, inputs=", float[B,2,P,4] e, float[B,2,P,3] f", constants=", int64[4] others = {0, 0, 2, 3}", v="float[B,L,6]", y="float[B,S,6]").replace("(v, heads)", "(v, others)"),
        ("keys and values are not known to have heads of the same size", "keys and values of the past are not known to have the same shape"),
    ),
    Stays("the weights are used elsewhere", graph(more=", float[B,2,S,L] n", merge=f"{MERGE} n = Neg (p)"), "an interior value is used elsewhere"),
    Stays("a guard, one mask for each head", masked("m = Neg (g)", ", float[B,2,S,L] g", softmax=GUARD), "the attention has a guard, and each head has its own mask"),
    Stays("a guard and a constant with NaN", with_constant(CONSTANT.replace("{0", "{nan"), GUARD), "the mask may hold NaN or +∞, which the guard turns into zeros"),
    Stays("a guard, one head", masked(WHERE, WHOLE, INFINITE, GUARD).replace("2, 4}", "1, 8}"), "the operator computes one head on one thread"),
    Stays("another batch of masks", masked(WHERE, ", bool[C,1,S,L] g", FAR).replace("float[B,S,8] y", "float[?,S,8] y"), "the mask is not known to fit the scores"),
    Stays("an unknown length of the mask", masked(WHERE, ", bool[B,1,S,M] g", FAR), "the mask is not known to fit the scores"),
    Stays("filled in with what does not hide for certain", filled(SHOWN, WHOLE, FAR), "the filled-in numbers may not hide the scores"),
    Stays("filled in with one number for each key", filled(SHOWN, ", bool[B,1,3,5] g", ", float[5] far = {-inf, -inf, -inf, -inf, -inf}", **FIXED), "the filled-in numbers may not hide the scores"),
    Stays("filled in for another batch", filled(SHOWN, ", bool[C,1,S,L] g", LOWEST).replace("float[B,S,8] y", "float[?,S,8] y"), "the mask is not known to fit the scores"),
    Stays("filled in, a mask of the lowest number, and the guard", filled(SHOWN, f"{WHOLE}, bool[B,1,1,L] g2", LOWEST, GUARD, "m = Where (g2, zero, far) z = Add (f, m)"), None),
    Stays("filled in with −∞, and the guard", filled(SHOWN, WHOLE, INFINITE, GUARD), None),
    Stays("a condition for more than one batch", filled(f"g = Expand (g1, three) {SHOWN}", ", bool[1,1,S,L] g1", f"{LOWEST}, int64[4] three = {{3, 1, 1, 1}}", q="float[1,S,8]", k="float[1,L,8]", v="float[1,L,8]", y="float[?,S,8]"), "the mask is not known to fit the scores"),
    Stays("a bias of an unknown length", filled("f = Add (t, e0)", ", float[1,2,S,M] e0, float[B,1,1,L] m", "", more="z = Add (f, m)"), "the mask is not known to fit the scores"),
    Stays("a bias of an unknown shape", filled("r1 = Reshape (n0, like) f = Add (t, r1)", ", float[?] n0, int64[?] like, float[B,1,1,L] m", "", more="z = Add (f, m)").replace("float[B,S,8] y", "float[?,?,?] y"), "the mask is not known to fit the scores"),
    Stays("a bias, a mask, and the guard", filled("f = Add (t, e0)", ", float[1,2,S,L] e0, float[B,1,1,L] m", "", GUARD, more="z = Add (f, m)"), None),
    Stays("a lower bound that scores may reach", masked(WHERE, WHOLE, f"{LOWEST}, float bound = {{-10000}}").replace("z = Add (t, m)", "f = Add (t, m) z = Max (f, bound)"), "the lower bound of the scores may change visible scores"),
    Stays("filled in with one number of five axes", graph(split=SINGLE, scores="s = MatMul (a, b) t = Mul (s, c) z = Where (g, t, far)", softmax="p = Softmax <axis = 3> (z)", merge="y = Reshape (o, merged)", inputs=", bool[B,1,1,L] g", constants=", float[1,1,1,1,1] far = {-inf}", q="float[1,1,8]", k="float[1,L,8]", v="float[1,L,8]", y="float[1,1,8]", heads=ONCE), "the filled-in numbers may not hide the scores"),
    Stays("two queries become one for each head", graph(split=SINGLE, merge="y = Reshape (o, merged)", heads=ONCE, q="float[B,2,4]", y="float[B,1,8]"), "the heads are not split by a Reshape"),
    Stays("a mask of rank 1", masked(WHERE, ", bool[L] g", FAR), "the rank of the mask is not 2, 3 or 4"),
]  # fmt: skip

ONE = ["MultiHeadAttention"]
ROWS = ["ReduceMax", "Equal", "MultiHeadAttention", "Unsqueeze", "Where"]
FIRES = [
    Fires("float16", half(graph()), TO_HALF),
    Fires("float16, without a scale", half(graph(scores="z = MatMul (a, b)")), TO_HALF),
    Fires("float16 with Casts around Softmax", half(graph(scores=CAST, softmax=CAST_BACK, constants=WIDE)), TO_HALF),
    Fires("float16, a Cast behind the scale", half(graph(scores=CAST_BEHIND, softmax=CAST_BACK)), TO_HALF),
    Fires(
        "float16 with Casts, and a mask between them",
        half(graph(scores=CAST.replace("z =", "t =") + " z = Add (t, m)", softmax=CAST_BACK, constants=WIDE)).replace("float16[B,L,8] v", "float16[B,L,8] v, float[B,1,1,L] m"),
        [*TO_HALF[:3], "Shape", "Shape", "Concat", "Expand", *TO_HALF[3:]],
    ),
    Fires("a mask in float16", half(masked("", ", float[B,1,1,L] m")), ["Cast", *TO_HALF[:3], *EXPANDED, *TO_HALF[3:]]),
    Fires("a constant mask in float16", half(masked("", "", ", float[1,1,1,1] m = {50432}")), [*TO_HALF[:3], *EXPANDED, *TO_HALF[3:]]),
    Fires("float16, a query that is computed of heads", half(graph(split=TURNED_QUERY)), ["Reshape", "Transpose", "Reshape", "Reshape", "Transpose", "Neg", "Transpose", "Transpose", "Reshape", *TO_HALF]),
    Fires("a scale", graph(), ONE),
    Fires("opset 23", graph(), ONE, opset=23),
    *[Fires(f"opset {opset}", graph(), ONE, opset=opset) for opset in (13, 14, 17, 21)],
    *[
        Fires(name, graph(scores=scores), ONE)
        for name, scores in {
            "without a scale": "z = MatMul (a, b)",
            "a divisor": "s = MatMul (a, b) z = Div (s, c)",
            "the scale on the query": "a2 = Mul (a, c) z = MatMul (a2, b)",
            "the scale on both": "a2 = Mul (a, c) b2 = Mul (b, c) z = MatMul (a2, b2)",
        }.items()
    ],
    Fires("the guard", graph(softmax=GUARD), ONE, edge_values=False),
    Fires("fixed lengths", graph(**FIXED), ONE),
    Fires("keys on [batch · heads]", graph(split=FLAT, constants=", int64[3] flat = {-1, 5, 4}, int64[4] back = {-1, 2, 4, 5}", **FIXED), ONE),
    Fires("values of another size", graph(split=SPLIT.replace("(v, heads)", "(v, others)"), constants=", int64[4] others = {0, 0, 2, 3}", v="float[B,L,6]", y="float[B,S,6]"), ONE),
    Fires("a Reshape behind it", graph(out="o1 = MatMul (p, d) o = Reshape (o1, same)", constants=", int64[4] same = {-1, 2, 3, 4}", **FIXED), ONE),
    Fires(
        "heads split from rows",
        graph(
            split=SPLIT.replace("(k, heads)", "(k, others)").replace("(v, heads)", "(v, others)"),
            heads="float c = {0.5}, int64[4] heads = {2, 3, 2, 4}, int64[4] others = {2, -1, 2, 4}, int64[3] merged = {0, 0, -1}",
            q="float[6,8]", k="float[10,8]", v="float[10,8]", y="float[2,3,8]",
        ),
        ["Reshape", "Reshape", "Reshape", "MultiHeadAttention"],
    ),
    Fires("heads merged in two axes", graph(heads=HEADS.replace("int64[3] merged = {0, 0, -1}", "int64[2] merged = {-1, 8}"), y="float[?,8]"), [*ONE, "Reshape"], zero_sizes=False),
    Fires("heads merged in two axes, the guard", masked(WHERE, WHOLE, INFINITE, GUARD).replace("int64[3] merged = {0, 0, -1}", "int64[2] merged = {-1, 8}").replace("float[B,S,8] y", "float[?,8] y"), ["Where", *ROWS, "Reshape"], 2, edge_values=False),
    Fires("one query", graph(split=SINGLE, merge="y = Reshape (o, merged)", q="float[B,1,8]", y="float[B,1,8]", heads=ONCE), ONE),
    Fires("one query, the guard", graph(split=SINGLE, scores="s = MatMul (a, b) t = Mul (s, c) m = Where (g, zero, far) z = Add (t, m)", softmax=GUARD, merge="y = Reshape (o, merged)", inputs=", bool[B,1,1,L] g", constants=INFINITE, q="float[B,1,8]", y="float[B,1,8]", heads=ONCE), ["Where", *ROWS], 2, edge_values=False),
    Fires("one query, picked from all", graph(split="r = Reshape (q, heads) a0 = Transpose <perm = [0, 2, 1, 3]> (r) a = Gather <axis = 2> (a0, last)" + SPLIT.partition("(r)")[2], merge="y = Reshape (o, merged)", constants=", int64[1] last = {-1}", y="float[B,1,8]", heads=HEADS.replace("merged = {0, 0, -1}", "merged = {0, 1, 8}")), ["Reshape", "Transpose", "Gather", "Reshape", "Reshape", "Transpose", "Transpose", "Reshape", "MultiHeadAttention"]),
    Fires("keys of five axes", graph(split=FLAT.replace("f = Reshape (i,", "i9 = Unsqueeze (i, nought) f = Reshape (i9,"), constants=", int64[3] flat = {-1, 5, 4}, int64[4] back = {-1, 2, 4, 5}, int64[1] nought = {0}", **FIXED), ["Reshape", "Transpose", "Unsqueeze", "Reshape", "Transpose", "Squeeze", "MultiHeadAttention"]),
    Fires("a past", graph(split=PAST, inputs=CACHE), ONE),
    Fires("a past and a mask", graph(split=PAST, scores=f"m = Where (g, zero, far) {SCORES.replace('z =', 't =')} z = Add (t, m)", inputs=f"{CACHE.replace('P', '4')}, bool[B,1,3,9] g", constants=FAR, **FIXED), ["Where", *ONE]),
    Fires("a past and a mask for all keys", graph(split=PAST, scores=f"m = Where (g, zero, far) {SCORES.replace('z =', 't =')} z = Add (t, m)", inputs=f"{CACHE}, bool[B,1,S,1] g", constants=FAR), ["Reshape", "Transpose", "Concat", "Reshape", "Transpose", "Concat", "Where", "Shape", "Shape", "Concat", "Expand", "MultiHeadAttention"]),
    Fires("a past, and one query", graph(split=SINGLE_PAST, merge="y = Reshape (o, merged)", inputs=CACHE, q="float[B,1,8]", k="float[B,1,8]", v="float[B,1,8]", y="float[B,1,8]", more=", float[B,2,?,4] keys, float[B,2,?,4] d", heads=ONCE), ONE),
    Fires("a past that is transposed for others, too", graph(split=PAST, inputs=CACHE, more=", float[B,2,4,?] b"), ["MultiHeadAttention", "Transpose"]),
    Fires(
        "a past that is also a result",
        graph(split=PAST, inputs=CACHE, more=", float[B,2,?,4] keys"),
        ONE,
    ),
    Fires(
        "repeated keys and values",
        graph(split=REPEATED, constants=REPEATS, q="float[B,3,8]", k="float[B,5,4]", v="float[B,5,4]", y="float[B,3,8]"),
        ["Reshape", "Transpose", "Unsqueeze", "Expand", "Reshape", "Reshape", "Transpose", "Unsqueeze", "Expand", "Reshape", "MultiHeadAttention"],
    ),
    Fires("one product for all three", PACKED, ["Split", "MultiHeadAttention"]),
    Fires(
        "turned before",
        graph(split=TURNED, inputs=", float[B,S,2] e, float[B,S,2] f", k="float[B,S,8]", v="float[B,S,8]"),
        ["RotaryEmbedding", "RotaryEmbedding", "MultiHeadAttention"],
        opset=23,
    ),
    Fires(
        "heads that are known from the product behind",
        graph(
            split=TORCH + SPLIT,
            merge=MERGE.replace("y =", "g =") + " y = MatMul (g, W)",
            heads="float c = {0.5}, int64[2] rest = {-1, 4}, int64[1] minus = {-1}, float[8,5] W",
            inputs=", float[B,S] i0",
            q="float[U,V,8]",
            k="float[U,V,8]",
            v="float[U,V,8]",
            y="float[B,S,5]",
        ),
        [*TORCHS, "Reshape", "Reshape", "Reshape", "Reshape", "Reshape", "Reshape", "MultiHeadAttention", "MatMul"],
    ),
    Fires("Where", masked(WHERE, WHOLE, FAR), ["Where", "MultiHeadAttention"]),
    Fires("one for all queries", masked(WHERE, ROW, FAR), ["Where", "Shape", "Shape", "Concat", "Expand", "MultiHeadAttention"]),
    Fires("one for all queries, opset 12", masked(WHERE, ROW, FAR), ["Where", "Shape", "Gather", "Shape", "Gather", "Concat", "Expand", "MultiHeadAttention"], opset=12),
    Fires("commuted", masked(WHERE, WHOLE, FAR).replace("Add (t, m)", "Add (m, t)"), ["Where", "MultiHeadAttention"]),
    Fires("the lowest number", masked(WHERE, WHOLE, LOWEST), ["Where", "MultiHeadAttention"]),
    Fires("the lowest number and the guard", masked(WHERE, WHOLE, LOWEST, GUARD), ["Where", "MultiHeadAttention"], edge_values=False),
    *[Fires(f"filled in, {name}", filled(fill, WHOLE, far), ["Where", "MultiHeadAttention"], edge_values=False) for name, fill, far in (("shown", SHOWN, LOWEST), ("hidden", HIDDEN, LOWEST), ("infinite", HIDDEN, INFINITE))],
    Fires("filled in, the guard", filled(SHOWN, WHOLE, LOWEST, GUARD), ["Where", "MultiHeadAttention"], edge_values=False),
    Fires("filled in by a constant", filled(SHOWN, "", f"{LOWEST}, bool[3,5] g = {{1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0}}", **FIXED), ONE, edge_values=False),
    Fires("filled in, and a mask", filled(SHOWN, ", bool[1,1,S,L] g, float[B,1,1,L] m", LOWEST, more="z = Add (f, m)"), ["Where", "Add", "MultiHeadAttention"], edge_values=False),
    Fires("filled in by a condition that is repeated", filled(f"g = Expand (g1, ones) {SHOWN}", ", bool[B,1,S,L] g1", f"{LOWEST}, int64[4] ones = {{1, 2, 1, 1}}"), ["Where", "MultiHeadAttention"], edge_values=False),
    Fires("filled in by the first rows of a table", filled(f"sl = Shape <start = 1, end = 2> (q) g = Slice (table, zero1, sl, two1) {SHOWN}", "", f"{LOWEST}, bool[1,1,4,5] table = {{1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0}}, int64[1] zero1 = {{0}}, int64[1] two1 = {{2}}", k="float[B,5,8]", v="float[B,5,8]"), ["Shape", "Slice", "Where", "MultiHeadAttention"], edge_values=False, zero_sizes=False),
    Fires("a bias and a mask", filled("f = Add (t, e0)", ", float[1,2,S,L] e0, float[B,1,1,L] m", "", more="z = Add (f, m)"), ["Add", "MultiHeadAttention"]),
    Fires("a lower bound", masked(WHERE, WHOLE, f"{LOWEST}{BOUND}").replace("z = Add (t, m)", "f = Add (t, m) z = Max (f, bound)"), ["Where", "Max", "MultiHeadAttention"]),
    Fires("a past, filled in", graph(split=PAST, scores=f"{SCORES.replace('z =', 't =')} z = Where (g, t, far)", inputs=f"{CACHE.replace('P', '4')}, bool[B,1,3,9] g", constants=LOWEST, **FIXED), ["Where", *ONE], edge_values=False),
    Fires("infinite", masked(WHERE, WHOLE, INFINITE), ["Where", "MultiHeadAttention"]),
    Fires("infinite with the guard", masked(WHERE, WHOLE, INFINITE, GUARD), ["Where", *ROWS], 2, edge_values=False),
    *[
        Fires(f"{name} with the guard, merged into a known width", masked(WHERE, f", bool[{g}] g", INFINITE, GUARD).replace("{0, 0, -1}", "{0, 0, 8}"), ["Where", *rows], 2, edge_values=False)
        for name, g, rows in (("all rows", "B,1,S,L", ROWS), ("one batch", "1,1,S,L", ROWS), ("rank 3", "1,S,L", ["ReduceMax", "Unsqueeze", *ROWS[1:]]))
    ],
    Fires("an unknown mask with the guard", masked("m = Neg (g)", ", float[1,1,S,L] g", softmax=GUARD), ["Neg", *ROWS], 2, edge_values=False),
    Fires("rank 2 with the guard", masked("m = Neg (g)", ", float[S,L] g", softmax=GUARD), ["Neg", "ReduceMax", "Unsqueeze", "Equal", "MultiHeadAttention", "Unsqueeze", "Where"], 2, edge_values=False),
    Fires("a constant with a hidden row and the guard", with_constant(CONSTANT.replace("{0", "{-inf"), GUARD), ROWS, 2, edge_values=False),
    Fires("a bias from outside", masked("m = Neg (g)", ", float[1,2,S,L] g"), ["Neg", "MultiHeadAttention"]),
    Fires("one bias for each of a batch and each head", masked("m = Neg (g)", ", float[B,2,S,L] g"), ["Neg", "MultiHeadAttention"]),
    Fires("rank 3", masked("m = Neg (g)", ", float[2,S,L] g"), ["Neg", "Unsqueeze", "MultiHeadAttention"]),
    Fires("rank 2", masked("m = Neg (g)", ", float[S,L] g"), ["Neg", "Unsqueeze", "MultiHeadAttention"]),
    Fires("a constant", with_constant(CONSTANT), ONE),
    Fires("a constant with a hidden row", with_constant(CONSTANT.replace("{0", "{-inf")), ONE),
    Fires("a constant and the guard", with_constant(CONSTANT, GUARD), ONE, edge_values=False),
]  # fmt: skip

test_stays, test_fires = tables("MultiHeadAttentionFusionPass", STAYS, FIRES, in_functions="never")


def test_turned_by_onnxruntimes_own_operator() -> None:
    """Of which onnx knows no types: the two passes in the order in which they run."""
    turn = (
        "{0}1, {0}2 = Split <axis = 3> ({0}0, halves) {0}3 = Neg ({0}2) {0}4 = Concat <axis = 3> ({0}3, {0}1) "
        "{0}5 = Mul ({0}0, e) {0}6 = Mul ({0}4, f) {0} = Add ({0}5, {0}6)"
    )
    split = TURNED.replace("a1 = Transpose", "a0 = Transpose").replace(
        "i = Transpose", "i0 = Transpose"
    )
    split = split.replace("a = RotaryEmbedding (a1, e, f)", turn.format("a"))
    split = split.replace("i2 = RotaryEmbedding (i, e, f)", turn.format("i"))
    table = "float[3,4] {} = {{1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6}}"
    constants = f", int64[2] halves = {{2, 2}}, {table.format('e')}, {table.format('f')}"
    sizes = {"q": "float[B,3,8]", "k": "float[B,3,8]", "v": "float[B,3,8]", "y": "float[B,3,8]"}
    model = parse(
        graph(split=split.replace("3, 2]> (i2)", "3, 2]> (i)"), constants=constants, **sizes)
    )
    result, _ = optimize(
        model, [pass_of("RotaryEmbeddingUbFusionPass"), pass_of("MultiHeadAttentionFusionPass")]
    )
    assert operators(result) == {"RotaryEmbedding": 2, "MultiHeadAttention": 1}
    assert_same_numbers(model, result, "rounding", {})
