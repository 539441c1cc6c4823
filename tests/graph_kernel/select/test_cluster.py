"""Clusters: as large as they can be, and never a cycle."""

from __future__ import annotations

import random
from time import perf_counter

import onnx
import pytest
from harness import parse

from fusionc.graph_kernel.select.cluster import clusters_of
from fusionc.model.graph import Graph, Node
from fusionc.shapes.inference import typed_model

CASES = [
    (
        "chain",
        "agraph (float[4] x) => (float[4] y) { a = Exp (x)  b = Neg (a)  y = Abs (b) }",
        ["a b y"],
    ),
    (
        "a wall",
        "agraph (float[4,4] x) => (float[4,4] y) { a = Exp (x)  b = MatMul (a, x)  y = Abs (b) }",
        ["a", "y"],
    ),
    (
        "a way around the wall",
        (
            "agraph (float[4,4] x) => (float[4,4] y) { a = Exp (x)  b = MatMul (a, x)  y = Add "
            "(a, b) }"
        ),
        ["a", "y"],
    ),
    (
        "beside the wall",
        (
            "agraph (float[4,4] x) => (float[4,4] y) { a = Exp (x)  b = MatMul (x, x)  y = Add "
            "(a, b) }"
        ),
        ["a y"],
    ),
    (
        "a chain beside the wall",
        (
            "agraph (float[4,4] x) => (float[4,4] y) { a = Exp (x)  c = Neg (a)  b = MatMul (x, "
            "x)  y = Add (c, b) }"
        ),
        ["a c y"],
    ),
    (
        "before and behind",
        "agraph (float[4,4] x) => (float[4,4] y, float[4,4] z)"
        "{ a = Exp (x)  z = Neg (a)  b = MatMul (x, x)  y = Add (a, b) }",
        ["a z", "y"],
    ),
    (
        "the diamond",
        "agraph (float[4,4] x) => (float[4,4] y)"
        "{ a = Exp (x)  b = MatMul (a, x)  c = Neg (a)  d = Add (b, c)  y = Sub (d, a) }",
        ["a c", "d y"],
    ),
    (
        "a subgraph uses it",
        "agraph (float[4] x, bool p) => (float[4] y) { a = Exp (x)  b = If (p) <"
        "then_branch = t () => (float[4] u) { u = Neg (a) }, else_branch = e () => (float[4] v) "
        "{ v = Abs (a) }>"
        "y = Add (a, b) }",
        ["a", "y"],
    ),
]
WALLS = ("MatMul", "If")


def names(groups: list[list[Node]]) -> list[str]:
    return [" ".join(node.outputs[0].name for node in group) for group in groups]


@pytest.mark.parametrize(
    ("graph", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_clusters(graph: str, expected: list[str]) -> None:
    assert (
        names(clusters_of(typed_model(parse(graph), "").main, lambda node: node.op not in WALLS))
        == expected
    )


def random_graph(count: int, seed: int, far: int) -> Graph:
    draw = random.Random(seed)
    graph = onnx.GraphProto(name="random")
    graph.input.add(name="v0").type.tensor_type.elem_type = 1
    for i in range(1, count):
        op = draw.choice(["Add", "Add", "Sub", "MatMul"])
        inputs = [f"v{draw.randrange(max(0, i - far), i)}" for _ in range(2)]
        graph.node.add(op_type=op, input=inputs, output=[f"v{i}"])
    graph.output.add(name=f"v{count - 1}").type.tensor_type.elem_type = 1
    model = onnx.ModelProto(ir_version=10, graph=graph)
    model.opset_import.add(version=18)
    return typed_model(model, "").main


@pytest.mark.parametrize("seed", range(20))
def test_clusters_form_no_cycle(seed: int) -> None:
    graph = random_graph(60, seed, far=8)
    groups = clusters_of(graph, lambda node: node.op != "MatMul")
    assert sorted(node.position for group in groups for node in group) == sorted(
        node.position for node in graph.nodes if node.op != "MatMul"
    )
    place = {node: number for number, group in enumerate(groups) for node in group}
    following: dict[object, set[object]] = {}
    for node in graph.nodes:
        for value in node.inputs:
            if value is not None and value.producer is not None:
                edge = (place.get(value.producer, value.producer), place.get(node, node))
                if edge[0] != edge[1]:
                    following.setdefault(edge[0], set()).add(edge[1])
    done: set[object] = set()

    def visit(vertex: object, way: frozenset[object]) -> None:
        assert vertex not in way, "a cycle"
        if vertex not in done:
            for other in following.get(vertex, ()):
                visit(other, way | {vertex})
            done.add(vertex)

    for vertex in list(following):
        visit(vertex, frozenset())


@pytest.mark.timing
def test_it_takes_linear_time() -> None:
    seconds = []
    for count in (5_000, 50_000):
        graph = random_graph(count, 1, far=200)
        start = perf_counter()
        clusters_of(graph, lambda node: node.op != "MatMul")
        seconds.append(perf_counter() - start)
    assert seconds[1] < 40 * seconds[0] + 0.5
