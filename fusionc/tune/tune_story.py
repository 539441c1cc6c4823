"""`fusionc tune` as a story: what could be changed → search → confirmation → the model and its
settings.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusionc.attempt.asked_model import AskedModel
from fusionc.attempt.conversion_plan import plan_of
from fusionc.attempt.running import running
from fusionc.attempt.surroundings import surroundings
from fusionc.disk.ingredients import ingredients
from fusionc.disk.places import require_place, workshop
from fusionc.errors import FusioncError, UsageError
from fusionc.graph_kernel.flags.file_of_flags import VARIABLE
from fusionc.graph_kernel.flags.read_flags import read_flags
from fusionc.options import Options
from fusionc.ready_form.machine import this_machine
from fusionc.ready_form.session_file import of_lost_settings, require_session_place, session_file_of
from fusionc.runtime.cores import cores
from fusionc.runtime.process import start
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import closes_runners
from fusionc.tune.candidates import Group, groups_of
from fusionc.tune.configuration import Configuration, TunedChange, with_all
from fusionc.tune.confirmation import MOST_ROUNDS, Confirmation, confirmed, least_rounds
from fusionc.tune.convert_again import command_to_convert
from fusionc.tune.convert_to import converted
from fusionc.tune.decisions import (
    Worth,
    in_order,
    is_untested,
    most_promising,
    noise_of,
    that_pay,
)
from fusionc.tune.deliver import beside, require_places, written
from fusionc.tune.measuring_laboratory import MeasuringLaboratory, Slices
from fusionc.tune.search_changes import search
from fusionc.tune.tuned import Tuned
from fusionc.tune.tuning_journal import TuningJournal
from fusionc.verify.first_sample import first_sample

_KERNELS = TunedChange("areas with kernels", "areas", kernels=True)
_FOR_KERNELS = 0.2  # of what may be wrong in all, for the one question whether there are areas
# the options that are places of what is written, not read
_WRITTEN = ("destination", "dump_graph", "report")
_BUSY = 0.03  # of a ratio, by which processes differ, above which the machine is to blame
# what is decided early leaves the rest to others
_SHARES_FOR_KERNELS = {"settings": 0.0, "choose": 0.1, "test": 0.45}

_Sizes = Mapping[str, tuple[int, ...]] | None  # that were chosen for inputs, by name


@closes_runners
def tune(options: Options, budget: float, confidence: float) -> Tuned:
    """Find what pays in so many seconds, and write the model with it, a switch file and the
    settings of its sessions.

    Raises VerificationError where the result does not compute what the model computes, FusioncError
    where the model cannot be run, UsageError as a conversion does, or where there is no time.
    """
    if not 0 < budget < math.inf:
        hint = "give more than 0 seconds, 120 for a model of some milliseconds"
        raise UsageError(
            f"{budget:g} s are no time to measure", where="budget", hint=hint, code="E10001"
        )
    if not 0.5 <= confidence < 1:
        hint = "give 0.95, or more from 0.5 on and below 1"
        raise UsageError(
            f"{confidence:g} is no confidence", where="confidence", hint=hint, code="E10001"
        )
    if options.ready:
        hint = "convert with --ready and the switch file that the tuning writes"
        raise UsageError("a tuning makes no ready form", where="ready", hint=hint, code="E10001")
    _require_flags_to_change(options)
    start()
    output = options.destination
    notices = list[str]()
    with running(replace(options, log="null")) as plog:
        plan = plan_of(options, plog)  # which says what is wrong with options
        require_place(output)
        require_session_place(output)
        require_places(options)
        options.progress("looking for inputs")
        label, feeds, sizes = _sample(AskedModel(plan))
        journal = TuningJournal(beside(output, "tune.jsonl"), _identity(options, confidence))
        if journal.is_continued:
            notices.append("a run that was interrupted was continued")
        with workshop(output.parent) as folder:
            laboratory = MeasuringLaboratory(options, feeds, journal, folder, budget)
            try:
                worths, tuned = _searched(options, laboratory, confidence)
                changes, tuned = _for_the_last_run(
                    worths, tuned, laboratory, options, sizes, confidence
                )
                noise = noise_of(worths.values())
                last = _confirmed(options, laboratory, _default(options), tuned, noise, confidence)
            except RunError as error:
                hint = "fusionc verify says more of a model that cannot be run"
                what = f"onnxruntime cannot run the model: {error}"
                raise FusioncError(what, where=str(options.source), hint=hint) from error
    if left := sum(
        worth.state == "not measured" or is_untested(worth) for worth in worths.values()
    ):
        what = f"{left} of {len(worths)} changes were not measured, or seemed to pay and were not tested"
        notices.append(f"{what}: {budget:g} s are too few; a larger --budget decides more")
    if last.noise > _BUSY:
        what = f"the machine was busy: from process to process, the same ratio differed by {100 * last.noise:.0f} %"
        notices.append(f"{what}; on an idle one more is decided")
    chosen = {
        "tuned": tuned,
        "default": _default(options),
        "original": Configuration(is_original=True),
    }
    delivered = chosen[last.delivered]
    replaced = of_lost_settings(session_file_of(output))
    # where no folder of this run keeps older files from being removed
    report = converted(options, delivered)
    if report.left_out:
        what = f"{report.left_out} rewrites were left out of the model that was written, which was measured with them"
        notices.append(f"{what}: its time may be another; switch their passes off, and tune again")
    ordered = in_order(list(worths.values()))
    switches, settings, plot = written(options, delivered, ordered, last, confidence)
    journal.remove()
    said = [] if delivered.is_original else report.notices  # which are about switches of all passes
    # there are new ones, if any pay
    notices += [notice for notice in said if notice not in replaced]
    again = command_to_convert(options, delivered, switches)
    names = [change.name for change in changes] if last.delivered == "tuned" else []
    return Tuned(
        label, ordered, last, delivered, report, switches, settings, plot,
        names, again, journal.spent, confidence, notices,
    )  # fmt: skip


def _require_flags_to_change(options: Options) -> None:
    """Raise UsageError where flags of areas are read from where a tuning cannot add any."""
    if os.environ.get(VARIABLE) is not None:
        what = f"the environment variable {VARIABLE} is set"
        hint = "give its flags with --graph_kernel_flags"
    elif "--path=" in (options.graph_kernel_flags or ""):
        what = "--graph_kernel_flags names a file"
        hint = "give what it says as flags"
    else:
        return
    what = f"{what}: a tuning could not switch single areas off"
    raise UsageError(what, where="graph_kernel_flags", hint=hint, code="E10001")


def _default(options: Options) -> Configuration:
    read = read_flags(options.graph_kernel_flags, is_enabled=options.enable_graph_kernel)
    return Configuration(kernels=read.flags.is_on)


def _sample(model: AskedModel) -> tuple[str, dict[str, Any], _Sizes]:
    """What to call the sample that the asked model is measured on, its values, and the sizes that
    were chosen for inputs.
    """
    options = model.plan.options
    with model.reference(model.change(model.load())) as reference:
        try:
            sample = first_sample(reference.file, reference.sizes, options.inputs)
        except RunError as error:
            hint = "give values with --inputs, or sizes with --verify_shape"
            what = f"there are no inputs on which the model runs: {error}"
            raise FusioncError(what, where=str(options.source), hint=hint) from error
    feeds = {name: value for name, value in sample.feeds.items() if value is not None}
    return sample.label, feeds, reference.sizes


def _identity(options: Options, confidence: float) -> str:
    """What a journal is about: the same model, options and machine."""
    asked = {
        name: value for name, value in vars(options).items() if name not in ("progress", "source")
    }
    here = {
        **surroundings(options.graph_kernel_flags, options.custom_passes),
        "machine": this_machine(),
        "processors": cores(),
    }
    return ingredients(options.source, {**asked, **here, "confidence": confidence}, _WRITTEN)


def _searched(
    options: Options, laboratory: MeasuringLaboratory, confidence: float
) -> tuple[dict[str, Worth], Configuration]:
    """The worth of every change, and the defaults with those that pay."""
    base = _default(options)
    worths = dict[str, Worth]()
    shares = laboratory.shares
    if (
        options.enable_graph_kernel is None
        and not base.kernels
        and options.target == "onnxruntime-cpu"
    ):
        options.progress("areas with kernels")
        laboratory.shares = _SHARES_FOR_KERNELS
        worths = search(base, [Group(_KERNELS)], laboratory, 1 - (1 - confidence) * _FOR_KERNELS)
        base = with_all(that_pay(worths.values()), base)
        left = 1 - laboratory.journal.spent / laboratory.budget
        laboratory.shares = {stage: 1 - left * (1 - share) for stage, share in shares.items()}
    options.progress("what could be changed")
    groups = groups_of(laboratory.facts(base), _threads())
    options.progress("measuring")
    found = search(base, groups, laboratory, 1 - (1 - confidence) * (1 - _FOR_KERNELS))
    return {**worths, **found}, with_all(that_pay(found.values()), base)


def _for_the_last_run(
    worths: dict[str, Worth],
    tuned: Configuration,
    laboratory: MeasuringLaboratory,
    options: Options,
    sizes: _Sizes,
    confidence: float,
) -> tuple[list[TunedChange], Configuration]:
    """The changes to be confirmed, and the defaults with these. Those that change answers fail."""
    default = _default(options)
    changes = that_pay(worths.values())
    while True:
        if tuned == default:  # the last run decides by itself, whatever it is asked
            changes = most_promising(worths.values(), confidence)
            tuned = with_all(changes, default)
        wrong = _that_change_answers(changes, tuned, laboratory, options, sizes)
        if not wrong:
            return changes, tuned
        for change, why in wrong:
            worths[change.name].state = "fails"
            worths[change.name].why = why
        changes = [change for change in changes if worths[change.name].state != "fails"]
        tuned = _with_optimizers_off(tuned, changes)


def _that_change_answers(
    changes: Sequence[TunedChange],
    tuned: Configuration,
    laboratory: MeasuringLaboratory,
    options: Options,
    sizes: _Sizes,
) -> list[tuple[TunedChange, str]]:
    """Which of the changes, that switch optimizers off, change answers by that, and how; the one
    that pays least where none does alone, and they do together.
    """
    off = [change for change in changes if change.optimizers_off]
    why = laboratory.changed_answers(tuned, sizes) if off and options.verify else ""
    if not why:
        return []
    alone = [
        (one, laboratory.changed_answers(_with_optimizers_off(tuned, [one]), sizes)) for one in off
    ]
    return [(one, found) for one, found in alone if found] or [
        (off[-1], f"with the others off {why}")
    ]


def _with_optimizers_off(tuned: Configuration, changes: Sequence[TunedChange]) -> Configuration:
    """The same, but of optimizers only those off that these changes switch off."""
    names = tuple(dict.fromkeys(name for change in changes for name in change.optimizers_off))
    return replace(tuned, settings=replace(tuned.settings, disabled_optimizers=names))


def _threads() -> list[int]:
    """Numbers of threads to try: onnxruntime itself takes the number of cores."""
    count = cores()
    return [number for number in dict.fromkeys((1, count // 2, count)) if number]


def _confirmed(
    options: Options,
    laboratory: MeasuringLaboratory,
    default: Configuration,
    tuned: Configuration,
    noise: float,
    confidence: float,
) -> Confirmation:
    """Rounds of the last run, as long as there is time, and those that are needed where there is
    none.
    """
    forms = {"original": Configuration(is_original=True), "default": default}
    if tuned != default:
        forms["tuned"] = tuned
    rounds: list[Slices] = []
    least = least_rounds(noise, confidence)
    while len(rounds) < least or (
        len(rounds) < MOST_ROUNDS and laboratory.journal.spent < laboratory.budget
    ):
        options.progress(f"last run, round {len(rounds) + 1} of {least} to {MOST_ROUNDS}")
        rounds.append(laboratory.round(f"last {len(rounds)}", forms, len(rounds)))
    return confirmed(rounds, confidence)
