from harness import Fires, Stays, tables


def graph(norm: str, ax: str = "{-1}", x: str = "float[N,3,4]") -> str:
    return f"agraph ({x} x) => ({x} y) <int64[1] ax = {ax}, float least = {{0.000000000001}}, float two = {{2}}> {{ {norm} y = Div (x, n) }}"


STAYS = [
    Stays(
        "two axes",
        graph("n = ReduceL2 (x, ax)").replace("int64[1] ax = {-1}", "int64[2] ax = {1, 2}"),
        "not exactly one axis is reduced",
    ),
    Stays(
        "the sum of cubes",
        graph("s = Pow (x, two) r = ReduceSum (s, ax) n = Sqrt (r)").replace(
            "two = {2}", "two = {3}"
        ),
        None,
    ),
    Stays("the norm of something else", graph("w = Exp (x) n = ReduceL2 (w, ax)"), None),
]

LP = ["LpNormalization"]
FIRES = [
    Fires("ReduceL2", graph("n = ReduceL2 (x, ax)"), LP, edge_values=False),
    Fires("limited", graph("m = ReduceL2 (x, ax) n = Clip (m, least)"), LP, edge_values=False),
    Fires(
        "limited by Max",
        graph("m = ReduceL2 (x, ax) n = Max (m, least)", ax="{1}"),
        LP,
        edge_values=False,
    ),
    Fires(
        "written out",
        graph("s = Mul (x, x) r = ReduceSum (s, ax) n = Sqrt (r)"),
        LP,
        edge_values=False,
    ),
    Fires(
        "sum of squares", graph("r = ReduceSumSquare (x, ax) n = Sqrt (r)"), LP, edge_values=False
    ),
    Fires(
        "a power",
        graph("s = Pow (x, two) r = ReduceSum (s, ax) n = Sqrt (r)"),
        LP,
        edge_values=False,
    ),
]

test_stays, test_fires = tables("L2NormFusionPass", STAYS, FIRES, in_functions="less often")
