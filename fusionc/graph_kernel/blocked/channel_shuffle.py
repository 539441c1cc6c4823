"""Channels of groups that take turns, as a Reshape, a Transpose and a Reshape write it: between
these they have two axes.
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
    """Whether a value has one axis more than an image, as one whose channels have two."""
    return len(images.shape(name)) == _AXES


def of_groups(images: ImageArea, node: onnx.NodeProto) -> Operation | ImageCut | None:
    """The Reshape in front, which does nothing yet, or the one behind."""
    name = node.input[0]
    out = node.output[0]
    before = images.shape(name)
    behind = images.shape(out)
    images.require_known_shape(node)
    if len(before) == _IMAGE_AXES and len(behind) == _AXES:
        _require_same_pixels(before, behind)
        group, each = behind[1:3]
        if (
            not isinstance(group, int)
            or not isinstance(each, int)
            or group * each != images.image(name).channels
        ):
            raise UnfitOperator("it moves channels among pixels")
        _note(images, out, GroupedChannels(name, group, False))
        return None
    _require_same_pixels(behind, before)
    found = _grouped(images, name)
    images.note(out, images.images[found.image] if found else None)
    if found is None:
        return None
    if not found.is_interleaved:
        return ImageCut(found.image, ((out, 0),))
    return Operation(PickStep(groups=found.group), out, found.image)


def interleaved(images: ImageArea, node: onnx.NodeProto) -> None:
    """The Transpose between both."""
    if tuple(attribute(node, "perm") or ()) != _INTERLEAVING:
        raise UnfitOperator("it moves other axes than those of channels")
    found = _grouped(images, node.input[0])
    if found is not None:
        _note(images, node.output[0], replace(found, is_interleaved=not found.is_interleaved))


def _grouped(images: ImageArea, name: str) -> GroupedChannels | None:
    """What is known of a value of five axes; None in a fragment that it comes into. Raises
    UnfitOperator where it is nothing of the kind.
    """
    if name not in images.grouped and not images.is_fragment:
        raise UnfitOperator("its channels are not made of groups here")
    return images.grouped.get(name)


def _note(images: ImageArea, out: str, found: GroupedChannels) -> None:
    if out in images.area.outputs and not images.is_fragment:
        raise UnfitOperator("what has two axes of channels is needed outside")
    images.grouped[out] = found


def _require_same_pixels(image: _Shape, groups: _Shape) -> None:
    """That an image and the same with two axes of channels have equally many batches, rows and
    columns.
    """
    if (*image[:1], *image[2:]) != (*groups[:1], *groups[3:]):
        raise UnfitOperator("it moves channels among pixels")
