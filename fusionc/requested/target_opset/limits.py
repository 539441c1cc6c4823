"""The opsets to which a model can be raised."""

from __future__ import annotations

from functools import cache

import onnx
from onnx import TensorProto

from fusionc.errors import FusioncError, UsageError
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import Runner

OPTION = "--target_opset"


@cache
def newest_opset() -> int:
    """The newest standard opset that both the installed onnxruntime and the installed onnx know."""
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
    raise FusioncError(
        "onnxruntime cannot run any model", hint="install it again: pip install onnxruntime"
    )


class NewerAlready(UsageError):
    """The error for a model whose opset is newer than the target opset."""


def raising_error(old: int, new: int, why: object) -> FusioncError:
    """The error for a model that cannot be raised."""
    return FusioncError(
        f"onnx cannot raise the model from opset {old} to {new}: {why}",
        where=OPTION,
        hint="give a lower opset, or leave the option out",
        code="E10001",
    )
