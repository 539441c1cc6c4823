"""Laws that hold for many items, such as all files or all passes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any

import pytest


def for_each(items: Iterable[Any], name: Callable[[Any], str]) -> Callable[..., Any]:
    """Makes one test of a law: it fails with the names of all items that break the law.

    With hundreds of items, most of the time of hundreds of tests would be pytest's own.
    """

    def test_of(law: Callable[..., None]) -> Callable[..., None]:
        def test(*instance: object) -> None:
            breaches = []
            for item in items:
                try:
                    law(*instance, item)
                except AssertionError as error:
                    breaches.append(f"{name(item)}: {error}")
                except Exception as error:
                    error.add_note(f"of {name(item)}")
                    raise
            if breaches:
                pytest.fail("\n".join(breaches), pytrace=False)

        wraps(law)(test)
        del vars(test)["__wrapped__"]  # pytest would take the item for a fixture
        return test

    return test_of


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """All statements of a module, including those in other statements. ast.walk visits ten times as
    many nodes.
    """
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, field, ())
