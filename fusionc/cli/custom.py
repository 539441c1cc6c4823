"""The option --custom_passes, for all commands that deal with the registry."""

from __future__ import annotations

from pathlib import Path

import click

custom_passes_option = click.option(
    "--custom_passes",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="A Python file with passes of your own; may be given several times.",
)
