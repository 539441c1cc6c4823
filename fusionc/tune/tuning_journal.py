"""What was found on the way, in a file: a run that was interrupted goes on where it was, with the
same decisions.

A line for each step, added when it is complete: whose it is, its name, what came out, and the
seconds that it took. What is computed from these is computed again, so that a run that goes on
decides as one would have that was not interrupted. Several tunings may write to one journal: one
that ends takes only its own steps away.
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

_Steps = dict[str, tuple[Any, float]]  # by name what came out, and the seconds that it took


class TuningJournal:
    """The journal at `path` of a run that `identity` stands for, beside those of others that were
    interrupted there.

    `spent` are the seconds of all measuring, that of the interrupted run as well; `is_continued`
    says whether there was one. There is no file until a step is complete. Raises FusioncError where
    the file is none of these, or cannot be written.
    """

    def __init__(self, path: Path, identity: str, clock: Callable[[], float] = monotonic) -> None:
        self._path = path
        self._identity = identity
        self._clock = clock
        self._known = _read(path).pop(identity, {})
        self.is_continued = bool(self._known)
        self.spent = 0.0

    def step(self, name: str, compute: Callable[[], Any], is_measuring: bool = True) -> Any:
        """What `compute` returns, plain data; where the step was done before, what came out then. A
        step that is no measuring spends nothing.
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
                # a file that begins with a part of a line would be nobody's
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
        """The model is tuned, and nobody goes on with this run. The steps of others stay."""
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
    """Whose step a line is; None for one that was being written when a run ended."""
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(line)["tune"])
    return None


def _separator(path: Path) -> str:
    """What ends a line that was being written when a run ended."""
    content = path.read_bytes()[-1:]
    return "" if content in (b"", b"\n") else "\n"


def _read(path: Path) -> dict[str, _Steps]:
    """The steps of each run in a journal. A line that was being written when a run ended does not
    count.
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
        what = "the journal of the tuning would be written over a file that fusionc did not make"
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
    hint = "give an --output in a folder that exists, can be written and has room"
    return FusioncError(
        f"the journal cannot be written: {error.strerror}",
        where=str(path),
        hint=hint,
        code="E13004",
    )
