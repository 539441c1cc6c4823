"""Judges of a result: the verification of a conversion, or a command of the user's."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from fusionc.attempt.asked_model import AskedModel, ReferenceModel
from fusionc.attempt.attempt import ConversionAttempt
from fusionc.attempt.verdict import verdict_on
from fusionc.bisect.trials import Opinion
from fusionc.bisect.write_result import write_result
from fusionc.disk.places import workshop
from fusionc.disk.save import save
from fusionc.errors import FusioncError, UsageError
from fusionc.rewrite.log import PatternCount

MODEL = "{model}"  # replaced in a command by the path of the model
# in quotes or not: the path is quoted as it needs
_PLACE = re.compile(r"""(["']?)\{model\}\1""")
_LONGEST = 200  # characters of the output of a command
_CANNOT_TELL = 125
_NOT_A_COMMAND = (126, 127)  # of a shell that cannot run a command


class Verifying:
    """Compares a result with the reference, as a conversion does.

    `counts`, by default those of the first result, are the counts of all rewrites, and decide which
    errors are accepted. A result with fewer rewrites is judged by the same counts: otherwise the
    first rewrite that rounds would be found at fault.
    """

    def __init__(
        self, reference: ReferenceModel, counts: Sequence[PatternCount] | None = None
    ) -> None:
        self._reference = reference
        self._counts = counts

    def __call__(self, model: AskedModel, done: ConversionAttempt) -> Opinion:
        self._counts = done.counts if self._counts is None else self._counts
        plan = model.plan
        options = plan.options
        with save(done.proto, options.source.parent, options.destination) as saved:
            verdict = verdict_on(
                saved.model,
                self._reference,
                plan,
                self._counts,
                model.lost,
                are_narrow=done.is_narrow,
            )
        errors = [output.max_abs for output in verdict.outputs]
        off = (
            f"; off by at most {max(errors):.3g}"
            if errors and (verdict.is_right or any(errors))
            else ""
        )
        return Opinion(verdict.is_right if verdict.is_verified else None, f"{verdict.summary}{off}")


class Checking:
    """Runs a command of the user's on the result, which is published with its weights and kernels
    in a folder. Exit code 0 is right, 125 unknown, 1 to 124 wrong, as for `git bisect run`; others
    end the search.
    """

    def __init__(self, command: str) -> None:
        if MODEL not in command:
            example = f'--check "python accuracy.py {MODEL}"'
            hint = f"write {MODEL} where the path of the model goes: {example}"
            what = "the command does not say where the model goes"
            raise UsageError(what, where=f"--check {command}", hint=hint, code="E10001")
        self._command = command

    def __call__(self, model: AskedModel, done: ConversionAttempt) -> Opinion:
        options = model.plan.options
        with workshop(options.destination.parent) as folder:
            destination = folder / "result" / options.destination.name
            destination.parent.mkdir()
            write_result(model, done, destination)
            command = _PLACE.sub(lambda _: shlex.quote(str(destination.resolve())), self._command)
            code, said_out, said_err = _run(command)
        if not 0 <= code <= _CANNOT_TELL:
            what = (
                f"the command ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"
            )
            message = _last_line(said_err)
            hint = "0 is right, 1 to 124 wrong, 125 cannot tell; " + (
                "correct the command" if code in _NOT_A_COMMAND else "others end the search"
            )
            raise FusioncError(
                what,
                where=f"{command}, on {options.source}",
                hint=hint,
                details=[message] if message else [],
            )
        words = _last_line(said_out) or _last_line(said_err)
        summary = f"exit code {code}" + (f": {words}" if words else "")
        return Opinion(None if code == _CANNOT_TELL else code == 0, summary)


def _run(command: str) -> tuple[int, str, str]:
    """The exit code of a command and its output. An interruption ends the command and all processes
    that it started.
    """
    with subprocess.Popen(
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate()
        except BaseException:
            if sys.platform != "win32":
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            raise
    return process.returncode, out, err


def _last_line(text: str) -> str:
    line = "".join(text.strip().splitlines()[-1:])
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
