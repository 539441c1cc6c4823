from harness import Fires, Stays, tables

GRAPH = "agraph (float[N,4] x) => (float[N,4] y) { s = Softplus (x) t = Tanh (s) y = Mul (x, t) }"

STAYS = [
    Stays("no kernel", GRAPH, "no CPU kernel for Mish of float"),
    Stays("opset 17", GRAPH, "opset 17 has no Mish", opset=17, target="onnx"),
    Stays(
        "of something else",
        GRAPH.replace("s = Softplus (x)", "w = Neg (x) s = Softplus (w)"),
        None,
        target="onnx",
    ),
    Stays(
        "used elsewhere",
        GRAPH.replace("float[N,4] y)", "float[N,4] y, float[N,4] t)"),
        "an interior value is a graph output",
        target="onnx",
    ),
]

FIRES = [
    Fires("x first", GRAPH, ["Mish"], target="onnx"),
    Fires("x last", GRAPH.replace("(x, t)", "(t, x)"), ["Mish"], target="onnx"),
]

test_stays, test_fires = tables("MishFusionPass", STAYS, FIRES)
