"""Options that several commands share and that are not conversion options: --confidence, and the
--log of commands that do not write a log.
"""

from __future__ import annotations

from collections.abc import Callable

import click

from fusionc.cli.exit_codes import show_tracebacks
from fusionc.cli.table_options import Decorated


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
