"""What was found on the way, in a file: a run that was interrupted goes on where it was, with the same decisions.

A line for each step, written when it is complete: its name, what came out, and the seconds that it took. What is
computed from these is computed again, so that a run that goes on decides as one would have that was not interrupted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from fusionc.disk.small_files import replace_text
from fusionc.errors import FusioncError

_Steps = dict[str, tuple[Any, float]]  # by name what came out, and the seconds that it took


class TuningJournal:
    """The journal at `path` of a run that `identity` stands for, beside those of others that were interrupted there.

    `spent` are the seconds of all steps, those of the interrupted run as well; `is_continued` says whether there were
    such. There is no file until a step is complete. Raises FusioncError where the file is none of these, or cannot be
    written.
    """

    def __init__(self, path: Path, identity: str, clock: Callable[[], float] = monotonic) -> None:
        self._path, self._identity, self._clock = path, identity, clock
        self._others = _read(path)
        self._known = self._others.pop(identity, {})
        self.is_continued = bool(self._known)
        self.spent = 0.0
        self._is_last = False  # in the file, where the next step of it goes

    def step(self, name: str, compute: Callable[[], Any]) -> Any:
        """What `compute` returns, plain data; where the step was done before, what came out then."""
        if name in self._known:
            value, seconds = self._known[name]
            self.spent += seconds
            return value
        begin = self._clock()
        value = json.loads(json.dumps(compute()))
        seconds = self._clock() - begin
        self._known[name] = (value, seconds)
        try:
            if self._is_last:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(f"{_line(name, value, seconds)}\n")
                    file.flush()
                    os.fsync(file.fileno())
            else:
                runs = {**self._others, self._identity: self._known}
                replace_text(self._path, "".join(_text(*run) for run in runs.items()))
                self._is_last = True
        except OSError as error:
            raise _unwritable(self._path, error) from error
        self.spent += seconds
        return value

    def remove(self) -> None:
        """The model is tuned, and nobody goes on with this run or another one."""
        self._path.unlink(missing_ok=True)


def _text(identity: str, steps: _Steps) -> str:
    lines = [json.dumps({"tune": identity}), *(_line(name, *step) for name, step in steps.items())]
    return "\n".join([*lines, ""])


def _line(name: str, value: Any, seconds: float) -> str:
    return json.dumps({"step": name, "value": value, "seconds": seconds}, ensure_ascii=False)


def _read(path: Path) -> dict[str, _Steps]:
    """The steps of each run in a journal. A line that was being written when a run ended does not count."""
    runs: dict[str, _Steps] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        if not lines:
            return {}
        steps = runs[str(json.loads(lines[0])["tune"])] = {}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = "the journal of the tuning would be written over a file that fusionc did not make"
        raise FusioncError(what, where=str(path), hint="move it away, or give another --output") from error
    for line in lines[1:]:
        with suppress(ValueError, KeyError, TypeError):
            entry = json.loads(line)
            if "tune" in entry:
                steps = runs[str(entry["tune"])] = {}
            else:
                steps[entry["step"]] = (entry["value"], float(entry["seconds"]))
    return runs


def _unwritable(path: Path, error: OSError) -> FusioncError:
    hint = "give an --output in a folder that exists, can be written and has room"
    return FusioncError(f"the journal cannot be written: {error.strerror}", where=str(path), hint=hint, code="E13004")
