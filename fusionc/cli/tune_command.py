"""`fusionc tune`: find by measurement which changes make a model faster on this machine."""

from __future__ import annotations

import json
import math
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fusionc.cli.atc_spelling import AtcCommand
from fusionc.cli.common_options import confidence_option, is_quiet, quiet_option
from fusionc.cli.conversion_options import SEARCH, conversion_arguments, conversion_options
from fusionc.cli.exit_codes import end_unverified
from fusionc.cli.signals import hold_signals
from fusionc.cli.table_options import click_option
from fusionc.errors import Terminated

if TYPE_CHECKING:
    from fusionc.bench.intervals import RatioInterval
    from fusionc.tune.decisions import Worth
    from fusionc.tune.tuned import Tuned

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_FORMS = {
    "tuned": "the tuned model",
    "default": "the model at the defaults",
    "original": "the original's graph",
}
_EPILOG = """\b
Exit codes:
  0  the model is written in the fastest confirmed form: tuned, with the defaults, or unoptimized
  1  the tuning failed; a journal keeps the measurements, and the same command continues from it
  2  an option or the switch file is wrong, or a file to read does not exist
  3  the result does not compute what the model computes; nothing was written
  4  the model is written, but nothing of it could be verified
  130  interrupted; a journal next to the output stays, and the same command continues from it"""


def _duration(ctx: click.Context, parameter: click.Parameter, text: str) -> float:
    """A click callback: "90", "90s", "5m" or "1h" in seconds, more than 0."""
    duration = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)\s*([smh]?)", text.strip())
    if duration is None or not float(duration[1]):
        raise click.BadParameter(f"{text!r} is not a duration like 90s, 5m or 1h.", ctx, parameter)
    return float(duration[1]) * _UNITS[duration[2]]


@click.command(
    cls=AtcCommand,
    epilog=_EPILOG,
    positional=("--model", "--output"),
    short_help="Find by measurement what makes a model fast here.",
)
@click_option("source", "The ONNX model to tune.", required=True, is_eager=True)
@click_option("destination")
@click.option(
    "--budget",
    metavar="TIME",
    default="5m",
    show_default=True,
    callback=_duration,
    help="How long to measure: 90s, 5m, 1h. tune takes additional time for three things: the last "
    "run, if the machine is busy; the check that outputs stay the same when optimizers of "
    "onnxruntime are switched off; and the final conversion with its verification.",
)
@confidence_option("The confidence that every delivered change makes the model faster.")
@click.option("--json", "as_json", is_flag=True, help="All results as JSON on stdout.")
@quiet_option
@conversion_options(*SEARCH)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: Path,
    output: Path | None,
    budget: float,
    confidence: float,
    as_json: bool,
    **given: Any,
) -> None:
    """Measure which changes make this model faster on this machine with these input sizes. A change
    switches passes, generated kernels, onnxruntime's own optimizers, or session settings. A change
    is made only if the measurements prove that it helps.

    Each change is measured in alternation with the defaults, in fresh processes: first groups of
    changes, then single changes. A change that seems to help is tested again in new processes. A
    separate last run compares the tuned model with the model at the defaults and with the
    original. The tuned model is written only if this run confirms that it is faster; otherwise tune
    writes the model at the defaults or unoptimized. Next to the model, tune writes
    <output>.switches.json for convert, <output>.session.json for fusionc.session, and the plot
    <output>.tune.svg. --inputs or --verify_shape give the values and sizes of the inputs; the other
    options are those of convert.
    """
    arguments = conversion_arguments(ctx, given)
    from fusionc.runtime.process import start

    start()  # the child process starts while this process imports modules
    with hold_signals():
        from fusionc.api import tune
    from fusionc.report.progress import Progress

    try:
        with Progress(is_quiet=is_quiet(ctx)) as progress:
            tuned = tune(
                model,
                budget=budget,
                confidence=confidence / 100,
                output=output,
                progress=progress,
                **arguments,
            )
    except (KeyboardInterrupt, Terminated):
        what = "the journal keeps the measurements; the same command continues from it"
        click.echo(f"fusionc: {what}", err=True)
        raise
    if as_json:
        click.echo(json.dumps(tuned.as_json(), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _show(tuned)
    if tuned.report.unverified:
        end_unverified(ctx, tuned.report.unverified)


def _show(tuned: Tuned) -> None:
    from fusionc.report.table import show_facts, show_table

    show_table(
        ["change", ">ratio", ">bounds", ">ms", ">%", "result"],
        [_row(w, tuned) for w in tuned.worths],
        sys.stdout,
    )
    click.echo()
    last = tuned.confirmation
    facts = [("inputs", tuned.label)]
    times = ", ".join(f"{form} {1e3 * seconds:.3f} ms" for form, seconds in last.seconds.items())
    facts.append(("last run", times))
    pairs = [("default / original", last.default)]
    if last.against_default is not None:
        pairs += [
            ("tuned / original", last.against_original),
            ("tuned / default", last.against_default),
        ]
    facts += [(name, str(one)) for name, one in pairs]
    facts.append(("delivered", _delivery(tuned)))
    facts += [("notice", notice) for notice in tuned.notices]
    facts.append(("output", str(tuned.report.output)))
    if tuned.report.kernels is not None:
        facts.append(("kernels", str(tuned.report.kernels)))
    facts.append(("switches", str(tuned.switches)))
    if tuned.settings is not None:
        facts.append(("settings", f"{tuned.settings}: {tuned.configuration.settings}"))
    again = shlex.join(tuned.again) + (
        "  # without the settings" if tuned.settings is not None else ""
    )
    facts += [("plot", str(tuned.plot)), ("again", again), ("time", f"{tuned.seconds:.0f} s")]
    show_facts(facts, sys.stdout)


def _row(worth: Worth, tuned: Tuned) -> list[str]:
    one = worth.interval(tuned.confidence)
    text = {"same": "onnxruntime runs the same operators", "fails": "left out"}.get(
        worth.state, worth.state
    )
    text = f"{text}: {worth.why}" if worth.why else text
    if one is None:
        return [worth.change.title, "", "", "", "", text]
    if worth.state == "undecided":
        text = (
            "confirmed by the last run" if tuned.is_delivered(worth) else _why_undecided(worth, one)
        )
    saved = one.ratio - 1
    bounds = f"{one.low:.3f} to {one.high:.3f}" if math.isfinite(one.high) else "too few rounds"
    return [
        worth.change.title,
        f"{one.ratio:.3f}",
        bounds,
        f"{1e3 * tuned.added_seconds(worth):+.3f}",
        f"{100 * saved:+.1f}",
        text,
    ]


def _why_undecided(worth: Worth, one: RatioInterval) -> str:
    """Why a change is undecided. If several changes are tested, each of them needs a higher
    confidence than the confidence of the bounds that the table shows.
    """
    if not worth.tested:
        return "undecided, not tested"
    return (
        "undecided, because several changes were tested"
        if one.is_faster or one.is_slower
        else "undecided"
    )


def _delivery(tuned: Tuned) -> str:
    form = tuned.confirmation.delivered
    if form == "original":
        seemed_to_pay = any(worth.state == "pays" for worth in tuned.worths)
        what = (
            "the changes that paid were not confirmed" if seemed_to_pay else "nothing was confirmed"
        )
        return f"{_FORMS[form]}: {what} by the last run"
    ratio = tuned.confirmation.ratio
    assert ratio is not None
    missed = (
        ", because the tuned model was not confirmed to be faster"
        if form == "default" and "tuned" in tuned.confirmation.seconds
        else ""
    )
    return f"{_FORMS[form]}, confirmed: {ratio.ratio:.3f} of the original's time{missed}"
