"""What can be raised, and how far."""

from __future__ import annotations

from functools import cache

import onnx
from onnx import ModelProto, TensorProto

from fusionc.errors import FusioncError, UsageError
from fusionc.model import operators
from fusionc.model.operators import canonical_domain
from fusionc.protos import nodes_of
from fusionc.runtime.cpu_kernels import has_cpu_kernel
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Runner

OPTION = "--target_opset"


@cache
def newest_opset() -> int:
    """The newest standard operator set that the installed onnxruntime and onnx both know."""
    for version in range(onnx.defs.onnx_opset_version(), 0, -1):
        value = onnx.helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
        graph = onnx.helper.make_graph([], "empty", [value], [value])
        imports = [onnx.helper.make_opsetid("", version)]
        probe = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
        try:
            Runner(probe.SerializeToString()).close()
        except RunError:
            continue
        return version
    raise FusioncError("onnxruntime runs no model at all", hint="install it again: pip install onnxruntime")


def check_kernels(model: ModelProto, old: int, new: int) -> None:
    """Raise UsageError where onnxruntime runs an operator of the model as it is, and not in its newer version."""
    for op in sorted({node.op_type for node in nodes_of(model) if not canonical_domain(node.domain)}):
        schema = operators.schema(op, "", new)
        if schema is None or operators.is_composite(op, "", new):
            continue
        if has_cpu_kernel(op, "", old) and not has_cpu_kernel(op, "", new):
            raise UsageError(
                f"onnxruntime has no kernel for {op} of opset {schema.since_version}",
                where=OPTION,
                hint=f"give at most {schema.since_version - 1}",
                code="E10001",
            )


def cannot(old: int, new: int, why: object) -> FusioncError:
    """That the model cannot be raised, as an error."""
    return FusioncError(
        f"onnx cannot raise the model from opset {old} to {new}: {why}",
        where=OPTION,
        hint="give a lower one, or leave the option out",
        code="E10001",
    )
