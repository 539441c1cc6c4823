"""Which images of an area are of bfloat16, and which steps read or write them.

Convolutions and products read bfloat16. A value is stored so if whatever makes it can write that,
and all its readers can read it. Others are narrowed for the products that read them, once for all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fusionc.graph_kernel.blocked.image_area import ImageArea, ImageCut, ImageJoin, Operation
from fusionc.graph_kernel.blocked.kinds.convolve import ConvStep, ProductStep
from fusionc.graph_kernel.blocked.kinds.narrow import NarrowStep
from fusionc.graph_kernel.blocked.kinds.narrow_convolve import (
    NARROW_BLOCK,
    NarrowConvStep,
    NarrowProductStep,
)

_BYTES = 2
_LEAST_CHANNELS = 8  # of what a product reads; with fewer most of a block of 32 is empty
_WIDEST_STRIDE = 8  # so many pixels are read beyond the last one
_SUFFIX = "/bfloat16"

Item = Operation | ImageJoin | ImageCut


def with_narrow_images(images: ImageArea, items: Iterable[Item]) -> list[Item]:
    """The operations, with images of bfloat16 for those that multiply. Notes these images."""
    return _Narrowing(images, [_with_narrow_product(images, item) for item in items]).items()


def _with_narrow_product(images: ImageArea, item: Item) -> Item:
    if not isinstance(item, Operation) or not _may_be_narrow(images, item):
        return item
    is_product = isinstance(item.kind, ProductStep)
    return replace(item, kind=NarrowProductStep() if is_product else NarrowConvStep())


def _may_be_narrow(images: ImageArea, item: Operation) -> bool:
    if not isinstance(item.kind, ConvStep | ProductStep):
        return False
    channels = images.image(item.image).channels
    out = images.image(item.out).channels
    group = item.window.group
    are_blocks = group == 1 or channels // group % NARROW_BLOCK == out // group % NARROW_BLOCK == 0
    return are_blocks and channels >= _LEAST_CHANNELS and max(item.window.stride) <= _WIDEST_STRIDE


def is_narrow_product(item: Item) -> bool:
    """Whether an operation multiplies numbers of bfloat16."""
    return isinstance(item, Operation) and isinstance(item.kind, NarrowConvStep | NarrowProductStep)


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
        self._kept = self._kept_wide(items)
        self._narrowed = set[str]()  # values of float32 with an image of bfloat16 next to them

    def _kept_wide(self, items: Sequence[Item]) -> frozenset[str]:
        """The values that are joined or cut: parts of others."""
        joined = [(item.out, *item.parts) for item in items if isinstance(item, ImageJoin)]
        cut = [
            (item.image, *(name for name, _ in item.parts))
            for item in items
            if isinstance(item, ImageCut)
        ]
        return frozenset(name for names in (*joined, *cut) for name in names)

    def items(self) -> list[Item]:
        """All operations in order, with those that narrow images."""
        stored = {name for name in self._makers if self._is_stored_narrow(name)}
        for name in stored:
            self._note(name, name)
        ordered = list[Item]()
        for item in self._items:
            if is_narrow_product(item):
                assert isinstance(item, Operation)
                ordered += self._narrowing(item.image) if item.image not in stored else []
                item = item if item.image in stored else replace(item, image=item.image + _SUFFIX)
            ordered.append(item)
        return ordered

    def _is_stored_narrow(self, name: str) -> bool:
        readers = self._readers[name]
        return (
            name not in self._kept
            and is_narrow_product(self._makers[name])
            and bool(readers)
            and all(self._reads_narrow(reader, name) for reader in readers)
        )

    def _reads_narrow(self, reader: Operation, name: str) -> bool:
        if not is_narrow_product(reader) or reader.third == name:
            return False
        return reader.image == name or not self._images.is_channels_last(name)

    def _narrowing(self, name: str) -> list[Item]:
        """The step that makes an image of bfloat16, if there is none yet."""
        if name in self._narrowed:
            return []
        self._narrowed.add(name)
        self._note(name + _SUFFIX, name)
        return [Operation(NarrowStep(), name + _SUFFIX, name)]

    def _note(self, name: str, of: str) -> None:
        self._images.images[name] = replace(self._images.images[of], element_bytes=_BYTES)
        if name != of:
            self._images.alike[name] = self._images.alike.get(of, of)
