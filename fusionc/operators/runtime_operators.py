"""Types and shapes of the outputs of onnxruntime's own operators, and of the few standard operators
for which onnx infers nothing.

The element types come from onnxruntime's definitions: each output has the type of an input, or a
fixed type. A rule returns a shape only if the shape follows from an attribute, or if onnxruntime
rejects all inputs that would lead to another shape. `benchmarks/enforced_sizes.py` tests these
rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from onnx import TensorProto

from fusionc.operators.broadcast_shapes import broadcast
from fusionc.operators.domains import MICROSOFT, TRADITIONAL

Shape = tuple["int | str | None", ...]
# element type (0 if unknown) and shape of each output
OutputTypes = list[tuple[int, Shape | None]]


class CallLike(Protocol):
    """The part of a call that the rules read."""

    @property
    def op(self) -> str: ...

    @property
    def operator(self) -> tuple[str, str]: ...

    @property
    def inputs(self) -> Sequence[Any]: ...

    def attr(self, name: str, default: Any = None) -> Any: ...


# Operators whose first output has the element type of the first input. For other outputs, no type
# is known.
_FIRST = """
    BiasAdd BiasGelu BiasSoftmax BiasSplitGelu CDist ComplexMul ComplexMulConj
    ConvTransposeWithDynamicPads CropAndResize DynamicQuantizeMatMul ExpandDims FastGelu FusedMatMul
    FusedMatMulActivation GatedAdd GatedRMSNorm GatedRelativePositionBias GatherND Gelu GemmFastGelu
    GroupNorm Inverse Irfft LongformerAttention MatMulBnb4 MatMulFpQ4 MatMulNBits MaxpoolWithMask
    MoE NhwcConv NhwcFusedConv NhwcMaxPool PackedAttention PackedMultiHeadAttention Pad QLinearAdd
    QLinearAveragePool QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearReduceMean
    QLinearSigmoid QLinearSoftmax QMoE QuickGelu Range RelativePositionBias RestorePadding Rfft
    RotaryEmbedding ScaledSiLU SwiGLU TorchEmbedding TransposeMatMul Trilu UnfoldTensor
"""
# Operators, each with one word for each output: the position of the input that has the same element
# type, or a fixed type, or "-" for an unknown type.
_OTHERS = """
    Attention 0 0 / AttnLSTM 0 0 0 / BiasDropout 0 bool / BitmaskBiasDropout 0 uint32
    BitmaskDropout 0 uint32 / CausalConvWithState 0 0 / DecoderAttention 0 0 0
    DecoderMaskedMultiHeadAttention 0 0 0 / DecoderMaskedSelfAttention 0 0 / DequantizeLinear 1
    DynamicQuantizeLSTM 0 0 0 / DynamicTimeWarping int32 / EmbedLayerNormalization 2 0 2
    GatherBlockQuantized 2 / GemmaRotaryEmbedding 1 1 / GroupQueryAttention 0 3 3 0
    IsAllFinite bool / LinearAttention 0 3 / MatMulIntegerToFloat 2 / MulInteger int32
    MultiHeadAttention 0 0 0 / NGramRepeatBlock 1 / PagedAttention 0 3 3 / QAttention 2 2
    QEmbedLayerNormalization 8 0 / QLinearConcat 1 / QLinearConv 7 / QLinearWhere 1
    QuantizeLinear 2 / SkipGroupNorm 0 0 / SkipLayerNormalization 0 float float 0
    SkipSimplifiedLayerNormalization 0 float float 0 / SparseAttention 0 0 0
    SparseToDenseMatMul 1 / Unique 0 int64 int64 / WordConvEmbedding 1
"""
_STANDARD = (
    "SimplifiedLayerNormalization 1 - / GroupNormalization 0 / LayerNormalization 0 / "
    "MeanVarianceNormalization 0"
)
_TRADITIONAL = (
    "Normalizer float / Scaler float / LinearRegressor float / SVMRegressor float / Imputer 0"
)


def _read(rows: str, domain: str) -> dict[tuple[str, str], tuple[str, ...]]:
    words = [row.split() for line in rows.splitlines() for row in line.split("/") if row.strip()]
    return {(domain, op): tuple(types) for op, *types in words}


ELEMENT_TYPES: dict[tuple[str, str], tuple[str, ...]] = {
    **{(MICROSOFT, op): ("0",) for op in _FIRST.split()},
    **_read(_OTHERS, MICROSOFT),
    **_read(_STANDARD, ""),
    **_read(_TRADITIONAL, TRADITIONAL),
}


def runtime_types(call: CallLike) -> OutputTypes | None:
    """The known types and shapes of the outputs of one of these operators; None for others."""
    types = ELEMENT_TYPES.get(call.operator)
    if types is None:
        return None
    rule = _SHAPES.get(call.operator)
    try:
        shapes = list(rule(call)) if rule is not None else []
    # The rule failed because an input is omitted, or has an unknown shape or an unexpected rank.
    except (IndexError, TypeError, AttributeError):
        shapes = []
    shapes += [None] * len(types)
    return [
        (_element_type(call, source), shape) for source, shape in zip(types, shapes, strict=False)
    ]


def _element_type(call: CallLike, source: str) -> int:
    if source.isdigit():
        value = call.inputs[int(source)] if int(source) < len(call.inputs) else None
        return 0 if value is None else int(value.elem_type)
    return 0 if source == "-" else int(TensorProto.DataType.Value(source.upper()))


def _shape(call: CallLike, index: int) -> Shape:
    """The shape of an input. Raises TypeError if the shape is unknown."""
    return tuple(call.inputs[index].shape)


def _first_shape(call: CallLike) -> list[Shape | None]:
    return [_shape(call, 0)]


def _skip_norm_shapes(call: CallLike) -> list[Shape | None]:
    x = _shape(call, 0)
    return [x, None, None, x]


def _matrices(call: CallLike, a: int = 0, b: int = 1) -> list[Shape | None]:
    left = _shape(call, a)
    right = _shape(call, b)
    if min(len(left), len(right)) < 2:
        return [None]
    if call.attr("transBatchA"):
        left = (*left[1:-1], left[0], left[-1])
    if call.attr("transBatchB"):
        right = (*right[1:-1], right[0], right[-1])
    rows = left[-1 if call.attr("transA") else -2]
    columns = right[-2 if call.attr("transB") else -1]
    return [(*broadcast(left[:-2], right[:-2]), rows, columns)]


def _columns(call: CallLike) -> list[Shape | None]:
    """The weights are packed, so their shape does not have the number of columns. The attribute N
    has it.
    """
    return [(*_shape(call, 0)[:-1], call.attr("N"))]


def _gathered(call: CallLike) -> list[Shape | None]:
    data = _shape(call, 0)
    indices = _shape(call, 1)
    axis = call.attr("gather_axis", 0)
    axis %= len(data)
    last = data[-1]
    # a byte holds two elements
    if call.inputs[0].elem_type == TensorProto.UINT8 and call.attr("bits", 4) == 4:
        last = 2 * last if isinstance(last, int) else None
    data = (*data[:-1], last)
    return [(*data[:axis], *indices, *data[axis + 1 :])]


def _embedded(call: CallLike) -> list[Shape | None]:
    ids = _shape(call, 0)
    words = _shape(call, 2)
    return [(*ids, words[1]), (ids[0],), (*ids, words[1])]


def _attention(call: CallLike) -> list[Shape | None]:
    x = _shape(call, 0)
    weights = _shape(call, 1)
    sizes = call.attr("qkv_hidden_sizes")
    width = weights[1] // 3 if isinstance(weights[1], int) else None
    return [(*x[:2], sizes[2] if sizes else width)] if len(x) == 3 else [None]


def _with_first_shape(*ops: str) -> dict[tuple[str, str], Callable[[CallLike], list[Shape | None]]]:
    return {(MICROSOFT, op): _first_shape for op in ops}


_SHAPES: dict[tuple[str, str], Callable[[CallLike], list[Shape | None]]] = {
    **_with_first_shape(
        "BiasGelu", "FastGelu", "Gelu", "Inverse", "QMoE", "QuickGelu", "RotaryEmbedding", "Trilu"
    ),
    **_with_first_shape(
        "QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax", "QuantizeLinear", "DequantizeLinear"
    ),
    **dict.fromkeys(
        ((MICROSOFT, f"Skip{op}LayerNormalization") for op in ("", "Simplified")), _skip_norm_shapes
    ),
    **dict.fromkeys(
        (
            (MICROSOFT, op)
            for op in (
                "DynamicQuantizeMatMul",
                "FusedMatMul",
                "FusedMatMulActivation",
                "MatMulIntegerToFloat",
            )
        ),
        _matrices,
    ),
    (MICROSOFT, "TransposeMatMul"): _matrices,
    (MICROSOFT, "MatMulNBits"): _columns,
    (MICROSOFT, "GatherBlockQuantized"): _gathered,
    (MICROSOFT, "EmbedLayerNormalization"): _embedded,
    (MICROSOFT, "Attention"): _attention,
    (MICROSOFT, "QAttention"): _attention,
    (MICROSOFT, "CDist"): lambda call: [(_shape(call, 0)[0], _shape(call, 1)[0])],
    **dict.fromkeys(
        ((MICROSOFT, op) for op in ("QLinearAdd", "QLinearMul")),
        lambda call: [broadcast(_shape(call, 0), _shape(call, 3))],
    ),
    (MICROSOFT, "QLinearWhere"): lambda call: [
        broadcast(_shape(call, 0), _shape(call, 1), _shape(call, 4))
    ],
    **{(TRADITIONAL, op): _first_shape for op in ("Normalizer", "Scaler", "Imputer")},
    **{
        ("", op): _first_shape
        for op in ("GroupNormalization", "LayerNormalization", "MeanVarianceNormalization")
    },
    ("", "SimplifiedLayerNormalization"): _first_shape,
}
