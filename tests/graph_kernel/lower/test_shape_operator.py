"""Kernels that compute with sizes: what onnxruntime computes, for all sizes."""

from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from areas import (
    area_of,
    area_of_graph,
    build_for_here,
    differences,
    kernel_model,
    plain_model,
    session,
)
from onnx import TensorProto, helper

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.c.source import reason_against
from fusionc.graph_kernel.library.build_library import Built

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
    return areas, build_for_here(list(areas.values()))


@pytest.mark.parametrize("name", CASES)
def test_as_onnxruntime(name: str, library: tuple[dict[str, Area], Built]) -> None:
    assert not library[1].failed
    _compare(library[0][name], library[1])


@pytest.mark.parametrize("name", REFUSED)
def test_what_kernels_refuse(name: str) -> None:
    text, reason = REFUSED[name]
    assert reason_against(area_of(f"g {text}")) == reason


def test_random_computations_with_sizes() -> None:
    areas = [_random_area(random.Random(number), f"sizes_{number}") for number in range(50)]
    possible = [area for area in areas if reason_against(area) is None]
    assert len(possible) > 33
    built = build_for_here(possible)
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
    maker = _AreaMaker(rng)
    for _ in range(rng.randint(2, 7)):
        maker.grow()
    return maker.area(name)


class _AreaMaker:
    """Adds one operator after the other to an area."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.constants = dict[str, np.ndarray]()
        self.inputs = {"x": ["N", 3, "M"], "y": ["K", "N"]}
        self.vectors: list[tuple[str, int]] = []  # with their lengths
        for source, dims in self.inputs.items():
            self.make("Shape", [source], len(dims))

    def constant(self, values: list[int]) -> str:
        key = f"c{len(self.constants)}"
        self.constants[key] = np.array(values, np.int64)
        return key

    def make(self, op: str, reads: list[str], length: int, **attributes: int) -> None:
        self.vectors.append((f"v{len(self.nodes)}", length))
        self.nodes.append(helper.make_node(op, reads, [f"v{len(self.nodes)}"], **attributes))

    def grow(self) -> None:
        one, length = self.rng.choice(self.vectors)
        ways = [
            self.gather, self.slice, self.concat, self.unary, self.binary, self.where, self.binary,
        ]  # fmt: skip
        self.rng.choice(ways)(one, length)

    def gather(self, one: str, length: int) -> None:
        first = self.rng.randrange(length)
        step = self.rng.choice([1, 1, -1])
        count = self.rng.randint(1, 2)
        picks = [first + step * k for k in range(count)]
        if all(0 <= pick < length for pick in picks):
            self.make("Gather", [one, self.constant(picks)], count)

    def slice(self, one: str, length: int) -> None:
        start = self.rng.randrange(length)
        ends = [self.constant([start]), self.constant([length])]
        self.make("Slice", [one, *ends], length - start)

    def concat(self, one: str, length: int) -> None:
        if length < 5:
            other, more = self.rng.choice(self.vectors)
            between = self.constant([self.rng.randint(-1, 4)])
            self.make("Concat", [one, between, other], length + 1 + more, axis=0)

    def unary(self, one: str, length: int) -> None:
        self.make(self.rng.choice(["Neg", "Abs", "Identity"]), [one], length)

    def binary(self, one: str, length: int) -> None:
        other = self.other(length)
        op = self.rng.choice(["Add", "Sub", "Mul", "Max", "Min"])
        self.make(op, [one, other], length)

    def where(self, one: str, length: int) -> None:
        other = self.other(length)
        self.nodes.append(helper.make_node("Equal", [one, other], [f"b{len(self.nodes)}"]))
        self.make("Where", [self.nodes[-1].output[0], one, self.constant([1])], length)

    def other(self, length: int) -> str:
        """A vector of this length, or a constant."""
        fitting = [name for name, its in self.vectors if its == length]
        return self.rng.choice([*fitting, self.constant([self.rng.randint(1, 9)])])

    def area(self, name: str) -> Area:
        used = {key for node in self.nodes for key in node.input}
        ends = [key for key, _ in self.vectors if key not in used]
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(key, FLOAT, dims) for key, dims in self.inputs.items()],
            [helper.make_tensor_value_info(key, INT64, None) for key in ends],
        )
        return area_of_graph(graph, self.constants, name, 22)
