"""The record of each rewrite, and the counters of each pattern and graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import time


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
    # the refused matches that a newer opset would allow: their number by opset version
    waiting: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0
    # the start of the search that found the first match, in seconds since 1970
    at: float = field(default_factory=time, compare=False, repr=False)

    @property
    def matched(self) -> int:
        """How often the pattern matched, refused or not."""
        return self.effected + sum(self.refused.values())


@dataclass(frozen=True)
class Commit:
    """The identity of one rewrite that took effect, for the log and for bisect."""

    number: int = field(compare=False)
    graph_id: int
    pass_name: str
    pattern: str
    nodes: tuple[str, ...]


@dataclass
class RewriteLog:
    """Counts the rewrites of a run, and decides which rewrites may take effect."""

    limit: int | None = None  # the maximal number of rewrites; None for any number
    # rewrites that are refused, with the reasons
    left_out: Mapping[Commit, str] = field(default_factory=dict)
    # Called before a rewrite takes effect, with the Commit, the pass, the match, the sound
    # replacement and the tape. It may refuse the rewrite.
    examine: Callable[..., None] | None = None
    last: Commit | None = None  # the last rewrite that took effect

    @property
    def count(self) -> int:
        """How many rewrites took effect."""
        return 0 if self.last is None else self.last.number

    @property
    def is_closed(self) -> bool:
        """Whether no further rewrite may take effect."""
        return self.limit is not None and self.count >= self.limit
