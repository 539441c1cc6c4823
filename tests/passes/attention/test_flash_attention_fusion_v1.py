import numpy as np
import pytest
from harness import (
    Fires,
    Stays,
    compare,
    effected,
    make_feeds,
    optimize,
    parse,
    pass_of,
    session,
    tables,
)


def graph(
    mask: str, tail: str = "", inputs: str = "bool[B,1,3,5] b", constants: str = "", y: str = ""
) -> str:
    tail = tail or "p = Softmax <axis = -1> (a) y = MatMul (p, v)"
    values = f"float c = {{0.5}}, float zero = {{0}}, float far = {{-10000}} {constants}"
    return f"""agraph (float[B,2,3,4] q, float[B,2,5,4] k, float[B,2,5,4] v, {inputs}) => (float[B,2,3,4] y{y}) <{values}> {{
        {mask} t = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul (q, t) z = Mul (s, c) a = Add (z, m) {tail} }}"""


WHERE = "m = Where (b, zero, far)"
GUARD = "p = Softmax <axis = -1> (a) n = IsNaN (p) w = Where (n, zero, p) y = MatMul (w, v)"
CAUSAL = "float[3,5] m = {0, -inf, -inf, -inf, -inf, 0, 0, -inf, -inf, -inf, 0, 0, 0, -inf, -inf}"
LOWEST = ", float low = {-3.4028234663852886e38}"
INFINITE = ", float low = {-inf}"
LOW = "m = Where (b, zero, low)"
INTEGERS = "f = Cast <to = 1> (i) r = Sub (one, f) m = Mul (r, far)"
BLOCK = """agraph (float[B,S,8] q, float[B,L,8] k, float[B,L,8] v, bool[B,1,1,L] b) => (float[B,S,8] y)
    <float c = {0.5}, float zero = {0}, float far = {-10000}, int64[4] heads = {0, 0, 2, 4}, int64[3] merged = {0, 0, -1}> {
    m = Where (b, zero, far) r = Reshape (q, heads) a = Transpose <perm = [0, 2, 1, 3]> (r) u = Reshape (k, heads)
    t = Transpose <perm = [0, 2, 3, 1]> (u) w = Reshape (v, heads) d = Transpose <perm = [0, 2, 1, 3]> (w)
    s = MatMul (a, t) z = Mul (s, c) x = Add (z, m) p = Softmax <axis = -1> (x) o = MatMul (p, d)
    h = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape (h, merged) }"""

FIT = "the mask is not known to fit the scores"
HEADS = "each head has its own mask, and the numbers with which it hides keys are unknown"
ANY_RUNTIME = "not every runtime returns zeros for a hidden row"
NO_NUMBER = "the mask may hold NaN or +∞, which the guard turns into zeros"
STAYS = [
    Stays("opset 22", graph(WHERE), "opset 22 has no Attention", opset=22),
    Stays("one mask from outside for each head", graph("", inputs="float[B,2,3,5] m"), HEADS, opset=23),
    Stays("one mask from outside for each head, rank 3", graph("", inputs="float[2,3,5] m"), HEADS, opset=23),
    Stays("infinite for each head", graph(LOW, inputs="bool[B,2,3,5] b", constants=INFINITE), HEADS, opset=23),
    Stays("the lowest number, moved, for each head", graph("g = Where (b, zero, low) m = Unsqueeze (g, one)", inputs="bool[2,3,5] b", constants=LOWEST + ", int64[1] one = {0}"), HEADS, opset=23),
    Stays("infinite with the guard for any runtime", graph(LOW, GUARD, constants=INFINITE), ANY_RUNTIME, opset=23, target="onnx"),
    Stays("from outside with the guard for any runtime", graph("", GUARD, inputs="float[B,1,3,5] m"), ANY_RUNTIME, opset=23, target="onnx"),
    *(
        Stays(f"{name} and the guard", graph(mask, GUARD, constants=LOWEST + constants, inputs=inputs), NO_NUMBER, opset=23)
        for name, mask, constants, inputs in (
            ("a constant with NaN", "", f", {CAUSAL}".replace("{0", "{nan"), "float[B] unused"),
            ("a constant with a row of −∞ and NaN", "", f", {CAUSAL}".replace("{0, -inf", "{-inf, nan"), "float[B] unused"),
            ("a constant with +∞", "", f", {CAUSAL}".replace("{0", "{inf"), "float[B] unused"),
            ("Where of NaN", "m = Where (b, zero, no)", ", float no = {nan}", "bool[B,1,3,5] b"),
            ("Where of a constant with +∞", "g = Unsqueeze (high, one) m = Where (b, g, low)", ", int64[1] one = {0}, float[3,5] high = {inf, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}", "bool[B,1,3,5] b"),
            ("a sum with NaN", "g = Where (b, zero, low) m = Add (g, no)", ", float no = {nan}", "bool[B,1,3,5] b"),
            ("0·∞", INTEGERS.replace("far", "no"), ", float one = {1}, float no = {-inf}", "int64[B,1,3,5] i"),
            ("minus −∞", "m = Sub (i, no)", ", float no = {-inf}", "float[B,1,3,5] i"),
            ("a sum of very many", " ".join(f"m{i + 1} = Add (m{i}, n{i})" for i in range(60)) + " m = Neg (m60)", "", ", ".join(f"float[B,1,3,5] n{i}" for i in range(60)) + ", float[B,1,3,5] m0"),
        )
    ),
    Stays("another length of the queries", graph(WHERE, inputs="bool[B,1,M,5] b").replace("float[B,2,3,4] y", "float[B,2,?,4] y"), FIT, opset=23),
    Stays("one mask for each other head", graph(WHERE, inputs="bool[B,H,3,5] b"), FIT, opset=23),
    Stays("a batch of nothing", graph(WHERE).replace("[B,", "[0,"), "the operator rejects empty tensors", opset=23),
    Stays("an unknown length", graph(WHERE, inputs="bool[B,1,3,M] b"), FIT, opset=23),
    Stays("another batch", graph(WHERE, inputs="bool[C,1,3,5] b").replace("float[B,2,3,4] y", "float[?,2,3,4] y"), FIT, opset=23),
    Stays("rank 1", graph(WHERE, inputs="bool[5] b"), "the rank of the mask is not 2, 3 or 4", opset=23),
    Stays("Softmax over the heads", graph(WHERE, "p = Softmax <axis = 1> (a) y = MatMul (p, v)"), "Softmax is not over the keys", opset=23),
    Stays("the sum is used elsewhere", graph(WHERE, "p = Softmax <axis = -1> (a) y = MatMul (p, v) o = Neg (a)", y=", float[B,2,3,5] o"), "an interior value is used elsewhere", opset=23),
]  # fmt: skip

ONE = ["Where", "Attention"]
MOVED = ["ReduceMax", "Mul", "Sub", "Attention"]
GUARDED = ["ReduceMax", "Max", "Mul", "Sub", "Attention"]
FIRES = [
    Fires("Where", graph(WHERE), ONE, opset=23, zero_sizes=False),
    Fires("commuted", graph(WHERE).replace("Add (z, m)", "Add (m, z)"), ONE, opset=23, zero_sizes=False),
    Fires("opset 24", graph(WHERE), ONE, opset=24, zero_sizes=False),
    Fires("rank 2", graph(WHERE, inputs="bool[3,5] b"), ONE, opset=23, zero_sizes=False),
    Fires("one for each head", graph(WHERE, inputs="bool[2,3,5] b"), ONE, opset=23, zero_sizes=False),
    Fires("one for all queries", graph(WHERE, inputs="bool[B,1,1,5] b"), ["Where", "Expand", "Attention"], opset=23, zero_sizes=False),
    Fires("a constant, causal", graph("", constants=f", {CAUSAL}"), ["Attention"], opset=23, zero_sizes=False),
    Fires("a constant without hidden keys", graph("", constants=", float[2,3,5] m"), ["Attention"], opset=23, zero_sizes=False),
    Fires("the lowest number", graph(LOW, constants=LOWEST), ONE, opset=23, zero_sizes=False),
    Fires("the lowest number, as torch writes it", graph(LOW, constants=LOWEST, inputs="bool[B,1,3,5] b, float[B] unused"), ONE, opset=23, zero_sizes=False),
    Fires("a constant with a row of the lowest number", graph("", constants=f", {CAUSAL}".replace("{0", "{-inf").replace("-inf", "-3.4028234663852886e38")), ["Attention"], opset=23, zero_sizes=False),
    Fires("infinite with the guard", graph(LOW, GUARD, constants=INFINITE), ONE, opset=23, zero_sizes=False, edge_values=False),
    Fires("a constant with a hidden row and the guard", graph("", GUARD, constants=f", {CAUSAL}".replace("{0", "{-inf")), ["Attention"], opset=23, zero_sizes=False, edge_values=False),
    Fires("a whole operator, repeated keys", "agraph (float[B,4,3,4] q, float[B,2,5,4] k, float[B,2,5,4] v, bool[B,1,3,5] b) => (float[B,4,3,4] y) <int64[1] two = {2}, int64[5] wide = {1, 1, 2, 1, 1}, int64[4] back = {0, 4, 5, 4}> { a = Unsqueeze (k, two) c = Expand (a, wide) g = Reshape (c, back) l = Unsqueeze (v, two) m = Expand (l, wide) w = Reshape (m, back) y = Attention <softcap = 2.0> (q, g, w, b) }", ["Attention"], opset=23, zero_sizes=False),
    Fires("a whole operator that says how many, repeated keys", "agraph (float[B,4,3,4] q, float[B,2,5,4] k, float[B,2,5,4] v, bool[B,1,3,5] b) => (float[B,4,3,4] y) <int64[1] two = {2}, int64[5] wide = {1, 1, 2, 1, 1}, int64[4] back = {0, 4, 5, 4}> { a = Unsqueeze (k, two) c = Expand (a, wide) g = Reshape (c, back) l = Unsqueeze (v, two) m = Expand (l, wide) w = Reshape (m, back) y = Attention <q_num_heads = 4, kv_num_heads = 4> (q, g, w, b) }", ["Attention"], opset=23, zero_sizes=False),
    Fires("integers", graph(INTEGERS, inputs="int64[B,1,3,5] i", constants=", float one = {1}"), ["Cast", "Sub", "Mul", "Attention"], opset=23, zero_sizes=False),
    Fires("integers and the lowest number", graph(INTEGERS, inputs="int64[B,1,3,5] i", constants=", float one = {1}").replace("far = {-10000}", "far = {-3.4028234663852886e38}"), ["Cast", "Sub", "Mul", "Attention"], opset=23, zero_sizes=False, edge_values=False),
    Fires("from outside", graph("", inputs="float[B,1,3,5] m"), MOVED, opset=23, zero_sizes=False),
    Fires("from outside, opset 24, for any runtime", graph("", inputs="float[B,1,3,5] m"), MOVED, opset=24, zero_sizes=False, target="onnx"),
    Fires("from outside, one for all", graph("", inputs="float[3,5] m"), MOVED, opset=23, zero_sizes=False),
    Fires("from outside, a row of keys", graph("", inputs="float[B,1,1,5] m"), [*MOVED[:3], "Expand", "Attention"], opset=23, zero_sizes=False),
    Fires("from outside, for each query", graph("", inputs="float[1,3,1] m"), ["ReduceMax", "Mul", "Sub", "Expand", "Attention"], opset=23, zero_sizes=False),
    Fires("from outside with the guard", graph("", GUARD, inputs="float[B,1,3,5] m"), GUARDED, opset=23, zero_sizes=False, edge_values=False),
    Fires("booleans, infinite", graph(LOW, constants=INFINITE), ["Where", *MOVED], opset=23, zero_sizes=False),
    Fires("booleans, infinite, for any runtime", graph(LOW, constants=INFINITE), ["Where", *MOVED], opset=23, zero_sizes=False, target="onnx"),
    Fires("a constant with a hidden row", graph("", constants=f", {CAUSAL}".replace("{0", "{-inf")), MOVED, opset=23, zero_sizes=False),
    Fires("a constant with the lowest number and −∞", graph("", constants=f", {CAUSAL}".replace("{0, -inf", "{-3.4028234663852886e38, -inf")), MOVED, opset=23, zero_sizes=False),
    Fires("a constant with rows of the lowest number, of −∞ and the guard", graph("", GUARD, constants=f", {CAUSAL}".replace("{0, -inf, -inf, -inf, -inf, 0, 0", "{-3.4028234663852886e38, -inf, -inf, -inf, -inf, -inf, -inf")), GUARDED, opset=23, zero_sizes=False, edge_values=False),
    Fires("the lowest number, moved", graph("g = Where (b, zero, low) m = Unsqueeze (g, one)", inputs="bool[B,3,5] b", constants=LOWEST + ", int64[1] one = {1}"), ["Where", "Unsqueeze", *MOVED], opset=23, zero_sizes=False),
    Fires("the lowest number or −∞ and the guard", graph("m = Where (b, low, low2)", GUARD, constants=LOWEST + ", float low2 = {-inf}"), ["Where", *GUARDED], opset=23, zero_sizes=False, edge_values=False),
    Fires("the lowest number or another far below", graph("m = Where (b, low, low2)", constants=LOWEST + ", float low2 = {-2e38}"), ["Where", *MOVED], opset=23, zero_sizes=False),
    Fires("a constant with the lowest number and another far below", graph("", constants=", float[3,5] m = {-3.4028234663852886e38, -3.2e38, -3.4028234663852886e38, -3.4028234663852886e38, -3.4028234663852886e38, -3.4028234663852886e38, -3.4028234663852886e38, -3.4028234663852886e38, -3.4028234663852886e38, -3.4028234663852886e38, 0, 0, 0, 0, 0}"), MOVED, opset=23, zero_sizes=False),
    Fires("the lowest number for each key", graph(LOW, constants=", float[5] low = {-3.4028234663852886e38, 0, 0, 0, 0}"), ["Where", *MOVED], opset=23, zero_sizes=False),
    Fires("the sum of two that hide", graph("g = Where (b, zero, low) m = Add (g, low)", constants=LOWEST), ["Where", "Add", *MOVED], opset=23, zero_sizes=False),
    Fires("a product of floats", graph("m = Mul (i, far)", inputs="float[B,1,3,5] i"), ["Mul", *MOVED], opset=23, zero_sizes=False),
    Fires("a product of two constants", graph("m = Mul (far, w)", constants=", float[3,5] w"), ["Mul", *MOVED], opset=23, zero_sizes=False),
    Fires("two minus integers", graph(INTEGERS, inputs="int64[B,1,3,5] i", constants=", float one = {2}"), ["Cast", "Sub", "Mul", *MOVED], opset=23, zero_sizes=False),
    Fires("one minus what was floats before", graph(INTEGERS, inputs="double[B,1,3,5] i", constants=", float one = {1}"), ["Cast", "Sub", "Mul", *MOVED], opset=23, zero_sizes=False),
    Fires("a bias and a mask", graph("g = Where (b, zero, far) m = Add (g, w)", inputs="bool[B,1,3,5] b", constants=", float[2,3,5] w"), ["Where", "Add", "Attention"], opset=23, zero_sizes=False),
    Fires("added to itself many times", graph(WHERE.replace("m =", "m0 =") + " ".join(f" m{i + 1} = Add (m{i}, m{i})" for i in range(24)).replace("m24 =", "m ="), inputs="bool[B,1,3,5] b"), ["Where", *["Add"] * 24, "Attention"], opset=23, zero_sizes=False),
    Fires("split heads, a row of keys", BLOCK, ["Where", "Shape", "Shape", "Concat", "Expand", "Attention"], 2, opset=23, zero_sizes=False),
]  # fmt: skip

test_stays, test_fires = tables("FlashAttentionFusionV1", STAYS, FIRES, in_functions="never")

LOW_32 = np.finfo(np.float32).min
INF = np.inf
ROWS = {
    "nothing": [0] * 5,
    "some keys": [0, -INF, LOW_32, 0, -10000],
    "all by the lowest number": [LOW_32] * 5,
    "all by −∞": [-INF] * 5,
    "all by either": [LOW_32, LOW_32, -INF, -INF, -INF],
    "all but one far below": [LOW_32, -3.2e38, LOW_32, LOW_32, -INF],
    "all by less than the lowest number": [-3.3e38] * 5,
    "by the same number": [-10000] * 5,
    "a large bias": [3e5, -3e5, 0, 1, 2],
}


@pytest.mark.parametrize("tail", ["", GUARD], ids=["", "guard"])
@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_a_mask_from_outside_hides_what_it_hid(row, tail):
    """A row that hides all keys is NaN, zeros or equal weights, as it is when the attention is written out."""
    model = parse(graph("", tail, inputs="float[B,1,3,5] m"), 23)
    result, counts = optimize(model, [pass_of("FlashAttentionFusionV1")])
    assert effected(counts) == 1
    for seed in range(3):
        feeds = make_feeds(model, {"": 2}, seed)
        feeds["m"][0, 0, 1] = row
        compare((session(model), session(result)), feeds, "rounding")
