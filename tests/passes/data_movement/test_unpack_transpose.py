from harness import Fires, Stays, tables

BODY = """r = Reshape (x, apart) t = Transpose <perm = [2, 0, 3, 4, 1]> (r) a, b, c = Split <axis = 0> (t, ones)
    q = Squeeze (a, zero) k = Squeeze (b, zero) v = Squeeze (c, zero)"""


def graph(
    body: str = BODY,
    x: str = "float[N,5,24]",
    apart: str = "{0, 5, 3, 2, 4}",
    y: str = "float[N,2,4,5]",
    constants: str = "",
    results: str = "",
) -> str:
    targets = f"int64[{apart.count(',') + 1}] apart = {apart}, int64[3] ones = {{1, 1, 1}}, int64[1] zero = {{0}}"
    return f"agraph ({x} x) => ({y} q, {y} k, {y} v{results}) <{targets}{constants}> {{ {body} }}"


STAYS = [
    Stays("target onnx", graph(), "for target onnx no gain is known", target="onnx"),
    Stays("another order", graph(BODY.replace("3, 4, 1]", "3, 1, 4]"), y="float[N,2,5,4]"), None),
    Stays("parted along another axis", graph(BODY.replace("axis = 0", "axis = 2").replace("zero", "two"), apart="{0, 5, 2, 3, 4}", y="float[2,N,4,5]", constants=", int64[1] two = {2}"), None),
    Stays("pieces of other sizes", graph("r = Reshape (x, apart) t = Transpose <perm = [2, 0, 3, 4, 1]> (r) a, b = Split <axis = 0> (t, some) q = Squeeze (a, zero) k = Identity (q) v = Neg (q) w = Neg (b)", constants=", int64[2] some = {1, 2}", results=", float[2,N,2,4,5] w"), None),
    Stays("a piece without a Squeeze", graph(BODY.replace("v = Squeeze (c, zero)", "v = Identity (q) w = Neg (c)"), results=", float[1,N,2,4,5] w"), None),
    Stays("the Reshape parts two axes", graph(x="float[N,10,12]"), "the Reshape is not known to split only the last axis"),
    Stays("four axes", graph(x="float[N,5,24,1]"), "the rank is not 3"),
    Stays("a length that is not known", graph(x="float[N,S,24]", apart="{0, 0, 3, 2, 4}", y="float[N,2,4,S]"), "a size other than that of the batch is unknown, or is 0"),
    Stays("a size that is not known", graph(x="float[N,5,C]", apart="{0, 5, 3, 2, -1}", y="float[N,2,?,5]"), "a size other than that of the batch is unknown, or is 0"),
    Stays("the whole is used elsewhere", graph(f"{BODY} w = Neg (t)", results=", float[3,N,2,4,5] w"), "an interior value is used elsewhere"),
]  # fmt: skip

LEFT = ["Transpose", "Reshape", "Split", "Squeeze", "Squeeze", "Squeeze"]
FIRES = [
    Fires("query, key and value", graph(), LEFT),
    Fires("opset 12", graph(BODY.replace("<axis = 0> (t, ones)", "<axis = 0, split = [1, 1, 1]> (t)").replace("Squeeze (", "Squeeze <axes = [0]> (").replace(", zero)", ")")), LEFT, opset=12),
    Fires("four axes", graph(BODY.replace("[2, 0, 3, 4, 1]", "[2, 0, 3, 1]"), apart="{0, 5, 3, 8}", y="float[N,8,5]"), LEFT),
]  # fmt: skip

test_stays, test_fires = tables("UnpackTransposePass", STAYS, FIRES, in_functions="never")
