"""Trials: the same conversion with only some of its rewrites, and the judgment of each result."""

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

_MAX_BYTES = 1 << 28  # of the two models of a rewrite together; larger models are not used


@dataclass(frozen=True)
class Opinion:
    """A judgment of a result."""

    is_good: bool | None  # whether the result is right; None if that cannot be decided
    summary: str  # the reason, in a sentence


class Examiner(Protocol):
    """Judges the result of a conversion."""

    def __call__(self, model: AskedModel, done: ConversionAttempt) -> Opinion: ...


@dataclass(frozen=True)
class Trial:
    """A conversion with a limited number of rewrites."""

    opinion: Opinion
    count: int  # the number of rewrites that took effect
    last: Commit | None  # the last of these rewrites


@dataclass(frozen=True)
class Rewrite:
    """A rewrite, and several small pairs of models of it. Each pair contains more, or fewer, of the
    nodes that precede the rewritten ones.
    """

    commit: Commit
    pass_: Pass
    models: tuple[RewriteModels, ...]


@dataclass
class Trials:
    """Runs trials. The result of each trial is cached."""

    model: AskedModel
    left_out: LeftOut
    judge: Examiner
    say: Callable[[str], None]  # receives a message before each trial
    runs: int = 0  # the number of trials
    # describes a rewrite that differed between two runs; empty if all runs agree
    contradiction: str = ""
    # number of left-out rewrites → the longest sequence of rewrites so far
    _seen: dict[int, list[Commit]] = field(default_factory=dict)
    # number of left-out rewrites, and limit → the cached trial
    _known: dict[tuple[int, int | None], Trial] = field(default_factory=dict)

    def run(self, limit: int | None = None) -> Trial:
        """The trial with at most `limit` rewrites; None means all rewrites. Left-out rewrites do
        not count. A trial that is not cached is run.
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
        """Convert, and compare the sequence of rewrites with those of earlier trials. If they
        differ, a pass is not deterministic, and `contradiction` describes the difference.
        """
        commits: list[Commit] = []
        done = attempt(
            self.model.plan,
            self.model.rebuild(),
            self.left_out,
            limit,
            examine=[lambda commit, *_: commits.append(commit), *examine],
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
        """The rewrites with these numbers. Their models are collected in a further conversion."""
        rewrites: list[Rewrite] = []

        def examine(
            commit: Commit, pass_: Pass, match: Match, new: Replacement, tape: Tape
        ) -> None:
            if commit.number in numbers:
                models = takewhile(_is_small, isolated(RewriteOnItsOwn(match, new, tape)))
                rewrites.append(Rewrite(commit, pass_, tuple(models)))

        self._attempt(numbers[-1], examine)
        return rewrites


def _is_small(models: RewriteModels) -> bool:
    return bool(models.before.ByteSize() + models.after.ByteSize() <= _MAX_BYTES)
