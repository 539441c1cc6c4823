"""`fusionc.session`: an onnxruntime session for a model, in the form that loads fastest here."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusionc.disk.content import content_of
from fusionc.disk.paths import path_of, require_path
from fusionc.errors import FusioncError, UsageError
from fusionc.graph_kernel.library.location import has_areas, library_for
from fusionc.graph_kernel.library.register import register_kernels, require_session_options
from fusionc.ready_form.machine import this_machine
from fusionc.ready_form.session_file import (
    ReadyForm,
    SessionFile,
    read_session_file,
    session_file_of,
)
from fusionc.ready_form.tuned_settings import NotTuned, tuned_settings

if TYPE_CHECKING:
    import onnxruntime

_PROVIDERS = ["CPUExecutionProvider"]
_AGAIN = "the model itself is loaded, which takes longer; convert it with --ready on this machine"


def session(
    model: str | os.PathLike[str],
    options: onnxruntime.SessionOptions | None = None,
    providers: Sequence[Any] = _PROVIDERS,
) -> onnxruntime.InferenceSession:
    """An onnxruntime session for a model, with its kernels, and in its ready form if one fits.

    model         the model file; the files that a conversion wrote for it are expected next to it
    options       number of threads, logging and so on; default: onnxruntime's own. The kernels of
                  the model are registered in them, as by `register_kernels`, and their optimization
                  level changes during the call: give each session its own
    providers     onnxruntime's providers; if they are not the CPU's alone, the ready form is not
                  used

    A ready form (`--ready`) fits the onnxruntime and the kind of processor that it was made for, as
    long as its files and the model are those that were written together. If it does not fit, the
    model itself is loaded, with a UserWarning that says why. There is a warning, too, if kernels
    are missing or cannot be loaded. A ready form is what onnxruntime's optimizers make of the model
    at their default level: with options of another level, the model itself is loaded. Settings that
    `fusionc tune` found to be faster on such a machine are used unless `options` say otherwise.
    Kernels are machine code: call this only for models that you trust.

    Raises UsageError if the model does not exist, and whatever onnxruntime raises.
    """
    import onnxruntime

    path = _path_of_model(model)
    options = onnxruntime.SessionOptions() if options is None else options
    require_session_options(options)
    library = library_for(path)
    _add_settings(options, path)
    _add_kernels(options, path, library)
    if list(providers) == _PROVIDERS:
        ready = _ready_session(path, library, options)
        if ready is not None:
            return ready
    return onnxruntime.InferenceSession(os.fspath(path), options, providers=providers)


def _path_of_model(model: str | os.PathLike[str]) -> Path:
    hint = "give the path of an .onnx file"
    path = path_of(model, "model", f"{hint}; onnxruntime.InferenceSession takes bytes")
    require_path(path, "model")
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"the model {problem}", where=str(path), hint=hint, code="E10410")
    return path


def _add_settings(options: onnxruntime.SessionOptions, model: Path) -> None:
    """Apply the tuned settings of a model, or warn if they are not valid here."""
    if session_file_of(model).exists():
        try:
            tuned_settings(model).apply(options)
        except NotTuned as error:
            _warn(f"{model}: its settings {error}; it runs with those of onnxruntime")


def _add_kernels(options: onnxruntime.SessionOptions, model: Path, library: Path) -> None:
    """Register the kernels of a model, or warn if they are missing or cannot be loaded."""
    if library.is_file():
        try:
            register_kernels(options, model)
        except UsageError:
            raise
        except FusioncError as error:
            _warn(f"{model}: {error.what} {error.hint}. Its areas run without kernels")
    elif has_areas(model):
        _warn(f"{model}: there is no {library.name} next to it. Its areas run without kernels")


def _ready_session(
    model: Path, library: Path, options: onnxruntime.SessionOptions
) -> onnxruntime.InferenceSession | None:
    """A session of the ready form of a model. If it has one that does not fit, warn; return None
    if it has none that fits, or the level of the options is not the default one.
    """
    import onnxruntime

    level = onnxruntime.GraphOptimizationLevel
    if options.graph_optimization_level != level.ORT_ENABLE_ALL:
        return None
    if not session_file_of(model).exists():
        return None
    try:
        ready = ready_model(model, library)
        if ready is None:
            return None
        options.graph_optimization_level = level.ORT_DISABLE_ALL  # it is optimized already
        return onnxruntime.InferenceSession(os.fspath(ready), options, providers=_PROVIDERS)
    except Exception as error:  # NotReady, and whatever onnxruntime raises
        reason = str(error) if isinstance(error, NotReady) else f"cannot be loaded: {error}"
        _warn(f"{model}: its ready form {reason}; {_AGAIN}")
        return None
    finally:
        options.graph_optimization_level = level.ORT_ENABLE_ALL


def _warn(message: str) -> None:
    """Warn at the line that called `session`."""
    warnings.warn(message, stacklevel=4)


class NotReady(Exception):
    """Why a ready form does not fit: the end of a sentence whose subject is the form."""


def ready_model(model: Path, library: Path) -> Path | None:
    """The file of the ready form of `model`, whose kernels are in `library`; None if its session
    file names no ready form.

    Raises NotReady if the form does not fit.
    """
    place = session_file_of(model)
    try:
        content = read_session_file(place)
    except (OSError, ValueError) as error:
        loss = "is unknown, and so are the settings that `fusionc tune` found"
        raise NotReady(f"{loss}: {place.name} cannot be read: {error}") from error
    if content.ready is None:
        return None
    if misfit := _misfit(content, content.ready, model, library):
        raise NotReady(misfit)
    return model.with_name(content.ready.model.name)


def _misfit(content: SessionFile, ready: ReadyForm, model: Path, library: Path) -> str:
    """Why a ready form does not fit; empty if it does."""
    if not content.is_about(model):
        return "belongs to another model"
    if changed := [file.name for file in content.weights if not file.fits(model.parent)]:
        return f"was made with other weights: {changed[0]} is not the same file"
    if difference := ready.machine.difference(this_machine()):
        return f"was {difference}"
    for file in filter(None, (ready.model, ready.weights)):
        if not file.fits(model.parent):
            return f"needs a file that is missing or was changed: {file.name}"
    if ready.kernels != (content_of(library) if library.is_file() else ""):
        return "was made for other kernels"
    return ""
