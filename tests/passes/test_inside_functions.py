"""Inside a model-local function: which passes do less there, and attributes that are its parameters.

That models on which a pass takes effect stay right inside a function is part of the test of the pass itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import pytest
from harness import (
    SAMPLE,
    Fires,
    assert_same_numbers,
    effected,
    load_tests_of,
    most_different,
    optimize,
    parse,
)
from onnx import AttributeProto, ModelProto
from test_variations import load_fires
from variants import copy_of, inside_function

from fusionc.passes import PASSES
from fusionc.rewrite import Pass


def model_of(case: Fires) -> ModelProto:
    return parse(case.graph, case.opset, case.ir_version)


def says_less_often(pass_: Pass) -> bool:
    test = getattr(load_tests_of(pass_), "test_fires", None)
    return getattr(test, "in_functions", "") == "less often"


@pytest.mark.parametrize("pass_", list(filter(says_less_often, PASSES)), ids=lambda p: p.name)
def test_a_pass_that_takes_effect_less_often(pass_: Pass) -> None:
    assert any(
        effected(optimize(inside_function(model_of(case)), [pass_], case.target)[1]) < case.effected
        for case in load_fires(pass_)
    ), 'it does the same inside a function: in_functions="less often" is wrong'


@pytest.mark.parametrize("pass_", PASSES, ids=lambda p: p.name)
def test_attributes_may_be_parameters(pass_: Pass) -> None:
    """Of such a node nothing is known but that it may have these attributes: whatever a pass does, the answers stay."""
    for case in most_different(load_fires(pass_))[: 2 * SAMPLE]:
        model = model_of(case)
        for variant in with_parameters(inside_function(model)):
            result, counts = optimize(variant, [pass_], case.target)
            if effected(counts):
                onnx.checker.check_model(result, full_check=True)
                assert_same_numbers(
                    model,
                    result,
                    pass_.numerics,
                    case.sizes,
                    edge_values=case.edge_values,
                    seeds=1,
                    called_like=variant,
                )
            else:
                assert result == variant


def with_parameters(model: ModelProto) -> Iterator[ModelProto]:
    """The attributes of one node of the function that the model calls, for each node, made parameters."""
    for index, node in enumerate(model.functions[-1].node):
        variant = copy_of(model)
        function = variant.functions[-1]
        (call,) = variant.graph.node
        for attribute in function.node[index].attribute if node.op_type != "Constant" else ():
            if attribute.ref_attr_name or attribute.type in (
                AttributeProto.GRAPH,
                AttributeProto.GRAPHS,
            ):
                continue
            parameter = f"{attribute.name}_parameter"
            call.attribute.add().CopyFrom(attribute)
            call.attribute[-1].name = parameter
            function.attribute.append(parameter)
            attribute.CopyFrom(
                AttributeProto(name=attribute.name, type=attribute.type, ref_attr_name=parameter)
            )
        if function.attribute:
            yield variant
