"""`fusionc.optimize`: convert a model in memory to a model in memory."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, overload

import onnx

from fusionc.api import convert
from fusionc.disk.paths import path_of
from fusionc.disk.places import workshop
from fusionc.errors import FusioncError, UsageError, advice
from fusionc.graph_kernel.library.cache import known
from fusionc.in_memory.model_kinds import model_in_memory
from fusionc.in_memory.temporary_files import Moved, read, write
from fusionc.options.read_options import arguments_of_convert
from fusionc.report import Report

_Model = TypeVar("_Model")


@overload
def optimize(model: str | os.PathLike[str], **options: Any) -> tuple[onnx.ModelProto, Report]: ...
@overload
def optimize(
    model: _Model, *, base_dir: str | os.PathLike[str] | None = None, **options: Any
) -> tuple[_Model, Report]: ...
def optimize(
    model: Any,
    *,
    base_dir: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    log: str | None = "null",
    **options: Any,
) -> tuple[Any, Report]:
    """Optimize an ONNX model, verify the result in onnxruntime, and return it with a report.

    model         an onnx.ModelProto, its bytes, an onnx_ir.Model (or one of onnxscript.ir), a
                  torch.onnx.ONNXProgram, or the path of a model; the object is not changed, and the
                  result is of the same kind; for a path it is a ModelProto with its weights
    base_dir      the folder with the external data of a model in memory; by default the folder that
                  the tensors of an onnx_ir.Model name, and for other models the current folder;
                  the data of tensors that no pass changes stays in this folder
    output        also write the result to this path, with its kernels next to it; by default
                  nothing is written
    log           as in `convert`, except that by default no log is written
    options       those of `convert`; without `output`, external_weight must be left out or 0 (0
                  moves external data into the model)

    The result is the model that `convert` writes. With enable_graph_kernel, some nodes of the
    result are areas: each combines several operators of the model and is an ONNX function, so the
    result runs on any runtime. The areas run faster on their generated kernels. `report.kernels` is
    the library of these kernels, in the user's cache or next to `output`; to use the kernels, call
    `session_options.register_custom_ops_library(str(report.kernels))`.

    Several threads may call this function at once. During the call, a temporary folder needs space
    for the model and the result together.

    Raises the errors of `convert`, and UsageError for an object that is not a model.
    """
    if unknown := options.keys() - arguments_of_convert():
        name = sorted(unknown)[0]
        near = advice(name, arguments_of_convert(), "help(fusionc.convert) has the options")
        raise TypeError(f"optimize() got an unexpected keyword argument {name!r}; {near}")
    _require_folder(base_dir)
    _require_output(output, options)
    temporary = Path(tempfile.gettempdir())
    folder = temporary
    try:
        with workshop(temporary) as folder:
            return _optimize(model, base_dir, folder, output, {**options, "log": log})
    except FusioncError as error:
        if error.where.startswith(str(folder)) and isinstance(error.__cause__, OSError):
            raise _no_room(error.__cause__, temporary) from error
        for part in ("what", "where", "hint"):
            setattr(error, part, _name_arguments(_hide_paths(getattr(error, part), folder)))
        error.details = tuple(_hide_paths(line, folder) for line in error.details)
        error.args = (error.what,)
        raise


def _require_folder(base_dir: str | os.PathLike[str] | None) -> None:
    if base_dir is None or path_of(base_dir, "base_dir", "give the path of a folder").is_dir():
        return
    what = "base_dir is not an existing folder"
    hint = "give the folder with the external data of the model"
    raise UsageError(what, where=os.fspath(base_dir), hint=hint, code="E10001")


def _require_output(output: object, options: Mapping[str, Any]) -> None:
    """Raise UsageError if an option asks for a file next to the result although the result is not
    written.
    """
    needs_output = {"external_weight": (1, "the weights"), "ready": (True, "the ready form")}
    for name, (value, what) in needs_output.items():
        if options.get(name) == value and output is None:
            problem = f"{name} is {value}, and without an output file {what} cannot be written"
            raise UsageError(problem, hint=f"give output, or leave {name} out", code="E10001")


def _no_room(error: OSError, folder: Path) -> FusioncError:
    what = f"the files of a conversion cannot be written: {error.strerror or error}"
    hint = "free some disk space, or set the environment variable TMPDIR to another folder"
    return FusioncError(what, where=str(folder), hint=hint)


def _optimize(
    model: Any,
    base_dir: str | os.PathLike[str] | None,
    folder: Path,
    output: str | os.PathLike[str] | None,
    options: dict[str, Any],
) -> tuple[Any, Report]:
    # A conversion locks the folder of its result. `folder` is already locked, so the result is
    # written to a subfolder.
    inner = folder / "files"
    inner.mkdir()
    moved: Moved = {}
    back: Callable[[onnx.ModelProto], Any] | None = None
    if isinstance(model, str | os.PathLike):
        source = Path(model)
    else:
        source = inner / "model.onnx"
        moved, back = _write_model(model, base_dir, source)
    if moved and output is not None and options.get("external_weight") is None:
        options["external_weight"] = 1  # the weights are in a temporary file and must be copied
    report = convert(source, output=inner / "result.onnx" if output is None else output, **options)
    assert report.output is not None
    result = read(report.output, moved)
    if output is None:
        report.output = None
        report.kernels = None if report.kernels is None else known(report.kernels)
    report.verification = report.verification and _hide_paths(report.verification, folder)
    report.notices = [_hide_paths(notice, folder) for notice in report.notices]
    if back is None:
        return result, report
    report.model = None
    return back(result), report


def _write_model(
    model: Any, base_dir: str | os.PathLike[str] | None, source: Path
) -> tuple[Moved, Callable[[onnx.ModelProto], Any]]:
    """Write a model in memory to a file. Return the weights that were moved to a separate file, and
    the function that converts a result back to the kind of the model.
    """
    in_memory = model_in_memory(model, base_dir)
    try:
        return write(in_memory.proto, source, in_memory.folder_of), in_memory.back
    except OSError as error:
        raise _no_room(error, source.parent.parent) from error
    except FusioncError as error:
        # a file of external data is missing
        if base_dir is None and error.code == "E10410":
            error.hint = (
                "load the model with its external data, or give the path of the model, or give the "
                "folder of the external data as base_dir of fusionc.optimize"
            )
        raise


def _hide_paths(text: str, folder: Path) -> str:
    """The text with "the model" instead of the paths of temporary files."""
    return re.sub(re.escape(str(folder)) + r"[^\s:;,'\"]*", "the model", text)


def _name_arguments(text: str) -> str:
    """The text with the names of arguments instead of options, except in commands of fusionc."""
    if "fusionc " in text:
        return text
    arguments = arguments_of_convert()
    return re.sub(r"(?<![\w/])--(\w+)", lambda one: one[1] if one[1] in arguments else one[0], text)
