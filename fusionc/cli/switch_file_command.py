"""`fusionc switch_file`: show or write a switch file as a template."""

from __future__ import annotations

from pathlib import Path

import click

from fusionc.cli.atc_spelling import AtcCommand
from fusionc.cli.common_options import log_debug_option
from fusionc.cli.files import FilePath, write_text
from fusionc.cli.table_options import click_option
from fusionc.errors import UsageError, printable
from fusionc.switches.presets import PRESETS, preset

_MEANINGS = "\b\nPresets:\n" + "\n".join(
    f"  {name:<10}{meaning}" for name, meaning in PRESETS.items()
)


@click.command(cls=AtcCommand, epilog=_MEANINGS, short_help="Show or write a switch file.")
@click.option(
    "--preset",
    "name",
    type=click.Choice(tuple(PRESETS)),
    default="default",
    show_default=True,
    help="The preset.",
)
@click.option(
    "--output",
    "-o",
    type=FilePath(),
    metavar="FILE",
    help="Write the switch file to FILE; do not show it.",
)
@click_option("custom_passes")
@log_debug_option
def command(name: str, output: Path | None, custom_passes: tuple[Path, ...]) -> None:
    """Show or write a switch file. By default it lists every pass in execution order.

    A file that the user has edited is not replaced.
    """
    from fusionc.custom.loading import load_passes

    passes = load_passes(custom_passes)
    text = preset(name, passes)
    if output is None:
        click.echo(text, nl=False)
    else:
        if output.is_file() and output.read_bytes() not in (
            b"",
            *(preset(known, passes).encode() for known in PRESETS),
        ):
            what = "the file exists and is not an unedited preset, so it is not replaced"
            hint = "give another name, or remove the file first"
            raise UsageError(what, where=str(output), hint=hint, code="E10001")
        write_text(output, text)
        path = printable(str(output))
        click.echo(f"{path} is written; use it with: fusionc convert --fusion_switch_file {path}")
