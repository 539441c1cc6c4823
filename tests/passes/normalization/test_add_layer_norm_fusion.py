import numpy as np
import pytest
from harness import (
    Fires,
    Stays,
    assert_same_numbers,
    optimize,
    parse,
    pass_of,
    seen_by_subgraph,
    session,
    tables,
)

NORM = "y = LayerNormalization (s, g, o)"


def graph(
    norm: str = NORM,
    x: str = "float[B,S,4] x",
    k: str = "float[B,S,4] k",
    more: str = "float[4] g, float[4] o",
    y: str = "float[a,b,c] y",
    add: str = "s = Add (x, k)",
) -> str:
    return f"agraph ({x}, {k}) => ({y}) <{more}> {{ {add} {norm} }}"


SHAPES = "the shapes are not known to be equal"
VECTOR = "the scale or an addend does not have exactly one number for each element of the last axis"
BIAS = {"add": "t = Add (x, k) s = Add (t, v)", "more": "float[4] g, float[4] o, float[4] v"}
TWO = "float[a,b,c] y, float[d,e,f] z"
STAYS = [
    Stays("rank 4", graph(x="float[B,S,2,4] x", k="float[B,S,2,4] k", y="float[a,b,c,d] y"), "the rank is not 2 or 3"),
    Stays("other batches", graph(k="float[C,S,4] k"), SHAPES),
    Stays("a vector is added", graph(k="float[4] k"), SHAPES),
    Stays("double", graph().replace("float[", "double["), "the elements are not all float32 or all float16"),
    Stays("two axes", graph(norm="y = LayerNormalization <axis = 1> (s, g)", x="float[B,3,4] x", k="float[B,3,4] k", more="float[3,4] g"), "the normalization covers more than the last axis"),
    Stays("one scale for all", graph(norm="y = LayerNormalization (s, g)", more="float[1] g"), VECTOR),
    Stays("one offset for all", graph(more="float[4] g, float o"), VECTOR),
    Stays("a length that is not known", graph(x="float[B,S,H] x", k="float[B,S,H] k", more="float g, float o"), "the length of the last axis is unknown"),
    Stays("the mean is used", graph(norm="y, m = LayerNormalization (s, g, o) z = Neg (m)", y=TWO), "an interior value is used elsewhere"),
    Stays("the mean is a graph output", graph(norm="y, z = LayerNormalization (s, g, o)", y=TWO), "an interior value is a graph output"),
    Stays("not of the sum", graph(add="t = Add (x, k) s = Neg (t)"), None),
    Stays("another target", graph(), "target onnx has no SkipLayerNormalization", target="onnx"),
]  # fmt: skip

SKIP = ["SkipLayerNormalization"]
FIRES = [
    Fires("the operator", graph(), SKIP),
    Fires("without offset", graph(norm="y = LayerNormalization <epsilon = 0.1> (s, g)"), SKIP),
    Fires("float16", graph().replace("float[", "float16["), SKIP, edge_values=False),
    Fires("rank 2", graph(x="float[M,4] x", k="float[M,4] k", y="float[a,b] y"), SKIP),
    Fires("one batch for all", graph(k="float[1,S,4] k"), SKIP),
    Fires("no batch", graph(x="float[S,4] x"), SKIP),
    Fires("the sum is used elsewhere", graph(norm=f"z = Neg (s) {NORM}", y=TWO), [*SKIP, "Neg"]),
    Fires("the sum is a graph output", graph(y="float[a,b,c] y, float[d,e,f] s"), SKIP),
    Fires("a subgraph uses the sum", seen_by_subgraph(graph(), "s", "float[d,e,f]"), [*SKIP, "If"], inside_if=False),
    Fires("a bias", graph(**BIAS), SKIP),
    Fires("a bias, without offset", graph(norm="y = LayerNormalization (s, g)", **BIAS), SKIP),
    Fires("a bias, and the sum is used elsewhere", graph(norm=f"{NORM} z = Neg (s)", y=TWO, **BIAS), [*SKIP, "Neg"]),
    Fires("a bias as the first operand", graph(add="t = Add (x, k) s = Add (v, t)", more=BIAS["more"]), SKIP),
    Fires("a bias of x", graph(add="t = Add (x, v) s = Add (t, k)", more=BIAS["more"]), ["Add", *SKIP]),
    Fires("a bias of the second", graph(add="t = Add (v, k) s = Add (x, t)", more=BIAS["more"]), ["Add", *SKIP]),
    Fires("opset 22", graph(), SKIP, opset=22),
]  # fmt: skip

test_stays, test_fires = tables("AddLayerNormFusionPass", STAYS, FIRES, in_functions="never")


def test_the_operator_in_a_model_of_an_older_opset_which_onnxruntime_runs() -> None:
    model = parse(graph(), 13)
    result, _ = optimize(model, [pass_of("AddLayerNormFusionPass")])
    assert [node.op_type for node in result.graph.node] == SKIP
    assert_same_numbers(model, result, "rounding", {}, seeds=1)


@pytest.mark.parametrize("add", [BIAS["add"], "t = Add (x, v) s = Add (t, k)"])
def test_the_sum_is_rounded_as_it_was(add: str) -> None:
    """What a normalization amplifies where the mean is far larger than the deviation."""
    model = parse(graph(**BIAS | {"add": add}, y="float[a,b,c] y, float[d,e,f] s"))
    result, _ = optimize(model, [pass_of("AddLayerNormFusionPass")])
    rng = np.random.default_rng(0)
    feeds = {name: (1e5 * rng.standard_normal((8, 9, 4))).astype(np.float32) for name in "xk"}
    before, after = (session(it).run(["s"], feeds)[0] for it in (model, result))
    assert before.tobytes() == after.tobytes()
