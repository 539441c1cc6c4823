"""The laboratory of a search on a real machine: converts to configurations, and measures them in fresh processes."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import onnx

from fusionc import conversion, passes
from fusionc.custom.loading import load_passes
from fusionc.errors import FusioncError
from fusionc.graph_kernel.library.location import library_of
from fusionc.measurement.deployed_model import DeployedModel
from fusionc.measurement.intervals import log_ratio
from fusionc.measurement.rounds import measure_round
from fusionc.measurement.what_runs import WhatRuns, what_runs
from fusionc.model.operators import KERNELS
from fusionc.options import Options
from fusionc.rewrite import Pass
from fusionc.runtime.process import insist
from fusionc.runtime.run_errors import RunError
from fusionc.switches import PassNames
from fusionc.switches.switch_file import read_option
from fusionc.tuning.candidates import Facts
from fusionc.tuning.configuration import Configuration
from fusionc.tuning.search_changes import Stage
from fusionc.tuning.tuning_journal import TuningJournal

Slices = dict[str, list[list[float]]]  # by form: the median run of each slice, each in a list of its own
_RUNS, _LEAST, _MOST = 10, 0.3, 2.0  # how many runs of a model a round should have, and its seconds at least and most
_CHOOSING = 0.5  # of that time, of rounds that choose what is tested
_MOST_BYTES = 2 << 30  # of results that are kept to be measured again
_OF_AREAS = "areas"  # the topic of passes that stand for areas, which have names of their own


@dataclass
class MeasuringLaboratory:
    """Measures results of the conversion `asked` on `feeds`, in the folder `workshop`, as far as `journal` does not
    know them. Of `budget`, in seconds, each stage may go on until its share is spent."""

    asked: Options
    feeds: Mapping[str, Any]
    journal: TuningJournal
    workshop: Path
    budget: float
    shares: dict[str, float] = field(default_factory=lambda: {"settings": 0.35, "choose": 0.55, "test": 0.8})
    _made: dict[str, Path] = field(default_factory=dict)  # by graph key; what was used last is at the end
    _in_use: set[str] = field(default_factory=set)
    _runs: dict[str, WhatRuns] = field(default_factory=dict)
    _seconds: float = 0.0

    def has_time(self, stage: Stage) -> bool:
        """Whether the share of a stage is not spent."""
        return self.journal.spent < self.budget * self.shares[stage]

    def facts(self, base: Configuration) -> Facts:
        """What takes effect in the conversion to `base`, and what else could."""
        found = self.journal.step(f"facts of {base.key()}", lambda: self._facts(base))
        return Facts(**found)

    def compared(self, base: Configuration, other: Configuration) -> str:
        """As `search_changes.Laboratory` has it."""
        if other.graph_key() == base.graph_key():
            return "different"  # in settings, of which each changes something
        return str(self.journal.step(f"compare {base.key()} {other.key()}", lambda: self._compared(base, other)))

    def observe(
        self, stage: Stage, base: Configuration, others: Mapping[str, Configuration], number: int
    ) -> dict[str, float]:
        """As `search_changes.Laboratory` has it. Where settings are equal, no threads spin: those of one would take
        time from the other, and from whatever else runs."""
        settings = {(one.settings.threads, one.settings.spinning, one.settings.arena) for one in others.values()}
        forms = {"base": base, **others}
        if settings == {(base.settings.threads, base.settings.spinning, base.settings.arena)}:
            forms = {
                name: replace(form, settings=replace(form.settings, spinning=False)) for name, form in forms.items()
            }
        found = self.round(f"{stage} {number}", forms, number, 1.0 if stage == "test" else _CHOOSING)
        return {name: log_ratio(found[name], found["base"]) for name in others}

    def round(self, name: str, forms: Mapping[str, Configuration], number: int, part: float = 1.0) -> Slices:
        """The slices of each form in a round that takes this part of the usual time."""
        keys = hashlib.sha256(" ".join(form.key() for form in forms.values()).encode()).hexdigest()[:16]
        found: Slices = self.journal.step(f"round {name} {keys}", lambda: self._round(forms, number, part))
        return found

    def _round(self, forms: Mapping[str, Configuration], number: int, part: float) -> Slices:
        models = self._models(forms)
        if not self._seconds:
            first = next(iter(models))
            measured = measure_round({first: models[first]}, {first: self.feeds}, _LEAST, 0)[first]
            self._seconds = min(_MOST, max(_LEAST, _RUNS * median(measured.runs)))
        found = measure_round(models, dict.fromkeys(models, self.feeds), part * self._seconds, number)
        return {name: [[median(part)] for part in one.slices] for name, one in found.items()}

    def _models(self, forms: Mapping[str, Configuration]) -> dict[str, DeployedModel]:
        """The model of each configuration; it is converted where that was not done, or was forgotten."""
        self._in_use = {form.graph_key() for form in forms.values()}
        models = {name: self._model(form) for name, form in forms.items()}
        self._forget()
        return models

    def _model(self, form: Configuration) -> DeployedModel:
        if form.is_original:
            return DeployedModel(self.asked.source, settings=form.settings)
        key = form.graph_key()
        file = self._made.pop(key, None) or self._converted(form)
        self._made[key] = file
        library = library_of(file)
        return DeployedModel(file, library if library.is_file() else None, form.settings)

    def _converted(self, form: Configuration) -> Path:
        folder = self.workshop / form.graph_key()
        folder.mkdir(exist_ok=True)
        self._convert(form, folder / "model.onnx")
        return folder / "model.onnx"

    def _convert(self, form: Configuration, file: Path) -> Any:
        options = form.options(self.asked, file)
        quick = replace(options, verify=False, check_rewrites=False, export_compile_stat=0, log="null", report=None)
        return conversion.convert(replace(quick, dump_graph=None, progress=lambda _: None))

    def _forget(self) -> None:
        """Remove results that were not used for longest where all together are too large, but none that is in use."""
        for key in [key for key in self._made if key not in self._in_use]:
            files = [file for path in self._made.values() for file in path.parent.iterdir()]
            if sum(file.stat().st_size for file in files) < _MOST_BYTES:
                return
            shutil.rmtree(self._made.pop(key).parent)

    def _what_runs(self, form: Configuration) -> WhatRuns:
        key = form.key()
        if key not in self._runs:
            model = self._model(form)
            self._runs[key] = insist(lambda: what_runs(model))
        return self._runs[key]

    def _compared(self, base: Configuration, other: Configuration) -> str:
        try:
            made = self._models({"base": base, "other": other})
            if other.kernels and not base.kernels and made["other"].kernels is None:
                return "no area with a kernel is made"
            is_same = self._what_runs(base).operators == self._what_runs(other).operators
        except (FusioncError, RunError) as error:
            return f"it cannot be made: {error.what if isinstance(error, FusioncError) else error}"
        finally:
            self._runs = {key: found for key, found in self._runs.items() if key == base.key()}
        return "same" if is_same else "different"

    def _facts(self, base: Configuration) -> dict[str, Any]:
        registry = {p.name: p for p in load_passes(self.asked.custom_passes)}
        scratch = self.workshop / "facts"
        scratch.mkdir(exist_ok=True)
        counts = self._convert(base, scratch / "model.onnx").patterns
        effective = dict.fromkeys(count.pass_name for count in counts if count.effected)
        model = onnx.load(scratch / "model.onnx", load_external_data=False)
        areas = [function.name for function in model.functions if function.domain == KERNELS]
        chosen = self._chosen_by_the_user(registry)
        topics = {name: _topic(p) for name, p in registry.items()}
        switchable = {
            name: topics[name]
            for name in effective
            if name in registry
            and name not in chosen
            and registry[name].default != "must"
            and not (areas and topics[name] == _OF_AREAS)
        }
        asleep = [name for name, p in registry.items() if p.default == "off" and p.numerics != "approximate"]
        asleep = [name for name in asleep if name not in effective and name not in chosen]
        awake = replace(base, on=frozenset(asleep))
        idle = {count.pass_name for count in self._convert(awake, scratch / "awake.onnx").patterns if count.effected}
        shutil.rmtree(scratch)
        optimizers = self._what_runs(base).optimizers
        return {
            "passes": switchable,
            "areas": areas,
            "idle": [name for name in asleep if name in idle],
            "optimizers": list(optimizers),
        }

    def _chosen_by_the_user(self, registry: Mapping[str, Pass]) -> set[str]:
        """The passes that --optimization_switch names: they stay as they are."""
        names, asked = PassNames(list(registry.values())), self.asked.optimization_switch
        entries = read_option(asked).entries if asked else []
        return {p.name for entry in entries for p in names.find(entry.key)}


def _topic(p: Pass) -> str:
    module = type(p).__module__
    return module.split(".")[-2] if module.startswith(passes.__name__) else "your own"
