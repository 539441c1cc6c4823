"""ATC's modes that convert nothing: 1 writes a model as JSON, 3 checks it, 6 shows what it
holds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import click
from click.core import ParameterSource

from fusionc.cli.files import FilePath, write_text
from fusionc.disk.paths import require_unread
from fusionc.errors import FusioncError, UsageError
from fusionc.report.environment import variable

_Decorated = TypeVar("_Decorated", bound=Callable[..., object])
_FILE = FilePath()
_MARK_OF_OM = b"IMOD"  # how the files begin that ATC makes
_OPTIONS = (
    click.option(
        "--mode",
        type=click.Choice(["0", "1", "3", "6"]),
        default="0",
        show_default=True,
        help="0 convert; 1 write the model to --json, without weights above 1 KiB; 3 only check "
        "whether each operator "
        "runs on the target; 6 show what the model holds.",
    ),
    click.option(
        "--om",
        type=_FILE,
        metavar="FILE",
        help="The model of --mode 1 and 6, as ATC calls it there.",
    ),
    click.option(
        "--json", "json_file", type=_FILE, metavar="FILE", help="The file that --mode 1 writes."
    ),
    click.option(
        "--dump_mode",
        type=click.Choice(["0", "1"]),
        default="0",
        help="1: --mode 1 writes inferred shapes, too.",
    ),
    click.option(
        "--check_report",
        type=_FILE,
        metavar="FILE",
        help="The file that --mode 3 writes. Default: check_result.json.",
    ),
)

_OF_OTHER_MODES = {"json_file", "dump_mode", "check_report"}
_ALWAYS = {"mode", "models", "framework", "log"}
_KNOWN = {  # the options that have a meaning, None for all but those of other modes
    "0": None,
    "1": _ALWAYS | {"om", "json_file", "dump_mode"},
    "3": _ALWAYS | {"check_report", "target"},
    "6": _ALWAYS | {"om"},
}


def mode_options(command: _Decorated) -> _Decorated:
    """The options that say what is done instead of a conversion."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def of_no_use(ctx: click.Context, mode: str) -> list[str]:
    """The options that were given and that this mode has no use for."""
    known = _KNOWN[mode]
    options = [p for p in ctx.command.params if p.expose_value and p.name]
    given = [
        p for p in options if ctx.get_parameter_source(p.name or "") is ParameterSource.COMMANDLINE
    ]
    return [
        p.opts[0]
        for p in given
        if (p.name in _OF_OTHER_MODES if known is None else p.name not in known)
    ]


def model_of_mode(
    ctx: click.Context, mode: str, model: Path | None, om: Path | None, json_file: Path | None
) -> Path:
    """The model that the mode is about: ATC calls it --model where it is converted or checked, --om
    elsewhere.

    Raises click.UsageError where an option is missing, UsageError for a model that ATC has
    compiled.
    """
    if mode == "1" and json_file is None:
        raise click.UsageError("--mode 1 needs --json FILE.", ctx)
    if om is not None and mode not in ("1", "6"):
        raise click.UsageError("--om is for --mode 1 and 6; give the model as --model.", ctx)
    if om is not None and model is not None and om != model:
        raise click.UsageError("--om and --model name different files; give one.", ctx)
    chosen = om or model
    if chosen is None:
        name = "--om' or '--model" if mode in ("1", "6") else "--model"
        raise click.UsageError(f"Missing option '{name}'.", ctx)
    if om is not None and _is_compiled(om):
        hint = "give the ONNX model that it was made from"
        raise UsageError(
            "the model is one that ATC has compiled", where=str(om), hint=hint, code="E10001"
        )
    return chosen


def show_information(model: Path, found: Sequence[str]) -> None:
    """Mode 6."""
    from fusionc.disk.load import load
    from fusionc.report.model_info import information
    from fusionc.report.table import show_facts

    show_facts([*information(load(model)), *(("notice", notice) for notice in found)], sys.stdout)


def write_json(model: Path, file: Path, found: Sequence[str], *, shapes: bool) -> None:
    """Mode 1."""
    from fusionc.disk.load import load
    from fusionc.report.model_info import model_as_json
    from fusionc.report.table import show_facts

    require_unread(file, "--json", {model: "the model itself"})
    write_text(file, model_as_json(load(model), shapes=shapes))
    show_facts([("output", str(file)), *(("notice", notice) for notice in found)], sys.stdout)


def check(model: Path, check_report: Path | None, target: str, found: Sequence[str]) -> None:
    """Mode 3. Raises FusioncError where the model would not run."""
    from fusionc.inspect.precheck import precheck
    from fusionc.report.table import show_facts, show_table

    file = check_report or Path(variable("WORK_PATH") or "", "check_result.json")
    require_unread(file, "--check_report", {model: "the model itself"})
    result = precheck(model, target)
    write_text(file, json.dumps(result, indent=4, ensure_ascii=False) + "\n")
    causes = [cause["message"] for cause in result.get("cause", ())]
    failed = [
        [entry["name"], entry["type"], " ".join(cause["message"].split())]
        for entry in result["op"]
        for cause in entry.get("cause", ())
    ]
    if failed:
        show_table(["node", "operator", "because"], failed, sys.stdout)
    count = f"{result['total']}: {result['pass']} pass, {result['fail']} fail"
    if causes and not failed:
        count += ", and the model as a whole fails"
    facts = [("operators", count), ("output", str(file))]
    show_facts([*facts, *(("notice", notice) for notice in found)], sys.stdout)
    if result["result"] != "success":
        what = "; ".join(
            [
                *(
                    [f"{result['fail']} of {result['total']} operators do not run"]
                    if failed
                    else []
                ),
                *causes,
            ]
        )
        hint = "the file says why; --target onnx checks for any runtime" if failed and target != "onnx" else (
            "the file says why; export the model again"
        )  # fmt: skip
        raise FusioncError(
            f"the model fails the check: {what}", where=str(file), hint=hint, code="E19010"
        )


def _is_compiled(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MARK_OF_OM)) == _MARK_OF_OM
    except OSError:  # whoever reads it next says so
        return False
