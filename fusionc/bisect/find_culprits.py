"""The rewrites at fault, one after another: each is left out, and the search begins anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fusionc.bisect.first_bad import first_bad
from fusionc.bisect.trials import Rewrite, Trials
from fusionc.errors import FusioncError
from fusionc.rewrite.log import Commit, RewriteLog

LEFT_OUT = "the result is wrong with it"


@dataclass(frozen=True)
class Culprit:
    """A rewrite that turns a right result into a wrong one."""

    rewrites: tuple[Rewrite, ...]  # several if it cannot be judged which one it is
    count: int  # of all rewrites
    before: str  # the judgement without it
    after: str  # the judgement with it


def culprits(trials: Trials) -> Iterator[Culprit]:
    """Find all culprits, each in at most ceil(log2(rewrites)) + 2 runs: that of all rewrites, the
    halving, and the one without the culprits. They are left out from then on. The search ends early
    if it is unknown whether the rest is right.

    Raises FusioncError if it is unknown whether the first result is right, or if the model itself
    is wrong.
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
        trials.left_out.rewrites |= {rewrite.commit: LEFT_OUT for rewrite in found}
        whole = trials.run()
        if (
            whole.opinion.is_good is False
            and numbers[0] == 1
            and trials.run(0).opinion.is_good is False
        ):
            raise _model_is_wrong(trials)
        yield culprit
        has_found = True


def guilty_rewrite(trials: Trials, log: RewriteLog, *, is_unknown_good: bool = False) -> Commit:
    """The rewrite that makes a result wrong, found in the log of its attempt. `is_unknown_good`
    says how trials count whose result is neither known to be right nor wrong. Raises FusioncError
    if the trials contradict each other.
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
    """The error that the trials contradict each other."""
    what = f"the conversion does something else each time: {trials.contradiction}"
    hint = (
        "correct the pass that draws random numbers or keeps what it has seen; there is nothing "
        "to halve until then"
    )
    return FusioncError(what, where=str(trials.model.plan.options.source), hint=hint)


def _model_is_wrong(trials: Trials) -> FusioncError:
    what = f"the model itself is found wrong, without any rewrite: {trials.run(0).opinion.summary}"
    hint = "no rewrite is to blame; correct the check, or the model"
    return FusioncError(what, where=str(trials.model.plan.options.source), hint=hint)
