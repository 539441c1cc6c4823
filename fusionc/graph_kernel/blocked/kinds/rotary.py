"""Rotary position embedding of rows: pairs of channels are rotated by angles that depend on the
row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import onnx

from fusionc.graph_kernel.blocked.heads import ROWS_RANK, float_shape, heads_of
from fusionc.graph_kernel.blocked.image_area import ImageArea, Operation, UnfitOperator
from fusionc.graph_kernel.blocked.operator_reading import OperatorReading
from fusionc.graph_kernel.blocked.step_kind import BLOCK, StepEstimate, StepFunctions, StepKind
from fusionc.graph_kernel.lower.area_info import attribute
from fusionc.model.operators import MICROSOFT

_TABLE_RANK = 2  # the axes of the tables of cosines and sines: positions and pairs
_UNKNOWN = ("interleaved", "rotary_embedding_dim", "is_packed_batching")  # unsupported attributes
# Seconds for each element of the rows: here (measured with AVX2: 0.26 to 0.33 ns), then in
# onnxruntime (0.24 to 0.28 ns). The step itself saves no time, but without it the attention that
# follows could not be in the area.
_NUMBER = 0.3e-9
_NUMBER_THERE = 0.25e-9


@dataclass(frozen=True)
class RotaryStep(StepKind):
    """Rotates pairs of channels that are half a head apart. `second` contains the cosines of the
    angles, and `third` contains the sines. Both have a row for each row of a batch.
    """

    heads: int
    functions = StepFunctions(task="rotate", fault="rotary_fault")
    keeps_pixels = True
    reads_tables = True

    def seconds(self, of: StepEstimate) -> tuple[float, float]:
        numbers = of.out.pixels * of.out.channels
        return numbers * _NUMBER, numbers * _NUMBER_THERE


def rotary_embedding(images: ImageArea, node: onnx.NodeProto) -> Operation | None:
    """RotaryEmbedding of rows, or of rows that are split into heads. Positions must begin with 0.
    Raises UnfitOperator. Returns None for an input of a fragment that is split into heads.
    """
    name, positions, cosines, sines = node.input
    if any(attribute(node, what, 0) for what in _UNKNOWN) or attribute(node, "scale", 1.0) != 1:
        raise UnfitOperator("no step embeds positions in this way")
    if images.number(positions) != 0:
        raise UnfitOperator("its positions are not known to begin with 0")
    half = _half_of_head(images, (cosines, sines))
    if len(float_shape(images, name)) == ROWS_RANK:
        kind = _kind(images, node, name, half, None)
        images.note(node.output[0], images.image(name))
        return Operation(kind, node.output[0], name, cosines, sines)
    heads = heads_of(images, name)
    if heads is None:
        return None
    kind = _kind(images, node, heads.image, half, heads.count)
    out = f"{node.output[0]}/rows"
    images.note_alike(out, heads.image)
    images.note_part(node.output[0], replace(heads, image=out))
    return Operation(kind, out, heads.image, cosines, sines)


def _kind(
    images: ImageArea, node: onnx.NodeProto, rows: str, half: int, known: int | None
) -> RotaryStep:
    """The step for rows whose heads have 2 · `half` channels. Raises UnfitOperator if the number of
    heads is not `known` (if that is not None), or not that of the operator's attribute.
    """
    channels = images.image(rows).channels
    heads = channels // (2 * half)
    declared = {int(attribute(node, "num_heads", 0)) or heads, known or heads}
    if heads * 2 * half != channels or declared != {heads}:
        raise UnfitOperator("its cosines and sines do not fit its heads")
    return RotaryStep(heads)


def _half_of_head(images: ImageArea, tables: tuple[str, str]) -> int:
    """The number of columns of the cosines and sines: half of the channels of a head. Raises
    UnfitOperator.
    """
    if any(len(float_shape(images, table)) != _TABLE_RANK for table in tables):
        raise UnfitOperator("its cosines and sines are not a table")
    columns = {images.image(table).channels for table in tables}
    (half,) = columns if len(columns) == 1 else (0,)
    if half == 0 or half % BLOCK:
        raise UnfitOperator("half of a head is not whole blocks of channels")
    return half


_READING = OperatorReading(rotary_embedding, of_heads=True, tables=(2, 3))
READINGS = {(MICROSOFT, "RotaryEmbedding"): _READING}
