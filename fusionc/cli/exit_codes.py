"""How a command fails: with one block of text on stderr and an exit code."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

from fusionc.errors import FusioncError, Terminated, printable, said
from fusionc.runtime.system_limits import hint_for_limit

EXIT_CODES = """\b
Exit codes:
  0  success
  1  the command failed
  2  an option or the switch file is wrong, or a file to read or a folder to write to is missing
  3  the result does not compute what the model computes; nothing was written
  4  nothing of the result could be verified, and --no-verify is not given; the result is written,
     unless --require_verification is given
  130  interrupted by Ctrl-C; 143 by SIGTERM"""

EXIT_UNVERIFIED = 4
_EXIT_INTERRUPTED = 130  # the exit code that a shell reports after Ctrl-C
_TRACEBACKS_KEY = "fusionc.tracebacks"  # the key in `ctx.meta`


def show_tracebacks(ctx: click.Context, _parameter: click.Parameter, log: str | None) -> str | None:
    """A click callback of --log: at level debug a failure also shows its traceback."""
    ctx.meta[_TRACEBACKS_KEY] = log == "debug"
    return log


@contextmanager
def exit_on_failure(ctx: click.Context) -> Iterator[None]:
    """Turn each failure inside the context into one block of text and an exit code. click handles
    its own errors.
    """
    try:
        yield
    except click.UsageError as error:
        what = f"{_code(error)}{printable(error.format_message())}"
        raise click.UsageError(what, error.ctx or ctx) from error
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except (FusioncError, MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            raise  # the output no longer has a reader: click ends the command without a message
        _show(ctx, _explain(error, _command(ctx)))
    except BaseException as error:
        _end(ctx, error)


def end_unverified(ctx: click.Context, why: str) -> NoReturn:
    """End a command whose result could not be verified, with the reason as the last line."""
    click.secho(printable(f"NOT VERIFIED: {why}"), err=True, fg="red", bold=True)
    ctx.exit(EXIT_UNVERIFIED)


def _code(error: click.UsageError) -> str:
    """ATC's code of an error in the options, before its text; "" if ATC has none."""
    cause = error.__cause__
    error = cause if isinstance(cause, click.UsageError) else error
    if isinstance(error, click.MissingParameter):
        return "E10007: "
    if isinstance(error, click.BadOptionUsage):
        return "E10004: "
    if not isinstance(error, click.BadParameter):
        return ""
    is_of_log = error.param is not None and error.param.name == "log"
    return "E10010: " if is_of_log else "E10001: "


def _explain(error: FusioncError | MemoryError | OSError, command: str) -> FusioncError:
    """The failure as a FusioncError with advice."""
    if isinstance(error, FusioncError):
        return error
    if isinstance(error, MemoryError):
        hint = "give smaller sizes: convert takes --verify_shape, verify takes --input_shape"
        return FusioncError("there is not enough memory", where=command, hint=hint)
    hint = hint_for_limit(str(error))
    hint = hint or "check the path, its permissions, and the free space on its disk"
    where = str(error.filename or command)
    return FusioncError(f"{error.strerror or error}", where=where, hint=hint, code="E13004")


def _end(ctx: click.Context, error: BaseException) -> None:
    """End the command after an interruption or an unexpected error."""
    if isinstance(error, SystemExit) and not isinstance(error, Terminated):
        raise error
    cause = _interruption(error)
    if isinstance(cause, Terminated):
        click.echo("fusionc: terminated", err=True)
        raise cause
    if cause is not None:
        click.echo("fusionc: interrupted", err=True)
        ctx.exit(_EXIT_INTERRUPTED)
    what = f"Internal Error! {said(error)}"
    hint = (
        "this is a defect of fusionc: run the command again with --log debug and report what it "
        "prints"
    )
    _show(ctx, FusioncError(what, where=_command(ctx), hint=hint))


def _interruption(error: BaseException | None) -> BaseException | None:
    """The KeyboardInterrupt or Terminated that caused this error, directly or through errors of a
    library. None if the error has another cause.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt | Terminated):
        error = error.__cause__ or error.__context__
    return error


def _command(ctx: click.Context) -> str:
    return f"{ctx.command_path} {ctx.invoked_subcommand or ''}".rstrip()


def _show(ctx: click.Context, error: FusioncError) -> None:
    if ctx.meta.get(_TRACEBACKS_KEY):
        click.echo(traceback.format_exc(), err=True)
    click.echo(str(error), err=True)
    ctx.exit(error.exit_code)
