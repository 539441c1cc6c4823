"""Find the passes that match an operator."""

from __future__ import annotations

from collections.abc import Iterable

import onnx.defs

from fusionc.model.operators import MICROSOFT, qualified
from fusionc.rewrite import Pass, Pattern
from fusionc.rewrite.pattern import OpFormula, walk
from fusionc.runtime.cpu_kernels import has_operator


def operators_of(pattern: Pattern) -> set[str]:
    """The operators in a pattern, for example `Slice` or `com.microsoft.Gelu`; empty if the pattern
    matches any operator.
    """
    parts = [part for formula in pattern.formulas for part in walk(formula)]
    named = [pair for part in parts if isinstance(part, OpFormula) for pair in part.operators]
    return {*pattern.operators, *(qualified(name, domain) for domain, name in named)}


def patterns_with(operator: str, passes: Iterable[Pass]) -> list[tuple[Pass, list[Pattern]]]:
    """The passes that match an operator, each with the patterns that match it, in the order of
    `passes`.

    An operator without a domain matches the name in any domain.
    """
    wanted = _plain(operator)
    pairs = [
        (p, [pattern for pattern in p.patterns if wanted in _spellings(operators_of(pattern))])
        for p in passes
    ]
    return [(p, patterns) for p, patterns in pairs if patterns]


def operator_names(passes: Iterable[Pass]) -> set[str]:
    """The operators of ONNX and all other operators in the patterns of these passes."""
    standard = {qualified(schema.name, schema.domain) for schema in onnx.defs.get_all_schemas()}
    return _spellings(
        standard.union(*(operators_of(pattern) for p in passes for pattern in p.patterns))
    )


def is_operator(name: str, passes: Iterable[Pass]) -> bool:
    """Whether an operator exists in ONNX, in the patterns of these passes, or in the installed
    onnxruntime.
    """
    plain = _plain(name)
    return plain in operator_names(passes) or has_operator(
        plain.removeprefix(f"{MICROSOFT}."), MICROSOFT, 1
    )


def _plain(operator: str) -> str:
    return operator.replace("::", ".").removeprefix("ai.onnx.")


def _spellings(names: set[str]) -> set[str]:
    return names | {name.rpartition(".")[2] for name in names}
