"""Simplify: clean up after expansion, apply the rules of arithmetic, merge equal operators, and
move Transposes.

The optimization level decides which of these steps run. Each step runs passes of the registry on
the model of one cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fusionc.graph_kernel.flags.flag_table import Flags
from fusionc.graph_kernel.flags.read_flags import HIGHEST_LEVEL
from fusionc.graph_kernel.flags.stages import CSE, SIMPLIFY, TRANSFORM_OPS, StagePass, Stages
from fusionc.model.graph import Model
from fusionc.rewrite import Pass
from fusionc.rewrite.log import RewriteLog
from fusionc.rewrite.pipeline import run

# Passes that clean up: the definitions of expanded operators bring many needless casts,
# computations of known shapes, and constant expressions.
_TIDY = (
    "IdentityPass",
    "CastRemovePass",
    "DimensionComputePass",
    "ConstantFoldingPass",
    "NoUseReshapeRemovePass",
)
EXACT_RULES = "ArithmeticSimplifyPass"
INEXACT_RULES = "ArithmeticInexactPass"
_EQUAL = "CommonSubexpressionEliminationPass"
_TURNED = ("TransOpSymmetryEliminationPass", "TransFunctionSymmetryEliminationPass")


@dataclass(frozen=True)
class Simplifier:
    """The passes of the registry that each stage pass runs. Rules that the flags switch off are
    left out.
    """

    tidy_passes: tuple[Pass, ...]
    stage_passes: Mapping[StagePass, tuple[Pass, ...]]
    stages: Stages

    def tidy(self, model: Model) -> None:
        """Clean up after expansion."""
        run(model, self.tidy_passes, RewriteLog())

    def simplify(self, model: Model, after: Callable[[StagePass], None]) -> None:
        """Run the stage passes that are on. After each one that changes the model, call `after`."""
        for stage_pass, passes in self.stage_passes.items():
            before = model.version
            with self.stages.timed(stage_pass):
                run(model, passes, RewriteLog())
            if model.version != before:
                self.stages.note_change(stage_pass)
                after(stage_pass)


def simplifier(registry: Mapping[str, Pass], flags: Flags, stages: Stages) -> Simplifier:
    """The simplifier for these flags. `registry` maps names to passes."""
    rules = [registry[EXACT_RULES]]
    if flags.opt_level >= HIGHEST_LEVEL and not flags.exact_precision_mode:
        rules.append(registry[INEXACT_RULES])
    passes = {
        SIMPLIFY: tuple(_enabled_rules(rules, flags)),
        CSE: (registry[_EQUAL],),
        TRANSFORM_OPS: tuple(registry[name] for name in _TURNED),
    }
    running = {stage_pass: found for stage_pass, found in passes.items() if stages.runs(stage_pass)}
    return Simplifier(tuple(registry[name] for name in _TIDY), running, stages)


def _enabled_rules(passes: list[Pass], flags: Flags) -> Iterator[Pass]:
    """The passes, without those of their patterns that the flags switch off."""
    for pass_ in passes:
        kept = tuple(pattern for pattern in pass_.patterns if flags.has_rule(pattern.name))
        limited: Pass = type(
            pass_.name, (type(pass_),), {"patterns": kept, "__doc__": pass_.documentation}
        )()
        yield limited
