"""From a blocked area to its program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from fusionc.graph_kernel.area import Area, KernelKind
from fusionc.graph_kernel.blocked.convolution_time import direct_seconds, winograd_seconds
from fusionc.graph_kernel.blocked.fuse_operations import Operations
from fusionc.graph_kernel.blocked.image_area import Image, Operation
from fusionc.graph_kernel.blocked.image_size import size_of
from fusionc.graph_kernel.blocked.place_images import Places, Value, chains, lifetimes, slots_of
from fusionc.graph_kernel.blocked.product_time import strassen_from
from fusionc.graph_kernel.blocked.program import (
    BLOCK,
    BY_MATRIX,
    CONVOLUTIONS,
    NOTHING,
    PLAIN_WINDOW,
    Buffer,
    Program,
    ProgramStep,
    StepKind,
    Storage,
)

_WORTH = 0.9  # of the time of the direct way, below which Winograd's is taken
_ABOUT_ROWS = 128  # how many rows there are of which nothing is known


@dataclass(frozen=True)
class MadeProgram:
    """A program, what its steps are made of, and what is known of the images of the area by
    name.
    """

    program: Program
    operations: tuple[Operation, ...]  # one for each step
    images: dict[str, Image]
    rows: frozenset[str]  # those of the images that are rows
    unknown: int

    def is_rows(self, name: str) -> bool:
        """Whether a value is rows, not images."""
        return name in self.rows

    def sides(self, name: str) -> tuple[int, int]:
        """About how many rows and columns an image has."""
        image = self.images[name]
        return max(1, image.height.about(self.unknown)), max(1, image.width.about(self.unknown))

    def pixels(self, name: str) -> int:
        """About how many pixels an image of one batch has; of rows all there are."""
        height, width = self.sides(name)
        if not self.is_rows(name):
            return height * width
        image = self.images[name]
        return height * max(1, image.width.about(_ABOUT_ROWS)) * max(1, image.batch.about(1))

    def about(self, name: str, dim: int | str) -> int:
        """About how large a dimension of an image, or of rows, is: a batch of one, where nothing is
        known.
        """
        if isinstance(dim, int):
            return dim
        if self.images[name].batch == size_of(dim):
            return 1
        return _ABOUT_ROWS if self.is_rows(name) else self.unknown


def algorithm_of(step: ProgramStep) -> KernelKind:
    """By which algorithm a step is computed, or may be if there are as many pixels as it needs;
    BLOCKED: directly.
    """
    if step.kind is StepKind.WINOGRAD:
        return KernelKind.WINOGRAD
    is_strassen = step.kind in BY_MATRIX and step.flag
    return KernelKind.STRASSEN if is_strassen else KernelKind.BLOCKED


def program_of(area: Area) -> MadeProgram:
    """The program of an area. Raises Unsupported (UnfitOperator where one operator is to blame)
    where there is none.
    """
    return _Maker(area).made()


class _Maker:
    def __init__(self, area: Area) -> None:
        self._area = area
        operations = Operations(area)
        self._places = Places(operations)
        self._images = operations.images
        self._unknown = operations.unknown
        self._tables: dict[object, np.ndarray] = {}
        self._buffers: list[Buffer] = []
        self._storages: dict[Value, int] = {}

    def made(self) -> MadeProgram:
        steps_of_chains = chains(self._places.steps, lambda step: not self._winograd_points(step))
        lives = lifetimes(self._places, steps_of_chains)
        self._storages = {value: number for number, value in enumerate(lives)}
        halos = dict.fromkeys(lives, 0)
        steps = list[ProgramStep]()
        for (head, end), operation in zip(steps_of_chains, self._places.steps, strict=True):
            if operation.kind in CONVOLUTIONS:
                read = self._places.of(self._places.read(operation)[0]).storage
                halos[read] = max(halos[read], operation.halo)
            steps.append(
                replace(self._step(operation), chained=end - head if head == len(steps) else 0)
            )
        slots = slots_of(
            list(lives.values()), [self._floats(value, halos[value]) for value in lives]
        )
        storages = tuple(
            Storage(
                slot, halos[value], self._images.images[value[0]].channels, self._is_rows(value[0])
            )
            for slot, value in zip(slots, lives, strict=True)
        )
        program = Program(
            storages,
            tuple(self._buffers),
            tuple(steps),
            tuple(self._tables.values()),
            max(slots) + 1,
        )
        images = self._images.images
        rows = frozenset(filter(self._is_rows, images))
        return MadeProgram(program, tuple(self._places.steps), images, rows, self._unknown)

    def _is_rows(self, name: str) -> bool:
        return self._images.is_value(name) and self._images.is_rows(name)

    def _floats(self, value: Value, halo: int) -> int:
        image = self._images.images[value[0]]
        height, width = (
            size.about(self._unknown) + 2 * halo for size in (image.height, image.width)
        )
        channels = image.channels if value[1] else -(-image.channels // BLOCK) * BLOCK
        return channels * height * width

    def _step(self, operation: Operation) -> ProgramStep:
        image, second, third = (
            NOTHING if value is None else self._buffer(value)
            for value in self._places.operands(operation)
        )
        if operation.kind is StepKind.LOAD:
            image = self._area.inputs.index(operation.image)
        is_store = operation.kind is StepKind.STORE
        points = self._winograd_points(operation)
        out = (
            self._area.outputs.index(operation.out)
            if is_store
            else self._buffer(self._places.made(operation))
        )
        return ProgramStep(
            StepKind.WINOGRAD if points else operation.kind,
            out,
            image,
            second,
            third,
            self._tensor(operation.tensor),
            weights=self._tensor(operation.weights)
            if operation.line is None
            else self._filled(operation, 0),
            bias=self._tensor(operation.bias)
            if operation.bias or operation.line is None
            else self._filled(operation, 1),
            activated=operation.activated,
            is_after=operation.is_after,
            window=operation.window,
            flag=points or self._strassen_from(operation) or int(operation.flag) or operation.first,
            epsilon=operation.epsilon,
            scale=operation.scale,
        )

    def _winograd_points(self, operation: Operation) -> int:
        """Points that a tile of Winograd's way has in each direction, 0 where the direct way is
        taken.
        """
        window = operation.window
        if KernelKind.WINOGRAD not in self._area.kind or operation.kind is not StepKind.CONV:
            return 0
        stride, other = window.stride
        if (
            (window.kernel, window.dilation, window.group) != ((3, 3), (1, 1), 1)
            or stride != other
            or stride > 2
        ):
            return 0
        image = self._images.images[operation.image]
        out = self._images.images[operation.out]
        if min(image.channels, out.channels) < BLOCK:
            return 0
        height = out.height.about(self._unknown)
        width = out.width.about(self._unknown)
        direct = direct_seconds(height * width, 9, image.channels, out.channels)
        seconds, points = winograd_seconds(height, width, image.channels, out.channels, stride)
        return points if seconds < _WORTH * direct else 0

    def _strassen_from(self, operation: Operation) -> int:
        """Of how many pixels on a product is made of halves of its operands; 0 where it never
        is.
        """
        if KernelKind.STRASSEN not in self._area.kind or operation.kind not in BY_MATRIX:
            return 0
        image = self._images.images[operation.image]
        out = self._images.images[operation.out]
        if operation.window != PLAIN_WINDOW or operation.third or image.channels % (2 * BLOCK):
            return 0
        sizes = (out.height, out.width, *([out.batch] if self._is_rows(operation.out) else []))
        least = strassen_from(image.channels, out.channels)
        is_less = (
            all(size.known is not None for size in sizes)
            and prod(size.number for size in sizes) < least
        )
        return 0 if is_less else least

    def _buffer(self, value: Value) -> int:
        place = self._places.of(value)
        channels = self._images.images[value[0]].channels
        buffer = Buffer(self._storages[place.storage], value[1], place.first, channels)
        if buffer not in self._buffers:
            self._buffers.append(buffer)
        return self._buffers.index(buffer)

    def _tensor(self, name: str) -> int:
        if not name:
            return NOTHING
        if name in self._area.inputs:
            return self._area.inputs.index(name)
        return self._table(name, self._area.constants[name])

    def _filled(self, operation: Operation, place: int) -> int:
        """The table with the factor of each channel, or with what is added to it."""
        assert operation.line is not None
        number = operation.line[place]
        channels = operation.window.group
        return self._table((number, channels), np.full(channels, number, np.float32))

    def _table(self, key: object, array: np.ndarray) -> int:
        self._tables.setdefault(key, array)
        return len(self._area.inputs) + list(self._tables).index(key)
