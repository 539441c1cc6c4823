"""The laboratory of a search, on a real machine: it converts the model to configurations, and
measures the results in fresh processes.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import onnx

from fusionc.bench.deployed_model import DeployedModel
from fusionc.bench.intervals import log_ratio
from fusionc.bench.rounds import measure_round
from fusionc.bench.what_runs import WhatRuns, what_runs
from fusionc.errors import FusioncError
from fusionc.graph_kernel.library.location import library_of
from fusionc.options import Options
from fusionc.report import Report
from fusionc.report.model_info import bytes_on_disk
from fusionc.runtime.process import insist
from fusionc.runtime.run_errors import RunError
from fusionc.tune.candidates import Facts
from fusionc.tune.changed_answers import changed_answers
from fusionc.tune.configuration import Configuration
from fusionc.tune.convert_to import convert_to
from fusionc.tune.effects import effects
from fusionc.tune.search_changes import Stage
from fusionc.tune.tuning_journal import TuningJournal

# form → for each slice of a round, a list with one element: the median of the slice's runs
Slices = dict[str, list[list[float]]]
# A round should have this many runs of each model, and take a time between these limits, in
# seconds.
_RUNS_PER_ROUND = 10
_MIN_SECONDS = 0.3
_MAX_SECONDS = 2.0
_CHOOSING_PART = 0.5  # the time of a round before the choice / the time of a round of a test
_MAX_BATCH = 4  # the most models that are measured together, apart from the base
_MAX_BYTES = 2 << 30  # the total size up to which converted models are kept for further rounds


@dataclass
class MeasuringLaboratory:
    """Measures configurations. Measurements that the journal already has are not repeated."""

    options: Options  # the options of the conversion
    feeds: Mapping[str, Any]  # name of an input → its value
    journal: TuningJournal
    workshop: Path  # the folder for converted models
    budget: float  # seconds for measuring
    # stage → the part of the budget after which it ends
    shares: dict[str, float] = field(
        default_factory=lambda: {"settings": 0.35, "choose": 0.55, "test": 0.8}
    )
    # graph key → the kept model, in the order of their last use
    _models_by_key: dict[str, Path] = field(default_factory=dict)
    _in_use: set[str] = field(default_factory=set)  # the graph keys of the current round
    _runs: dict[str, WhatRuns] = field(default_factory=dict)  # by the key of the configuration
    _seconds: float = 0.0  # the time of each model in a round of a test; 0 if unknown yet

    @cached_property
    def batch_size(self) -> int:
        """The number of changed models that are measured together with the base. It is small if the
        model is large, because each one needs disk space and memory.
        """
        size = bytes_on_disk(
            onnx.load(self.options.source, load_external_data=False), self.options.source
        )
        return max(1, min(_MAX_BATCH, _MAX_BYTES // max(1, size) - 1))

    def has_time(self, stage: Stage) -> bool:
        """Whether the stage has time left: the part of the budget after which it ends is not used
        up.
        """
        return self.journal.spent < self.budget * self.shares[stage]

    def facts(self, base: Configuration) -> Facts:
        """The parts of the conversion to `base` that have an effect, and passes that could have
        one.
        """
        return Facts(**self.journal.step(f"facts of {base.key()}", lambda: self._facts(base)))

    def compare(self, base: Configuration, other: Configuration) -> str:
        """See `search_changes.Laboratory`."""
        if other.graph_key() == base.graph_key():
            return "different"  # if only the settings differ, this always counts as a difference
        return str(
            self.journal.step(
                f"compare {base.key()} {other.key()}", lambda: self._compare(base, other)
            )
        )

    def observe(
        self, stage: Stage, base: Configuration, others: Mapping[str, Configuration], number: int
    ) -> dict[str, float | str]:
        """See `search_changes.Laboratory`. If a round of several models fails, each model is
        measured with the base in a separate round.
        """
        self.options.progress(
            f"measuring {', '.join(others)} ({self.journal.spent:.0f} of {self.budget:.0f} s)"
        )
        part = 1.0 if stage == "test" else _CHOOSING_PART
        name = _name(f"{stage} {number}", {"base": base, **others})
        logarithms: dict[str, float | str] = self.journal.step(
            name, lambda: self._observe(base, others, number, part)
        )
        return logarithms

    def round(self, name: str, forms: Mapping[str, Configuration], number: int) -> Slices:
        """A round that takes the full time: for each form its slices. Raises RunError if a form
        cannot run.
        """
        slices: Slices = self.journal.step(
            _name(name, forms), lambda: self._round(forms, number, 1.0)
        )
        return slices

    def changed_answers(
        self, form: Configuration, shapes: Mapping[str, tuple[int, ...]] | None
    ) -> str:
        """The result of `changed_answers.changed_answers` for a configuration and these input
        sizes. The time for this does not count as measuring time.
        """
        self.options.progress(f"checking the answers: {form.settings}")

        def compute() -> str:
            return changed_answers(
                self._model(form), shapes, self.options.inputs, self.options.progress
            )

        return str(self.journal.step(f"answers of {form.key()}", compute, is_measuring=False))

    def _observe(
        self, base: Configuration, others: Mapping[str, Configuration], number: int, part: float
    ) -> dict[str, float | str]:
        try:
            slices = insist(lambda: self._round({"base": base, **others}, number, part))
        except RunError as error:
            if len(others) == 1:
                self._round({"base": base}, number, part)  # raises if the base itself fails
                return dict.fromkeys(others, f"it cannot be run: {error}")
            alone = [
                self._observe(base, {name: other}, number, part) for name, other in others.items()
            ]
            return {name: what for one in alone for name, what in one.items()}
        return {name: log_ratio(slices[name], slices["base"]) for name in others}

    def _round(self, forms: Mapping[str, Configuration], number: int, part: float) -> Slices:
        models = self._models(forms)
        if not self._seconds:
            first = next(iter(models))
            trial = measure_round({first: models[first]}, {first: self.feeds}, _MIN_SECONDS, 0)[
                first
            ]
            self._seconds = min(
                _MAX_SECONDS, max(_MIN_SECONDS, _RUNS_PER_ROUND * median(trial.runs))
            )
        feeds = dict.fromkeys(models, self.feeds)
        measured = measure_round(models, feeds, part * self._seconds, number)
        return {name: [[median(runs)] for runs in one.slices] for name, one in measured.items()}

    def _models(self, forms: Mapping[str, Configuration]) -> dict[str, DeployedModel]:
        """The model of each configuration. A model that is not kept is converted."""
        self._in_use = {form.graph_key() for form in forms.values()}
        models = {name: self._model(form) for name, form in forms.items()}
        self._remove_unused()
        return models

    def _model(self, form: Configuration) -> DeployedModel:
        key = form.graph_key()
        file = self._models_by_key.pop(key, None) or self._new_model(form)
        self._models_by_key[key] = file
        library = library_of(file)
        return DeployedModel(file, library if library.is_file() else None, form.settings)

    def _new_model(self, form: Configuration) -> Path:
        folder = self.workshop / form.graph_key()
        folder.mkdir(exist_ok=True)
        self._convert(form, folder / "model.onnx")
        return folder / "model.onnx"

    def _convert(self, form: Configuration, file: Path) -> Report:
        quick = replace(
            self.options,
            verify=False,
            check_rewrites=False,
            export_compile_stat=0,
            log="null",
            report=None,
        )
        return convert_to(
            replace(quick, destination=file, dump_graph=None, progress=lambda _: None), form
        )

    def _remove_unused(self) -> None:
        """Remove the models that were unused for longest, until the others fit the size limit.
        Models that are in use stay.
        """
        for key in [key for key in self._models_by_key if key not in self._in_use]:
            files = [
                file for path in self._models_by_key.values() for file in path.parent.iterdir()
            ]
            if sum(file.stat().st_size for file in files) < _MAX_BYTES:
                return
            shutil.rmtree(self._models_by_key.pop(key).parent)

    def _what_runs(self, form: Configuration) -> WhatRuns:
        key = form.key()
        if key not in self._runs:
            model = self._model(form)
            self._runs[key] = insist(lambda: what_runs(model))
        return self._runs[key]

    def _compare(self, base: Configuration, other: Configuration) -> str:
        try:
            models = self._models({"base": base, "other": other})
            if other.kernels and not base.kernels and models["other"].kernels is None:
                return "no area with a kernel is made"
            is_same = self._what_runs(base).operators == self._what_runs(other).operators
        except (FusioncError, RunError) as error:
            # a full disk says nothing about the configuration, and it may have space the next time
            if isinstance(error, FusioncError) and error.code == "E13004":
                raise
            return f"it cannot be made: {error.what if isinstance(error, FusioncError) else error}"
        finally:
            self._runs = {key: runs for key, runs in self._runs.items() if key == base.key()}
        return "same" if is_same else "different"

    def _facts(self, base: Configuration) -> dict[str, Any]:
        with TemporaryDirectory(dir=self.workshop) as folder:
            facts = effects(self.options, base, self._convert, Path(folder))
        return {**facts, "optimizers": list(self._what_runs(base).optimizers)}


def _name(round_: str, forms: Mapping[str, Configuration]) -> str:
    """The name of a round in the journal."""
    keys = " ".join(form.key() for form in forms.values())
    return f"round {round_} {hashlib.sha256(keys.encode()).hexdigest()[:16]}"
