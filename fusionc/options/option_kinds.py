"""The kinds of options: which arguments are valid in Python, and how a command line spells them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from fusionc.requested.dimension_size import DimensionSize


def _unchanged(value: Any) -> Any:
    return value


@dataclass(frozen=True, eq=False)
class Kind:
    """Which values an option takes. None does not belong to a kind: `Option` says whether an option
    takes it.
    """

    accepts: Callable[[Any], bool]  # whether a value is a valid argument in Python
    convert: Callable[[Any], Any] = _unchanged  # from the argument to the value in `Options`
    spell: Callable[[Any], str] = str  # from the value in `Options` to its text in a command
    give: str = ""  # what to give instead of a wrong value, unless the option says it
    metavar: str | None = None  # the form of the value on a command line, unless the option says it
    complaint: str = ""  # follows "NAME is VALUE" in an error
    repeats: bool = False  # for several values, a command line has the option several times
    stands_alone: bool = False  # a command line has the option without a value
    joins: bool = False  # a command line has --NAME=VALUE in one argument


def say_nothing(_: str) -> None:
    """The default of a callback: does nothing."""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_path(value: object) -> bool:
    return isinstance(value, str | os.PathLike)


def _are_paths(value: Any) -> bool:
    is_list = isinstance(value, Sequence | Set) and not isinstance(value, str)
    return is_list and all(map(_is_path, value))


def _are_several(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str)


def _is_bool(value: object) -> bool:
    """Whether this is True or False. Text is refused, because "false" would count as True."""
    return isinstance(value, bool)


def _is_limit(value: object) -> bool:
    return isinstance(value, int | float) and not _is_bool(value) and 0 <= value <= 1e9


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not _is_bool(value) and 0 < value <= 1


def _is_positive(value: object) -> bool:
    return isinstance(value, int) and value > 0


def _are_shapes(value: object) -> bool:
    """Whether this is a mapping from input names to sequences of integers."""
    return isinstance(value, Mapping) and all(
        _is_list(shape) and all(isinstance(size, int) for size in shape) for shape in value.values()
    )


def _are_sizes(value: object) -> bool:
    """Whether this is a mapping from input names to sequences of integers and ranges. A range is
    a pair of integers.
    """
    return isinstance(value, Mapping) and all(
        _is_list(shape) and all(map(_is_size, shape)) for shape in value.values()
    )


def _are_integers(value: object) -> bool:
    return _is_list(value) and all(isinstance(size, int) for size in value)


def _are_profiles(value: object) -> bool:
    return _is_list(value) and all(map(_are_integers, value))


def _spell_integers(sizes: Sequence[int]) -> str:
    return ",".join(map(str, sizes))


def _spell_profiles(profiles: Sequence[Sequence[int]]) -> str:
    return ";".join(map(_spell_integers, profiles))


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_size(size: object) -> bool:
    pair = size if isinstance(size, tuple) else (size, size)
    return len(pair) == 2 and all(isinstance(bound, int) for bound in pair)


def _spell_shapes(shapes: Mapping[str, Sequence[DimensionSize]]) -> str:
    return ";".join(f"{name}:{','.join(map(_spell, shape))}" for name, shape in shapes.items())


def _spell(size: DimensionSize) -> str:
    return f"{size[0]}~{size[1]}" if isinstance(size, tuple) else str(size)


def _are_axes_by_name(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_are_axes, value.values()))


def _are_axes(axes: Any) -> bool:
    """Whether this is a sequence of axes, or a mapping from axes to symbols."""
    if isinstance(axes, Mapping):
        return all(isinstance(a, int) and isinstance(s, str) for a, s in axes.items())
    return _is_list(axes) and all(isinstance(axis, int) for axis in axes)


def _symbols(axes: Mapping[str, Any]) -> dict[str, dict[int, str]]:
    """The symbol of each axis, by input name and axis. The symbol is empty if none was given."""
    return {
        name: dict(one) if isinstance(one, Mapping) else dict.fromkeys(one, "")
        for name, one in axes.items()
    }


def _spell_axes(symbols: Mapping[str, Mapping[int, str]]) -> str:
    def axes(by_axis: Mapping[int, str]) -> str:
        return ",".join(f"{axis}={name}" if name else str(axis) for axis, name in by_axis.items())

    return ";".join(f"{name}:{axes(by_axis)}" for name, by_axis in symbols.items())


def _are_names(value: object) -> bool:
    return isinstance(value, str | Sequence) and all(map(_is_text, value))


def _spell_names(names: str | Sequence[str]) -> str:
    return names if isinstance(names, str) else ";".join(names)


def file_or_names(value: Any) -> Any:
    """A Path if the value is a path object or the path of an existing file. Otherwise the value
    itself, which then contains names.
    """
    is_file = _is_path(value) and os.path.isfile(value)
    return Path(value) if is_file or isinstance(value, os.PathLike) else value


def _spell_names_or_file(value: Any) -> str:
    return os.fspath(value) if _is_path(value) else _spell_names(value)


def _are_types(value: object) -> bool:
    """Whether this is one text for all outputs, or a mapping from output names to types."""
    if isinstance(value, Mapping):
        return all(map(_is_text, (*value, *value.values())))
    return _is_text(value)


def _spell_types(types: str | Mapping[str, str]) -> str:
    return types if isinstance(types, str) else ";".join(map(":".join, types.items()))


def _spell_bool(value: bool) -> str:
    return str(value).lower()


def _spell_number(value: float) -> str:
    return f"{value:g}"


_BOOL = "True or False"
_SHAPE = '"x:1,3,224,224"'
_NOT_SHAPES = ", not shapes by input name"

TEXT = Kind(_is_text)
# text that may begin with "--": --NAME=VALUE keeps it from being read as an option
WORDS = Kind(_is_text, joins=True)
CHOICE = Kind(lambda value: True)
CHOICES = Kind(_are_several, tuple, repeats=True)
FILE = Kind(_is_path, Path, give="the path of a file", metavar="FILE", complaint=", not a path")
FILES = Kind(_are_paths, lambda files: tuple(map(Path, files)), metavar="FILE", repeats=True)
# --NAME=true|false; OPEN_SWITCH also allows --NAME without a value
SWITCH = Kind(_is_bool, spell=_spell_bool, give=_BOOL, metavar="true|false", joins=True)
OPEN_SWITCH = Kind(_is_bool, spell=_spell_bool, give=_BOOL, metavar="[true|false]", joins=True)
FLAG = Kind(_is_bool, give=_BOOL, stands_alone=True)  # --NAME means True
NEGATED_FLAG = Kind(_is_bool, give=_BOOL, stands_alone=True)  # --no-NAME means False
OPSET = Kind(_is_positive, metavar="N")
SHARE = Kind(_is_share, spell=_spell_number, metavar="SHARE")
SECONDS = Kind(_is_limit, spell=_spell_number, metavar="SECONDS")
AMOUNT = Kind(_is_limit, spell=_spell_number, metavar="BILLIONS")
SIZES = Kind(_are_sizes, spell=_spell_shapes, metavar=_SHAPE, complaint=_NOT_SHAPES)
SHAPES = Kind(_are_shapes, spell=_spell_shapes, metavar=_SHAPE, complaint=_NOT_SHAPES)
INTEGERS = Kind(_are_integers, spell=_spell_integers, metavar='"1,2,4"')
PROFILES = Kind(_are_profiles, spell=_spell_profiles, metavar='"224,224;448,448"')
AXES = Kind(_are_axes_by_name, _symbols, _spell_axes, complaint=", not axes by input name")
NAMES = Kind(_are_names, spell=_spell_names)
NAMES_OR_FILE = Kind(
    lambda value: _is_path(value) or _are_names(value), file_or_names, _spell_names_or_file
)
TYPES = Kind(_are_types, spell=_spell_types)
FUNCTION = Kind(lambda value: value is None or callable(value), lambda value: value or say_nothing)
