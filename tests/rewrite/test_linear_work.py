"""What the engine does grows with the model, not with its square: counted. test_linear_time.py has
the seconds.
"""

from __future__ import annotations

import cProfile
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from fusionc.model import build, graph, graphsurgeon
from fusionc.model.write_back import write_back
from fusionc.passes import PASSES
from fusionc.rewrite.log import RewriteLog
from fusionc.rewrite.pipeline import run
from fusionc.shapes.inference import typed_model

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import scaling

ENABLED = [pass_ for pass_ in PASSES if pass_.default != "off"]


def convert(model: onnx.ModelProto) -> onnx.ModelProto:
    in_memory = typed_model(model, "")
    run(in_memory, ENABLED, RewriteLog())
    return write_back(in_memory)


def calls(model: onnx.ModelProto) -> int:
    """How many functions are called, those of C included."""
    profile = cProfile.Profile()
    profile.runcall(convert, model)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize("make", scaling.SHAPES)
def test_as_many_nodes_more_cost_as_much_more(
    make: Callable[[int], list[onnx.NodeProto]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "FUNCTIONS", 10)
    convert(scaling.made(make, 100))  # what is done once in a process
    first, second, third = (calls(scaling.made(make, count)) for count in (100, 200, 300))
    assert third - second < 1.1 * (second - first)  # 1.67 if it grew with the square


@pytest.mark.parametrize("is_output", [False, True])
def test_a_value_of_many_is_replaced_without_the_others(
    is_output: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No list of all that a node reads, or a graph hands out, is made for each of them that is
    replaced.
    """
    made = 0

    class Counting(graphsurgeon.ReadOnlyTuple):
        def __new__(cls, values: Iterable[object] = ()) -> Counting:
            nonlocal made
            self = super().__new__(cls, values)
            made += len(self)
            return self

    model = scaling.made(scaling.concatenated, 500)
    if is_output:
        names = [f"v{i}" for i in range(1, 501)]
        nodes = [
            helper.make_node("LeakyRelu", ["v0"], [f"of_{name}"], alpha=1 / int(name[1:]))
            for name in names
        ]
        nodes += [helper.make_node("Identity", [f"of_{name}"], [name]) for name in names]
        model = scaling.model(nodes, "v500")
        model.graph.output.extend(
            helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 4]) for n in names[:-1]
        )
    for module in (graphsurgeon, graph, build):
        monkeypatch.setattr(module, "ReadOnlyTuple", Counting)
    assert "Identity" not in {node.op_type for node in convert(model).graph.node}
    assert made < 20 * 500


@pytest.mark.parametrize("is_read", [True, False])
def test_what_is_replaced_is_of_what_was_assigned_last(is_read: bool) -> None:
    nodes = typed_model(scaling.made(scaling.concatenated, 5), "").main.nodes
    node = next(node for node in nodes if node.op == "Concat")
    first, second, *rest = read = node.inputs
    graphsurgeon.replace_in(node, "inputs", first, None)
    assert not is_read or node.inputs[0] is None
    node.inputs = read
    graphsurgeon.replace_in(node, "inputs", second, None)
    assert node.inputs == (first, None, *rest)
