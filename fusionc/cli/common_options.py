"""Options that several commands share and that are not conversion options: --confidence, --quiet,
and the --log of commands that do not write a log.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import click

from fusionc.cli.exit_codes import show_tracebacks
from fusionc.cli.table_options import Decorated

_QUIET_KEY = "fusionc.quiet"  # the key in `ctx.meta`


class _Nothing(io.TextIOBase):
    """A standard output that drops everything."""

    def write(self, text: str) -> int:
        """Drop a text and return the number of its characters."""
        return len(text)


def is_quiet(ctx: click.Context) -> bool:
    """Whether --quiet is given."""
    return bool(ctx.meta.get(_QUIET_KEY))


def _be_quiet(ctx: click.Context, _parameter: click.Parameter, is_given: bool) -> None:
    """Drop everything that the command writes to the standard output."""
    if is_given:
        ctx.meta[_QUIET_KEY] = True
        sys.stdout = _Nothing()


quiet_option = click.option(
    "--quiet",
    "-q",
    is_flag=True,
    expose_value=False,
    callback=_be_quiet,
    help="Print nothing except errors, and the line that says that a result is not verified.",
)


def confidence_option(help_text: str) -> Callable[[Decorated], Decorated]:
    """The option --confidence of commands that measure."""
    return click.option(
        "--confidence",
        type=click.FloatRange(50, 100, max_open=True),
        default=95.0,
        show_default=True,
        metavar="PERCENT",
        help=help_text,
    )


log_debug_option = click.option(  # for commands that do not write a log
    "--log",
    type=click.Choice(["debug"]),
    expose_value=False,
    callback=show_tracebacks,
    help="debug shows the traceback of a failure.",
)
