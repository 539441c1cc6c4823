"""Kernels of quantized models are judged by groups: a step at a tie is legal whatever follows makes
of it, and a wrong kernel is found, although its twin is wrong in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import fusionc
from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.inner_grids import AreaTwins
from fusionc.graph_kernel.library.build_library import build
from fusionc.graph_kernel.library.kernel_library import KernelLibrary
from fusionc.verify import Verification, verify

pytestmark = pytest.mark.usefixtures("needs_a_compiler")
CHANNELS = 32
SIZE = 32


def residual_network() -> onnx.ModelProto:
    """A network that is quantized on inputs only: onnxruntime multiplies in float32, kernels in
    integers, so that sums of products differ in the last place.
    """
    rng = np.random.default_rng(1)
    nodes = list[onnx.NodeProto]()
    stored = {"s": np.float32(0.02), "z": np.int8(0)}

    def add(op: str, *inputs: str, **attributes: object) -> str:
        nodes.append(helper.make_node(op, inputs, [f"t{len(nodes)}"], **attributes))
        return str(nodes[-1].output[0])

    def convolution(x: str, channels: int, size: int, stride: int) -> str:
        name = f"w{len(nodes)}"
        shape = (CHANNELS, channels, size, size)
        stored[f"{name}q"] = np.clip(rng.normal(0, 40, shape).round(), -127, 127).astype(np.int8)
        width = 1 / np.sqrt(np.prod(shape[1:])) / 40
        stored[f"{name}s"] = (rng.uniform(0.5, 1.5, CHANNELS) * width).astype(np.float32)
        stored[f"{name}z"] = np.zeros(CHANNELS, np.int8)
        stored[f"{name}b"] = rng.normal(0, 0.5, CHANNELS).astype(np.float32)
        grid = add("DequantizeLinear", add("QuantizeLinear", x, "s", "z"), "s", "z")
        weights = add("DequantizeLinear", f"{name}q", f"{name}s", f"{name}z", axis=0)
        pads = [size // 2] * 4
        strides = [stride, stride]
        return add("Conv", grid, weights, f"{name}b", pads=pads, strides=strides)

    y = add("Relu", convolution("x", 3, 5, 2))
    for _ in range(2):
        branch = convolution(add("Relu", convolution(y, CHANNELS, 3, 1)), CHANNELS, 3, 1)
        y = add("Relu", add("Add", branch, y))
    y = convolution(y, CHANNELS, 1, 1)
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 2 * SIZE, 2 * SIZE])
    result = helper.make_tensor_value_info(y, TensorProto.FLOAT, [1, CHANNELS, SIZE, SIZE])
    tensors = [numpy_helper.from_array(np.asarray(v), name) for name, v in stored.items()]
    graph = helper.make_graph(nodes, "g", [image], [result], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[Area]]]:
    folder = tmp_path_factory.mktemp("twins")
    onnx.save(residual_network(), folder / "a.onnx")
    areas = list[Area]()
    built = KernelLibrary.build
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUSIONC_PROCESS_LOG_PATH", str(folder / "log"))
        patch.setattr(
            KernelLibrary, "build", lambda self, new: (areas.extend(new), built(self, new))[1]
        )
        report = fusionc.convert(
            folder / "a.onnx", output=folder / "b.onnx", enable_graph_kernel=True
        )
    assert "quantized or rounded elements, which are on the next step" in report.verification
    assert len(areas) == 1
    yield folder / "b.onnx", areas


def judged(model: Path, areas: list[Area], *, has_twins: bool = True) -> Verification:
    """The verdict on kernels of these areas in the model; their twins come from the same areas."""
    built = build(areas)
    assert not built.failed
    twins = AreaTwins(areas) if has_twins else None
    return verify(
        model,
        model,
        kernels=built.library,
        inner_grids=twins,
        input_shape={"x": (1, 3, 2 * SIZE, 2 * SIZE)},
        levels=(),
    )


def test_a_step_at_a_tie_is_legal(converted: tuple[Path, list[Area]]) -> None:
    found = judged(*converted)
    assert found.status == "equal"
    assert "quantized or rounded elements, which are on the next step" in found.summary


def test_without_twins_the_step_is_taken_for_a_fault(converted: tuple[Path, list[Area]]) -> None:
    """This shows that the model has such steps, and that they grow on their way."""
    assert judged(*converted, has_twins=False).status == "different"


def changed(
    area: Area, op_type: str, number: int, place: int, change: Callable[[np.ndarray], np.ndarray]
) -> Area:
    """The area with another constant for one of the operators of this type that read a constant at
    this place. Negative places and numbers count from the end.
    """
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in area.nodes]
    node = [n for n in nodes if n.op_type == op_type and n.input[place] in area.constants][number]
    constant = area.constants[node.input[place]]
    node.input[place] = "changed"
    other = np.asarray(change(constant), constant.dtype)
    return replace(area, nodes=tuple(nodes), constants={**area.constants, "changed": other})


def with_other_skip(area: Area) -> Area:
    """The area whose second sum adds the wrong value."""
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in area.nodes]
    first, second = (node for node in nodes if node.op_type == "Add")
    second.input[1] = first.input[1]
    return replace(area, nodes=tuple(nodes))


def fifth_is_larger(scales: np.ndarray) -> np.ndarray:
    return np.where(np.arange(scales.size).reshape(scales.shape) == 5, 1.01, 1) * scales


def fifth_is_slightly_larger(scales: np.ndarray) -> np.ndarray:
    return scales + (fifth_is_larger(scales) - scales) / 10


def swapped(scales: np.ndarray) -> np.ndarray:
    order = np.arange(scales.size)
    order[[3, 4]] = order[[4, 3]]
    return scales[order]


FAULTS: dict[str, Callable[[Area], Area]] = {
    "a scale off by 1 %": lambda area: changed(area, "QuantizeLinear", 1, 1, lambda s: s * 1.01),
    "the zero point of weights off by one": lambda area: changed(
        area, "DequantizeLinear", 2, 2, lambda zero: zero + 1
    ),
    "the last zero point off by one": lambda area: changed(
        area, "QuantizeLinear", -1, 2, lambda zero: zero + 1
    ),
    "weights of one channel off by 1 %": lambda area: changed(
        area, "DequantizeLinear", 5, 1, fifth_is_larger
    ),
    "weights of one channel off by 0.1 %": lambda area: changed(
        area, "DequantizeLinear", 2, 1, fifth_is_slightly_larger
    ),
    "weights of one channel off by 1 %, in another place": lambda area: changed(
        area, "Mul", 1, 1, fifth_is_larger
    ),
    "two channels swapped": lambda area: changed(area, "Mul", 0, 1, swapped),
    "a wrong sum": with_other_skip,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_wrong_kernel_is_found(
    fault: Callable[[Area], Area], converted: tuple[Path, list[Area]]
) -> None:
    model, (area,) = converted
    found = judged(model, [fault(area)])
    assert found.status == "different", found.summary
