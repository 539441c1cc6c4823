from harness import Fires, Stays, operators, optimize, parse, pass_of, seen_by_subgraph, tables

GRAPH = "agraph (float[N,3] x{}) => (float[N,3] y{}) {} {{ a = Relu (x) b{} = Dropout {} y = Neg (b) {} }}"
TRAINING = "<bool t = {1}>"
TRAINS = "training mode drops elements"

STAYS = [
    Stays("training mode", GRAPH.format("", "", TRAINING, "", "(a, , t)", ""), TRAINS),
    Stays("decided at run time", GRAPH.format(", bool t", "", "", "", "(a, , t)", ""), TRAINS),
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
    Stays("no is_test before opset 7", GRAPH.format("", "", "", "", "(a)", ""), TRAINS, opset=6),
    Stays(
        "training mode with a small ratio",
        GRAPH.format("", "", "<float r = {0.01}, bool t = {1}>", "", "(a, r, t)", ""),
        TRAINS,
    ),
    Stays(
        "training mode with a ratio from outside",
        GRAPH.format(", float r", "", TRAINING, "", "(a, r, t)", ""),
        TRAINS,
    ),
    Stays(
        "a ratio of 0 that the caller may override",
        GRAPH.format(", float r = {0}", "", TRAINING, "", "(a, r, t)", ""),
        TRAINS,
    ),
    Stays(
        "a default of training mode that the caller may override",
        GRAPH.format(", bool t = {0}", "", "", "", "(a, , t)", ""),
        TRAINS,
    ),
    Stays(
        "a subgraph uses the mask",
        seen_by_subgraph(GRAPH.format("", "", "", ", m", "(a)", ""), "m", "bool[N,3]"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "from an input to an output",
        "agraph (float[N,3] x) => (float[N,3] y) { y = Dropout (x) }",
        "the result is a graph output and needs a name of its own",
    ),
    Stays(
        "a custom operator of that name",
        GRAPH.format("", "", "", "", "(a)", "").replace("Drop", "my.own.Drop"),
        None,
    ),
]

FIRES = [
    Fires("default ratio", GRAPH.format("", "", "", "", "(a)", ""), ["Relu", "Neg"]),
    Fires("a ratio", GRAPH.format("", "", "<float r = {0.9}>", "", "(a, r)", ""), ["Relu", "Neg"]),
    Fires(
        "training mode false",
        GRAPH.format("", "", "<bool t = {0}>", "", "(a, , t)", ""),
        ["Relu", "Neg"],
    ),
    Fires(
        "training mode of which the ratio is 0",
        GRAPH.format("", "", "<float r = {0}, bool t = {1}>", "", "(a, r, t)", ""),
        ["Relu", "Neg"],
    ),
    Fires(
        "a ratio of 0, training mode from outside",
        GRAPH.format(", bool t", "", "<float r = {0}>", "", "(a, r, t)", ""),
        ["Relu", "Neg"],
    ),
    Fires("the mask is not used", GRAPH.format("", "", "", ", m", "(a)", ""), ["Relu", "Neg"]),
    Fires(
        "opset 10, ratio an attribute",
        GRAPH.format("", "", "", "", "<ratio = 0.3> (a)", ""),
        ["Relu", "Neg"],
        opset=10,
    ),
    Fires("opset 22", GRAPH.format("", "", "", "", "(a)", ""), ["Relu", "Neg"], opset=22),
    Fires(
        "float16",
        GRAPH.format("", "", "", "", "(a)", "").replace("float[", "float16["),
        ["Relu", "Neg"],
    ),
    Fires(
        "a ratio from outside",
        GRAPH.format(", float r", "", "", "", "(a, q)", "").replace("a = ", "q = Sigmoid (r) a = "),
        ["Relu", "Neg"],
        edge_values=False,  # NaN is no ratio
    ),
    Fires("the mask is left out", GRAPH.format("", "", "", ", ", "(a)", ""), ["Relu", "Neg"]),
    *[
        Fires(
            f"opset {opset}", GRAPH.format("", "", "", "", "(a)", ""), ["Relu", "Neg"], opset=opset
        )
        for opset in (7, 12, 13)
    ],
    Fires(
        "opset 9, IR version 3",
        GRAPH.format("", "", "", "", "(a)", ""),
        ["Relu", "Neg"],
        opset=9,
        ir_version=3,
    ),
    Fires(
        "the result is a graph output",
        "agraph (float[N,3] x) => (float[N,3] y) { a = Relu (x) y = Dropout (a) }",
        ["Relu"],
    ),
    Fires(
        "a value that a subgraph uses",
        seen_by_subgraph(GRAPH.format("", "", "", "", "(a)", ""), "b", "float[N,3]"),
        ["Relu", "Neg", "If"],
        inside_if=False,  # it has an If of its own
    ),
]

test_stays, test_fires = tables("DropOutPass", STAYS, FIRES)


def test_is_test_before_opset_7() -> None:
    """onnxruntime has no kernel that old, so nothing is run."""
    result, _ = optimize(
        parse(GRAPH.format("", "", "", "", "<is_test = 1> (a)", ""), opset=6),
        [pass_of("DropOutPass")],
    )
    assert operators(result) == {"Relu": 1, "Neg": 1}
