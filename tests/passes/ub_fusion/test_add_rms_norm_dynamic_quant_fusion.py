from harness import Fires, Stays, tables

SCALE = "w = Div (m, c)"
ROUND = "d = Div (x, w) r = Round (d) y = Cast <to = 3> (r)"
CLIPPED = "d = Div (x, w) r = Round (d) p = Clip (r, low, high) y = Cast <to = 3> (p)"


def graph(
    scale: str = SCALE,
    end: str = ROUND,
    x: str = "float[B,S,4] x",
    y: str = "int8[a,b,c] y, float[d,e,f] w",
    c: str = "127",
    reduce: str = "a = Abs (x) m = ReduceMax (a, ax)",
    low: str = "-128",
    axis: str = "-1",
    before: str = "",
) -> str:
    constants = f"int64[1] ax = {{{axis}}}, float c = {{{c}}}, float least = {{0.00001}}, float low = {{{low}}}, float high = {{127}}, float[4] g, float[4] t"
    return f"agraph ({x}) => ({y}) <{constants}> {{ {before} {reduce} {scale} {end} }}"


BEHIND = "s = Add (u, k) n = RMSNormalization (s, g)"
INPUTS = "float[B,S,4] u, float[B,S,4] k"
STAYS = [
    Stays("opset 20", graph(), "opset below 21: QuantizeLinear wants a zero point for each row", opset=20),
    Stays("double", graph().replace("float", "double"), "the elements are not float32", opset=21),
    Stays("rank 1", graph(x="float[4] x", y="int8[a] y"), "the rank is unknown or less than 2", opset=21),
    Stays("another axis", graph(axis="1"), "not the last axes are reduced", opset=21),
    Stays("all axes", graph(reduce="a = Abs (x) m = ReduceMax (a)"), "more than the last axis is reduced", opset=21),
    Stays("an unknown length", graph(x="float[B,S,H] x"), "the length of the last axis is unknown", opset=21),
    Stays("clipped to less", graph(end=CLIPPED, low="-8"), "the result is clipped to less than int8 holds", opset=21),
    Stays("divided by another number", graph(c="7"), None, opset=21),
    Stays("not of the magnitude", graph(reduce="m = ReduceMax (x, ax)"), None, opset=21),
    Stays("of something else", graph(before="q = Neg (x)", reduce="a = Abs (q) m = ReduceMax (a, ax)"), None, opset=21),
    Stays("to int32", graph(end=ROUND.replace("to = 3", "to = 6"), y="int32[a,b,c] y"), None, opset=21),
    Stays("cut off instead of rounded", graph(end=ROUND.replace("Round", "Floor")), None, opset=21),
    Stays("rounded values are used elsewhere", graph(end=f"{ROUND} z = Neg (r)", y="int8[a,b,c] y, float[d,e,f] z"), "an interior value is used elsewhere", opset=21),
    Stays("another target", graph(), "for target onnx nothing is known to be gained", opset=21, target="onnx"),
]  # fmt: skip

END = ["Reshape", "Reshape", "QuantizeLinear", "Shape", "Reshape"]
SCALES = ["Abs", "ReduceMax", "Div"]
LEFT = [*SCALES, *END]
FLAT = [*SCALES, "Reshape", "QuantizeLinear"]
FIRES = [
    Fires("plain", graph(), LEFT, opset=21, edge_values=False),
    Fires("rank 2, as flattened", graph(x="float[M,4] x", y="int8[a,b] y, float[c,d] w"), FLAT, opset=21, edge_values=False),
    Fires("known dimensions", graph(x="float[2,3,4] x"), [*SCALES, "QuantizeLinear"], opset=21, edge_values=False),
    Fires("known dimensions, rank 2", graph(x="float[3,4] x", y="int8[a,b] y, float[c,d] w"), [*SCALES, "QuantizeLinear"], opset=22, edge_values=False),
    Fires("one dimension is 0", graph(x="float[2,0,4] x"), LEFT, opset=21, edge_values=False, inside_if=False),
    Fires("rank 4", graph(x="float[B,S,2,4] x", y="int8[a,b,c,d] y"), LEFT, opset=21, edge_values=False),
    Fires("clipped", graph(end=CLIPPED), LEFT, opset=21, edge_values=False),
    Fires("clipped evenly", graph(end=CLIPPED, low="-127"), LEFT, opset=21, edge_values=False),
    Fires("times 1/127", graph("w = Mul (m, c)", c="0.007874015748031496"), ["Abs", "ReduceMax", "Mul", *END], opset=21, edge_values=False),
    Fires("kept from zero", graph("q = Div (m, c) w = Max (q, least)"), [*SCALES, "Max", *END], opset=21, edge_values=False),
    Fires("kept from zero by Clip", graph("q = Div (m, c) w = Clip (q, least)"), ["Abs", "ReduceMax", "Div", "Clip", *END], opset=21, edge_values=False),
    Fires("the largest kept from zero", graph("q = Clip (m, least) w = Div (q, c)"), ["Abs", "ReduceMax", "Clip", "Div", *END], opset=21, edge_values=False),
    Fires("behind a sum and its normalization", graph(before=BEHIND, x=INPUTS, end=ROUND.replace("x", "n"), reduce="a = Abs (n) m = ReduceMax (a, ax)", y="int8[a,b,c] y, float[d,e,f] w, float[h,i,j] s"), ["Add", "RMSNormalization", *LEFT], opset=23, edge_values=False),
    Fires("scaled", graph(before=f"{BEHIND} x = Mul (n, t)", x=INPUTS), ["Add", "RMSNormalization", "Mul", *LEFT], opset=23, edge_values=False),
    Fires("flattened", graph(before=f"{BEHIND} f = Constant <value_ints = [-1, 4]> () x = Reshape (n, f)", x=INPUTS, y="int8[a,b] y, float[c,d] w"), ["Add", "RMSNormalization", "Constant", "Reshape", *FLAT], opset=23, edge_values=False),
]  # fmt: skip

test_stays, test_fires = tables("AddRmsNormDynamicQuantFusionPass", STAYS, FIRES)
