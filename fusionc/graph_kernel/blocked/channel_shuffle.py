"""Channel shuffle, which interleaves the channels of groups. A Reshape splits the channels into two
axes, a Transpose swaps these axes, and a second Reshape merges them.
"""

from __future__ import annotations

from dataclasses import replace

import onnx

from fusionc.graph_kernel.blocked.image_area import (
    GroupedChannels,
    ImageArea,
    ImageCut,
    Operation,
    UnfitOperator,
)
from fusionc.graph_kernel.blocked.kinds.pick import PickStep
from fusionc.graph_kernel.lower.area_info import attribute

_AXES = 5
_IMAGE_AXES = 4
_INTERLEAVING = (0, 2, 1, 3, 4)
_Shape = tuple[int | str, ...]


def has_five_axes(images: ImageArea, name: str) -> bool:
    """Whether a value has five axes: those of an image, with the axis of channels split into
    two.
    """
    return len(images.shape(name)) == _AXES


def of_groups(images: ImageArea, node: onnx.NodeProto) -> Operation | ImageCut | None:
    """Read one of the two Reshapes. The first one has no operation of its own, so None is
    returned.
    """
    name = node.input[0]
    out = node.output[0]
    before = images.shape(name)
    after = images.shape(out)
    images.require_known_shape(node)
    if len(before) == _IMAGE_AXES and len(after) == _AXES:
        _require_same_pixels(before, after)
        group, each = after[1:3]
        if not isinstance(group, int) or not isinstance(each, int):
            raise UnfitOperator("it moves elements between channels and pixels")
        if group * each != images.image(name).channels:
            raise UnfitOperator("it moves elements between channels and pixels")
        images.note_part(out, GroupedChannels(name, group, False))
        return None
    _require_same_pixels(after, before)
    grouped = images.part(name, GroupedChannels)
    images.note(out, images.images[grouped.image] if grouped else None)
    if grouped is None:
        return None
    if not grouped.is_interleaved:
        return ImageCut(grouped.image, ((out, 0),))
    return Operation(PickStep(groups=grouped.group), out, grouped.image)


def interleaved(images: ImageArea, node: onnx.NodeProto) -> None:
    """Read the Transpose between the two Reshapes."""
    if tuple(attribute(node, "perm") or ()) != _INTERLEAVING:
        raise UnfitOperator("it moves other axes than those of channels")
    grouped = images.part(node.input[0], GroupedChannels)
    if grouped is not None:
        images.note_part(
            node.output[0], replace(grouped, is_interleaved=not grouped.is_interleaved)
        )


def _require_same_pixels(image: _Shape, groups: _Shape) -> None:
    """Raises UnfitOperator unless an image and its form with two axes of channels have the same
    batches, rows and columns. `image` and `groups` are the two shapes.
    """
    if (*image[:1], *image[2:]) != (*groups[:1], *groups[3:]):
        raise UnfitOperator("it moves elements between channels and pixels")
