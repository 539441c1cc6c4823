"""ATC's modes that convert nothing: 1 writes a model as JSON, 3 checks a model, 6 shows facts about
a model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from fusionc.cli.files import FilePath, write_text
from fusionc.disk.paths import require_unread
from fusionc.errors import FusioncError, UsageError
from fusionc.report.environment import variable

_Decorated = TypeVar("_Decorated", bound=Callable[..., object])
_FILE = FilePath()
_OM_SIGNATURE = b"IMOD"  # the first bytes of the .om files that ATC writes
_OPTIONS = (
    click.option(
        "--mode",
        type=click.Choice(["0", "1", "3", "6"]),
        default="0",
        show_default=True,
        help="0: convert. 1: write the model as JSON to the file --json, without weights above "
        "1 KiB. 3: only check whether each operator runs on the target. 6: show facts about the "
        "model.",
    ),
    click.option(
        "--om",
        type=_FILE,
        metavar="FILE",
        help="ATC's name for --model with --mode 1 and --mode 6.",
    ),
    click.option(
        "--json", "json_file", type=_FILE, metavar="FILE", help="The file that --mode 1 writes."
    ),
    click.option(
        "--dump_mode",
        type=click.Choice(["0", "1"]),
        default="0",
        help="1: with --mode 1, also write the inferred shapes.",
    ),
    click.option(
        "--check_report",
        type=_FILE,
        metavar="FILE",
        help="The file that --mode 3 writes. Default: check_result.json.",
    ),
)

_OPTIONS_OF_OTHER_MODES = {"json_file", "dump_mode", "check_report"}
_COMMON_OPTIONS = {"mode", "models", "framework", "log"}
# the options that each mode uses; None means all options except those of other modes
_USED_OPTIONS = {
    "0": None,
    "1": _COMMON_OPTIONS | {"om", "json_file", "dump_mode"},
    "3": _COMMON_OPTIONS | {"check_report", "target"},
    "6": _COMMON_OPTIONS | {"om"},
}


def mode_options(command: _Decorated) -> _Decorated:
    """A decorator that adds --mode and the options of ATC's other modes."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def unused_options(ctx: click.Context, mode: str) -> list[str]:
    """The given options that this mode does not use."""
    used = _USED_OPTIONS[mode]
    options = [p for p in ctx.command.params if p.expose_value and p.name]
    given = [
        p for p in options if ctx.get_parameter_source(p.name or "") is ParameterSource.COMMANDLINE
    ]
    return [
        p.opts[0]
        for p in given
        if (p.name in _OPTIONS_OF_OTHER_MODES if used is None else p.name not in used)
    ]


def model_of_mode(
    ctx: click.Context, mode: str, model: Path | None, om: Path | None, json_file: Path | None
) -> Path:
    """The path of the model for this mode. ATC's option for the path is --model in modes 0 and 3,
    and --om in modes 1 and 6.

    Raises click.UsageError if an option is missing, and UsageError for a model compiled by ATC.
    """
    takes_om = mode in ("1", "6")
    if mode == "1" and json_file is None:
        raise click.UsageError("--mode 1 needs --json FILE.", ctx)
    if om is not None and not takes_om:
        raise click.UsageError("--om is for --mode 1 and 6; give the model as --model.", ctx)
    if om is not None and model not in (None, om):
        raise click.UsageError("--om and --model name different files; give one.", ctx)
    if om is not None and _is_compiled(om):
        what = "the model is a compiled model of ATC"
        hint = "give the ONNX model from which ATC compiled it"
        raise UsageError(what, where=str(om), hint=hint, code="E10001")
    chosen = om or model
    if chosen is None:
        name = "--om' or '--model" if takes_om else "--model"
        raise click.MissingParameter(ctx=ctx, param_hint=f"'{name}'", param_type="option")
    return chosen


def show_information(model: Path, notes: Sequence[str]) -> None:
    """Mode 6: show facts about the model."""
    from fusionc.disk.load import load
    from fusionc.report.model_info import information
    from fusionc.report.table import show_facts

    show_facts([*information(load(model)), *(("notice", note) for note in notes)], sys.stdout)


def write_json(model: Path, file: Path, notes: Sequence[str], *, shapes: bool) -> None:
    """Mode 1: write the model as JSON."""
    from fusionc.disk.load import load
    from fusionc.report.model_info import model_as_json
    from fusionc.report.table import show_facts

    require_unread(file, "--json", {model: "the model itself"})
    write_text(file, model_as_json(load(model), shapes=shapes))
    show_facts(_facts(file, notes), sys.stdout)


def check(model: Path, check_report: Path | None, target: str, notes: Sequence[str]) -> None:
    """Mode 3: check the model. Raises FusioncError if the model would not run."""
    from fusionc.inspect.precheck import precheck
    from fusionc.report.table import show_facts, show_table

    file = check_report or Path(variable("WORK_PATH") or "", "check_result.json")
    require_unread(file, "--check_report", {model: "the model itself"})
    result = precheck(model, target)
    write_text(file, json.dumps(result, indent=4, ensure_ascii=False) + "\n")
    failed = [
        [entry["name"], entry["type"], " ".join(cause["message"].split())]
        for entry in result["op"]
        for cause in entry.get("cause", ())
    ]
    if failed:
        show_table(["node", "operator", "because"], failed, sys.stdout)
    count = f"{result['total']}: {result['pass']} pass, {result['fail']} fail"
    if result.get("cause") and not failed:
        count += ", and the model as a whole fails"
    show_facts([("operators", count), *_facts(file, notes)], sys.stdout)
    if result["result"] != "success":
        raise _check_failure(result, has_failed_operators=bool(failed), target=target, file=file)


def _check_failure(
    result: Mapping[str, Any], *, has_failed_operators: bool, target: str, file: Path
) -> FusioncError:
    causes = [cause["message"] for cause in result.get("cause", ())]
    if has_failed_operators:
        causes.insert(0, f"{result['fail']} of {result['total']} operators do not run")
    hint = "the file says why; export the model again"
    if has_failed_operators and target != "onnx":
        hint = "the file says why; --target onnx checks for any runtime"
    what = f"the model fails the check: {'; '.join(causes)}"
    return FusioncError(what, where=str(file), hint=hint, code="E19010")


def _facts(file: Path, notes: Sequence[str]) -> list[tuple[str, str]]:
    return [("output", str(file)), *(("notice", note) for note in notes)]


def _is_compiled(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_OM_SIGNATURE)) == _OM_SIGNATURE
    except OSError:  # the next reader reports it
        return False
