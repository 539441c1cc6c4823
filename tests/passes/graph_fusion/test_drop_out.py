from harness import Fires, Stays, tables

GRAPH = "agraph (float[N,3] x{}) => (float[N,3] y{}) {} {{ a = Relu (x) b{} = Dropout {} y = Neg (b) {} }}"
TRAINING = "<bool t = {1}>"

STAYS = [
    Stays("training mode", GRAPH.format("", "", TRAINING, "", "(a, , t)", ""), "training mode drops elements"),
    Stays("decided at run time", GRAPH.format(", bool t", "", "", "", "(a, , t)", ""), "training mode drops elements"),
    Stays(
        "the mask is used",
        GRAPH.format("", ", bool[N,3] z", "", ", m", "(a)", "z = Not (m)"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "the mask is a graph output",
        GRAPH.format("", ", bool[N,3] m", "", ", m", "(a)", ""),
        "an interior value is a graph output",
    ),
    Stays(
        "no is_test before opset 7", GRAPH.format("", "", "", "", "(a)", ""), "training mode drops elements", opset=6
    ),
]

FIRES = [
    Fires("default ratio", GRAPH.format("", "", "", "", "(a)", ""), ["Relu", "Neg"]),
    Fires("a ratio", GRAPH.format("", "", "<float r = {0.9}>", "", "(a, r)", ""), ["Relu", "Neg"]),
    Fires("training mode false", GRAPH.format("", "", "<bool t = {0}>", "", "(a, , t)", ""), ["Relu", "Neg"]),
    Fires("the mask is not used", GRAPH.format("", "", "", ", m", "(a)", ""), ["Relu", "Neg"]),
    Fires(
        "opset 10, ratio an attribute", GRAPH.format("", "", "", "", "<ratio = 0.3> (a)", ""), ["Relu", "Neg"], opset=10
    ),
    Fires("opset 22", GRAPH.format("", "", "", "", "(a)", ""), ["Relu", "Neg"], opset=22),
    Fires("float16", GRAPH.format("", "", "", "", "(a)", "").replace("float[", "float16["), ["Relu", "Neg"]),
]

test_stays, test_fires = tables("DropOutPass", STAYS, FIRES)
