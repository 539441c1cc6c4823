"""enable_debug_mode: what the kernel of each area is estimated to save, and what it saves, measured on its own."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from fusionc.graph_kernel.area import Area
from fusionc.graph_kernel.lower.symbolic_sizes import Unsupported
from fusionc.graph_kernel.select.make_area import function_of
from fusionc.graph_kernel.select.time_estimate import seconds_saved, with_sizes
from fusionc.model.operators import KERNELS
from fusionc.runtime.profile import seconds_of_run
from fusionc.runtime.run_errors import RunError


def told_savings(areas: Sequence[Area], library: Path) -> list[str]:
    """One sentence for each area, of sizes that the estimate takes where the model leaves them open."""
    return [f"the kernel of {area.name} {_saved(area, library)}" for area in areas]


def _saved(area: Area, library: Path) -> str:
    try:
        sized = with_sizes(area, {})
        estimated = seconds_saved(area, {})
    except Unsupported:
        return "was not measured: no sizes are known that it can have"
    call = helper.make_node(area.name, list(area.inputs), list(area.outputs), domain=KERNELS)
    feeds = {name: _elements(sized, name) for name in area.inputs}
    try:
        with tempfile.TemporaryDirectory(prefix="fusionc-") as folder:
            model = Path(folder, "area.onnx")
            onnx.save(_model(sized, call), model)
            one_by_one, kernel = (seconds_of_run(model, feeds, kernels) for kernels in (None, library))
    except RunError as error:
        return f"was not measured: {error}"
    saved = (one_by_one - kernel) * 1e6
    return f"is estimated to save {estimated * 1e6:.1f} µs of a run on one thread, and saves {saved:.1f} µs"


def _elements(area: Area, name: str) -> np.ndarray:
    value = area.values[name]
    sizes = [dim for dim in value.shape if isinstance(dim, int)]
    return np.ones(sizes, helper.tensor_dtype_to_np_dtype(value.dtype))


def _model(area: Area, call: onnx.NodeProto) -> onnx.ModelProto:
    """The call of an area alone: without its kernel, onnxruntime puts the operators in its place."""
    inputs, outputs = (
        [helper.make_tensor_value_info(name, area.values[name].dtype, area.values[name].shape) for name in names]
        for names in (area.inputs, area.outputs)
    )
    imports = [helper.make_opsetid("", area.opset), helper.make_opsetid(KERNELS, 1)]
    graph = helper.make_graph([call], "area", inputs, outputs)
    return helper.make_model(graph, opset_imports=imports, functions=[function_of(area)], ir_version=10)
