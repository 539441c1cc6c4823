"""Descriptions of rewrites for lists, errors, notices and the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fusionc.report.plog import Plog

if TYPE_CHECKING:
    from fusionc.rewrite.log import Commit


# The largest number of node names in a description. An attention that is written as separate
# operators has up to 24 nodes; a group of operators that becomes one kernel may have hundreds.
_MAX_NODES = 24
_MAX_NODES_IN_ERROR = 12


def described(commit: Commit) -> str:
    """The description of a rewrite for a list."""
    name = f"{commit.pass_name}, pattern {commit.pattern}"
    return f"rewrite {commit.number}, {name}, at {_nodes(commit)}"


def where_of(commit: Commit, place: str | None, total: int | None = None) -> str:
    """The description of a rewrite for an error. `place` is where the user's own pass is defined,
    if the pass is the user's. `total` is the number of all rewrites.
    """
    number = f"(rewrite {commit.number}{'' if total is None else f' of {total}'})"
    words = (
        commit.pass_name,
        place,
        f"pattern {commit.pattern}",
        f"at {_nodes(commit, _MAX_NODES_IN_ERROR)} {number}",
    )
    return ", ".join(filter(None, words))


def tell_of_left_out(left_out: Mapping[Commit, str], plog: Plog) -> list[str]:
    """Return a notice for each rewrite that was left out because the result was wrong with it. A
    notice gives the reason. Log a line for each rewrite, too.
    """
    notices = []
    for commit, reason in left_out.items():
        nodes = _nodes(commit)
        place = f"GraphId[{commit.graph_id}], Pass[{commit.pass_name}]: pattern={commit.pattern}"
        plog.warning("Rollback", f"{place}, left_out_times=1, nodes: {nodes}, reason: {reason}.")
        notices.append(f"{commit.pass_name} left {nodes} as it is: {reason}")
    return notices


def _nodes(commit: Commit, most: int = _MAX_NODES) -> str:
    more = f" and {len(commit.nodes) - most} more" if len(commit.nodes) > most else ""
    return f"{', '.join(commit.nodes[:most])}{more}" if commit.nodes else "the whole graph"
