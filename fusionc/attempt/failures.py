"""Every failure of a conversion becomes an error that a user understands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fusionc.errors import Defect, FusioncError, said
from fusionc.report import Plog
from fusionc.runtime.run_errors import OutOfMemory, Overdue
from fusionc.runtime.runner import fault_of_loading
from fusionc.runtime.system_limits import OF_MEMORY, hint_for_limit


@contextmanager
def explain_errors(source: Path, plog: Plog) -> Iterator[None]:
    """A context manager that explains and logs every error of converting the model `source`."""
    try:
        yield
    except Exception as error:
        explained = _explain(error, source)
        if isinstance(explained, FusioncError) and (hint := hint_for_limit(explained.what)):
            explained.hint = hint
        plog.error("Convert", " ".join(f"{explained}".split()))
        if isinstance(explained, FusioncError):
            explained.log_file = plog.file
        if explained is error:
            raise
        raise explained from error


def _explain(error: Exception, source: Path) -> Exception:
    """The error, or another error that says more. If onnxruntime cannot load the model, an
    unforeseen error is blamed on the model. onnx.checker is not asked, because it rejects many
    models that run.
    """
    if isinstance(error, MemoryError):
        return FusioncError(
            "there is not enough memory for this model", where=str(source), hint=OF_MEMORY
        )
    if isinstance(error, OSError) or (
        isinstance(error, FusioncError) and not isinstance(error, Defect)
    ):
        return error
    cause = error.__cause__ if isinstance(error, Defect) else error
    if isinstance(cause, Overdue):
        return FusioncError(
            f"onnxruntime is too slow: {cause}",
            where=str(source),
            hint="give it more seconds",
        )
    if isinstance(cause, OutOfMemory):
        what = f"there is not enough memory for this model: {cause}"
        return FusioncError(what, where=str(source), hint=OF_MEMORY)
    if not isinstance(error, Defect):
        hint = "please report it, with what --log debug prints"
        error = Defect(f"the conversion failed: {said(error)}", where=str(source), hint=hint)
    fault = fault_of_loading(source)
    if fault is None:
        return error
    if hint := hint_for_limit(fault):
        what = f"onnxruntime cannot load the model: {fault}"
        return FusioncError(what, where=str(source), hint=hint, details=[error.what])
    what = f"the model is not valid: onnxruntime cannot load it: {fault}"
    hint = "export the model again, or switch the failing pass off with --optimization_switch"
    return FusioncError(what, where=str(source), hint=hint, code="E13005", details=[error.what])
