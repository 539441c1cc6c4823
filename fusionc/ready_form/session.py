"""`fusionc.session`: a model in onnxruntime, in the form that loads fastest here."""

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
_AGAIN = "the model runs as it is, and takes longer to load; convert it again with --ready, here"


def session(
    model: str | os.PathLike[str],
    options: onnxruntime.SessionOptions | None = None,
    providers: Sequence[Any] = _PROVIDERS,
) -> onnxruntime.InferenceSession:
    """A session of onnxruntime for a model, with its kernels, and in its ready form where it has
    one that fits.

    model         the model file; what belongs to it is found beside it, as a conversion has written
                  it
    options       how many threads, what is logged and so on; without them onnxruntime's defaults.
                  They get the kernels of the model, as `register_kernels` has it, and their level
                  is another one meanwhile: give each session its own
    providers     those of onnxruntime; with others than the CPU's the model runs as it is, without
                  its ready form

    A ready form (`--ready`) fits the onnxruntime and the processor that it was made for, as long as
    its files and the model are those that were written together. Where it does not, the model runs
    as it is, with a UserWarning that says why; the same where kernels are missing or cannot be
    loaded. A ready form is what onnxruntime's optimizers make of the model at their default level:
    with options of another level, the model runs as it is. Settings that `fusionc tune` has found
    to pay on a machine like this one hold where `options` say nothing else. Kernels are machine
    code: call this for models that you trust. Raises UsageError where there is no model, else what
    onnxruntime raises.
    """
    import onnxruntime

    path = path_of(
        model, "model", "give the path of an .onnx file; onnxruntime.InferenceSession takes bytes"
    )
    require_path(path, "model")
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(
            f"the model {problem}",
            where=str(path),
            hint="give the path of an .onnx file",
            code="E10410",
        )
    options = onnxruntime.SessionOptions() if options is None else options
    require_session_options(options)
    if session_file_of(path).exists():
        try:
            tuned_settings(path).apply(options)
        except NotTuned as error:
            warnings.warn(
                f"{path}: its settings {error}; it runs with those of onnxruntime", stacklevel=2
            )
    library = library_for(path)
    if library.is_file():
        try:
            register_kernels(options, path)
        except UsageError:
            raise
        except FusioncError as error:
            warnings.warn(
                f"{path}: {error.what} {error.hint}. Its areas run without kernels", stacklevel=2
            )
    elif has_areas(path):
        warnings.warn(
            f"{path}: there is no {library.name} beside it. Its areas run without kernels",
            stacklevel=2,
        )
    every = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    is_for_cpu = list(providers) == _PROVIDERS
    if is_for_cpu and session_file_of(path).exists() and options.graph_optimization_level == every:
        try:
            if (ready := ready_model(path, library)) is not None:
                # that is done
                options.graph_optimization_level = (
                    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
                )
                try:
                    return onnxruntime.InferenceSession(
                        os.fspath(ready), options, providers=providers
                    )
                finally:
                    options.graph_optimization_level = every
        except Exception as error:  # NotReady, and whatever onnxruntime raises
            said = str(error) if isinstance(error, NotReady) else f"cannot be loaded: {error}"
            warnings.warn(f"{path}: its ready form {said}; {_AGAIN}", stacklevel=2)
    return onnxruntime.InferenceSession(os.fspath(path), options, providers=providers)


class NotReady(Exception):
    """Why a ready form does not fit, as the end of a sentence about it."""


def ready_model(model: Path, library: Path) -> Path | None:
    """The model of the ready form of `model`, whose kernels are in `library`; None where its
    session file knows none.

    Raises NotReady where it does not fit.
    """
    try:
        known = read_session_file(session_file_of(model))
    except (OSError, ValueError) as error:
        lost = "is not known, nor are settings that `fusionc tune` has found"
        raise NotReady(f"{lost}: {session_file_of(model).name} cannot be read: {error}") from error
    if known.ready is None:
        return None
    if reason := _reason_against(known, known.ready, model, library):
        raise NotReady(reason)
    return model.with_name(known.ready.model.name)


def _reason_against(known: SessionFile, ready: ReadyForm, model: Path, library: Path) -> str:
    if known.model.name != model.name or not known.model.fits(model.parent):
        return "is of another model than this one"
    if others := [file.name for file in known.weights if not file.fits(model.parent)]:
        return f"was made with other weights than there are: {others[0]}"
    if difference := ready.machine.difference(this_machine()):
        return f"was {difference}"
    for file in filter(None, (ready.model, ready.weights)):
        if not file.fits(model.parent):
            return f"has a file that is not there, or another one: {file.name}"
    if ready.kernels != (content_of(library) if library.is_file() else ""):
        return "was made for other kernels than there are"
    return ""
