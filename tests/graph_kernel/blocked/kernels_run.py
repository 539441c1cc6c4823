"""Blocked areas as operators with kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import onnxruntime
from areas import session
from interpreter import CProgram
from networks import MICROSOFT, Array, Found, check, difference, wanted
from onnx import helper, numpy_helper
from standalone_programs import Standalone, widths

from fusionc.graph_kernel.select.make_area import function_of
from fusionc.model.operators import KERNELS


def call_of(found: Found) -> onnx.ModelProto:
    """A model of one node that calls the operator, with the weights of the area."""
    area = found.area
    images, outputs = (
        [
            helper.make_tensor_value_info(
                name, area.values[name].dtype, [None] * len(area.values[name].shape)
            )
            for name in names
        ]
        for names in (found.images, area.outputs)
    )
    weights = [numpy_helper.from_array(array, name) for name, array in found.constants.items()]
    node = helper.make_node(area.name, list(area.inputs), list(area.outputs), domain=KERNELS)
    graph = helper.make_graph([node], "call", images, outputs, weights)
    imports = [
        helper.make_opsetid(*pair) for pair in (("", area.opset), (MICROSOFT, 1), (KERNELS, 1))
    ]
    return helper.make_model(
        graph, opset_imports=imports, functions=[function_of(area)], ir_version=10
    )


def run_kernel(
    found: Found, tensors: Sequence[Array], library: Path | None, threads: int = 2
) -> list[Array]:
    """The outputs of the kernel, or of the body of its function if there is no library."""
    feeds = {n: t for n, t in zip(found.area.inputs, tensors, strict=True) if n in found.images}
    return list(session(call_of(found), library, threads=threads).run(None, feeds))


def check_everywhere(
    found: Found,
    values: Mapping[str, Array],
    programs: Standalone,
    sessions: Sequence[onnxruntime.InferenceSession],
    turn: int,
) -> CProgram:
    """Run an area with one output in several ways, and compare the results with onnxruntime's
    operators: its steps by numpy, its program with vectors of the width whose turn it is, and
    `sessions` of call_of. `values` are the values of the model. Return the program.
    """
    tensors = found.tensors(values)
    program = check(found.area, tensors)
    (plain,) = wanted(found.area, tensors)
    width = widths()[turn % len(widths())]
    problem = difference(plain, programs.run(found.area, tensors, width)[0])
    assert not problem, f"vectors of {width}: {problem}"
    for kernel in sessions:
        (made,) = kernel.run(None, found.feeds(values))
        problem = difference(plain, made)
        assert not problem, problem
    return program
