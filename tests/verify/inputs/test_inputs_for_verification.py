"""The inputs that verification draws: in range, of sizes that fit, and telling."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import parse
from onnx import helper

from fusionc.verify import verify
from fusionc.verify.inputs import search
from fusionc.verify.inputs.random_inputs import Style, make_feeds
from fusionc.verify.inputs.size_choices import SizeChoices
from fusionc.verify.inputs.value_ranges import value_ranges
from fusionc.verify.interface import Port, required_inputs
from fusionc.verify.seeding import random_nodes, set_seeds

IDS = "agraph (int64[N,S] ids) => (float[N,S,3] y) <float[7,3] table{}> {{ {} }}"
LIMITS = {
    "the table itself": (IDS.format("", "y = Gather (table, ids)"), {7}),
    "after moving the ids about": (
        IDS.format("", "a = Cast <to = 6> (ids) b = Transpose (a) c = Transpose (b) y = Gather (table, c)"),
        {7},
    ),
    "after an offset": (IDS.format(", int64 two = {2}", "p = Add (ids, two) y = Gather (table, p)"), {5}),
    "the smaller of two tables": (
        IDS.format(", float[4,3] other", "a = Gather (table, ids) b = Gather (other, ids) y = Add (a, b)"),
        {7, 4},
    ),
    "a table of inferred size": (
        IDS.format("", "t = Relu (table) u = Concat <axis = 0> (t, t) y = Gather (u, ids)"),
        {14},
    ),
    "in a body": (
        "agraph (bool c, int64[N] ids) => (float[N,3] y) <float[7,3] table> {"
        " y = If (c) <then_branch = g1 () => (float[N,3] p) { p = Gather (table, ids) },"
        " else_branch = g2 () => (float[N,3] q) { z = Neg (table) q = Gather (z, ids) }> }",
        {7},
    ),
    "out of a loop": (
        "agraph (int64[N] ids) => (float[N,3] y) <int64 two = {2}, bool yes = {1}, float[7,3] "
        "table> {"
        " state = Loop (two, yes, ids) <body = g (int64 i, bool on, int64[N] s) => (bool on2, "
        "int64[N] s2)"
        " { on2 = Identity (on) s2 = Identity (s) }> y = Gather (table, state) }",
        {7},
    ),
    "positions along a dynamic dimension": (
        ("agraph (float[B,S,4] x, int64[P] ids) => (float[B,P,4] y) { y = Gather <axis = 1> "
            "(x, ids) }"),
        {"S"},
    ),
    "floats that become indices": (
        ("agraph (float[N] ids) => (float[N,3] y) <float[7,3] table> { i = Cast <to = 7> "
            "(ids) y = Gather (table, i) }"),
        {7},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("graph", "limits"), LIMITS.values(), ids=LIMITS)
def test_indices_stay_below_what_they_index(graph: str, limits: set[int | str]) -> None:
    model = parse(graph)
    allowed = value_ranges(model, required_inputs(model))["ids"]
    assert allowed.limits == limits and allowed.whole
    sizes = {"N": 50, "S": 3, "B": 2, "P": 50}
    drawn = make_feeds(
        required_inputs(model), value_ranges(model, required_inputs(model)), sizes, Style(), 0
    )["ids"]
    lowest = min(3 if limit == "S" else int(limit) for limit in limits)
    assert drawn.min() == 0 and drawn.max() == lowest - 1


def test_indices_inside_a_local_function() -> None:
    model = parse(
        "agraph (int64[N] ids) => (float[N,3] y) <float[7,3] table> { y = my.Lookup (table, ids) }"
    )
    body = onnx.parser.parse_function(
        '<domain: "my", opset_import: ["" : 18]> Lookup (data, at) => (found) { found = Gather (data, at) }'
    )
    model.functions.append(body)
    assert value_ranges(model, required_inputs(model))["ids"].limits == {7}


OPERANDS = {
    "Gather, the last axis": ("float[4,5] x, int64[3] i", "Gather <axis = -1> (x, i)", {5}),
    "GatherElements": ("float[4,5] x, int64[4,2] i", "GatherElements <axis = 1> (x, i)", {5}),
    "GatherND": ("float[4,5,6] x, int64[3,2] i", "GatherND (x, i)", {4, 5, 6}),
    "GatherND of a batch": (
        "float[4,5,6] x, int64[4,1] i",
        "GatherND <batch_dims = 1> (x, i)",
        {5, 6},
    ),
    "ScatterElements": (
        "float[4,5] x, int64[4,2] i, float[4,2] u",
        "ScatterElements <axis = 1> (x, i, u)",
        {5},
    ),
    "ScatterND": ("float[4,5] x, int64[3,1] i, float[3,5] u", "ScatterND (x, i, u)", {4, 5}),
    "RoiAlign": ("float[2,3,8,9] x, float[4,4] r, int64[4] i", "RoiAlign (x, r, i)", {2}),
    "ReverseSequence": ("float[5,4] x, int64[4] i", "ReverseSequence (x, i)", {5}),
    "ReverseSequence, the other way": (
        "float[4,5] x, int64[4] i",
        "ReverseSequence <batch_axis = 0, time_axis = 1> (x, i)",
        {5},
    ),
    **{
        op: (
            f"float[6,2,3] x, float[1,{n},3] w, float[1,{n},4] r, float[1,{2 * n}] b, int32[2] i",
            f"{op} <hidden_size = 4> (x, w, r, b, i)",
            {6},
        )
        for op, n in (("LSTM", 16), ("GRU", 12), ("RNN", 4))
    },
    "NegativeLogLikelihoodLoss": (
        "float[4,5] x, int64[4] i",
        "NegativeLogLikelihoodLoss (x, i)",
        {5},
    ),
    "SoftmaxCrossEntropyLoss": ("float[4,5] x, int64[4] i", "SoftmaxCrossEntropyLoss (x, i)", {5}),
    "TopK": ("float[4,5] x, int64[1] i", "TopK (x, i)", {5}),
    "TopK of the first axis": ("float[4,5] x, int64[1] i", "TopK <axis = 0> (x, i)", {4}),
    "TensorScatter": (
        "float[2,3,6,4] x, float[2,3,1,4] u, int64[2] i",
        "TensorScatter (x, u, i)",
        {6},
    ),
    **{
        f"EmbedLayerNormalization, {what}": (
            f"int32[1,2] {'i' if at == 0 else 'o'}, int32[1,2] {'i' if at == 1 else 's'}, "
            "float[7,4] w, float[5,4] p,"
            f" float[3,4] t, float[4] g, float[4] b, int32[1,2] {'i' if at == 7 else 'n'}",
            f"com.microsoft.EmbedLayerNormalization ({'i' if at == 0 else 'o'}, "
            f"{'i' if at == 1 else 's'}, w, p, t, g,"
            f" b, , {'i' if at == 7 else 'n'})",
            {rows},
        )
        for what, at, rows in (("words", 0, 7), ("segments", 1, 3))
    },
    "RotaryEmbedding": (
        "float[2,3,4,8] x, float[9,4] c, float[9,4] s, int64[2,4] i",
        "RotaryEmbedding (x, c, s, i)",
        {9},
    ),
}


@pytest.mark.parametrize(("inputs", "call", "limits"), OPERANDS.values(), ids=OPERANDS)
def test_what_each_operator_indexes(inputs: str, call: str, limits: set[int]) -> None:
    model = parse(
        f"agraph ({inputs}) => (float y) {{ y{', z' * call.startswith('TopK')} = {call} }}", 24
    )
    found = value_ranges(model, required_inputs(model))["i"]
    are_counts = call.startswith(("TopK", "Reverse", "LSTM", "GRU", "RNN"))
    assert found.limits == limits and found.whole and found.least == int(are_counts)


def test_masks_sizes_and_variances() -> None:
    model = parse("""agraph (int64[N] mask, int64[2] repeats, int64 k, float[3] variance, float[N,3] x)
        => (float[a,b] y, float[N] m, float[N,3] z) <float[3] one> {
        m = Cast <to = 1> (mask) t = Tile (x, repeats) ku = Reshape (k, one_) y, i = TopK (t, ku)
        one_ = Constant <value = int64[1] {1}> () z = BatchNormalization (x, one, one, one, variance) }""")
    found = value_ranges(model, required_inputs(model))
    assert found["mask"].mask and not found["mask"].whole
    assert found["repeats"].least == found["k"].least == 1
    assert found["variance"].positive and not found["x"].positive


def sizes_of(
    *declared: tuple[str, list[int | str]], fixed: dict[str, int] | None = None
) -> SizeChoices:
    ports = [Port(name, "tensor", 1, tuple(dims)) for name, dims in declared]
    return SizeChoices(ports, fixed or {})


def test_a_mask_spans_past_and_new_tokens() -> None:
    choices = sizes_of(
        ("ids", ["batch", "seq"]), ("mask", ["batch", "total"]), ("past_k", ["batch", 2, "past", 4])
    )
    first = next(choices.first())
    assert first["total"] == first["past"] + first["seq"]
    second = next(choices.second(first))
    assert second["total"] == second["past"] + second["seq"]
    assert all(first[name] != second[name] for name in first)
    assert next(choices.single(first))["batch"] == 1


def test_a_dimension_that_is_a_formula_follows_from_the_others() -> None:
    choices = sizes_of(("ids", ["batch", "seq"]), ("mask", ["batch", "past + 2*seq"]))
    for sizes in islice(choices.first(), 20):
        assert sizes["past + 2*seq"] == sizes["past"] + 2 * sizes["seq"]


def test_different_symbols_have_different_sizes_and_fixed_ones_stay() -> None:
    sizes = next(sizes_of(("a", ["M", "K"]), ("b", ["K", "L"])).first())
    assert len(set(sizes.values())) == 3
    choices = sizes_of(("a", ["M", "K"]), ("b", ["K", "L"]), fixed={"K": 11})
    first = next(choices.first())
    assert first["K"] == 11 and {sizes["K"] for sizes in choices.second(first)} == {11}


def test_batches_images_and_many_axes_keep_their_sizes() -> None:
    """Two names of a batch are mostly one size; images have sizes of their own, and large tensors
    small ones.
    """
    batches = next(sizes_of(("a", ["batch_a", "K"]), ("b", ["batch_b", "L"])).first())
    assert batches["batch_a"] == batches["batch_b"] and batches["K"] != batches["L"]
    images = next(sizes_of(("a", ["b", 3, "height", "h"]), ("c", ["width", "w"])).first())
    assert images["height"] == images["h"] == 64 and images["width"] == images["w"] == 96
    many = next(sizes_of(("a", ["B", "P", "Q", "R", "S"]), ("c", ["T", "U"])).first())
    assert max(many[name] for name in "BPQRS") == 3 and many["T"] != many["U"]


def test_edges_hold_what_they_promise() -> None:
    ports = [Port("x", "tensor", onnx.TensorProto.FLOAT, ("n", 50))]
    model = parse("agraph (float[n,50] x) => (float[n,50] y) { y = Abs (x) }")
    found = value_ranges(model, ports)

    def draw(style: Style) -> np.ndarray:
        return make_feeds(ports, found, {"n": 4}, style, 0)["x"]

    assert not draw(Style(floats="zeros")).any()
    odd = draw(Style(floats="nonfinite"))
    assert np.isnan(odd).any() and np.isposinf(odd).any() and np.isneginf(odd).any()
    assert np.isfinite(odd[2:]).all()  # other rows of the batch stay ordinary
    mixed = draw(Style(floats="mixed"))
    assert np.abs(mixed).max() > 100 and (np.signbit(mixed) & (mixed == 0)).any()
    assert (np.abs(mixed[mixed != 0]) < 1e-38).any()
    assert np.array_equal(draw(Style()), draw(Style()))


def test_a_mask_shows_the_first_of_every_row() -> None:
    """So that it hides nothing whole; a mask of single elements may be anything."""
    ports = [
        Port("mask", "tensor", onnx.TensorProto.BOOL, (1, 40, 3)),
        Port("gate", "tensor", onnx.TensorProto.BOOL, (40, 1)),
    ]
    model = parse(
        "agraph (bool[1,40,3] mask, bool[40,1] gate) => (bool[1,40,3] y) { y = And (mask, gate) }"
    )
    for seed in range(3):
        drawn = make_feeds(ports, value_ranges(model, ports), {}, Style(), seed)
        assert drawn["mask"][..., 0].all() and not drawn["mask"].all() and not drawn["gate"].all()


def test_a_switch_is_on_and_off() -> None:
    ports = [
        Port("a", "tensor", onnx.TensorProto.BOOL, ()),
        Port("b", "tensor", onnx.TensorProto.BOOL, (1,)),
    ]
    model = parse("agraph (bool a, bool[1] b) => (bool y) { y = And (a, b) }")
    drawn = [make_feeds(ports, value_ranges(model, ports), {}, Style(), seed) for seed in (0, 1)]
    assert [(bool(d["a"]), bool(d["b"])) for d in drawn] == [(True, False), (False, True)]


def test_dropout_draws_random_numbers_in_training_only() -> None:
    text = """agraph (float[N] x) => (float[N] y) <float r = {{0.5}}, bool mode = {{{}}}> {{
        d = Dropout (x, r, mode) e = Dropout (d, r) y = Identity (e) }}"""
    assert len(random_nodes(parse(text.format(1)))) == 1
    assert random_nodes(parse(text.format(0))) == []


def test_seeds_are_of_the_type_that_an_operator_wants_and_differ() -> None:
    model = parse("""agraph (float[N] x) => (float[N] y) <float r = {0.5}, bool mode = {1}> {
        a = RandomNormalLike (x) b = RandomNormalLike (x) c = Bernoulli (x) d = RandomUniformLike <seed = 3.0> (x)
        e = Dropout (x, r, mode) y = Sum (a, b, c, d, e) }""")
    set_seeds(model)
    seeds = [next(a for a in node.attribute if a.name == "seed") for node in random_nodes(model)]
    kinds = [
        onnx.AttributeProto.INT if node.op_type == "Dropout" else onnx.AttributeProto.FLOAT
        for node in model.graph.node[:5]
    ]
    assert [seed.type for seed in seeds] == kinds
    values = [onnx.helper.get_attribute_value(seed) for seed in seeds]
    assert len(set(values)) == 5 and values[3] == 3


def test_random_nodes_in_bodies_and_functions_are_found() -> None:
    model = parse("""agraph (bool c, float[N] x) => (float[N] y) {
        y = If (c) <then_branch = g1 () => (float[N] p) { p = RandomNormalLike (x) },
                    else_branch = g2 () => (float[N] q) { q = Identity (x) }> }""")
    model.functions.add(name="F", domain="my").node.append(
        helper.make_node("Bernoulli", ["a"], ["b"])
    )
    assert [node.op_type for node in random_nodes(model)] == ["RandomNormalLike", "Bernoulli"]


def test_large_inputs_are_not_tried_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reference fails on all of them, and drawing them takes longer than the rest of a
    conversion.
    """
    monkeypatch.setattr(search, "_MOST_REFUSED", 50_000)
    model = parse(
        "agraph (float[N,1000] x) => (float[N,M] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}> { y "
        "= MatMul (x, w) }"
    )
    onnx.save(model, tmp_path / "a.onnx")
    drawn = []
    monkeypatch.setattr(
        search, "make_feeds", lambda *given: drawn.append(given) or make_feeds(*given)
    )
    assert verify(tmp_path / "a.onnx", tmp_path / "a.onnx").status == "impossible"
    assert len(drawn) < 50


@pytest.mark.parametrize(("rank", "values"), [(0, 1), (1, [1, -1]), (2, [[1, 1, 1]] * 2)])
def test_an_input_that_is_a_shape_may_be_of_any_rank(rank: int, values: object) -> None:
    model = parse("agraph (float[2,3] x, int64 t) => (float y) { y = Reshape (x, t) }")
    model.graph.input[1].type.tensor_type.ClearField("shape")
    ports = required_inputs(model)
    (symbol,) = SizeChoices(ports, {}).symbols
    feeds = make_feeds(ports, value_ranges(model, ports), {symbol: rank}, Style(), 0)
    assert feeds["t"].tolist() == values


def test_sizes_that_leave_something_come_first(tmp_path: Path) -> None:
    """With H = 1, b is empty, and onnxruntime's Concat takes it, and leaves half of its result as
    it finds it.
    """
    model = parse("""agraph (float[1,H,W] x) => (float[A,H2,W2] y)
        <int64[1] n0 = {0}, int64[1] n1 = {1}, int64[1] n2 = {2}, int64[1] n8 = {8}, int64[1] far = {9999}> {
        a = Slice (x, n0, far, n1, n2) b = Slice (x, n1, n8, n1, n2) y = Concat <axis = 0> (a, b) }""")
    onnx.save(model, tmp_path / "a.onnx")
    lines: list[str] = []
    assert verify(tmp_path / "a.onnx", tmp_path / "a.onnx", progress=lines.append).status == "equal"
    assert "H=2" in lines[0], lines
