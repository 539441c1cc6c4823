"""Functions that call one another: how many nodes a model has without them is known before anything
expands them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner
from onnx import FunctionProto, ModelProto, TensorProto, helper

from fusionc.api import convert
from fusionc.cli import main
from fusionc.disk import expansion
from fusionc.disk.expansion import MOST_NESTED, MOST_NODES, require_expandable
from fusionc.errors import FusioncError
from fusionc.verify import verify

OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]


def function(name: str, *calls: str) -> FunctionProto:
    """A function whose body calls these functions, one after the other; "Neg" is the operator."""
    values = ["x", *(f"v{number}" for number in range(1, len(calls))), "y"]
    nodes = [
        helper.make_node(
            call, [values[i]], [values[i + 1]], domain="" if call == "Neg" else "local"
        )
        for i, call in enumerate(calls)
    ]
    return helper.make_function("local", name, ["x"], ["y"], nodes, OPSETS)


def model(functions: Sequence[FunctionProto], call: str) -> ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node(call, ["x"], ["y"], domain="local")], "g", [x], [y])
    return helper.make_model(graph, functions=functions, opset_imports=OPSETS, ir_version=10)


def doubling(times: int) -> ModelProto:
    more = [
        function(f"f{number}", f"f{number - 1}", f"f{number - 1}") for number in range(1, times + 1)
    ]
    return model([function("f0", "Neg"), *more], f"f{times}")


@pytest.fixture
def giant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """41 functions in 10 KB; every one calls the one before twice."""
    monkeypatch.chdir(tmp_path)
    onnx.save(doubling(40), "giant.onnx")
    return Path("giant.onnx")


def test_what_nothing_can_expand_is_an_error_at_once(giant: Path) -> None:
    begin = time.monotonic()
    for passes in ("", "FunctionInlinePass:on"):
        for opset in (None, 23):
            with pytest.raises(FusioncError, match="1,099,511,627,776 nodes"):
                convert(
                    giant, output="out.onnx", optimization_switch=passes or None, target_opset=opset
                )
    with pytest.raises(FusioncError, match="1,099,511,627,776 nodes"):
        verify(giant, giant)
    for mode in ("--mode=3", "--mode=6", "--mode=1 --json=m.json --dump_mode=1"):
        done = CliRunner().invoke(main, ["convert", "--model=giant.onnx", *mode.split()])
        assert done.exit_code == 1 and "1,099,511,627,776 nodes" in done.output
    assert time.monotonic() - begin < 8 and not Path("out.onnx").exists()


@pytest.mark.parametrize(
    "calls", [{"a": ["a"]}, {"a": ["Neg", "b"], "b": ["c"], "c": ["Neg", "a"]}]
)
def test_a_function_that_calls_itself_is_an_error(
    calls: dict[str, list[str]], tmp_path: Path
) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model([function(name, *called) for name, called in calls.items()], "a"), path)
    with pytest.raises(FusioncError, match="calls itself") as caught:
        convert(path, output=tmp_path / "out.onnx")
    assert caught.value.where.startswith(str(path))


def test_the_bound_is_on_what_calls_add() -> None:
    calls = ["f"] * 1000
    for count, is_too_many in ((MOST_NODES // 1000, False), (MOST_NODES // 1000 + 2, True)):
        wide = model([function("f", *["Neg"] * count), function("g", *calls)], "g")
        if is_too_many:
            with pytest.raises(FusioncError, match="102,000 nodes"):
                require_expandable(wide, "m")
        else:
            require_expandable(wide, "m")


def test_calls_in_subgraphs_count() -> None:
    wide = doubling(16)
    require_expandable(wide, "m")
    body = helper.make_graph(list(wide.graph.node) * 2, "b", [], [])
    nodes = [helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body)]
    wide.graph.node.extend(nodes)
    with pytest.raises(FusioncError, match="327,681 nodes"):
        require_expandable(wide, "m")


@pytest.mark.timing
def test_a_chain_of_many_functions_takes_linear_time() -> None:
    chain = [function("f0", "Neg"), *(function(f"f{i}", f"f{i - 1}") for i in range(1, 20_000))]
    begin = time.process_time()
    with pytest.raises(FusioncError, match="20,000 deep"):
        require_expandable(model(chain[::-1], "f19999"), "m")
    assert time.process_time() - begin < 5


def test_nodes_that_are_written_in_functions_are_not_added_by_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expansion, "MOST_NODES", 8)
    require_expandable(model([function("f", *["Neg"] * 20)], "f"), "m")
    with pytest.raises(FusioncError, match="the model has 40 nodes"):
        require_expandable(model([function("f", *["Neg"] * 20), function("g", "f", "f")], "g"), "m")


@pytest.mark.parametrize("target", ["onnxruntime-cpu", "onnx"])
def test_calls_that_are_nested_too_deep_are_refused_in_one_way(
    target: str, in_a_folder_of_its_own: None
) -> None:
    chain = [function("f0", "Neg"), *(function(f"f{i}", f"f{i - 1}") for i in range(1, 2000))]
    onnx.save(model(chain, "f1999"), "m.onnx")
    with pytest.raises(FusioncError, match="are nested 2,000 deep") as caught:
        convert("m.onnx", output="out.onnx", target=target)
    assert (
        not caught.value.details
        and caught.value.code == "E13005"
        and caught.value.where == "m.onnx"
    )


def test_calls_that_are_nested_as_deep_as_may_be_are_converted(
    in_a_folder_of_its_own: None,
) -> None:
    chain = [
        function("f0", "Neg"),
        *(function(f"f{i}", f"f{i - 1}") for i in range(1, MOST_NESTED)),
    ]
    onnx.save(model(chain, f"f{MOST_NESTED - 1}"), "m.onnx")
    convert("m.onnx", output="out.onnx", verify=False)
    wide = [*chain, function("f", *[f"f{MOST_NESTED - 2}"] * 2), function("g", "f", "f")]
    with pytest.raises(FusioncError, match=f"are nested {MOST_NESTED + 1:,} deep"):
        require_expandable(model(wide, "g"), "m")
