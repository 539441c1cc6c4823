"""Models on which a pass fires, written in other ways and with one more thing that needs an inner value.

No table says what a pass does with these: it must be right, whatever it does. Each pass has each
kind of variation on one of its rows, and each kind begins with another row. With the environment
variable FUSIONC_ALL_VARIATIONS, each row has each kind: `make variations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import onnx
import pytest
from harness import (
    ALL_VARIATIONS,
    Fires,
    all_nodes,
    assert_same_numbers,
    compare,
    effected,
    interface,
    load_tests_of,
    make_feeds,
    most_different,
    operators,
    optimize,
    parse,
    session,
)
from onnx import ModelProto, TensorProto, helper, numpy_helper
from variants import can_have_constant_nodes, constants_as_nodes, copy_of

from fusionc.operators.randomness import RANDOM_OR_STATEFUL
from fusionc.passes import PASSES
from fusionc.rewrite import Pass
from fusionc.rewrite.log import PatternCount
from fusionc.runtime.processor import has_vnni

# What they do depends on how constants are written, or on whether anything is constant at all.
ABOUT_CONSTANTS = {"ConstantFoldingPass", "PrunePass", "RemoveSameConstPass"}


def load_fires(pass_: Pass) -> list[Fires]:
    return list(getattr(load_tests_of(pass_), "FIRES", []))


@lru_cache(maxsize=64)
def model_of(case: Fires) -> ModelProto:
    """The model of a case, which the tests leave as it is."""
    return parse(case.graph, case.opset, case.ir_version)


@lru_cache(maxsize=64)
def rewritten(pass_: Pass, case: Fires) -> tuple[ModelProto, list[PatternCount]]:
    """The same after its pass, and the counts."""
    return optimize(model_of(case), [pass_], case.target)


# Each returns whether the row has such a variation.


def assert_constants_in_constant_nodes(pass_: Pass, case: Fires) -> bool:
    """A Constant node is a constant: the pass fires as often, and leaves the same operators."""
    model = model_of(case)
    if pass_.name in ABOUT_CONSTANTS or not can_have_constant_nodes(model):
        return False
    result, counts = right_result(pass_, constants_as_nodes(model), case)
    expected, wanted = rewritten(pass_, case)
    assert effected(counts) == effected(wanted)
    assert without_constants(result) == without_constants(expected)
    return bool(model.graph.initializer)


def assert_an_inner_value_is_a_graph_output(pass_: Pass, case: Fires) -> bool:
    model = model_of(case)
    values = list(inner_tensors(model))
    for value in values:
        variant = copy_of(model)
        variant.graph.output.append(value)
        result, _ = right_result(pass_, variant, case)
        assert value in result.graph.output
    return bool(values)


def assert_a_subgraph_uses_an_inner_value(pass_: Pass, case: Fires) -> bool:
    model = model_of(case)
    values = list(inner_tensors(model))[-1:]
    for value in values:
        right_result(pass_, with_branches_that_use(model, value), case)
    return bool(values)


def assert_a_constant_may_be_overridden(pass_: Pass, case: Fires) -> bool:
    """An initializer that is a graph input, too, is no constant: the caller may give another value."""
    model = model_of(case)
    declared = {value.name for value in model.graph.input}
    constants = [t for t in model.graph.initializer if t.name not in declared]
    for tensor in constants:
        variant = copy_of(model)
        variant.graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        )
        result, counts = right_result(pass_, variant, case)
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind == "f" and effected(counts):
            other = np.asarray(1 - array / 2, array.dtype)
            feeds = make_feeds(variant, {"": 2, **case.sizes}, 0)
            compare(
                (session(variant), session(result)), feeds | {tensor.name: other}, pass_.numerics
            )
    return bool(constants)


def assert_empty_tensors(pass_: Pass, case: Fires) -> bool:
    """Where a symbolic dimension is 0, the result still runs if the original did."""
    model = model_of(case)
    symbols = {
        d.dim_param
        for value in model.graph.input
        for d in value.type.tensor_type.shape.dim
        if d.dim_param
    }
    sizes = dict.fromkeys(symbols, 0)
    if not (symbols and case.zero_sizes and runs(model, sizes)):
        return False
    assert_same_numbers(model, rewritten(pass_, case)[0], pass_.numerics, sizes)
    return True


def assert_the_operators_of_the_kind(pass_: Pass, case: Fires) -> bool:
    """GraphFusion emits operators of the model's own domains; UBFusion does nothing for a model for any runtime."""
    model = model_of(case)
    if pass_.kind == "UBFusion":
        assert optimize(model, [pass_], target="onnx")[0] == model
    else:
        result, _ = rewritten(pass_, case)
        assert {node.domain for node in all_nodes(result)} <= {
            "",
            *(node.domain for node in all_nodes(model)),
        }
    return True


def assert_a_model_for_any_runtime_gets_no_operator_of_onnxruntime(
    pass_: Pass, case: Fires
) -> bool:
    if pass_.kind != "UBFusion":
        return False
    model = model_of(case)
    result, _ = optimize(model, [p for p in PASSES if p.numerics != "approximate"], target="onnx")
    assert {(n.domain, n.op_type) for n in all_nodes(result) if n.domain} <= {
        (n.domain, n.op_type) for n in all_nodes(model) if n.domain
    }
    return True


def assert_all_passes_together(pass_: Pass, case: Fires) -> bool:
    model = model_of(case)
    exact = [p for p in PASSES if p.numerics != "approximate" or p is pass_]
    result, counts = optimize(model, exact, case.target)
    assert effected(counts) > 0
    onnx.checker.check_model(result, full_check=True)
    assert_same_numbers(model, result, "rounding", case.sizes, edge_values=False)
    again, counts = optimize(result, exact, case.target)
    assert effected(counts) == 0 and again == result
    return True


VARIATIONS = (
    assert_constants_in_constant_nodes,
    assert_an_inner_value_is_a_graph_output,
    assert_a_subgraph_uses_an_inner_value,
    assert_a_constant_may_be_overridden,
    assert_empty_tensors,
    assert_the_operators_of_the_kind,
    assert_a_model_for_any_runtime_gets_no_operator_of_onnxruntime,
    assert_all_passes_together,
)


@pytest.mark.parametrize("pass_", PASSES, ids=lambda pass_: pass_.name)
def test_variations(pass_: Pass) -> None:
    """All kinds in one test, because most of the time of a test for each would be pytest's own."""
    errors = []
    for start, variation in enumerate(VARIATIONS):
        try:
            assert_variation(pass_, variation, start)
        except Exception as error:
            errors.append(error)
    if errors:
        raise ExceptionGroup(f"variations of {pass_.name}", errors)


def assert_variation(pass_: Pass, variation: Callable[[Pass, Fires], bool], start: int) -> None:
    varied = 0
    for case in rows_in_order(pass_, start):
        try:
            varied += variation(pass_, case)
        except Exception as error:
            error.add_note(f"in {variation.__name__} on the row {case.name!r}")
            raise
        if varied and not ALL_VARIATIONS:
            return


def rows_in_order(pass_: Pass, start: int) -> list[Fires]:
    """The rows of a pass, those that differ most first. Each kind of variation starts at another
    row.
    """
    rows = [case for case in load_fires(pass_) if has_vnni() or not case.needs_vnni]
    start %= max(len(rows), 1)
    return most_different(rows[start:] + rows[:start])


def right_result(
    pass_: Pass, model: ModelProto, case: Fires
) -> tuple[ModelProto, list[PatternCount]]:
    result, counts = optimize(model, [pass_], case.target)
    assert all(count.matched == count.effected + sum(count.refused.values()) for count in counts)
    if not effected(counts):
        assert result == model
        return result, counts
    onnx.checker.check_model(result, full_check=True)
    assert interface(result) == interface(model)
    assert_same_numbers(
        model, result, pass_.numerics, case.sizes, edge_values=case.edge_values, seeds=1
    )
    return result, counts


# -- variants ----------------------------------------------------------------------------------------------------------


def without_constants(model: ModelProto) -> dict[str, int]:
    return {op: count for op, count in operators(model).items() if op != "Constant"}


def inner_tensors(model: ModelProto) -> Iterator[onnx.ValueInfoProto]:
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    made = {name for node in model.graph.node for name in node.output if name}
    outputs = {value.name for value in model.graph.output}
    if any(node.op_type in RANDOM_OR_STATEFUL for node in model.graph.node):
        return
    for value in inferred.graph.value_info:
        if value.name in made - outputs and value.type.tensor_type.HasField("shape"):
            yield value


def with_branches_that_use(model: ModelProto, value: onnx.ValueInfoProto) -> ModelProto:
    variant = copy_of(model)
    branches = {}
    for which in ("then", "else"):
        output = copy_of_value(value, f"inner_{which}")
        node = helper.make_node("Identity", [value.name], [output.name])
        branches[f"{which}_branch"] = helper.make_graph([node], which, [], [output])
    variant.graph.input.append(
        helper.make_tensor_value_info("another_branch", TensorProto.BOOL, [])
    )
    variant.graph.node.append(helper.make_node("If", ["another_branch"], ["also_seen"], **branches))
    variant.graph.output.append(copy_of_value(value, "also_seen"))
    return variant


def copy_of_value(value: onnx.ValueInfoProto, name: str) -> onnx.ValueInfoProto:
    copy = onnx.ValueInfoProto()
    copy.CopyFrom(value)
    copy.name = name
    return copy


def runs(model: ModelProto, sizes: dict[str, int]) -> bool:
    try:
        session(model).run(None, make_feeds(model, {"": 0, **sizes}, 0))
    except Exception:  # onnxruntime raises many types
        return False
    return True
