"""The rewrites at fault, one after another: a culprit is left out, and the search begins again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fusionc.bisect.first_bad import first_bad
from fusionc.bisect.trials import Rewrite, Trials
from fusionc.errors import FusioncError

LEFT_OUT = "the result is wrong with it"


@dataclass(frozen=True)
class Culprit:
    """A rewrite that turns a right result into a wrong one."""

    rewrites: tuple[Rewrite, ...]  # several if it cannot be judged which one it is
    count: int  # of all rewrites
    before: str  # the judgement without it
    after: str  # the judgement with it


def culprits(trials: Trials) -> Iterator[Culprit]:
    """Find all culprits, each in at most ceil(log2(rewrites)) + 2 runs: one of all rewrites, the
    halving, and one without the culprits. The job leaves them out from then on. The search ends
    when it cannot be judged whether the rest is right.

    Raises FusioncError if the first result cannot be judged, or if the model itself is wrong.
    """
    whole = trials.run()
    has_found = False
    while not whole.opinion.is_good:
        if whole.opinion.is_good is None:
            if has_found:
                return
            hint = (
                "give inputs that the model runs on, or a command that can tell: --inputs, --check"
            )
            raise FusioncError(
                f"nobody can tell whether the result is right: {whole.opinion.summary}", hint=hint
            )
        if not whole.count:
            raise _model_is_wrong(trials)
        numbers = first_bad(whole.count, lambda limit: trials.run(limit).opinion.is_good)
        found = trials.rewrites(numbers)
        if trials.contradiction:
            raise erratic(trials)
        after = whole if numbers[-1] == whole.count else trials.run(numbers[-1])
        before = (
            trials.run(numbers[0] - 1).opinion.summary
            if numbers[0] > 1
            else "the model as it was loaded"
        )
        culprit = Culprit(tuple(found), whole.count, before, after.opinion.summary)
        trials.job.left_out |= {rewrite.commit: LEFT_OUT for rewrite in found}
        whole = trials.run()
        if (
            whole.opinion.is_good is False
            and numbers[0] == 1
            and trials.run(0).opinion.is_good is False
        ):
            raise _model_is_wrong(trials)
        yield culprit
        has_found = True


def erratic(trials: Trials) -> FusioncError:
    """The error that the trials contradict each other."""
    what = f"the conversion does something else each time: {trials.contradiction}"
    hint = (
        "correct the pass that draws random numbers or keeps what it has seen; there is nothing to "
        "halve until then"
    )
    return FusioncError(what, where=str(trials.job.options.source), hint=hint)


def _model_is_wrong(trials: Trials) -> FusioncError:
    what = f"the model itself is found wrong, without any rewrite: {trials.run(0).opinion.summary}"
    hint = "no rewrite is to blame; correct the check, or the model"
    return FusioncError(what, where=str(trials.job.options.source), hint=hint)
