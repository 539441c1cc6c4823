"""The option --timeout, for the commands that run onnxruntime."""

from __future__ import annotations

import click

timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0, max=1e9),
    metavar="SECONDS",
    help="How long one step of onnxruntime may take: loading a model, running it once. 0: as long as it likes. "
    "Default: 300.",
)
