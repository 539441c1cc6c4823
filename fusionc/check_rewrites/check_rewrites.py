"""Check each rewrite before it takes effect: run the original nodes and their replacement side by
side.
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

REFUSED = "the replacement computes something else"


class RewriteChecker:
    """Checks the rewrites of a conversion. `checked` counts the correct rewrites, and `unchecked`
    counts, by reason, the rewrites that cannot be judged.

    A wrong rewrite ends the conversion. If `on_mismatch` is "rollback", the wrong rewrite is
    refused instead and added to `left_out`. `kernels` are the kernels of the converted model.
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
        """Reset the counts, because the conversion is repeated."""
        self.checked = 0
        self.unchecked = Counter[str]()
        return self

    def notices(self) -> list[str]:
        """A message for the user: how many rewrites were checked, and why others were not."""
        number = self.unchecked.total()
        why = "; ".join(
            f"{times} not checked: {reason}" for reason, times in self.unchecked.items()
        )
        return [
            f"{self.checked} of {self.checked + number} rewrites checked individually"
            + (f", {why}" if why else "")
        ]

    def examine(
        self, commit: Commit, pass_: Pass, match: Match, new: Replacement, tape: Tape
    ) -> None:
        """Called by `RewriteLog`. Raises VerificationError for a wrong rewrite, or Refused."""
        fault = self.fault(pass_, match, new, tape)
        if not fault:
            return
        if self._is_refusing:
            self._left_out[commit] = REFUSED
            refuse(REFUSED)
        switch = f'--optimization_switch "{pass_.name}:off"'
        hint = f"nothing was written; convert with --on_mismatch rollback, or {switch}"
        what = f"a rewrite changes the result: {fault}"
        raise VerificationError(what, where=where_of(commit, pass_.place), hint=hint, code="E13028")

    def fault(self, pass_: Pass, match: Match, new: Replacement, tape: Tape) -> str:
        """How a replacement differs from the original nodes. Empty if it does not differ, or if
        this cannot be judged.

        A pass may rely on properties of the values before the rewrite. A difference must therefore
        also appear if the models include the nodes that compute these values.
        """
        alone = RewriteOnItsOwn(match, new, tape)
        if not alone.outputs:
            self.checked += 1
            return ""
        fault = ""
        reason = alone.reason
        library = None if self._kernels is None else self._kernels.file
        for models in isolated(alone):
            result = agreement(models, pass_.numerics, pass_.is_for_finite, library)
            if result.agrees:
                self.checked += 1
                return ""
            fault, reason = ("", result.reason) if result.agrees is None else (result.reason, "")
        if not fault:
            self.unchecked[reason] += 1
        return fault
