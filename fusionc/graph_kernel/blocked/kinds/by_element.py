"""Elementwise steps: sums, products, activations."""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.blocked.step_kind import StepFunctions, StepKind


@dataclass(frozen=True)
class _ElementwiseKind(StepKind):
    functions = StepFunctions(task="elementwise")
    writes_in_place = True
    keeps_pixels = True


@dataclass(frozen=True)
class AddStep(_ElementwiseKind):
    """The sum of two images."""

    takes_either = True


@dataclass(frozen=True)
class MulStep(_ElementwiseKind):
    """The product of two images."""

    takes_either = True


@dataclass(frozen=True)
class ScaleStep(_ElementwiseKind):
    """The product of an image and a pixel: each channel of the image is multiplied by the same
    channel of the pixel.
    """

    second_is_pixel = True


@dataclass(frozen=True)
class ActStep(_ElementwiseKind):
    """An activation."""


@dataclass(frozen=True)
class CopyStep(_ElementwiseKind):
    """A copy of an image that is needed in two places."""

    writes_in_place = False
