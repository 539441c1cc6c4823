from collections import Counter

import numpy as np
import onnx
import pytest
from harness import (
    Fires,
    Stays,
    assert_same_numbers,
    effected,
    operators,
    optimize,
    parse,
    pass_of,
    tables,
)
from onnx import TensorProto, helper, numpy_helper


def graph(
    condition: str = "bool c = {1}",
    then: str = "p = Neg (h)",
    otherwise: str = "q = Abs (h)",
    x: str = "float[N,4] x",
    first: str = "h = Relu (x)",
) -> str:
    return f"""agraph ({x}) => (float[N,4] y) <{condition}> {{ {first}
        y = If (c) <then_branch = t () => (float[N,4] p) {{ {then} }}, else_branch = e () => (float[N,4] q) {{ {otherwise} }}> }}"""


def loop(
    count: str = "int64 n = {0}",
    condition: str = "bool c = {1}",
    y: str = "float[N,4] y",
    outputs: str = "y, s",
) -> str:
    return f"""agraph (float[N,4] x) => ({y}) <{count}, {condition}> {{ h = Relu (x)
        {outputs} = Loop (n, c, h) <body = b (int64 i, bool go, float[N,4] v) => (bool on, float[N,4] w, float[N,4] each)
            {{ on = Identity (go) w = Exp (v) each = Neg (v) }}> }}"""


def branch_that_is_an_initializer() -> onnx.ModelProto:
    """As other optimizers meet it: the branch holds no node at all, its output is a constant."""
    value = helper.make_tensor_value_info
    weights = numpy_helper.from_array(np.arange(4, dtype=np.float32), "w")
    then = helper.make_graph([], "t", [], [value("w", TensorProto.FLOAT, [4])], [weights])
    other = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"])], "e", [], [value("r", TensorProto.FLOAT, [4])]
    )
    nodes = [
        helper.make_node("If", ["c"], ["i"], then_branch=then, else_branch=other),
        helper.make_node("Add", ["x", "i"], ["y"]),
    ]
    constant = numpy_helper.from_array(np.array(True), "c")
    main = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, [4])],
        [value("y", TensorProto.FLOAT, [4])],
        [constant],
    )
    return helper.make_model(main, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def branch_with_a_sparse_initializer() -> onnx.ModelProto:
    made = branch_that_is_an_initializer()
    branch = next(a.g for a in made.graph.node[0].attribute if a.name == "then_branch")
    values = numpy_helper.from_array(np.array([2.0], np.float32), "w")
    branch.sparse_initializer.append(
        helper.make_sparse_tensor(
            values, numpy_helper.from_array(np.array([1], np.int64), "i"), [4]
        )
    )
    del branch.initializer[:]
    return made


NESTED = "p = If (d) <then_branch = tt () => (float[N,4] a) { a = Exp (h) }, else_branch = ee () => (float[N,4] b) { b = Neg (h) }>"
INNER = """r = If (d) <then_branch = tt () => (float[N,4] a) { a = Add (h2, h2) },
    else_branch = ee () => (float[N,4] b) { f = Neg (h) b = Mul (f, h2) }> p = Neg (r)"""
DEEP = """e2 = Exp (h) p = If (d) <
    then_branch = tt () => (float[N,4] a) { a = If (g) <then_branch = t3 () => (float[N,4] i) { i = Add (e2, h) },
                                                        else_branch = e3 () => (float[N,4] j) { j = Neg (e2) }> },
    else_branch = ee () => (float[N,4] b) { b = Abs (e2) }>"""
TWICE = """e2 = Exp (h) r = If (d) <then_branch = t1 () => (float[N,4] a) { a = Neg (e2) },
                                 else_branch = e1 () => (float[N,4] b) { b = Abs (e2) }>
    s = If (d) <then_branch = t2 () => (float[N,4] i) { i = Neg (r) },
                else_branch = e3 () => (float[N,4] j) { j = Add (r, e2) }> p = Add (r, s)"""
LOOP = """n = Constant <value = int64 {3}> () go = Constant <value = bool {1}> () e2 = Exp (h)
    r = Loop (n, go, h) <body = lb (int64 i, bool on, float[N,4] v) => (bool still, float[N,4] w)
        { still = Identity (on) w = Add (v, e2) }> p = Neg (r)"""
STAYS = [
    Stays(
        "a branch with a sparse initializer",
        branch_with_a_sparse_initializer,
        "a constant of the body cannot be read",
        valid=False,
    ),
    Stays(
        "random numbers that a seed does not fix",
        graph(then="p = RandomNormalLike (h)"),
        "without a seed, random numbers depend on the name of the node",
    ),
    Stays("an open condition", graph("float k", x="float[N,4] x, bool c"), None),
    Stays(
        "a value inside has the name that the result will have",
        graph(then=NESTED.replace("a)", "y)").replace("a =", "y ="), x="float[N,4] x, bool d"),
        "a subgraph gives another value the same name",
    ),
    Stays(
        "a value inside has the name of one that is computed later",
        graph(then=NESTED, x="float[N,4] x, bool d").replace("y = If", "z = If")[:-1]
        + "a = Exp (x) y = Add (z, a) }",
        "a subgraph gives another value the same name",
    ),
    Stays("a Loop that runs", loop("int64 n = {2}"), None),
    Stays(
        "a Loop whose collection is used",
        loop(y="float[N,4] y, float[M,N,4] s"),
        "collected values of the Loop are used",
    ),
]

FIRES = [
    Fires("a choice inside", graph(then=NESTED, x="float[N,4] x, bool d"), ["Relu", "If"]),
    Fires(
        "a choice inside that reads values and constants of the branch",
        graph(
            then=f"k = Constant <value = float {{2.0}}> () h2 = Mul (h, k) {INNER}",
            x="float[N,4] x, bool d",
        ),
        ["Relu", "Constant", "Mul", "If", "Neg"],
    ),
    Fires(
        "a condition that the branch computes",
        graph(
            then=f"h2 = Abs (h) n = Not (d) {INNER}".replace("If (d)", "If (n)"),
            x="float[N,4] x, bool d",
        ),
        ["Relu", "Abs", "Not", "If", "Neg"],
    ),
    Fires(
        "choices in the choice inside",
        graph(then=DEEP, x="float[N,4] x, bool d, bool g"),
        ["Relu", "Exp", "If"],
    ),
    Fires(
        "two choices, of one value",
        graph(then=TWICE, x="float[N,4] x, bool d"),
        ["Relu", "Exp", "If", "If", "Add"],
    ),
    Fires(
        "a Loop inside", graph(then=LOOP), ["Relu", "Constant", "Constant", "Exp", "Loop", "Neg"]
    ),
    Fires(
        "a decided choice whose branch holds an open one",
        graph(
            then=f"h2 = Abs (h) p = If (c) <then_branch = tu () => (float[N,4] v) {{ {INNER.replace('p =', 'v =')} }}, else_branch = eu () => (float[N,4] w) {{ w = Neg (h2) }}>",
            x="float[N,4] x, bool d",
        ),
        ["Relu", "Abs", "If", "Neg"],
        effected=2,
    ),
    Fires("true", graph(), ["Relu", "Neg"]),
    Fires("false", graph("bool[1] c = {0}"), ["Relu", "Abs"]),
    Fires(
        "several nodes and a constant",
        graph(then="k = Constant <value = float {2.0}> () m = Mul (h, k) p = Exp (m)"),
        ["Relu", "Constant", "Mul", "Exp"],
    ),
    Fires("an outer value as it is", graph(then="p = Identity (h)"), ["Relu", "Identity"]),
    Fires(
        "decided inside and outside",
        graph("bool c = {1}, bool d = {0}", then=NESTED),
        ["Relu", "Neg"],
        effected=2,
    ),
    Fires("a branch that is an initializer", branch_that_is_an_initializer, ["Add"]),
    Fires("no iteration", loop(), ["Relu"]),
    Fires("a condition that is false at once", loop("int64 n = {5}", "bool c = {0}"), ["Relu"]),
]

test_stays, test_fires = tables("SwitchDeadBranchElimination", STAYS, FIRES)


@pytest.mark.parametrize("names", [("SwitchDeadBranchElimination", "IdempotentOpPass"), ("IdempotentOpPass", "SwitchDeadBranchElimination")])  # fmt: skip
def test_what_is_rewritten_inside_before_and_after_is_written(names: tuple[str, str]) -> None:
    """The subgraphs that are moved are rewritten by other passes, at two depths, before and after."""
    then = DEEP.replace("a = If", "s = Abs (h) q = Abs (s) a = If").replace(
        "i = Add (e2, h)", "m = Relu (q) n = Relu (m) i = Add (n, e2)"
    )
    model = parse(graph(then=then, x="float[N,4] x, bool d, bool g"))
    result, counts = optimize(model, [pass_of(name) for name in names])
    assert effected(counts) == 3
    onnx.checker.check_model(result, full_check=True)
    left = (
        operators(model) - Counter({"If": 1, "Relu": 1, "Abs": 1}) - Counter({"Abs": 1})
    )  # the branch not taken
    assert operators(result) == left
    assert_same_numbers(model, result, "bitwise", {}, seeds=4)
