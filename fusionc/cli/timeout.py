"""The option --timeout, for the commands that run onnxruntime."""

from __future__ import annotations

import click


def _seconds(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    try:
        seconds = 0.0 if text is None else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 1e9:
        raise click.BadParameter(f"{text!r} is no number of seconds from 0 to 1e9.", context, parameter)
    return None if text is None else seconds


timeout_option = click.option(
    "--timeout",
    callback=_seconds,
    metavar="SECONDS",
    help="How long one step of onnxruntime may take: loading a model, running it once. 0: as long as it likes. "
    "Default: 300.",
)
