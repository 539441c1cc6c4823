"""What a blocked program saves: its time against that of onnxruntime, which has a blocked layout
for images as well.

Convolutions, products, attention, norms and copies count, and how many steps there are. What stands
between convolutions onnxruntime fuses into them, too, or it takes as long there as here; behind
products onnxruntime has a pass of its own for it.
"""

from __future__ import annotations

from fusionc.graph_kernel.area import Area, KernelKind
from fusionc.graph_kernel.blocked.convolution_time import (
    direct_seconds,
    image_copy_seconds,
    winograd_seconds,
)
from fusionc.graph_kernel.blocked.image_area import Operation
from fusionc.graph_kernel.blocked.make_program import MadeProgram, algorithm_of, program_of
from fusionc.graph_kernel.blocked.product_time import (
    attention_seconds,
    copy_seconds,
    norm_seconds,
    pass_seconds,
    product_seconds,
    rotary_seconds,
    strassen_share,
)
from fusionc.graph_kernel.blocked.program import (
    BLOCK,
    BY_MATRIX,
    CONVOLUTIONS,
    NO_ACTIVATION,
    NORMS,
    NOTHING,
    Activation,
    ProgramStep,
    StepKind,
)

_DIRECT = 0.94  # what a direct convolution takes here, of the time that onnxruntime takes …
# … and one of each channel by itself whose kernels have another number of columns than these
_BY_CHANNEL = 1.12
_COLUMNS = (3, 5, 7)
# what onnxruntime takes for a transposed convolution whose kernels overlap, as it adds up in memory
_OVERLAPPING = 1.3
_OPERATOR = 1e-6  # seconds that onnxruntime takes for an operator beside what it computes
_COPIES = (StepKind.LOAD, StepKind.STORE, StepKind.PICK)
_OF_PASS = 0.25  # of a copy: what it takes to pick channels of one more block of the image
_LEAST = 0.04  # of onnxruntime's time: below that estimates are no better than guesses …
# … of products, which take no more time here by themselves, less is enough …
_LEAST_OF_ROWS = 0.015
# … and of the time of copies more: they depend on which cache an image happens to be in …
_LEAST_OF_COPIES = 0.3
_LEAST_SECONDS = 3e-6  # … and below that, beside what it takes to begin an operator of a library


def saved_by_program(area: Area) -> float:
    """Estimated seconds that the program of an area saves in each run, on one thread; 0 where that
    is too little to be sure.
    """
    made = program_of(area)
    steps = list(zip(made.program.steps, made.operations, strict=True))
    copies = _copies(made)
    times = [copies, *(_here_and_there(*step, made) for step in steps)]
    ours, theirs = (sum(column) for column in zip(*times, strict=True))
    computed = [of.out for step, of in steps if step.kind not in (*_COPIES, StepKind.COPY)]
    theirs += _OPERATOR * sum(not made.is_rows(name) for name in computed)
    share = _LEAST_OF_ROWS if all(made.is_rows(name) for name in computed) else _LEAST
    least = max(share * theirs + _LEAST_OF_COPIES * copies[0], _LEAST_SECONDS)
    return theirs - ours if theirs - ours > least else 0.0


def _here_and_there(
    step: ProgramStep, operation: Operation, made: MadeProgram
) -> tuple[float, float]:
    if step.kind in BY_MATRIX and made.is_rows(operation.out):
        here, there = _of_product(operation, made)
        return here * _share(step, operation, made), there
    if step.kind in CONVOLUTIONS:
        there = _of_direct(step, operation, made)
        if step.kind is StepKind.WINOGRAD:
            sizes = *made.sides(operation.out), *_channels(operation, made), step.window.stride[0]
            return winograd_seconds(*sizes)[0], there
        return there * _ratio(step) * _share(step, operation, made), there
    if step.kind in NORMS and made.is_rows(operation.out):
        return norm_seconds(made.pixels(operation.out), made.images[operation.out].channels)
    if step.kind is StepKind.ROTARY:
        return rotary_seconds(made.pixels(operation.out), made.images[operation.out].channels)
    if step.kind is StepKind.ATTENTION:
        return _of_attention(step, operation, made)
    if step.kind in _COPIES and made.is_rows(operation.out):
        return copy_seconds(made.pixels(operation.out), made.images[operation.out].channels), 0.0
    return 0.0, 0.0


def _copies(made: MadeProgram) -> tuple[float, float]:
    """Seconds here and in onnxruntime for images to be copied. Here they come into the layout and
    out of it, and channels are picked; onnxruntime picks channels and transposes outside of its
    layout, into which convolutions take what they read, and has each value in it and outside
    once.
    """
    here = there = 0.0
    in_layout = dict[int, bool]()  # by storage: there
    copied = set[int]()
    for step, operation in zip(made.program.steps, made.operations, strict=True):
        if made.is_rows(operation.out):
            continue
        out = NOTHING if step.kind is StepKind.STORE else made.program.buffers[step.out].storage
        image = NOTHING if step.kind is StepKind.LOAD else made.program.buffers[step.image].storage
        seconds = image_copy_seconds(
            made.pixels(operation.out), made.images[operation.out].channels
        )
        if step.kind in _COPIES:
            here += seconds * (1 + _OF_PASS * (min(step.window.group, BLOCK) - 1))
            there += seconds * (step.kind is StepKind.PICK or operation.flag)
        leaves = step.kind in (StepKind.PICK, StepKind.STORE) and in_layout.get(image, False)
        enters = (
            step.kind in CONVOLUTIONS and not in_layout.get(image, True) and not operation.is_planar
        )
        if (leaves or enters) and image not in copied:
            copied.add(image)
            there += image_copy_seconds(
                made.pixels(operation.image), made.images[operation.image].channels
            )
        has_blocks = made.images[operation.out].channels % BLOCK == 0
        is_inside = has_blocks and (step.kind in CONVOLUTIONS or in_layout.get(image, False))
        in_layout[out] = in_layout.get(out, True) and is_inside and step.kind not in _COPIES
    return here, there


def _of_product(operation: Operation, made: MadeProgram) -> tuple[float, float]:
    rows = made.pixels(operation.out)
    (taken, out) = _channels(operation, made)
    here, there = product_seconds(rows, taken, out)
    if operation.second:
        there += pass_seconds(rows, out, Activation.NONE)
    if operation.activated != NO_ACTIVATION:
        there += pass_seconds(rows, out, operation.activated.function)
    return here, there


def _of_attention(
    step: ProgramStep, operation: Operation, made: MadeProgram
) -> tuple[float, float]:
    batches = max(1, made.images[operation.second].batch.about(1))
    heads = step.window.group
    queries = made.pixels(operation.out)
    keys = made.pixels(operation.second)
    both = sum(_channels(operation, made))
    of_keys = made.images[operation.second].channels + made.images[operation.third].channels
    numbers = queries * both + keys * of_keys
    return attention_seconds(queries * keys // batches * heads, both // (2 * heads), numbers)


def _share(step: ProgramStep, operation: Operation, made: MadeProgram) -> float:
    """What a product takes of the time of the direct way."""
    pixels = made.pixels(operation.out)
    if algorithm_of(step) is not KernelKind.STRASSEN or pixels < step.flag:
        return 1.0
    return strassen_share(pixels, *_channels(operation, made))


def _channels(operation: Operation, made: MadeProgram) -> tuple[int, int]:
    return made.images[operation.image].channels, made.images[operation.out].channels


def _ratio(step: ProgramStep) -> float:
    return (
        _BY_CHANNEL
        if step.kind is StepKind.DEPTHWISE and step.window.kernel[1] not in _COLUMNS
        else _DIRECT
    )


def _of_direct(step: ProgramStep, operation: Operation, made: MadeProgram) -> float:
    (channels, out) = _channels(operation, made)
    window = step.window
    taps = window.kernel[0] * window.kernel[1]
    is_transposed = step.kind is StepKind.TRANSPOSED
    # of the taps, one for each pixel
    shares = window.stride[0] * window.stride[1] if is_transposed else 1
    seconds = direct_seconds(
        made.pixels(operation.out) // shares, taps, channels // window.group, out
    )
    return seconds * (_OVERLAPPING if is_transposed and taps > shares else 1.0)
