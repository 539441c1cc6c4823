"""From the arguments of `fusionc.convert` to `Options`: checked, and typed.

The command line has checked them already; those who call `fusionc.convert` themselves get the same
errors here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fusionc.disk.paths import require_file_place, require_path, require_unread
from fusionc.errors import UsageError, shown
from fusionc.options.option import Option
from fusionc.options.option_table import OPTIONS, Options, paths_in

_NO_MODELS = frozenset(
    {".json", ".html", ".npz", ".npy", ".so", ".dll", ".py", ".txt", ".csv", ".data", ".ort"}
)


def options_of(model: Any, output: Any = None, **others: Any) -> Options:
    """The options that these arguments of `fusionc.convert` mean; the rest has its defaults.

    Raises UsageError for a wrong one and a path that leads nowhere, TypeError for an unknown name.
    """
    if unknown := others.keys() - arguments_of_convert():
        raise TypeError(f"convert has no argument {', '.join(sorted(unknown))}")
    values = {name: _to_typed(OPTIONS[name], value) for name, value in others.items()}
    source = _to_typed(OPTIONS["source"], model)
    require_path(source, "model")
    chosen = None if output is None else _to_typed(OPTIONS["destination"], output)
    options = Options(source=source, destination=output_path(source, chosen), **values)
    _require_places(options)
    return options


def arguments_of_convert() -> set[str]:
    """The names of its arguments."""
    return {option.name for option in OPTIONS.values()}


def _to_typed(option: Option, value: Any) -> Any:
    """The value as `Options` holds it. Raises UsageError for one that the option does not take."""
    if not option.accepts(value):
        what = f"{option.name} is {shown(value)}{option.kind.complaint}"
        raise UsageError(what, hint=f"give {option.advice}", code="E10001")
    return value if value is None and option.default is None else option.kind.convert(value)


def _require_places(options: Options) -> None:
    """Raise UsageError if a path leads nowhere, or if what is read would be written over."""
    if options.inputs is not None:
        require_path(options.inputs, "path of the inputs")
    read = {
        path: option.reads
        for name, option in OPTIONS.items()
        for path in paths_in(getattr(options, name))
        if option.reads
    }
    require_unread(options.destination, "--output", read)
    if options.report is not None:
        require_path(options.report, "page of the report")
        written = {options.destination: "the model to write"}
        require_unread(options.report, "--report", read | written)


def output_path(model: Path, output: Path | None) -> Path:
    """Where the result goes. Raises UsageError for a folder, and for a name that no model has."""
    path = Path(f"{model.stem}_fusionc.onnx") if output is None else output
    if path.suffix.lower() in _NO_MODELS:
        hint = "give --output a name that ends in .onnx, or has no ending"
        what = f"the output is an ONNX model, and its name ends in {path.suffix}"
        raise UsageError(what, where=str(path), hint=hint, code="E10001")
    require_file_place(path, "--output")
    if path.suffix.lower() != ".onnx" and path.name:
        path = path.with_name(f"{path.name}.onnx")
    require_path(path, "output")
    require_file_place(path, "--output")
    if path.is_dir() or (output is not None and output.is_dir()):
        where = str(output or path)
        hint = "give --output another file name"
        raise UsageError("the output is a folder", where=where, hint=hint, code="E10001")
    return path
