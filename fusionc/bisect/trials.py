"""Trials: the same conversion with some of its rewrites, and the judgment of its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Protocol

from fusionc.attempt.asked_model import AskedModel
from fusionc.attempt.attempt import ConversionAttempt, LeftOut, attempt
from fusionc.check_rewrites.context import isolated
from fusionc.check_rewrites.rewrite_models import RewriteModels, RewriteOnItsOwn
from fusionc.report.rewrite_text import described
from fusionc.rewrite import Match, Pass, Tape
from fusionc.rewrite.log import Commit
from fusionc.rewrite.soundness import Replacement

_LARGEST = 1 << 28  # bytes of the models of one rewrite; larger ones are not cut down


@dataclass(frozen=True)
class Opinion:
    """A judgement of a result."""

    is_good: bool | None  # None if it cannot be told
    summary: str  # a sentence on it


class Examiner(Protocol):
    """Judges the result of a conversion."""

    def __call__(self, model: AskedModel, done: ConversionAttempt) -> Opinion: ...


@dataclass(frozen=True)
class Trial:
    """A conversion with a limited number of rewrites."""

    opinion: Opinion
    count: int  # of the rewrites that took effect
    last: Commit | None  # of these


@dataclass(frozen=True)
class Rewrite:
    """A rewrite, and models of it with fewer and with more of the nodes before it."""

    commit: Commit
    pass_: Pass
    models: tuple[RewriteModels, ...]


@dataclass
class Trials:
    """Runs trials, each once."""

    model: AskedModel
    left_out: LeftOut
    judge: Examiner
    say: Callable[[str], None]  # called before each trial
    runs: int = 0  # number of trials
    contradiction: str = ""  # a rewrite that was another one in another run; empty if none was
    _seen: dict[int, list[Commit]] = field(default_factory=dict)
    _known: dict[tuple[int, int | None], Trial] = field(default_factory=dict)

    def run(self, limit: int | None = None) -> Trial:
        """The trial with at most `limit` rewrites, None for all; rewrites that are left out do not
        count.
        """
        key = len(self.left_out.rewrites), limit
        if key not in self._known:
            self.runs += 1
            self.say(
                f"run {self.runs}: "
                f"{'all rewrites' if limit is None else f'the first {limit} rewrites'}"
            )
            done = self._attempt(limit)
            self._known[key] = Trial(self.judge(self.model, done), done.log.count, done.log.last)
        return self._known[key]

    def _attempt(self, limit: int | None, *examine: Callable[..., None]) -> ConversionAttempt:
        """Convert. Unless a pass is erratic, the rewrites are the same as in earlier trials, as far
        as both go.
        """
        commits: list[Commit] = []
        done = attempt(
            self.model.plan,
            self.model.rebuild(),
            self.left_out,
            limit,
            examine=[lambda it, *_: commits.append(it), *examine],
        )
        seen = self._seen.setdefault(len(self.left_out.rewrites), commits)
        for one, other in zip(seen, commits, strict=False):
            if one != other and not self.contradiction:
                self.contradiction = f"{described(other)}; in another run {described(one)}"
        if (
            len(commits) < min(len(seen), len(seen) if limit is None else limit)
            and not self.contradiction
        ):
            self.contradiction = f"{described(seen[len(commits)])}; in another run nothing"
        self._seen[len(self.left_out.rewrites)] = max(seen, commits, key=len)
        return done

    def rewrites(self, numbers: range) -> list[Rewrite]:
        """The rewrites of these numbers, caught as they take effect."""
        found: list[Rewrite] = []

        def examine(
            commit: Commit, pass_: Pass, match: Match, new: Replacement, tape: Tape
        ) -> None:
            if commit.number in numbers:
                models = takewhile(_is_handy, isolated(RewriteOnItsOwn(match, new, tape)))
                found.append(Rewrite(commit, pass_, tuple(models)))

        self._attempt(numbers[-1], examine)
        return found


def _is_handy(models: RewriteModels) -> bool:
    return bool(models.before.ByteSize() + models.after.ByteSize() <= _LARGEST)
