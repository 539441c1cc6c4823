"""Estimates the time that a program saves: onnxruntime's time minus the program's time. onnxruntime
also has a blocked layout for images.

The estimate consists of the times of convolutions, products, attention, norms and copies, and of a
time for each step. Other operators between convolutions do not count, because onnxruntime fuses
them as well, or takes as long for them as a program. Other operators after products count, because
for these onnxruntime makes an additional pass over the results.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.blocked.byte_time import byte_copy_seconds
from fusionc.graph_kernel.blocked.convolution_time import image_copy_seconds
from fusionc.graph_kernel.blocked.kinds.by_element import CopyStep
from fusionc.graph_kernel.blocked.kinds.byte_convolve import ByteConvolutionKind
from fusionc.graph_kernel.blocked.kinds.load_store import LoadStep, StoreStep
from fusionc.graph_kernel.blocked.kinds.pick import PickStep
from fusionc.graph_kernel.blocked.made_program import MadeProgram
from fusionc.graph_kernel.blocked.make_program import narrow_program_of, program_of
from fusionc.graph_kernel.blocked.program import NOTHING, ProgramStep
from fusionc.graph_kernel.blocked.step_kind import BLOCK, ImageEstimate, StepEstimate

_OPERATOR = 1e-6  # seconds of overhead that onnxruntime has for each operator
_OF_PASS = 0.25  # the time to pick channels from one more block, divided by the time of a copy
# A program must save a share of onnxruntime's time, because estimates are not exact. The share is
# smaller if all operators work on rows, because products never take more time here. A share of the
# time of copies is added, because that time depends on which cache an image is in. In any case, the
# program must save the overhead of calling an operator of a library.
_LEAST = 0.04
_LEAST_OF_ROWS = 0.015
_LEAST_OF_COPIES = 0.3
_LEAST_SECONDS = 3e-6


@dataclass(frozen=True)
class ProgramTimes:
    """Estimated seconds of a run of an area, on one thread."""

    theirs: float  # of onnxruntime
    ours: float  # of the program
    least: float  # what the program has to save

    @property
    def saved(self) -> float:
        """The seconds that the program saves; 0 if that is too little to be sure."""
        saved = self.theirs - self.ours
        return saved if saved > self.least else 0.0


def saved_by_program(area: Area) -> float:
    """Estimated seconds that the program of an area saves in each run, on one thread. 0 if that is
    too little to be certain that it saves any.
    """
    return times_of_program(area).saved


def times_of_program(area: Area) -> ProgramTimes:
    """The estimated times of an area whose kernel is a program."""
    made = narrow_program_of(area) or program_of(area)
    estimates = list(made.estimates())
    if any(isinstance(step.kind, ByteConvolutionKind) for step in made.program.steps):
        return _times_of_bytes(made, estimates)
    copies = _image_copies(made, estimates)
    steps = made.program.steps
    times = [copies, *(step.kind.seconds(of) for step, of in zip(steps, estimates, strict=True))]
    ours, theirs = (sum(column) for column in zip(*times, strict=True))
    computed = [
        of.out.is_rows
        for step, of in zip(steps, estimates, strict=True)
        if not (step.kind.is_copy or isinstance(step.kind, CopyStep))
    ]
    theirs += _OPERATOR * computed.count(False)
    share = _LEAST_OF_ROWS if all(computed) else _LEAST
    least = max(share * theirs + _LEAST_OF_COPIES * copies[0], _LEAST_SECONDS)
    return ProgramTimes(theirs, ours, least)


def _times_of_bytes(made: MadeProgram, estimates: list[StepEstimate]) -> ProgramTimes:
    """The times of a program of bytes. The estimate takes into account that onnxruntime, too,
    computes each quantized group as one integer operator.
    """
    times = [
        byte_copy_seconds(step.kind, operation, of)
        if isinstance(step.kind, LoadStep | StoreStep)
        else step.kind.seconds(of)
        for step, operation, of in zip(made.program.steps, made.operations, estimates, strict=True)
    ]
    ours, theirs = (sum(column) for column in zip(*times, strict=True))
    return ProgramTimes(theirs, ours, max(_LEAST * theirs, _LEAST_SECONDS))


def _image_copies(made: MadeProgram, estimates: list[StepEstimate]) -> tuple[float, float]:
    """Seconds to copy images, here and in onnxruntime.

    A program copies images into the blocked layout and out of it, and picks channels. onnxruntime
    picks channels and transposes outside its own blocked layout. Its convolutions copy images into
    that layout, each image once.
    """
    here = there = 0.0
    in_layout = dict[int, bool]()  # storage → whether its image is in onnxruntime's layout
    copied = set[int]()
    for step, operation, of in zip(made.program.steps, made.operations, estimates, strict=True):
        if of.out.is_rows:
            continue
        kind = step.kind
        out, image = _storages(made, step)
        here += _seconds(of.out) * _passes(step)
        there += _seconds(of.out) * _is_copied_there(step)
        if isinstance(kind, PickStep | StoreStep):
            is_moved = in_layout.get(image, False)
        else:
            is_read_there = operation.is_planar or in_layout.get(image, True)
            is_moved = kind.is_convolution and not is_read_there
        if is_moved and image not in copied:
            copied.add(image)
            there += _seconds(of.image)
        has_blocks = of.out.channels % BLOCK == 0
        is_inside = has_blocks and (kind.is_convolution or in_layout.get(image, False))
        in_layout[out] = in_layout.get(out, True) and is_inside and not kind.is_copy
    return here, there


def _storages(made: MadeProgram, step: ProgramStep) -> tuple[int, int]:
    """The storages that a step writes and reads, or NOTHING."""
    buffers = made.program.buffers
    out = NOTHING if isinstance(step.kind, StoreStep) else buffers[step.out].storage
    image = NOTHING if isinstance(step.kind, LoadStep) else buffers[step.image].storage
    return out, image


def _seconds(image: ImageEstimate) -> float:
    return image_copy_seconds(image.pixels, image.channels)


def _passes(step: ProgramStep) -> float:
    """The time of a step that copies, divided by the time of a plain copy. 0 for other steps."""
    groups = step.kind.groups if isinstance(step.kind, PickStep) else 1
    return step.kind.is_copy * (1 + _OF_PASS * (min(groups, BLOCK) - 1))


def _is_copied_there(step: ProgramStep) -> bool:
    kind = step.kind
    if isinstance(kind, LoadStep | StoreStep):
        return kind.is_channels_last
    return isinstance(kind, PickStep)
