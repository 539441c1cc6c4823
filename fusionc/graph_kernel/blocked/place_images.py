"""Assigns memory to images. An image may be a part of another image, may share memory with images
that are used at other times, or may overwrite an operand that no later step reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from fusionc.graph_kernel.blocked.image_area import (
    Image,
    ImageArea,
    ImageCut,
    ImageJoin,
    Operation,
)
from fusionc.graph_kernel.blocked.kinds.by_element import CopyStep
from fusionc.graph_kernel.blocked.kinds.byte_convolve import ByteConvStep, ByteProductStep
from fusionc.graph_kernel.blocked.kinds.byte_elements import ByteMaxPoolStep
from fusionc.graph_kernel.blocked.kinds.byte_range import ByteRangeStep
from fusionc.graph_kernel.blocked.kinds.convolve import ConvStep
from fusionc.graph_kernel.blocked.kinds.flatten import FlattenStep
from fusionc.graph_kernel.blocked.kinds.global_average import GlobalAverageStep
from fusionc.graph_kernel.blocked.kinds.load_store import LoadStep, StoreStep
from fusionc.graph_kernel.blocked.kinds.pick import PickStep
from fusionc.graph_kernel.blocked.kinds.pool import MaxPoolStep
from fusionc.graph_kernel.blocked.step_kind import (
    BLOCK,
    KernelWindow,
    StepKind,
    are_blocks,
    block_of,
)

Value = tuple[str, bool]  # a name, and whether the value is planar (in the layout of its tensor)


@dataclass(frozen=True)
class ImagePlace:
    """The place of a value: the value that owns the memory, and the first channel in that
    memory.
    """

    storage: Value
    first: int


class Places:
    """The places of all values. `steps` are the operations, with additional ones, in order."""

    def __init__(
        self, images: ImageArea, items: Iterable[Operation | ImageJoin | ImageCut]
    ) -> None:
        self.images = images
        self._inside: dict[Value, ImagePlace] = {}  # values that are in the memory of other values
        self.steps: list[Operation] = []
        for item in items:
            if isinstance(item, Operation):
                self.steps += self._apart(item)
            elif isinstance(item, ImageJoin):
                self._join(item)
            else:
                self._take_apart(item)
        self._read_last = self._last_readings()
        for number, step in enumerate(self.steps):
            self._share(number, step)

    def of(self, value: Value) -> ImagePlace:
        """The place of a value."""
        first = 0
        while value in self._inside:
            first += self._inside[value].first
            value = self._inside[value].storage
        return ImagePlace(value, first)

    def written(self, step: Operation) -> Value:
        """The value that a step writes."""
        return step.out, isinstance(step.kind, LoadStep) and step.is_planar

    def operands(self, step: Operation) -> tuple[Value | None, Value | None, Value | None]:
        """The three operands of a step: its image, `second` and `third`. A LoadStep's image is
        None, because it is a tensor.
        """
        second, third = ((name, False) if name else None for name in (step.second, step.third))
        image = None if isinstance(step.kind, LoadStep) else (step.image, step.is_planar)
        return image, second, third

    def read(self, step: Operation) -> list[Value]:
        """The values that a step reads, beginning with its image."""
        return [value for value in self.operands(step) if value is not None]

    def _apart(self, step: Operation) -> list[Operation]:
        """The steps that compute an operation."""
        is_mean = isinstance(step.kind, GlobalAverageStep)
        return self._flattened(step) if is_mean else self._sampled(step)

    def _flattened(self, step: Operation) -> list[Operation]:
        """The steps of a mean that makes rows: the mean as an image, then the conversion of pixels
        to rows. Other means stay as they are.
        """
        image = self.images.image(step.image)
        rows = self.images.image(step.out)
        if not self.images.is_rows(step.out) or image.batch == rows.batch:
            return [step]
        pixels = f"{step.out}/pixels"
        self.images.images[pixels] = Image(image.channels, image.batch, rows.height, rows.height)
        mean = Operation(GlobalAverageStep(), pixels, step.image)
        return [mean, replace(step, kind=FlattenStep(), image=pixels)]

    def _sampled(self, step: Operation) -> list[Operation]:
        """The steps of a 1×1 convolution with a stride: a pool picks the pixels, and a convolution
        without a stride reads them. The picked pixels are adjacent, so they fill whole tiles even
        if rows are short. Other operations stay as they are.
        """
        window = step.window
        is_point = window.kernel == (1, 1) and not any(window.pads)
        is_known = isinstance(step.kind, ConvStep | ByteConvStep | ByteProductStep)
        if not (is_known and is_point) or window.stride == (1, 1):
            return [step]
        picked = f"{step.out}/picked"
        image = self.images.image(step.image)
        self.images.images[picked] = replace(
            self.images.image(step.out), channels=image.channels, element_bytes=image.element_bytes
        )
        side_by_side = replace(step, image=picked, window=replace(window, stride=(1, 1)))
        pool = MaxPoolStep() if isinstance(step.kind, ConvStep) else ByteMaxPoolStep()
        return [
            Operation(pool, picked, step.image, window=KernelWindow(stride=window.stride)),
            side_by_side,
        ]

    def _join(self, join: ImageJoin) -> None:
        first = 0
        image = self.images.image(join.out)
        block = block_of(image.element_bytes)
        for number, part in enumerate(join.parts):
            value = (part, False)
            channels = self.images.image(part).channels
            before = first % block  # the channels of earlier parts in the first block of this part
            is_picked = block == BLOCK and not are_blocks(first, channels, image.channels)
            if is_picked or value in self._inside:
                value = (f"{join.out}/{number}", False)
                self.images.images[value[0]] = replace(
                    self.images.image(part), channels=before + channels
                )
                kind: StepKind = PickStep(kept=before) if is_picked else CopyStep()
                self.steps.append(Operation(kind, value[0], part))
            self._inside[value] = ImagePlace((join.out, False), first - before)
            # In a bfloat16 image, each part begins a new block.
            first += channels if block == BLOCK else -(-channels // block) * block

    def _take_apart(self, cut: ImageCut) -> None:
        image = self.images.image(cut.image)
        block = block_of(image.element_bytes)
        for name, first in cut.parts:
            if are_blocks(first, self.images.image(name).channels, image.channels, block):
                self._inside[name, False] = ImagePlace((cut.image, False), first)
            else:
                self.steps.append(Operation(PickStep(skipped=first), name, cut.image))

    def _last_readings(self) -> dict[Value, int]:
        """Each memory → the number of the last step that reads or writes it."""
        last: dict[Value, int] = {}
        for number, step in enumerate(self.steps):
            written = [] if isinstance(step.kind, StoreStep) else [self.written(step)]
            for value in (*self.read(step), *written):
                last[self.of(value).storage] = number
        return last

    def _share(self, number: int, step: Operation) -> None:
        """Let a step write into the memory of an operand that no later step reads. If the step adds
        an operand after its activation, it cannot overwrite any: it reads the operand after it has
        written pixels.
        """
        if step.is_after:
            return
        out = self.written(step)
        made = self.images.image(step.out)
        for value in self._operands_to_overwrite(step):
            place = self.of(value)
            whole = self.images.image(place.storage[0])
            is_alike = (whole.channels, whole.element_bytes) == (made.channels, made.element_bytes)
            is_alike = is_alike and self._border(value) == self._border(out)
            fits = place == ImagePlace(value, 0) and is_alike
            if fits and self._read_last[value] == number and self.of(out).storage != value:
                self._inside[value] = ImagePlace(out, 0)
                return

    def _border(self, value: Value) -> int | None:
        """The number in the border of an image of bytes: its zero point. `None` for other images,
        whose borders are zeros. Two images can share memory only if their borders are equal,
        because only the first step that writes to a memory fills the border.
        """
        return self.images.zero_points.get(value[0])

    def _operands_to_overwrite(self, step: Operation) -> list[Value]:
        """The operands that a step may overwrite: it reads each pixel of these before it writes the
        pixel at the same place.
        """
        kind = step.kind
        image = self.read(step)[0] if kind.writes_in_place or kind.is_convolution else None
        if image is None:
            return []
        second: list[Value] = [(step.second, False)] if step.second else []
        if kind.is_convolution:
            return [value for value in second if self.of(value).storage != self.of(image).storage]
        return [image, *second] if kind.takes_either else [image]


def chains(
    steps: Sequence[Operation], may_begin: Callable[[Operation], bool]
) -> list[tuple[int, int]]:
    """For each step, the numbers of the first and last step of its chain. A chain begins with a
    convolution over all channels. Each later step of the chain computes a channel only from the
    same channel of earlier results. So the whole chain can run for one block of channels after
    another.
    """
    ends = list[tuple[int, int]]()
    while len(ends) < len(steps):
        head = end = len(ends)
        if (
            steps[head].kind.reads_all_channels
            and steps[head].window.group == 1
            and may_begin(steps[head])
        ):
            written = {steps[head].out}
            while end + 1 < len(steps) and _is_by_channel(steps[end + 1], written):
                end += 1
                written.add(steps[end].out)
        ends += [(head, end)] * (end + 1 - head)
    return ends


def _is_by_channel(step: Operation, written: Collection[str]) -> bool:
    return step.kind.keeps_channels and step.image in written and not step.second


def lifetimes(
    places: Places, steps_of_chains: Sequence[tuple[int, int]]
) -> dict[Value, tuple[int, int]]:
    """Each memory → the first and last step that use it, sorted by the first step. All steps of a
    chain count as running at the same time. The range of an image is already written by the step
    that makes the image.
    """
    lives: dict[Value, tuple[int, int]] = {}
    made: dict[Value, int] = {}  # memory → the last step so far that writes it
    for (begin, end), step in zip(steps_of_chains, places.steps, strict=True):
        written = [] if isinstance(step.kind, StoreStep) else [places.written(step)]
        storages = [places.of(value).storage for value in (*written, *places.read(step))]
        if isinstance(step.kind, ByteRangeStep):
            lives[storages[0]] = made.get(storages[1], begin), end
        for storage in storages:
            lives[storage] = lives.get(storage, (begin, end))[0], end
        made |= dict.fromkeys(storages[: len(written)], begin)
    return dict(sorted(lives.items(), key=lambda item: item[1][0]))


def slots_of(lives: Sequence[tuple[int, int]], sizes: Sequence[int]) -> list[int]:
    """A slot for each memory. A memory takes the free slot of the closest size, so that there are
    few and small slots. `lives` are the first and last steps that use each memory.
    """
    ends = list[int]()
    largest = list[int]()
    chosen = list[int]()
    for (begin, end), size in zip(lives, sizes, strict=True):
        free = [slot for slot, busy_until in enumerate(ends) if busy_until < begin]
        enough = [slot for slot in free if largest[slot] >= size]
        if enough:
            slot = min(enough, key=lambda slot: largest[slot])
        elif free:
            slot = max(free, key=lambda slot: largest[slot])
        else:
            slot = len(ends)
            ends.append(0)
            largest.append(0)
        ends[slot] = end
        largest[slot] = max(largest[slot], size)
        chosen.append(slot)
    return chosen
