"""The command line: parse the options, call the function, show the result, set the exit code.

Before a command runs, click is the only large import, because `fusionc --help` must answer at once.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from typing import NoReturn

import click

from fusionc.cli.broken_pipe import BrokenPipeSafeStream
from fusionc.cli.exit_codes import EXIT_CODES, exit_on_failure
from fusionc.cli.signals import raise_on_signals
from fusionc.errors import nearest
from fusionc.version import __version__

COMMANDS = (
    "convert",
    "verify",
    "bisect",
    "why",
    "diff",
    "inspect",
    "bench",
    "tune",
    "passes",
    "switch_file",
)


class _LazyGroup(click.Group):
    """A group that imports the module of a command only when the command is called. A failure of
    the command is shown as one block of text.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = cmd_name.replace("-", "_")
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"fusionc.cli.{name}_command").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that these words call. A path instead of the name of a command calls
        `convert`.
        """
        name = args[0].replace("-", "_")
        if name == "help":
            return self.resolve_command(ctx, [*(args[1:2] or self._own_help(ctx)), "--help"])
        if name in COMMANDS or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        if _is_path(args[0]):
            return "convert", self.get_command(ctx, "convert"), args
        what = f"No such command '{args[0]}'"
        if near := nearest(name, COMMANDS):
            ctx.fail(f"{what}; did you mean {near}?")
        if models := _models(args):
            ctx.fail(f"{what}; write: fusionc {' '.join(models[:2])}")
        ctx.fail(f"{what}.")

    def _own_help(self, ctx: click.Context) -> NoReturn:
        click.echo(ctx.get_help())
        ctx.exit()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            for name in COMMANDS:
                command = self.get_command(ctx, name)
                if command is not None and _has_option(command, words[0]):
                    what = f"{words[0].partition('=')[0]} is an option of a command"
                    what = f"{what}; write: fusionc {name} {words[0]} …"
                    raise click.UsageError(what, click.Context(command, ctx, name)) from error
            raise

    def invoke(self, ctx: click.Context) -> object:
        with raise_on_signals(), exit_on_failure(ctx):
            return super().invoke(ctx)


def _is_path(word: str) -> bool:
    return bool(_models([word])) or word == "-" or os.sep in word or os.path.exists(word)


def _models(args: list[str]) -> list[str]:
    from fusionc.cli.atc_spelling import is_model

    return [arg for arg in args if is_model(arg)]


def _has_option(command: click.Command, word: str) -> bool:
    from fusionc.cli.atc_spelling import key_of

    names = [
        name for parameter in command.params for name in parameter.opts if name.startswith("-")
    ]
    return key_of(word.partition("=")[0]) in map(key_of, names)


def _show_version(ctx: click.Context, _parameter: click.Parameter, is_requested: bool) -> None:
    if is_requested:
        runtime = ", ".join(f"{name} {_version(name)}" for name in ("onnx", "onnxruntime"))
        click.echo(f"fusionc {__version__} ({runtime})")
        ctx.exit()


def _version(distribution: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "(not installed)"


@click.group(
    cls=_LazyGroup, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--version",
    "-V",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the versions.",
)
def main() -> None:
    """fusionc makes ONNX models faster on CPUs and verifies every result in onnxruntime.

    `fusionc in.onnx out.onnx` is short for `fusionc convert in.onnx out.onnx`.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # a name in a model may contain any character
        sys.stdout.reconfigure(errors="backslashreplace")
        sys.stdout = BrokenPipeSafeStream(sys.stdout)
