"""Kernels that compute with sizes: what onnxruntime computes, for all sizes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from areas import area_of, area_of_graph, differences, kernel_model, plain_model, session
from onnx import TensorProto, helper

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c.source import reason_against
from fusionc.graph_kernel.library.build_library import Built, build

pytestmark = pytest.mark.usefixtures("needs_a_compiler")

INT64 = TensorProto.INT64
FLOAT = TensorProto.FLOAT
CASES = {
    "all sizes": "(float[N,3,M] x) => (int64[3] z) { z = Shape(x) }",
    "from the end": "(float[N,3,M] x) => (int64[2] z) { z = Shape<start = -2>(x) }",
    "to before the end": "(float[N,3,M] x) => (int64[2] z) { z = Shape<end = -1>(x) }",
    "beyond both ends": "(float[N,3,M] x) => (int64[3] z) { z = Shape<start = -9, end = 9>(x) }",
    "of a type without arithmetic": "(bool[N,3,M] x) => (int64[3] z) { z = Shape(x) }",
    "as a factor": "(float[N,3,M] x, float[K] y) => (float[K] z) { s = Shape<end = 1>(x) f = Cast<to = 1>(s)"
    " z = Mul(y, f) }",
    "every other size": "(float[N,3,M] x) => (int64[2] z) <int64[1] b = {0}, int64[1] e = {3}, int64[1] a = {0},"
    " int64[1] t = {2}> { s = Shape(x) z = Slice(s, b, e, a, t) }",
    "beside what is stored": "(float[N,3,M] x) => (int64[3] s, int64[3] z) { s = Shape(x) z = Mul(s, s) }",
}
REFUSED = {
    "nothing": ("(float x) => (int64[0] z) { z = Shape(x) }", "it is not known which size is read"),
    "a sum of all": (
        "(float[N,M] x) => (int64[1] z) { s = Shape(x) z = ReduceSum(s) }",
        "it reduces over an axis that a Concat or a Reshape has made",
    ),
}


@pytest.fixture(scope="module")
def library() -> tuple[dict[str, Area], Built]:
    areas = {
        name: area_of(f"g {text}", name=f"shape_{k}")
        for k, (name, text) in enumerate(CASES.items())
    }
    return areas, build(list(areas.values()))


@pytest.mark.parametrize("name", CASES)
def test_as_onnxruntime(name: str, library: tuple[dict[str, Area], Built]) -> None:
    assert not library[1].failed
    _compare(library[0][name], library[1])


@pytest.mark.parametrize("name", REFUSED)
def test_what_kernels_refuse(name: str) -> None:
    text, reason = REFUSED[name]
    assert reason_against(area_of(f"g {text}")) == reason


def test_random_computations_with_sizes() -> None:
    areas = [_random_area(random.Random(number), f"sizes_{number}") for number in range(150)]
    possible = [area for area in areas if reason_against(area) is None]
    assert len(possible) > 100
    built = build(possible)
    assert not built.failed
    for area in possible:
        _compare(area, built)


def _compare(area: Area, built: Built) -> None:
    plain = session(plain_model(area))
    kernel = session(kernel_model(area), built.library)
    for n, m, k in ((5, 7, 4), (0, 2, 3), (1, 1, 1), (300, 0, 2)):
        feeds = {}
        for name in area.inputs:
            shape = [{"N": n, "M": m, "K": k}.get(str(dim), dim) for dim in area.values[name].shape]
            feeds[name] = np.ones(shape, helper.tensor_dtype_to_np_dtype(area.values[name].dtype))
        found = differences(plain.run(None, feeds), kernel.run(None, feeds), 0.0)
        assert not found, (
            f"{area.name}, {n}, {m}, {k}: {[node.op_type for node in area.nodes]}: {found}"
        )


def _random_area(rng: random.Random, name: str) -> Area:
    """Vectors of sizes, taken apart, computed with and joined."""
    nodes = []
    constants = dict[str, np.ndarray]()
    inputs = {"x": ["N", 3, "M"], "y": ["K", "N"]}
    vectors: list[tuple[str, int]] = []

    def constant(values: list[int]) -> str:
        key = f"c{len(constants)}"
        constants[key] = np.array(values, np.int64)
        return key

    def make(op: str, reads: list[str], length: int, **attributes: int) -> None:
        vectors.append((f"v{len(nodes)}", length))
        nodes.append(helper.make_node(op, reads, [f"v{len(nodes)}"], **attributes))

    for source, dims in inputs.items():
        make("Shape", [source], len(dims))
    for _ in range(rng.randint(2, 7)):
        one, length = rng.choice(vectors)
        op = rng.choice(["Gather", "Slice", "Concat", "Unary", "Binary", "Where", "Binary"])
        if op == "Gather":
            first = rng.randrange(length)
            step = rng.choice([1, 1, -1])
            count = rng.randint(1, 2)
            picks = [first + step * k for k in range(count)]
            if all(0 <= pick < length for pick in picks):
                make("Gather", [one, constant(picks)], count)
        elif op == "Slice":
            start = rng.randrange(length)
            make("Slice", [one, constant([start]), constant([length])], length - start)
        elif op == "Concat" and length < 5:
            other, more = rng.choice(vectors)
            make("Concat", [one, constant([rng.randint(-1, 4)]), other], length + 1 + more, axis=0)
        elif op == "Unary":
            make(rng.choice(["Neg", "Abs", "Identity"]), [one], length)
        elif op in ("Binary", "Where"):
            fitting = [name for name, its in vectors if its == length] + [
                constant([rng.randint(1, 9)])
            ]
            other = rng.choice(fitting)
            if op == "Where":
                nodes.append(helper.make_node("Equal", [one, other], [f"b{len(nodes)}"]))
                make("Where", [nodes[-1].output[0], one, constant([1])], length)
            else:
                make(rng.choice(["Add", "Sub", "Mul", "Max", "Min"]), [one, other], length)
    used = {key for node in nodes for key in node.input}
    ends = [key for key, _ in vectors if key not in used]
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(key, FLOAT, dims) for key, dims in inputs.items()],
        [helper.make_tensor_value_info(key, INT64, None) for key in ends],
    )
    return area_of_graph(graph, constants, name, 22)
