"""Check models with onnx.checker."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
from onnx import GraphProto

from fusionc.disk.mapped_weights import read_mapped, show_as_external
from fusionc.disk.places import light_form
from fusionc.errors import VerificationError
from fusionc.protos import bodies_of, is_mapped


def fault_of(model: Path | onnx.ModelProto) -> str | None:
    """What onnx.checker complains about in a model, on one line. `None` if it accepts the model. A
    model with external data, or larger than 2 GB, must be given as a file.

    Some models declare unknown dimensions as negative numbers. The shapes of such a model are not
    checked, because onnx takes these numbers as sizes, and then crashes the process if a Slice has
    such a dimension.
    """
    if isinstance(model, Path):
        return _fault(os.fspath(model), read_mapped(model).graph)
    return _fault(model, model.graph)


def require_as_valid(candidate: Path, reference: Path) -> None:
    """Raise VerificationError if onnx.checker rejects the result `candidate`, but accepts the model
    `reference`. The candidate must be in a temporary folder.
    """
    fault = _fault_of_result(candidate)
    if fault and fault_of(reference) is None:
        raise VerificationError(
            f"the result is not a valid ONNX model: {fault}",
            where=str(candidate),
            hint="switch off one pass after another to find the one at fault, and report it",
        )


def _fault_of_result(path: Path) -> str | None:
    """What onnx.checker complains about in a result, or None. The checker holds a file in memory
    three times. To save memory, it gets a temporary file whose large weights are external.
    """
    proto = read_mapped(path)
    if not any(map(is_mapped, proto.graph.initializer)):
        return _fault(os.fspath(path), proto.graph)
    light = path.with_name(light_form(path.name))
    try:
        light.write_bytes(show_as_external(proto).SerializeToString())
        return _fault(os.fspath(light), proto.graph)
    finally:
        light.unlink(missing_ok=True)


def _fault(model: str | onnx.ModelProto, graph: GraphProto) -> str | None:
    try:
        onnx.checker.check_model(model, full_check=not _has_dimension_below_0(graph))
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError) as error:
        return " ".join(str(error).split())
    return None


def _has_dimension_below_0(graph: GraphProto) -> bool:
    declared = (*graph.input, *graph.output, *graph.value_info)
    if any(dim.dim_value < 0 for value in declared for dim in value.type.tensor_type.shape.dim):
        return True
    return any(_has_dimension_below_0(body) for node in graph.node for body in bodies_of(node))
