"""Find the rewrites at fault one after another: when one is found, it is left out, and the search
starts again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fusionc.bisect.first_bad import first_bad
from fusionc.bisect.trials import Rewrite, Trials
from fusionc.errors import FusioncError
from fusionc.rewrite.log import Commit, RewriteLog

LEFT_OUT = "the result is wrong with this rewrite"


@dataclass(frozen=True)
class Culprit:
    """A rewrite that turns a right result into a wrong one."""

    rewrites: tuple[Rewrite, ...]  # more than one if it is undecided which of them is at fault
    count: int  # the number of rewrites in the conversion
    before: str  # the judgment of the result without this rewrite
    after: str  # the judgment of the result with this rewrite


def culprits(trials: Trials) -> Iterator[Culprit]:
    """Yield the culprits one by one. For each culprit, the search needs at most
    ceil(log2(rewrites)) + 2 runs: a run with all rewrites, the bisection, and a run without the
    culprit. The culprit is left out of all later runs. The search ends early if the result without
    the culprits cannot be judged.

    Raises FusioncError if the first result cannot be judged, if the model itself is judged wrong,
    or if the conversion is not reproducible.
    """
    whole = trials.run()
    has_culprit = False
    while not whole.opinion.is_good:
        if whole.opinion.is_good is None:
            if has_culprit:
                return
            hint = (
                "give inputs on which the model runs (--inputs), or a command that judges models "
                "(--check)"
            )
            raise FusioncError(
                f"it cannot be decided whether the result is right: {whole.opinion.summary}",
                hint=hint,
            )
        if not whole.count:
            raise _model_is_wrong(trials)
        numbers = first_bad(whole.count, lambda limit: trials.run(limit).opinion.is_good)
        rewrites = trials.rewrites(numbers)
        if trials.contradiction:
            raise erratic(trials)
        after = whole if numbers[-1] == whole.count else trials.run(numbers[-1])
        before = (
            trials.run(numbers[0] - 1).opinion.summary
            if numbers[0] > 1
            else "the model as it was loaded"
        )
        culprit = Culprit(tuple(rewrites), whole.count, before, after.opinion.summary)
        trials.left_out.rewrites |= {rewrite.commit: LEFT_OUT for rewrite in rewrites}
        whole = trials.run()
        if (
            whole.opinion.is_good is False
            and numbers[0] == 1
            and trials.run(0).opinion.is_good is False
        ):
            raise _model_is_wrong(trials)
        yield culprit
        has_culprit = True


def guilty_rewrite(trials: Trials, log: RewriteLog, *, is_unknown_good: bool = False) -> Commit:
    """The first rewrite of an attempt that makes the result wrong, in the order of the attempt's
    log. If `is_unknown_good` is true, a trial that cannot be judged counts as right. Raises
    FusioncError if the trials contradict each other.
    """

    def is_good(limit: int) -> bool | None:
        verdict = trials.run(limit).opinion.is_good
        return verdict is not False if is_unknown_good else verdict

    number = first_bad(log.count, is_good)[0]
    guilty = log.last if number == log.count else trials.run(number).last
    if trials.contradiction or guilty is None:
        raise erratic(trials)
    return guilty


def erratic(trials: Trials) -> FusioncError:
    """The error for trials that contradict each other."""
    what = f"the conversion is not reproducible: {trials.contradiction}"
    hint = (
        "correct the pass that draws random numbers or keeps state between runs; only a "
        "reproducible conversion can be bisected"
    )
    return FusioncError(what, where=str(trials.model.plan.options.source), hint=hint)


def _model_is_wrong(trials: Trials) -> FusioncError:
    what = f"the model is judged wrong even without rewrites: {trials.run(0).opinion.summary}"
    hint = "no rewrite is at fault; correct the check, or the model"
    return FusioncError(what, where=str(trials.model.plan.options.source), hint=hint)
