"""How a command fails: one block of text on stderr and an exit code."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import click

from fusionc.errors import FusioncError, Terminated, printable, said
from fusionc.runtime.system_limits import hint_for_limit

EXIT_CODES = """\b
Exit codes:
  0  success
  1  the command failed
  2  an option or the switch file is wrong, or a file to read or the folder of one to write is not there
  3  the two models differ; convert has written nothing then
  130  interrupted by Ctrl-C; 143 by SIGTERM"""

_INTERRUPTED = 130  # what a shell reports after Ctrl-C
_TRACEBACKS = "fusionc.tracebacks"


def show_tracebacks(ctx: click.Context, _parameter: click.Parameter, log: str | None) -> str | None:
    """A click callback of --log: at level debug a failure also shows its traceback."""
    ctx.meta[_TRACEBACKS] = log == "debug"
    return log


@contextmanager
def exit_on_failure(ctx: click.Context) -> Iterator[None]:
    """Turn every failure inside into its block and its exit code. click's own are left to click."""
    try:
        yield
    except click.UsageError as error:
        raise click.UsageError(printable(error.format_message()), error.ctx or ctx) from error
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt:
        _interrupted(ctx)
    except FusioncError as error:
        _show(ctx, error)
    except MemoryError:
        hint = "give smaller sizes, to convert with --verify_shape, to verify with --input_shape"
        _show(ctx, FusioncError("there is not enough memory", where=_command(ctx), hint=hint))
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # whoever read our output has gone: click ends quietly
        where = str(error.filename or _command(ctx))
        hint = (
            hint_for_limit(str(error))
            or "check the path, its permissions, and the space that is left there"
        )
        _show(
            ctx, FusioncError(f"{error.strerror or error}", where=where, hint=hint, code="E13004")
        )
    except Terminated:
        _say_terminated()
        raise
    except SystemExit:
        raise
    except BaseException as error:
        cause = _interruption(error)
        if isinstance(cause, Terminated):
            _say_terminated()
            raise cause from error
        if cause is not None:
            _interrupted(ctx)
        hint = "this is a defect of fusionc: run the command again with --log debug and report what it prints"
        _show(ctx, FusioncError(f"Internal Error! {said(error)}", where=_command(ctx), hint=hint))


def _interruption(error: BaseException | None) -> BaseException | None:
    """Ctrl-C or another signal that ends the command, of which a library made another error."""
    while error is not None and not isinstance(error, KeyboardInterrupt | Terminated):
        error = error.__cause__ or error.__context__
    return error


def _command(ctx: click.Context) -> str:
    return f"{ctx.command_path} {ctx.invoked_subcommand or ''}".rstrip()


def _say_terminated() -> None:
    click.echo("fusionc: terminated", err=True)


def _interrupted(ctx: click.Context) -> None:
    click.echo("fusionc: interrupted", err=True)
    ctx.exit(_INTERRUPTED)


def _show(ctx: click.Context, error: FusioncError) -> None:
    if ctx.meta.get(_TRACEBACKS):
        click.echo(traceback.format_exc(), err=True)
    click.echo(str(error), err=True)
    ctx.exit(error.exit_code)
