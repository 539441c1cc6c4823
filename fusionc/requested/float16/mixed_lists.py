"""--modify_mixlist: which operators a mixed precision lowers to float16 (white list), keeps in
float32 (black list), or computes in the type of the nodes before them (gray list).

The file has ATC's format. It names operators of ONNX, or the types that ATC gives to operators
(types of Ascend IR):

    {"black-list": {"to-add": ["SoftmaxV2"], "to-remove": ["Exp"]},
     "white-list": {"to-add": ["Add"], "to-remove": ["Conv2D"]}}

`to-add` moves an operator from another list to this one, `to-remove` moves it to the gray list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusionc.errors import UsageError, advice
from fusionc.operators.deciding_operators import PRODUCTS
from fusionc.operators.domains import MICROSOFT
from fusionc.operators.facts import Trait, names_with
from fusionc.requested.ascend_operators import (
    is_misspelt,
    known_types,
    onnx_operators,
)
from fusionc.requested.option_file import option_text, wrong_file

OPTION = "--modify_mixlist"
BLACK = "black-list"
WHITE = "white-list"
GRAY = "gray-list"
_LISTS = (BLACK, WHITE, GRAY)
_CHANGES = ("to-add", "to-remove")
_FORM = 'JSON such as {"black-list": {"to-add": ["SoftmaxV2"]}, "white-list": {"to-remove": []}}'
_OF_PRODUCTS = (Trait.RECURRENT, Trait.ATTENTION)
# convolutions, matrix products, and operators that consist of such products
MATRIX_OPERATORS = (
    PRODUCTS | names_with(*_OF_PRODUCTS) | names_with(*_OF_PRODUCTS, domain=MICROSOFT)
)
# Operators whose result or inner sum grows with the size or the number of its operands, or whose
# result changes much with small changes of its operands. These are the operators of
# torch.autocast's list for float32, except Softmax and normalizations, whose results are bounded.
_STEEP = frozenset(
    {
        *("Acos", "Asin", "Cosh", "CumProd", "CumSum", "Exp", "Log", "Pow", "Reciprocal", "Sinh"),
        *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd", "ReduceSum"),
        *("ReduceSumSquare", "Tan"),
    }
)


@dataclass(frozen=True)
class MixedLists:
    """The operators of the black list and the white list; all others are gray."""

    black: frozenset[str] = _STEEP
    white: frozenset[str] = MATRIX_OPERATORS
    added: frozenset[str] = frozenset()  # operators that the user put on the black list
    notices: tuple[str, ...] = ()  # for the user

    @classmethod
    def in_file(cls, path: Path) -> MixedLists:
        """The lists as this file changes them. Raises UsageError if the file has mistakes, and
        FusioncError if it cannot be read.
        """
        changes = _changes_in(path)
        lists = {BLACK: set(_STEEP), WHITE: set(MATRIX_OPERATORS)}
        for name, operators in lists.items():
            removed = changes[name, "to-remove"]
            if missing := removed.keys() - operators:
                raise wrong_file(f"{removed[min(missing)]} is not on the {name}", path, _FORM)
            operators.difference_update(removed, *(changes[one, "to-add"] for one in _LISTS))
            operators.update(changes[name, "to-add"])
        types = {type_ for change in changes.values() for type_ in change.values()}
        foreign = sorted(types.difference(known_types()))
        what = f"{OPTION}: no operator of ONNX corresponds to {', '.join(foreign)}"
        return cls(
            black=frozenset(lists[BLACK]),
            white=frozenset(lists[WHITE]),
            added=frozenset(changes[BLACK, "to-add"]),
            notices=(what,) if foreign else (),
        )


# by list and change: the operators of ONNX, each with the name by which the file means it
_Changes = dict[tuple[str, str], dict[str, str]]


def _changes_in(path: Path) -> _Changes:
    content = _json_in(path)
    changes: _Changes = {(name, what): {} for name in _LISTS for what in _CHANGES}
    for name, what, type_ in _entries(content, path):
        if is_misspelt(type_):
            hint = advice(type_, known_types(), "give a type of Ascend IR or an ONNX operator")
            raise UsageError(
                f"{OPTION} names {type_}, which is not an operator",
                where=str(path),
                hint=hint,
                code="E10001",
            )
        changes[name, what] |= dict.fromkeys(onnx_operators(type_), type_)
    if changes[GRAY, "to-remove"]:
        what = f"{GRAY} has to-remove, which does not say to which list the operators move"
        raise wrong_file(what, path, "to-add of the black list or the white list")
    _require_one_list(changes, path)
    return changes


def _json_in(path: Path) -> Any:
    try:
        return json.loads(option_text(path, OPTION, f"give {_FORM}"))
    except ValueError as error:
        raise wrong_file(f"the file of {OPTION} is not JSON: {error}", path, _FORM) from error


def _entries(content: Any, path: Path) -> Iterator[tuple[str, str, str]]:
    """Each list, change and type in the file."""
    for name, changes in _members(content, _LISTS, path):
        for what, types in _members(changes, _CHANGES, path):
            if not isinstance(types, list) or not all(isinstance(one, str) for one in types):
                raise wrong_file(f"{what} of {name} is not a list of names", path, _FORM)
            yield from ((name, what, type_) for type_ in types)


def _members(value: Any, keys: tuple[str, ...], path: Path) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise wrong_file(f"the file of {OPTION} lacks an object with {keys[0]}", path, _FORM)
    for key, member in value.items():
        if key not in keys:
            hint = advice(key, keys, f"the keys are {', '.join(keys)}")
            what = f"the file of {OPTION} has the key {key}"
            raise UsageError(what, where=str(path), hint=hint, code="E10001")
        yield key, member


def _require_one_list(changes: _Changes, path: Path) -> None:
    """Raise UsageError if to-add of two lists names the same operator."""
    seen = dict[str, str]()
    for name in _LISTS:
        for operator, type_ in changes[name, "to-add"].items():
            if operator in seen:
                what = f"{type_} is in to-add of {seen[operator]} and of {name}"
                raise wrong_file(what, path, "one list for each operator")
            seen[operator] = name
