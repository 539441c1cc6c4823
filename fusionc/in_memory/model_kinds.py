"""The kinds of models in memory (of onnx, onnx_ir and torch), and their conversion to a ModelProto
and back.

fusionc does not require onnx_ir or torch: a program that has a model of such a kind has already
imported the package.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import onnx
from onnx import TensorProto

from fusionc.disk.external_data import external_entries
from fusionc.errors import FusioncError, UsageError
from fusionc.in_memory.temporary_files import serialize


@dataclass(frozen=True)
class InMemory:
    """A model that the user has in memory, converted to a ModelProto."""

    label: str  # the name of the model in messages
    proto: onnx.ModelProto
    folder_of: Callable[[TensorProto], str]  # the folder of the external data of a tensor
    back: Callable[[onnx.ModelProto], Any]  # converts a result to the kind of the model


def model_in_memory(model: Any, base_dir: str | os.PathLike[str] | None) -> InMemory:
    """The model as a ModelProto. Raises UsageError for an object that is not a model, and
    FusioncError for bytes that are not a model.
    """
    folder = os.fspath(base_dir or ".")
    if isinstance(model, onnx.ModelProto):
        return InMemory("the ModelProto", model, lambda _: folder, lambda result: result)
    if isinstance(model, bytes):
        return InMemory(
            "the bytes",
            _parse(model),
            lambda _: folder,
            lambda result: serialize(result, "the bytes"),
        )
    if (
        _is_from("torch", model)
        and type(model).__name__ == "ONNXProgram"
        and hasattr(model, "model")
    ):
        inner = _model_of_ir(model.model, base_dir, "the ONNXProgram")
        return InMemory(
            inner.label,
            inner.proto,
            inner.folder_of,
            lambda result: _program(model, inner.back(result)),
        )
    is_of_ir = _is_from("onnx_ir", model) or _is_from("onnxscript", model)
    # only a model of onnx_ir has both attributes, not a graph or a function
    if is_of_ir and hasattr(model, "graph") and hasattr(model, "functions"):
        return _model_of_ir(model, base_dir, "the model of onnx_ir")
    raise UsageError(
        f"this is not a model: {type(model).__module__}.{type(model).__qualname__}",
        hint=(
            "give a path, an onnx.ModelProto, its bytes, a torch.onnx.ONNXProgram or an "
            "onnx_ir.Model"
        ),
        code="E10001",
    )


def _is_from(package: str, model: object) -> bool:
    return type(model).__module__.partition(".")[0] == package


def _parse(data: bytes) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # protobuf's errors have no common base
        what = "these bytes are not an ONNX model, or they are damaged"
        hint = "give the result of SerializeToString"
        raise FusioncError(what, hint=hint, code="E13005") from error
    return proto


def _model_of_ir(model: Any, base_dir: str | os.PathLike[str] | None, label: str) -> InMemory:
    """A model of onnx_ir as a ModelProto. With an older onnxscript, the package onnx_ir is
    onnxscript.ir.
    """
    ir = import_module(type(model).__module__.removesuffix("._core"))
    folders = {
        (tensor.name, os.fspath(tensor.location)): os.fspath(tensor.base_dir)
        for tensor in _external_tensors(model)
    }

    def folder_of(tensor: TensorProto) -> str:
        return os.fspath(
            base_dir or folders.get((tensor.name, external_entries(tensor)["location"])) or "."
        )

    def back(result: onnx.ModelProto) -> Any:
        model_of_ir = ir.from_proto(result)
        for tensor in _external_tensors(model_of_ir):
            tensor.base_dir = (
                base_dir or folders.get((tensor.name, os.fspath(tensor.location))) or "."
            )
        return model_of_ir

    return InMemory(label, ir.to_proto(model), folder_of, back)


def _external_tensors(model: Any) -> Iterator[Any]:
    """The external tensors of a model of onnx_ir, including those in subgraphs and functions."""
    graphs = [model.graph, *model.functions.values()]
    for graph in graphs:  # the loop appends to this list
        values = [value.const_value for value in getattr(graph, "initializers", {}).values()]
        for attribute in (attribute for node in graph for attribute in node.attributes.values()):
            value = attribute.value
            values += value if isinstance(value, list | tuple) else [value]
        graphs += [value for value in values if hasattr(value, "initializers")]
        yield from (value for value in values if hasattr(value, "base_dir"))


def _program(program: Any, model: Any) -> Any:
    """A copy of a torch.onnx.ONNXProgram with another model. The next call of the copy creates a
    new session.
    """
    changed = copy.copy(program)
    changed.model = model
    changed._inference_session = changed._tempdir = None
    return changed
