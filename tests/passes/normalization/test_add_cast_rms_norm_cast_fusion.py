from harness import Fires, Stays, tables

BODY = "p = Pow (w, two) v = ReduceMean (p, ax) e = Add (v, eps) r = Sqrt (e) q = Reciprocal (r) n = Mul (w, q)"
BEFORE = f"{BODY} m = Mul (n, g) y = Cast <to = 10> (m)"
BEHIND = f"{BODY} c = Cast <to = 10> (n) y = Mul (g, c)"
ONE = "n = RMSNormalization (w, g) y = Cast <to = 10> (n)"
FULL = "float[4] g = {0.5, 1.25, 1, 2}"
HALF = "float16[4] g"


def graph(
    body: str = ONE,
    g: str = FULL,
    inputs: str = "float16[B,S,4] x, float16[B,S,4] k",
    y: str = "float16[a,b,c] y",
    cast: str = "w = Cast <to = 1> (s)",
) -> str:
    constants = f"{g}, int64[1] ax = {{-1}}, float two = {{2}}, float eps = {{0.00001}}"
    return f"agraph ({inputs}) => ({y}) <{constants}> {{ s = Add (x, k) {cast} {body} }}"


STAYS = [
    Stays("a scale that float16 does not hold", graph(g="float[4] g = {0.1, 1, 1, 1}"), "float16 is not known to represent the scale exactly", opset=23),
    Stays("a scale from outside", graph(ONE.replace("g)", "h)"), inputs="float16[B,S,4] x, float16[B,S,4] k, float[4] h"), "float16 is not known to represent the scale exactly", opset=23),
    Stays("other shapes", graph(inputs="float16[B,S,4] x, float16[C,S,4] k"), "the shapes are not known to be equal", opset=23),
    Stays("to double and back", graph(cast="w = Cast <to = 11> (s)", g="double[4] g"), None, opset=23),
    Stays("the sum in float32 is used elsewhere", graph(f"{ONE} z = Neg (w)", y="float16[a,b,c] y, float[d,e,f] z"), "an interior value is used elsewhere", opset=23),
    Stays("not cast back", graph("y = RMSNormalization (w, g)", y="float[a,b,c] y"), None, opset=23),
    Stays("a larger type is cast down", graph(inputs="double[B,S,4] x, double[B,S,4] k"), "the elements are not all float32 or all float16", opset=23),
    Stays("another target", graph(), "target onnx has no SkipSimplifiedLayerNormalization", opset=23, target="onnx"),
]  # fmt: skip

LEFT = ["SkipSimplifiedLayerNormalization"]
FIRES = [
    Fires("the operator", graph(), LEFT, opset=23, edge_values=False),
    Fires("written out", graph(BEFORE), LEFT, edge_values=False),
    Fires("written out, scale behind", graph(BEHIND, HALF), LEFT, edge_values=False),
    Fires("the sum is used elsewhere", graph(f"{ONE} z = Neg (s)", y="float16[a,b,c] y, float16[d,e,f] z"), [*LEFT, "Neg"], opset=23, edge_values=False),
    Fires("the sum is a graph output", graph(BEHIND, HALF, y="float16[a,b,c] y, float16[d,e,f] s"), LEFT, edge_values=False),
    Fires("a scale that is cast", graph("u = Cast <to = 1> (h) n = RMSNormalization (w, u) y = Cast <to = 10> (n)", inputs="float16[B,S,4] x, float16[B,S,4] k, float16[4] h"), LEFT, opset=23, edge_values=False),
    Fires("opset 13", graph(BEHIND.replace("ReduceMean (p, ax)", "ReduceMean <axes = [-1]> (p)"), HALF), LEFT, opset=13, edge_values=False),
]  # fmt: skip

VIEW = "n = RMSNormalization (s, g) v = Reshape (n, h) w = Cast <to = 1> (v) u = Neg (w) y = Cast <to = 10> (u)"
TO_FLOAT = "n = RMSNormalization (s, g) w = Cast <to = 1> (n) u = Neg (w) y = Cast <to = 10> (u)"


def to_float(body: str, y: str = "float16[a,b] y", element: str = "float16") -> str:
    """TorchAir's third rule: the normalization, view(-1, h) and to(torch.float32)."""
    return (
        f"agraph ({element}[B,S,4] x, {element}[B,S,4] k) => ({y}) "
        f"<{element}[4] g, int64[2] h = {{-1, 4}}> {{ s = Add (x, k) {body} }}"
    )


STAYS += [
    Stays("not cast to float32", to_float(VIEW.replace("to = 1>", "to = 11>")), None, opset=23),
    Stays("no cast", to_float("y = RMSNormalization (s, g)", "float16[a,b,c] y"), None, opset=23),
    Stays("from double", to_float(TO_FLOAT, "float16[a,b,c] y", "double"), "float16 is not known to represent the scale exactly", opset=23),
]  # fmt: skip
FIRES += [
    Fires("a view, then float32", to_float(VIEW), [*LEFT, "Reshape", "Cast", "Neg", "Cast"], opset=23, edge_values=False),
    Fires("float32", to_float(TO_FLOAT, "float16[a,b,c] y"), [*LEFT, "Cast", "Neg", "Cast"], opset=23, edge_values=False),
    Fires("the normalization and the sum are outputs", to_float(VIEW, "float16[a,b] y, float16[c,d,e] n, float16[c,d,e] s"), [*LEFT, "Reshape", "Cast", "Neg", "Cast"], opset=23, edge_values=False),
    Fires("flattened, from float32 and back", graph(f"{ONE.replace('y =', 'f =')} v = Reshape (f, h) y = Cast <to = 1> (v)", y="float[a,b] y").replace("float eps", "int64[2] h = {-1, 4}, float eps"), [*LEFT, "Reshape", "Cast"], opset=23, edge_values=False),
]  # fmt: skip

test_stays, test_fires = tables("AddCastRmsNormCastFusionPass", STAYS, FIRES, in_functions="never")
