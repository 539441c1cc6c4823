"""Disjoint sets of nodes or of values, which are joined one after the other."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

_Item = TypeVar("_Item", bound=Hashable)


class DisjointSets(Generic[_Item]):
    """Sets of items. At first each item is a set by itself."""

    def __init__(self) -> None:
        self._above: dict[_Item, _Item] = {}

    def root(self, item: _Item) -> _Item:
        """The item that identifies the set of this item."""
        while (above := self._above.get(item, item)) is not item:
            self._above[item] = self._above.get(above, above)
            item = above
        return item

    def join(self, *items: _Item) -> None:
        """Merge the sets of these items into one set."""
        roots = [self.root(item) for item in items]
        for root in roots[1:]:
            self._above[root] = roots[0]

    def sets(self, items: Iterable[_Item]) -> Iterator[list[_Item]]:
        """The sets of these items. Each set has its items in their order."""
        by_root: dict[_Item, list[_Item]] = {}
        for item in items:
            by_root.setdefault(self.root(item), []).append(item)
        yield from by_root.values()
