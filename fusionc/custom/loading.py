"""Files and installed packages with users' passes → the registry with those passes at their places."""

from __future__ import annotations

import functools
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from pathlib import Path
from types import ModuleType

from fusionc.custom import replacement
from fusionc.errors import FusioncError, UsageError
from fusionc.passes import PASSES
from fusionc.rewrite import Pass, UBFusionPass

ENTRY_POINTS = "fusionc.passes"


def load_passes(files: Sequence[Path] = ()) -> tuple[Pass, ...]:
    """All passes in the order in which they run: users' GraphFusion passes behind the built-in ones, then UBFusion.

    A file is executed; its passes are those that it registers by register_replacement, and the subclasses of Pass
    that it defines. Packages register files or modules of theirs as entry points of the group fusionc.passes.

    Raises UsageError where a file cannot be read or two passes have one name, FusioncError where a file fails; both
    name the file and the line.
    """
    replacement.REGISTERED.clear()
    own: list[Pass] = []
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        own += _passes_of(entry.value, entry.load)
    for number, file in enumerate(files):
        if not file.is_file():
            hint = "give the path of a Python file with --custom_passes"
            raise UsageError("the file of custom passes does not exist", where=str(file), hint=hint, code="E10410")
        own += _passes_of(str(file), functools.partial(_execute, file, number))
    _check_names(own)
    for p in own:
        p.is_pattern_fusion = True
    ordinary = [p for p in own if p.kind == "GraphFusion"]
    built_in = [p for p in PASSES if p.kind == "GraphFusion"]
    return (*built_in, *ordinary, *(p for p in (*PASSES, *own) if p.kind == "UBFusion"))


def _execute(file: Path, number: int) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"fusionc_custom_{number}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # so that inspect and pickle find what it defines
    spec.loader.exec_module(module)
    return module


def _passes_of(source: str, load: Callable[[], object]) -> list[Pass]:
    """What a file or an entry point brings along, in the order in which it does."""
    before = len(replacement.REGISTERED)
    try:
        module = load()
    except FusioncError:
        raise
    except SyntaxError as error:
        raise _failed(source, f"{error.filename}:{error.lineno}", error) from error
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise _failed(source, f"{frame.filename}:{frame.lineno}", error) from error
    found = replacement.REGISTERED[before:]
    for member in vars(module).values():
        is_own = isinstance(member, type) and member.__module__ == getattr(module, "__name__", "")
        if is_own and issubclass(member, Pass) and member not in (Pass, UBFusionPass):
            found.append(member())
    return found


def _failed(source: str, where: str, error: Exception) -> FusioncError:
    what = f"the custom passes in {source} cannot be loaded: {type(error).__name__}: {error}"
    return FusioncError(what, where=where, hint="correct the file", code="E20007")


def _check_names(own: Iterable[Pass]) -> None:
    taken = {name for p in PASSES for name in (p.name, *p.aliases)}
    for p in own:
        for name in (p.name, *p.aliases):
            if name in taken:
                hint = "give it another name"
                raise UsageError(f"there are two passes called {name}", where=p.summary, hint=hint, code="E10001")
            taken.add(name)
        if not p.patterns:
            hint = 'give it patterns = (Pattern("…", op.…),)'
            raise UsageError(f"the pass {p.name} has no patterns", where=p.name, hint=hint, code="E10001")
