"""Makers and users of values: in a graph as it is, or as a rewrite would leave it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fusionc.model.graph import Edge, Node


class Wiring:
    """The edges of a graph after nodes are removed, others are added, and values are replaced."""

    def __init__(
        self,
        gone: Collection[Node] = (),
        new: Iterable[Node] = (),
        pairs: Iterable[tuple[Edge, Edge]] = (),
    ) -> None:
        self._gone = gone
        self._instead = dict(pairs)
        self._replaced_by: dict[Edge, list[Edge]] = {}
        self._new_users: dict[Edge, dict[Node, None]] = {}
        for old, made in self._instead.items():
            self._replaced_by.setdefault(made, []).append(old)
        for node in new:
            for value in node.inputs:
                if value is not None:
                    self._new_users.setdefault(value, {})[node] = None

    def maker(self, value: Edge) -> Node | None:
        """The node that makes a value, or its replacement."""
        return self._instead.get(value, value).producer

    def users(self, value: Edge) -> list[Node]:
        """The nodes that read a value, or its replacement."""
        old = dict.fromkeys(
            user for v in self._names(value) for user in v.outputs if user not in self._gone
        )
        return [*old, *self._new_users.get(self._instead.get(value, value), ())]

    def is_output(self, value: Edge) -> bool:
        """Whether a graph hands a value out."""
        return any(v.is_output for v in self._names(value))

    def _names(self, value: Edge) -> list[Edge]:
        current = self._instead.get(value, value)
        return [current, *self._replaced_by.get(current, ())]
