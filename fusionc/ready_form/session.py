"""`fusionc.session`: an onnxruntime session for a model. The session loads the ready form of the
model (the model as onnxruntime has optimized it) if that fits this machine.
"""

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
_ADVICE = "the model itself is loaded, which takes longer; convert it with --ready on this machine"


def session(
    model: str | os.PathLike[str],
    options: onnxruntime.SessionOptions | None = None,
    providers: Sequence[Any] = _PROVIDERS,
) -> onnxruntime.InferenceSession:
    """An onnxruntime session for a model, with the kernels of the model. If the model has a ready
    form that fits this machine, the session loads it instead of the model.

    model         the model file; the other files of its conversion are expected next to it
    options       number of threads, logging and so on; by default onnxruntime's own. This call
                  registers the kernels of the model in the options, as `register_kernels` does, and
                  temporarily changes their optimization level: give each session its own options
    providers     onnxruntime's providers; the ready form is used only with the CPU provider alone

    A ready form (`--ready`) fits if onnxruntime and the kind of processor are those for which it
    was made, and if its files and the model are unchanged. If it does not fit, the model itself
    is loaded, and a UserWarning says why. There is also a warning if kernels are missing or cannot
    be loaded. A ready form contains the result of onnxruntime's optimizers at their default level.
    If `options` have another level, the model itself is loaded. Settings that `fusionc tune`
    measured to be faster on the same kind of machine are used, unless `options` override them.
    Kernels are machine code: call this function only for models that you trust.

    Raises UsageError if the model does not exist, and all exceptions of onnxruntime.
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
            _warn(f"{model}: its settings {error}; it runs with onnxruntime's defaults")


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
    """A session of the ready form of a model. `None` if the model does not have a ready form that
    fits, or if the options have another optimization level than the default. Warns if a ready form
    does not fit.
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
        # the ready form is already optimized
        options.graph_optimization_level = level.ORT_DISABLE_ALL
        return onnxruntime.InferenceSession(os.fspath(ready), options, providers=_PROVIDERS)
    except Exception as error:  # NotReady, or any exception of onnxruntime
        reason = str(error) if isinstance(error, NotReady) else f"cannot be loaded: {error}"
        _warn(f"{model}: its ready form {reason}; {_ADVICE}")
        return None
    finally:
        options.graph_optimization_level = level.ORT_ENABLE_ALL


def _warn(message: str) -> None:
    """Warn at the line that called `session`."""
    warnings.warn(message, stacklevel=4)


class NotReady(Exception):
    """Raised if a ready form does not fit. The text is the end of a sentence with the form as its
    subject.
    """


def ready_model(model: Path, library: Path) -> Path | None:
    """The path of the ready form of `model`, whose kernels are in `library`. None if its session
    file does not name a ready form.

    Raises NotReady if the form does not fit.
    """
    place = session_file_of(model)
    try:
        content = read_session_file(place)
    except (OSError, ValueError) as error:
        loss = "is unknown, like the settings of `fusionc tune`"
        raise NotReady(f"{loss}: {place.name} cannot be read: {error}") from error
    if content.ready is None:
        return None
    if misfit := _misfit(content, content.ready, model, library):
        raise NotReady(misfit)
    return model.with_name(content.ready.model.name)


def _misfit(content: SessionFile, ready: ReadyForm, model: Path, library: Path) -> str:
    """Why a ready form does not fit. Empty if it fits."""
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
