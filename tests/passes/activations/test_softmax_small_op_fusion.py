from harness import Fires, Stays, tables

QUOTIENT = "y = Div (e, s)"
LOG = "l = Log (s) y = Sub (d, l)"


def graph(
    end: str = QUOTIENT,
    ax: str = "{-1}",
    sum_ax: str = "ax",
    more: str = "",
    y: str = "",
    x: str = "float[N,3,4] x",
) -> str:
    constants = f"int64[1] ax = {ax}, int64[1] ax2 = {{1}}"
    return f"agraph ({x}) => (float[p,q,r] y{y}) <{constants}> {{ m = ReduceMax (x, ax) d = Sub (x, m) e = Exp (d) s = ReduceSum (e, {sum_ax}) {end} {more} }}"


def old(text: str, axis: int = -1) -> str:
    return text.replace("ReduceMax (x, ax)", f"ReduceMax <axes = [{axis}]> (x)")


def older(text: str, axis: int = -1) -> str:
    return old(text, axis).replace("ReduceSum (e, ax)", f"ReduceSum <axes = [{axis}]> (e)")


STAYS = [
    Stays("the sum over another axis", graph(sum_ax="ax2"), "the reductions have different axes"),
    Stays(
        "the sum is used elsewhere",
        graph(more="z = Neg (s)", y=", float[p,q,1] z"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "the exponential of something else",
        graph().replace("e = Exp (d)", "w = Neg (d) e = Exp (w)"),
        None,
    ),
    Stays(
        "the maximum of something else",
        graph().replace("m = ReduceMax (x, ax)", "w = Neg (x) m = ReduceMax (w, ax)"),
        None,
    ),
    Stays(
        "without the maximum",
        "agraph (float[N,4] x) => (float[N,4] y) <int64[1] ax = {-1}> { e = Exp (x) s = ReduceSum (e, ax) y = Div (e, s) }",
        None,
    ),
    Stays(
        "dropped axis",
        graph(x="float[3,3,3] x").replace("ReduceSum (e, ax)", "ReduceSum <keepdims = 0> (e, ax)"),
        "the reduced axes are dropped",
    ),
    Stays(
        "two axes",
        graph().replace("int64[1] ax = {-1}", "int64[2] ax = {1,2}"),
        "not exactly one axis is reduced",
    ),
    Stays(
        "an inner axis below opset 13",
        older(graph(), 1),
        "before opset 13, Softmax normalizes over its axis and all later ones",
        opset=11,
    ),
    Stays(
        "float16 has no kernel",
        graph().replace("float[", "float16["),
        "no CPU kernel for Softmax of float16",
    ),
]

FIRES = [
    Fires("last axis", graph(), ["Softmax"]),
    Fires("an inner axis", graph(ax="{1}"), ["Softmax"]),
    Fires("counted from the end", graph(ax="{-2}", sum_ax="ax2"), ["Softmax"]),
    Fires("times the reciprocal", graph("q = Reciprocal (s) y = Mul (q, e)"), ["Softmax"]),
    Fires("the logarithm", graph(LOG), ["LogSoftmax"]),
    Fires("opset 13", old(graph()), ["Softmax"], opset=13),
    Fires("opset 11", older(graph()), ["Softmax"], opset=11),
    Fires("opset 9, from the front", older(graph(), 2), ["Softmax"], opset=9),
    Fires("double", graph().replace("float[", "double["), ["Softmax"]),
]

test_stays, test_fires = tables("SoftmaxSmallOpFusionPass", STAYS, FIRES, in_functions="less often")
