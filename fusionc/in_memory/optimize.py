"""`fusionc.optimize`: a conversion from a model in memory to one in memory."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any, TypeVar, overload

import onnx

from fusionc.api import convert
from fusionc.disk.paths import path_of
from fusionc.disk.places import workshop
from fusionc.errors import FusioncError, UsageError, advice
from fusionc.graph_kernel.library.cache import known
from fusionc.in_memory.model_kinds import model_in_memory
from fusionc.in_memory.temporary_files import read, write
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
    """Optimize an ONNX model, verify the result in onnxruntime, and return it with a report of what
    was done.

    model         an onnx.ModelProto, its bytes, an onnx_ir.Model (or one of onnxscript.ir), a
                  torch.onnx.ONNXProgram, or the path of a model; it is not changed, and the result
                  is of the same kind, for a path a ModelProto with its weights
    base_dir      the folder that external data of a model in memory is looked for in; by default
                  the current one, and what the tensors of onnx_ir say. What stays as it is of that
                  data stays there
    output        write the result there, too, and its kernels beside it; by default nothing is
                  written
    log           as `convert` has it, which by default writes none here
    options       those of `convert`; of external_weight 0 has a meaning here, which takes external
                  data into the model

    The result is the model that `convert` writes. With enable_graph_kernel its areas run as
    functions wherever it is loaded; `report.kernels` is the library with their kernels, which lies
    in the user's cache, or beside `output`:
    `session_options.register_custom_ops_library(str(report.kernels))`, for as long as it is there.

    Several threads may call this at once. While it runs, files lie in a folder of the system's
    temporary ones, of the size of the model and the result together.

    Raises what `convert` raises, and UsageError for what is no model.
    """
    if unknown := options.keys() - arguments_of_convert():
        name = sorted(unknown)[0]
        near = advice(name, arguments_of_convert(), "help(fusionc.convert) has the options")
        raise TypeError(f"optimize() got an unexpected keyword argument {name!r}; {near}")
    if (
        base_dir is not None
        and not path_of(base_dir, "base_dir", "give the path of a folder").is_dir()
    ):
        hint = "give the folder in which the external data of the model lies"
        raise UsageError(
            "base_dir is not an existing folder",
            where=os.fspath(base_dir),
            hint=hint,
            code="E10001",
        )
    for name, value, what in (
        ("external_weight", 1, "the weights"),
        ("ready", True, "the ready form"),
    ):
        if options.get(name) == value and output is None:
            problem = f"{name} is {value}, and there is no file beside which {what} could go"
            raise UsageError(problem, hint="give output as well, or leave it out", code="E10001")
    temporary = Path(tempfile.gettempdir())
    folder = temporary
    try:
        with workshop(temporary) as folder:
            return _optimized(model, base_dir, folder, output, {**options, "log": log})
    except FusioncError as error:
        if error.where.startswith(str(folder)) and isinstance(error.__cause__, OSError):
            raise _no_room(error.__cause__, temporary) from error
        for part in ("what", "where", "hint"):
            setattr(error, part, _told(getattr(error, part), folder))
        error.details = tuple(_told(line, folder) for line in error.details)
        error.args = (error.what,)
        raise


def _no_room(error: OSError, folder: Path) -> FusioncError:
    what = f"the files of a conversion cannot be written: {error.strerror or error}"
    hint = "make room there, or name another folder in the environment variable TMPDIR"
    return FusioncError(what, where=str(folder), hint=hint)


def _optimized(
    model: Any,
    base_dir: str | os.PathLike[str] | None,
    folder: Path,
    output: str | os.PathLike[str] | None,
    options: dict[str, Any],
) -> tuple[Any, Report]:
    # the folder itself is locked, and who writes a result locks the one of the result
    inner = folder / "files"
    inner.mkdir()
    source = inner / "model.onnx"
    moved = dict[int, onnx.TensorProto]()
    back = None
    if isinstance(model, str | os.PathLike):
        source = Path(model)
    else:
        given = model_in_memory(model, base_dir)
        try:
            moved = dict(write(given.proto, source, given.folder_of))
            back = given.back
        except OSError as error:
            raise _no_room(error, folder) from error
        except FusioncError as error:
            # a file of external data that is not there
            if base_dir is None and error.code == "E10410":
                error.hint = (
                    "load the model with its external data, give its path instead, or the folder "
                    "of that data with "
                    "base_dir of fusionc.optimize"
                )
            raise
        del given
    if moved and output is not None and options.get("external_weight") is None:
        options["external_weight"] = 1  # the file that they are in now goes
    report = convert(source, output=inner / "result.onnx" if output is None else output, **options)
    assert report.output is not None
    result = read(report.output, moved)
    if back is not None:
        report.model = None
    if output is None:
        report.output = None
        report.kernels = None if report.kernels is None else known(report.kernels)
    report.verification = report.verification and _told(report.verification, folder)
    report.notices = [_told(notice, folder) for notice in report.notices]
    return result if back is None else back(result), report


def _told(text: str, folder: Path) -> str:
    """What is said of a temporary file, said of the model."""
    return re.sub(re.escape(str(folder)) + r"[^\s:;,'\"]*", "the model", text)
