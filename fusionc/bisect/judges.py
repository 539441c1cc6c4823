"""Judges of a result: the verification of conversions, and the user's command."""

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

MODEL = "{model}"  # the placeholder in a command for the path of the model
# The placeholder with or without quotes. The path that replaces both gets the quotes that it needs.
_PLACEHOLDER = re.compile(r"""(["']?)\{model\}\1""")
_MAX_LENGTH = 200  # characters of a line of a command's output
_UNDECIDED = 125  # the exit code with which a command says that it cannot judge
_NOT_A_COMMAND = (126, 127)  # the exit codes of a shell that cannot run a command


class Verifying:
    """Compares a result with the reference (the model without rewrites), as a conversion does.

    `counts` are the pattern counts of the conversion with all rewrites; by default, they are taken
    from the first result. The tolerance depends on them. Results with fewer rewrites are judged
    with the same tolerance; otherwise, the first rewrite that rounds would be blamed.
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
                inner_names=done.inner_names,
            )
        errors = [output.max_abs for output in verdict.outputs]
        off = (
            f"; off by at most {max(errors):.3g}"
            if errors and (verdict.is_right or any(errors))
            else ""
        )
        return Opinion(verdict.is_right if verdict.is_verified else None, f"{verdict.summary}{off}")


class Checking:
    """Runs the user's command on the result, which is written with its weights and kernels into a
    temporary folder. As for `git bisect run`, exit code 0 means right, 1 to 124 wrong, and 125
    undecided. For any other exit code, FusioncError is raised, which ends the search.
    """

    def __init__(self, command: str) -> None:
        if MODEL not in command:
            example = f'--check "python accuracy.py {MODEL}"'
            hint = f"write {MODEL} where the command needs the path of the model: {example}"
            what = "the command does not say where the model goes"
            raise UsageError(what, where=f"--check {command}", hint=hint, code="E10001")
        self._command = command

    def __call__(self, model: AskedModel, done: ConversionAttempt) -> Opinion:
        options = model.plan.options
        with workshop(options.destination.parent) as folder:
            destination = folder / "result" / options.destination.name
            destination.parent.mkdir()
            write_result(model, done, destination)
            command = _PLACEHOLDER.sub(
                lambda _: shlex.quote(str(destination.resolve())), self._command
            )
            code, output, errors = _run(command)
        if not 0 <= code <= _UNDECIDED:
            what = (
                f"the command ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"
            )
            message = _last_line(errors)
            hint = "exit code 0 means right, 1 to 124 wrong, 125 undecided; " + (
                "correct the command" if code in _NOT_A_COMMAND else "other codes end the search"
            )
            raise FusioncError(
                what,
                where=f"{command}, on {options.source}",
                hint=hint,
                details=[message] if message else [],
            )
        words = _last_line(output) or _last_line(errors)
        summary = f"exit code {code}" + (f": {words}" if words else "")
        return Opinion(None if code == _UNDECIDED else code == 0, summary)


def _run(command: str) -> tuple[int, str, str]:
    """Run a command, and return its exit code, standard output and standard error. An interruption
    ends the command and all processes that it started.
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
    return line if len(line) <= _MAX_LENGTH else f"{line[: _MAX_LENGTH - 1]}…"
