"""Load a model file as a ModelProto. External weights stay in their files."""

from __future__ import annotations

import os
from pathlib import Path

import onnx

from fusionc import protos
from fusionc.disk.external_data import external_entries, external_range
from fusionc.disk.mapped_weights import read_mapped
from fusionc.disk.other_formats import not_a_model
from fusionc.disk.paths import address_error, opened_file, require_path, stream_at
from fusionc.disk.validate import validate
from fusionc.errors import FusioncError, UsageError


def load(path: Path, *, maps: bool = False) -> onnx.ModelProto:
    """Read a model without its external data. The files of external data are only checked: they
    must exist, be long enough, and be in the model's folder. If `maps` is true, large weights
    inside the model file are not read either (see `mapped_weights`).

    Raises UsageError if a file does not exist, and FusioncError if the model is not a valid ONNX
    model.
    """
    require_path(path, "model")
    if not path.is_file() or opened_file(path):
        raise _file_error(path)
    proto = _read(path, maps=maps)
    validate(proto, str(path))
    for tensor in protos.tensors_of(proto):
        if protos.is_external(tensor):
            external_range(tensor, os.fspath(path.parent))
        elif protos.is_mapped(tensor) and not (
            maps and external_entries(tensor)["location"] == path.name
        ):
            raise _false_mapping(tensor, path)
    return proto


def _read(path: Path, *, maps: bool) -> onnx.ModelProto:
    try:
        if maps:
            proto = read_mapped(path)
        else:
            proto = onnx.load(os.fspath(path), format="protobuf", load_external_data=False)
    except OSError as error:
        raise FusioncError(
            f"the model cannot be read: {error.strerror}",
            where=str(path),
            hint="check its permissions",
            code="E13003",
        ) from error
    except Exception as error:  # protobuf's exceptions have no common base class
        raise not_a_model(path) from error
    if not proto.HasField("graph"):
        raise not_a_model(path)
    return proto


def _file_error(path: Path) -> UsageError:
    if error := address_error(path):
        return error
    problem = "is not a file" if path.exists() else "does not exist"
    hint = "give the path of an .onnx file"
    if path.is_dir():
        problem = "is a folder"
    elif stream := stream_at(path) or opened_file(path):
        problem = f"is a {stream}, but a model may consist of several files"
        hint = "save the model to a file first, and give the path of that file"
    return UsageError(f"the model {problem}", where=str(path), hint=hint, code="E10410")


def _false_mapping(tensor: onnx.TensorProto, path: Path) -> FusioncError:
    what = (
        f"external data of tensor {tensor.name!r} has the key {protos.MAPPED!r}, which no file "
        "may have"
    )
    return FusioncError(what, where=str(path), hint="export the model again", code="E13005")
