"""The option --custom_passes, for all commands that deal with the registry."""

from __future__ import annotations

import click

from fusionc.cli.files import FilePath

custom_passes_option = click.option(
    "--custom_passes",
    type=FilePath(),
    multiple=True,
    metavar="FILE",
    help="A Python file with passes of your own; may be given several times.",
)
