"""Areas on float16 compute what the same areas compute on float32, and round once: where they write
a tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest
from kernels_run import run_kernel
from networks import MICROSOFT, Array, Found, Network, only_area, wanted
from onnx import TensorProto, helper
from onnxruntime.transformers.float16 import convert_float_to_float16
from standalone_programs import Standalone, widths
from test_kernels import classified, convnext, dense, halved, mixed, spare, wide

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.blocked.float16_values import in_float32
from fusionc.graph_kernel.library.build_library import build

pytestmark = pytest.mark.usefixtures("needs_a_compiler")
SIZES = {"N": 2, "H": 7, "W": 11}  # programs without optimization are slow


def attention(has_bias: bool = True) -> Network:
    """Rows, products and attention with a tensor that is added to the scores."""
    n = Network(seed=7)
    x = n.input("N", 9, 32)
    parts = [n.product(x, 32, 32) for _ in range(3)]
    inputs = [*parts, "", "", n.input("N", 1, 9, 9)] if has_bias else parts
    y = n.op("MultiHeadAttention", *inputs, domain=MICROSOFT, num_heads=2)
    y = n.op("Add", n.product(y, 32, 32), x)
    y = n.op("LayerNormalization", y, n.random(32), n.random(32), epsilon=1e-5)
    n.outputs = [n.op("Gelu", n.product(y, 32, 40), domain=MICROSOFT)]
    return n


NETWORKS: dict[str, Callable[[], Network]] = {
    "mixed": lambda: mixed(17),
    "mixed_24": lambda: mixed(24),
    "dense": dense,
    "wide": wide,
    "halved": halved,
    "spare": spare,
    "convnext": convnext,
    "classified": classified,
    "attention": attention,
}


def in_float16(network: Network, keep_io_types: bool) -> onnx.ModelProto:
    """The model as a converter writes it, with Casts around operators that stay in float32."""
    return convert_float_to_float16(
        network.model(), keep_io_types=keep_io_types, disable_shape_infer=True
    )


def widened(area: Area) -> Area:
    wide, _ = in_float32(area)
    return replace(wide, name=f"{area.name}_wide")


def tensors_of(found: Found, network: Network) -> list[Array]:
    """Inputs of an area whose images are all inputs of the network."""
    feeds = network.feeds(SIZES)
    types = [found.area.values[name].dtype for name in found.area.inputs]
    return [
        tensor.astype(helper.tensor_dtype_to_np_dtype(dtype))
        for tensor, dtype in zip(found.tensors(feeds), types, strict=True)
    ]


def as_floats(tensors: list[Array]) -> list[Array]:
    return [t.astype(np.float32) if t.dtype == np.float16 else t for t in tensors]


def found_in(name: str, keep_io_types: bool = False) -> tuple[Found, list[Array]]:
    network = NETWORKS[name]()
    found = only_area(in_float16(network, keep_io_types))
    names = {k: name.replace("graph_input_cast_", "in") for k, name in found.images.items()}
    found = replace(found, images=names)
    return found, tensors_of(found, network)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Standalone:
    areas = [found_in(name, keeps)[0].area for name in NETWORKS for keeps in (False, True)]
    areas += [scaled().area, overflowing().area]
    areas = [one for area in areas for one in (area, widened(area))]
    return Standalone(areas, tmp_path_factory.mktemp("float16"), ["-O0"])


@pytest.mark.parametrize("keep_io_types", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_only_results_are_rounded(name: str, keep_io_types: bool, programs: Standalone) -> None:
    found, tensors = found_in(name, keep_io_types)
    assert TensorProto.FLOAT16 in {value.dtype for value in found.area.values.values()}
    for width in widths():
        exact = programs.run(widened(found.area), as_floats(tensors), width)
        made = programs.run(found.area, tensors, width)
        for a, b in zip(exact, made, strict=True):
            np.testing.assert_array_equal(a.astype(b.dtype), b, f"vectors of {width}")


@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_nearer_to_the_truth_than_those_of_onnxruntime(
    name: str, programs: Standalone
) -> None:
    """By the largest distance from the float32 results; both may be off by the last rounding."""
    found, tensors = found_in(name)
    plain = wanted(found.area, tensors)
    exact = wanted(widened(found.area), as_floats(tensors))
    for truth, theirs, ours in zip(exact, plain, programs.run(found.area, tensors), strict=True):
        ours, theirs = (array.astype(np.float32) for array in (ours, theirs))
        last = np.abs(truth).max() * 2.0**-11
        assert np.abs(ours - truth).max() <= max(np.abs(theirs - truth).max(), 1.01 * last)


def overflowing() -> Found:
    """Rows that are normalized, and that are an output as well."""
    n = Network()
    x = n.product(n.input("N", 9, 32), 32, 32)
    norm = n.op("LayerNormalization", x, n.random(32), n.random(32), epsilon=1e-5)
    n.outputs = [x, n.product(norm, 32, 16)]
    found = only_area(in_float16(n, keep_io_types=False))
    return replace(found, images=dict.fromkeys(found.images, "in0"))


def test_what_is_written_as_infinity_is_read_as_infinity(programs: Standalone) -> None:
    """In float32 the rows could be normalized all the same."""
    found = overflowing()
    rng = np.random.default_rng(0)
    images = rng.standard_normal((2, 9, 32)).astype(np.float16)
    images[1, 4] *= np.float16(30000)
    tensors = found.tensors({"in0": images})
    halves = [t.astype(np.float16) for t in tensors]
    for width in widths():
        rows, normalized = sorted(programs.run(found.area, halves, width), key=lambda a: -a.size)
        is_lost = np.isinf(rows).any(-1)
        assert is_lost.sum() == 1 and is_lost[1, 4]
        np.testing.assert_array_equal(np.isnan(normalized).all(-1), is_lost)
        np.testing.assert_array_equal(np.isnan(normalized).any(-1), is_lost)


FACTORS = (1.0, 3.0, 1 / 3, 65504.0, 2.0**-10, 2.0**-14, -1.0009765625, 0.5, 2.0**15, 1e-7, 0.75)


def scaled() -> Found:
    """Each channel times a number: the first convolution loads, and the second one stores."""
    n = Network()
    channels = len(FACTORS)
    ones = n.const(np.ones((channels, 1, 1, 1)))
    factors = n.const(np.reshape(FACTORS, (channels, 1, 1, 1)))
    x = n.op("Conv", n.input(1, channels, 64, 1024), ones, group=channels)
    n.outputs = [n.op("Conv", x, factors, group=channels)]
    found = only_area(in_float16(n, keep_io_types=False))
    return replace(found, images=dict.fromkeys(found.images, "in0"))


def test_every_number_of_float16_is_read_and_rounded(programs: Standalone) -> None:
    """All bit patterns: subnormal numbers, 65504, infinities, NaN; products of them overflow, are
    halfway between two numbers, or are subnormal.
    """
    found = scaled()
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    image = np.broadcast_to(every, (len(FACTORS), 2**16)).reshape(1, len(FACTORS), 64, 1024)
    tensors = [found.constants.get(name, image) for name in found.area.inputs]
    factors = np.array(FACTORS).astype(np.float16).astype(np.float32).reshape(-1, 1, 1)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = (image.astype(np.float32) * factors).astype(np.float16)
    for width in widths():
        (made,) = programs.run(found.area, tensors, width)
        np.testing.assert_array_equal(made, expected, f"vectors of {width}")


def test_kernels_in_onnxruntime() -> None:
    """With the weights that a session has."""
    cases = [found_in(name) for name in ("mixed", "wide", "attention")]
    library = build([found.area for found, _ in cases]).library
    assert library is not None
    for found, tensors in cases:
        exact = wanted(widened(found.area), as_floats(tensors))
        for truth, made in zip(exact, run_kernel(found, tensors, library), strict=True):
            assert made.dtype == np.float16
            scale = np.abs(truth).max()
            np.testing.assert_allclose(made, truth, rtol=0, atol=scale * 2.0**-10)


# an operator after a convolution of 32 channels in float16 → whether the area has it
FORMS: dict[str, tuple[Callable[[Network, str], str], bool]] = {
    "a Cast to float32": (lambda n, x: n.op("Cast", x, to=TensorProto.FLOAT), True),
    "a Cast to float32 and back": (
        lambda n, x: n.op("Cast", n.op("Cast", x, to=TensorProto.FLOAT), to=TensorProto.FLOAT16),
        True,
    ),
    "a Cast to float64": (lambda n, x: n.op("Cast", x, to=TensorProto.DOUBLE), False),
    "a Cast to bfloat16": (lambda n, x: n.op("Cast", x, to=TensorProto.BFLOAT16), False),
    "a Cast to integers": (lambda n, x: n.op("Cast", x, to=TensorProto.INT32), False),
    "an operator without a step": (lambda n, x: n.op("Softplus", x), False),
}


@pytest.mark.parametrize("name", FORMS)
def test_operators_of_areas(name: str) -> None:
    form, is_inside = FORMS[name]
    n = Network()
    x = n.op("Relu", n.op("Conv", n.input(1, 16, 6, 6), n.const(n.rng.random((32, 16, 1, 1)))))
    n.outputs = [x, form(n, x)]
    model = n.model()
    for value in (*model.graph.input, *model.graph.output[:1]):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for tensor in model.graph.initializer:
        tensor.CopyFrom(
            onnx.numpy_helper.from_array(
                onnx.numpy_helper.to_array(tensor).astype(np.float16), tensor.name
            )
        )
    last = model.graph.node[-1]
    kept = [a.i for a in last.attribute if a.name == "to"]
    model.graph.output[1].type.tensor_type.elem_type = kept[0] if kept else TensorProto.FLOAT16
    operators = [node.op_type for node in only_area(model).area.nodes]
    casts = [node.op_type for node in model.graph.node[2:]]
    assert operators == ["Conv", "Relu", *(casts if is_inside else [])]
