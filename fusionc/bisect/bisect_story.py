"""`fusionc bisect` from start to finish: convert, find the rewrites at fault (culprits), and write
a small model for each of them and a switch file that avoids all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from fusionc.attempt.asked_model import AskedModel
from fusionc.attempt.attempt import LeftOut, attempt
from fusionc.attempt.conversion_plan import ConversionPlan, float32_plan_of
from fusionc.attempt.running import running
from fusionc.bisect.changed_switches import changed_switches, named_by_option
from fusionc.bisect.find_culprits import Culprit, culprits
from fusionc.bisect.findings_folder import FindingsFolder
from fusionc.bisect.judges import Checking, Verifying
from fusionc.bisect.minimal_model import MinimalModel, minimal_model
from fusionc.bisect.trials import Trials
from fusionc.bisect.write_result import write_result
from fusionc.custom.loading import load_passes
from fusionc.options import Options
from fusionc.report.rewrite_text import described
from fusionc.rewrite import Pass
from fusionc.rewrite.log import Commit
from fusionc.runtime.process import start

_MAX_CULPRITS = 16  # the most culprits that one search looks for; another search finds others


@dataclass(frozen=True)
class Found:
    """A culprit (a rewrite at fault), and the smallest model that shows its fault."""

    culprit: Culprit
    minimal: MinimalModel | None  # None if the rewrite cannot be shown alone
    files: tuple[Path, ...]  # the files of the small model


@dataclass
class Bisection:
    """The result of a search."""

    found: list[Found] = field(default_factory=list)  # empty if the result is right
    runs: int = 0  # the number of conversions
    summary: str = ""  # the judgment of the result that is made without the culprits
    # a switch file that switches off the passes at fault; it has no effect on those in `must`
    switches: Path | None = None
    must: tuple[str, ...] = ()  # passes at fault that only --optimization_switch can switch off
    # whether the result is right without the culprits; None if that could not be decided
    is_all: bool | None = True
    notices: list[str] = field(default_factory=list)


class _Steps:
    """A progress function that prefixes each message with the number of the run."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._run = ""

    def begin(self, run: str) -> None:
        self._run = run
        self._progress(run)

    def __call__(self, message: str) -> None:
        self._progress(f"{self._run}, {message}" if self._run else message)


def bisect(options: Options, check: str | None, folder: Path) -> Bisection:
    """Find the rewrites at fault, and write the findings into a folder.

    `check` is a command that judges a model. If it is None, the verification of conversions judges.
    Raises FusioncError if the result with all rewrites cannot be judged, or if the model itself is
    wrong. Raises UsageError if the folder has other files.
    """
    start()
    steps = _Steps(options.progress)
    result = Bisection()
    files = FindingsFolder(folder, [options.source])
    options = replace(options, progress=steps, destination=files.place / options.destination.name)
    with running(options) as plog:
        model = AskedModel(float32_plan_of(options, plog, "bisect"))
        proto = model.change(model.open())
        with model.reference(proto) as reference:
            del proto
            judge = Checking(check) if check is not None else Verifying(reference)
            trials = Trials(model, LeftOut(), judge, steps.begin)
            for culprit in islice(culprits(trials), _MAX_CULPRITS):
                steps.begin(f"culprit {len(result.found) + 1}")
                steps("looking for a small model that shows the fault")
                finding = _written(model.plan, culprit, files, len(result.found) + 1)
                result.found.append(finding)
                for rewrite in culprit.rewrites:
                    plog.warning("Bisect", f"{described(rewrite.commit)}: {culprit.after}")
            last = trials.run().opinion
            result.runs = trials.runs
            result.summary = last.summary
            result.is_all = last.is_good
        if result.found:
            passes = _distinct(
                [rewrite.pass_ for one in result.found for rewrite in one.culprit.rewrites]
            )
            registry = load_passes(options.custom_passes)
            named = named_by_option(options.optimization_switch, registry)
            result.must = tuple(p.name for p in passes if p.default == "must" or p.name in named)
            switches = changed_switches(options.fusion_switch_file, registry, passes)
            result.switches = files.write_switches(switches)
        result.notices = [*model.plan.notices, *model.notices, *plog.notices]
    return result


def convert_up_to(options: Options, limit: int) -> Commit | None:
    """Convert with only the first `limit` rewrites, and return the last one of them (None if
    nothing was rewritten). The result is written without verification.
    """
    start()
    with running(options) as plog:
        model = AskedModel(float32_plan_of(options, plog, "bisect"))
        proto = model.raise_opset(model.change(model.open()))
        done = attempt(model.plan, proto, LeftOut(), limit)
        write_result(model, done, options.destination)
    return done.log.last


def _written(plan: ConversionPlan, culprit: Culprit, files: FindingsFolder, number: int) -> Found:
    if len(culprit.rewrites) > 1:
        return Found(culprit, None, ())
    (rewrite,) = culprit.rewrites
    minimal = minimal_model(plan, rewrite)
    if minimal is None:
        return Found(culprit, None, ())
    name = f"{number}_{rewrite.commit.pass_name}"
    models = {name: minimal.model, f"{name}_rewritten": minimal.rewritten}
    return Found(culprit, minimal, tuple(files.write_model(*named) for named in models.items()))


def _distinct(passes: list[Pass]) -> list[Pass]:
    return list({p.name: p for p in passes}.values())
