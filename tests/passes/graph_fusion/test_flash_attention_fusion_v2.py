from harness import Fires, Stays, tables


def graph(mask: str, tail: str = "", inputs: str = "bool[B,1,3,5] b", constants: str = "", y: str = "") -> str:
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

HIDDEN = "a row that the mask hides becomes NaN"
FIT = "the mask is not known to fit the scores"
UNKNOWN = "what the mask hides is unknown"
STAYS = [
    Stays("opset 22", graph(WHERE), "opset 22 has no Attention", opset=22),
    Stays("a mask from outside", graph("m = Identity (b)", inputs="float[B,1,3,5] b"), UNKNOWN, opset=23),
    Stays("the sum of two that hide", graph("g = Where (b, zero, low) m = Add (g, low)", constants=LOWEST), UNKNOWN, opset=23),
    Stays("a product of floats", graph("m = Mul (i, far)", inputs="float[B,1,3,5] i"), UNKNOWN, opset=23),
    Stays("infinite without a guard", graph(LOW, constants=INFINITE), HIDDEN, opset=23),
    Stays("a constant with a hidden row", graph("", constants=f", {CAUSAL}".replace("{0", "{-inf")), HIDDEN, opset=23),
    Stays("infinite for any runtime", graph(LOW, GUARD, constants=INFINITE), "not every runtime makes zeros of a hidden row", opset=23, target="onnx"),
    Stays("the lowest number, moved", graph("g = Where (b, zero, low) m = Unsqueeze (g, one)", inputs="bool[B,3,5] b", constants=LOWEST + ", int64[1] one = {1}"), "the mask hides by the lowest number", opset=23),
    Stays("the lowest number and −∞", graph("m = Where (b, low, low2)", GUARD, constants=LOWEST + ", float low2 = {-inf}"), "the mask hides by the lowest number", opset=23),
    Stays("the lowest number beside another far below", graph("m = Where (b, low, low2)", constants=LOWEST + ", float low2 = {-2e38}"), "the mask hides by the lowest number", opset=23),
    Stays("the lowest number for each key", graph(LOW, constants=", float[5] low = {-3.4028234663852886e38, 0, 0, 0, 0}"), "the mask hides by the lowest number", opset=23),
    Stays("a constant with the lowest number and −∞", graph("", constants=f", {CAUSAL}".replace("{0, -inf", "{0, -3.4028234663852886e38")), "the mask hides by the lowest number", opset=23),
    Stays("two minus integers", graph(INTEGERS, inputs="int64[B,1,3,5] i", constants=", float one = {2}"), UNKNOWN, opset=23),
    Stays("one minus what was floats before", graph(INTEGERS, inputs="double[B,1,3,5] i", constants=", float one = {1}"), UNKNOWN, opset=23),
    Stays("a product of two constants", graph("m = Mul (far, w)", constants=", float[3,5] w"), UNKNOWN, opset=23),
    Stays("another length of the queries", graph(WHERE, inputs="bool[B,1,M,5] b").replace("float[B,2,3,4] y", "float[B,2,?,4] y"), FIT, opset=23),
    Stays("one mask for each other head", graph(WHERE, inputs="bool[B,H,3,5] b"), FIT, opset=23),
    Stays("an unknown length", graph(WHERE, inputs="bool[B,1,3,M] b"), FIT, opset=23),
    Stays("another batch", graph(WHERE, inputs="bool[C,1,3,5] b").replace("float[B,2,3,4] y", "float[?,2,3,4] y"), FIT, opset=23),
    Stays("rank 1", graph(WHERE, inputs="bool[5] b"), "the rank of the mask is unknown, or not 2 to 4", opset=23),
    Stays("Softmax over the heads", graph(WHERE, "p = Softmax <axis = 1> (a) y = MatMul (p, v)"), "Softmax is not over the keys", opset=23),
    Stays("the sum is used elsewhere", graph(WHERE, "p = Softmax <axis = -1> (a) y = MatMul (p, v) o = Neg (a)", y=", float[B,2,3,5] o"), "an interior value is used elsewhere", opset=23),
]  # fmt: skip

ONE = ["Where", "Attention"]
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
    Fires("integers", graph(INTEGERS, inputs="int64[B,1,3,5] i", constants=", float one = {1}"), ["Cast", "Sub", "Mul", "Attention"], opset=23, zero_sizes=False),
    Fires("integers and the lowest number", graph(INTEGERS, inputs="int64[B,1,3,5] i", constants=", float one = {1}").replace("far = {-10000}", "far = {-3.4028234663852886e38}"), ["Cast", "Sub", "Mul", "Attention"], opset=23, zero_sizes=False, edge_values=False),
    Fires("a bias and a mask", graph("g = Where (b, zero, far) m = Add (g, w)", inputs="bool[B,1,3,5] b", constants=", float[2,3,5] w"), ["Where", "Add", "Attention"], opset=23, zero_sizes=False),
    Fires("split heads, a row of keys", BLOCK, ["Where", "Shape", "Shape", "Concat", "Expand", "Attention"], 2, opset=23, zero_sizes=False),
]  # fmt: skip

test_stays, test_fires = tables("FlashAttentionFusionV2", STAYS, FIRES)
