import re

from harness import Fires, Stays, optimize, parse, pass_of, seen_by_subgraph, tables

FORMS = {
    "divided by the root": "r = Sqrt (e) n = Div (s, r)",
    "times the reciprocal": "r = Sqrt (e) q = Reciprocal (r) n = Mul (s, q)",
    "times one over the root": "r = Sqrt (e) q = Div (one, r) n = Mul (s, q)",
    "times a power": "q = Pow (e, minus) n = Mul (q, s)",
}
NORM = "y = RMSNormalization (s, g)"


def graph(
    norm: str = NORM,
    x: str = "float[B,S,4] x",
    k: str = "float[B,S,4] k",
    g: str = "float[4] g",
    y: str = "float[a,b,c] y",
    add: str = "s = Add (x, k)",
) -> str:
    return f"agraph ({x}, {k}) => ({y}) <{g}> {{ {add} {norm} }}"


def written(
    form: str = FORMS["times the reciprocal"],
    square: str = "p = Pow (s, two)",
    axis: str = "-1",
    tail: str = "y = Mul (n, g)",
    y: str = "float[a,b,c] y",
    eps: str = "0.00001",
) -> str:
    constants = f"float[4] g, int64[1] ax = {{{axis}}}, float two = {{2}}, float one = {{1}}, float minus = {{-0.5}}, float eps = {{{eps}}}"
    body = f"{square} v = ReduceMean (p, ax) e = Add (v, eps) {form} {tail}"
    return f"agraph (float[B,S,4] x, float[B,S,4] k) => ({y}) <{constants}> {{ s = Add (x, k) {body} }}"


SHAPES = "the shapes are not known to be equal"
VECTOR = "the scale or an addend does not have exactly one number for each element of the last axis"
STAYS = [
    Stays("rank 4", graph(x="float[B,S,2,4] x", k="float[B,S,2,4] k", y="float[a,b,c,d] y"), "the rank is not 2 or 3", opset=23),
    Stays("rank 1", graph(x="float[4] x", k="float[4] k", y="float[4] y"), "the rank is not 2 or 3", opset=23),
    Stays("other batches", graph(k="float[C,S,4] k"), SHAPES, opset=23),
    Stays("an unknown rank", graph(x="float[] x", k="float[] k"), "the rank is unknown", opset=23, valid=False),
    Stays("unknown dimensions", graph(x="float[?,S,4] x", k="float[?,S,4] k"), SHAPES, opset=23, valid=False),
    Stays("a vector is added", graph(k="float[4] k"), SHAPES, opset=23),
    Stays("one position for all", graph(k="float[B,1,4] k"), SHAPES, opset=23),
    Stays("both are broadcast", graph(x="float[1,3,4] x", k="float[2,1,4] k"), SHAPES, opset=23),
    Stays("one row for all of rank 2", graph(x="float[M,4] x", k="float[1,4] k", y="float[a,b] y"), SHAPES, opset=23),
    Stays("double", graph().replace("float[", "double["), "the elements are not all float32 or all float16", opset=23),
    Stays("float16, written out", re.sub(r"(float \w+) = {\S+}", r"\1", written(FORMS["divided by the root"], "p = Mul (s, s)")).replace("float", "float16"), "the normalization does not compute in float32"),
    Stays("bfloat16", graph().replace("float[", "bfloat16["), "the elements are not all float32 or all float16", opset=23),
    Stays("computed in double", graph(norm="y = RMSNormalization <stash_type = 11> (s, g)"), "the normalization does not compute in float32", opset=23),
    Stays("two axes", graph(norm="y = RMSNormalization <axis = 1> (s, g)", x="float[B,3,4] x", k="float[B,3,4] k", g="float[3,4] g"), "the normalization covers more than the last axis", opset=23),
    Stays("one scale for all", graph(g="float[1] g"), VECTOR, opset=23),
    Stays("a length that is not known", graph(x="float[B,S,H] x", k="float[B,S,H] k", g="float g"), "the length of the last axis is unknown", opset=23),
    Stays("a negative epsilon", graph(norm="y = RMSNormalization <epsilon = -0.1> (s, g)"), "epsilon is negative", opset=23),
    Stays("another product", graph(add="s = Mul (x, k)"), None, opset=23),
    Stays("another axis", written(axis="1"), "the reduced axes are not the last ones"),
    Stays("a cube", written(square="three = Constant <value_float = 3.0> () p = Pow (s, three)"), None),
    Stays("the root is used elsewhere", written(tail="y = Mul (n, g) z = Neg (r)", y="float[a,b,c] y, float[a,b,d] z"), "an interior value is used elsewhere"),
    Stays("not of the sum", graph(add="t = Add (x, k) s = Neg (t)"), None, opset=23),
    Stays("another target", graph(), "target onnx has no SkipSimplifiedLayerNormalization", opset=23, target="onnx"),
]  # fmt: skip

SKIP = ["SkipSimplifiedLayerNormalization"]
TWO = "float[a,b,c] y, float[d,e,f] z"
FIRES = [
    Fires("the operator", graph(), SKIP, opset=23),
    Fires("float16", graph().replace("float[", "float16["), SKIP, opset=23, edge_values=False),
    Fires("rank 2", graph(x="float[M,4] x", k="float[M,4] k", y="float[a,b] y"), SKIP, opset=23),
    Fires("known shapes", graph(x="float[2,3,4] x", k="float[2,3,4] k"), SKIP, opset=24),
    Fires("another epsilon", graph(norm="y = RMSNormalization <epsilon = 0.5, axis = 2> (s, g)"), SKIP, opset=23),
    Fires("one batch for all", graph(k="float[1,S,4] k"), SKIP, opset=23),
    Fires("no batch", graph(k="float[S,4] k"), SKIP, opset=23),
    Fires("the first has no batch", graph(x="float[S,4] x"), SKIP, opset=23),
    Fires("a constant is added", "agraph (float[B,3,4] x) => (float[a,b,c] y) <float[3,4] k, float[4] g> { s = Add (k, x) y = RMSNormalization (s, g) }", SKIP, opset=23),
    Fires("scale from outside", "agraph (float[B,S,4] x, float[4] g) => (float[a,b,c] y) { s = Add (x, x) y = RMSNormalization (s, g) }", SKIP, opset=23),
    Fires("the sum is used elsewhere", graph(norm=f"{NORM} z = Neg (s)", y=TWO), [*SKIP, "Neg"], opset=23),
    Fires("the sum is used before", graph(norm=f"z = Neg (s) {NORM}", y=TWO), [*SKIP, "Neg"], opset=23),
    Fires("the sum is a graph output", graph(y="float[a,b,c] y, float[d,e,f] s"), SKIP, opset=23),
    Fires("a subgraph uses the sum", seen_by_subgraph(graph(), "s", "float[d,e,f]"), [*SKIP, "If"], opset=23, inside_if=False),
    Fires("two layers", "agraph (float[B,S,4] x, float[B,S,4] k) => (float[a,b,c] y) <float[4] g, float[4] h> { s = Add (x, k) n = RMSNormalization (s, g) t = Add (n, s) y = RMSNormalization (t, h) }", SKIP * 2, 2, opset=23),
    Fires("two normalizations of one sum", graph(norm=f"{NORM} z = RMSNormalization <epsilon = 0.1> (s, g)", y=TWO), [*SKIP, "RMSNormalization"], opset=23),
    Fires("TorchAir's with a cast", graph(norm=f"{NORM} w = Constant <value_ints = [-1, 4]> () v = Reshape (y, w) z = Cast <to = 11> (v)", y="float[a,b,c] y, double[d,e] z, float[f,g,h] s"), [*SKIP, "Constant", "Reshape", "Cast"], opset=23),
    *[Fires(name, written(form), SKIP) for name, form in FORMS.items()],
    Fires("written out, scale first", written(tail="y = Mul (g, n)"), SKIP),
    Fires("written out, square as product", written(square="p = Mul (s, s)"), SKIP),
    Fires("written out, the sum is used elsewhere", written(tail="y = Mul (n, g) z = Neg (s)", y=TWO), [*SKIP, "Neg"]),
    Fires("opset 13", written().replace("ReduceMean (p, ax)", "ReduceMean <axes = [2]> (p)"), SKIP, opset=13),
    Fires("opset 9, IR version 4", written().replace("ReduceMean (p, ax)", "ReduceMean <axes = [2]> (p)"), SKIP, opset=9, ir_version=4),
]  # fmt: skip

test_stays, test_fires = tables("AddRmsNormFusionPass", STAYS, FIRES, in_functions="never")


def test_outputs_that_nobody_needs_have_no_name() -> None:
    for model in (parse(graph(), 23), parse(graph(y="float[a,b,c] y, float[d,e,f] s"), 23)):
        (node,) = optimize(model, [pass_of("AddRmsNormFusionPass")])[0].graph.node
        assert list(node.output) == (["y"] if len(model.graph.output) == 1 else ["y", "", "", "s"])
