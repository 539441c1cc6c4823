"""Rewrites in words: name and place, and, for the log and the user, those that were left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fusionc.report.plog import Plog

if TYPE_CHECKING:
    from fusionc.rewrite.log import Commit


_MOST = 24  # nodes in a list: all of a written-out attention; an area may have hundreds
_MOST_IN_ERROR = 12  # nodes in a line that also has the error


def described(commit: Commit) -> str:
    """A rewrite, as an entry of a list."""
    name = f"{commit.pass_name}, pattern {commit.pattern}"
    return f"rewrite {commit.number}, {name}, at {_nodes(commit)}"


def where_of(commit: Commit, place: str | None, total: int | None = None) -> str:
    """The place of a rewrite in an error: one of `total`, if that is known, of a pass with this
    place.
    """
    number = f"(rewrite {commit.number}{'' if total is None else f' of {total}'})"
    words = (
        commit.pass_name,
        place,
        f"pattern {commit.pattern}",
        f"at {_nodes(commit, _MOST_IN_ERROR)} {number}",
    )
    return ", ".join(filter(None, words))


def tell_of_left_out(left_out: Mapping[Commit, str], plog: Plog) -> list[str]:
    """What the user should know of the rewrites that were left out, with the reasons, so that the
    result is right; the log gets a line for each.
    """
    notices = []
    for commit, reason in left_out.items():
        nodes = _nodes(commit)
        place = f"GraphId[{commit.graph_id}], Pass[{commit.pass_name}]: pattern={commit.pattern}"
        plog.warning("Rollback", f"{place}, left_out_times=1, nodes: {nodes}, reason: {reason}.")
        notices.append(f"{commit.pass_name} left {nodes} as it is: {reason}")
    return notices


def _nodes(commit: Commit, most: int = _MOST) -> str:
    more = f" and {len(commit.nodes) - most} more" if len(commit.nodes) > most else ""
    return f"{', '.join(commit.nodes[:most])}{more}" if commit.nodes else "the whole graph"
