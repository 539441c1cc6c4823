"""A record of each rewrite, and counters for each pattern and graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass
class PatternCount:
    """How often one pattern matched, took effect and was refused in one graph.

    Always matched == effected + sum(refused).
    """

    graph_id: int  # 0 is the main graph
    kind: str
    pass_name: str
    pattern: str
    effected: int = 0
    refused: dict[str, int] = field(default_factory=dict)  # by reason
    # those of the refused that a newer opset would allow, by its version
    waiting: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def matched(self) -> int:
        """How often the pattern matched, refused or not."""
        return self.effected + sum(self.refused.values())


@dataclass(frozen=True)
class Commit:
    """One rewrite that took effect, as the log shows it and as bisect names it."""

    number: int = field(compare=False)
    graph_id: int
    pass_name: str
    pattern: str
    nodes: tuple[str, ...]


@dataclass
class RewriteLog:
    """Numbers the rewrites of a run, and may stop or refuse them."""

    limit: int | None = None  # so many rewrites may take effect; None: any number
    # rewrites that are refused, and why
    left_out: Mapping[Commit, str] = field(default_factory=dict)
    # called before a rewrite takes effect, with its Commit, its pass, the match, the replacement,
    # which is sound, and the tape; may refuse it
    examine: Callable[..., None] | None = None
    last: Commit | None = None  # the last one that took effect

    @property
    def count(self) -> int:
        """How many rewrites took effect."""
        return 0 if self.last is None else self.last.number

    @property
    def is_closed(self) -> bool:
        """Whether no further rewrite may take effect."""
        return self.limit is not None and self.count >= self.limit
