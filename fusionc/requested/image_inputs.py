"""The inputs whose layout --insert_op_conf or --input_format changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from onnx import ModelProto

from fusionc.requested.aipp.aipp_file import AippBlock
from fusionc.requested.aipp.aipp_inputs import inputs_of_blocks, preprocess_inputs
from fusionc.requested.aipp.preprocessing import Preprocessing
from fusionc.requested.input_layout import (
    NHWC,
    as_nhwc,
    image_inputs,
    nhwc_axis,
    transpose_inputs,
)

_Size = TypeVar("_Size")


@dataclass(frozen=True)
class ImageInputs:
    """The inputs that take images in the layout (N, H, W, C) after the change. The model took them
    in (N, C, H, W).
    """

    preprocessing: Mapping[str, Preprocessing] = field(default_factory=dict)  # by input name
    names: Sequence[str] = ()  # of all these inputs

    def notices(self) -> list[str]:
        """What the caller of the result has to give to each of these inputs."""
        notices = [f"{name} takes images in the layout (N, H, W, C)" for name in self.names]
        for at, steps in enumerate(self.preprocessing.values()):
            sizes = ", ".join(str(size or "?") for size in steps.image_sizes)
            notices[at] = f"{self.names[at]} takes images of uint8 in {steps.format}: (N, {sizes})"
        return notices

    def shape(self, name: str, shape: Sequence[_Size]) -> Sequence[_Size]:
        """A shape for the former layout of an input, in the order of its new layout."""
        return as_nhwc(shape) if name in self.names and len(shape) == 4 else shape

    def has_sizes_of_model(self, name: str) -> bool:
        """Whether the images in an input have the height and the width that the model takes."""
        steps = self.preprocessing.get(name)
        return steps is None or (steps.height is None and not any(steps.pads))

    def axis(self, name: str, axis: int) -> int:
        """The place of an axis in the new layout of an input."""
        return nhwc_axis(axis) if name in self.names else axis


def change_images(
    model: ModelProto, blocks: Sequence[AippBlock], input_format: str | None
) -> ImageInputs:
    """Change the inputs of the model that take images. Raises UsageError if the model has no such
    input, or if a block of AIPP does not fit it.
    """
    by_name = inputs_of_blocks(model, blocks)
    others = image_inputs(model) if input_format == NHWC else []
    transposed = [name for name in others if name not in by_name]
    preprocessing = preprocess_inputs(model, by_name)
    transpose_inputs(model, transposed)
    return ImageInputs(preprocessing, [*preprocessing, *transposed])
