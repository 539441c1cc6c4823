"""The definition of a pass: a named unit with a switch, patterns, a numerics class and its
documentation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fusionc.rewrite.pattern import Formula, Operators, makers, required

if TYPE_CHECKING:
    from fusionc.rewrite.match import Find, Match
    from fusionc.rewrite.tape import Tape

Kind = Literal["GraphFusion", "UBFusion"]
Numerics = Literal["bitwise", "rounding", "approximate"]
Default = Literal["on", "off", "must"]
Condition = Callable[["Match"], bool]
# the result of a rewrite: the new value of the output, or a tuple with a value for each output
Result = Any


@dataclass(frozen=True)
class Pattern:
    """One structure that a pass looks for. It has its own counters and its own log line.

    `formula` describes the structure. A tuple of formulas describes several outputs, and the search
    begins at the first formula. `where` has the conditions that a formula cannot express: the
    pattern matches only if all of them hold. The docstring of each condition states one fact
    ("Whether …").

    If a formula cannot describe a structure, because the structure is not local or may have any
    number of outputs, the pattern has a `find` instead. `find` walks the graph and yields matches.
    For each rejected candidate it yields a Miss (see `find_each`), whose reason `fusionc why`
    shows. Each match is committed before the next match is requested. If a commit removes part of a
    later match, the later match is dropped, and `find` is called again. `operators` names the
    operators that `find` looks for; empty means all operators.

    `rewrite` builds the replacement on a tape or refuses; the default is the method of the pass.
    `is_exact` says that the results of this pattern are bitwise equal except for the signs of
    zeros, even if the `numerics` of the pass say less.
    """

    name: str
    formula: Formula | tuple[Formula, ...] | None = None
    rewrite: Callable[[Match, Tape], Result] | None = None
    find: Find | None = None
    where: Condition | tuple[Condition, ...] | None = None
    operators: tuple[str, ...] = ()
    is_exact: bool = False

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions in `where` as a tuple."""
        where = () if self.where is None else self.where
        return where if isinstance(where, tuple) else (where,)

    def unmet(self, match: Match) -> Condition | None:
        """The first condition that does not hold for a match."""
        return next((holds for holds in self.conditions if not holds(match)), None)

    @cached_property
    def formulas(self) -> tuple[Formula, ...]:
        """A formula for each output; empty if the pattern has a `find`."""
        formula = () if self.formula is None else self.formula
        return formula if isinstance(formula, tuple) else (formula,)

    @cached_property
    def anchor_operators(self) -> Operators | None:
        """The operators at which a match may begin. `None` if these may be any operators."""
        return makers(self.formulas[0]) if self.formulas else None

    @cached_property
    def required_operators(self) -> tuple[Operators, ...]:
        """Groups of operators. A graph can match only if it has an operator of every group."""
        if self.anchor_operators is None:
            return ()
        return tuple(group for formula in self.formulas for group in required(formula))


class Pass:
    """Base of all passes, the built-in ones and the users' own. The class name is the switch key.

    A subclass has `patterns` and `rewrite(m, new)`. `rewrite` returns the new value of the root, or
    a tuple of values for several outputs, or it calls `refuse(reason)`. It never changes the graph.
    Instances have no state: the match `m` has all data.
    """

    kind: ClassVar[Kind] = "GraphFusion"
    numerics: ClassVar[Numerics] = "bitwise"
    default: ClassVar[Default] = "on"
    aliases: ClassVar[tuple[str, ...]] = ()
    patterns: ClassVar[tuple[Pattern, ...]] = ()
    # Why the pass has no patterns. Such a pass exists only so that its name is accepted.
    never_matches: ClassVar[str] = ""
    # Whether results for NaN and infinities may differ. If they may, the verification leaves out
    # such inputs.
    is_for_finite: ClassVar[bool] = False
    # A group is a set of nodes that a runtime computes in integers together. Usually a rewrite may
    # not take a single node out of a group. True if the rewrites of the pass together change every
    # node of a group: each single rewrite may then do so.
    changes_whole_groups: ClassVar[bool] = False
    # whether --pattern_fusion_pass also switches the pass; true for all users' own passes
    is_pattern_fusion: bool = False
    place: str = ""  # the file and line of a user's own pass, for errors

    def rewrite(self, m: Match, new: Tape) -> Result:
        """Build the replacement of `m` on the tape `new`."""
        raise NotImplementedError(f"{self.name} has a pattern without a rewrite")

    @property
    def name(self) -> str:
        """The switch key."""
        return type(self).__name__

    @property
    def documentation(self) -> str:
        """The docstring, as docs/passes.md shows it."""
        return inspect.cleandoc(type(self).__doc__ or "")

    @property
    def summary(self) -> str:
        """The first paragraph of the documentation, on one line."""
        return " ".join(self.documentation.partition("\n\n")[0].split())


class UBFusionPass(Pass):
    """A pass for the target runtime: it may insert operators outside ai.onnx if the target has
    kernels for them.
    """

    kind = "UBFusion"
