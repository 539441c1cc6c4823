"""What the engine guarantees for every pass: commit, counters, fixed points, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from harness import all_nodes, assert_same_numbers, effected, optimize, parse
from variants import inside_function

from fusionc.errors import FusioncError
from fusionc.model.write_back import write_back
from fusionc.passes import PASSES
from fusionc.rewrite import Match, Pass, Pattern, Tape, const, either, keep, op, refuse, var
from fusionc.rewrite.log import RewriteLog
from fusionc.rewrite.pattern import Formula
from fusionc.rewrite.pipeline import ROUNDS, run
from fusionc.shapes.inference import typed_model

x = var("x")
y = var("y")


def make(
    formula: Formula | tuple[Formula, ...],
    rewrite: Callable[[Match, Tape], Any],
    name: str = "OwnPass",
) -> Pass:
    return type(
        name, (Pass,), {"patterns": (Pattern("own", formula, rewrite),), "__doc__": "Own."}
    )()


def only(counts: list[Any]) -> tuple[int, dict[str, int]]:
    assert all(count.matched == count.effected + sum(count.refused.values()) for count in counts)
    count = counts[0]  # of the main graph
    return count.effected, count.refused


ABS_OF_RELU = make(op.Abs(op.Relu(x)), lambda m, new: new.Relu(m.x))


@pytest.mark.parametrize(
    ("more", "outputs", "reason"),
    [
        ("z = Neg (a)", ", float[N] z", "an interior value is used elsewhere"),
        ("", ", float[N] a", "an interior value is a graph output"),
        (
            "c = Constant <value = bool {1}> () z = If (c) <then_branch = t () => (float[N] p) { "
            "p = Neg (a) }, "
            "else_branch = e () => (float[N] q) { q = Abs (x) }>",
            ", float[N] z",
            "an interior value is used elsewhere",
        ),
    ],
)
def test_interior_values_are_private(more: str, outputs: str, reason: str) -> None:
    model = parse(
        f"agraph (float[N] x) => (float[N] y{outputs}) {{ a = Relu (x) y = Abs (a) {more} }}"
    )
    result, counts = optimize(model, [ABS_OF_RELU])
    assert only(counts) == (0, {reason: 1}) and result == model


def test_a_replacement_that_would_form_a_cycle_is_refused() -> None:
    """Both outputs are replaced by one node that needs z, which needs the first of them."""
    model = parse(
        "agraph (float[N] x) => (float[N] y) { a = Relu (x) b = Neg (x) z = Abs (a) c = Add "
        "(b, z) y = Mul (c, a) }"
    )

    def rewrite(m: Match, new: Tape) -> Any:
        z = m.graph.values["z"]
        both = new.Add(m.x, z)
        return both, new.Neg(both)

    result, counts = optimize(model, [make((op.Neg(x), op.Relu(x)), rewrite)])
    assert only(counts) == (0, {"the replacement would form a cycle": 1}) and result == model


SEEN = """agraph (float[N] x, bool c) => (float[N] y, float[N] z) {
    a = Relu (x)
    z = If (c) <then_branch = t () => (float[N] p) { p = Neg (a) },
                else_branch = e () => (float[N] q) {
                    q = If (c) <then_branch = u () => (float[N] r) { r = Add (a, a) },
                                else_branch = v () => (float[N] s) { s = Abs (x) }> }>
    y = Identity (a) }"""


def test_a_value_that_becomes_an_output_has_its_name_in_subgraphs_too() -> None:
    """y takes the place of a, also where branches, and branches of branches, use a by its name."""
    model = parse(SEEN)
    result, counts = optimize(model, [make(op.Identity(x), lambda m, new: m.x)])
    assert effected(counts) == 1
    onnx.checker.check_model(result, full_check=True)
    outer = result.graph.node[1]
    inner = outer.attribute[1].g.node[0]
    used = [
        result.graph.node[0].output[0],
        outer.attribute[0].g.node[0].input[0],
        *inner.attribute[0].g.node[0].input,
    ]
    assert used == ["y"] * 4
    assert_same_numbers(model, result, "bitwise", {})


@pytest.mark.parametrize(
    ("graph", "left"),
    [
        ("agraph (float[N] x) => (float[N] y) { a = Neg (x) y = Neg (a) }", ["Identity"]),
        (
            (
                "agraph (float[N] x) => (float[N] y, float[N] z) { z = Abs (x) a = Neg (z) y = "
                "Neg (a) }"
            ),
            ["Abs", "Identity"],
        ),
        ("agraph (float[N] x) => (float[N] y) { z = Abs (x) a = Neg (z) y = Neg (a) }", ["Abs"]),
        (
            "agraph () => (float[2] y) <float[2] c = {1, 2}> { a = Neg (c) y = Neg (a) }",
            ["Identity"],
        ),
        (
            "agraph (float[N] x, bool c) => (float[N] y) { y = If (c) <then_branch = t () => "
            "(float[N] u) "
            "{ a = Neg (x) u = Neg (a) }, else_branch = e () => (float[N] v) { v = Abs (x) }> }",
            ["If", "Identity", "Abs"],
        ),
    ],
    ids=["an input", "another output", "none", "a constant", "a value of the graph around"],
)
def test_what_has_to_keep_its_name_is_copied_to_an_output(graph: str, left: list[str]) -> None:
    model = parse(graph)
    result, counts = optimize(model, [make(op.Neg(op.Neg(x)), lambda m, new: m.x)])
    assert effected(counts) == 1 and [node.op_type for node in all_nodes(result)] == left
    onnx.checker.check_model(result, full_check=True)
    assert_same_numbers(model, result, "bitwise", {})


def test_no_copies_in_the_place_of_as_many_nodes() -> None:
    model = parse("agraph (float[N] x) => (float[N] y, float[N] z) { y = Neg (x) z = Abs (x) }")
    result, counts = optimize(model, [make((op.Neg(x), op.Abs(x)), lambda m, new: (m.x, m.x))])
    assert (
        only(counts) == (0, {"the result is a graph output and needs a name of its own": 1})
        and result == model
    )


def test_two_outputs_get_a_valid_order() -> None:
    """The first output is used before the second is made: the new node moves in front of its
    users.
    """
    model = parse(
        "agraph (float[N,4] x) => (float[N,4] y) { a = Relu (x) u = Abs (a) v = Exp (u) b = "
        "Neg (x) y = Add (v, b) }"
    )

    def rewrite(m: Match, new: Tape) -> Any:
        doubled = new.Concat(m.x, m.x, axis=1)
        first, second = new.Split(doubled, outputs=2, axis=1, num_outputs=2)
        return new.Neg(first), new.Relu(second)

    result, counts = optimize(model, [make((op.Neg(x), op.Relu(x)), rewrite)])
    assert effected(counts) == 1
    onnx.checker.check_model(result, full_check=True)


def test_a_cycle_through_a_branch_is_refused() -> None:
    """What the If makes depends on what would be replaced, as its branch uses it by its name."""
    model = parse("""agraph (float[N] x, bool c) => (float[N] y) {
        a = Relu (x) b = Abs (a)
        z = If (c) <then_branch = t () => (float[N] p) { p = Neg (b) },
                    else_branch = e () => (float[N] q) { q = Neg (x) }>
        y = Add (b, z)
    }""")
    needs_z = make(op.Abs(op.Relu(x)), lambda m, new: new.Add(m.x, m.graph.values["z"]))
    result, counts = optimize(model, [needs_z])
    assert only(counts) == (0, {"the replacement would form a cycle": 1}) and result == model


@pytest.mark.parametrize(
    ("body", "order"),
    [
        ("n = Neg (x) t = Tan (x) r = Relu (x) a = Abs (r) s = Sin (t)", "Neg Tan Exp Add Sin Sum"),
        ("r = Relu (x) t = Tan (x) a = Abs (r) n = Neg (x) s = Sin (t)", "Tan Neg Exp Add Sin Sum"),
    ],
)
def test_new_nodes_stand_behind_the_match_and_their_inputs(body: str, order: str) -> None:
    graph = typed_model(
        parse(f"agraph (float[N] x) => (float[N] y) {{ {body} y = Sum (a, n, s) }}"), ""
    )
    needs_n = make(op.Abs(op.Relu(x)), lambda m, new: new.Add(new.Exp(m.x), m.graph.values["n"]))
    run(graph, [needs_n], RewriteLog())
    nodes = graph.main.ordered()
    assert [node.op for node in nodes] == order.split()
    assert len({node.position for node in nodes}) == len(nodes)


def test_nodes_of_other_graphs_and_with_attributes_that_refer_to_parameters_never_match() -> None:
    model = parse("""agraph (float[N] x, bool c) => (float[N] y) {
        a = Relu (x)
        z = If (c) <then_branch = t () => (float[N] p) { p = Abs (a) },
                    else_branch = e () => (float[N] q) { q = Neg (x) }>
        y = own.f <slope = 0.5> (z)
    }
    <opset_import: ["" : 18], domain: "own">
    f <slope> (u) => (w) { v = LeakyRelu <alpha: float = @slope> (u) w = Abs (v) }
    """)
    for formula in (op.Abs(op.Relu(x)), op.Abs(op.LeakyRelu(x))):
        result, counts = optimize(model, [make(formula, lambda m, new: new.Neg(m.x))])
        assert sum(count.matched for count in counts) == 0 and result == model


def test_element_type_and_shape_stay() -> None:
    model = parse(
        "agraph (float[2,3] x) => (float[2,3] y) { a = Relu (x) b = Abs (a) y = Neg (b) }"
    )
    as_double = make(op.Abs(op.Relu(x)), lambda m, new: new.Cast(m.x, to=onnx.TensorProto.DOUBLE))
    assert only(optimize(model, [as_double])[1]) == (0, {"the element type would change": 1})
    turned = make(op.Abs(op.Relu(x)), lambda m, new: new.Transpose(m.x, perm=[1, 0]))
    assert only(optimize(model, [turned])[1]) == (0, {"the shape would change": 1})
    longer = make(op.Abs(op.Relu(x)), lambda m, new: new.Unsqueeze(m.x, new.const([2])))
    assert only(optimize(model, [longer])[1]) == (0, {"the shape would change": 1})


def test_a_constant_that_may_have_raised_the_rank() -> None:
    text = (
        "agraph (float[2] x, int64[K] s) => (float[a] y) <float[1] c = {{1}}> {{ h = {} r = "
        "Mul (h, c) y = Neg (r) }}"
    )
    times_one = make(x * 1.0, lambda m, new: m.x)
    unknown, known = (parse(text.format(h)) for h in ("Reshape (x, s)", "Relu (x)"))
    assert only(optimize(unknown, [times_one])[1]) == (
        0,
        {"the rank is unknown, and a constant may have raised it": 1},
    )
    assert effected(optimize(known, [times_one])[1]) == 1
    scalar = parse(text.format("ReduceSum <keepdims = 0> (x)"))
    assert only(optimize(scalar, [times_one])[1]) == (0, {"the shape would change": 1})


def test_what_the_opset_or_the_target_has_not_is_refused() -> None:
    model = parse("agraph (float[N,3] x) => (float[N,3] y) { a = Relu (x) y = Abs (a) }")
    gelu = make(op.Abs(op.Relu(x)), lambda m, new: new.Gelu(m.x))
    assert only(optimize(model, [gelu])[1]) == (0, {"opset 18 has no Gelu": 1})
    contrib = make(
        op.Abs(op.Relu(x)), lambda m, new: new.BiasSoftmax(m.x, m.x, domain="com.microsoft")
    )
    assert only(optimize(model, [contrib])[1]) == (0, {"no CPU kernel for BiasSoftmax of float": 1})
    assert only(optimize(model, [contrib], "onnx")[1]) == (0, {"target onnx has no BiasSoftmax": 1})


def test_what_onnx_rejects_is_refused() -> None:
    model = parse("agraph (float[2,3] x) => (float[2,3] y) { a = Relu (x) y = Abs (a) }")
    wrong = make(op.Abs(op.Relu(x)), lambda m, new: new.MatMul(m.x, m.x))
    assert only(optimize(model, [wrong])[1]) == (0, {"onnx rejects the new MatMul": 1})


def test_constants_go_when_nobody_needs_them_and_stay_when_somebody_does() -> None:
    model = parse("""agraph (float[N,3] x) => (float[N,3] y, float[N,3] z) <float[3] own, float[3] shared> {
        a = Add (x, own) b = Add (a, shared) y = Abs (b) z = Mul (x, shared) }""")
    result, _ = optimize(model, [make(op.Abs((x + y) + var("z")), lambda m, new: new.Relu(m.x))])
    assert [t.name for t in result.graph.initializer] == ["shared"]


def test_metadata_is_merged_and_origins_are_kept_over_several_passes() -> None:
    model = parse(
        "agraph (float[N] x) => (float[N] y) { [first] a = Relu (x) [second] b = Abs (a) "
        "[third] y = Abs (b) }"
    )
    model.graph.node[0].metadata_props.add(key="layer", value="1")
    model.graph.node[1].metadata_props.add(key="layer", value="2")
    model.graph.node[1].metadata_props.add(key="block", value="b")
    (node,) = optimize(model, [ABS_OF_RELU])[0].graph.node
    props = {p.key: p.value for p in node.metadata_props}
    assert props["fusionc.pass"] == "OwnPass" and set(props["fusionc.from"].split(",")) == {
        "first",
        "second",
        "third",
    }
    assert props["layer"] in ("1", "2") and props["block"] == "b"


def test_before_ir_version_10_the_origin_is_in_the_doc_string() -> None:
    model = parse(
        "agraph (float[N] x) => (float[N] y) { [one] a = Relu (x) [two] y = Abs (a) }", ir_version=8
    )
    (node,) = optimize(model, [ABS_OF_RELU])[0].graph.node
    assert (
        node.doc_string == "fusionc.pass=OwnPass; fusionc.from=two,one" and not node.metadata_props
    )


@pytest.mark.parametrize("ir_version", [8, 10])
def test_bytes_in_a_doc_string_that_are_no_text_end_no_conversion(ir_version: int) -> None:
    text = "agraph (float[N] x) => (float[N] y) { a = Relu (x) y = Abs (a) }"
    model = parse(text, ir_version=ir_version)
    model.graph.node[0].doc_string = "Gr??e"
    broken = onnx.ModelProto.FromString(model.SerializeToString().replace(b"Gr??e", b"Gr\xf6\xdfe"))
    (node,) = optimize(broken, [ABS_OF_RELU])[0].graph.node
    assert node.doc_string.startswith("Gr\ufffd\ufffde")


def test_what_a_doc_string_says_of_rewrites_does_not_grow_without_end() -> None:
    """Each of a hundred rewrites finds the node that the one before has made; what people wrote
    stays.
    """
    chain = " ".join(f"a{k + 1} = Abs (a{k})" for k in range(100))
    model = parse(
        f"agraph (float[N] x) => (float[N] y) {{ a0 = Relu (x) {chain} y = Neg (a100) }}",
        ir_version=8,
    )
    model.graph.node[0].doc_string = "the first\nof all"
    made = optimize(model, [ABS_OF_RELU])[0].graph.node[0]
    lines = made.doc_string.split("\n")
    assert lines[:2] == ["the first", "of all"] and len(lines) == 66
    assert all(line.startswith("fusionc.pass=OwnPass; fusionc.from=") for line in lines[2:])


def test_the_same_operator_keeps_its_name_and_the_value_its_own() -> None:
    model = parse(
        "agraph (float[N] x) => (float[N] z) { [mine] a = Relu (x) y = Abs (a) z = Neg (y) }"
    )
    first, _ = optimize(model, [ABS_OF_RELU])[0].graph.node
    assert (first.name, list(first.output)) == ("mine", ["y"])


def test_a_kept_node_stays_with_its_other_users() -> None:
    model = parse(
        "agraph (float[N] x) => (float[N] y, float[N] z) { a = Relu (x) y = Abs (a) z = Neg (a) }"
    )
    result, counts = optimize(
        model,
        [
            make(
                op.Abs(
                    keep(
                        op.Relu(x),
                    )
                ),
                lambda m, new: new.Sqrt(m.x),
            )
        ],
    )
    assert effected(counts) == 1 and sorted(n.op_type for n in result.graph.node) == [
        "Neg",
        "Relu",
        "Sqrt",
    ]


# -- errors
#
#
#
# ------------------------------------------------------------------------------------------------------------

MODEL = "agraph (float[N] x) => (float[N] y) { a = Relu (x) y = Abs (a) }"


def test_a_pass_that_raises_is_named_with_file_and_line() -> None:
    def rewrite(m: Match, new: Tape) -> Any:
        return 1 / 0

    with pytest.raises(FusioncError) as caught:
        optimize(parse(MODEL), [make(op.Relu(x), rewrite, "RaisingPass")])
    error = caught.value
    assert (
        "RaisingPass failed: ZeroDivisionError" in error.what and "test_engine.py:" in error.where
    )
    assert "RaisingPass:off" in error.hint and error.code == "E20007"


@pytest.mark.parametrize(
    "result", [lambda m, new: None, lambda m, new: (m.x, m.x), lambda m, new: 3]
)
def test_a_pass_that_returns_nonsense(result: Callable[[Match, Tape], Any]) -> None:
    with pytest.raises(FusioncError, match="OwnPass failed"):
        optimize(parse(MODEL), [make(op.Relu(x), result)])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("c", ["0", "-1e-38", "nan"])
def test_nothing_is_printed_of_what_overflows(c: str) -> None:
    pattern = op.Mul(op.Relu(x), const("c"))
    factor = make(pattern, lambda m, new: new.Mul(m.x, new.const(1e30 / m.c.constant(), like=m.x)))
    model = parse(
        f"agraph (float[N] x) => (float[N] y) <float c = {{{c}}}> {{ a = Relu (x) y = Mul (a, c) }}"
    )
    assert only(optimize(model, [factor])[1]) == (1, {})


def test_a_capture_that_does_not_exist() -> None:
    with pytest.raises(FusioncError, match="the pattern captures no 'z'"):
        optimize(parse(MODEL), [make(op.Relu(x), lambda m, new: m.z)])


def test_what_only_another_pattern_of_the_pass_captures_is_none() -> None:
    """A rewrite that several patterns share need not ask which of them matched."""
    patterns = (Pattern("Added", op.Add(op.Abs(x), const("c"))), Pattern("Alone", op.Abs(x)))
    members = {
        "patterns": patterns,
        "rewrite": lambda self, m, new: new.Relu(m.x) if m.c is None else m.x,
    }
    model = parse("agraph (float[N] x) => (float[N] y) { a = Relu (x) y = Abs (a) }")
    result, counts = optimize(model, [type("OwnPass", (Pass,), members)()])
    assert effected(counts) == 1 and [node.op_type for node in result.graph.node] == [
        "Relu",
        "Relu",
    ]


def test_a_search_that_raises_is_named_as_well() -> None:
    def find(graph: Any) -> Any:
        yield Match(graph, nodes=list(graph.nodes)[:1])
        raise ValueError("lost")

    search = type(
        "SearchPass",
        (Pass,),
        {"patterns": (Pattern("own", find=find, rewrite=lambda m, new: refuse("no")),)},
    )()
    with pytest.raises(FusioncError, match="SearchPass failed: ValueError: lost"):
        optimize(parse(MODEL), [search])


def test_a_match_that_is_gone_is_not_refused_any_more() -> None:
    """Abs(Neg) is refused at first; then Neg becomes Relu, and there is nothing left to refuse."""
    model = parse("agraph (float[N] x) => (float[N] y) { a = Neg (x) b = Abs (a) y = Exp (b) }")

    def rewrite(m: Match, new: Tape) -> Any:
        if m.root.op == "Abs":
            refuse("not this one")
        return new.Relu(m.x)

    either_of = make(
        either(op.Abs(op.Neg(x), _as="root"), op.Exp(op.Abs(op.Neg(x)), _as="root")), rewrite
    )
    assert only(optimize(model, [either_of])[1]) == (1, {})


def test_a_pass_that_never_ends() -> None:
    with pytest.raises(FusioncError, match="EndlessPass does not end"):
        optimize(parse(MODEL), [make(op.Relu(x), lambda m, new: new.Relu(m.x), "EndlessPass")])


def test_passes_that_undo_each_other() -> None:
    there = make(op.Relu(x), lambda m, new: new.Elu(m.x), "TherePass")
    back = make(op.Elu(x), lambda m, new: new.Relu(m.x), "BackPass")
    with pytest.raises(
        FusioncError, match=f"do not settle in {ROUNDS} rounds: TherePass, BackPass"
    ):
        optimize(parse(MODEL), [there, back])


# -- pipeline
#
#
#
# ----------------------------------------------------------------------------------------------------------


def test_a_later_pass_may_make_work_for_an_earlier_one() -> None:
    model = parse(
        "agraph (float[N] x) => (float[N] y) { a = Relu (x) b = Identity (a) y = Abs (b) }"
    )
    identity = next(p for p in PASSES if p.name == "IdentityPass")
    result, counts = optimize(model, [ABS_OF_RELU, identity])
    assert [node.op_type for node in result.graph.node] == ["Relu"]
    assert [(count.pass_name, count.effected) for count in counts if count.effected] == [
        ("OwnPass", 1),
        ("IdentityPass", 1),
    ]


def test_refusals_are_what_still_stands_at_the_end() -> None:
    """b is used twice until one of its users goes."""
    model = parse("agraph (float[N] x) => (float[N] y) { a = Relu (x) y = Abs (a) d = Neg (a) }")
    prune = next(p for p in PASSES if p.name == "PrunePass")
    _, counts = optimize(model, [ABS_OF_RELU, prune])
    assert {c.pass_name: (c.effected, c.refused) for c in counts if c.matched} == {
        "OwnPass": (1, {}),
        "PrunePass": (1, {}),
    }


def test_stopping_after_a_number_of_rewrites_is_exact() -> None:
    text = """agraph (float[N] x) => (float[N] y) {
        a = Identity (x) b = Relu (a) c = Identity (b) d = Neg (c) e = Identity (d) y = Abs (e) }"""
    left = []
    for limit in range(5):
        model = parse(text)
        graph = typed_model(model, "")
        log = RewriteLog(limit)
        run(graph, PASSES, log)
        left.append(sum(node.op_type == "Identity" for node in write_back(graph).graph.node))
        assert log.count == min(limit, 3)
        assert (log.last is None) == (limit == 0)
    assert left == [3, 2, 1, 0, 0]


def test_each_graph_has_its_own_counts() -> None:
    model = parse("""agraph (float[N] x, bool c) => (float[N] y) {
        a = Relu (x) b = Abs (a)
        y = If (c) <then_branch = t () => (float[N] p) { u = Relu (b) p = Abs (u) },
                    else_branch = e () => (float[N] q) { q = Neg (b) }>
    }""")
    _, counts = optimize(model, [ABS_OF_RELU])
    assert {count.graph_id: count.effected for count in counts} == {0: 1, 1: 1, 2: 0}


def test_two_refusals_for_different_reasons() -> None:
    model = parse(
        "agraph (float[N] x) => (float[N] y) { a = Relu (x) b = Abs (a) c = Relu (b) y = Abs (c) }"
    )

    def rewrite(m: Match, new: Tape) -> Any:
        refuse("it is the input" if m.x.name == "x" else "it is not")

    assert only(optimize(model, [make(op.Abs(op.Relu(x)), rewrite)])[1]) == (
        0,
        {"it is the input": 1, "it is not": 1},
    )


def test_new_constants_round_once_and_never_overflow() -> None:
    model = parse("agraph (float16[N] x) => (float16[N] y) { a = Relu (x) y = Abs (a) }")
    fits = make(
        op.Abs(op.Relu(x)), lambda m, new: new.Add(m.x, new.const(np.float64(1 / 3), like=m.x))
    )
    (tensor,) = optimize(model, [fits])[0].graph.initializer
    assert onnx.numpy_helper.to_array(tensor) == np.float16(1 / 3)
    too_large = make(op.Abs(op.Relu(x)), lambda m, new: new.Add(m.x, new.const(1e6, like=m.x)))
    assert only(optimize(model, [too_large])[1]) == (0, {"a constant would overflow in float16": 1})


@pytest.mark.parametrize(
    ("number", "is_refused"), [(0.5, True), (2.0, False), (-3, False), (float("nan"), True)]
)
def test_a_new_constant_of_integers_is_no_other_number(number: float, is_refused: bool) -> None:
    model = parse("agraph (int64[N] x) => (int64[N] y) { a = Neg (x) y = Abs (a) }")
    own = make(op.Abs(op.Neg(x)), lambda m, new: new.Add(m.x, new.const(number, like=m.x)))
    _, refused = only(optimize(model, [own])[1])
    assert refused == ({"a constant would be rounded to int64": 1} if is_refused else {})


def test_a_node_with_subgraphs_lends_nothing() -> None:
    """What its subgraphs read, nobody would know of the new one."""
    model = parse("""agraph (bool c, float[N] x) => (float[N] y) { n = Not (c) y = If (n) <
        then_branch = t () => (float[N] p) { p = Neg (x) }, else_branch = e () => (float[N] q) { q = Abs (x) }> }""")
    own = make(op.If(op.Not(var("c")), _as="choice"), lambda m, new: new.If(m.c, like=m.choice))
    result, counts = optimize(model, [own])
    assert (
        only(counts) == (0, {"the node whose attributes are copied has subgraphs": 1})
        and result == model
    )


NAMED = "agraph (float[3] x) => (float[3] y) {{ {} }}"


def annotated(body: str, name: str) -> onnx.ModelProto:
    model = parse(NAMED.format(body))
    entries = model.graph.quantization_annotation.add(tensor_name="x").quant_parameter_tensor_names
    entries.add(key="SCALE_TENSOR", value=name)
    return model


@pytest.mark.parametrize("name", ["n", "i"])
def test_what_an_annotation_names_stays(name: str) -> None:
    """Inside of a match, and where another value would stand for it."""
    model = annotated("n = Neg (x) m = Neg (n) i = Identity (m) y = Exp (i)", name)
    twice = make(op.Neg(op.Neg(x)), lambda m, new: m.x, "TwicePass")
    copied = make(op.Identity(x), lambda m, new: m.x, "CopyPass")
    result, _ = optimize(model, [twice, copied])
    assert name in {out for node in result.graph.node for out in node.output}


def test_what_an_annotation_names_stays_when_it_is_a_constant_made_anew() -> None:
    model = annotated("s = Constant <value = float {1}> () a = Mul (x, s) y = Exp (a)", "s")
    result, _ = optimize(model, [p for p in PASSES if p.default != "off"])
    assert [tensor.name for tensor in result.graph.initializer] == ["s"]
    assert [node.op_type for node in result.graph.node] == ["Exp"]


@pytest.mark.parametrize(
    "options", [lambda m: {"like": m.x}, lambda m: {"dtype": m.x.dtype}], ids=["like", "dtype"]
)
def test_a_new_constant_of_an_unknown_type_is_refused(
    options: Callable[[Match], dict[str, Any]],
) -> None:
    """In the body of a function nobody knows it: the constant would be of double."""
    third = make(op.Abs(op.Relu(x)), lambda m, new: new.Add(m.x, new.const(1 / 3, **options(m))))
    model = inside_function(
        parse("agraph (float[N] x) => (float[N] y) { a = Relu (x) y = Abs (a) }")
    )
    result, counts = optimize(model, [third])
    assert [count.refused for count in counts] == [
        {},
        {"the element type is unknown": 1},
    ] and result == model


def test_a_value_that_a_graph_hands_out_twice() -> None:
    own = make(op.Abs(op.Relu(x)), lambda m, new: new.Relu(m.x))
    text = "agraph (float[N] x) => (float[N] y, float[N] y) { a = Relu (x) y = Abs (a) }"
    result, counts = optimize(parse(text), [own])
    assert [count.effected for count in counts] == [1]
    assert [value.name for value in result.graph.output] == ["y", "y"]
    assert [node.op_type for node in result.graph.node] == ["Relu"]
