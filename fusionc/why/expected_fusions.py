"""The fusions of another optimizer that fusionc did not make in the same model, and the passes that
could.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fusionc.diff.changes import node_changes
from fusionc.diff.pairs import Digests
from fusionc.model.graph import Model
from fusionc.model.operators import KERNELS, short_name
from fusionc.report.model_nodes import nodes_of_graphs
from fusionc.rewrite import Pass

# the paragraph of a pass's documentation that says what it makes
_MADE = re.compile(r"^after +(.*?)(?=^\w|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class ExpectedOperator:
    """An operator that is more frequent in the other result."""

    operator: str
    converted: int  # how often it is in the result of fusionc
    expected: int  # how often it is in the other result
    # the nodes of the given model that the other optimizer replaced by this operator
    nodes: tuple[str, ...]

    @property
    def is_area(self) -> bool:
        """Whether only graph kernel fusion makes this operator."""
        return self.operator.startswith(f"{KERNELS}.")


def expected_operators(given: Model, converted: Model, expected: Model) -> list[ExpectedOperator]:
    """The operators that the other optimizer made more often than fusionc, or that only it made."""
    counts = [
        Counter(short_name(node.op, node.domain) for node in nodes_of_graphs(model))
        for model in (given, converted, expected)
    ]
    made = [name for name in counts[2] if counts[2][name] > max(counts[0][name], counts[1][name])]
    changes = node_changes(given, expected, Digests()).changes if made else []
    found = []
    for name in made:
        became = [
            change for change in changes if any(node.operator == name for node in change.after)
        ]
        nodes = dict.fromkeys(node.name for change in became for node in change.before)
        found.append(ExpectedOperator(name, counts[1][name], counts[2][name], tuple(nodes)))
    return found


def makers_of(operator: str, passes: Sequence[Pass]) -> list[Pass]:
    """The passes whose documentation says that they make this operator."""
    name = re.compile(rf"\b{re.escape(operator.rpartition('.')[2])}\b")
    return [p for p in passes if any(map(name.search, _MADE.findall(p.documentation)))]
