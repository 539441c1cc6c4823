"""The log of a run by Ascend's plog conventions: levels, folder, file names, line form, rotation.

    [INFO] FUSIONC(4711,fusionc):2026-01-31-20:10:58.288.365 [conversion_story.py:84]4711
    RunOnePattern:GraphId[0], \
GraphFusionPass[ConvBatchnormFusionPass]: pattern=conv_bn, matched_times=2, effected_times=1.

The default level is info, because the lines about patterns have this level. (The default level of
plog is error.)
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from io import FileIO
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from fusionc.errors import UsageError, printable
from fusionc.report.environment import checked, variable

if TYPE_CHECKING:
    from fusionc.rewrite.log import PatternCount

LEVELS = ("debug", "info", "warning", "error", "null")
FILE_BYTES = 20 * 2**20
_DEFAULT_LEVEL = "info"
_DEFAULT_FILES = 10
_MOST_FILES = 100  # of all processes, in the folder of the state


class Plog:
    """The log of one run. If the log cannot be written, a notice says so, and the run continues.

    The level is the first of these that is given: `level` (the --log option),
    FUSIONC_GLOBAL_LOG_LEVEL, ASCEND_GLOBAL_LOG_LEVEL, info. Raises UsageError E10010 if `level` is
    not one of LEVELS.

    `file` is the current file, or None before the first line. `notices` are for the user.
    """

    def __init__(self, level: str | None = None) -> None:
        if level is not None and level not in LEVELS:
            raise UsageError(
                f'the log level is "{level}"',
                where="--log",
                hint=f"use one of {', '.join(LEVELS)}",
                code="E10010",
            )
        self.file: Path | None = None
        self.notices: list[str] = []
        self._is_quiet = level is not None and level in LEVELS[LEVELS.index("warning") :]
        self.level = level or _level_of_environment(self.notices)
        stdout = (
            "LOG_PRINT_TO_STDOUT" if variable("LOG_PRINT_TO_STDOUT") else "SLOG_PRINT_TO_STDOUT"
        )
        self._to_stdout = checked(stdout, "[01]", "0 or 1", self.notices) == "1"
        kept = checked(
            "HOST_LOG_FILE_NUM", "[1-9][0-9]{0,5}", "a number from 1 to 999999", self.notices
        )
        self._kept_files = int(kept or _DEFAULT_FILES)
        self._stream: FileIO | None = None
        self._size = 0
        self._is_broken = False

    def __enter__(self) -> Plog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if it is open. The next line would open a new file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def debug(self, function: str, message: str) -> None:
        """Write a line at level debug. `function` names the step that the message is about."""
        self._write("debug", function, message, sys._getframe(1))

    def info(self, function: str, message: str) -> str:
        """Write a line at level info, and return the line."""
        return self._write("info", function, message, sys._getframe(1))

    def warning(self, function: str, message: str) -> None:
        """Write a line at level warning."""
        self._write("warning", function, message, sys._getframe(1))

    def error(self, function: str, message: str) -> None:
        """Write a line at level error."""
        self._write("error", function, message, sys._getframe(1))

    def patterns(self, counts: Iterable[PatternCount]) -> list[str]:
        """Log a line for each pattern that matched. The time of a line is that of the pattern's
        first match, and the lines are in this order. At level debug, log the reasons for refusals
        as well.

        Returns the lines that are not on stdout already. A command prints these if its output is
        not a terminal. If the argument `level` is above info, the result is empty. A level in the
        environment does not have this effect, because it is meant for all runs.
        """
        frame = sys._getframe(1)
        not_on_stdout = []
        for count in sorted(counts, key=lambda count: count.at):
            name = f"{count.kind}Pass[{count.pass_name}]"
            place = f"GraphId[{count.graph_id}], {name}: pattern={count.pattern}"
            if count.matched:
                message = (
                    f"{place}, matched_times={count.matched}, effected_times={count.effected}."
                )
                line = self._write("info", "RunOnePattern", message, frame, count.at)
                if not self._is_quiet and not (self._to_stdout and self._shows("info")):
                    not_on_stdout.append(line)
            for reason, times in count.refused.items():
                what = " ".join(reason.split())
                self._write(
                    "debug",
                    "RunOnePattern",
                    f"{place}, refused_times={times}, reason: {what}.",
                    frame,
                    count.at,
                )
        return not_on_stdout

    def _shows(self, level: str) -> bool:
        return LEVELS.index(level) >= LEVELS.index(self.level)

    def _write(
        self, level: str, function: str, message: str, frame: FrameType, at: float | None = None
    ) -> str:
        """Compose a line, write it if the log shows its level, and return it. `at` is the time in
        seconds since 1970; None for now.
        """
        source = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        now = datetime.now() if at is None else datetime.fromtimestamp(at)
        stamp = f"{now:%Y-%m-%d-%H:%M:%S}.{now.microsecond // 1000:03}.{now.microsecond % 1000:03}"
        line = (
            f"[{level.upper()}] FUSIONC({os.getpid()},fusionc):{stamp} "
            f"[{source}]{threading.get_native_id()} "
            f"{function}:{printable(message)}"
        )
        if self._shows(level):
            if self._to_stdout:
                print(line, flush=True)
            else:
                self._write_to_file(line)
        return line

    def _write_to_file(self, line: str) -> None:
        if self._is_broken:  # an earlier write failed, and a notice says so
            return
        data = (line + "\n").encode("utf-8", "backslashreplace")
        try:
            if self._stream is None or self._size + len(data) > FILE_BYTES:
                self.close()
                self._stream = self._next_file()
                self._size = 0
            self._stream.write(data)
            self._size += len(data)
        except (OSError, RuntimeError) as error:  # RuntimeError: the home folder is unknown
            self.close()
            reason = error.strerror if isinstance(error, OSError) else error
            self.notices.append(
                f"no log is written to {self.file or 'its folder'}: {reason}; "
                "set FUSIONC_PROCESS_LOG_PATH to a folder that can be written"
            )
            self.file = None
            self._is_broken = True

    def _next_file(self) -> FileIO:
        chosen = _chosen_folder()
        folder = (chosen or _state_folder()) / "debug" / "plog"
        self.file = folder
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            now = datetime.now()
            name = f"plog-{os.getpid()}_{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03}.log"
            try:
                stream = FileIO(folder / name, "xb")
            except FileExistsError:
                time.sleep(0.001)  # the name contains milliseconds, so the next name is free
                continue
            self.file = folder / name
            break
        _keep_newest(folder, f"plog-{os.getpid()}_*.log", self._kept_files)
        if chosen is None:
            _keep_newest(folder, "plog-*_*.log", _MOST_FILES)
            # the home folder is unknown, or nothing can be written there
            with suppress(RuntimeError, OSError):
                self._tell_of_move(folder)
        return stream

    def _tell_of_move(self, folder: Path) -> None:
        """Say that the log has moved, once for each user: a file next to the log remembers it. This
        notice can be removed in version 0.2.
        """
        told = folder.parents[1] / "move_is_told"
        old = Path.home() / "fusionc" / "log" / "debug" / "plog"
        if old.is_dir() and not told.exists():
            told.touch()
            self.notices.append(
                f"the log is in {folder}, and is no longer in {old}: remove that folder if you do "
                "not need its files"
            )


def _level_of_environment(notices: list[str]) -> str:
    right = f"0 to 4, or one of {', '.join(LEVELS)}"
    value = (
        checked("GLOBAL_LOG_LEVEL", "|".join(("[0-4]", *LEVELS)), right, notices) or _DEFAULT_LEVEL
    )
    return LEVELS[int(value)] if value.isdigit() else value


def _chosen_folder() -> Path | None:
    """The folder that the environment names."""
    if variable("PROCESS_LOG_PATH"):
        return Path(variable("PROCESS_LOG_PATH"))
    return Path(variable("WORK_PATH"), "log") if variable("WORK_PATH") else None


def _state_folder() -> Path:
    """The folder for the state of this user's programs, by the XDG Base Directory Specification."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    home = state if state.is_absolute() else Path.home() / ".local" / "state"
    return home / "fusionc" / "log"


def _keep_newest(folder: Path, pattern: str, count: int) -> None:
    """Remove all but the newest files. Their names end in the time at which they were created."""
    files = sorted(folder.glob(pattern), key=lambda file: file.name.rpartition("_")[2])
    for old in files[:-count]:
        with suppress(OSError):
            old.unlink()
