"""The passes that ATC's options --oo_level, --oo_constant_folding and --oo_dead_code_elimination
switch off. (ATC is the model converter of CANN, Ascend's toolkit.)

ATC has the levels O1 and O3. O3, the default, runs all passes. O1 runs only the passes that models
with static sizes need: constant folding, known shapes, dead branches and dead nodes. O1 runs no
fusion pass, not even one that a switch file cannot switch off. A switch for a pass by its name, in
the switch file or in --optimization_switch, overrides all three options; the entry "ALL" does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

CONSTANT_FOLDING = frozenset({"ConstantFoldingPass", "DimensionComputePass"})
DEAD_CODE_ELIMINATION = frozenset({"SwitchDeadBranchElimination"})
AT_O1 = CONSTANT_FOLDING | DEAD_CODE_ELIMINATION | {"PrunePass"}


@dataclass(frozen=True)
class Levels:
    """The values of the three options."""

    level: str = "O3"
    constant_folding: bool = True
    dead_code_elimination: bool = True

    def off(self, names: Iterable[str]) -> dict[str, str]:
        """Which of these passes are off, and by which option."""
        off = {name: "--oo_level O1" for name in names if self.level == "O1" and name not in AT_O1}
        if not self.constant_folding:
            off |= dict.fromkeys(CONSTANT_FOLDING, "--oo_constant_folding false")
        if not self.dead_code_elimination:
            off |= dict.fromkeys(DEAD_CODE_ELIMINATION, "--oo_dead_code_elimination false")
        return off
