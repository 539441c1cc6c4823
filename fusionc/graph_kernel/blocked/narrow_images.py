"""Decides which images of an area are bfloat16, and which steps read or write them.

Convolutions and products read bfloat16. A value is stored in bfloat16 if the step that makes it can
write bfloat16, and if all steps that read it can read bfloat16. If a convolution or product reads
another value, this value is narrowed (converted to bfloat16), once for all its readers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from fusionc.graph_kernel.blocked.image_area import ImageArea, ImageCut, ImageJoin, Operation
from fusionc.graph_kernel.blocked.kinds.by_lane import DepthwiseStep
from fusionc.graph_kernel.blocked.kinds.convolve import ConvStep, FirstStep, ProductStep
from fusionc.graph_kernel.blocked.kinds.global_average import GlobalAverageStep
from fusionc.graph_kernel.blocked.kinds.narrow import NarrowStep
from fusionc.graph_kernel.blocked.kinds.narrow_convolve import (
    NARROW_BLOCK,
    NarrowConvolution,
    NarrowConvStep,
    NarrowProductStep,
)
from fusionc.graph_kernel.blocked.kinds.narrow_depthwise import NarrowDepthwiseStep
from fusionc.graph_kernel.blocked.kinds.narrow_first import NarrowFirstStep
from fusionc.graph_kernel.blocked.kinds.narrow_pool import (
    NarrowGlobalAverageStep,
    NarrowMaxPoolStep,
)
from fusionc.graph_kernel.blocked.kinds.narrow_transposed import NarrowTransposedStep
from fusionc.graph_kernel.blocked.kinds.pool import MaxPoolStep
from fusionc.graph_kernel.blocked.kinds.transposed import TransposedStep
from fusionc.graph_kernel.blocked.step_kind import NO_ACTIVATION, StepKind

_BYTES = 2
_LEAST_CHANNELS = 8  # of a product's image: with fewer channels, a block of 32 is mostly empty
_WIDEST_STRIDE = 8  # with larger strides, a tile would read too far beyond the last pixel
_SUFFIX = "/bfloat16"

Item = Operation | ImageJoin | ImageCut


def with_narrow_images(images: ImageArea, items: Iterable[Item]) -> list[Item]:
    """The operations, in which convolutions and products read bfloat16 images where possible. These
    images are added to `images`.
    """
    return _Narrowing(images, [_with_narrow_product(images, item) for item in items]).items()


def is_narrow_product(item: Item) -> bool:
    """Whether an operation multiplies bfloat16 numbers."""
    return isinstance(item, Operation) and isinstance(item.kind, NarrowConvolution)


def _with_narrow_product(images: ImageArea, item: Item) -> Item:
    if not isinstance(item, Operation):
        return item
    kind = _narrow_product(images, item)
    return item if kind is None else replace(item, kind=kind)


def _narrow_product(images: ImageArea, item: Operation) -> StepKind | None:
    """The kind of step that computes a convolution or product in bfloat16. `None` if no kind
    can.
    """
    if item.weights in images.area.wide:
        return None
    if isinstance(item.kind, TransposedStep):
        return NarrowTransposedStep() if _is_side_by_side(item) else None
    if isinstance(item.kind, FirstStep):
        return NarrowFirstStep() if item.window.dilation[1] == 1 else None
    if not isinstance(item.kind, ConvStep | ProductStep) or not _fits_blocks(images, item):
        return None
    return NarrowProductStep() if isinstance(item.kind, ProductStep) else NarrowConvStep()


def _fits_blocks(images: ImageArea, item: Operation) -> bool:
    channels = images.image(item.image).channels
    out = images.image(item.out).channels
    group = item.window.group
    are_blocks = group == 1 or channels // group % NARROW_BLOCK == out // group % NARROW_BLOCK == 0
    return are_blocks and channels >= _LEAST_CHANNELS and max(item.window.stride) <= _WIDEST_STRIDE


def _is_side_by_side(item: Operation) -> bool:
    """Whether the windows of a transposed convolution neither overlap nor leave gaps."""
    window = item.window
    is_plain = window.kernel == window.stride and not any(window.pads) and window.group == 1
    return is_plain and not item.second and not item.third


def _is_plain_depthwise(item: Operation) -> bool:
    return item.line is None and not item.second


def _is_plain(item: Operation) -> bool:
    return item.activated == NO_ACTIVATION


# Steps that can read and write bfloat16 → the condition for it, and the kind of step that does so.
_CARRIERS: Mapping[type[StepKind], tuple[Callable[[Operation], bool], StepKind]] = {
    DepthwiseStep: (_is_plain_depthwise, NarrowDepthwiseStep()),
    MaxPoolStep: (_is_plain, NarrowMaxPoolStep()),
}


def _carrier(item: Operation) -> StepKind | None:
    fits, kind = _CARRIERS.get(type(item.kind), (None, None))
    return kind if fits is not None and fits(item) else None


class _Narrowing:
    def __init__(self, images: ImageArea, items: Sequence[Item]) -> None:
        self._images = images
        self._items = items
        self._readers = defaultdict[str, list[Operation]](list)
        self._makers: dict[str, Operation] = {}
        for item in items:
            if not isinstance(item, Operation):
                continue
            self._makers[item.out] = item
            for name in dict.fromkeys((item.image, item.second, item.third)):
                self._readers[name].append(item)
        joins = [item for item in items if isinstance(item, ImageJoin)]
        self._joins = {join.out: join for join in joins if self._may_be_joined(join, joins)}
        others = [item for item in items if item not in self._joins.values()]
        self._apart = _joined_or_cut(others)  # values that share memory, so they stay float32
        self._stored = self._narrow_values()
        self._narrowed = set[str]()  # float32 values that also have a bfloat16 image

    def _narrow_values(self) -> set[str]:
        """The largest set of values that can all be stored in bfloat16."""
        stored = {name for name, maker in self._makers.items() if self._may_be_narrow(name, maker)}
        while unfit := {name for name in stored if not self._fits(name, stored)}:
            stored -= unfit
        return stored

    def _may_be_narrow(self, name: str, maker: Operation) -> bool:
        can_write = is_narrow_product(maker) or _carrier(maker) is not None
        is_read = bool(self._readers[name]) or self._is_joined(name)
        return can_write and name not in self._apart and is_read

    def _is_joined(self, name: str) -> bool:
        return any(name in join.parts for join in self._joins.values())

    def _may_be_joined(self, join: ImageJoin, joins: Sequence[ImageJoin]) -> bool:
        """Whether two images may be joined in bfloat16. Each of them begins a new block of channels
        in the joined image, which only convolutions over all channels can read.
        """
        readers = self._readers[join.out]
        cut = (item.image for item in self._items if isinstance(item, ImageCut))
        is_part = any(join.out in other.parts for other in joins) or join.out in cut
        are_two = len(join.parts) == 2 and len(set(join.parts)) == 2
        return (
            are_two
            and not is_part
            and not self._images.is_channels_last(join.out)
            and bool(readers)
            and all(_reads_joined(reader, join.out) for reader in readers)
        )

    def _fits(self, name: str, stored: set[str]) -> bool:
        maker = self._makers[name]
        if not is_narrow_product(maker) and maker.image not in stored:
            return False
        return all(self._reads_narrow(reader, name, stored) for reader in self._readers[name])

    def _reads_narrow(self, reader: Operation, name: str, stored: set[str]) -> bool:
        if reader.third == name or isinstance(reader.kind, NarrowFirstStep):
            return False
        if is_narrow_product(reader):
            return reader.image == name or not self._images.is_channels_last(name)
        return isinstance(reader.kind, GlobalAverageStep) or reader.out in stored

    def items(self) -> list[Item]:
        """All operations in order, including the steps that narrow images."""
        for name in self._stored:
            self._note(name, name)
        ordered = list[Item]()
        for item in self._items:
            if isinstance(item, Operation):
                ordered += self._with_narrow_image(item)
            elif isinstance(item, ImageJoin) and item.out in self._joins:
                ordered += self._narrow_join(item)
            else:
                ordered.append(item)
        return ordered

    def _narrow_join(self, join: ImageJoin) -> list[Item]:
        """The join of bfloat16 images, preceded by the steps that narrow those of them that are
        float32.
        """
        before = list[Item]()
        parts = list[str]()
        for part in join.parts:
            parts.append(part if part in self._stored else part + _SUFFIX)
            before += [] if part in self._stored else self._narrowing(part)
        first, second = (self._images.image(part).channels for part in join.parts)
        self._note(join.out, join.out)
        whole = replace(
            self._images.image(join.out), channels=-(-first // NARROW_BLOCK) * NARROW_BLOCK + second
        )
        self._images.images[join.out] = whole
        return [*before, ImageJoin(join.out, tuple(parts))]

    def _with_narrow_image(self, item: Operation) -> list[Item]:
        """The operation, preceded by the step that narrows its image if such a step is needed."""
        is_stored = item.image in self._stored
        if is_stored and isinstance(item.kind, GlobalAverageStep):
            return [replace(item, kind=NarrowGlobalAverageStep())]
        if item.out in self._stored and (kind := _carrier(item)) is not None:
            return [replace(item, kind=kind)]
        if item.image in self._joins:
            first = self._images.image(self._joins[item.image].parts[0]).channels
            return [replace(item, kind=NarrowConvStep(joined=first))]
        if not is_narrow_product(item) or is_stored or item.is_planar:
            return [item]
        return [*self._narrowing(item.image), replace(item, image=item.image + _SUFFIX)]

    def _narrowing(self, name: str) -> list[Item]:
        """The step that narrows an image. The list is empty if the image has been narrowed
        already.
        """
        narrow = name + _SUFFIX
        if narrow in self._narrowed:
            return []
        self._narrowed.add(narrow)
        self._note(narrow, name)
        return [Operation(NarrowStep(), narrow, name)]

    def _note(self, name: str, of: str) -> None:
        self._images.images[name] = replace(self._images.images[of], element_bytes=_BYTES)
        if name != of:
            self._images.alike[name] = self._images.alike.get(of, of)


def _reads_joined(reader: Operation, name: str) -> bool:
    is_conv = isinstance(reader.kind, NarrowConvStep) and reader.window.group == 1
    return (
        is_conv
        and reader.image == name
        and name not in (reader.second, reader.third)
        and (not reader.third)
    )


def _joined_or_cut(items: Sequence[Item]) -> frozenset[str]:
    """The values that are parts of other values, or that have parts."""
    joined = [(item.out, *item.parts) for item in items if isinstance(item, ImageJoin)]
    cut = [
        (item.image, *(name for name, _ in item.parts))
        for item in items
        if isinstance(item, ImageCut)
    ]
    return frozenset(name for names in (*joined, *cut) for name in names)
