import numpy as np
import onnx
import onnxruntime
import pytest
from harness import Fires, Stays, optimize, parse, tables

from fusionc.passes import PASSES

FORMS = {
    "divided by the root": "v = ReduceMean (s, ax) e = Add (v, eps) r = Sqrt (e) n = Div (d, r)",
    "times the reciprocal": "v = ReduceMean (s, ax) e = Add (eps, v) r = Sqrt (e) q = Reciprocal (r) n = Mul (q, d)",
}
CENTRED = "u = ReduceMean (x, ax) d = Sub (x, u)"
TAIL = "a = Mul (n, g) y = Add (a, b)"


def graph(
    square: str = "s = Pow (d, two)",
    form: str = FORMS["divided by the root"],
    tail: str = TAIL,
    centred: str = CENTRED,
    x: str = "float[N,S,4] x",
    g: str = "float[4] g",
    b: str = "float[4] b",
    ax: str = "int64[1] ax = {-1}",
    y: str = "",
) -> str:
    constants = f"{g}, {b}, {ax}, float two = {{2}}, float eps = {{0.00001}}"
    out = ",".join("pqrs"[: x.count(",") + 1])
    text = (
        f"agraph ({x}) => (float[{out}] y{y}) <{constants}> {{ {centred} {square} {form} {tail} }}"
    )
    return text


def old(text: str) -> str:
    """The same with the axes as an attribute, as before opset 18."""
    return text.replace("ReduceMean (x, ax)", "ReduceMean <axes = [-1]> (x)").replace(
        "ReduceMean (s, ax)", "ReduceMean <axes = [-1]> (s)"
    )


STAYS = [
    Stays(
        "GlobalAveragePool over two axes, of which the offset has one",
        "agraph (float[N,4,6,8] x) => (float[N,4,6,8] y) <float[8] G, float[8] B, float e = {1e-5}> { m = GlobalAveragePool (x) d = Sub (x, m) q = Mul (d, d) v = GlobalAveragePool (q) a = Add (v, e) r = Sqrt (a) i = Reciprocal (r) n = Mul (d, i) s = Mul (n, G) y = Add (s, B) }",
        "scale or offset does not have the shape of the normalized axes",
    ),
    Stays(
        "nothing to normalize",
        graph(x="float[N,S,0] x", g="float[0] g", b="float[0] b"),
        "the normalized axes may be empty",
    ),
    Stays(
        "perhaps nothing to normalize",
        graph(x="float[N,S,D] x", g="float unused", b="float other").replace(
            "S,D] x)", "S,D] x, float[D] g, float[D] b)"
        ),
        "the normalized axes may be empty",
    ),
    Stays(
        "the mean of one axis, the variance of two",
        graph()
        .replace("ReduceMean (s, ax)", "ReduceMean (s, two_axes)")
        .replace("float two", "int64[2] two_axes = {1, 2}, float two"),
        "the reductions have different axes",
    ),
    Stays(
        "to a power that is almost 2",
        graph().replace("two = {2}", "two = {2.0000002384185791}"),
        None,
    ),
    Stays(
        "a scale for each row",
        graph(x="float[2,3,4] x", g="float[3,4] g"),
        "scale or offset does not have the shape of the normalized axes",
    ),
    Stays(
        "epsilon for each column",
        graph().replace("float eps = {0.00001}", "float[4] eps"),
        "epsilon is not a single number",
    ),
    Stays(
        "no scale, and an unknown size",
        graph(tail="y = Identity (n)", x="float[N,S,H] x"),
        "the normalized axes may be empty",
    ),
    Stays(
        "no scale, and so large that ones would cost",
        graph(tail="y = Identity (n)", x="float[N,S,65537] x"),
        "a scale of ones would take too much memory",
    ),
    Stays("another axis", graph(ax="int64[1] ax = {1}"), "the reduced axes are not the last ones"),
    Stays("a cube", graph().replace("two = {2}", "two = {3}"), None),
    Stays(
        "double",
        graph().replace("float[", "double[").replace("float ", "double "),
        "the elements are not float32 or float16",
    ),
    Stays("opset 16", old(graph()), "opset 16 has no LayerNormalization", opset=16),
    Stays(
        "the deviation is used elsewhere",
        graph(tail=f"{TAIL} z = Neg (r)", y=", float[N,S,1] z"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "the mean of something else",
        graph(centred="w = Abs (x) u = ReduceMean (w, ax) d = Sub (x, u)"),
        None,
    ),
]

LN = ["LayerNormalization"]
FIRES = [
    Fires(
        "means by GlobalAveragePool, as tf2onnx writes them",
        "agraph (float[N,6,8] x) => (float[N,6,8] y) <float[8] G, float[8] B, float e = {1e-5}> { m = GlobalAveragePool (x) d = Sub (x, m) q = Mul (d, d) v = GlobalAveragePool (q) a = Add (v, e) r = Sqrt (a) i = Reciprocal (r) n = Mul (d, i) s = Mul (n, G) y = Add (s, B) }",
        ["LayerNormalization"],
    ),
    Fires(
        "the scale on the inverse root, as tf2onnx writes it",
        "agraph (float[N,6,8] x) => (float[N,6,8] y) <float[8] G, float[8] B, float e = {1e-5}> { m = GlobalAveragePool (x) d = Sub (x, m) q = Mul (d, d) v = GlobalAveragePool (q) a = Add (v, e) r = Sqrt (a) i = Reciprocal (r) f = Mul (i, G) s = Mul (d, f) y = Add (s, B) }",
        ["LayerNormalization"],
    ),
    Fires(
        "as factor and addend, as Tensorflow writes it",
        "agraph (float[N,6,8] x) => (float[N,6,8] y) <float[8] G, float[8] B, float e = {1e-3}, int64[1] ax = {-1}> { m = ReduceMean (x, ax) d = Sub (x, m) q = Mul (d, d) v = ReduceMean (q, ax) a = Add (v, e) r = Sqrt (a) i = Reciprocal (r) f = Mul (i, G) n = Mul (x, f) t = Mul (m, f) o = Sub (B, t) y = Add (n, o) }",
        ["LayerNormalization"],
    ),
    *[Fires(name, graph(form=form), LN) for name, form in FORMS.items()],
    Fires("the square as a product", graph("s = Mul (d, d)"), LN),
    Fires(
        "centred twice",
        graph(
            centred="u = ReduceMean (x, ax) d0 = Sub (x, u) d = Sub (x, u)",
            square="s = Pow (d0, two)",
        ),
        LN,
    ),
    Fires(
        "the mean twice",
        graph(
            centred="u = ReduceMean (x, ax) u0 = ReduceMean (x, ax) d0 = Sub (x, u0) d = Sub (x, u)",
            square="s = Pow (d0, two)",
        ),
        LN,
    ),
    Fires("commuted", graph(tail="a = Mul (g, n) y = Add (b, a)"), LN),
    Fires("without an offset", graph(tail="y = Mul (n, g)"), LN),
    Fires("without both", graph(tail="y = Identity (n)"), [*LN, "Identity"]),
    Fires(
        "two axes",
        graph(x="float[N,3,4] x", g="float[3,4] g", b="float[3,4] b", ax="int64[2] ax = {-1, 1}"),
        LN,
    ),
    Fires("from the front", graph(ax="int64[1] ax = {2}"), LN),
    Fires("opset 17", old(graph()), LN, opset=17),
    Fires("epsilon of one element", graph().replace("float eps", "float[1] eps"), LN),
    Fires("an addend of another shape stays outside", graph(b="float[1,1,4] b"), [*LN, "Add"]),
    Fires(
        "float16",
        graph()
        .replace("float[", "float16[")
        .replace("float two = {2}", "float16 two = {16384}")
        .replace("float eps = {0.00001}", "float16 eps = {168}"),
        LN,
        edge_values=False,
    ),
]

test_stays, test_fires = tables("LayerNormFusionPass", STAYS, FIRES, in_functions="never")


@pytest.mark.parametrize("mean", [0, 1e4])
@pytest.mark.parametrize("square", ["s = Mul (d, d)", "s = Pow (d, two)"])
def test_the_result_is_as_near_to_the_truth_at_onnxruntimes_default_level(
    mean: float, square: str
) -> None:
    """Also after a sum, which onnxruntime would join to the less exact SkipLayerNormalization, and
    if the mean is far larger than the deviation.
    """
    text = graph(
        square,
        centred="t = Add (x, z) u = ReduceMean (t, ax) d = Sub (t, u)",
        x="float[2,9,256] x, float[2,9,256] z",
        g="float[256] g",
        b="float[256] b",
    ).replace("float[p,q,r,s,t]", "float[p,q,r]")
    model = parse(text, 18)
    result, _ = optimize(model, [pass_ for pass_ in PASSES if pass_.default != "off"])
    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(mean, 1, (2, 9, 256)).astype(np.float32) for name in "xz"}
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    summed = (feeds["x"] + feeds["z"]).astype(np.float64)
    exact = (summed - summed.mean(-1, keepdims=True)) / np.sqrt(
        summed.var(-1, keepdims=True) + 1e-5
    )
    exact = exact * constants["g"] + constants["b"]
    errors = [
        np.abs(
            onnxruntime.InferenceSession(m.SerializeToString()).run(None, feeds)[0] - exact
        ).max()
        for m in (model, result)
    ]
    assert errors[1] <= 2 * errors[0]
