from harness import Fires, Stays, tables

SPLIT = """r = Reshape (q, heads) a = Transpose <perm = [0, 2, 1, 3]> (r) u = Reshape (k, few) i = Transpose <perm = [0, 2, 1, 3]> (u)
    i1 = Unsqueeze (i, two) i2 = Expand (i1, wide) i3 = Reshape (i2, back) b = Transpose <perm = [0, 1, 3, 2]> (i3)
    w = Reshape (v, few) j = Transpose <perm = [0, 2, 1, 3]> (w) j1 = Unsqueeze (j, two) j2 = Expand (j1, wide) d = Reshape (j2, back)"""
HEADS = "float c = {0.5}, int64[4] heads = {0, 0, 4, 8}, int64[4] few = {0, 0, 2, 8}, int64[3] merged = {0, 0, -1}, int64[1] two = {2}, int64[5] wide = {1, 1, 2, 1, 1}, int64[4] back = {0, 4, -1, 8}, float zero = {0}"


def graph(
    split: str = SPLIT,
    mask: str = "",
    inputs: str = "",
    constants: str = "",
    q: str = "float[B,S,32]",
    k: str = "float[B,S,16]",
    y: str = "float[B,S,32]",
    softmax: str = "p = Softmax <axis = -1> (z)",
) -> str:
    scores = (
        f"{mask} s = MatMul (a, b) t = Mul (s, c) z = Add (t, m)"
        if mask
        else "s = MatMul (a, b) z = Mul (s, c)"
    )
    return f"""agraph ({q} q, {k} k, {k} v{inputs}) => ({y} y) <{HEADS}{constants}> {{ {split} {scores} {softmax}
        o = MatMul (p, d) h = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape (h, merged) }}"""


SMALL = graph(q="float[B,S,16]", k="float[B,S,8]", y="float[B,S,16]").replace("4, 8}", "4, 4}").replace("2, 8}", "2, 4}").replace("-1, 8}", "-1, 4}")  # fmt: skip
WHERE = "m = Where (g, zero, far)"
TURNED = SPLIT.replace("a = Transpose", "a1 = Transpose").replace("u = Reshape", "a = RotaryEmbedding (a1, e, f) u = Reshape").replace("i = Transpose", "i0 = Transpose").replace("i1 =", "i = RotaryEmbedding (i0, e, f) i1 =")  # fmt: skip
PAST = SPLIT.replace("i1 = Unsqueeze (i,", "n = Concat <axis = 2> (e, i) i1 = Unsqueeze (n,").replace("j1 = Unsqueeze (j,", "l = Concat <axis = 2> (f, j) j1 = Unsqueeze (l,")  # fmt: skip
GUARD = "x = Softmax <axis = -1> (z) n = IsNaN (x) p = Where (n, zero, x)"

SINGLE = """a = Reshape (q, once) i = Reshape (k, fewer) n = Concat <axis = 2> (e, i) i1 = Unsqueeze (n, two) i2 = Expand (i1, wide) i3 = Reshape (i2, back)
    b = Transpose <perm = [0, 1, 3, 2]> (i3) j = Reshape (v, fewer) l = Concat <axis = 2> (f, j) j1 = Unsqueeze (l, two) j2 = Expand (j1, wide) d = Reshape (j2, back)"""
GROUPED = """a0 = Reshape (q, once) a = Reshape (a0, apart) i = Reshape (k, fewer) n = Concat <axis = 2> (e, i) b = Transpose <perm = [0, 1, 3, 2]> (n)
    j = Reshape (v, fewer) d = Concat <axis = 2> (f, j)"""
CACHE = ", float[B,2,P,8] e, float[B,2,P,8] f"


def single(
    split: str, mask: str = "", inputs: str = "", constants: str = "", more: str = ""
) -> str:
    """One query for each head, and no Transposes."""
    scores = (
        f"{mask} s = MatMul (a, b) t = Mul (s, c) z = Add (t, m)"
        if mask
        else "s = MatMul (a, b) z = Mul (s, c)"
    )
    return f"""agraph (float[B,1,32] q, float[B,1,16] k, float[B,1,16] v{inputs}) => (float[B,1,32] y{more}) <{HEADS}{constants},
        int64[4] once = {{0, 4, 1, 8}}, int64[4] fewer = {{0, 2, 1, 8}}, int64[3] whole = {{0, 1, 32}}> {{ {split} {scores}
        p = Softmax <axis = -1> (z) o = MatMul (p, d) y = Reshape (o, whole) }}"""


def inside_if() -> str:
    """Keys and values that are joined to those of the past outside of the branch that uses them."""
    head, _, body = single(SINGLE, inputs=CACHE).partition(" { ")
    outside = ("i = Reshape (k, fewer)", "n = Concat <axis = 2> (e, i)", "j = Reshape (v, fewer)", "l = Concat <axis = 2> (f, j)")  # fmt: skip
    for line in outside:
        body = body.replace(line, "")
    branch = f"yes () => (float[B,1,32] w) {{ {body.replace('y = Reshape', 'w = Reshape')}"
    other = "no () => (float[B,1,32] z) { z = Identity (q) }"
    return f"""{head.replace(") => (", ", bool which) => (")} {{ {" ".join(outside)}
        y = If (which) <then_branch = {branch}, else_branch = {other}> }}"""


STAYS = [
    Stays("double", graph().replace("float", "double"), "the elements are not float32"),
    Stays("heads of size 4", SMALL, "the heads are not known to have the same size, a multiple of 8"),
    Stays("more keys than queries", graph(k="float[B,L,16]"), "the numbers of keys and queries are not known to be equal"),
    Stays("a mask for the queries of one key", single(GROUPED, "m = Neg (g)", f"{CACHE}, float[B,1,2,T] g", ", int64[4] apart = {0, 2, 2, 8}"), "the mask is not known to fit the scores"),
    Stays("the heads of a key and the keys exchanged", single(GROUPED, inputs=CACHE, constants=", int64[4] apart = {0, 2, 2, 8}").replace("y = Reshape (o, whole)", "h = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape (h, whole)"), None),
    Stays("a past of another batch", single(SINGLE, inputs=CACHE.replace("[B", "[C")).replace("float[B,1,32] y", "float[?,1,32] y"), "the batches are not known to be the same"),
    Stays("keys of the past", graph(PAST, inputs=", float[B,2,P,8] e, float[B,2,P,8] f"), "the numbers of keys and queries are not known to be equal"),
    Stays("as many keys of another batch", graph(k="float[C,S,16]", y="float[?,S,32]"), "the batches are not known to be the same"),
    Stays("a mask that may not fit", graph(mask=WHERE, inputs=", bool[B,1,S,M] g", constants=", float far = {-1}"), "the mask is not known to fit the scores"),
    Stays("a past outside of the branch", inside_if(), "keys and values of the past are joined to the new ones in different places"),
    Stays("no repetition", graph(SPLIT.replace("i1 = Unsqueeze (i, two) i2 = Expand (i1, wide) i3 = Reshape (i2, back)", "i3 = Reshape (i, back)").replace("j1 = Unsqueeze (j, two) j2 = Expand (j1, wide) d = Reshape (j2, back)", "d = Reshape (j, back)"), k="float[B,S,32]").replace("few = {0, 0, 2, 8}", "few = {0, 0, 4, 8}"), None),
    Stays("the query comes as heads", graph(SPLIT.replace("r = Reshape (q, heads) a = Transpose <perm = [0, 2, 1, 3]> (r)", "a = Relu (q)"), q="float[B,4,S,8]"), "query, key and value do not have merged heads"),
    Stays("a negative scale", graph().replace("c = {0.5}", "c = {-0.5}"), "the scale is not a single positive number"),
    Stays("values of fewer heads, repeated more often", graph(SPLIT.replace("(v, few)", "(v, one)").replace("(j1, wide)", "(j1, wider)"), constants=", int64[4] one = {0, 0, 1, 8}, int64[5] wider = {1, 1, 4, 1, 1}").replace("float[B,S,16] v", "float[B,S,8] v"), "key and value have different heads"),
    Stays("values of another size", graph(SPLIT.replace("(v, few)", "(v, large)").replace("(j2, back)", "(j2, back2)"), constants=", int64[4] large = {0, 0, 2, 16}, int64[4] back2 = {0, 4, -1, 16}", y="float[B,S,64]").replace("float[B,S,16] v", "float[B,S,32] v"), "the heads are not known to have the same size, a multiple of 8"),
    Stays("a past of values of another length", single(SINGLE, inputs=CACHE.replace("P,8] f", "R,8] f")), "keys and values of the past are not known to have the same shape"),
    Stays("a past of unknown dimensions", single(SINGLE, inputs=CACHE.replace("P,8]", "?,8]")), "keys and values of the past are not known to have the same shape"),
    Stays("a past, one query and two new keys", graph(PAST, inputs=CACHE, q="float[B,1,32]", k="float[B,2,16]", y="float[B,1,32]"), "the numbers of keys and queries are not known to be equal"),
    Stays("the repeated keys are transposed in another way", graph(SPLIT.replace("[0, 1, 3, 2]> (i3)", "[0, 1, 2, 3]> (i3)"), q="float[B,8,32]", k="float[B,8,16]", y="float[B,8,32]"), "the number of heads is unknown"),
]  # fmt: skip

LENGTHS = ["Shape", "Shape", "Cast", "Sub", "Expand"]
ONE = [*LENGTHS, "GroupQueryAttention"]
BEHIND = ["Shape", "Cast", "Add", "Shape", "Expand", "GroupQueryAttention"]
FIRES = [
    Fires("two heads for one key", graph(), ONE, zero_sizes=False),
    *[Fires(f"opset {opset}", graph(), ONE, opset=opset, zero_sizes=False) for opset in (15, 17, 21, 23)],
    Fires("fixed lengths", graph(q="float[2,5,32]", k="float[2,5,16]", y="float[2,5,32]"), ["Cast", "Sub", "Expand", "GroupQueryAttention"]),
    Fires("a past, and one query", single(SINGLE, inputs=CACHE), BEHIND, zero_sizes=False),
    Fires("a past, one query and a mask", single(SINGLE, "m = Where (g, zero, far)", f"{CACHE.replace('P', '4')}, bool[B,1,1,5] g", ", float far = {-10000}"), ["Where", *BEHIND[1:]], zero_sizes=False),
    Fires("a past that is a result, one query", single(SINGLE, inputs=CACHE, more=", float[B,2,?,8] n, float[B,2,?,8] l"), BEHIND, zero_sizes=False),
    Fires("the queries of one key as several of one head", single(GROUPED, inputs=CACHE, constants=", int64[4] apart = {0, 2, 2, 8}"), BEHIND, zero_sizes=False),
    Fires("and a mask", single(GROUPED, "m = Where (g, zero, far)", f"{CACHE.replace('P', '4')}, bool[B,1,1,5] g", ", float far = {-10000}, int64[4] apart = {0, 2, 2, 8}"), ["Where", *BEHIND[1:]], zero_sizes=False),
    Fires("one key for all heads", graph(k="float[B,S,8]").replace("few = {0, 0, 2, 8}", "few = {0, 0, 1, 8}").replace("{1, 1, 2, 1, 1}", "{1, 1, 4, 1, 1}"), ONE, zero_sizes=False),
    Fires("turned before", graph(TURNED, inputs=", float[B,S,4] e, float[B,S,4] f"), ["RotaryEmbedding", "RotaryEmbedding", *ONE], opset=23, zero_sizes=False),
    Fires("a mask", graph(mask=WHERE, inputs=", bool[B,1,S,S] g", constants=", float far = {-10000}"), ["Where", *ONE], zero_sizes=False),
    Fires("the lowest number and the guard", graph(mask=WHERE, inputs=", bool[B,1,S,S] g", constants=", float far = {-3.4028234663852886e38}", softmax=GUARD), ["Where", *ONE], zero_sizes=False, edge_values=False),
    Fires("infinite", graph(mask=WHERE, inputs=", bool[1,1,S,S] g", constants=", float far = {-inf}"), ["Where", *ONE], zero_sizes=False),
    Fires("infinite with the guard", graph(mask=WHERE, inputs=", bool[B,1,S,S] g", constants=", float far = {-inf}", softmax=GUARD), ["Where", "Shape", "ReduceMax", "Shape", "Cast", "Equal", "Sub", "Expand", "Unsqueeze", "GroupQueryAttention", "Where"], 2, zero_sizes=False, edge_values=False),
    Fires("a bias for each head", graph(mask="m = Neg (g)", inputs=", float[1,4,S,S] g"), ["Neg", *ONE], zero_sizes=False),
    Fires("one for all queries", graph(mask=WHERE, inputs=", bool[B,1,1,S] g", constants=", float far = {-10000}"), ["Where", "Shape", "Shape", "Concat", "Expand", *ONE], zero_sizes=False),
]  # fmt: skip

test_stays, test_fires = tables("GroupQueryAttentionFusionPass", STAYS, FIRES, in_functions="never")
