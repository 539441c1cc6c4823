"""Nothing random or stateful is folded, merged or removed, by any pass or by all of them together."""

from __future__ import annotations

from collections import Counter

import onnx
import pytest
from harness import all_nodes, effected, optimize, parse
from onnx import ModelProto
from onnx.defs import OpSchema, get_all_schemas
from variants import wrap_in_if

from fusionc.operators.randomness import RANDOM_OR_STATEFUL
from fusionc.passes import PASSES as REGISTRY

PASSES = [
    p for p in REGISTRY if p.name != "FunctionInlinePass"
]  # what it inlines is not there any more

ROW = "agraph (float[N,3] x) => (float[N,3] y) <float[3] a, bool t = {{1}}, float half = {{0.5}}> {{ {} }}"
FUNCTION = """
    <ir_version: 10, opset_import: ["" : 18, "functions" : 1]>
    agraph (float[N,3] x) => (float[N,3] y) {{ {} }}
    <domain: "functions", opset_import: ["" : 18]> outer (a) => (b) {{ c = Neg (a) b = RandomNormalLike (c) }}
"""
GRAPHS = {
    "RandomNormal beside x": ROW.format("r = RandomNormal <shape = [3]> () y = Add (x, r)"),
    "RandomUniform twice": ROW.format(
        "r = RandomUniform <shape = [3]> () s = RandomUniform <shape = [3]> () d = Sub (r, s) y = Add (x, d)"
    ),
    "RandomUniformLike twice": ROW.format(
        "r = RandomUniformLike (x) s = RandomUniformLike (x) y = Sub (r, s)"
    ),
    "RandomUniformLike with one seed": ROW.format(
        "r = RandomUniformLike <seed = 1.0> (x) s = RandomUniformLike <seed = 1.0> (x) y = Sub (r, s)"
    ),
    "RandomNormalLike of a constant": ROW.format("r = RandomNormalLike (a) y = Add (x, r)"),
    "Multinomial twice": "agraph (float[N,3] x) => (int32[N,4] y) { r = Multinomial <sample_size = 4> (x) "
    "s = Multinomial <sample_size = 4> (x) y = Sub (r, s) }",
    "Bernoulli of a constant": ROW.format("r = Bernoulli (a) y = Add (x, r)"),
    "Bernoulli twice": ROW.format("r = Bernoulli (x) s = Bernoulli (x) y = Sub (r, s)"),
    "Dropout in training": ROW.format("y = Dropout (x, half, t)"),
    "Dropout in training, of a constant": ROW.format("r = Dropout (a, half, t) y = Add (x, r)"),
    "Dropout in training, twice": ROW.format(
        "r = Dropout (x, half, t) s = Dropout (x, half, t) y = Sub (r, s)"
    ),
    "a custom operator twice": ROW.format(
        "r = my.own.Thing (x) s = my.own.Thing (x) y = Sub (r, s)"
    ),
    "a custom operator of a constant": ROW.format("r = my.own.Thing (a) y = Add (x, r)"),
    "nobody needs it: RandomNormal": ROW.format("r = RandomNormal <shape = [3]> () y = Relu (x)"),
    "nobody needs it: Dropout in training": ROW.format("r, m = Dropout (x, half, t) y = Relu (x)"),
    "nobody needs it: a custom operator": ROW.format("r = my.own.Log (x) y = Relu (x)"),
    "nobody needs it: an If": """agraph (float[N,3] x, bool c) => (float[N,3] y) {
        r = If (c) <then_branch = t () => (float[N,3] p) { p = RandomNormalLike (x) },
                    else_branch = e () => (float[N,3] q) { q = Abs (x) }>
        y = Relu (x)
    }""",
}
CALLS = {
    "a function twice": "r = functions.outer (x) s = functions.outer (x) y = Sub (r, s)",
    "nobody needs it: a function": "r = functions.outer (x) y = Relu (x)",
}


def models() -> list[ModelProto]:
    return [
        *map(parse, GRAPHS.values()),
        *(onnx.parser.parse_model(FUNCTION.format(body)) for body in CALLS.values()),
    ]


def risky(model: ModelProto) -> Counter[str]:
    """How many nodes of each operator there are whose second run may differ, or of which nobody can know."""
    ours = {"", "com.microsoft"}
    return Counter(
        n.op_type
        for n in all_nodes(model)
        if n.op_type in {*RANDOM_OR_STATEFUL, "Dropout"} or n.domain not in ours
    )


@pytest.mark.parametrize("model", models(), ids=[*GRAPHS, *CALLS])
def test_it_stays(model: ModelProto) -> None:
    for variant in (model, wrap_in_if(model)):
        assert risky(variant)
        for passes in (PASSES, *((p,) for p in PASSES)):
            assert risky(optimize(variant, passes)[0]) == risky(variant)


def test_what_is_beside_it_is_rewritten_all_the_same() -> None:
    model = parse(
        ROW.format(
            "b = Identity (x) c = Neg (a) r = RandomNormalLike (c) s = Add (r, c) y = Add (b, s)"
        )
    )
    result, counts = optimize(model, PASSES)
    assert effected(counts) >= 2
    assert [node.op_type for node in result.graph.node] == ["RandomNormalLike", "Add", "Add"]


def test_the_list_has_all_operators_of_onnx() -> None:
    undetermined = {
        s.name
        for s in get_all_schemas()
        if s.node_determinism == OpSchema.NodeDeterminism.NonDeterministic
    }
    as_their_bodies = {"If", "Loop", "Scan", "SequenceMap"}
    by_an_input = {"Dropout"}
    mistaken = {"AffineGrid"}  # onnx says so; its definition is a function of its inputs
    assert undetermined - as_their_bodies - by_an_input - mistaken <= RANDOM_OR_STATEFUL
