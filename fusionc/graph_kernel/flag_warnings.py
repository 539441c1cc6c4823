"""What is wrong with flags that could be read: names that nothing has, and lists that change
nothing.
"""

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
    """A warning for each entry of enable_pass and disable_pass that is the name of no pass."""
    names = [*(names_of(p) for p in passes), *(p.names for p in STAGE_PASSES)]
    known = dict.fromkeys(name for own in names for name in own)
    found = []
    for which, listed in (("enable", flags.enable_pass), ("disable", flags.disable_pass)):
        for name in listed:
            if name not in known:
                near = _called(name, known) if name[0].isalpha() else []
                advice = f" Did you mean {' or '.join(map(quote, near))}?" if near else ""
                found.append(f'graph kernel pass {which} flag "{name}" is not valid!{advice}')
    return found


def _called(name: str, known: Iterable[str]) -> list[str]:
    """The full names of the stage passes of which only the last part was given, else the name most
    like it.
    """
    near = nearest(name, known)
    return [p.names[1] for p in STAGE_PASSES if p.name == name] or ([near] if near else [])


def unknown_operators(flags: Flags) -> list[str]:
    """A warning for each name in a list of operators that is none of ONNX's. With a domain, it may
    be anybody's.
    """
    listed = flags.entries("_ops", "_ops_only")
    wrong = [(which, name) for which, name in listed if "." not in name and not onnx.defs.has(name)]
    known = (
        sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})
        if wrong
        else []
    )
    found = []
    for which, name in wrong:
        reason = why_not_in_onnx(name)
        near = None if reason else nearest(name, known)
        advice = f": {reason}" if reason else f"; did you mean {quote(near)}?" if near else ""
        found.append(f'the flag "--{which}": ONNX has no operator "{name}"{advice}')
    return found


def unknown_patterns(flags: Flags) -> list[str]:
    """A warning for each entry of enable_fusion_pattern_only and disable_fusion_pattern that is
    part of no name.
    """
    known = [pattern.name for pattern in SPLIT_PATTERNS]
    return [
        f'the flag "--{which}": no split pattern has "{part}" in its name; they are {", ".join(known)}'
        for which, part in flags.entries("_fusion_pattern", "_fusion_pattern_only")
        if not any(part in name for name in known)
    ]


def unknown_rules(registry: Mapping[str, Pass], flags: Flags) -> list[str]:
    """A warning for each entry of enable_simplify_exprs_only and disable_simplify_exprs that is no
    rule's id.
    """
    known = {
        pattern.name for name in (EXACT_RULES, INEXACT_RULES) for pattern in registry[name].patterns
    }
    return [
        f'the flag "--{which}": there is no rule "{name}" here; "fusionc passes {EXACT_RULES}" and "fusionc passes '
        f'{INEXACT_RULES}" list their patterns, which are the rules'
        for which, name in flags.entries("_simplify_exprs", "_simplify_exprs_only")
        if name not in known
    ]


def _has_definition(name: str) -> bool:
    return name == SQUARE or is_composite(name, "", onnx.defs.onnx_opset_version())


def needless_lists(flags: Flags, has_kernels: bool) -> list[str]:
    """A notice for each list that adds operators which are there already, or cannot be there, and
    why.
    """
    added = [name for name in flags.enable_cluster_ops if not flags.enable_cluster_ops_only]
    in_programs = {qualified(op, domain) for domain, op in OPERATORS}
    impossible = [
        name
        for name in (*added, *flags.enable_cluster_ops_only)
        if has_kernels and name not in COMPUTED and name not in in_programs
    ]
    there = [name for name in added if name in CLUSTER or (has_kernels and name in in_programs)]
    found = []
    if impossible:
        what = f"no kernel computes {', '.join(dict.fromkeys(impossible))}, so that no area has it"
        found.append(f"{what}; with --target onnx, areas are functions without kernels, and may")
    forced = [*flags.enable_expand_ops, *flags.enable_expand_ops_only]
    if basic := [
        name for name in dict.fromkeys(forced) if onnx.defs.has(name) and not _has_definition(name)
    ]:
        found.append(
            f"ONNX has no definition of {', '.join(basic)} by other operators: nothing to expand"
        )
    if there:
        found.append(f"--enable_cluster_ops: {', '.join(there)} may be in areas anyway")
    return found
