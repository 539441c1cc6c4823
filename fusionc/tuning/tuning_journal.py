"""What was found on the way, in a file: a run that was interrupted goes on where it was, with the same decisions.

A line for each step, written when it is complete: its name, what came out, and the seconds that it took. What is
computed from these is computed again, so that a run that goes on decides as one would have that was not interrupted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from fusionc.disk.small_files import replace_text
from fusionc.errors import FusioncError


class TuningJournal:
    """The journal at `path` of a run that `identity` stands for; what another run has left there is begun anew.

    `spent` are the seconds of all steps, those of the interrupted run as well; `is_continued` says whether there were
    such. Raises FusioncError where the file is none of these, or cannot be written.
    """

    def __init__(self, path: Path, identity: str, clock: Callable[[], float] = monotonic) -> None:
        self._path, self._clock = path, clock
        head, steps = _read(path)
        self._known = steps if head == identity else {}
        self.is_continued = bool(self._known)
        self.spent = 0.0
        lines = [json.dumps({"tune": identity}), *(_line(name, *step) for name, step in self._known.items())]
        try:
            replace_text(path, "\n".join([*lines, ""]))  # without a last line that is not whole
        except OSError as error:
            raise _unwritable(path, error) from error

    def step(self, name: str, compute: Callable[[], Any]) -> Any:
        """What `compute` returns, plain data; where the step was done before, what came out then."""
        if name in self._known:
            value, seconds = self._known[name]
            self.spent += seconds
            return value
        begin = self._clock()
        value = json.loads(json.dumps(compute()))
        seconds = self._clock() - begin
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{_line(name, value, seconds)}\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _unwritable(self._path, error) from error
        self._known[name] = (value, seconds)
        self.spent += seconds
        return value

    def remove(self) -> None:
        """The run is complete, and nobody goes on with it."""
        self._path.unlink(missing_ok=True)


def _line(name: str, value: Any, seconds: float) -> str:
    return json.dumps({"step": name, "value": value, "seconds": seconds}, ensure_ascii=False)


def _read(path: Path) -> tuple[str, dict[str, tuple[Any, float]]]:
    """The identity and the steps in a journal. A last line that was being written when the run ended does not count."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        head = json.loads(lines[0])["tune"] if lines else ""
    except FileNotFoundError:
        return "", {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = "the journal of the tuning would be written over a file that fusionc did not make"
        raise FusioncError(what, where=str(path), hint="move it away, or give another --output") from error
    steps: dict[str, tuple[Any, float]] = {}
    for line in lines[1:]:
        try:
            entry = json.loads(line)
            steps[entry["step"]] = (entry["value"], float(entry["seconds"]))
        except (ValueError, KeyError, TypeError):
            break
    return str(head), steps


def _unwritable(path: Path, error: OSError) -> FusioncError:
    hint = "give an --output in a folder that exists, can be written and has room"
    return FusioncError(f"the journal cannot be written: {error.strerror}", where=str(path), hint=hint, code="E13004")
