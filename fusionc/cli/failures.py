"""How a command fails: one block of text on stderr and an exit code."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import click

from fusionc.errors import FusioncError

_Decorated = TypeVar("_Decorated", bound=Callable[..., object])

EXIT_CODES = """\b
Exit codes:
  0  success
  1  the command failed
  2  an option or the switch file is wrong, or a file to read is not there
  3  the two models differ; convert has written nothing then"""

_INTERRUPTED = 130  # what a shell reports after Ctrl-C
_TRACEBACKS = "fusionc.tracebacks"


def show_tracebacks(ctx: click.Context, _parameter: click.Parameter, log: str | None) -> str | None:
    """A click callback of --log: at level debug a failure also shows its traceback."""
    ctx.meta[_TRACEBACKS] = log == "debug"
    return log


def log_debug_option(command: _Decorated) -> _Decorated:
    """`--log debug` for a command that writes no log."""
    option = click.option(
        "--log",
        type=click.Choice(["debug"]),
        expose_value=False,
        callback=show_tracebacks,
        help="debug shows the traceback of a failure.",
    )
    return option(command)


@contextmanager
def exit_on_failure(ctx: click.Context) -> Iterator[None]:
    """Turn every failure inside into its block and its exit code. click's own are left to click."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt:
        _interrupted(ctx)
    except FusioncError as error:
        _show(ctx, error)
    except MemoryError:
        _show(
            ctx,
            FusioncError(
                "there is not enough memory",
                hint="give smaller sizes, to convert with --verify_shape, to verify with --input_shape",
            ),
        )
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # whoever read our output has gone: click ends quietly
        where, hint = str(error.filename or ""), "check the path, its permissions, and the space that is left there"
        _show(ctx, FusioncError(f"{error.strerror or error}", where=where, hint=hint, code="E13004"))
    except Exception as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # a library made another error of it
            _interrupted(ctx)
        what = f"Internal Error! {type(error).__name__}: {error}"
        hint = "this is a defect of fusionc: run the command again with --log debug and report what it prints"
        _show(ctx, FusioncError(what, hint=hint))


def _interrupted(ctx: click.Context) -> None:
    click.echo("fusionc: interrupted", err=True)
    ctx.exit(_INTERRUPTED)


def _show(ctx: click.Context, error: FusioncError) -> None:
    if ctx.meta.get(_TRACEBACKS):
        click.echo(traceback.format_exc(), err=True)
    click.echo(str(error), err=True)
    ctx.exit(error.exit_code)
