"""Recognizes the format of a file that is not an ONNX model, and says what the user can do."""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto

from fusionc.disk.mapped_weights import wire_fields
from fusionc.errors import FusioncError

_HEAD = 4096  # the first bytes of a file, from which its format is recognized
_FIELDS = frozenset(field.number for field in ModelProto.DESCRIPTOR.fields)
_DOWNLOAD = (
    "download the file itself (in its address, replace /blob/: for GitHub by /raw/, for Hugging "
    "Face by /resolve/)"
)
_EXPORT_TORCH = 'export the model: torch.onnx.export(model, arguments, "model.onnx")'


@dataclass(frozen=True)
class _Format:
    """A format of files that people mistake for ONNX models."""

    what: str  # the rest of the sentence "the file …"
    to_do: str  # what the user can do
    fits: Callable[[bytes], object]  # returns a true value if the first bytes have this format


def _begins(*magic: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(magic)


def _begins_at_4(magic: bytes) -> Callable[[bytes], bool]:
    return lambda head: head[4 : 4 + len(magic)] == magic


def _finds(pattern: bytes) -> Callable[[bytes], object]:
    compiled = re.compile(pattern, re.DOTALL | re.IGNORECASE)
    return compiled.match


# in the order in which they are tried
_FORMATS = (
    _Format("is empty", "copy or download the model again", lambda head: not head),
    _Format(
        "is a pointer of Git LFS, not the model",
        "get the model: git lfs pull",
        _begins(b"version https://git-lfs.github.com/"),
    ),
    _Format(
        "is a web page, not a model", _DOWNLOAD, _finds(rb"\s*(<!--.*?-->\s*)?<(!doctype )?html")
    ),
    _Format(
        "is a model of OpenVINO",
        "give the ONNX model from which it was made; OpenVINO's form cannot be converted back",
        _finds(rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*)?<net\b"),
    ),
    _Format("is XML, not a model", _DOWNLOAD, _finds(rb"(\xef\xbb\xbf)?\s*<\?xml")),
    _Format(
        "is a checkpoint or a program of PyTorch",
        _EXPORT_TORCH,
        _finds(rb"PK\x03\x04.*?/(data\.pkl|constants\.pkl|\.format_version|archive_format)"),
    ),
    _Format(
        "is a checkpoint of PyTorch, or another pickle", _EXPORT_TORCH, _finds(rb"\x80[\x02-\x05]")
    ),
    _Format(
        "has only weights, in the form of safetensors",
        "export the model that has these weights: torch.onnx.export, or optimum-cli export onnx",
        _finds(rb'.{8}\{\s*"'),
    ),
    _Format(
        "has only weights, in the form of GGUF",
        "export the model that has these weights to ONNX",
        _begins(b"GGUF"),
    ),
    _Format(
        "is a model of TensorFlow Lite",
        "convert it: python -m tf2onnx.convert --tflite model.tflite --output model.onnx",
        _begins_at_4(b"TFL3"),
    ),
    _Format(
        "is a model in onnxruntime's own form, ORT",
        "give the ONNX model from which it was made",
        _begins_at_4(b"ORTM"),
    ),
    _Format(
        "is a compiled model of ATC",
        "give the ONNX model from which ATC compiled it",
        _begins(b"IMOD"),
    ),
    _Format(
        "is a model of Keras, or another file in the form of HDF5",
        "export the model to ONNX: model.export(path, format='onnx'), or tf2onnx",
        _begins(b"\x89HDF\r\n"),
    ),
    _Format("is compressed", "unpack it: gunzip", _begins(b"\x1f\x8b")),
    _Format("is an archive", "unpack it: unzip", _begins(b"PK\x03\x04")),
    _Format(
        "is the text form of an ONNX model",
        "write its binary form: onnx.save(onnx.parser.parse_model(text), path)",
        _finds(rb"\s*<\s*ir_version\s*:"),
    ),
    _Format("is JSON, not a model", "give the .onnx file", _finds(rb'\s*\{\s*("|\})')),
)


def not_a_model(path: Path) -> FusioncError:
    """The error for a file that is not an ONNX model."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    found = next((one for one in _FORMATS if one.fits(head)), None)
    if found is not None:
        return _error(f"the file {found.what}", path, found.to_do)
    size = path.stat().st_size
    needed = _needed_size(path)
    if needed > size:
        what = f"the model is cut off: it has {size:,} bytes and needs at least {needed:,}"
        return _error(what, path, "copy or download the model again")
    return _error(
        "the file is not an ONNX model, or it is damaged",
        path,
        "export or copy the model again; only ONNX models (--framework=5) can be converted",
    )


def _error(what: str, path: Path, to_do: str) -> FusioncError:
    return FusioncError(what, where=str(path), hint=to_do, code="E13005")


def _needed_size(path: Path) -> int:
    """The least size of a complete model, according to the lengths of its fields. 0 if the file
    does not have the fields of a model.
    """
    end = 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            for tag, _, _, stop in wire_fields(data, 0, 1 << 62):
                if tag >> 3 not in _FIELDS:
                    return 0
                end = stop
                if end >= len(data):
                    break
        except (ValueError, IndexError):
            return 0
    return end
