"""`fusionc switch_file`: a complete switch file to start from."""

from __future__ import annotations

from pathlib import Path

import click

from fusionc.cli.atc import AtcCommand
from fusionc.cli.custom import custom_passes_option
from fusionc.cli.failures import log_debug_option
from fusionc.cli.files import FilePath, write_text
from fusionc.errors import printable


@click.command(cls=AtcCommand, short_help="Show or write a complete switch file.")
@click.option("--output", type=FilePath(), metavar="FILE", help="Write it there instead of showing it.")
@custom_passes_option
@log_debug_option
def command(output: Path | None, custom_passes: tuple[Path, ...]) -> None:
    """Show or write a switch file with every pass, in the order in which they run, at its default."""
    from fusionc.custom.loading import load_passes
    from fusionc.switches import template

    text = template(load_passes(custom_passes))
    if output is None:
        click.echo(text, nl=False)
    else:
        write_text(output, text)
        name = printable(str(output))
        click.echo(f"{name} is written; use it with: fusionc convert --fusion_switch_file {name}")
