"""`fusionc switch_file`: a switch file to start from."""

from __future__ import annotations

from pathlib import Path

import click

from fusionc.cli.atc_spelling import AtcCommand
from fusionc.cli.common_options import custom_passes_option, log_debug_option
from fusionc.cli.files import FilePath, write_text
from fusionc.errors import printable
from fusionc.switches.presets import PRESETS, preset

_MEANINGS = "\b\nPresets:\n" + "\n".join(f"  {name:<10}{meaning}" for name, meaning in PRESETS.items())


@click.command(cls=AtcCommand, epilog=_MEANINGS, short_help="Show or write a switch file.")
@click.option(
    "--preset", "name", type=click.Choice(tuple(PRESETS)), default="default", show_default=True, help="Which one."
)
@click.option("--output", type=FilePath(), metavar="FILE", help="Write it there instead of showing it.")
@custom_passes_option
@log_debug_option
def command(name: str, output: Path | None, custom_passes: tuple[Path, ...]) -> None:
    """Show or write a switch file, by default a complete one: every pass, in the order in which they run."""
    from fusionc.custom.loading import load_passes

    text = preset(name, load_passes(custom_passes))
    if output is None:
        click.echo(text, nl=False)
    else:
        write_text(output, text)
        shown = printable(str(output))
        click.echo(f"{shown} is written; use it with: fusionc convert --fusion_switch_file {shown}")
