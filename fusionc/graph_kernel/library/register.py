"""Register the kernels of a model with the options of an onnxruntime session."""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct
from typing import Any
from weakref import WeakKeyDictionary

from fusionc.disk.paths import path_of
from fusionc.errors import FusioncError, UsageError
from fusionc.graph_kernel.library.location import SUFFIX, has_areas, library_for

_ELF_64 = b"\x7fELF\x02\x01"  # the first bytes of a 64-bit, little-endian ELF file
# Fields of the ELF header: the offset, entry size and number of the section headers, which are the
# last part of the file.
_ELF = Struct("<40xQ10xHH2x")
# session options → the library that is registered with them
_REGISTERED: WeakKeyDictionary[Any, Path] = WeakKeyDictionary()


def register_kernels(session_options: Any, model: str | os.PathLike[str]) -> None:
    """Let a session run the generated kernels of a model.

    `session_options` is the onnxruntime.SessionOptions for the session. `model` is the path of the
    model file; the library of kernels must be in the same folder. Kernels are machine code, and
    this call does not check who made them: call it only for models that you trust. Session options
    can have the kernels of only one model, so make new options for each model. Without this call,
    the model computes the same result with onnxruntime's operators. For a model without areas,
    nothing is registered.
    Raises UsageError if a model with areas has no library next to it, or if the options already
    have the kernels of another model. Raises FusioncError if this machine cannot load the library.
    """
    require_session_options(session_options)
    library = _library_of(
        path_of(model, "model", "give the path of the model; its kernels must be next to it")
    )
    if library is None:
        return
    place = library.resolve()
    former = _REGISTERED.get(session_options)
    if former == place:
        return
    if former is not None:  # onnxruntime would report this only when the session is created
        raise UsageError(
            f"these session options have the kernels of another model already: {former.name}",
            where=str(library),
            hint="make new onnxruntime.SessionOptions for each model; a process may have many",
            code="E10001",
        )
    if _is_cut_off(place):
        raise FusioncError(
            "the kernels cannot be loaded: the file is cut off",
            where=str(library),
            hint="copy it again, or convert the model again",
        )
    register = session_options.register_custom_ops_library
    try:
        register(str(place))
    except Exception as error:
        raise FusioncError(
            "the kernels cannot be loaded; perhaps they were made on another kind of machine",
            where=str(library),
            hint=(
                "convert the model again on this machine. onnxruntime says: "
                f"{str(error).splitlines()[0]}"
            ),
        ) from error
    _REGISTERED[session_options] = place


def _is_cut_off(library: Path) -> bool:
    """Whether an ELF file ends before its last part. Such a file must not be loaded: the system
    kills a process that reads the missing part.
    """
    with open(library, "rb") as file:
        start = file.read(_ELF.size)
    if len(start) < _ELF.size or not start.startswith(_ELF_64):
        return False
    offset, size, count = _ELF.unpack(start)
    return int(offset + size * count) > library.stat().st_size


def require_session_options(given: Any) -> None:
    """Raise UsageError if `given` is not an onnxruntime.SessionOptions."""
    if not hasattr(given, "register_custom_ops_library"):
        what = f"session options must be onnxruntime.SessionOptions, not {type(given).__name__}"
        raise UsageError(what, hint="make them with onnxruntime.SessionOptions()", code="E10001")


def _library_of(model: Path) -> Path | None:
    """The library next to a model. `None` for a model without areas and without a library.

    Raises UsageError if `model` is not a model file, or if it has areas but its library is missing.
    """
    if model.name.endswith(SUFFIX):
        problem = "this is a library of kernels, not a model"
        where = model
        hint = "give the path of the .onnx file; its kernels must be next to it"
    elif not model.name or model.is_dir():
        problem = "the model is a folder"
        where = model
        hint = "give the path of the model file"
    elif (library := library_for(model)).is_file():
        return library
    elif not model.exists():
        problem = "the model does not exist"
        where = model
        hint = "check the path; the kernels must be next to the model"
    elif not has_areas(model):
        return None
    else:
        problem = f"{model.name} has areas, but its kernels are not next to it"
        where = library
        hint = (
            "a conversion with --enable_graph_kernel writes two files; keep both in one folder. If "
            "it wrote "
            "no library (its report says why), leave this call out: the model runs without it"
        )
    raise UsageError(problem, where=str(where), hint=hint, code="E10410")
