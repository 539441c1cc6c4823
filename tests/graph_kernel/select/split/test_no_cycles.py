"""Regions never need one another, whatever was fused before."""

from __future__ import annotations

import random
from graphlib import TopologicalSorter

import onnx
import pytest
from harness import parse

from fusionc.graph_kernel.select.split.regions import Region
from fusionc.graph_kernel.select.split.split_patterns import PATTERNS
from fusionc.graph_kernel.select.split.splitter import split
from fusionc.graph_kernel.select.split.stitch import STITCH
from fusionc.model.graph import Graph
from fusionc.shapes.inference import typed_model

WAYS = [tuple(PATTERNS), (*PATTERNS, STITCH)]
# Once s and q are one, r leads to u over p, t and q, which is made long after u.
OVER_A_LATE_OPERATOR = """agraph (float[4,2,2] x, float[4,4] w) => (float[4,8] u, float[4,4] q)
<int64[2] shape = {4, 4}> {
    r = Reshape (x, shape)  s = Exp (w)  u = Concat <axis = 1> (r, s)
    p = Softmax (r)  t = Transpose <perm = [1, 0]> (p)  q = Add (s, t) }"""


def assert_no_cycle(graph: Graph, regions: list[Region]) -> None:
    region_of = {node: number for number, region in enumerate(regions) for node in region.nodes}
    needs: dict[int, set[int]] = {number: set() for number in range(len(regions))}
    for node in graph.nodes:
        for value in node.inputs:
            if value is not None and value.producer is not None:
                needs[region_of[node]].add(region_of[value.producer])
    TopologicalSorter({number: its - {number} for number, its in needs.items()}).prepare()


def random_graph(seed: int) -> Graph:
    draw = random.Random(seed)
    count = draw.randrange(5, 25)
    far = draw.choice([3, 6, 30])
    graph = onnx.GraphProto(name="random")
    graph.input.append(onnx.helper.make_tensor_value_info("v0", 1, [4, 4]))
    for i in range(1, count):
        op = draw.choice(
            ["MatMul", "Add", "Sub", "Exp", "Softmax", "Transpose", "Reshape", "ReduceSum"]
        )
        inputs = [
            f"v{draw.randrange(max(0, i - far), i)}"
            for _ in range(1 + (op in ("MatMul", "Add", "Sub")))
        ]
        graph.node.add(
            op_type=op, input=[*inputs, *["shape"] * (op == "Reshape")], output=[f"v{i}"]
        )
    graph.initializer.append(onnx.helper.make_tensor("shape", onnx.TensorProto.INT64, [2], [4, 4]))
    graph.output.extend(
        onnx.helper.make_tensor_value_info(f"v{i}", 1, [None, None])
        for i in range(count - 3, count)
    )
    return typed_model(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]), ""
    ).main


@pytest.mark.parametrize("patterns", WAYS)
def test_over_a_late_operator(patterns: tuple[object, ...]) -> None:
    graph = typed_model(parse(OVER_A_LATE_OPERATOR), "").main
    assert_no_cycle(graph, split(graph, patterns, lambda node: None, 200)[0])


@pytest.mark.parametrize("patterns", WAYS)
def test_random_graphs(patterns: tuple[object, ...]) -> None:
    for seed in range(300):
        graph = random_graph(seed)
        assert_no_cycle(graph, split(graph, patterns, lambda node: None, 200)[0])
