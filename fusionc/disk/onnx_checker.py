"""What onnx's own checker says of a model."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
from onnx import GraphProto

from fusionc.errors import VerificationError
from fusionc.protos import bodies_of


def fault_of(model: Path | onnx.ModelProto) -> str | None:
    """What onnx.checker says against a model, in one line; None where it accepts it.

    One with external data, or beyond 2 GB, has to be a file. Where the model declares a dimension below 0, which
    stands for an unknown one there, its shapes are not checked: onnx takes it for a number, and a Slice of it ends the
    process.
    """
    proto = (
        onnx.load(os.fspath(model), format="protobuf", load_external_data=False) if isinstance(model, Path) else model
    )
    has_shapes = not _has_dimension_below_0(proto.graph)
    try:
        onnx.checker.check_model(os.fspath(model) if isinstance(model, Path) else model, full_check=has_shapes)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError) as error:
        return " ".join(str(error).split())
    return None


def require_as_valid(candidate: Path, reference: Path) -> None:
    """Raise VerificationError if onnx.checker rejects a result though it accepts what that was made of."""
    fault = fault_of(candidate)
    if fault and fault_of(reference) is None:
        raise VerificationError(
            f"the result is not a valid ONNX model: {fault}",
            where=str(candidate),
            hint="switch passes off one after another to find the one at fault, and report it",
        )


def _has_dimension_below_0(graph: GraphProto) -> bool:
    declared = (*graph.input, *graph.output, *graph.value_info)
    if any(dim.dim_value < 0 for value in declared for dim in value.type.tensor_type.shape.dim):
        return True
    return any(_has_dimension_below_0(body) for node in graph.node for body in bodies_of(node))
