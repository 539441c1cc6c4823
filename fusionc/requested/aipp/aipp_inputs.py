"""--insert_op_conf: put AIPP's preprocessing of images before inputs, which then take uint8."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TensorShapeProto, ValueInfoProto, helper

from fusionc.errors import Defect, advice
from fusionc.model.operators import opsets_of
from fusionc.protos import fresh_name, inputs_to_feed, part_model
from fusionc.requested.aipp.aipp_arithmetic import preprocess
from fusionc.requested.aipp.aipp_file import OPTION, AippBlock
from fusionc.requested.aipp.aipp_operators import PreprocessingOperators
from fusionc.requested.aipp.preprocessing import Preprocessing, preprocessing_of
from fusionc.requested.rename_value import all_names, separate_input
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Runner

_Array = np.ndarray[Any, Any]
_INITIALIZERS_IR = 4  # the first IR version in which an initializer need not be an input
_OLDEST = 7  # the oldest opset with Add and Mul as the operators for AIPP need them
# The largest accepted difference between the operators and NumPy, in steps of uint8. It is 1 if a
# sum of the color matrix may exceed 2^24 / 256: such a sum is not exact in float32, and may be
# rounded to the next step.
_ROUNDING = 1e-4
_INEXACT_SUM = 2**24
_LARGE = 2**24  # an image of more elements is large
_OPEN = (6, 10)  # in the comparison, the height and width of images whose sizes are open


def inputs_of_blocks(model: ModelProto, blocks: Sequence[AippBlock]) -> dict[str, AippBlock]:
    """The block of each input, by the name of the input. Raises UsageError if an input does not
    exist, or if two blocks name the same input.
    """
    inputs = [value.name for value in inputs_to_feed(model.graph)]
    by_name = dict[str, AippBlock]()
    for block in blocks:
        name, key = _input_of(block, inputs)
        if name in by_name:
            what = f"two blocks preprocess the input {name}"
            raise block.error(key, what, "give each input one block")
        by_name[name] = block
    return by_name


def _input_of(block: AippBlock, inputs: Sequence[str]) -> tuple[str, str]:
    """The name of the input, and the key that names it."""
    name = block["related_input_name"]
    key = "related_input_name" if name else "related_input_rank"
    rank = block["related_input_rank"]
    if not name and rank < len(inputs):
        return inputs[rank], key
    if name in inputs:
        return name, key
    what = f"the model has no input {name or rank}"
    numbered = [f"{number} ({one})" for number, one in enumerate(inputs)]
    known = ", ".join(inputs if name else numbered)
    raise block.error(key, what, advice(name, inputs, f"the inputs of the model are: {known}"))


def preprocess_inputs(
    model: ModelProto, blocks: Mapping[str, AippBlock]
) -> dict[str, Preprocessing]:
    """Put the preprocessing before each of these inputs. Return its steps, by input name."""
    if not blocks:
        return {}
    values = {value.name: value for value in model.graph.input}
    steps = {name: preprocessing_of(block, values[name]) for name, block in blocks.items()}
    taken = dict.fromkeys(all_names(model), 1)
    fresh = partial(fresh_name, taken=taken)
    nodes = list[NodeProto]()
    for name, one in steps.items():
        _require_insertable(model, name, blocks[name])
        nodes += _insert(model, values[name], one, fresh)
    nodes += model.graph.node
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return steps


def _require_insertable(model: ModelProto, name: str, block: AippBlock) -> None:
    """Raise UsageError if no nodes can come between an input and its consumers."""
    opset = opsets_of(model).get("", 0)
    if opset < _OLDEST:
        what = f"AIPP needs opset {_OLDEST} or newer, and the model has opset {opset or 'none'}"
        raise block.error("", what, "raise the model with onnx.version_converter first")
    if any(value.name == name for value in model.graph.output):
        what = f"the input {name} is also an output of the model"
        raise block.error("related_input_rank", what, "name another input")


def _insert(
    model: ModelProto, value: ValueInfoProto, steps: Preprocessing, fresh: Callable[[str], str]
) -> list[NodeProto]:
    """Declare the input as images, and rename what its consumers read. Return the nodes between the
    two.
    """
    name = value.name
    inner = fresh(f"{name}_preprocessed")
    separate_input(model, value, inner)
    elem_type = value.type.tensor_type.elem_type
    operators = PreprocessingOperators(name, inner, elem_type, opsets_of(model)[""], fresh)
    operators.add(steps)
    _declare_images(value, steps)
    if model.ir_version >= _INITIALIZERS_IR:
        model.graph.initializer.extend(operators.constants)
        return operators.nodes
    constants = [
        helper.make_node("Constant", [], [one.name], fresh(f"{one.name}_node"), value=one)
        for one in operators.constants
    ]
    return [*constants, *operators.nodes]


def _declare_images(value: ValueInfoProto, steps: Preprocessing) -> None:
    """Give an input the type and the shape of images. If the preprocessing does not change the
    sizes of images, open sizes keep their symbols.
    """
    tensor = value.type.tensor_type
    batch, _, *symbols = map(_copied, tensor.shape.dim)
    tensor.elem_type = TensorProto.UINT8
    del tensor.shape.dim[:]
    tensor.shape.dim.append(batch)
    for axis, size in enumerate(steps.image_sizes):
        dim = tensor.shape.dim.add()
        if size is not None:
            dim.dim_value = size
        elif not any(steps.pads):
            dim.CopyFrom(symbols[axis])


def _copied(dim: TensorShapeProto.Dimension) -> TensorShapeProto.Dimension:
    copy = TensorShapeProto.Dimension()
    copy.CopyFrom(dim)
    return copy


def compared_with_numpy(steps: Mapping[str, Preprocessing], opset: int) -> list[str]:
    """Run the operators of each input on images, and compare them with AIPP's arithmetic in NumPy.
    Return a notice for each input. Raises Defect if they differ.
    """
    notices = []
    for name, one in steps.items():
        try:
            distance = _distance(one, opset, _images(one))
            notices.append(
                f"the preprocessing of {name} computes what AIPP computes, up to {distance:.1g} "
                "steps of uint8"
            )
        except RunError as error:
            notices.append(f"the preprocessing of {name} is not compared with AIPP's: {error}")
    return notices


def _images(steps: Preprocessing) -> _Array:
    """A black image, a white image and a random image. If images are large, only the random one."""
    height, width, channels = steps.image_sizes
    shape = (1, height or _OPEN[0], width or _OPEN[1], channels)
    random = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    if random.size > _LARGE:
        return random
    return np.concatenate([np.zeros_like(random), np.full_like(random, 255), random])


def _distance(steps: Preprocessing, opset: int, images: _Array) -> float:
    """The largest difference between operators and NumPy, in steps of uint8. Raises Defect if it
    is too large, and RunError if onnxruntime cannot run the operators.
    """
    taken: dict[str, int] = {}
    operators = PreprocessingOperators(
        "images", "result", TensorProto.FLOAT, opset, partial(fresh_name, taken=taken)
    )
    operators.add(steps)
    model = part_model(
        "preprocessing",
        operators.nodes,
        {"": opset},
        [helper.make_tensor_value_info("images", TensorProto.UINT8, [None] * 4)],
        [helper.make_tensor_value_info("result", TensorProto.FLOAT, None)],
        operators.constants,
    )
    runner = Runner(model.SerializeToString())
    try:
        (result,) = runner.run({"images": images})
    finally:
        runner.close()
    expected = preprocess(images, steps)
    step = np.abs(np.reshape(steps.factor, (1, -1, 1, 1)))
    distances = np.abs(result - expected) / np.where(step > 0, step, 1)
    if result.shape != expected.shape or not np.all(distances <= _limit(steps)):
        what = "the operators for AIPP do not compute what AIPP computes"
        hint = "please report it with the configuration file"
        raise Defect(what, where=OPTION, hint=hint)
    return float(distances.max())


def _limit(steps: Preprocessing) -> float:
    rows = () if steps.colors is None else steps.colors.rows
    sums = [255 * sum(map(abs, row)) for row in rows]
    return 1.0 if max(sums, default=0) >= _INEXACT_SUM else _ROUNDING
