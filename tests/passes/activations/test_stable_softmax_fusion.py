from harness import Fires, Stays, tables


def graph(end: str = "y = Div (e, s)", ax: str = "{-1}") -> str:
    return f"agraph (float[N,3,4] x) => (float[N,3,4] y) <int64[1] ax = {ax}> {{ e = Exp (x) s = ReduceSum (e, ax) {end} }}"


STAYS = [
    Stays("another value is divided", graph("w = Neg (x) y = Div (w, s)"), None),
    Stays(
        "dropped axis",
        "agraph (float[3,3] x) => (float[3,3] y) <int64[1] ax = {-1}> { e = Exp (x) s = ReduceSum <keepdims = 0> (e, ax) y = Div (e, s) }",
        "the reduced axes are dropped",
    ),
]

FIRES = [
    Fires("last axis", graph(), ["Softmax"], edge_values=False),
    Fires("an inner axis", graph(ax="{1}"), ["Softmax"], edge_values=False),
    Fires(
        "times the reciprocal",
        graph("q = Reciprocal (s) y = Mul (e, q)"),
        ["Softmax"],
        edge_values=False,
    ),
    Fires(
        "Log of Softmax",
        "agraph (float[N,4] x) => (float[N,4] y) { s = Softmax <axis = 1> (x) y = Log (s) }",
        ["LogSoftmax"],
        edge_values=False,
    ),
    Fires(
        "Log of Softmax, old",
        "agraph (float[N,4,3] x) => (float[N,4,3] y) { s = Softmax (x) y = Log (s) }",
        ["LogSoftmax"],
        edge_values=False,
        opset=11,
    ),
]

test_stays, test_fires = tables("StableSoftmaxFusionPass", STAYS, FIRES, in_functions="less often")
