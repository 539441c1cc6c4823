"""Run the original model (the reference) in the background, while the converted model (the
candidate) is still being made. Both models run in one child process of onnxruntime.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fusionc.runtime.custom_operators import custom_operators, libraries_in_use
from fusionc.runtime.process import lent, longest_step, start, step_limit
from fusionc.runtime.run_errors import Overdue
from fusionc.verify.reference import Reference


class ReferenceAhead:
    """A Reference that a background thread opens and runs.

    If opening or running the model fails, `take` returns None. The caller then opens the model
    itself and gets the error. If onnxruntime exceeds the limit of a step (the longest time that it
    may take for one request), `take` raises Overdue instead.
    """

    def __init__(
        self,
        path: Path,
        input_shape: Mapping[str, tuple[int, ...]] | None,
        inputs: Path | None,
        elements: int | None = None,
    ) -> None:
        self._path = path
        self._input_shape = input_shape
        self._inputs = inputs
        self._elements = elements
        self._process = start()
        self._limit = longest_step() or 0.0
        self._libraries = libraries_in_use()
        self._reference: Reference | None = None
        self._overdue: Overdue | None = None
        self._is_taken = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def take(self, path: Path) -> Reference | None:
        """Wait until the reference has run, and return it. Returns None if the reference failed, or
        if it is another model than `path`. If not all samples could be run in advance and kept,
        only the first call returns the reference. Raises Overdue if onnxruntime exceeded the limit
        of a step.
        """
        if path != self._path:
            return None
        self._thread.join()
        if self._overdue is not None:
            raise self._overdue
        was_taken = self._is_taken
        self._is_taken = True
        reference = self._reference
        return None if reference is None or (was_taken and not reference.is_done) else reference

    def close(self) -> None:
        """Free the reference. If onnxruntime is still running, it is ended."""
        if self._thread.is_alive():
            self._process.kill()
            self._thread.join()
            self._process.end()  # wait for its end, so that the owner does not use a dying process
        elif self._reference is not None:
            self._reference.runner.close()

    def _run(self) -> None:
        try:
            with lent(self._process), step_limit(self._limit), custom_operators(self._libraries):
                self._reference = self._opened()
        except Overdue as error:
            self._overdue = error
        except Exception:  # the caller opens the model again and gets the error
            return

    def _opened(self) -> Reference | None:
        """Open the reference, run it, and return it. Returns None if the child process crashed
        before the search for inputs was over: the candidate shares this process, so its requests
        may be the cause.
        """
        reference = Reference(self._path, self._input_shape, self._inputs, elements=self._elements)
        try:
            reference.run()
        except BaseException:
            reference.runner.close()
            raise
        return reference if self._process.is_alive or reference.search.is_over else None


@contextmanager
def reference_ahead(
    path: Path,
    input_shape: Mapping[str, tuple[int, ...]] | None,
    inputs: Path | None,
    elements: int | None = None,
) -> Iterator[ReferenceAhead]:
    """A context manager that runs a model in the background, on the same inputs on which a later
    verification runs it.
    """
    ahead = ReferenceAhead(path, input_shape, inputs, elements)
    try:
        yield ahead
    finally:
        ahead.close()
