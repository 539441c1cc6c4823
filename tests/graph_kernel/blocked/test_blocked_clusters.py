"""What is in a cluster, and what stays outside; each thing that keeps an operator out is here
alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from networks import MICROSOFT, REPEATED, Network, areas_of, check_all, operators_in, sliced
from onnx import TensorProto, helper

from fusionc.graph_kernel.area import KernelKind
from fusionc.graph_kernel.c.source import reason_against
from fusionc.graph_kernel.flags.flag_table import Flags
from fusionc.graph_kernel.flags.stages import Stages
from fusionc.graph_kernel.fusion import GraphKernelFusion
from fusionc.graph_kernel.select.time_estimate import Savings
from fusionc.passes import PASSES
from fusionc.rewrite.log import RewriteLog
from fusionc.shapes.inference import typed_model

# an operator behind a convolution with 32 channels of 6×6 pixels
Form = Callable[[Network, str], str]


def resized(n: Network, x: str, scales: list[float], **attributes: object) -> str:
    return str(n.op("Resize", x, "", n.const(scales), **attributes))


STRANGE: dict[str, Form] = {
    "an operator without a step": lambda n, x: n.op("Softplus", x),
    "groups of channels that no vector has together": lambda n, x: n.conv(x, 32, 16, group=4),
    "groups that begin anywhere": lambda n, x: n.conv(x, 32, 48, group=2),
    "weights that are computed": lambda n, x: n.op("Conv", x, n.op("Neg", n.random(16, 32, 1, 1))),
    "pads that are too wide": lambda n, x: n.conv(x, 32, 16, pads=[17, 0, 0, 0]),
    "a transposed kernel with gaps": lambda n, x: n.op(
        "ConvTranspose", x, n.random(32, 8, 3, 3), dilations=[2, 2]
    ),
    "groups of a ConvTranspose": lambda n, x: n.op(
        "ConvTranspose", x, n.random(32, 8, 2, 2), strides=[2, 2], group=2
    ),
    "a border that follows from a size": lambda n, x: n.op(
        "ConvTranspose", x, n.random(32, 8, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER"
    ),
    "a transposed kernel that reaches far": lambda n, x: n.op(
        "ConvTranspose", x, n.random(32, 8, 19, 1)
    ),
    "an output shape": lambda n, x: n.op(
        "ConvTranspose", x, n.random(32, 8, 2, 2), strides=[2, 2], output_shape=[12, 12]
    ),
    "means that round up": lambda n, x: n.op(
        "AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1
    ),
    "a rule for borders that rounds up": lambda n, x: n.op(
        "MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, auto_pad="VALID"
    ),
    "a window that would begin beside the image": lambda n, x: n.op(
        "MaxPool", x, kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1
    ),
    "a window that is larger than the image": lambda n, x: n.op(
        "MaxPool", n.op("GlobalMaxPool", x), kernel_shape=[2, 2], strides=[2, 2]
    ),
    "a pool with dilations": lambda n, x: n.op("MaxPool", x, kernel_shape=[2, 2], dilations=[2, 2]),
    "the places of what is largest": lambda n, x: n.op(
        "MaxPool", x, kernel_shape=[2, 2], outputs=2
    )[0],
    "a mean over channels": lambda n, x: n.op("ReduceMean", x, axes=[1]),
    "a mean over rows": lambda n, x: n.op("ReduceMean", x, axes=[2]),
    "a mean without its axis": lambda n, x: n.op("ReduceMean", x, axes=[2], keepdims=0),
    "a mean over all": lambda n, x: n.op("ReduceMean", x),
    "bounds that are computed": lambda n, x: n.op("Clip", x, n.op("ReduceMin", x, keepdims=0)),
    "one number for each channel": lambda n, x: n.op("Add", x, n.random(32, 1, 1)),
    "one number for each pixel": lambda n, x: n.op("Mul", x, n.op("ReduceMean", x, axes=[1])),
    "a row": lambda n, x: n.op("Add", x, n.op("ReduceMean", x, axes=[2])),
    "a difference of images": lambda n, x: n.op("Sub", x, n.op("Neg", x)),
    "a sum of three": lambda n, x: n.op("Sum", x, x, x),
    "a number of rank five": lambda n, x: n.op("Add", x, n.const([[[[[1.0]]]]])),
    "a Concat of rows": lambda n, x: n.op("Concat", x, n.op("Neg", x), axis=2),
    "a Split of columns": lambda n, x: n.op("Split", x, axis=3, outputs=2)[0],
    "a Slice of rows": lambda n, x: sliced(n, x, 0, 3, axis=2),
    "every other channel": lambda n, x: sliced(n, x, 0, 32, step=2),
    "pixels that are mixed": lambda n, x: resized(n, x, [1, 1, 2, 2], mode="linear"),
    "a factor that is not whole": lambda n, x: resized(n, x, [1, 1, 1.5, 2], **REPEATED),
    "a smaller image": lambda n, x: resized(n, x, [1, 1, 0.5, 0.5], **REPEATED),
    "more channels": lambda n, x: resized(n, x, [1, 2, 2, 2], **REPEATED),
    "another way to round": lambda n, x: resized(
        n, x, [1, 1, 2, 2], **{**REPEATED, "nearest_mode": "ceil"}
    ),
    "a factor that rounding spoils": lambda n, x: resized(
        n, x, [1, 1, 3, 3], **{**REPEATED, "nearest_mode": "round_prefer_floor"}
    ),
    "corners that are aligned": lambda n, x: resized(
        n, x, [1, 1, 2, 2], **{**REPEATED, "coordinate_transformation_mode": "align_corners"}
    ),
}


@pytest.mark.parametrize("what", STRANGE)
def test_what_no_step_computes_stays_outside(what: str) -> None:
    n = Network()
    x = n.op("Relu", n.conv(n.input(1, 16, 6, 6), 16, 32))
    STRANGE[what](n, x)
    *before, last = [node.op_type for node in n.nodes]
    (inside,) = operators_in(n, x, n.nodes[-1].output[0])
    assert inside[:2] == ["Conv", "Relu"]
    assert inside == before[: len(inside)] and last not in inside[2:]


def test_an_activation_that_no_step_has() -> None:
    n = Network()
    x = n.op("Relu", n.conv(n.input(1, 16, 6, 6), 16, 32))
    y = n.conv(x, 32, 32, op="FusedConv", activation="Selu")
    assert operators_in(n, x, y) == [["Conv", "Relu"]]


@pytest.mark.parametrize("dtype", [TensorProto.BFLOAT16, TensorProto.DOUBLE])
def test_other_types_stay_outside(dtype: int) -> None:
    n = Network()
    model = n.model(n.op("Relu", n.conv(n.input(1, 16, 6, 6), 16, 32)))
    numpy_type = helper.tensor_dtype_to_np_dtype(dtype)
    for tensor in model.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor).astype(numpy_type)
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = dtype
    assert areas_of(model) == []


def test_one_axis_stays_outside() -> None:
    n = Network()
    x = n.input(1, 16, 6)
    model = n.model(n.op("Relu", n.op("Conv", x, n.random(32, 16, 3))))
    assert areas_of(model) == []


OF_A_CONSTANT: dict[str, Form] = {
    "MatMul": lambda n, c: n.op("MatMul", c, n.random(6, 6)),
    "LayerNormalization": lambda n, c: n.op("LayerNormalization", c, n.random(6)),
    "Relu": lambda n, c: n.op("Relu", c),
    "MaxPool": lambda n, c: n.op("MaxPool", c, kernel_shape=[3, 3], pads=[1] * 4),
    "Split": lambda n, c: n.op("Concat", *n.op("Split", c, axis=1, outputs=2), axis=1),
    "Slice": lambda n, c: sliced(n, c, 0, 32),
    "Concat": lambda n, c: sliced(n, n.op("Concat", c, c, axis=1), 0, 32),
    "Reshape": lambda n, c: n.op("Reshape", c, n.const([1, *n.weights[c].shape], np.int64)),
    "Transpose": lambda n, c: n.op("Transpose", c, perm=[0, 1, 3, 2]),
    "Resize": lambda n, c: sliced(n, resized(n, c, [1, 1, 2, 1], **REPEATED), 0, 6, axis=2),
}


@pytest.mark.parametrize(
    "shape", [(), (6,), (6, 6), (32, 6, 6), (1, 1, 1, 1), (1, 32, 6, 6)], ids=str
)
@pytest.mark.parametrize("op", OF_A_CONSTANT)
def test_what_is_computed_of_a_constant(op: str, shape: tuple[int, ...]) -> None:
    n = Network()
    x = n.op("Relu", n.conv(n.input(1, 16, 6, 6), 16, 32))
    n.outputs = [n.op("Mul", x, OF_A_CONSTANT[op](n, n.random(*shape)))]
    assert ["Conv", "Relu"] in [inside[:2] for inside in operators_in(n, *n.outputs)]
    check_all(n, {})


def test_channels_have_to_be_known() -> None:
    n = Network()
    x = n.op("Relu", n.op("Conv", n.input(1, "C", 6, 6), n.random(32, 16, 3, 3)))
    assert operators_in(n, n.op("Sigmoid", n.op("Conv", x, n.random(8, 32, 1, 1)))) == [
        ["Relu", "Conv", "Sigmoid"]
    ]


def test_weights_that_the_caller_can_override_stay_outside() -> None:
    n = Network()
    model = n.model(n.op("Relu", n.conv(n.input(1, 16, 6, 6), 16, 32)))
    tensor = model.graph.initializer[0]
    model.graph.input.append(
        helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
    )
    assert areas_of(model) == []


def test_a_cluster_needs_a_convolution() -> None:
    n = Network()
    assert (
        operators_in(n, n.op("Sigmoid", n.op("MaxPool", n.input(1, 16, 6, 6), kernel_shape=[2, 2])))
        == []
    )


def test_a_convolution_alone_is_no_cluster() -> None:
    n = Network()
    assert operators_in(n, n.conv(n.input(1, 16, 6, 6), 16, 32)) == []


def test_what_no_convolution_leads_to_stays_outside() -> None:
    n = Network()
    x = n.input(1, 16, 6, 6)
    y = n.input(1, 16, 6, 6)
    a = n.op("Sigmoid", y)
    b = n.op("Relu", n.conv(x, 16, 16))
    assert operators_in(n, a, b) == [["Conv", "Relu"]]


def test_what_leads_to_a_convolution_or_comes_from_one_is_inside() -> None:
    n = Network()
    x = n.op("Sigmoid", n.input(1, 16, 6, 6))
    y = n.op("MaxPool", n.conv(x, 16, 16), kernel_shape=[2, 2])
    assert operators_in(n, y) == [["Sigmoid", "Conv", "MaxPool"]]


def test_no_way_leads_out_of_a_cluster_and_back() -> None:
    n = Network()
    x = n.op("Relu", n.conv(n.input(1, 16, 6, 6), 16, 16))
    outside = n.op("Softplus", x)
    y = n.op("Relu", n.conv(n.op("Add", x, outside), 16, 16))
    assert operators_in(n, y) == [["Conv", "Relu"], ["Add", "Conv", "Relu"]]


def test_a_sum_of_sizes_that_may_broadcast_divides_a_cluster() -> None:
    n = Network()
    x = n.conv(n.input("N", 16, "H", "W"), 16, 16)
    half = n.op("Relu", n.conv(n.op("Relu", x), 16, 16, strides=[2, 2]))
    y = n.op("Add", x, resized(n, half, [1, 1, 2, 2], **REPEATED))  # 1 pixel and 2 would be added
    clusters = operators_in(n, n.op("Relu", n.conv(y, 16, 16)))
    assert [cluster.count("Add") for cluster in clusters] == [0, 0]
    n = Network()
    x = n.conv(n.input("N", 16, 6, 8), 16, 16)
    half = n.op("Relu", n.conv(n.op("Relu", x), 16, 16, strides=[2, 2]))
    y = n.op("Add", x, resized(n, half, [1, 1, 2, 2], **REPEATED))
    assert len(operators_in(n, n.op("Relu", n.conv(y, 16, 16)))) == 1


def test_batches_have_to_be_the_same() -> None:
    n = Network()
    x = n.op("Relu", n.conv(n.input("N", 16, 6, 6), 16, 16))
    y = n.op("Relu", n.conv(n.input("M", 16, 6, 6), 16, 16))
    assert operators_in(n, n.op("Concat", x, y, axis=1)) == [["Conv", "Relu"], ["Conv", "Relu"]]
    assert operators_in(n, n.op("Add", x, y)) == [["Conv", "Relu"], ["Conv", "Relu"]]


def test_a_concat_within_a_block_stays_outside() -> None:
    n = Network()
    x = n.op("Relu", n.conv(n.input(1, 16, 6, 6), 16, 24))
    assert operators_in(n, n.op("Concat", x, n.op("Neg", x), axis=1)) == [["Conv", "Relu"]]


def test_areas_say_what_they_are() -> None:
    n = Network()
    model = n.model(n.op("Relu", n.conv(n.conv(n.input(1, 16, 20, 20), 16, 16), 16, 16)))
    (one,) = areas_of(model, KernelKind.BLOCKED)
    (other,) = areas_of(model, KernelKind.WINOGRAD)
    assert (one.area.kind, other.area.kind) == (KernelKind.BLOCKED, KernelKind.WINOGRAD)
    assert "_blocked_" in one.area.name and one.area.name != other.area.name


def test_layers_of_equal_shapes_share_a_program() -> None:
    n = Network()
    x = n.op("Relu", n.conv(n.conv(n.input(1, 16, 20, 20), 16, 16), 16, 16))
    y = n.op("Relu", n.conv(n.conv(n.op("Softplus", x), 16, 16), 16, 16))
    one, other = areas_of(n.model(y))
    assert one.area.name == other.area.name


def fused(model: onnx.ModelProto, *off: str) -> dict[str, tuple[int, int]]:
    """How often each pass of areas matched and took effect, as with kernels, which are not
    built.
    """
    registry = {p.name: p for p in PASSES}
    enabled = frozenset(p.name for p in PASSES if p.default != "off").difference(off)
    flags = Flags(opt_level=2)
    fusion = GraphKernelFusion(
        flags, Stages(flags), registry, enabled, reason_against, Savings().of, has_programs=True
    )
    counts = fusion.run(typed_model(model, ""), RewriteLog()).counts
    return {c.pass_name: (c.matched, c.effected) for c in counts if c.matched}


def deep(channels: int = 64, **attributes: object) -> onnx.ModelProto:
    n = Network()
    x = n.input(1, channels, 40, 40)
    for _ in range(3):
        x = n.op("Relu", n.conv(x, channels, channels, **attributes))
    return n.model(x)


def separable(kernel: int) -> onnx.ModelProto:
    n = Network()
    x = n.input(1, 192, 40, 40)
    for _ in range(4):
        x = n.op("Relu", n.conv(n.conv(x, 192, 192, 1), 192, 192, kernel, group=192))
    return n.model(x)


BLOCKED = "BlockedConvolutionFusionPass"
WINOGRAD = "WinogradConvolutionPass"
PRODUCTS = "BlockedMatMulFusionPass"
STRASSEN = "StrassenMatMulPass"


def test_areas_and_convolutions_by_winograd_are_counted() -> None:
    assert fused(deep()) == {BLOCKED: (1, 1), WINOGRAD: (3, 3)}


def near_grids(*, at_begin: bool, at_end: bool) -> onnx.ModelProto:
    """Three convolutions in a row, of dequantized values or with a quantized result."""
    n = Network()
    grid = n.const(0.05), n.const(100, np.uint8)

    def quantized(x: str) -> str:
        return str(n.op("DequantizeLinear", n.op("QuantizeLinear", x, *grid), *grid))

    x = n.input(1, 64, 56, 56)
    x = quantized(x) if at_begin else x
    for _ in range(3):
        x = n.op("Relu", n.conv(x, 64, 64))
    x = n.op("MaxPool", x, kernel_shape=[2, 2])
    return n.model(quantized(x) if at_end else x)


@pytest.mark.parametrize(
    ("at_begin", "at_end", "times"),
    [(False, False, 3), (True, False, 2), (False, True, 2), (True, True, 1)],
)
def test_what_is_next_to_a_quantization_is_computed_directly(
    at_begin: bool, at_end: bool, times: int
) -> None:
    assert fused(near_grids(at_begin=at_begin, at_end=at_end))[WINOGRAD] == (times, times)


def test_a_group_with_an_operator_without_a_step_is_left_to_onnxruntime() -> None:
    n = Network()
    grid = n.const(0.05), n.const(100, np.uint8)
    x = n.op("DequantizeLinear", n.op("QuantizeLinear", n.input(1, 64, 64), *grid), *grid)
    x = n.op("QuantizeLinear", n.op("Softmax", x), *grid)
    assert fused(n.model(n.op("DequantizeLinear", x, *grid))) == {}


def rows_by_matrices(rows: int | str) -> onnx.ModelProto:
    n = Network()
    x = n.op("Gelu", n.product(n.input(1, rows, 768), 768, 3072), domain=MICROSOFT)
    return n.model(n.product(x, 3072, 768))


@pytest.mark.parametrize(("rows", "times"), [(16, 0), (400, 2), ("M", 2)])
def test_products_by_strassen_are_counted(rows: int | str, times: int) -> None:
    counts = fused(rows_by_matrices(rows))
    assert counts[PRODUCTS] == (1, 1) and counts.get(STRASSEN, (0, 0)) == (times, times)


def test_without_its_pass_products_are_computed_directly() -> None:
    assert fused(rows_by_matrices(400), STRASSEN) == {PRODUCTS: (1, 1)}
    assert not {PRODUCTS, STRASSEN} & fused(rows_by_matrices(400), PRODUCTS).keys()


def test_what_onnxruntime_computes_as_fast_is_refused() -> None:
    assert fused(deep(192, strides=[2, 2]), WINOGRAD) == {BLOCKED: (1, 1)}
    assert fused(separable(3)) == {BLOCKED: (1, 1)}
    assert fused(separable(9)) == {BLOCKED: (1, 0)}


def test_what_copies_may_take_is_refused() -> None:
    """An image in and one out, between them as little to do as convolutions by channel have."""
    assert fused(deep(group=64)) == {BLOCKED: (1, 0)}
    assert fused(deep(64, strides=[2, 2]), WINOGRAD) == {BLOCKED: (1, 0)}


def test_without_the_pass_there_are_no_such_areas() -> None:
    assert fused(deep(), BLOCKED) == {}


def test_what_is_refused_is_left_to_other_areas() -> None:
    n = Network()
    x = n.conv(n.input(1, 16, 40, 40), 16, 16, 9, group=16)
    x = n.op("Neg", n.op("Abs", n.op("Exp", n.op("HardSigmoid", x))))
    counts = fused(n.model(n.op("HardSigmoid", x)))
    assert counts.pop(BLOCKED) == (1, 0) and len(counts) == 1


def test_a_mean_of_an_image_behind_a_transpose_is_of_other_axes() -> None:
    """Of one channel nothing but the axes tells both apart."""
    n = Network()
    x = n.op("Transpose", n.op("Relu", n.conv(n.input(1, 16, 6, 5), 16, 1)), perm=[0, 2, 3, 1])
    assert operators_in(n, n.op("ReduceMean", x, axes=[2, 3])) == [["Conv", "Relu"]]
