"""The common shape of operands that are broadcast to one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def widest(sizes: Sequence[Any]) -> Any:
    """The size to which the sizes of one axis broadcast; None (unknown) if it is not certain."""
    others = list(dict.fromkeys(size for size in sizes if size != 1))
    numbers = [size for size in others if isinstance(size, int)]
    if numbers or not others:
        return numbers[0] if numbers else 1
    return others[0] if len(others) == 1 else None


def broadcast(
    *shapes: Sequence[Any], rule: Callable[[Sequence[Any]], Any] = widest
) -> tuple[Any, ...]:
    """The shape to which these shapes broadcast. `rule` returns the size of an axis for the sizes
    of that axis in all shapes.
    """
    rank = max(map(len, shapes), default=0)
    padded = [(*[1] * (rank - len(shape)), *shape) for shape in shapes]
    return tuple(rule(sizes) for sizes in zip(*padded, strict=True))
