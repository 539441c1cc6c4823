"""What a blocked program saves: its time against that of onnxruntime, which has a blocked layout as well."""

from __future__ import annotations

import onnx

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.blocked.convolution_time import direct_seconds, winograd_seconds
from fusionc.graph_kernel.blocked.image_area import Operation
from fusionc.graph_kernel.blocked.make_program import MadeProgram, program_of
from fusionc.graph_kernel.blocked.program import CONVOLUTIONS, Activation, ProgramStep, StepKind
from fusionc.graph_kernel.lower.area_info import attribute

# Of one thread. Products are multiplications and additions of both.
_DIRECT = 1.25  # what a direct convolution takes here at most, of the time that onnxruntime takes
_DEPTHWISE = 14e9  # products in a second, on both sides
_POOLED = 6e9  # elements that pools look at in a second
_BYTES = 14e9  # read or written in a second by what does nothing else
_FUNCTION = 0.25e-9  # seconds for an element of an activation that is more than comparisons
_OPERATOR = 1.5e-6  # seconds that onnxruntime spends on an operator beside computing
_STEP = 0.4e-6  # seconds for a step, and …
_AREA = 4e-6  # … for a program
_LEAST = 0.03  # of onnxruntime's time: below that estimates are no better than guesses
_CHEAP = frozenset((Activation.NONE, Activation.RELU, Activation.CLIP, Activation.LEAKY_RELU))
_CHEAP_OPERATORS = frozenset(("Relu", "Clip", "LeakyRelu", "Add", "Sub", "Sum", "Mul"))
_FREE_OPERATORS = frozenset(("Split", "Slice"))


def saved_by_program(area: Area) -> float:
    """Estimated seconds that the program of an area saves in each run; 0 where that is too little to be sure."""
    made = program_of(area)
    ours = _AREA + sum(
        _of_step(step, operation, made) for step, operation in zip(made.program.steps, made.operations, strict=True)
    )
    theirs = sum(_of_node(node, area, made) for node in area.nodes)
    return theirs - ours if theirs - ours > _LEAST * theirs else 0.0


def _of_step(step: ProgramStep, operation: Operation, made: MadeProgram) -> float:
    elements = _elements(operation.out, made)
    seconds = _STEP + (0.0 if step.activated.function in _CHEAP else elements * _FUNCTION)
    if step.kind in CONVOLUTIONS:
        image, out = operation.image, operation.out
        if step.kind is StepKind.WINOGRAD:
            channels = made.images[image].channels, made.images[out].channels
            seconds += winograd_seconds(*made.sides(out), *channels)
        else:
            seconds += _DIRECT * _of_convolution(image, out, step.window.kernel, step.window.group, made)
    elif step.kind in (StepKind.MAX_POOL, StepKind.AVERAGE_POOL):
        seconds += elements * step.window.kernel[0] * step.window.kernel[1] / _POOLED
    else:
        seconds += _moved([*operation.reads(), operation.out], made)
    return seconds + (4 * _elements(operation.second, made) / _BYTES if operation.second else 0.0)


def _of_node(node: onnx.NodeProto, area: Area, made: MadeProgram) -> float:
    out = node.output[0]
    elements = _elements(out, made)
    if node.op_type in _FREE_OPERATORS:
        return 0.0
    if node.op_type in ("Conv", "FusedConv", "ConvTranspose"):
        weights = area.values.get(node.input[1])
        shape = area.constants[node.input[1]].shape if weights is None else weights.shape
        kernel = (int(shape[2]), int(shape[3]))
        is_heavy = attribute(node, "activation", "Relu") not in _CHEAP_OPERATORS
        group = int(attribute(node, "group", 1))
        seconds = _of_convolution(node.input[0], out, kernel, group, made)
        return _OPERATOR + seconds + (elements * _FUNCTION if is_heavy else 0.0)
    if node.op_type in ("MaxPool", "AveragePool"):
        rows, columns = map(int, attribute(node, "kernel_shape"))
        return _OPERATOR + elements * rows * columns / _POOLED
    images = [name for name in (*node.input, out) if name in made.images]
    function = 0.0 if node.op_type in _CHEAP_OPERATORS or len(images) > 2 else elements * _FUNCTION
    return _OPERATOR + _moved(images, made) + function


def _of_convolution(image: str, out: str, kernel: tuple[int, int], group: int, made: MadeProgram) -> float:
    """The direct way, in onnxruntime."""
    taken = made.images[image].channels // group
    taps = kernel[0] * kernel[1]
    if taken == 1:
        return max(_elements(out, made) * taps / _DEPTHWISE, _moved([image, out], made))
    return direct_seconds(made.pixels(out), taps, taken, made.images[out].channels)


def _moved(names: list[str], made: MadeProgram) -> float:
    return sum(4 * _elements(name, made) for name in names) / _BYTES


def _elements(name: str, made: MadeProgram) -> float:
    return made.images[name].channels * made.pixels(name)
