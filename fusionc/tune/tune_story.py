"""`fusionc tune` from start to finish: find possible changes, search for those that make the model
faster, confirm them in a last run, and write the model and its settings.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusionc.attempt.asked_model import AskedModel
from fusionc.attempt.conversion_plan import float32_plan_of
from fusionc.attempt.running import running
from fusionc.attempt.surroundings import surroundings
from fusionc.disk.ingredients import ingredients
from fusionc.disk.places import require_place, workshop
from fusionc.errors import FusioncError, UsageError
from fusionc.graph_kernel.flags.file_of_flags import VARIABLE
from fusionc.graph_kernel.flags.read_flags import read_flags
from fusionc.options import Options
from fusionc.options.option_table import PLACES
from fusionc.ready_form.machine import this_machine
from fusionc.ready_form.session_file import (
    lost_settings_notices,
    require_session_place,
    session_file_of,
)
from fusionc.report import Report
from fusionc.runtime.cores import cores
from fusionc.runtime.process import start
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import closes_runners
from fusionc.tune.candidates import Group, groups_of
from fusionc.tune.configuration import Configuration, TunedChange, apply_all
from fusionc.tune.confirmation import MOST_ROUNDS, Confirmation, confirmation_of, least_rounds
from fusionc.tune.convert_again import command_to_convert
from fusionc.tune.convert_to import convert_to
from fusionc.tune.decisions import (
    Worth,
    is_untested,
    most_promising_changes,
    noise_of,
    paying_changes,
    sorted_by_worth,
)
from fusionc.tune.deliver import companion_file, require_places, write_files
from fusionc.tune.measuring_laboratory import MeasuringLaboratory, Slices
from fusionc.tune.search_changes import search
from fusionc.tune.tuned import Tuned
from fusionc.tune.tuning_journal import TuningJournal
from fusionc.verify.first_sample import first_sample

_KERNELS = TunedChange("areas with kernels", "areas", kernels=True)
# The decision about kernels gets this share of the allowed probability of a wrong decision.
_PART_FOR_KERNELS = 0.2
_BUSY_NOISE = 0.03  # with more noise than this, the machine counts as busy
# In the decision about kernels, each stage ends when this part of the budget is used up.
_SHARES_FOR_KERNELS = {"settings": 0.0, "choose": 0.1, "test": 0.45}
_Sizes = Mapping[str, tuple[int, ...]] | None  # the sizes of inputs, by name


@closes_runners
def tune(options: Options, budget: float, confidence: float) -> Tuned:
    """Find changes that make the model faster. Write the model with these changes, a switch file
    and the session settings. Measuring takes about `budget` seconds, and in any case the least
    number of rounds of the last run.

    Raises VerificationError if the result does not compute the same as the model. Raises
    FusioncError if the model cannot be run. Raises UsageError in the same cases as a conversion,
    and if the budget or the confidence is out of range.
    """
    _require_usable(options, budget, confidence)
    _require_flags_to_change(options)
    start()
    output = options.destination
    default = _default(options)
    with running(replace(options, log="null")) as plog:
        plan = float32_plan_of(options, plog, "tune")  # raises for wrong options
        require_place(output)
        require_session_place(output)
        require_places(options)
        options.progress("looking for inputs")
        label, feeds, sizes = _sample(AskedModel(plan))
        journal = TuningJournal(
            companion_file(output, "tune.jsonl"), _identity(options, confidence)
        )
        with workshop(output.parent) as folder:
            laboratory = MeasuringLaboratory(options, feeds, journal, folder, budget)
            try:
                worths, tuned = _search(options, laboratory, confidence)
                changes, tuned = _last_candidates(worths, tuned, laboratory, sizes, confidence)
                noise = noise_of(worths.values())
                last = _last_run(options, laboratory, default, tuned, noise, confidence)
            except RunError as error:
                hint = "to learn more about a model that cannot be run, use fusionc verify"
                what = f"onnxruntime cannot run the model: {error}"
                raise FusioncError(what, where=str(options.source), hint=hint) from error
    forms = {"tuned": tuned, "default": default, "original": Configuration(is_original=True)}
    delivered = forms[last.delivered]
    outdated = lost_settings_notices(session_file_of(output))
    # Convert only now, when the workshop is closed: while its folder exists, a conversion does not
    # remove files of older results.
    report = convert_to(options, delivered)
    ordered = sorted_by_worth(list(worths.values()))
    switches, settings, plot = write_files(options, delivered, ordered, last, confidence)
    journal.remove()
    notices = _notices(journal.is_continued, ordered, last, report, budget)
    # For the original, all passes are off, and the notices of its conversion say only this.
    if not delivered.is_original:
        notices += [notice for notice in report.notices if notice not in outdated]
    return Tuned(
        label=label,
        worths=ordered,
        confirmation=last,
        configuration=delivered,
        report=report,
        switches=switches,
        settings=settings,
        plot=plot,
        changes=[change.name for change in changes] if last.delivered == "tuned" else [],
        again=command_to_convert(options, delivered, switches),
        seconds=journal.spent,
        confidence=confidence,
        notices=notices,
    )


def _require_usable(options: Options, budget: float, confidence: float) -> None:
    """Raise UsageError if a tuning cannot use these arguments."""
    if not 0 < budget < math.inf:
        what = f"the budget must be a positive number of seconds, not {budget:g}"
        hint = "for a model that runs for some milliseconds, give 120"
        raise UsageError(what, where="budget", hint=hint, code="E10001")
    if not 0.5 <= confidence < 1:
        what = f"the confidence must be at least 0.5 and below 1, not {confidence:g}"
        hint = "give 0.95"
        raise UsageError(what, where="confidence", hint=hint, code="E10001")
    if options.ready:
        hint = "convert with --ready and the switch file that the tuning writes"
        what = "a tuning does not write a ready form"
        raise UsageError(what, where="ready", hint=hint, code="E10001")


def _notices(
    is_continued: bool,
    worths: Sequence[Worth],
    last: Confirmation,
    report: Report,
    budget: float,
) -> list[str]:
    notices = ["an interrupted run was continued"] if is_continued else []
    undecided = sum(worth.state == "not measured" or is_untested(worth) for worth in worths)
    if undecided:
        what = f"{undecided} of {len(worths)} changes were not measured"
        what += ", or seemed to pay but were not tested"
        notices.append(f"{what}, because {budget:g} s are too few; give a larger --budget")
    if last.noise > _BUSY_NOISE:
        what = "the machine was busy: from process to process"
        what += f", the same ratio differed by {100 * last.noise:.0f} %"
        notices.append(f"{what}; on an idle machine, more changes can be decided")
    if report.left_out:
        what = f"{report.left_out} rewrites were left out of the model that was written"
        what += ", but not of the measured model, so the time of the written model may differ"
        notices.append(f"{what}; switch the passes of these rewrites off, and tune again")
    return notices


def _require_flags_to_change(options: Options) -> None:
    """Raise UsageError if the flags of graph kernel fusion come from an environment variable or a
    file, because a tuning cannot add flags there.
    """
    if os.environ.get(VARIABLE) is not None:
        what = f"the environment variable {VARIABLE} is set"
        hint = "give its flags with --graph_kernel_flags"
    elif "--path=" in (options.graph_kernel_flags or ""):
        what = "--graph_kernel_flags names a file"
        hint = "give the contents of the file as flags"
    else:
        return
    what = f"{what}: a tuning could not switch single areas off"
    raise UsageError(what, where="graph_kernel_flags", hint=hint, code="E10001")


def _default(options: Options) -> Configuration:
    read = read_flags(options.graph_kernel_flags, is_enabled=options.enable_graph_kernel)
    return Configuration(kernels=read.flags.is_on)


def _sample(model: AskedModel) -> tuple[str, dict[str, Any], _Sizes]:
    """The inputs for measuring: a description, their values by name, and their sizes by name."""
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
    """A hash of the model, the options and the machine, by which the journal identifies a
    tuning.
    """
    wanted = {
        name: value for name, value in vars(options).items() if name not in ("progress", "source")
    }
    here = {
        **surroundings(options.graph_kernel_flags, options.custom_passes),
        "machine": this_machine(),
        "processors": cores(),
    }
    return ingredients(options.source, {**wanted, **here, "confidence": confidence}, PLACES)


def _search(
    options: Options, laboratory: MeasuringLaboratory, confidence: float
) -> tuple[dict[str, Worth], Configuration]:
    """Find out what every change is worth. Return this, and the default configuration with all
    changes that pay.
    """
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
        worths = search(
            base, [Group(_KERNELS)], laboratory, 1 - (1 - confidence) * _PART_FOR_KERNELS
        )
        base = apply_all(paying_changes(worths.values()), base)
        remaining = 1 - laboratory.journal.spent / laboratory.budget
        laboratory.shares = {stage: 1 - remaining * (1 - share) for stage, share in shares.items()}
    options.progress("what could be changed")
    groups = groups_of(laboratory.facts(base), _threads())
    options.progress("measuring")
    others = search(base, groups, laboratory, 1 - (1 - confidence) * (1 - _PART_FOR_KERNELS))
    return {**worths, **others}, apply_all(paying_changes(others.values()), base)


def _last_candidates(
    worths: dict[str, Worth],
    tuned: Configuration,
    laboratory: MeasuringLaboratory,
    sizes: _Sizes,
    confidence: float,
) -> tuple[list[TunedChange], Configuration]:
    """The changes that the last run is to confirm, and the default configuration with these
    changes. A change that makes outputs wrong counts as a failure, and is left out.
    """
    default = _default(laboratory.options)
    changes = paying_changes(worths.values())
    while True:
        if tuned == default:  # no change pays with confidence; the last run may try one
            changes = most_promising_changes(worths.values(), confidence)
            tuned = apply_all(changes, default)
        wrong = _wrong_changes(changes, tuned, laboratory, sizes)
        if not wrong:
            return changes, tuned
        for change, why in wrong:
            worths[change.name].state = "fails"
            worths[change.name].why = why
        changes = [change for change in changes if worths[change.name].state != "fails"]
        tuned = _restrict_optimizers(tuned, changes)


def _wrong_changes(
    changes: Sequence[TunedChange],
    tuned: Configuration,
    laboratory: MeasuringLaboratory,
    sizes: _Sizes,
) -> list[tuple[TunedChange, str]]:
    """The changes that switch off optimizers and thereby make outputs wrong, each with a
    description. If only a combination of changes does so, the one of them that pays least is
    returned.
    """
    off = [change for change in changes if change.optimizers_off]
    why = laboratory.changed_answers(tuned, sizes) if off and laboratory.options.verify else ""
    if not why:
        return []
    alone = [
        (one, laboratory.changed_answers(_restrict_optimizers(tuned, [one]), sizes)) for one in off
    ]
    wrong = [(one, answers) for one, answers in alone if answers]
    return wrong or [(off[-1], f"with the others off {why}")]


def _restrict_optimizers(tuned: Configuration, changes: Sequence[TunedChange]) -> Configuration:
    """The same configuration, in which only those optimizers are off that these changes switch
    off.
    """
    names = tuple(dict.fromkeys(name for change in changes for name in change.optimizers_off))
    return replace(tuned, settings=replace(tuned.settings, disabled_optimizers=names))


def _threads() -> list[int]:
    """The numbers of threads to try, down to one. onnxruntime's default is the number of cores."""
    count = cores()
    return [number for number in dict.fromkeys((1, count // 2, count)) if number]


def _last_run(
    options: Options,
    laboratory: MeasuringLaboratory,
    default: Configuration,
    tuned: Configuration,
    noise: float,
    confidence: float,
) -> Confirmation:
    """Measure the rounds of the last run: as many as necessary, and more while the budget lasts."""
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
    return confirmation_of(rounds, confidence)
