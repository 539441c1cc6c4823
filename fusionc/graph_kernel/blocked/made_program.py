"""A program (the steps that the kernel of an area runs), and the images that it reads and makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fusionc.graph_kernel.blocked.image_area import Image, Operation
from fusionc.graph_kernel.blocked.image_size import size_of
from fusionc.graph_kernel.blocked.program import Program
from fusionc.graph_kernel.blocked.step_kind import ImageEstimate, StepEstimate

_ABOUT_ROWS = 128  # the number of rows to assume if it is unknown


@dataclass(frozen=True)
class MadeProgram:
    """A program, the operations that became its steps, and the area's images by name."""

    program: Program
    operations: tuple[Operation, ...]  # one for each step
    images: dict[str, Image]
    rows: frozenset[str]  # the images that are rows
    unknown: int  # the height and width to assume for an image of unknown size

    def is_rows(self, name: str) -> bool:
        """Whether a value is rows, not images."""
        return name in self.rows

    def estimates(self) -> Iterator[StepEstimate]:
        """For each step, the estimated sizes on which its time depends."""
        for operation in self.operations:
            yield StepEstimate(
                self.estimate(operation.out),
                self.estimate(operation.image),
                self.estimate(operation.second) if operation.second else None,
                self.estimate(operation.third) if operation.third else None,
                operation.window,
                operation.activated,
            )

    def estimate(self, name: str) -> ImageEstimate:
        """The estimated sizes of an image."""
        image = self.images[name]
        height = max(1, image.height.about(self.unknown))
        width = max(1, image.width.about(self.unknown))
        batches = max(1, image.batch.about(1))
        pixels = height * width
        if self.is_rows(name):
            pixels = height * max(1, image.width.about(_ABOUT_ROWS)) * batches
        return ImageEstimate(image.channels, batches, height, width, pixels, self.is_rows(name))

    def about(self, name: str, dim: int | str) -> int:
        """An estimate of a dimension of an image or of rows. An unknown batch size counts as 1."""
        if isinstance(dim, int):
            return dim
        if self.images[name].batch == size_of(dim):
            return 1
        return _ABOUT_ROWS if self.is_rows(name) else self.unknown
