"""What is known about an area while its program is made: its images, and the operations on them.

An area is a group of operators that one kernel computes. The kernel runs a program of steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, TypeVar

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
from fusionc.graph_kernel.blocked.weight_dequantization import DequantizedWeights
from fusionc.graph_kernel.lower.area_info import attribute
from fusionc.graph_kernel.lower.symbolic_sizes import Unsupported
from fusionc.operators.integer_operators import BYTES

_IMAGE_RANK = 4
_ROW_RANKS = (2, 3)
_RANKS = (_IMAGE_RANK, *_ROW_RANKS)
Numbers = float | tuple[float, ...]  # one number for all channels, or one for each channel
SIGN = 128  # flipping this bit converts signed bytes to unsigned bytes in the same order
_AXES = {0: "batch", 2: "height", 3: "width"}


class UnfitOperator(Unsupported):
    """Some operators cannot be in an area in the blocked layout, or not together with the area's
    other operators. `places` are their indices in the area.
    """

    def __init__(self, reason: str, places: Sequence[int] = ()) -> None:
        super().__init__(reason)
        self.places = tuple(places)


@dataclass
class Operation:
    """A step of a program. Its operands and its result are given by the names of values."""

    kind: StepKind
    out: str  # for a StoreStep: an output of the area
    image: str  # for a LoadStep: an input of the area
    second: str = ""
    third: str = ""
    tensor: str = ""
    weights: str = ""
    bias: str = ""
    activated: Activated = NO_ACTIVATION
    is_after: bool = False  # whether `activated` is applied before `second` is added
    window: KernelWindow = PLAIN_WINDOW
    is_planar: bool = False  # whether the image has the layout of its tensor, not a blocked one
    # numbers that the step reads as its `tensor`
    numbers: tuple[float, ...] = ()
    # for a DepthwiseStep without weights: factor and addend of all elements, or of each channel
    line: tuple[Numbers, Numbers] | None = None


@dataclass(frozen=True)
class ImageJoin:
    """Images whose channels are concatenated. The result is the image `out`."""

    out: str
    parts: tuple[str, ...]


@dataclass(frozen=True)
class ImageCut:
    """An image whose channels are split into parts. Each part is given by its name and its first
    channel.
    """

    image: str
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Image:
    """The number of channels of an image, and the other sizes as far as they are known."""

    channels: int
    batch: ImageSize
    height: ImageSize
    width: ImageSize
    element_bytes: int = field(default=4, kw_only=True)  # fewer for bytes and bfloat16

    def or_sizes_of(self, other: Image) -> Image:
        """This image. Unknown sizes are replaced by those of `other`."""
        own = (self.batch, self.height, self.width)
        others = (other.batch, other.height, other.width)
        sizes = (a if a.known is not None else b for a, b in zip(own, others, strict=True))
        return Image(self.channels, *sizes, element_bytes=self.element_bytes)

    @property
    def is_pixel(self) -> bool:
        """Whether each image has one row and one column."""
        return self.height.known == 1 and self.width.known == 1


@dataclass(frozen=True)
class Part:
    """A value that no step computes: an intermediate result of several operators that become one
    step.
    """

    image: str  # the image or rows from which it is made
    unknown: ClassVar[str]  # why an operator is refused if it reads something else than this part
    outside: ClassVar[str]  # why the value's operator is refused if the value is needed outside


@dataclass(frozen=True)
class GroupedChannels(Part):
    """An image whose channels are split into two axes: first groups, then the channels of each
    group. If `is_interleaved`, the order of the two axes is reversed.
    """

    group: int
    is_interleaved: bool
    unknown = "its channels are not made of groups here"
    outside = "a value with two axes of channels is needed outside"


@dataclass(frozen=True)
class Heads(Part):
    """Rows whose channels are split into `count` heads. If `is_in_front`, the axis of heads is
    before the axis of rows, otherwise after it. In grouped-query attention, each head is repeated
    `times` times. If `has_axis`, there is an additional axis for the repetitions.
    """

    count: int
    is_in_front: bool = False
    has_axis: bool = False
    times: int = 1
    unknown = "its channels are not heads here"
    outside = "heads are needed outside"


@dataclass(frozen=True)
class NormPart(Part):
    """An intermediate result of a root mean square normalization, before rows are divided by it."""

    op: str  # the type of the operator that makes it
    epsilon: float = 0.0
    unknown = "it is not part of a norm here"
    outside = "a part of a norm is needed outside"


AnyPart = TypeVar("AnyPart", bound=Part)


def unsigned(zero: np.ndarray) -> int:
    """The single element of a zero point. The zero point of signed bytes is converted to that of
    unsigned bytes.
    """
    return int(zero.item()) + (SIGN if zero.dtype == np.int8 else 0)


def _integers(node: onnx.NodeProto) -> str:
    """The name of the integers that a DequantizeLinear reads or a QuantizeLinear makes."""
    return str(node.input[0] if node.op_type == "DequantizeLinear" else node.output[0])


@dataclass
class ImageArea:
    """An area while its program is made.

    A fragment is a part of an area that is judged without the operators before it. In a fragment,
    sizes count as equal unless they are known to differ.
    """

    area: Area
    is_fragment: bool = False
    has_rows: bool = False  # values with four axes are rows (with heads), not images
    # weights that the area computes from integers, by name
    computed_weights: Mapping[str, DequantizedWeights] = field(default_factory=dict)
    images: dict[str, Image] = field(default_factory=dict)  # those that are known so far
    channels_last: set[str] = field(default_factory=set)  # images whose channels are the last axis
    parts: dict[str, Part] = field(default_factory=dict)  # by the name of the value
    # image of bytes → the float32 image and the scale; loading the image quantizes it to the bytes
    loaded_as_bytes: dict[str, tuple[str, float]] = field(default_factory=dict)
    # float32 image → the bytes from which it is dequantized, their scale and zero point
    dequantized: dict[str, tuple[str, float, int]] = field(default_factory=dict)
    # the bytes, scale or zero point of a DynamicQuantizeLinear → the grid (scale with zero point)
    grids: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, str] = field(default_factory=dict)  # grid → the image with the grid's range
    # rows that are not values of the area, because a step makes them → a value of the same shape
    alike: dict[str, str] = field(default_factory=dict)

    def image(self, name: str) -> Image:
        """What is known about an image. Raises UnfitOperator for other values."""
        if name not in self.images and name in self.dequantized:
            self.note(name, self.image(self.dequantized[name][0]))
        if name not in self.images:
            if name in self.area.constants or name not in self.area.inputs:
                raise UnfitOperator("it reads a value that is not an image")
            self.note(name, None)
        return self.images[name]

    def note(self, name: str, computed: Image | None) -> None:
        """Note the sizes of an image: those that the area declares, and otherwise those that its
        operator computes. Raises UnfitOperator if the value cannot be an image.
        """
        value = self._value(name)
        is_bytes = value.dtype in BYTES and self.has_bytes
        is_image = value.dtype == TensorProto.FLOAT or is_bytes
        if not is_image or len(value.shape) not in _RANKS:
            raise UnfitOperator("it computes a value that is not a float32 image")
        batch, channels, height, width = self._declared(name)
        expected = channels if computed is None else computed.channels
        if not isinstance(channels, int) or channels < 1 or channels != expected:
            raise UnfitOperator("its channels are not known before the model runs")
        sizes = map(size_of, (batch, height, width))
        image = Image(channels, *sizes, element_bytes=1 if is_bytes else 4)
        if computed is not None:
            image = image.or_sizes_of(computed)
        if 0 in (image.batch.known, image.height.known, image.width.known):
            raise UnfitOperator("its images have no elements")
        self.images[name] = image

    def _value(self, name: str) -> AreaValue:
        if name not in self.area.values:
            raise UnfitOperator("it reads or computes a value of unknown shape")
        return self.area.values[name]

    @cached_property
    def has_bytes(self) -> bool:
        """Whether the area has images of bytes."""
        return any(
            node.op_type in ("DequantizeLinear", "QuantizeLinear") for node in self.area.nodes
        )

    @cached_property
    def readers(self) -> Mapping[str, Sequence[onnx.NodeProto]]:
        """The operators that read each value."""
        readers = defaultdict[str, list[onnx.NodeProto]](list)
        for node in self.area.nodes:
            for name in dict.fromkeys(node.input):
                readers[name].append(node)
        return readers

    @cached_property
    def zero_points(self) -> dict[str, int]:
        """The zero points of images of bytes, as unsigned numbers."""
        zeros = dict[str, int]()
        for node in self.area.nodes:
            if node.op_type not in ("DequantizeLinear", "QuantizeLinear"):
                continue
            zero = self.zero_point(node)
            if zero is None or zero.size != 1:
                continue
            number = unsigned(zero)
            if zeros.setdefault(_integers(node), number) != number:
                raise UnfitOperator("its bytes have two different zero points")
        return zeros

    def zero_point(self, node: onnx.NodeProto) -> np.ndarray | None:
        """The zero point of a DequantizeLinear or QuantizeLinear. `None` if it is not a constant.
        An omitted zero point is 0, in the type of the integers.
        """
        if len(node.input) > 2 and node.input[2]:
            return self.area.constants.get(node.input[2])
        value = self.area.values.get(_integers(node))
        is_signed = value is not None and value.dtype == TensorProto.INT8
        return np.zeros((), np.int8 if is_signed else np.uint8)

    def flip(self, name: str) -> int:
        """The bits to flip in the bytes of a value to get unsigned bytes."""
        return SIGN if self.area.values[name].dtype == TensorProto.INT8 else 0

    def part(self, name: str, kind: type[AnyPart]) -> AnyPart | None:
        """The part of type `kind` that a value is. `None` if the value is an input of a fragment.
        Raises UnfitOperator if it is anything else.
        """
        part = self.parts.get(name)
        if isinstance(part, kind):
            return part
        if not self.is_fragment:
            raise UnfitOperator(kind.unknown)
        return None

    def note_part(self, name: str, part: Part) -> None:
        """Note a value that is a part. Raises UnfitOperator if it is needed outside the area."""
        if name in self.area.outputs and not self.is_fragment:
            raise UnfitOperator(part.outside)
        self.parts[name] = part

    def note_alike(self, name: str, rows: str) -> None:
        """Note rows that are not a value of the area, and a value of the same shape."""
        self.images[name] = self.image(rows)
        self.alike[name] = self.alike.get(rows, rows)

    def is_value(self, name: str) -> bool:
        """Whether the declared sizes of a value are known."""
        return name in self.area.values or name in self.alike

    def shape(self, name: str) -> tuple[int | str, ...]:
        """The declared sizes of a value. Raises UnfitOperator for a constant."""
        if not self.is_value(name):
            raise UnfitOperator("it reads a value that is not an image")
        return self.area.values[self.alike.get(name, name)].shape

    def require_known_shape(self, node: onnx.NodeProto) -> None:
        """Raises UnfitOperator unless the second input, which is the new shape, is a constant."""
        if len(node.input) != 2 or node.input[1] not in self.area.constants:
            raise UnfitOperator("its shape is not known before the model runs")

    def is_rows(self, name: str) -> bool:
        """Whether a value is rows: a matrix, a batch of matrices, or (in an area without images)
        rows with heads. Steps treat each row as a pixel.
        """
        rank = len(self.shape(name))
        return rank in _ROW_RANKS or (rank == _IMAGE_RANK and self.has_rows)

    def is_channels_last(self, name: str) -> bool:
        """Whether the channels are the last axis of a value. They are in rows and in transposed
        images.
        """
        return self.is_rows(name) or name in self.channels_last

    def of_four_axes(self, names: Sequence[str]) -> list[str]:
        """Those of the values that are not constants and have four axes, as images have."""
        known = [
            name for name in names if name in self.area.values and name not in self.area.constants
        ]
        return [name for name in known if len(self.area.values[name].shape) == _IMAGE_RANK]

    def put_channels_last(self, name: str) -> None:
        """Note that the channels of an image are its last axis. Raises UnfitOperator if they are
        known to be another axis.
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
        """Whether an axis of a value is its channels. Negative axes count from the end."""
        rank = len(self.shape(name))
        return int(axis) % rank == (rank - 1 if self.is_channels_last(name) else 1)

    def _declared(self, name: str) -> tuple[int | str, ...]:
        """The declared batch, channels, height and width."""
        shape = self.shape(name)
        if not self.is_channels_last(name):
            return shape
        *outer, rows, channels = shape
        batch, height = [*outer, 1, 1][:2]
        return batch, channels, height, rows

    def require_same(self, one: str, other: str) -> None:
        """Raises UnfitOperator unless two images are known to have the same channels and sizes."""
        have_same_channels = self.image(one).channels == self.image(other).channels
        if not have_same_channels or not all(self.are_same(one, other, axis) for axis in _AXES):
            raise UnfitOperator("its operands may have different shapes")

    def are_same(self, one: str, other: str, axis: int) -> bool:
        """Whether two images are known to have the same size along an axis: 0 for batches, 2 for
        heights, 3 for widths.
        """
        if len(self.shape(one)) != len(self.shape(other)):
            return False
        declared = {self._declared(name)[axis] for name in (one, other)}
        sizes = {getattr(self.image(name), _AXES[axis]) for name in (one, other)}
        if self.is_fragment and any(size.known is None for size in sizes):
            return True
        return len(declared) == 1 or len(sizes) == 1

    def number(self, name: str) -> float | None:
        """The number in a constant of one element. `None` for any other value."""
        array = self.area.constants.get(name)
        return (
            None
            if array is None or array.size != 1 or array.ndim > _IMAGE_RANK
            else float(array.item())
        )

    def numbers(self, node: onnx.NodeProto, k: int, name: str = "") -> list[float] | None:
        """The elements of the constant input `k`. If the input is missing, the attribute `name`;
        `None` if both are missing.

        Raises UnfitOperator if the input is not a constant.
        """
        operand = node.input[k] if k < len(node.input) else ""
        if not operand:
            value = attribute(node, name) if name else None
            return None if value is None else [float(v) for v in np.ravel(value)]
        if operand not in self.area.constants:
            raise UnfitOperator("a parameter is not known before the model runs")
        return [float(v) for v in self.area.constants[operand].ravel()]

    def tensor(self, name: str, dtype: int, rank: int) -> AreaValue:
        """A tensor that a step reads in addition to rows. Raises UnfitOperator if the area computes
        the tensor, or if it has another type or rank.
        """
        value = self.area.values.get(name)
        if value is None or name not in self.area.inputs or name in self.images:
            raise UnfitOperator(
                "a tensor that it reads in addition to its rows is not from outside"
            )
        if value.dtype != dtype or len(value.shape) != rank:
            raise UnfitOperator(
                "a tensor that it reads in addition to its rows has another type, or other axes"
            )
        return value

    def is_vector(self, name: str) -> bool:
        """Whether a value is a constant with a number for each channel."""
        value = self.area.values.get(name)
        return value is not None and name in self.area.inputs and len(value.shape) == 1

    def weights(self, name: str) -> tuple[int, ...]:
        """The shape of weights or of a bias. Raises UnfitOperator if they are computed."""
        if name in self.area.constants:
            array = self.area.constants[name]
            if array.dtype.kind != "f" or array.itemsize != 4:
                raise UnfitOperator("its weights are not float32")
            return array.shape
        if name in self.computed_weights:
            return self.computed_weights[name].shape
        value = self.area.values[name]
        sizes = tuple(dim for dim in value.shape if isinstance(dim, int))
        if (
            name not in self.area.inputs
            or value.dtype != TensorProto.FLOAT
            or len(sizes) != len(value.shape)
        ):
            raise UnfitOperator("its weights are not known before the model runs")
        return sizes
