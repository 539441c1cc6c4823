from harness import Fires, Stays, tables

GRAPH = "agraph (float[N,4] x) => (float[N,4] y) <float one = {1}> { e = Exp (x) a = Add (e, one) y = Log (a) }"

STAYS = [
    Stays("another addend", GRAPH.replace("one = {1}", "one = {1.01}"), None),
    Stays(
        "used elsewhere",
        GRAPH.replace("float[N,4] y)", "float[N,4] y, float[N,4] a)"),
        "an interior value is a graph output",
    ),
]

FIRES = [
    Fires("one last", GRAPH, ["Softplus"], edge_values=False),
    Fires("one first", GRAPH.replace("(e, one)", "(one, e)"), ["Softplus"], edge_values=False),
]

test_stays, test_fires = tables("SoftplusFusionPass", STAYS, FIRES, in_functions="never")
