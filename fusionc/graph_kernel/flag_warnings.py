"""Warnings about valid flags whose values are unknown names, or lists that change nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx.defs

from fusionc.errors import nearest, quote
from fusionc.graph_kernel.blocked.image_operators import OPERATORS
from fusionc.graph_kernel.flags.flag_table import Flags
from fusionc.graph_kernel.flags.operator_names import why_not_in_onnx
from fusionc.graph_kernel.flags.stages import STAGE_PASSES, names_of
from fusionc.graph_kernel.select.operator_kinds import CLUSTER, COMPUTED, SQUARE
from fusionc.graph_kernel.select.simplify import EXACT_RULES, INEXACT_RULES
from fusionc.graph_kernel.select.split.splitter import SPLIT_PATTERNS
from fusionc.model.operators import is_composite, qualified
from fusionc.rewrite import Pass


def unknown_passes(passes: Sequence[Pass], flags: Flags) -> list[str]:
    """A warning for each entry of enable_pass and disable_pass that is not a name of a pass."""
    names = [*(names_of(p) for p in passes), *(p.names for p in STAGE_PASSES)]
    known = dict.fromkeys(name for own in names for name in own)
    warnings = []
    for which, listed in (("enable", flags.enable_pass), ("disable", flags.disable_pass)):
        for name in listed:
            if name not in known:
                near = _similar_names(name, known) if name[0].isalpha() else []
                advice = f" Did you mean {' or '.join(map(quote, near))}?" if near else ""
                warnings.append(f'graph kernel pass {which} flag "{name}" is not valid!{advice}')
    return warnings


def _similar_names(name: str, known: Iterable[str]) -> list[str]:
    """The full names of the stage passes that have this short name. If there are none, the most
    similar name.
    """
    near = nearest(name, known)
    return [p.names[1] for p in STAGE_PASSES if p.name == name] or ([near] if near else [])


def unknown_operators(flags: Flags) -> list[str]:
    """A warning for each name in the lists of operators that is not an operator of ONNX.

    Names with a domain are not checked, because any vendor may have defined them.
    """
    listed = flags.entries("_ops", "_ops_only")
    wrong = [(which, name) for which, name in listed if "." not in name and not onnx.defs.has(name)]
    known = (
        sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})
        if wrong
        else []
    )
    warnings = []
    for which, name in wrong:
        reason = why_not_in_onnx(name)
        near = None if reason else nearest(name, known)
        advice = f": {reason}" if reason else f"; did you mean {quote(near)}?" if near else ""
        warnings.append(f'the flag "--{which}": ONNX has no operator "{name}"{advice}')
    return warnings


def unknown_patterns(flags: Flags) -> list[str]:
    """A warning for each entry of the lists of split patterns that is not part of any pattern's
    name.
    """
    known = [pattern.name for pattern in SPLIT_PATTERNS]
    return [
        f'the flag "--{which}": no split pattern has "{part}" in its name; '
        f"the patterns are {', '.join(known)}"
        for which, part in flags.entries("_fusion_pattern", "_fusion_pattern_only")
        if not any(part in name for name in known)
    ]


def unknown_rules(registry: Mapping[str, Pass], flags: Flags) -> list[str]:
    """A warning for each entry of the lists of simplifications that is not the id of a rule."""
    known = {
        pattern.name for name in (EXACT_RULES, INEXACT_RULES) for pattern in registry[name].patterns
    }
    return [
        f'the flag "--{which}": there is no rule "{name}"; the rules are the patterns that '
        f'"fusionc passes {EXACT_RULES}" and "fusionc passes {INEXACT_RULES}" list'
        for which, name in flags.entries("_simplify_exprs", "_simplify_exprs_only")
        if name not in known
    ]


def _has_definition(name: str) -> bool:
    return name == SQUARE or is_composite(name, "", onnx.defs.onnx_opset_version())


def needless_lists(flags: Flags, has_kernels: bool) -> list[str]:
    """A notice for each list that names operators without changing anything, with the reason."""
    added = () if flags.enable_cluster_ops_only else flags.enable_cluster_ops
    in_programs = {qualified(op, domain) for domain, op in OPERATORS} if has_kernels else set()
    possible = {*COMPUTED, *in_programs} if has_kernels else CLUSTER
    notices = []
    if has_kernels:
        listed = dict.fromkeys((*added, *flags.enable_cluster_ops_only))
        notices += _impossible_operators([name for name in listed if name not in possible])
    notices += _basic_operators((*flags.enable_expand_ops, *flags.enable_expand_ops_only))
    present = [name for name in added if name in possible and name in CLUSTER | in_programs]
    if present:
        notices.append(f"--enable_cluster_ops: {', '.join(present)} may be in areas anyway")
    return notices


def _impossible_operators(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    return [
        f"no kernel computes {', '.join(names)}, so no area has these operators; to have them in "
        "areas without kernels (functions), use --target onnx"
    ]


def _basic_operators(forced: Iterable[str]) -> list[str]:
    """A notice about the operators in `forced` that cannot be expanded."""
    names = dict.fromkeys(forced)
    basic = [name for name in names if onnx.defs.has(name) and not _has_definition(name)]
    if not basic:
        return []
    return [f"ONNX does not define {', '.join(basic)} by other operators, so they are not expanded"]
