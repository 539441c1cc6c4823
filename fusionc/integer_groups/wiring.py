"""The producers and consumers of values, in the current graph or in the graph after a rewrite."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fusionc.model.graph import Edge, Node


class Wiring:
    """The edges of a graph after a rewrite: the nodes `gone` are removed, the nodes `new` are
    added, and in each of `pairs` the second value replaces the first.
    """

    def __init__(
        self,
        gone: Collection[Node] = (),
        new: Iterable[Node] = (),
        pairs: Iterable[tuple[Edge, Edge]] = (),
    ) -> None:
        self._gone = gone
        self._replacements = dict(pairs)
        self._replaced_by: dict[Edge, list[Edge]] = {}
        self._new_users: dict[Edge, dict[Node, None]] = {}
        for old, replacement in self._replacements.items():
            self._replaced_by.setdefault(replacement, []).append(old)
        for node in new:
            for value in node.inputs:
                if value is not None:
                    self._new_users.setdefault(value, {})[node] = None

    def maker(self, value: Edge) -> Node | None:
        """The producer of a value, or of its replacement if it has one."""
        return self.current(value).producer

    def current(self, value: Edge) -> Edge:
        """The replacement of a value, or the value itself if it has none."""
        return self._replacements.get(value, value)

    def users(self, value: Edge) -> list[Node]:
        """The consumers of a value, or of its replacement."""
        old = dict.fromkeys(
            user for v in self._names(value) for user in v.outputs if user not in self._gone
        )
        return [*old, *self._new_users.get(self.current(value), ())]

    def only_user(self, value: Edge) -> Node | None:
        """The only consumer of a value. None if it has several, or if it is a graph output."""
        users = self.users(value)
        return users[0] if len(users) == 1 and not self.is_output(value) else None

    def is_output(self, value: Edge) -> bool:
        """Whether a value, or its replacement, is a graph output."""
        return any(v.is_output for v in self._names(value))

    def _names(self, value: Edge) -> list[Edge]:
        current = self.current(value)
        return [current, *self._replaced_by.get(current, ())]
