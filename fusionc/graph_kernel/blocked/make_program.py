"""Makes the program of an area in the blocked layout."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from fusionc.graph_kernel.area import Area, KernelKind
from fusionc.graph_kernel.blocked.fuse_operations import Operations
from fusionc.graph_kernel.blocked.image_area import Operation
from fusionc.graph_kernel.blocked.kinds.convolve import ConvStep, MatrixKind
from fusionc.graph_kernel.blocked.kinds.load_store import LoadStep, StoreStep
from fusionc.graph_kernel.blocked.kinds.winograd import WinogradStep, tile_points
from fusionc.graph_kernel.blocked.made_program import MadeProgram
from fusionc.graph_kernel.blocked.narrow_images import is_narrow_product, with_narrow_images
from fusionc.graph_kernel.blocked.place_images import Places, Value, chains, lifetimes, slots_of
from fusionc.graph_kernel.blocked.product_time import strassen_from
from fusionc.graph_kernel.blocked.program import (
    NOTHING,
    Buffer,
    Program,
    ProgramStep,
    Storage,
    Unpacking,
)
from fusionc.graph_kernel.blocked.step_kind import BLOCK, PLAIN_WINDOW, StepKind, block_of


def algorithm_of(step: ProgramStep) -> KernelKind:
    """The algorithm that a step uses if there are enough pixels. BLOCKED means neither Winograd's
    nor Strassen's algorithm.
    """
    if isinstance(step.kind, WinogradStep):
        return KernelKind.WINOGRAD
    is_strassen = isinstance(step.kind, MatrixKind) and step.kind.strassen_from
    return KernelKind.STRASSEN if is_strassen else KernelKind.BLOCKED


def program_of(area: Area) -> MadeProgram:
    """The program of an area, without bfloat16. Raises UnfitOperator if no step computes some
    operators.
    """
    return _Maker(area, is_narrow=False).program()


def narrow_program_of(area: Area) -> MadeProgram | None:
    """The program of an area for processors with bfloat16. `None` if the area is not NARROW, or if
    no step would use bfloat16.
    """
    if KernelKind.NARROW not in area.kind:
        return None
    made = _Maker(area, is_narrow=True).program()
    return made if any(map(is_narrow_product, made.operations)) else None


class _Maker:
    def __init__(self, area: Area, *, is_narrow: bool) -> None:
        self._area = area
        operations = Operations(area)
        items = operations.items
        if is_narrow:
            items = with_narrow_images(operations.images, items)
        self._places = Places(operations.images, items)
        self._images = operations.images
        self._unknown = operations.unknown
        self._tables: dict[object, np.ndarray] = {}
        # number of a tensor of integers → its unpacking
        self._unpackings: dict[int, Unpacking] = {}
        self._buffers: list[Buffer] = []
        self._storages: dict[Value, int] = {}

    def program(self) -> MadeProgram:
        steps_of_chains = chains(self._places.steps, lambda step: not self._winograd_points(step))
        lives = lifetimes(self._places, steps_of_chains)
        self._storages = {value: number for number, value in enumerate(lives)}
        halos = dict.fromkeys(lives, 0)
        steps = list[ProgramStep]()
        for (head, end), operation in zip(steps_of_chains, self._places.steps, strict=True):
            if halo := operation.kind.halo(operation.window):
                read = self._places.of(self._places.read(operation)[0]).storage
                halos[read] = max(halos[read], halo)
            steps.append(
                replace(self._step(operation), chained=end - head if head == len(steps) else 0)
            )
        slots = slots_of(
            list(lives.values()), [self._floats(value, halos[value]) for value in lives]
        )
        storages = tuple(
            self._storage(value, slot, halos[value])
            for slot, value in zip(slots, lives, strict=True)
        )
        program = Program(
            storages,
            tuple(self._buffers),
            tuple(steps),
            tuple(self._tables.values()),
            max(slots) + 1,
            tuple(self._unpackings.values()),
        )
        images = self._images.images
        rows = frozenset(filter(self._is_rows, images))
        return MadeProgram(program, tuple(self._places.steps), images, rows, self._unknown)

    def _is_rows(self, name: str) -> bool:
        return self._images.is_value(name) and self._images.is_rows(name)

    def _storage(self, value: Value, slot: int, halo: int) -> Storage:
        image = self._images.images[value[0]]
        return Storage(slot, halo, image.channels, self._is_rows(value[0]), image.element_bytes)

    def _floats(self, value: Value, halo: int) -> int:
        """The memory of one image, in units of 4 bytes."""
        image = self._images.images[value[0]]
        height, width = (
            size.about(self._unknown) + 2 * halo for size in (image.height, image.width)
        )
        block = block_of(image.element_bytes)
        channels = image.channels if value[1] else -(-image.channels // block) * BLOCK
        return channels * height * width

    def _step(self, operation: Operation) -> ProgramStep:
        image, second, third = (
            NOTHING if value is None else self._buffer(value)
            for value in self._places.operands(operation)
        )
        if isinstance(operation.kind, LoadStep):
            image = self._area.inputs.index(operation.image)
        out = (
            self._area.outputs.index(operation.out)
            if isinstance(operation.kind, StoreStep)
            else self._buffer(self._places.written(operation))
        )
        kind = self._kind(operation)
        return ProgramStep(
            kind,
            out,
            image,
            second,
            third,
            self._table(operation.numbers, np.array(operation.numbers, np.float32))
            if operation.numbers
            else self._tensor(operation.tensor),
            weights=self._weights(operation.weights)
            if operation.line is None
            else self._filled(operation, 0),
            bias=self._weights(operation.bias)
            if operation.bias or operation.line is None
            else self._filled(operation, 1),
            activated=operation.activated,
            is_after=operation.is_after,
            window=operation.window,
        )

    def _kind(self, operation: Operation) -> StepKind:
        """The kind of a step, with the fastest of the algorithms that the area allows."""
        if points := self._winograd_points(operation):
            return WinogradStep(points)
        kind = operation.kind
        if isinstance(kind, MatrixKind):
            return replace(kind, strassen_from=self._strassen_from(operation))
        return kind

    def _winograd_points(self, operation: Operation) -> int:
        """The number of points of a Winograd tile in each direction. 0 if Winograd's algorithm is
        not used.
        """
        is_conv = isinstance(operation.kind, ConvStep)
        if KernelKind.WINOGRAD not in self._area.kind or not is_conv or self._is_direct(operation):
            return 0
        out = self._images.images[operation.out]
        return tile_points(
            operation.window,
            out.height.about(self._unknown),
            out.width.about(self._unknown),
            self._images.images[operation.image].channels,
            out.channels,
        )

    def _is_direct(self, operation: Operation) -> bool:
        return operation.weights in self._area.direct

    def _strassen_from(self, operation: Operation) -> int:
        """The smallest number of pixels for which a product uses Strassen's algorithm. 0 if it
        never does.
        """
        if KernelKind.STRASSEN not in self._area.kind or self._is_direct(operation):
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

    def _weights(self, name: str) -> int:
        """The number of the tensor with the weights. If they are computed from integers, the number
        of the tensor with these integers.
        """
        weights = self._images.computed_weights.get(name)
        if weights is None:
            return self._tensor(name)
        packed, scale, zero = map(self._tensor, (weights.packed, weights.scale, weights.zero))
        self._unpackings[packed] = Unpacking(packed, scale, zero, weights)
        return packed

    def _tensor(self, name: str) -> int:
        if not name:
            return NOTHING
        if name in self._area.inputs:
            return self._area.inputs.index(name)
        return self._table(name, self._area.constants[name])

    def _filled(self, operation: Operation, place: int) -> int:
        """The number of the table with the factors (place 0) or addends (place 1) of the
        channels.
        """
        assert operation.line is not None
        number = operation.line[place]
        channels = operation.window.group
        return self._table((number, channels), np.full(channels, number, np.float32))

    def _table(self, key: object, array: np.ndarray) -> int:
        self._tables.setdefault(key, array)
        return len(self._area.inputs) + list(self._tables).index(key)
