"""What an area says of its images: channels, sizes, constants; and what each of its operators does
to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto

from fusionc.graph_kernel.area import Area, AreaValue
from fusionc.graph_kernel.blocked.image_size import ImageSize, size_of
from fusionc.graph_kernel.blocked.step_kind import (
    NO_ACTIVATION,
    PLAIN_WINDOW,
    Activated,
    KernelWindow,
    StepKind,
)
from fusionc.graph_kernel.lower.area_info import attribute
from fusionc.graph_kernel.lower.symbolic_sizes import Unsupported

_IMAGE_RANK = 4
_ROW_RANKS = (2, 3)
Numbers = float | tuple[float, ...]  # for all channels, or for each
_AXES = {0: "batch", 2: "height", 3: "width"}


class UnfitOperator(Unsupported):
    """Operators cannot be in a blocked area, or not together with the others. `places` are theirs
    in the area.
    """

    def __init__(self, reason: str, places: Sequence[int] = ()) -> None:
        super().__init__(reason)
        self.places = tuple(places)


@dataclass
class Operation:
    """A step whose operands are values, by name."""

    kind: StepKind
    out: str  # of a StoreStep an output of the area
    image: str  # of a LoadStep an input of the area
    second: str = ""
    third: str = ""
    tensor: str = ""
    weights: str = ""
    bias: str = ""
    activated: Activated = NO_ACTIVATION
    is_after: bool = False
    window: KernelWindow = PLAIN_WINDOW
    is_planar: bool = False  # it reads the image, or loads it, as it lies in its tensor
    # of a DepthwiseStep without weights: the factor and addend of all elements, or of each channel
    line: tuple[Numbers, Numbers] | None = None


@dataclass(frozen=True)
class ImageJoin:
    """Images that are the channels of another one, one after the other."""

    out: str
    parts: tuple[str, ...]


@dataclass(frozen=True)
class ImageCut:
    """Channels of an image, from the first of each part on."""

    image: str
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Image:
    """Channels, and sizes as far as they are known."""

    channels: int
    batch: ImageSize
    height: ImageSize
    width: ImageSize

    @property
    def is_pixel(self) -> bool:
        """Whether each image has one row and one column."""
        return self.height.known == 1 and self.width.known == 1


@dataclass(frozen=True)
class GroupedChannels:
    """An image whose channels have two axes: groups and those of each group, or the other way round
    where they are interleaved.
    """

    image: str
    group: int
    is_interleaved: bool


@dataclass(frozen=True)
class Heads:
    """Rows whose channels have an axis of `count` heads, behind that of the rows or in front of it.
    In grouped-query attention each head is repeated `times` times; while `has_axis`, that is an
    axis of its own.
    """

    rows: str
    count: int
    is_in_front: bool = False
    has_axis: bool = False
    times: int = 1


@dataclass(frozen=True)
class NormPart:
    """What an operator of a root mean square normalization makes of rows before these are divided
    by it.
    """

    image: str
    op: str  # the operator that has made it
    epsilon: float = 0.0


@dataclass
class ImageArea:
    """An area while its program is made. `images` are those that are known by now.

    Of a fragment, what lies in front is not seen: sizes that may be the same there count as such.
    """

    area: Area
    is_fragment: bool = False
    has_rows: bool = False  # of four axes as well, not images
    images: dict[str, Image] = field(default_factory=dict)
    channels_last: set[str] = field(default_factory=set)  # images whose last axis are the channels
    grouped: dict[str, GroupedChannels] = field(default_factory=dict)  # values of five axes
    norms: dict[str, NormPart] = field(default_factory=dict)
    heads: dict[str, Heads] = field(default_factory=dict)
    # rows that are no value of the area → one of the same shape
    alike: dict[str, str] = field(default_factory=dict)

    def image(self, name: str) -> Image:
        """What is known of a value that is an image. Raises UnfitOperator where it is none."""
        if name not in self.images:
            if name in self.area.constants or name not in self.area.inputs:
                raise UnfitOperator("it reads what is no image")
            self.note(name, None)
        return self.images[name]

    def note(self, name: str, found: Image | None) -> None:
        """An image with what the area declares of it, and what was found by its operators."""
        value = self.area.values[name]
        if value.dtype != TensorProto.FLOAT or len(value.shape) not in (_IMAGE_RANK, *_ROW_RANKS):
            raise UnfitOperator("it computes what is no float32 image")
        batch, channels, height, width = self._declared(name)
        if (
            not isinstance(channels, int)
            or channels < 1
            or (found is not None and found.channels != channels)
        ):
            raise UnfitOperator("its channels are not known before the model runs")
        declared = (batch, height, width)
        computed = (None, None, None) if found is None else (found.batch, found.height, found.width)
        sizes = [
            size_of(dim) if isinstance(dim, int) or size is None else size
            for dim, size in zip(declared, computed, strict=True)
        ]
        if any(size.known == 0 for size in sizes):
            raise UnfitOperator("its images have no elements")
        self.images[name] = Image(channels, *sizes)

    def note_alike(self, name: str, rows: str) -> None:
        """Rows that no value of the area is, of the shape of others."""
        self.images[name] = self.image(rows)
        self.alike[name] = self.alike.get(rows, rows)

    def is_value(self, name: str) -> bool:
        """Whether it is known what is declared of its sizes."""
        return name in self.area.values or name in self.alike

    def shape(self, name: str) -> tuple[int | str, ...]:
        """What is declared of the sizes of a value. Raises UnfitOperator for a constant."""
        if not self.is_value(name):
            raise UnfitOperator("it reads what is no image")
        return self.area.values[self.alike.get(name, name)].shape

    def require_known_shape(self, node: onnx.NodeProto) -> None:
        """Raises UnfitOperator where the shape that an operator gives its operand is no
        constant.
        """
        if len(node.input) != 2 or node.input[1] not in self.area.constants:
            raise UnfitOperator("its shape is not known before the model runs")

    def is_rows(self, name: str) -> bool:
        """Whether a value is a matrix, or several, in an area without images: its rows are
        pixels.
        """
        rank = len(self.shape(name))
        return rank in _ROW_RANKS or (rank == _IMAGE_RANK and self.has_rows)

    def is_channels_last(self, name: str) -> bool:
        """Whether the last axis of a value is that of its channels: of rows, and of images behind a
        Transpose.
        """
        return self.is_rows(name) or name in self.channels_last

    def of_four_axes(self, names: Sequence[str]) -> list[str]:
        """Those that are no constants and have the axes of an image."""
        known = [
            name for name in names if name in self.area.values and name not in self.area.constants
        ]
        return [name for name in known if len(self.area.values[name].shape) == _IMAGE_RANK]

    def put_channels_last(self, name: str) -> None:
        """Take an image for one whose last axis are the channels. Raises UnfitOperator where it is
        none.
        """
        if name in self.channels_last:
            return
        if (
            name not in self.area.inputs
            or name in self.images
            or len(self.area.values[name].shape) != _IMAGE_RANK
        ):
            raise UnfitOperator("its channels are not its last axis")
        self.channels_last.add(name)

    def is_of_channels(self, name: str, axis: float) -> bool:
        """Whether an axis of a value, counted from the end if negative, is that of its channels."""
        rank = len(self.shape(name))
        return int(axis) % rank == (rank - 1 if self.is_channels_last(name) else 1)

    def _declared(self, name: str) -> tuple[int | str, ...]:
        """Batch, channels, height, width."""
        shape = self.shape(name)
        if not self.is_channels_last(name):
            return shape
        *outer, rows, channels = shape
        batch, height = [*outer, 1, 1][:2]
        return batch, channels, height, rows

    def require_same(self, one: str, other: str) -> None:
        """Raises UnfitOperator where two images are not known to have the same channels and
        sizes.
        """
        have_same_channels = self.image(one).channels == self.image(other).channels
        if not have_same_channels or not all(self.are_same(one, other, axis) for axis in _AXES):
            raise UnfitOperator("its operands may have different shapes")

    def are_same(self, one: str, other: str, axis: int) -> bool:
        """Whether two images are known to have the same size: 0 their batches, 2 their heights, 3
        their widths.
        """
        if len(self.shape(one)) != len(self.shape(other)):
            return False
        declared = {self._declared(name)[axis] for name in (one, other)}
        sizes = {getattr(self.image(name), _AXES[axis]) for name in (one, other)}
        if self.is_fragment and any(size.known is None for size in sizes):
            return True
        return len(declared) == 1 or len(sizes) == 1

    def number(self, name: str) -> float | None:
        """A constant of one element."""
        array = self.area.constants.get(name)
        return (
            None
            if array is None or array.size != 1 or array.ndim > _IMAGE_RANK
            else float(array.item())
        )

    def numbers(self, node: onnx.NodeProto, k: int, name: str = "") -> list[float] | None:
        """An input that is a constant, or else the attribute of this name; None where it has
        neither.
        """
        operand = node.input[k] if k < len(node.input) else ""
        if not operand:
            found = attribute(node, name) if name else None
            return None if found is None else [float(v) for v in np.ravel(found)]
        if operand not in self.area.constants:
            raise UnfitOperator("a parameter is not known before the model runs")
        return [float(v) for v in self.area.constants[operand].ravel()]

    def tensor(self, name: str, dtype: int, rank: int) -> AreaValue:
        """A tensor that is read beside rows. Raises UnfitOperator where the area makes it, or it is
        of another kind.
        """
        value = self.area.values.get(name)
        if value is None or name not in self.area.inputs or name in self.images:
            raise UnfitOperator("a tensor that it reads beside its rows is not from outside")
        if value.dtype != dtype or len(value.shape) != rank:
            raise UnfitOperator(
                "a tensor that it reads beside its rows has another type, or other axes"
            )
        return value

    def is_vector(self, name: str) -> bool:
        """Whether it is a constant with a number for each channel."""
        value = self.area.values.get(name)
        return value is not None and name in self.area.inputs and len(value.shape) == 1

    def weights(self, name: str) -> tuple[int, ...]:
        """The shape of weights or of a bias. Raises UnfitOperator where they are computed."""
        if name in self.area.constants:
            array = self.area.constants[name]
            if array.dtype.kind != "f" or array.itemsize != 4:
                raise UnfitOperator("its weights are no float32 numbers")
            return array.shape
        value = self.area.values[name]
        sizes = tuple(dim for dim in value.shape if isinstance(dim, int))
        if (
            name not in self.area.inputs
            or value.dtype != TensorProto.FLOAT
            or len(sizes) != len(value.shape)
        ):
            raise UnfitOperator("its weights are not known before the model runs")
        return sizes
