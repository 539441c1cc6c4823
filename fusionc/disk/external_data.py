"""The files of external tensors. They must be in the model's folder, and be long enough."""

from __future__ import annotations

import os

from onnx import TensorProto

from fusionc.errors import FusioncError, UsageError
from fusionc.model.tensors import byte_size
from fusionc.protos import is_mapped


def external_entries(tensor: TensorProto) -> dict[str, str]:
    """The external data entries of a tensor: location, offset and length."""
    return {entry.key: entry.value for entry in tensor.external_data}


def external_range(tensor: TensorProto, folder: str) -> tuple[str, int, int]:
    """The file of an external tensor, and the offset and length of its elements in bytes. Raises
    UsageError if the file does not exist. Raises FusioncError if the path of the file leaves the
    model's folder, or if the file cannot be read or is too short.
    """
    entries = external_entries(tensor)
    location = entries.get("location", "")
    root = os.path.realpath(folder or ".")
    path = os.path.realpath(os.path.join(root, location.replace("\0", "")))
    where = f"external data of tensor {tensor.name!r}: {location!r}"
    leaves = not location or os.path.isabs(location) or os.path.commonpath([root, path]) != root
    # The file of a mapped tensor is the model itself, and this may be a link to another folder.
    if leaves and not is_mapped(tensor):
        raise FusioncError(
            "the path of external data leaves the model's folder",
            where=where,
            hint="keep weights in the folder of the model and give their path relative to it",
            code="E13001",
        )
    size = byte_size(tensor)
    try:
        offset = int(entries.get("offset", 0))
        length = int(entries.get("length", size))
    except ValueError:
        what = "offset and length of external data must be integers"
        hint = "export the model again, with its weights"
        raise FusioncError(what, where=where, hint=hint, code="E13005") from None
    _require_readable(root, location, path, where)
    if offset < 0 or length < size or offset + length > os.path.getsize(path):
        raise FusioncError(
            "the file of external data is shorter than the tensor",
            where=where,
            hint="copy the weights again; the file may be truncated",
            code="E13003",
        )
    return path, offset, length


def _require_readable(root: str, location: str, path: str, where: str) -> None:
    """Raise UsageError if the file does not exist, and FusioncError if it cannot be read. Every
    folder that `location` names must exist, even if the resolved `path` no longer contains it (as
    in "missing/../file").
    """
    if "\0" in location or not os.path.isfile(os.path.join(root, location)):
        hint = f"copy the file of weights to {root}, or export the model again, with its weights"
        if "\0" not in location and os.path.isfile(path):
            hint = (
                f"write {os.path.relpath(path, root)!r} instead: a part of the path does not exist "
                "or is not a folder"
            )
        raise UsageError(
            "the file of external data does not exist", where=where, hint=hint, code="E10410"
        )
    if not os.access(path, os.R_OK):
        hint = "give yourself the permission to read it"
        raise FusioncError(
            "the file of external data cannot be read", where=where, hint=hint, code="E13003"
        )
