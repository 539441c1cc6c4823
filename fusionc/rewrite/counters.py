"""What was counted: one record for each pattern and graph. Always matched == effected + sum(refused)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class PatternCount:
    """How often one pattern matched, took effect and was refused in one graph (0 is the main graph).

    `waiting` are those of the refused for which the opset of the model is the reason, by the one that would do.
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
        return self.effected + sum(self.refused.values())
