"""What was done: a record of each rewrite, and of each pattern and graph how often it matched and
took effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass
class PatternCount:
    """How often one pattern matched, took effect and was refused in one graph (0 is the main
    graph).

    Always matched == effected + sum(refused).
    `waiting` are those of the refused for which the opset of the model is the reason, by the one
    that would do.
    """

    graph_id: int
    kind: str
    pass_name: str
    pattern: str
    effected: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def matched(self) -> int:
        """How often the pattern was found, refused or not."""
        return self.effected + sum(self.refused.values())


@dataclass(frozen=True)
class Commit:
    """One rewrite that took effect, as the log tells it and as bisection names it."""

    number: int = field(compare=False)
    graph_id: int
    pass_name: str
    pattern: str
    nodes: tuple[str, ...]


@dataclass
class RewriteLog:
    """Numbers the rewrites of a run, stops them after `limit`, and refuses those that are
    `left_out` for these reasons.

    `examine` is called before a rewrite takes effect, with its Commit, its pass, the match, the
    replacement, which has been found sound, and the tape; it may refuse it. `last` is the last one
    that took effect.
    """

    limit: int | None = None
    left_out: Mapping[Commit, str] = field(default_factory=dict)
    examine: Callable[..., None] | None = None
    last: Commit | None = None

    @property
    def count(self) -> int:
        """How many rewrites took effect."""
        return 0 if self.last is None else self.last.number

    @property
    def is_closed(self) -> bool:
        """Whether no more may take effect."""
        return self.limit is not None and self.count >= self.limit
