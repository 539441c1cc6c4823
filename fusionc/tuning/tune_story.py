"""`fusionc tune` as a story: what could be changed → search → confirmation → the model and its settings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import onnx

from fusionc import __version__, conversion
from fusionc.bisection.changed_switches import changed_switches
from fusionc.custom.loading import load_passes
from fusionc.disk.load import load
from fusionc.disk.places import cannot_be_written, require_place, workshop
from fusionc.disk.small_files import replace_text
from fusionc.errors import FusioncError
from fusionc.job import running
from fusionc.options import Options
from fusionc.passes import PASSES
from fusionc.ready.machine import this_machine
from fusionc.ready.session_file import content_of, require_session_place, session_file_of
from fusionc.ready.tuned_settings import processors, tuned_text
from fusionc.report import Report
from fusionc.report.model_info import bytes_on_disk
from fusionc.requested.dimension_size import size_to_run
from fusionc.runtime.process import start
from fusionc.runtime.run_errors import RunError
from fusionc.runtime.runner import closes_runners
from fusionc.switches import preset
from fusionc.tuning.candidates import Group, groups_of
from fusionc.tuning.configuration import Configuration, TunedChange, with_all
from fusionc.tuning.confirmation import LEAST_ROUNDS, MOST_ROUNDS, Confirmation, confirmed
from fusionc.tuning.decisions import Worth
from fusionc.tuning.measuring_laboratory import MeasuringLaboratory, Slices
from fusionc.tuning.search_changes import search
from fusionc.tuning.tuning_journal import TuningJournal
from fusionc.tuning.worth_plot import worth_plot
from fusionc.verify.first_sample import first_sample
from fusionc.verify.inputs.sample import Sample

_KERNELS = TunedChange("areas with kernels", "areas", kernels=True)
_FOR_KERNELS = 0.2  # of what may be wrong in all, for the one question whether there are areas
_SHARES_FOR_KERNELS = {"choose": 0.1, "test": 0.25}


@dataclass(frozen=True)
class Tuned:
    """What was found and written: each change with its worth, what the last run says, and the files.

    `label` describes the inputs, `configuration` is what was delivered, `report` that of its conversion. `settings` is
    None where those of onnxruntime hold.
    """

    label: str
    worths: Sequence[Worth]
    confirmation: Confirmation
    configuration: Configuration
    report: Report
    switches: Path
    settings: Path | None
    plot: Path
    seconds: float
    confidence: float
    notices: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        """What was found as plain data: ratios, seconds, names."""
        last, compared = self.confirmation, {"default / original": self.confirmation.default}
        if last.against_default is not None:
            compared |= {"tuned / original": last.against_original, "tuned / default": last.against_default}
        return {
            "inputs": self.label,
            "changes": [self._change(worth) for worth in self.worths],
            "last_run": {"seconds": last.seconds, **{name: one.as_json() for name, one in compared.items()}},
            "delivered": last.delivered,
            "switches": str(self.switches),
            "settings": self.configuration.settings.as_json(),
            "areas_off": sorted(self.configuration.areas_off),
            "kernels": self.configuration.kernels,
            "output": str(self.report.output),
            "plot": str(self.plot),
            "seconds": self.seconds,
            "notices": list(self.notices),
        }

    def _change(self, worth: Worth) -> dict[str, Any]:
        interval = worth.interval(self.confidence)
        plain = {"change": worth.change.name, "state": worth.state, **({"why": worth.why} if worth.why else {})}
        return plain if interval is None else {**plain, **interval.as_json()}


def beside(output: Path, ending: str) -> Path:
    """A file of the tuning beside the model: out.onnx → out.<ending>."""
    return output.with_name(f"{output.name.removesuffix('.onnx')}.{ending}")


@closes_runners
def tune(options: Options, budget: float, confidence: float) -> Tuned:
    """Find what pays in so many seconds, and write the model with it, a switch file and the settings of its sessions.

    Raises VerificationError where the result does not compute what the model computes, FusioncError where the model
    cannot be run, UsageError as a conversion does.
    """
    start()
    output, notices = options.destination, list[str]()
    with running(replace(options, log="null")):
        require_place(output)
        require_session_place(output)
        options.progress("looking for inputs")
        sample = _sample(options)
        journal = TuningJournal(beside(output, "tune.jsonl"), _identity(options, confidence))
        if journal.is_continued:
            notices.append("a run that was interrupted was continued")
        with workshop(output.parent) as folder:
            laboratory = MeasuringLaboratory(options, sample.feeds, journal, folder, budget)
            try:
                worths, tuned = _searched(options, laboratory, confidence)
                last = _confirmed(options, laboratory, _default(options), tuned, confidence)
            except RunError as error:
                hint = "fusionc verify says more of a model that cannot be run"
                what = f"onnxruntime cannot run the model: {error}"
                raise FusioncError(what, where=str(options.source), hint=hint) from error
    chosen = {"tuned": tuned, "default": _default(options), "original": Configuration(is_original=True)}
    delivered = chosen[last.delivered]
    report = _delivered(options, delivered)  # where no folder of this run keeps older files from being removed
    ordered = sorted(worths.values(), key=_importance)
    switches, settings, plot = _written(options, delivered, ordered, last, confidence)
    journal.remove()
    notices += report.notices
    return Tuned(
        sample.label, ordered, last, delivered, report, switches, settings, plot, journal.spent, confidence, notices
    )


def _importance(worth: Worth) -> tuple[bool, float]:
    """What pays first, then what seems to pay most."""
    return worth.state != "pays", fmean(worth.logarithms) if worth.logarithms else inf


def _default(options: Options) -> Configuration:
    return Configuration(kernels=bool(options.enable_graph_kernel))


def _sample(options: Options) -> Sample:
    model = load(options.source)
    asked = options.input_shape or {}
    shapes = {name: tuple(map(size_to_run, sizes)) for name, sizes in asked.items() if -1 not in sizes}
    try:
        return first_sample(options.source, model, {**shapes, **(options.verify_shape or {})}, options.inputs)
    except RunError as error:
        hint = "give values with --inputs, or sizes with --verify_shape"
        what = f"there are no inputs on which the model runs: {error}"
        raise FusioncError(what, where=str(options.source), hint=hint) from error


def _identity(options: Options, confidence: float) -> str:
    """What a journal is about: the same model, options and machine."""
    asked = {name: str(value) for name, value in vars(options).items() if name != "progress"}
    files = [options.fusion_switch_file, *options.custom_passes]
    contents = [content_of(path) for path in (options.source, *files) if path is not None and path.is_file()]
    size = bytes_on_disk(onnx.load(options.source, load_external_data=False), options.source)
    parts = [__version__, confidence, asked, contents, size, this_machine(), processors()]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _searched(
    options: Options, laboratory: MeasuringLaboratory, confidence: float
) -> tuple[dict[str, Worth], Configuration]:
    """The worth of every change, and the defaults with those that pay."""
    base, worths, shares = _default(options), dict[str, Worth](), laboratory.shares
    if options.enable_graph_kernel is None and options.target == "onnxruntime-cpu":
        options.progress("areas with kernels")
        laboratory.shares = _SHARES_FOR_KERNELS
        worths = search(base, [Group(_KERNELS)], laboratory, 1 - (1 - confidence) * _FOR_KERNELS)
        base = with_all(_paying(worths), base)
        laboratory.shares = shares
    options.progress("what could be changed")
    groups = groups_of(laboratory.facts(base), _threads())
    options.progress("measuring")
    found = search(base, groups, laboratory, 1 - (1 - confidence) * (1 - _FOR_KERNELS))
    return {**worths, **found}, with_all(_paying(found), base)


def _paying(worths: Mapping[str, Worth]) -> list[TunedChange]:
    return [worth.change for worth in worths.values() if worth.state == "pays"]


def _threads() -> list[int]:
    """Numbers of threads to try: onnxruntime itself takes the number of cores."""
    count = processors()
    return [number for number in dict.fromkeys((1, count // 2, count)) if number]


def _confirmed(
    options: Options,
    laboratory: MeasuringLaboratory,
    default: Configuration,
    tuned: Configuration,
    confidence: float,
) -> Confirmation:
    """Rounds of the last run, as long as there is time, and a few where there is none."""
    forms = {"original": Configuration(is_original=True), "default": default}
    if tuned != default:
        forms["tuned"] = tuned
    rounds: list[Slices] = []
    while len(rounds) < LEAST_ROUNDS or (len(rounds) < MOST_ROUNDS and laboratory.journal.spent < laboratory.budget):
        options.progress(f"last run, round {len(rounds) + 1}")
        rounds.append(laboratory.round(f"last {len(rounds)}", forms, len(rounds)))
    return confirmed(rounds, confidence)


def _delivered(options: Options, delivered: Configuration) -> Report:
    """Convert to what was found, verified as every conversion; the original has every pass off."""
    if not delivered.is_original:
        return conversion.convert(delivered.options(options, options.destination))
    with TemporaryDirectory() as folder:
        switches = Path(folder, "switches.json")
        switches.write_text(preset("all_off", PASSES), encoding="utf-8")
        plain = replace(options, fusion_switch_file=switches, optimization_switch=None, enable_graph_kernel=False)
        return conversion.convert(plain)


def _written(
    options: Options, delivered: Configuration, worths: Sequence[Worth], last: Confirmation, confidence: float
) -> tuple[Path, Path | None, Path]:
    """The switch file, the session file where there are settings other than onnxruntime's, and the plot."""
    output, registry = options.destination, load_passes(options.custom_passes)
    by_name = {p.name: p for p in registry}
    switches, plot, session = beside(output, "switches.json"), beside(output, "tune.svg"), None
    if delivered.is_original:
        text = preset("all_off", registry)
    else:
        off, on = ([by_name[name] for name in sorted(names)] for names in (delivered.off, delivered.on))
        text = changed_switches(options.fusion_switch_file, registry, off, on)
    try:
        replace_text(switches, text)
        replace_text(plot, worth_plot(options.source.name, worths, last, confidence))
        if delivered.settings != Configuration().settings:
            session = session_file_of(output)
            replace_text(session, tuned_text(output, delivered.settings))
    except OSError as error:
        raise cannot_be_written(error, output) from error
    return switches, session, plot
