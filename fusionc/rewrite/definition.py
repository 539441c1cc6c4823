"""What a pass is: a named, switchable unit with patterns, a numerics class and its
documentation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from fusionc.model.graph import Graph
    from fusionc.rewrite.match import Match
    from fusionc.rewrite.pattern import Formula
    from fusionc.rewrite.tape import Tape

Kind = Literal["GraphFusion", "UBFusion"]
Numerics = Literal["bitwise", "rounding", "approximate"]
Default = Literal["on", "off", "must"]
# of a rewrite: the value that the output becomes, or a tuple of them, one for each output
Result = Any


@dataclass(frozen=True)
class Pattern:
    """One structure that a pass looks for; it gets its own counters and its own log line.

    `formula` is what is searched; several formulas are several outputs, the first one being where
    the search begins. `where` says what of the structure a formula cannot say: without it, there is
    no match. A pass whose matter is not local, or has any number of outputs, gives `find` instead:
    it walks the graph and yields matches itself. Each is committed before the next is asked for;
    one of which a part has gone by then is dropped, and `find` asked again. `operators` then names
    those that it looks for; none are any. `rewrite` builds the replacement on a tape or refuses;
    left out, the pass's own is used. `is_exact` says that its results are bit for bit those that
    were there, or differ in the signs of zeros, whatever the numerics of the pass.
    """

    name: str
    formula: Formula | tuple[Formula, ...] | None = None
    rewrite: Callable[[Match, Tape], Result] | None = None
    find: Callable[[Graph], Iterable[Match]] | None = None
    where: Callable[[Match], bool] | None = None
    operators: tuple[str, ...] = ()
    is_exact: bool = False

    @property
    def formulas(self) -> tuple[Formula, ...]:
        """What is searched, as many as there are outputs; none where `find` does it."""
        written = () if self.formula is None else self.formula
        return written if isinstance(written, tuple) else (written,)


class Pass:
    """Base of all passes, the built-in ones and the users' own. The class name is the switch key.

    A subclass gives `patterns` and `rewrite(m, new)`, which returns what the root value becomes (a
    value, or a tuple of them for several outputs) or calls `refuse(reason)`. It never changes the
    graph. Instances hold no state: what a match found is in `m`.
    """

    kind: ClassVar[Kind] = "GraphFusion"
    numerics: ClassVar[Numerics] = "bitwise"
    default: ClassVar[Default] = "on"
    aliases: ClassVar[tuple[str, ...]] = ()
    patterns: ClassVar[tuple[Pattern, ...]] = ()
    # why, of a pass without patterns: it is there for its name alone
    never_matches: ClassVar[str] = ""
    # whether NaN and infinities may give other results: verified without them
    is_for_finite: ClassVar[bool] = False
    # whether its rewrites change every part of a group that runs in integers, one after the other
    changes_whole_groups: ClassVar[bool] = False
    # whether --pattern_fusion_pass switches it, too, as it does all users' passes
    is_pattern_fusion: bool = False
    place: str = ""  # of a user's pass: its file and line, for errors

    def rewrite(self, m: Match, new: Tape) -> Result:
        """Build the replacement of `m` on the tape `new`."""
        raise NotImplementedError(f"{self.name} has a pattern without a rewrite")

    @property
    def name(self) -> str:
        """The switch key."""
        return type(self).__name__

    @property
    def documentation(self) -> str:
        """What the class says of itself, as docs/passes.md has it."""
        return inspect.cleandoc(type(self).__doc__ or "")

    @property
    def summary(self) -> str:
        """The first paragraph of the documentation, on one line."""
        return " ".join(self.documentation.partition("\n\n")[0].split())


class UBFusionPass(Pass):
    """A pass for the target runtime: it may emit operators outside ai.onnx that the target has
    kernels for.
    """

    kind = "UBFusion"
