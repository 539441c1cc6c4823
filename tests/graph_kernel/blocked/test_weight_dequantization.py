"""Areas whose weights are integers, in each form in which models dequantize them: a kernel computes
the same bits as one with the weights as float32 constants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from areas import session
from kernels_run import run_kernel
from networks import Array, Found, Network, areas_of, difference, only_area, program_of_area
from onnx import TensorProto, helper, numpy_helper

import fusionc
from fusionc.graph_kernel.library.build_library import build
from fusionc.graph_kernel.select.time_estimate import Savings
from fusionc.model.operators import KERNELS

OPSET = 23
INT4 = np.dtype(ml_dtypes.int4)
UINT4 = np.dtype(ml_dtypes.uint4)
E4M3FN = np.dtype(ml_dtypes.float8_e4m3fn)
RANGES = {np.dtype(np.int8): (-128, 128), np.dtype(np.uint8): (0, 256), INT4: (-8, 8)}
RANGES[UINT4] = (0, 16)


@dataclass(frozen=True)
class Form:
    """How weights are stored and dequantized."""

    dtype: np.dtype
    granularity: str = "channel"  # or "tensor", "one" (a vector of one element), "block"
    has_zero: bool = False
    is_cast: bool = False  # by Cast, Sub or Add, and Mul; else by DequantizeLinear
    opset: int = OPSET

    def __str__(self) -> str:
        words = (self.dtype.name, self.granularity, "zero" * self.has_zero, "cast" * self.is_cast)
        return "-".join(filter(None, (*words, str(self.opset))))


def forms() -> list[Form]:
    types = [np.dtype(np.int8), np.dtype(np.uint8), INT4, UINT4]
    granularities = ("channel", "tensor", "one", "block")
    # half with zero points: each type and each granularity with them and without
    found = [
        Form(t, g, (i + j) % 2 == 1)
        for i, t in enumerate(types)
        for j, g in enumerate(granularities)
    ]
    found += [Form(t, "channel", i % 2 == 1, True) for i, t in enumerate(types)]
    found += [Form(np.dtype(np.int8), g, True, True) for g in ("tensor", "one", "block")]
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"):
        found.append(Form(np.dtype(getattr(ml_dtypes, name))))
    found += [replace(found[0], opset=opset) for opset in (13, 19, 21, 24)]
    return [*found, Form(np.dtype(np.uint8), "tensor", True, opset=10), Form(E4M3FN, opset=19)]


class Weights(Network):
    """A network whose weights are dequantized in one form; without a form, they are constants. The
    weights are the same numbers.
    """

    def __init__(self, form: Form, is_constant: bool = False) -> None:
        super().__init__(form.opset, seed=3)
        self.form = form
        self.is_constant = is_constant

    def dequantized(self, shape: tuple[int, ...], channels: int = 0) -> str:
        """Weights whose axis `channels` is that of the output channels."""
        nodes = len(self.nodes)
        known = set(self.weights)
        name = self._dequantized(shape, channels)
        if not self.is_constant:
            return name
        weights = {key: self.weights.pop(key) for key in set(self.weights) - known}
        tensors = [numpy_helper.from_array(array, key) for key, array in weights.items()]
        output = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes[nodes:], "weights", [], [output], tensors)
        del self.nodes[nodes:]
        (array,) = session(model_of(graph, self.opset)).run(None, {})
        return self.const(array)

    def _dequantized(self, shape: tuple[int, ...], channels: int) -> str:
        form = self.form
        axis = channels
        if form.granularity == "block":
            axis = 1 - channels
        numbers = self._numbers(shape)
        scales = self._shape_of_scales(shape, axis)
        scale = self.rng.uniform(0.5, 1.5, scales) / self._largest() / np.sqrt(shape[1 - channels])
        zero = self._numbers(scales) if form.has_zero else None
        if form.is_cast:
            return self._cast(numbers, scale, zero, axis)
        inputs = [self.const(numbers, form.dtype), self.const(scale)]
        inputs += [] if zero is None else [self.const(zero, form.dtype)]
        attributes = {} if form.opset < 13 else {"axis": axis - len(shape)}
        if form.granularity == "block":
            attributes["block_size"] = 4
        return str(self.op("DequantizeLinear", *inputs, **attributes))

    def _cast(self, numbers: Array, scale: Array, zero: Array | None, axis: int) -> str:
        shape = numbers.shape
        value = self.op("Cast", self.const(numbers, self.form.dtype), to=TensorProto.FLOAT)
        wide = [1] * len(shape)
        if scale.ndim == 1 and scale.size > 1:
            wide[axis] = -1
        if self.form.granularity == "block":
            parts = [*shape[:axis], shape[axis] // 4, 4, *shape[axis + 1 :]]
            value = self.op("Reshape", value, self.const(parts, np.int64))
            wide = [*scale.shape[: axis + 1], 1, *scale.shape[axis + 1 :]]
        if zero is not None:
            points = zero.astype(np.float32).reshape(wide)
            if axis:
                value = self.op("Sub", value, self.const(points))
            else:
                value = self.op("Add", self.const(-points), value)
        value = self.op("Mul", self.const(scale.reshape(wide)), value)
        if self.form.granularity == "block":
            value = self.op("Reshape", value, self.const(shape, np.int64))
        return str(value)

    def _shape_of_scales(self, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
        if self.form.granularity == "block":
            return (*shape[:axis], shape[axis] // 4, *shape[axis + 1 :])
        return {"tensor": (), "one": (1,), "channel": (shape[axis],)}[self.form.granularity]

    def _numbers(self, shape: tuple[int, ...]) -> Array:
        if self.form.dtype not in RANGES:
            return self.rng.standard_normal(shape).astype(self.form.dtype)
        return self.rng.integers(*RANGES[self.form.dtype], shape)

    def _largest(self) -> int:
        return RANGES[self.form.dtype][1] if self.form.dtype in RANGES else 1


def model_of(graph: onnx.GraphProto, opset: int) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def images(n: Weights) -> None:
    """Convolutions by Winograd and by other algorithms, with groups, and a transposed one."""
    x = n.op("Conv", n.input("N", 4, "H", "W"), n.dequantized((24, 4, 3, 3)), pads=[1] * 4)
    y = n.op("Relu", n.op("Conv", x, n.dequantized((40, 24, 3, 3)), n.random(40), pads=[1] * 4))
    y = n.op("Conv", y, n.dequantized((32, 40, 1, 1)))
    y = n.op("Conv", y, n.dequantized((32, 8, 3, 3)), group=4, pads=[1] * 4)
    y = n.op("ConvTranspose", y, n.dequantized((32, 20, 2, 2), 1), strides=[2, 2])
    n.outputs = [n.op("Conv", y, n.dequantized((17, 20, 3, 3)), pads=[1] * 4)]


def rows(n: Weights) -> None:
    """Products: of matrices in both orders, with a bias, and with Strassen's algorithm."""
    x = n.op("MatMul", n.input(70, 32), n.dequantized((32, 40), 1))
    x = n.op("Gemm", n.op("Relu", x), n.dequantized((36, 40)), n.random(36), transB=1)
    n.outputs = [n.op("Gemm", x, n.dequantized((36, 21), 1), n.random(21))]


FORMS = {str(form): form for form in forms()}
NETWORKS = {"images": images, "rows": rows}
CASES = [(kind, name) for kind in NETWORKS for name in FORMS]
SIZES = {"N": 3, "H": 13, "W": 10}


def network(kind: str, form: Form, is_constant: bool = False) -> Weights:
    n = Weights(form, is_constant)
    NETWORKS[kind](n)
    return n


@pytest.fixture(scope="module")
def found() -> dict[str, Found]:
    """The areas of the networks of all forms, and as constants."""
    areas = {}
    for kind, name in CASES:
        for is_constant in (False, True):
            model = network(kind, FORMS[name], is_constant).model()
            areas[f"{kind} {name} {is_constant}"] = only_area(model)
    return areas


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_weights_are_as_the_constants(
    kind: str, name: str, found: dict[str, Found], library: Path
) -> None:
    plain = network(kind, FORMS[name])
    feeds = plain.feeds(SIZES)
    (right,) = session(plain.model()).run(None, feeds)
    ones = [found[f"{kind} {name} {is_constant}"] for is_constant in (False, True)]
    made, as_constants = [run_kernel(one, one.tensors(feeds), library)[0] for one in ones]
    problem = difference(right, made)
    assert not problem, problem
    assert made.tobytes() == as_constants.tobytes()


def test_infinite_and_undefined_numbers_stay() -> None:
    """Tiles of Winograd's algorithm are computed again if a result is not finite."""
    n = Weights(Form(np.dtype(np.int8)))
    x = n.op("Conv", n.input(2, 32, 23, 19), n.dequantized((48, 32, 3, 3)), pads=[1] * 4)
    n.outputs = [n.op("Relu", x)]
    one = only_area(n.model())
    feeds = n.feeds(edges=True)
    (right,) = session(n.model()).run(None, feeds)
    assert any("WINOGRAD" in kind for kind in program_of_area(one.area).kinds)
    problem = difference(right, run_kernel(one, one.tensors(feeds), build([one.area]).library)[0])
    assert not problem, problem


def quantized(n: Weights, shape: tuple[int, ...], *, scale: str = "", **attributes: int) -> str:
    numbers = n.const(n.rng.integers(-128, 128, shape), np.int8)
    return str(n.op("DequantizeLinear", numbers, scale or n.const(0.01), **attributes))


def convolved(n: Weights, w: str, *bias: str) -> str:
    """A convolution with these weights, and another one, so that they are an area."""
    x = n.op("Relu", n.op("Conv", n.input(1, 24, 9, 9), w, *bias))
    return str(n.op("Conv", x, n.random(24, 24, 1, 1)))


def twice(n: Weights) -> None:
    """Two convolutions read the same weights."""
    w = quantized(n, (24, 24, 3, 3))
    n.outputs = [n.op("Conv", convolved(n, w), w)]


def result(n: Weights) -> None:
    """The weights are also a result."""
    w = quantized(n, (24, 24, 1, 1))
    n.outputs = [convolved(n, w), w]


def read_elsewhere(n: Weights) -> None:
    """An operator outside of the area also reads the weights."""
    w = quantized(n, (24, 24, 1, 1))
    n.outputs = [convolved(n, w), n.op("Transpose", w)]


def added(n: Weights) -> None:
    """The weights are also added to an image."""
    w = quantized(n, (1, 24, 9, 9))
    y = convolved(n, quantized(n, (24, 24, 1, 1)))
    n.outputs = [n.op("Conv", convolved(n, quantized(n, (24, 24, 1, 1))), w), n.op("Add", y, w)]


def in_a_subgraph(n: Weights) -> None:
    """A subgraph also reads the weights."""
    w = quantized(n, (24, 24, 1, 1))
    x = convolved(n, w)
    output = helper.make_tensor_value_info("w", TensorProto.FLOAT, None)
    branch = helper.make_graph([helper.make_node("Neg", [w], ["w"])], "branch", [], [output])
    yes = n.op("Cast", n.op("ReduceMax", x, keepdims=0), to=TensorProto.BOOL)
    n.outputs = [x, n.op("If", yes, then_branch=branch, else_branch=branch)]


def biased(n: Weights) -> None:
    """The bias is dequantized as well."""
    numbers = n.const(n.rng.integers(-(10**6), 10**6, 24), np.int32)
    bias = n.op("DequantizeLinear", numbers, n.const(np.full(24, 1e-6)), axis=0)
    n.outputs = [convolved(n, quantized(n, (24, 24, 3, 3)), bias)]


def with_two_scales(n: Weights) -> None:
    """The same integers are dequantized in two ways."""
    numbers = n.const(n.rng.integers(-128, 128, (24, 24, 1, 1)), np.int8)
    one, other = (n.op("DequantizeLinear", numbers, n.const(s)) for s in (0.01, 0.02))
    n.outputs = [n.op("Conv", convolved(n, one), other)]


def vector(n: Weights) -> None:
    """A dequantized vector is added to rows."""
    x = n.op("MatMul", n.input(200, 64), quantized(n, (64, 64)))
    n.outputs = [n.op("Relu", n.op("Add", x, quantized(n, (64,), axis=0)))]


USES = (twice, result, read_elsewhere, added, in_a_subgraph, biased, with_two_scales, vector)


@pytest.fixture
def always_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Areas are made even if they save no time."""
    monkeypatch.setattr(Savings, "of", lambda self, area: 1.0)


@pytest.mark.usefixtures("always_faster")
def test_weights_with_other_uses_stay_right(tmp_path: Path) -> None:
    """The conversion verifies the result, with kernels and without."""
    n = Weights(Form(np.dtype(np.int8)))
    outputs = []
    for use in USES:
        use(n)
        outputs += n.outputs
    path = tmp_path / "model.onnx"
    onnx.save(n.model(*outputs), path)
    fusionc.convert(
        path,
        output=tmp_path / "made.onnx",
        optimization_switch="DequantizedWeightsPass:off",
        enable_graph_kernel=True,
    )
    made = onnx.load(tmp_path / "made.onnx")
    outside = Counter(node.op_type for node in made.graph.node)
    # the second of two scales stays outside, and so do weights with other uses
    assert outside["Conv"] + outside["FusedConv"] == 1
    assert outside["DequantizeLinear"] == 5


@pytest.mark.usefixtures("always_faster")
def test_the_default_form_becomes_one_area(tmp_path: Path) -> None:
    """Cast, Add and Mul are in the area, which reads the integers."""
    n = Weights(Form(np.dtype(np.uint8), has_zero=True))
    x = n.op("Relu", n.op("Conv", n.input(1, 64, 28, 28), n.dequantized((96, 64, 3, 3))))
    n.outputs = [n.op("Relu", n.op("Conv", x, n.dequantized((64, 96, 3, 3))))]
    path = tmp_path / "model.onnx"
    onnx.save(n.model(), path)
    fusionc.convert(path, output=tmp_path / "made.onnx", enable_graph_kernel=True)
    made = onnx.load(tmp_path / "made.onnx")
    assert [node.domain for node in made.graph.node] == [KERNELS]
    assert {"Cast", "Add", "Mul"} <= {node.op_type for node in made.functions[0].node}
    assert (tmp_path / "made.onnx").stat().st_size < 2 * path.stat().st_size


def stays(w: Callable[[Weights], str]) -> bool:
    """Whether a convolution with these weights is in no area."""
    n = Weights(Form(np.dtype(np.int8)))
    n.outputs = [n.op("Relu", n.op("Conv", n.input(1, 24, 9, 9), w(n), pads=[1] * 4))]
    return not areas_of(n.model())


def incomplete(n: Weights) -> str:
    """The last block is incomplete."""
    numbers = n.const(n.rng.integers(-8, 8, (24, 24, 3, 3)), np.int8)
    scales = n.const(n.rng.uniform(0.1, 1, (24, 5, 3, 3)))
    return str(n.op("DequantizeLinear", numbers, scales, axis=1, block_size=5))


def computed_scale(n: Weights) -> str:
    return quantized(n, (24, 24, 3, 3), scale=n.input())


def of_16_bits(n: Weights) -> str:
    numbers = n.const(n.rng.integers(-99, 99, (24, 24, 3, 3)), np.int16)
    return str(n.op("DequantizeLinear", numbers, n.const(0.01)))


def scaled_twice(n: Weights) -> str:
    return str(n.op("Mul", quantized(n, (24, 24, 3, 3)), n.const(0.5)))


def enlarged(n: Weights) -> str:
    small = n.op("Cast", n.const(n.rng.integers(-9, 9, (24, 24, 3, 1)), np.int8), to=1)
    return str(n.op("Mul", small, n.const(n.rng.uniform(1, 2, (1, 1, 1, 3)))))


def from_half(n: Weights) -> str:
    half = n.op(
        "DequantizeLinear",
        n.const(n.rng.integers(-128, 128, (24, 24, 3, 3)), np.int8),
        n.const(0.01, np.float16),
    )
    return str(n.op("Cast", half, to=1))


@pytest.mark.parametrize(
    "weights", [incomplete, computed_scale, of_16_bits, scaled_twice, enlarged, from_half]
)
def test_other_weights_stay_outside(weights: Callable[[Weights], str]) -> None:
    assert stays(weights)
    assert not stays(lambda n: quantized(n, (24, 24, 3, 3)))


@pytest.mark.parametrize(
    ("rows", "is_inside"),
    [((1,), False), ((32,), False), (("N",), False), ((64,), True), (("N", 128), True)],
)
def test_few_rows_stay_with_packed_weights(rows: tuple[int | str, ...], is_inside: bool) -> None:
    """onnxruntime multiplies few rows by the integers."""
    for dtype, is_packed in ((np.int8, True), (ml_dtypes.float8_e4m3fn, False)):
        n = Weights(Form(np.dtype(dtype)))
        numbers = n.const(n.rng.integers(-9, 9, (64, 64)), dtype)
        w = n.op("DequantizeLinear", numbers, n.const(np.full(64, 0.01)), axis=1)
        n.outputs = [n.op("MatMul", n.input(*rows, 64), w)]
        assert bool(areas_of(n.model())) is (is_inside or not is_packed)
