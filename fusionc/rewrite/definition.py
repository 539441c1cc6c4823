"""What a pass is: a named unit with a switch, patterns, a numerics class and its documentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from fusionc.rewrite.match import Find, Match
    from fusionc.rewrite.pattern import Formula
    from fusionc.rewrite.tape import Tape

Kind = Literal["GraphFusion", "UBFusion"]
Numerics = Literal["bitwise", "rounding", "approximate"]
Default = Literal["on", "off", "must"]
Condition = Callable[["Match"], bool]
# what a rewrite returns: the new value of the output, or a tuple with one for each output
Result = Any


@dataclass(frozen=True)
class Pattern:
    """One structure that a pass looks for; it has its own counters and its own log line.

    `formula` is what is searched. Several formulas are several outputs, and the search begins at
    the first one. `where` are the conditions that a formula cannot express; the pattern matches
    only if all hold. Each states one fact in its docstring ("Whether …").

    If a pattern is not local, or has any number of outputs, `find` walks the graph instead and
    yields matches; it may yield a Miss for a candidate that it leaves (see `find_each`). Each match
    is committed before the next is asked for. A match that has lost a part by then is dropped, and
    `find` is asked again. `operators` names the operators that it looks for; without any, it looks
    for all.

    `rewrite` builds the replacement on a tape or refuses; by default the pass's own is used.
    `is_exact` says that the results are bitwise equal except for the signs of zeros, whatever the
    numerics of the pass.
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
        """Everything in `where`."""
        where = () if self.where is None else self.where
        return where if isinstance(where, tuple) else (where,)

    def unmet(self, match: Match) -> Condition | None:
        """The first condition that does not hold for a match."""
        return next((holds for holds in self.conditions if not holds(match)), None)

    @property
    def formulas(self) -> tuple[Formula, ...]:
        """One formula for each output; none if `find` searches."""
        written = () if self.formula is None else self.formula
        return written if isinstance(written, tuple) else (written,)


class Pass:
    """Base of all passes, the built-in ones and the users' own. The class name is the switch key.

    A subclass has `patterns` and `rewrite(m, new)`, which returns the new value of the root (or a
    tuple of values for several outputs) or calls `refuse(reason)`. It never changes the graph.
    Instances hold no state: what was matched is in `m`.
    """

    kind: ClassVar[Kind] = "GraphFusion"
    numerics: ClassVar[Numerics] = "bitwise"
    default: ClassVar[Default] = "on"
    aliases: ClassVar[tuple[str, ...]] = ()
    patterns: ClassVar[tuple[Pattern, ...]] = ()
    # why it has no patterns, if it has none: only its name is needed
    never_matches: ClassVar[str] = ""
    # whether NaN and infinities may give other results; then they are not verified
    is_for_finite: ClassVar[bool] = False
    # whether its rewrites change every part of a group that runs in integers, one after the other
    changes_whole_groups: ClassVar[bool] = False
    # whether --pattern_fusion_pass also switches it, as it switches all users' passes
    is_pattern_fusion: bool = False
    place: str = ""  # file and line of a user's pass, for errors

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
    """A pass for the target runtime: it may emit operators outside ai.onnx for which the target has
    kernels.
    """

    kind = "UBFusion"
