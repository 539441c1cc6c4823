"""The journal of a tuning: a file with its steps. An interrupted run continues from it.

Each completed step adds a line: the identity of the run, the name of the step, its result, and the
seconds that it took. A continued run computes everything else again from these results, so it makes
the same decisions as an uninterrupted run. Several tunings may write to the same journal; each of
them removes only its own steps when it ends.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from fusionc.disk.paths import require_no_stream
from fusionc.disk.small_files import replace_text
from fusionc.errors import FusioncError

_Steps = dict[str, tuple[Any, float]]  # name of a step → its result, and the seconds that it took


class TuningJournal:
    """The steps of the run `identity` in the journal at `path`. The file may also contain steps of
    other interrupted runs.

    `spent` is the measuring time in seconds, including that of an interrupted run. `is_continued`
    says whether this run was interrupted before. The file is created with the first step. Raises
    FusioncError if the file is not a journal or cannot be written.
    """

    def __init__(self, path: Path, identity: str, clock: Callable[[], float] = monotonic) -> None:
        self._path = path
        self._identity = identity
        self._clock = clock
        self._known = _read(path).pop(identity, {})
        self.is_continued = bool(self._known)
        self.spent = 0.0

    def step(self, name: str, compute: Callable[[], Any], is_measuring: bool = True) -> Any:
        """The result of a step. It comes from the journal if the step is there; otherwise from
        `compute`, which must return plain data. The time counts as spent only if `is_measuring`.
        """
        if name in self._known:
            value, seconds = self._known[name]
            self.spent += seconds
            return value
        begin = self._clock()
        value = json.loads(json.dumps(compute()))
        seconds = self._clock() - begin if is_measuring else 0.0
        self._known[name] = (value, seconds)
        entry = {"tune": self._identity, "step": name, "value": value, "seconds": seconds}
        line = f"{json.dumps(entry, ensure_ascii=False)}\n"
        try:
            if not self._path.exists():
                # Written atomically: if the file began with half a line, it would not be
                # recognized.
                replace_text(self._path, line)
            else:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(f"{_separator(self._path)}{line}")
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            raise _unwritable(self._path, error) from error
        self.spent += seconds
        return value

    def remove(self) -> None:
        """Remove the steps of this run, when the model is tuned. Steps of other runs stay."""
        try:
            lines = (
                self._path.read_text(encoding="utf-8").splitlines() if self._path.is_file() else []
            )
            others = [line for line in lines if _owner(line) not in (None, self._identity)]
            if others:
                replace_text(self._path, "\n".join([*others, ""]))
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            raise _unwritable(self._path, error) from error


def _owner(line: str) -> str | None:
    """The identity of the run that wrote a line. `None` for an incomplete line, which an
    interrupted run may leave.
    """
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(line)["tune"])
    return None


def _separator(path: Path) -> str:
    """A line break if the last line of the journal is incomplete, otherwise nothing."""
    content = path.read_bytes()[-1:]
    return "" if content in (b"", b"\n") else "\n"


def _read(path: Path) -> dict[str, _Steps]:
    """Identity of each run in a journal → its steps. An incomplete line is ignored. Raises
    FusioncError if the file is not a journal.
    """
    runs: dict[str, _Steps] = {}
    try:
        require_no_stream(path)
        lines = path.read_text(encoding="utf-8").splitlines()
        if lines:
            runs[str(json.loads(lines[0])["tune"])] = {}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = "the journal of the tuning would replace a file that fusionc did not make"
        raise FusioncError(
            what, where=str(path), hint="move it away, or give another --output"
        ) from error
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):
            entry = json.loads(line)
            runs.setdefault(str(entry["tune"]), {})[entry["step"]] = (
                entry["value"],
                float(entry["seconds"]),
            )
    return runs


def _unwritable(path: Path, error: OSError) -> FusioncError:
    hint = "give an --output in a folder that exists, can be written and has free space"
    return FusioncError(
        f"the journal cannot be written: {error.strerror}",
        where=str(path),
        hint=hint,
        code="E13004",
    )
