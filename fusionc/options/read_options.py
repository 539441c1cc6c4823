"""Turn the arguments of `fusionc.convert` into `Options`, checked and typed.

The command line has already checked its values. Callers of `fusionc.convert` get the same errors
from here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fusionc.disk.paths import require_file_place, require_path, require_unread
from fusionc.errors import UsageError, shown
from fusionc.options.option import Option
from fusionc.options.option_table import OPTIONS, Options, paths_in

# endings that the name of an ONNX model cannot have
_OTHER_SUFFIXES = frozenset(
    {".json", ".html", ".npz", ".npy", ".so", ".dll", ".py", ".txt", ".csv", ".data", ".ort"}
)


def options_of(model: Any, output: Any = None, **others: Any) -> Options:
    """The options from these arguments of `fusionc.convert`; other options have their defaults.

    Raises UsageError for a wrong value and for a path whose folder does not exist, and TypeError
    for an unknown argument.
    """
    if unknown := others.keys() - arguments_of_convert():
        raise TypeError(f"convert has no argument {', '.join(sorted(unknown))}")
    values = {name: _to_typed(OPTIONS[name], value) for name, value in others.items()}
    source = _to_typed(OPTIONS["source"], model)
    require_path(source, "model")
    chosen = None if output is None else _to_typed(OPTIONS["destination"], output)
    options = Options(source=source, destination=output_path(source, chosen), **values)
    contradictions = {
        "--require_verification is given, and the verification is off": (
            options.require_verification and not options.verify
        ),
        "--precision_mode and --precision_mode_v2 are both given": (
            options.precision_mode is not None and options.precision_mode_v2 is not None
        ),
    }
    for what in (what for what, is_so in contradictions.items() if is_so):
        hint = "leave out one of the two"
        raise UsageError(what, where="the options", hint=hint, code="E10001")
    _require_places(options)
    return options


def arguments_of_convert() -> set[str]:
    """The names of the arguments of `fusionc.convert`."""
    return {option.name for option in OPTIONS.values()}


def _to_typed(option: Option, value: Any) -> Any:
    """The value as `Options` holds it. Raises UsageError if the option does not accept it."""
    if not option.accepts(value):
        what = f"{option.name} is {shown(value)}{option.kind.complaint}"
        raise UsageError(what, hint=f"give {option.advice}", code="E10001")
    return value if value is None and option.default is None else option.kind.convert(value)


def _require_places(options: Options) -> None:
    """Raise UsageError if the folder of a file to write does not exist, or if the conversion would
    overwrite a file that it reads.
    """
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
    """The path of the result. Raises UsageError for a folder, and for an ending that models do not
    have.
    """
    path = Path(f"{model.stem}_fusionc.onnx") if output is None else output
    if path.suffix.lower() in _OTHER_SUFFIXES:
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
