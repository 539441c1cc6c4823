"""What another optimizer fused in the same model and fusionc did not, and the passes that make such
operators.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fusionc.diff.changes import node_changes
from fusionc.diff.model_nodes import nodes_of_graphs
from fusionc.diff.pairs import Digests
from fusionc.model.graph import Model
from fusionc.model.operators import KERNELS, short_name
from fusionc.rewrite import Pass

# in the documentation of a pass
_MADE = re.compile(r"^after +(.*?)(?=^\w|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class ExpectedOperator:
    """An operator of which the other result has more: `expected` there, `converted` here. `nodes`
    are those of the given model that became it there.
    """

    operator: str
    converted: int
    expected: int
    nodes: tuple[str, ...]

    @property
    def is_area(self) -> bool:
        """Whether graph kernel fusion makes it, and no pass alone."""
        return self.operator.startswith(f"{KERNELS}.")


def expected_operators(given: Model, converted: Model, expected: Model) -> list[ExpectedOperator]:
    """The operators that the other optimizer made and fusionc did not, or not as often."""
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
