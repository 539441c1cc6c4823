from harness import Fires, Stays, tables

GRAPH = "agraph (float[N,4] x) => (float[N,4] y) { s = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul (x, s) }"

STAYS = [
    Stays("no kernel", GRAPH, "no CPU kernel for HardSwish of float"),
    Stays("opset 13", GRAPH, "opset 13 has no HardSwish", opset=13, target="onnx"),
    Stays(
        "the default slope", GRAPH.replace("alpha = 0.16666667", "alpha = 0.2"), None, target="onnx"
    ),
    Stays("another offset", GRAPH.replace("beta = 0.5", "beta = 0.505"), None, target="onnx"),
    Stays(
        "of something else",
        GRAPH.replace("s = HardSigmoid", "w = Neg (x) s = HardSigmoid").replace(
            "0.5> (x)", "0.5> (w)"
        ),
        None,
        target="onnx",
    ),
]

FIRES = [
    Fires("x first", GRAPH, ["HardSwish"], target="onnx"),
    Fires("x last", GRAPH.replace("(x, s)", "(s, x)"), ["HardSwish"], target="onnx", opset=14),
]

test_stays, test_fires = tables("HardSwishFusionPass", STAYS, FIRES)
