"""Law 1: what no pass rewrote is as it was, field by field."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from everything import everything, unset_fields

import fusionc
from fusionc.model.write_back import write_back
from fusionc.passes import PASSES
from fusionc.rewrite.log import RewriteLog
from fusionc.rewrite.pipeline import run
from fusionc.shapes.inference import typed_model

ALL_OFF = '{"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}'


def copy_of(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def test_the_model_has_every_field_that_onnx_knows() -> None:
    # external data and its location are set by the tests of saving
    assert unset_fields(everything()) == {"TensorProto.external_data", "TensorProto.data_location"}


def test_all_off_gives_the_same_model(tmp_path: Path) -> None:
    source = tmp_path / "in.onnx"
    target = tmp_path / "out.onnx"
    switches = tmp_path / "off.cfg"
    source.write_bytes(everything().SerializeToString())
    switches.write_text(ALL_OFF)
    fusionc.convert(source, output=target, fusion_switch_file=switches, verify=False)
    assert onnx.load(target) == everything()


def test_the_graph_in_memory_loses_nothing() -> None:
    model = copy_of(everything())
    assert write_back(typed_model(model, "")) == everything()


def test_only_what_a_pass_rewrites_changes() -> None:
    """An Identity between two nodes goes; the order of the nodes becomes topological, all else
    stays.
    """
    model = everything()
    model.graph.node.add(op_type="Identity", input=["called"], output=["same"])
    model.graph.node.add(op_type="Consumer", input=["same"], output=["consumed"], domain="my.own")
    expected = copy_of(model)
    del expected.graph.node[-2]
    expected.graph.node[-1].input[0] = "called"

    graph = typed_model(model, "")
    counts = run(graph, [p for p in PASSES if p.name == "IdentityPass"], RewriteLog())
    result = write_back(graph)
    assert sum(count.effected for count in counts) == 1

    def by_output(node: onnx.NodeProto) -> list[str]:
        return list(node.output)

    assert sorted(result.graph.node, key=by_output) == sorted(expected.graph.node, key=by_output)
    result.graph.ClearField("node")
    expected.graph.ClearField("node")
    assert result == expected


@pytest.mark.parametrize("pass_", PASSES, ids=lambda p: p.name)
def test_every_pass_alone_survives_such_a_model(pass_: fusionc.rewrite.Pass) -> None:
    model = everything()
    graph = typed_model(model, "")
    run(graph, [pass_], RewriteLog())
    write_back(graph)
    functions = 0 if pass_.name == "FunctionInlinePass" else 1
    assert len(model.functions) == functions and len(model.training_info) == 1
    assert model.graph.input == everything().graph.input


def test_an_initializer_that_is_an_input_before_ir_version_4_goes_with_its_input() -> None:
    text = """<ir_version: 3, opset_import: ["" : 9]>
        agraph (float[N,3] x, float[3] a, float[3] b) => (float[N,3] y)
        <float[3] a = {1,2,3}, float[3] b = {1,2,3}> { c = Add (a, b) y = Mul (x, c) }"""
    model = onnx.parser.parse_model(text)
    if len(model.graph.input) == 1:
        pytest.fail("the parser no longer lists initializers as inputs")
    graph = typed_model(model, "")
    run(graph, [p for p in PASSES if p.name == "ConstantFoldingPass"], RewriteLog())
    result = write_back(graph)
    assert [value.name for value in result.graph.input] == ["x", result.graph.initializer[0].name]
    onnx.checker.check_model(result, full_check=True)
