"""Find the models for the files, folders and patterns of --model, and name their results.

A result has the same subfolders as its model. For the folder models/, models/vision/a.onnx becomes
out/vision/a.onnx. For a pattern, the name of the result begins with the first part that has a
wildcard. For a single file, the result keeps only the file name.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePath

from fusionc.disk.paths import is_same
from fusionc.errors import FusioncError, UsageError

RECORDS = "fusionc_records"  # the folder for logs and records in the output
# Models that --ready writes next to another model. They are not converted.
_READY = re.compile(r"\.[0-9a-f]{16}\.ready\.onnx$")

# An opening bracket that is never closed is not a wildcard.
_WILDCARD = re.compile(r"[*?]|\[.+\]", re.DOTALL)


@dataclass(frozen=True)
class FoundModel:
    """A model, and the name of its result: a path relative to the output folder."""

    source: Path
    name: str


def asks_for_many(paths: Sequence[Path]) -> bool:
    """Whether these paths mean more than one model: several files, a folder, or a pattern."""
    return len(paths) > 1 or any(os.path.isdir(path) or _is_pattern(path) for path in paths)


def find_models(paths: Sequence[Path], output: Path, dumps: Path | None = None) -> list[FoundModel]:
    """The models, sorted by the names of their results. Models in the folders `output` and `dumps`
    are left out, because conversions write to these folders.

    Raises UsageError if a path contains no models, if two results would have the same name, if a
    result would be written over a model, or if the output is not a folder. Raises FusioncError if a
    folder cannot be read.
    """
    if output.exists() and not output.is_dir():
        what = "the results of many models go into a folder, but this is a file"
        raise UsageError(what, where=str(output), hint="give a folder with --output", code="E10001")
    if output.suffix == ".onnx" and not output.exists():
        what = "the results of many models go into a folder, but this is the name of a file"
        raise UsageError(what, where=str(output), hint="give a folder with --output", code="E10001")
    models_by_name: dict[str, Path] = {}
    written = [output] if dumps is None else [output, dumps]
    for path in paths:
        models = list(_models_of(path, written))
        if not models:
            raise _nothing_in(path)
        for source, name in models:
            other = models_by_name.setdefault(name, source)
            if other != source and not is_same(other, source):
                raise _conflict_error(f"two models would be written to {name}", [other, source])
    _require_places(models_by_name, output)
    return [FoundModel(source, name) for name, source in sorted(models_by_name.items())]


def models_in(path: Path) -> Iterator[Path]:
    """The models that one path of --model means."""
    return (source for source, _ in _models_of(path, ()))


def _models_of(path: Path, written: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """The models that one path of --model means, each with the name of its result."""
    if path.is_dir():
        root = path
        matches = [path]
    elif _is_pattern(path):
        root = _fixed_part(path)
        matches = [Path(match) for match in sorted(glob.glob(os.fspath(path), recursive=True))]
    else:
        yield path, _result_name(path.name)
        return
    own = map(os.path.realpath, written)
    base = os.path.realpath(root)
    left_out = {folder for folder in own if folder != base and _is_in(folder, base)}
    for match in matches:
        for source in _walk(match, left_out):
            yield source, source.relative_to(root).as_posix()


def _walk(path: Path, left_out: Collection[str], above: Collection[str] = ()) -> Iterator[Path]:
    """The models at or below a path. Links are followed, unless they lead back to a folder in
    `above`. The folders `left_out` are skipped.
    """
    real = os.path.realpath(path)
    if real in above or any(_is_in(real, folder) for folder in left_out):
        return
    if not path.is_dir():
        if path.suffix.lower() == ".onnx" and not _READY.search(path.name):
            yield path
        return
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        what = f"the folder cannot be read: {error.strerror}"
        hint = "check its permissions, or name the other folders"
        raise FusioncError(what, where=str(path), hint=hint, code="E13003") from error
    for name in names:
        if not name.startswith("."):
            yield from _walk(path / name, left_out, {*above, real})


def _is_in(path: str, folder: str) -> bool:
    return PurePath(path).is_relative_to(folder)


def _is_pattern(path: Path) -> bool:
    return bool(_WILDCARD.search(os.fspath(path))) and not os.path.lexists(path)


def _fixed_part(pattern: Path) -> Path:
    """The folder that precedes the first wildcard. The names of results are relative to this
    folder.
    """
    return Path(*takewhile(lambda part: not _WILDCARD.search(part), pattern.parts))


def _result_name(name: str) -> str:
    return name if name.lower().endswith(".onnx") else f"{name}.onnx"


def _require_places(sources_by_name: Mapping[str, Path], output: Path) -> None:
    """Raise UsageError if a result would replace a model or another result, if it would have the
    same path as a folder of other results, or if it would be in the folder of the records.
    """
    sources = {os.path.realpath(source): source for source in sources_by_name.values()}
    results = dict[str, Path]()
    for name, source in sources_by_name.items():
        place = os.path.realpath(output / name)
        other = results.setdefault(place, source)
        if other != source:
            raise _conflict_error(f"two models would be written to {place}", [other, source])
        for folder in PurePath(name).parents:
            model_there = sources_by_name.get(folder.as_posix())
            if model_there is not None:
                raise _conflict_error(
                    f"{folder} would be both a model and a folder of other models",
                    [model_there, source],
                )
        if PurePath(name).parts[0] == RECORDS:
            what = f"the folder {RECORDS} of the output is reserved for logs and records"
            hint = "give the folder another name"
            raise UsageError(what, where=str(source), hint=hint, code="E10001")
        model = sources.get(place)
        if model is not None:
            what = "a result would be written over a model; models are only read"
            raise UsageError(
                what, where=str(model), hint="give another folder with --output", code="E10001"
            )


def _nothing_in(path: Path) -> UsageError:
    if path.is_dir():
        what = "there is no ONNX model in the folder"
        hint = "the names of models end in .onnx; name other files one by one"
    else:
        what = "no ONNX model matches the pattern"
        hint = "the names of models end in .onnx; use ** to include subfolders"
    return UsageError(what, where=str(path), hint=hint, code="E10410")


def _conflict_error(what: str, models: Sequence[Path]) -> UsageError:
    hint = (
        "give a common parent folder as --model, because its subfolders are kept, or convert the "
        "models into different folders"
    )
    return UsageError(what, where=", ".join(map(str, models)), hint=hint, code="E10001")
