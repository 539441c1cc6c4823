"""Load files and installed packages with users' passes, and add the passes to the built-in ones."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from importlib import metadata
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import get_args

from fusionc.custom import replacement
from fusionc.custom.watchdog import watchdog
from fusionc.errors import FusioncError, Terminated, UsageError, said
from fusionc.passes import PASSES
from fusionc.rewrite import Pass, Pattern
from fusionc.rewrite.definition import Default, Kind, Numerics
from fusionc.rewrite.pattern import makers

ENTRY_POINTS = "fusionc.passes"
_ENTRIES: dict[str, list[Pass]] = {}  # entry point → its passes; each is executed once
# file → the passes of the modules that it has imported
_MODULE_PASSES: dict[Path, list[Pass]] = {}
# each module that a file has imported from the folder of the file → that folder
_SIBLING_MODULES: dict[str, Path] = {}
_LOCK = threading.RLock()  # registration is global to the process
_PACKAGE = str(Path(__file__).parents[1])
_LIBRARY = (contextlib.__file__, inspect.__file__, metadata.__file__)


def load_passes(files: Sequence[Path] = ()) -> tuple[Pass, ...]:
    """All passes in the order in which they run: the built-in GraphFusion passes, the users'
    GraphFusion passes, then all UBFusion passes.

    A file is executed. It adds the passes that the file and its imported modules register by
    register_replacement, and the subclasses of Pass that it defines. Installed packages add passes
    by entry points of the group fusionc.passes, which name files or modules. Passes that the
    running program has registered are included.

    Raises UsageError if a file cannot be read or if two passes have the same name, and FusioncError
    if a file fails. Both errors name the file and the line.
    """
    with _LOCK:
        registered = list(replacement.REGISTERED)
        replacement.REGISTERED[:] = registered_elsewhere(files)
        try:
            return _load(files)
        finally:
            replacement.REGISTERED[:] = registered


def registered_elsewhere(files: Sequence[Path]) -> list[Pass]:
    """The passes that the program itself has registered. Passes of `files` do not count, although
    the program may have imported one of these files.
    """
    executed = {file.resolve() for file in files}
    return [p for p in replacement.REGISTERED if _file_of(p).resolve() not in executed]


def _file_of(p: Pass) -> Path:
    return Path(p.place.rpartition(":")[0])


def _load(files: Sequence[Path]) -> tuple[Pass, ...]:
    program = list(replacement.REGISTERED)  # modules that the files import may have registered them
    own = [*program, *_passes_of_packages()]
    for number, file in enumerate(files):
        own += _passes_of_file(file, number, is_empty_allowed=bool(program))
    for p in own:
        _check(p)
        p.is_pattern_fusion = True
    _check_names(own)
    every = (*PASSES, *own)
    return tuple(p for kind in ("GraphFusion", "UBFusion") for p in every if p.kind == kind)


def _passes_of_packages() -> Iterator[Pass]:
    """The passes of installed packages. A module is executed only once."""
    for entry in _entries(tuple(zip(sys.path, map(_changed_at, sys.path), strict=True))):
        if entry.value not in _ENTRIES:
            _ENTRIES[entry.value] = _passes_of(entry.value, entry.load)
        else:
            replacement.REGISTERED += [p for p in _ENTRIES[entry.value] if hasattr(p, "search")]
        yield from _ENTRIES[entry.value]


@lru_cache(maxsize=1)
def _entries(places: tuple[tuple[str, int], ...]) -> tuple[metadata.EntryPoint, ...]:
    """The entry points of installed packages. To find them, Python reads files of all packages,
    which takes a tenth of the time of converting a small model. Therefore the result is cached.
    `places` are the entries of sys.path with the times of their last changes.
    """
    return tuple(metadata.entry_points(group=ENTRY_POINTS))


def _changed_at(place: str) -> int:
    """The time of the last change of a folder; -1 if it does not exist."""
    try:
        return os.stat(place or os.curdir).st_mtime_ns
    except OSError:
        return -1


def _passes_of_file(file: Path, number: int, *, is_empty_allowed: bool) -> list[Pass]:
    """Execute a file and return its passes. Raises UsageError if it cannot be read or has none."""
    if not file.is_file():
        problem = "is not a file" if file.exists() else "does not exist"
        hint = "give the path of a Python file with --custom_passes"
        what = f"the file of custom passes {problem}"
        raise UsageError(what, where=str(file), hint=hint, code="E10410")
    passes = _passes_of(str(file), partial(_execute, file.resolve(), number))
    passes = _add_module_passes(file.resolve(), passes)
    if not passes and not is_empty_allowed:
        hint = "call register_replacement in it, or define a subclass of Pass there"
        what = "the file of custom passes has no pass"
        raise UsageError(what, where=str(file), hint=hint, code="E10001")
    return passes


def _add_module_passes(file: Path, passes: list[Pass]) -> list[Pass]:
    """The passes of a file, and those of modules that it imported when it was first executed. These
    modules are not executed again.
    """
    names = {p.name for p in passes}
    earlier = [p for p in _MODULE_PASSES.get(file, ()) if p.name not in names]
    imported = [p for p in passes if _file_of(p) != file]
    _MODULE_PASSES[file] = [*earlier, *imported]
    return [*earlier, *passes]


def _execute(file: Path, number: int) -> ModuleType:
    name = f"fusionc_custom_{number}"
    module = ModuleType(name)
    loader = SourceFileLoader(name, str(file))  # the file may have any extension
    module.__file__ = str(file)
    sys.modules[name] = module  # inspect and pickle look modules up there
    for other in [
        other
        for other, folder in _SIBLING_MODULES.items()
        if folder != file.parent and _is_sibling(file, other)
    ]:
        sys.modules.pop(other, None)  # the file must import the module in its own folder
        del _SIBLING_MODULES[other]
    modules_before = set(sys.modules)
    # like a script, the file can import files in its folder
    sys.path.insert(0, str(file.parent))
    try:
        with watchdog({file.name: f"{file}:1"}, lambda _: None, "correct the file") as begin:
            begin(file.name)
            exec(compile(loader.get_data(str(file)), str(file), "exec"), vars(module))
    finally:
        sys.path.remove(str(file.parent))
        for other in sys.modules.keys() - modules_before:
            if _is_sibling(file, other):
                _SIBLING_MODULES[other] = file.parent
    return module


def _is_sibling(file: Path, module: str) -> bool:
    """Whether the folder of a file contains a module or package of this name."""
    place = file.parent / module.partition(".")[0]
    return place.is_dir() or place.with_name(f"{place.name}.py").is_file()


def _passes_of(source: str, load: Callable[[], object]) -> list[Pass]:
    """The passes that a file or an entry point registers and defines, in that order."""
    count_before = len(replacement.REGISTERED)
    try:
        loaded = load()
        classes = [loaded] if isinstance(loaded, type) else _own_classes(loaded)
        instances = [_instantiated(member) for member in classes if issubclass(member, Pass)]
    except (FusioncError, Terminated, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        raise _failed(source, f"{error.filename or source}:{error.lineno or 1}", error) from error
    except BaseException as error:  # a user's file may raise anything
        raise _failed(source, _place_of_error(error) or source, error) from error
    return replacement.REGISTERED[count_before:] + instances


def _place_of_error(error: BaseException) -> str:
    """The last line of a user's own code in the traceback of an error; empty if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        f"{frame.filename}:{frame.lineno}"
        for frame in frames
        if not frame.filename.startswith((_PACKAGE, "<")) and frame.filename not in _LIBRARY
    ]
    return own[-1] if own else ""


def _instantiated(member: type[Pass]) -> Pass:
    try:
        instance = member()
    except TypeError as error:
        raise _failed(member.__name__, _place(member), error) from error
    instance.place = _place(member)
    return instance


def _own_classes(module: object) -> list[type]:
    """The subclasses of Pass that a module or one of its submodules defines, except base classes
    without patterns.
    """
    name = getattr(module, "__name__", "")
    classes = [
        member
        for member in vars(module).values()
        if isinstance(member, type)
        and issubclass(member, Pass)
        and f"{member.__module__}.".startswith(f"{name}.")
    ]
    return [
        c
        for c in dict.fromkeys(classes)
        if c.patterns or not any(c in other.__mro__[1:] for other in classes)
    ]


def _place(member: type) -> str:
    try:
        return f"{inspect.getsourcefile(member)}:{inspect.getsourcelines(member)[1]}"
    except (OSError, TypeError):
        return member.__module__


def _failed(source: str, where: str, error: BaseException) -> FusioncError:
    reason = said(error)
    what = f"the custom passes in {source} cannot be loaded: {reason}"
    return FusioncError(what, where=where, hint="correct the file", code="E20007")


def _check(p: Pass) -> None:
    """Raises UsageError if a pass has wrong patterns or settings."""
    hint = 'give it patterns = (Pattern("…", op.…),)'
    problem = ""
    if not _is_tuple_of(p.patterns, Pattern):
        problem = "has patterns that are not a tuple of Pattern"
    elif not p.patterns:
        problem = "has no patterns"
    else:
        hint = "correct the class there"
        problem = _problem_of_settings(p) or next(filter(None, map(_problem, p.patterns)), "")
    if problem:
        raise UsageError(f"the pass {p.name} {problem}", where=p.place, hint=hint, code="E10001")


def _is_tuple_of(members: object, kind: type) -> bool:
    return isinstance(members, tuple | list) and all(isinstance(member, kind) for member in members)


def _problem_of_settings(p: Pass) -> str:
    """The error in the names and settings of a pass; empty if there is none."""
    if len({pattern.name for pattern in p.patterns}) < len(p.patterns):
        return "has two patterns of one name"
    for name, setting, choices in (
        ("kind", p.kind, get_args(Kind)),
        ("default", p.default, get_args(Default)),
        ("numerics", p.numerics, get_args(Numerics)),
    ):
        if setting not in choices:
            return f"has the {name} {setting!r}, which is not one of {', '.join(choices)}"
    return "" if _is_tuple_of(p.aliases, str) else "has aliases that are not a tuple of names"


def _problem(pattern: Pattern) -> str:
    """The error in a pattern; empty if there is none."""
    if (pattern.formula is None) == (pattern.find is None):
        return f"has a pattern {pattern.name} without a formula, or with a find as well"
    try:
        root = pattern.formulas[0] if pattern.find is None else None
        if root is not None and not makers(root):
            kind = type(root).__name__
            return f"has a pattern {pattern.name} that must begin with an operator, not with {kind}"
    except (TypeError, IndexError) as error:
        return f"has a pattern {pattern.name} that cannot be searched: {error}"
    return ""


def _check_names(own: Iterable[Pass]) -> None:
    taken = {name for p in PASSES for name in (p.name, *p.aliases)}
    for p in own:
        for name in (p.name, *p.aliases):
            if name in taken or name in replacement.RESERVED:
                hint = "give it another name"
                problem = (
                    "there are two passes called" if name in taken else "no pass can be called"
                )
                raise UsageError(f"{problem} {name}", where=p.place, hint=hint, code="E10001")
            taken.add(name)
