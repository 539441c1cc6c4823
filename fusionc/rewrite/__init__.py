"""The engine: the pattern language of passes, and how rewrites are found, checked and made."""

from fusionc.model.questions import Refused, not_constant, refuse, require_known, unknown
from fusionc.rewrite.definition import Pass, Pattern, Result, UBFusionPass
from fusionc.rewrite.match import Match, Miss, find_each
from fusionc.rewrite.pattern import (
    among,
    const,
    each,
    either,
    keep,
    known,
    maybe,
    op,
    rest,
    same,
    var,
)  # fmt: skip
from fusionc.rewrite.tape import Tape

__all__ = [
    "Match", "Miss", "Pass", "Pattern", "Refused", "Result", "Tape", "UBFusionPass", "among",
    "const", "each", "either", "find_each", "keep", "known", "maybe", "not_constant", "op",
    "refuse", "require_known", "rest", "same", "unknown", "var",
]  # fmt: skip
