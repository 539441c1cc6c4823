"""Channels of groups that take turns, as a Reshape, a Transpose and a Reshape write it: between these they have two
axes."""

from __future__ import annotations

from dataclasses import replace

import onnx

from fusionc.graph_kernel.blocked.image_area import ImageArea, ImageCut, Operation, ShuffledChannels, UnfitOperator
from fusionc.graph_kernel.blocked.program import KernelWindow, StepKind
from fusionc.graph_kernel.lower.area_info import attribute

_AXES, _IMAGE_AXES = 5, 4
_TURNED = (0, 2, 1, 3, 4)
_Shape = tuple[int | str, ...]


def has_groups(images: ImageArea, name: str) -> bool:
    """Whether a value may be an image whose channels have two axes."""
    return len(images.shape(name)) == _AXES


def reshaped(images: ImageArea, node: onnx.NodeProto) -> Operation | ImageCut | None:
    """The Reshape in front, which does nothing yet, or the one behind."""
    name, out = node.input[0], node.output[0]
    before, behind = images.shape(name), images.shape(out)
    if len(node.input) != 2 or node.input[1] not in images.area.constants:
        raise UnfitOperator("its shape is not known before the model runs")
    if len(before) == _IMAGE_AXES and len(behind) == _AXES:
        _require_same_pixels(before, behind)
        channels, (group, each) = images.image(name).channels, behind[1:3]
        if images.is_channels_last(name) or not isinstance(group, int) or not isinstance(each, int):
            raise UnfitOperator("its groups of channels are not known before the model runs")
        if group < 1 or group * each != channels:
            raise UnfitOperator("it moves channels among pixels")
        _note(images, out, ShuffledChannels(name, group, False))
        return None
    if len(before) != _AXES or len(behind) != _IMAGE_AXES:
        raise UnfitOperator("it moves channels among pixels")
    _require_same_pixels(behind, before)
    found = images.shuffled.get(name)
    if found is None and not images.is_fragment:
        raise UnfitOperator("its channels are not made of groups here")
    images.note(out, images.images[found.image] if found else None)
    if found is None or not found.is_turned:
        return ImageCut(found.image if found else out, ((out, 0),))
    return Operation(StepKind.PICK, out, found.image, window=KernelWindow(group=found.group))


def shuffled(images: ImageArea, node: onnx.NodeProto) -> None:
    """The Transpose between both."""
    found = images.shuffled.get(node.input[0])
    if tuple(attribute(node, "perm") or ()) != _TURNED:
        raise UnfitOperator("it moves other axes than those of channels")
    if found is None and not images.is_fragment:
        raise UnfitOperator("its channels are not made of groups here")
    if found is not None:
        _note(images, node.output[0], replace(found, is_turned=not found.is_turned))


def _note(images: ImageArea, out: str, found: ShuffledChannels) -> None:
    if out in images.area.outputs and not images.is_fragment:
        raise UnfitOperator("what has two axes of channels is needed outside")
    images.shuffled[out] = found


def _require_same_pixels(image: _Shape, groups: _Shape) -> None:
    """An image and the same with two axes of channels have equally many batches, rows and columns: sizes of these that
    are numbers say so of the batches as well."""
    if image[2:] != groups[3:]:
        raise UnfitOperator("its rows or columns are not known to stay")
    if image[0] != groups[0] and not all(isinstance(size, int) and size > 0 for size in image[2:]):
        raise UnfitOperator("its batches are not known to stay")
