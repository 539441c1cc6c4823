from harness import Fires, Stays, tables

C = "float c = {0.5}, float d = {2.0}, float[1] e = {0.5}"


def graph(
    body: str,
    q: str = "float[B,2,3,4]",
    k: str = "float[B,2,5,4]",
    v: str = "float[B,2,5,4]",
    y: str = "float[B,2,3,4]",
    constants: str = "float c = {0.5}",
    more: str = "",
) -> str:
    values = f"<{constants}>" if constants else ""
    return f"agraph ({q} q, {k} k, {v} v) => ({y} y{more}) {values} {{ {body} }}"


T = "t = Transpose <perm = [0, 1, 3, 2]> (k)"
TAIL = "p = Softmax <axis = -1> (z) y = MatMul (p, v)"
PLAIN = f"{T} s = MatMul (q, t) z = Mul (s, c) {TAIL}"
GUARD = "p = Softmax <axis = -1> (z) n = IsNaN (p) w = Where (n, zero, p) y = MatMul (w, v)"
FLAT = "f = Reshape (k, flat) g = Transpose <perm = [0, 2, 1]> (f) t = Reshape (g, back)"
FLATTENED = "int64[3] flat = {-1, 5, 4}, int64[4] back = {-1, 2, 4, 5}"
BLOCK = """r = Reshape (q, heads) a = Transpose <perm = [0, 2, 1, 3]> (r) u = Reshape (k, heads)
    b = Transpose <perm = [0, 2, 3, 1]> (u) w = Reshape (v, heads) d = Transpose <perm = [0, 2, 1, 3]> (w)
    s = MatMul (a, b) z = Mul (s, c) p = Softmax <axis = -1> (z) o = MatMul (p, d)
    h = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape (h, merged)"""
JOINED = {"q": "float[B,S,8]", "k": "float[B,L,8]", "v": "float[B,L,8]", "y": "float[B,S,8]"}
HEADS = "float c = {0.5}, int64[4] heads = {0, 0, 2, 4}, int64[3] merged = {0, 0, -1}"
REPEATED = """a = Unsqueeze (k, two) b = Expand (a, wide) g = Reshape (b, back) t = Transpose <perm = [0, 1, 3, 2]> (g)
    l = Unsqueeze (v, two) m = Expand (l, wide) w = Reshape (m, back) s = MatMul (q, t) z = Mul (s, c)
    p = Softmax <axis = -1> (z) y = MatMul (p, w)"""
GROUPS = {
    "q": "float[B,6,3,4]",
    "k": "float[B,2,5,4]",
    "v": "float[B,2,5,4]",
    "y": "float[B,6,3,4]",
}
REPEATS = "float c = {0.5}, int64[1] two = {2}, int64[5] wide = {1, 1, 3, 1, 1}, int64[4] back = {0, 6, 5, 4}"
PACKED = """agraph (float[B,S,24] x) => (float[B,S,8] y) <float c = {0.5}, int64[5] five = {0, 0, 3, 2, 4}, int64[3] ones = {1, 1, 1}, int64[1] first = {0}, int64[3] merged = {0, 0, 8}> {
    r = Reshape (x, five) t = Transpose <perm = [2, 0, 3, 1, 4]> (r) i, j, l = Split <axis = 0> (t, ones)
    q = Squeeze (i, first) k = Squeeze (j, first) v = Squeeze (l, first) u = Transpose <perm = [0, 1, 3, 2]> (k)
    s = MatMul (q, u) z = Mul (s, c) p = Softmax <axis = -1> (z) o = MatMul (p, v)
    h = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape (h, merged) }"""

TORCH = "b0 = Shape <start = 0, end = 1> (q) b1 = Shape <start = 1, end = 2> (q) heads = Concat <axis = 0> (b0, b1, rest) "
ROWS = BLOCK.replace("Reshape (k, heads)", "Reshape (k, others)").replace(
    "Reshape (v, heads)", "Reshape (v, others)"
)

OPERATOR = BLOCK.replace("[0, 2, 3, 1]> (u)", "[0, 2, 1, 3]> (u)").replace(
    "s = MatMul (a, b) z = Mul (s, c) p = Softmax <axis = -1> (z) o = MatMul (p, d)",
    "o = Attention (a, b, d)",
)

STAYS = [
    Stays("opset 22", graph(PLAIN), "opset 22 has no Attention", opset=22),
    Stays("double", graph(PLAIN).replace("float", "double"), "the elements are not float32", opset=23),
    Stays("float16", graph(PLAIN.replace("z = Mul (s, c)", "z = Identity (s)"), constants="").replace("float", "float16").replace("z = Identity (s)", "").replace("(z)", "(s)"), "the elements are not float32", opset=23),
    Stays("Softmax over the queries", graph(PLAIN.replace("axis = -1", "axis = 2")), "Softmax is not over the keys", opset=23),
    Stays(
        "rank 3",
        graph(PLAIN.replace("[0, 1, 3, 2]", "[0, 2, 1]"), *("float[2,3,4]", "float[2,5,4]", "float[2,5,4]", "float[2,3,4]")),
        "the rank is not 4",
        opset=23,
    ),
    Stays("other heads of the query", graph(PLAIN, q="float[B,1,3,4]"), "the heads are not known to be the same", opset=23),
    Stays("other heads of the value", graph(PLAIN, v="float[B,1,5,4]"), "the heads are not known to be the same", opset=23),
    Stays("unknown heads", graph(PLAIN, k="float[B,N,5,4]"), "the heads are not known to be the same", opset=23),
    Stays("one batch of keys", graph(PLAIN, k="float[1,2,5,4]"), "the batches are not known to be the same", opset=23),
    Stays("unknown batches", graph(PLAIN, v="float[C,2,5,4]", y="float[?,2,3,4]"), "the batches are not known to be the same", opset=23),
    Stays(
        "one head",
        graph(PLAIN, "float[B,1,3,4]", "float[B,1,5,4]", "float[B,1,5,4]", "float[B,1,3,4]"),
        "the operator computes one head on one thread",
        opset=23,
    ),
    Stays("a negative scale", graph(PLAIN, constants="float c = {-0.5}"), "the scale is not a single positive number", opset=23),
    Stays("a scale for each head", graph(PLAIN, constants="float[2,1,1] c"), "the scale is not a single positive number", opset=23),
    Stays("a scale that raises the rank", graph(PLAIN.replace("y =", "u =") + " y = Squeeze (u, x)", constants="float[1,1,1,1,1] c = {0.5}, int64[1] x = {0}"), "the scale is not a single positive number", opset=23),
    Stays("a very small scale", graph(PLAIN, constants="float c = {0.0000001}"), "the scale is very small or very large", opset=23),
    Stays("the weights are used elsewhere", graph(f"{PLAIN} o = Neg (p)", more=", float[B,2,3,5] o"), "an interior value is used elsewhere", opset=23),
    Stays("another guard", graph(f"{T} s = MatMul (q, t) z = Mul (s, c) {GUARD}", constants="float c = {0.5}, float zero = {1}"), None, opset=23),
    Stays(
        "values of fewer heads, repeated more often",
        "agraph (float[B,4,3,4] q, float[B,2,5,4] k, float[B,1,5,4] v) => (float[B,4,3,4] y) <int64[1] two = {2}, int64[5] wide = {1, 1, 2, 1, 1}, int64[5] wider = {1, 1, 4, 1, 1}, int64[4] back = {0, 4, 5, 4}> { a = Unsqueeze (k, two) c = Expand (a, wide) g = Reshape (c, back) l = Unsqueeze (v, two) m = Expand (l, wider) w = Reshape (m, back) y = Attention (q, g, w) }",
        "key and value have different heads",
        opset=23,
    ),
    Stays(
        "an unknown number of heads of the query",
        graph(TORCH.replace("(q)", "(i0)") + OPERATOR.replace("(k, heads)", "(k, others)").replace("(v, heads)", "(v, others)"), constants="int64[2] rest = {-1, 4}, int64[4] others = {0, 0, 2, 4}, int64[3] merged = {0, 0, 8}", q="float[B,S] i0, float[U,V,8]", k="float[B,L,8]", v="float[B,L,8]", y="float[B,S,8]"),
        "the number of heads is unknown",
        opset=23,
    ),
    Stays(
        "an unknown number of heads of the keys",
        graph(TORCH.replace("(q)", "(i0)") + OPERATOR.replace("(q, heads)", "(q, others)"), constants="int64[2] rest = {-1, 4}, int64[4] others = {0, 0, 2, 4}, int64[3] merged = {0, 0, 8}", q="float[B,L] i0, float[B,S,8]", k="float[U,V,8]", v="float[U,V,8]", y="float[B,S,8]"),
        "the number of heads is unknown",
        opset=23,
    ),
    Stays("other heads of the split value", graph(OPERATOR.replace("(v, heads)", "(v, others)"), constants=HEADS + ", int64[4] others = {0, 0, 1, 4}", **JOINED | {"v": "float[B,L,4]"}), "the number of heads is unknown", opset=23),
    Stays("heads of an unknown size", graph(OPERATOR, constants=HEADS.replace("heads = {0, 0, 2, 4}", "heads = {0, 0, 2, -1}"), q="float[B,S,D]", k="float[B,L,D]", v="float[B,L,D]", y="float[B,S,?]"), "the sizes of the heads are unknown", opset=23),
    Stays(
        "a Reshape behind them that exchanges two dimensions",
        graph(OPERATOR.replace("(o)", "(i)").replace("o = Attention (a, b, d)", "o = Attention (a, b, d) i = Reshape (o, other)"), constants=HEADS.replace("float c = {0.5}", "int64[4] other = {-1, 3, 2, 4}"), **JOINED | {"q": "float[B,3,8]", "y": "float[B,2,12]"}),
        "a Reshape after the operator changes something",
        opset=23,
    ),
    Stays(
        "the key is not transposed",
        graph(f"{FLAT} s = MatMul (q, t) {TAIL.replace('z', 's')}", k="float[B,2,4,5]", constants="int64[3] flat = {-1, 5, 4}, int64[4] back = {-1, 2, 4, 5}"),
        "the key is not known to be transposed",
        opset=23,
    ),
]  # fmt: skip

ONE = ["Attention"]
FIRES = [
    Fires(name, graph(f"{body} {TAIL}", constants=C), ONE, opset=23, zero_sizes=False)
    for name, body in {
        "the product times the scale": f"{T} s = MatMul (q, t) z = Mul (s, c)",
        "the scale times the product": f"{T} s = MatMul (q, t) z = Mul (c, s)",
        "the product divided": f"{T} s = MatMul (q, t) z = Div (s, d)",
        "a scale of rank 1": f"{T} s = MatMul (q, t) z = Mul (s, e)",
        "without a scale": f"{T} z = MatMul (q, t)",
        "the scale on the query": f"r = Mul (q, c) {T} z = MatMul (r, t)",
        "the query divided": f"r = Div (q, d) {T} z = MatMul (r, t)",
        "the scale on both": f"r = Mul (q, c) {T} u = Mul (t, c) z = MatMul (r, u)",
        "the scale on the key, then transposed": "u = Mul (k, c) t = Transpose <perm = [0, 1, 3, 2]> (u) z = MatMul (q, t)",
    }.items()
]
FIRES += [
    Fires("opset 24", graph(PLAIN), ONE, opset=24, zero_sizes=False),
    Fires("for any runtime", graph(PLAIN), ONE, opset=23, zero_sizes=False, target="onnx"),
    Fires("the axis counted from the front", graph(PLAIN.replace("axis = -1", "axis = 3")), ONE, opset=23, zero_sizes=False),
    Fires("all symbolic", graph(PLAIN, "float[B,2,S,D]", "float[B,2,L,D]", "float[B,2,L,E]", "float[B,2,S,E]"), ONE, opset=23, zero_sizes=False),
    Fires("one key for all heads", graph(PLAIN, k="float[B,1,5,4]", v="float[B,1,5,4]"), ONE, opset=23, zero_sizes=False),
    Fires("values of another size", graph(PLAIN, v="float[B,2,5,7]", y="float[B,2,3,7]"), ONE, opset=23, zero_sizes=False),
    Fires(
        "the guard",
        graph(f"{T} s = MatMul (q, t) z = Mul (s, c) {GUARD}", constants="float c = {0.5}, float zero = {0}"),
        ONE,
        opset=23,
        zero_sizes=False,
        edge_values=False,
    ),
    Fires(
        "the key as it leaves a product",
        graph(PLAIN.replace("[0, 1, 3, 2]", "[0, 2, 3, 1]"), k="float[B,5,2,4]"),
        ["Transpose", "Attention"],
        opset=23,
        zero_sizes=False,
    ),
    Fires("the key on [batch · heads]", graph(f"{FLAT} z = MatMul (q, t) {TAIL}", constants=FLATTENED), ONE, opset=23, zero_sizes=False),
    Fires(
        "the key is used elsewhere",
        graph(f"{PLAIN} o = Neg (t)", more=", float[B,2,4,5] o"),
        ["Transpose", "Attention", "Neg"],
        opset=23,
        zero_sizes=False,
    ),
    Fires("split heads", graph(BLOCK, constants=HEADS, **JOINED), ONE, 2, opset=23, zero_sizes=False),
    Fires(
        "split heads, merged in two axes",
        graph(BLOCK, constants=HEADS.replace("merged = {0, 0, -1}", "merged = {-1, 4, 2}"), **JOINED | {"y": "float[?,4,2]"}),
        ["Attention", "Reshape"],
        2,
        opset=23,
        zero_sizes=False,
    ),
    Fires(
        "split heads, a Reshape behind them",
        graph(BLOCK.replace("(o)", "(i)").replace("o = MatMul (p, d)", "o = MatMul (p, d) i = Reshape (o, same)"), constants=HEADS.replace("float c", "int64[4] same = {-1, 2, 3, 4}, float c"), **JOINED | {"q": "float[B,3,8]", "y": "float[B,3,8]"}),
        ONE,
        2,
        opset=23,
        zero_sizes=False,
    ),
    Fires(
        "heads split as torch does",
        graph(TORCH + BLOCK, constants="float c = {0.5}, int64[2] rest = {-1, 4}, int64[3] merged = {0, 0, -1}", **JOINED | {"k": "float[B,S,8]", "v": "float[B,S,8]"}),
        ["Attention"],
        2,
        opset=23,
        zero_sizes=False,
    ),
    Fires(
        "heads split from rows",
        graph(ROWS, constants="float c = {0.5}, int64[4] heads = {2, 3, 2, 4}, int64[4] others = {2, -1, 2, 4}, int64[3] merged = {0, 0, -1}", q="float[6,8]", k="float[10,8]", v="float[10,8]", y="float[2,3,8]"),
        ["Reshape", "Reshape", "Reshape", "Attention"],
        2,
        opset=23,
        zero_sizes=False,
    ),
    Fires(
        "an unknown number of heads",
        graph(
            TORCH.replace("(q)", "(i0)") + BLOCK,
            constants="float c = {0.5}, int64[2] rest = {-1, 4}, int64[3] merged = {0, 0, 8}",
            q="float[B,S] i0, float[U,V,8]",
            k="float[U,V,8]",
            v="float[U,V,8]",
            y="float[B,S,8]",
        ),
        ["Shape", "Shape", "Concat", "Reshape", "Transpose", "Reshape", "Reshape", "Transpose", "Transpose", "Attention", "Transpose", "Reshape"],
        opset=23,
        zero_sizes=False,
    ),
    Fires("repeated keys and values", graph(REPEATED, constants=REPEATS, **GROUPS), ONE, 2, opset=23, zero_sizes=False),
    Fires("one product for all three", PACKED, ["Split", "Attention"], 2, opset=23, zero_sizes=False),
]  # fmt: skip

test_stays, test_fires = tables("FlashAttentionFusionV2", STAYS, FIRES, in_functions="never")
