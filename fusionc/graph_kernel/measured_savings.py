"""enable_debug_mode: the time that the kernel of each area saves, as estimated and as measured."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from fusionc.graph_kernel.area import Area, KernelKind
from fusionc.graph_kernel.blocked.made_program import MadeProgram
from fusionc.graph_kernel.blocked.make_program import program_of
from fusionc.graph_kernel.blocked.time_saved import saved_by_program
from fusionc.graph_kernel.lower.symbolic_sizes import Unsupported
from fusionc.graph_kernel.select.make_area import function_of
from fusionc.graph_kernel.select.time_estimate import seconds_saved, with_sizes
from fusionc.model.operators import KERNELS, MICROSOFT
from fusionc.protos import part_model
from fusionc.runtime.profile import seconds_of_run
from fusionc.runtime.run_errors import RunError


def savings_report(areas: Sequence[Area], library: Path) -> list[str]:
    """One sentence for each area. If a size is unknown, the measurement uses the size that the
    estimate assumes.
    """
    return [f"the kernel of {area.name} {_saved(area, library)}" for area in areas]


def _saved(area: Area, library: Path) -> str:
    weights = dict[str, np.ndarray]()
    try:
        if area.kind is KernelKind.LOOPS:
            sized = with_sizes(area, {})
            estimated = seconds_saved(area, {})
        else:
            made = program_of(area)
            sized = _sized_area(area, made)
            estimated = saved_by_program(area)
            weights = _weights(area, made)
    except Unsupported:
        return "was not measured, because no possible sizes of its inputs are known"
    feeds = {
        name: np.ones(_shape(sized, name), _type(area, name))
        for name in area.inputs
        if name not in weights
    }
    try:
        with tempfile.TemporaryDirectory(prefix="fusionc-") as folder:
            model = Path(folder, "area.onnx")
            onnx.save(_model(sized, weights), model)
            one_by_one, kernel = (
                seconds_of_run(model, feeds, kernels) for kernels in (None, library)
            )
    except RunError as error:
        return f"was not measured: {error}"
    saved = (one_by_one - kernel) * 1e6
    return (
        f"is estimated to save {estimated * 1e6:.1f} µs of a run on one thread, and saves "
        f"{saved:.1f} µs"
    )


def _sized_area(area: Area, made: MadeProgram) -> Area:
    """The area with numbers as the sizes of its inputs.

    Raises Unsupported if the size of an input is unknown and is not a size of an image or of rows.
    """
    images = sorted(
        (name for name in area.inputs if name in made.images), key=made.is_rows, reverse=True
    )
    sizes = {dim: made.about(name, dim) for name in images for dim in area.values[name].shape}
    if any(
        isinstance(dim, str) and dim not in sizes
        for name in area.inputs
        for dim in area.values[name].shape
    ):
        raise Unsupported("an unknown size is not that of an image")
    given = (area.values[name] for name in area.inputs)
    sized = {v.name: replace(v, shape=tuple(sizes.get(dim, dim) for dim in v.shape)) for v in given}
    return replace(area, values={**area.values, **sized})


def _weights(area: Area, made: MadeProgram) -> dict[str, np.ndarray]:
    """Random weights by name. They become constants of the model, because a kernel reads its
    weights when the session creates it.
    """
    rng = np.random.default_rng(0)
    steps = made.program.steps
    places = sorted(
        {place for s in steps for place in (s.weights, s.bias) if 0 <= place < len(area.inputs)}
    )
    found = {name: _shape(area, name) for name in (area.inputs[place] for place in places)}
    return {
        name: (rng.standard_normal(shape) / 16).astype(_type(area, name))
        for name, shape in found.items()
    }


def _shape(area: Area, name: str) -> tuple[int, ...]:
    return tuple(dim for dim in area.values[name].shape if isinstance(dim, int))


def _type(area: Area, name: str) -> np.dtype:
    return helper.tensor_dtype_to_np_dtype(area.values[name].dtype)


def _model(area: Area, weights: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """A model that only calls an area. If no kernel is registered, onnxruntime runs its
    operators.
    """
    inputs, outputs = (
        [
            helper.make_tensor_value_info(
                name,
                area.values[name].dtype,
                [d if isinstance(d, int) else None for d in area.values[name].shape],
            )
            for name in names
            if name not in weights
        ]
        for names in (area.inputs, area.outputs)
    )
    call = helper.make_node(area.name, list(area.inputs), list(area.outputs), domain=KERNELS)
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    opsets = {"": area.opset, MICROSOFT: 1, KERNELS: 1}
    functions = [function_of(area)]
    return part_model("area", [call], opsets, inputs, outputs, tensors, functions=functions)
