"""Every rewrite is checked where it happens: what it replaces runs beside what takes the place,
before it does.
"""

from __future__ import annotations

from collections import Counter

from fusionc.check_rewrites.agreement import agreement
from fusionc.check_rewrites.context import isolated
from fusionc.check_rewrites.rewrite_models import RewriteOnItsOwn
from fusionc.errors import VerificationError
from fusionc.graph_kernel.library.kernel_library import KernelLibrary
from fusionc.report.rewrite_text import where_of
from fusionc.rewrite import Match, Pass, Tape, refuse
from fusionc.rewrite.log import Commit
from fusionc.rewrite.soundness import Replacement

REFUSED = "what takes the place computes something else"


class RewriteChecker:
    """Checks the rewrites of a conversion: `checked` counts those that were found right,
    `unchecked` those of which nobody can tell, by the reasons.

    A rewrite that is wrong ends the conversion, or with `on_mismatch` "rollback" is refused and
    added to `left_out`. `kernels` are those of the result.
    """

    def __init__(
        self,
        left_out: dict[Commit, str],
        kernels: KernelLibrary | None = None,
        on_mismatch: str = "fail",
    ) -> None:
        self._left_out = left_out
        self._kernels = kernels
        self._is_refusing = on_mismatch == "rollback"
        self.begin()

    def begin(self) -> RewriteChecker:
        """Count anew: the conversion is repeated."""
        self.checked = 0
        self.unchecked = Counter[str]()
        return self

    def notices(self) -> list[str]:
        """What the user should know of the rewrites that were checked, and of those that were
        not.
        """
        number = self.unchecked.total()
        why = "; ".join(f"{times} not: {reason}" for reason, times in self.unchecked.items())
        return [
            f"{self.checked} of {self.checked + number} rewrites checked by themselves"
            + (f", {why}" if why else "")
        ]

    def examine(
        self, commit: Commit, pass_: Pass, match: Match, new: Replacement, tape: Tape
    ) -> None:
        """What `RewriteLog` calls. Raises VerificationError that names a rewrite that is wrong, or
        Refused.
        """
        fault = self.fault(pass_, match, new, tape)
        if not fault:
            return
        if self._is_refusing:
            self._left_out[commit] = REFUSED
            refuse(REFUSED)
        hint = f'nothing was written; convert with --on_mismatch rollback, or --optimization_switch "{pass_.name}:off"'
        what = f"a rewrite does not compute what it replaces: {fault}"
        raise VerificationError(what, where=where_of(commit, pass_.place), hint=hint, code="E13028")

    def fault(self, pass_: Pass, match: Match, new: Replacement, tape: Tape) -> str:
        """In what a rewrite differs from what it replaces; empty where it does not, or nobody can
        tell.

        What a pass knows of the values before it counts: a difference has to be there with those as
        well.
        """
        alone = RewriteOnItsOwn(match, new, tape)
        if not alone.outputs:
            self.checked += 1
            return ""
        fault = ""
        reason = alone.reason
        library = None if self._kernels is None else self._kernels.file
        for models in isolated(alone):
            found = agreement(models, pass_.numerics, pass_.is_for_finite, library)
            if found.agrees:
                self.checked += 1
                return ""
            fault, reason = ("", found.reason) if found.agrees is None else (found.reason, "")
        if not fault:
            self.unchecked[reason] += 1
        return fault
