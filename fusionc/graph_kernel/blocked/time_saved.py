"""What a blocked program saves: its time against that of onnxruntime, which has a blocked layout as well.

Only convolutions count. What stands between them onnxruntime fuses into them, too, or it takes as long there as here.
So it is Winograd's way that a program has ahead; the direct way takes longer here.
"""

from __future__ import annotations

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.blocked.convolution_time import direct_seconds, winograd_seconds
from fusionc.graph_kernel.blocked.image_area import Operation
from fusionc.graph_kernel.blocked.make_program import MadeProgram, program_of
from fusionc.graph_kernel.blocked.program import CONVOLUTIONS, ProgramStep, StepKind

_DIRECT = 1.12  # what a direct convolution takes here, of the time that onnxruntime takes
_LEAST = 0.04  # of onnxruntime's time: below that estimates are no better than guesses


def saved_by_program(area: Area) -> float:
    """Estimated seconds that the program of an area saves in each run, on one thread; 0 where that is too little to be
    sure."""
    made = program_of(area)
    theirs = ours = 0.0
    for step, operation in zip(made.program.steps, made.operations, strict=True):
        if step.kind in CONVOLUTIONS:
            there = _of_direct(step, operation, made)
            theirs += there
            ours += _of_winograd(operation, made) if step.kind is StepKind.WINOGRAD else there * _DIRECT
    return theirs - ours if theirs - ours > _LEAST * theirs else 0.0


def _of_direct(step: ProgramStep, operation: Operation, made: MadeProgram) -> float:
    channels, out = made.images[operation.image].channels, made.images[operation.out].channels
    taps = 1 if step.kind is StepKind.TRANSPOSED else step.window.kernel[0] * step.window.kernel[1]
    return direct_seconds(made.pixels(operation.out), taps, channels // step.window.group, out)


def _of_winograd(operation: Operation, made: MadeProgram) -> float:
    channels, out = made.images[operation.image].channels, made.images[operation.out].channels
    return winograd_seconds(*made.sides(operation.out), channels, out)
